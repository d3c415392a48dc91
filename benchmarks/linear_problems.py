"""Linear layers with what follows them, as functions of torch: the kinds of problems that KernelBench's level 2 has.

Each function takes arrays named as in its declaration, "x: nd, w: dh, b: h", a letter an axis. torch is imported where
one is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

DIMS = {"n": 4096, "d": 4096, "h": 4096, "m": 4096}
SMALL = {"n": 6, "d": 40, "h": 64, "m": 24}
GROUPS = 16


@dataclass(frozen=True)
class Problem:
    """A function, its declaration, and the dtypes that are timed."""

    function: Callable
    declared: str
    dtypes: tuple[str, ...] = ("bfloat16",)

    @property
    def name(self) -> str:
        return self.function.__name__.replace("_", " ")

    @property
    def letters(self) -> dict[str, str]:
        return {name.strip(): axes.strip() for name, axes in (one.split(":") for one in self.declared.split(","))}

    @property
    def sizes(self) -> dict[str, int]:
        """Extents of use, by letter."""
        return {letter: DIMS[letter] for letter in dict.fromkeys("".join(self.letters.values()))}

    def shapes(self, sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
        return {name: tuple(sizes[axis] for axis in axes) for name, axes in self.letters.items()}

    @property
    def flops(self) -> int:
        """Of the products: every weight meets every row of x."""
        rows, found = self.sizes["n"], 0
        for name, shape in self.shapes(self.sizes).items():
            found += 2 * rows * shape[0] * shape[1] if name.startswith("w") else 0
        return found


def gelu_softmax(x, w, b):
    import torch

    return torch.softmax(torch.nn.functional.gelu(x @ w + b), -1)


def swish_clamp_tanh(x, w, b):
    import torch

    y = torch.nn.functional.silu(x @ w + b) / 2
    return torch.clamp(torch.tanh(torch.clamp(y, -1.0, 1.0)), -1.0, 1.0)


def subtract_multiply_relu(x, w, b):
    import torch

    return torch.relu((x @ w + b - 2.0) * 1.5)


def multiply_leaky_relu(x, w, b):
    import torch

    return torch.nn.functional.leaky_relu((x @ w + b) * 2.0, 0.1)


def mish_twice(x, w, b):
    import torch

    return torch.nn.functional.mish(torch.nn.functional.mish(x @ w + b))


def divide_sum_scale(x, w):
    return (x @ w / 2).sum(1, keepdim=True) * 1.5


def sigmoid_sum(x, w, b):
    import torch

    return torch.sigmoid(x @ w + b).sum(1, keepdim=True)


def logsumexp_activations(x, w, b):
    import torch

    y = torch.logsumexp(x @ w + b, 1, keepdim=True)
    y = torch.nn.functional.leaky_relu(torch.nn.functional.leaky_relu(y, 0.01), 0.01)
    return torch.nn.functional.gelu(torch.nn.functional.gelu(y))


def scale_residual_clamp(x, w, b):
    import torch

    y = (x @ w + b) * 2.0
    y = torch.clamp(y + y, -10.0, 10.0)
    y = torch.logsumexp(y, 1, keepdim=True)
    return y * torch.nn.functional.mish(y)


def sigmoid_residual(x, w, b):
    import torch

    y = x @ w + b
    return y + 2.0 * torch.sigmoid(y)


def group_norm_hardtanh(x, w, b, g, e):
    import torch

    y = torch.nn.functional.group_norm(x @ w + b, GROUPS, g, e)
    return torch.clamp(y, -2.0, 2.0)


def swish_bias_group_norm(x, w, b, c, g, e):
    import torch

    y = torch.nn.functional.silu(x @ w + b) + c
    return torch.nn.functional.group_norm(y, GROUPS, g, e)


def group_norm_swish_twice(x, w, b, g, e, c):
    import torch

    y = torch.nn.functional.silu(torch.nn.functional.group_norm(x @ w + b, GROUPS, g, e))
    return torch.nn.functional.silu(y * c)


def batch_norm_softmax(x, w, b, g, e):
    import torch

    y = x @ w + b
    y = (y - y.mean(0)) * torch.rsqrt(y.var(0, unbiased=False) + 1e-5) * g + e
    return torch.softmax(y, 1)


def batch_norm_swish(x, w, b, g, e):
    import torch

    y = x @ w + b
    y = (y - y.mean(0)) * torch.rsqrt(y.var(0, unbiased=False) + 1e-5) * g + e
    return torch.nn.functional.silu(y)


def minimum_subtract(x, w, b):
    import torch

    return torch.clamp(x @ w + b, max=2.0) - 2.0


def mean_logsumexp_residual(x, w, b, c):
    import torch

    y = (x @ w + b - c).mean(1, keepdim=True)
    return torch.nn.functional.gelu(torch.logsumexp(y, 1, keepdim=True)) + x


def maximum_subtract(x, w, b):
    import torch

    y = (x @ w + b).amax(1, keepdim=True)
    return torch.nn.functional.gelu(y - y.mean(1, keepdim=True))


def add_relu(x, w, c):
    import torch

    return torch.relu(x @ w + c)


def divide_gelu(x, w, b):
    import torch

    return torch.nn.functional.gelu((x @ w + b) / 10.0)


def add_swish_tanh_gelu(x, w, b, c):
    import torch

    y = torch.nn.functional.silu(x @ w + b + c)
    return torch.nn.functional.hardtanh(torch.nn.functional.gelu(torch.tanh(y)))


def pooled_gelu_maximum(x, w, b):
    import torch

    y = torch.nn.functional.avg_pool1d((x @ w + b)[:, None], 16)[:, 0]
    return (torch.nn.functional.gelu(y) * 2.0).amax(1)


def bias_hardtanh_mish_group_norm(x, w, b, c, g, e):
    import torch

    y = torch.nn.functional.mish(torch.nn.functional.hardtanh(x @ w + b + c))
    return torch.nn.functional.group_norm(y, GROUPS, g, e)


def two_layers_logsumexp(x, w1, b1, w2, b2):
    import torch

    y = torch.sigmoid(x @ w1 + b1)
    return torch.logsumexp(y @ w2 + b2, 1)


def instance_norm_residual(x, w, b, r):
    import torch

    y = x @ w + b
    y = torch.nn.functional.layer_norm(y, y.shape[-1:])
    return (y + r) * r


LINEAR, NORMED = "x: nd, w: dh, b: h", "x: nd, w: dh, b: h, g: h, e: h"
PROBLEMS = (
    Problem(gelu_softmax, LINEAR, ("bfloat16", "float32")),
    Problem(swish_clamp_tanh, LINEAR, ("bfloat16", "float32")),
    Problem(subtract_multiply_relu, LINEAR),
    Problem(multiply_leaky_relu, LINEAR),
    Problem(mish_twice, LINEAR),
    Problem(divide_sum_scale, "x: nd, w: dh"),
    Problem(sigmoid_sum, LINEAR),
    Problem(logsumexp_activations, LINEAR),
    Problem(scale_residual_clamp, LINEAR),
    Problem(sigmoid_residual, LINEAR),
    Problem(group_norm_hardtanh, NORMED),
    Problem(swish_bias_group_norm, "x: nd, w: dh, b: h, c: h, g: h, e: h"),
    Problem(group_norm_swish_twice, "x: nd, w: dh, b: h, g: h, e: h, c: h"),
    Problem(batch_norm_softmax, NORMED),
    Problem(batch_norm_swish, NORMED),
    Problem(minimum_subtract, LINEAR),
    Problem(mean_logsumexp_residual, "x: nd, w: dd, b: d, c: d"),
    Problem(maximum_subtract, LINEAR),
    Problem(add_relu, "x: nd, w: dh, c: h"),
    Problem(divide_gelu, LINEAR),
    Problem(add_swish_tanh_gelu, "x: nd, w: dh, b: h, c: h"),
    Problem(pooled_gelu_maximum, LINEAR),
    Problem(bias_hardtanh_mish_group_norm, "x: nd, w: dh, b: h, c: h, g: h, e: h"),
    Problem(two_layers_logsumexp, "x: nd, w1: dh, b1: h, w2: hm, b2: m"),
    Problem(instance_norm_residual, "x: nd, w: dh, b: h, r: nh"),
)
BY_NAME = {p.name: p for p in PROBLEMS}
