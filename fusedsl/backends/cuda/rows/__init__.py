"""Row reductions: folds along the contiguous axis, for each row."""
