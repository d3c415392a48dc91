"""Layer 4: arrays lowered to scalars over axes, and cut into the fewest kernels."""
