"""Softmax along rows: five passes over memory in NumPy, one kernel that reads once and writes once here.

python examples/softmax.py [--device cuda] [--size 65536]
"""

from _comparison import arguments, compare, library, normal

import fusedsl as fd

# The function softmax is defined in just this way: see fusedsl/lang/prelude.fd.
softmax = fd.kernel("""
    e = exp(x - max(x, axis=-1, keepdims=True))
    e / sum(e, axis=-1, keepdims=True)
""")


def main() -> None:
    chosen = arguments(__doc__, 256)
    xp = library(chosen.device)

    def unfused(x):
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    x = normal(xp, chosen.size, 1024)
    compare(f"softmax of float32{list(x.shape)} on {chosen.device}", softmax, unfused, [x])


if __name__ == "__main__":
    main()
