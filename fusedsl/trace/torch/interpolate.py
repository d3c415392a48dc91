"""torch.nn.functional.interpolate on tracers: gathers at indices computed from the sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import ArgumentError
from ...lang.declared_signatures import Refusal, declared
from .functions import TABLE, language, need_float, recorder_of, torch_function

LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}


NOT_THERE = Refusal(
    "antialias", "interpolate(mode={mode!r}, antialias={antialias}) is not supported",
    "nearest, nearest-exact, area, linear, bilinear, trilinear", "unsupported.interpolate",
)  # fmt: skip


@torch_function()
@declared(
    "input, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None, "
    "antialias=False",
    NOT_THERE,
)
def interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor):
    axes = input.ndim - 2
    if mode not in ("nearest", "nearest-exact", "area", *LINEAR):
        raise NOT_THERE.error({"mode": mode, "antialias": False})
    if (size is None) == (scale_factor is None) or LINEAR.get(mode, axes) != axes:
        raise ArgumentError(
            f"interpolate of {axes} dimensions as {mode}", "argument.choice",
            help="give size or scale_factor; linear is for one dimension, bilinear for two, trilinear for three",
        )  # fmt: skip
    given = size if scale_factor is None else scale_factor
    parts = tuple(given) if isinstance(given, (tuple, list)) else (given,) * axes
    old = [int(n) for n in input.shape[2:]]
    new = [int(n) for n in parts] if scale_factor is None else [math.floor(n * s) for n, s in zip(old, parts)]
    if mode == "area":
        return TABLE[f"adaptive_avg_pool{axes}d"](input, new)
    given_scale = scale_factor is not None and not recompute_scale_factor
    steps = [1 / s if given_scale else n / m for n, m, s in zip(old, new, parts)]
    if mode in LINEAR:
        need_float("interpolate", input)
    for k, (n, m, step) in enumerate(zip(old, new, steps)):
        input = _linear(input, k + 2, n, m, step, align_corners) if mode in LINEAR else _nearest(
            input, k + 2, n, m, step, 0.5 if mode == "nearest-exact" else 0.0
        )  # fmt: skip
    return input


def _take_along(x: Any, indices: np.ndarray, axis: int) -> Any:
    return language("take", x, recorder_of(x).like_arguments(indices.astype(np.int64)), axis)


def _nearest(x: Any, axis: int, n: int, m: int, step: float, shift: float) -> Any:
    if m % n == 0 and step == n / m:
        return x if m == n else language("repeat", x, m // n, axis)
    indices = np.floor((np.arange(m, dtype=np.float32) + np.float32(shift)) * np.float32(step))
    return _take_along(x, np.minimum(indices, n - 1), axis)


def _linear(x: Any, axis: int, n: int, m: int, step: float, corners: Any) -> Any:
    """Linear interpolation along one axis, between the two nearest elements."""
    line = np.arange(m, dtype=np.float64)
    at = line * ((n - 1) / (m - 1) if m > 1 else 0.0) if corners else np.maximum((line + 0.5) * step - 0.5, 0)
    first = np.minimum(np.floor(at), n - 1)
    share = recorder_of(x).lifted(recorder_of(x).like_arguments(at - first)).to(x.dtype)
    share = share.reshape(-1, *[1] * (x.ndim - 1 - axis))
    return _take_along(x, first, axis) * (1 - share) + _take_along(x, np.minimum(first + 1, n - 1), axis) * share


TABLE["upsample_nearest"] = lambda input, size=None, scale_factor=None: interpolate(input, size, scale_factor)


@torch_function()
def upsample_bilinear(input, size=None, scale_factor=None):
    return interpolate(input, size, scale_factor, dict(zip(LINEAR.values(), LINEAR))[input.ndim - 2], True)
