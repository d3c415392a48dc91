"""Column reductions: folds over rows, for each column."""
