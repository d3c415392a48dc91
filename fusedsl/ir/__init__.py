"""Layer 1: types, the typed graph, the tables of operations and folds, and their semantics in NumPy."""
