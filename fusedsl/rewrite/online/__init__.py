"""Online reductions: which folds that depend on each other share one pass."""
