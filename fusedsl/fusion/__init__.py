"""Layer 4: a graph of arrays lowered to scalars over axes, and partitioned into the fewest kernels."""
