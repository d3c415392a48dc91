"""Activations: GELU as an ordinary NumPy function with a decorator, SwiGLU as an expression.

python examples/gelu_swiglu.py [--device cuda] [--size 65536]
"""

import numpy as np
from _comparison import arguments, compare, library, normal

import fusedsl as fd


def gelu_unfused(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))  # NumPy's x**3 takes 30 times as long


gelu = fd.fuse(gelu_unfused)  # the same as writing @fd.fuse above it; np.tanh of a CuPy array is CuPy's
swiglu = fd.kernel("g * sigmoid(g) * u")


def main() -> None:
    chosen = arguments(__doc__, 256)
    xp = library(chosen.device)

    def swiglu_unfused(g, u):
        return g * (1 / (1 + xp.exp(-g))) * u

    g, u = normal(xp, chosen.size, 1024), normal(xp, chosen.size, 1024, seed=1)
    compare(f"GELU of float32{list(g.shape)} on {chosen.device}", gelu, gelu_unfused, [g])
    compare(f"SwiGLU of two float32{list(g.shape)} on {chosen.device}", swiglu, swiglu_unfused, [g, u])


if __name__ == "__main__":
    main()
