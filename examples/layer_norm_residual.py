"""A residual connection and its layer norm: two results from one kernel, which reads both inputs once.

python examples/layer_norm_residual.py [--device cuda] [--size 65536]
"""

from _comparison import arguments, compare, library, normal

import fusedsl as fd

add_layer_norm = fd.kernel("total = x + residual; return total, layer_norm(total, weight, bias)")


def main() -> None:
    chosen = arguments(__doc__, 256)
    xp = library(chosen.device)

    def unfused(x, residual, weight, bias):
        total = x + residual
        centred = total - xp.mean(total, axis=-1, keepdims=True)
        variance = xp.mean(centred * centred, axis=-1, keepdims=True)
        return total, centred / xp.sqrt(variance + 1e-5) * weight + bias

    x, residual = normal(xp, chosen.size, 1024), normal(xp, chosen.size, 1024, seed=1)
    weight, bias = normal(xp, 1024, seed=2), normal(xp, 1024, seed=3)
    title = f"residual + layer norm of float32{list(x.shape)} on {chosen.device}"
    compare(title, add_layer_norm, unfused, [x, residual, weight, bias])

    # In a network the sum replaces the residual: out= names it, and None lets fusedsl allocate the other result.
    total, _ = add_layer_norm(x, residual, weight, bias, out=(residual, None))
    print("written in place:", total is residual)


if __name__ == "__main__":
    main()
