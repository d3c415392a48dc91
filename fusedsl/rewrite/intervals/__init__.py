"""Block-mask analysis: conditions on a whole tile, by interval arithmetic and three-valued logic."""
