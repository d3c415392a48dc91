"""torch.nn.functional's pooling and other window functions on tracers: one strided slice for each window element."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ArgumentError, ShapeError, Unsupported
from ...lang.declared_signatures import Refusal, declared
from .functions import TABLE, language, torch_function
from .reductions import amax, mean

NO_INDICES = Refusal("return_indices", "return_indices is not supported", "take the values alone", "unsupported.pool")
MOST_SLICES = 256  # most elements of a window, and most windows of adaptive pooling: each is a separate read


def _ntuple(value: Any, axes: int) -> tuple[int, ...]:
    """One integer for each axis."""
    parts = tuple(int(v) for v in (value if isinstance(value, (tuple, list)) else (value,)))
    if len(parts) not in (1, axes):
        raise ArgumentError(f"{len(parts)} numbers for {axes} dimensions", "argument.pool", help="give one, or all")
    return parts * axes if len(parts) == 1 else parts


def _padded(x: Any, widths: Sequence[tuple[int, int]], value: float) -> Any:
    """`x` padded before and behind its last axes."""
    if not any(map(any, widths)):
        return x
    return language("pad", x, (*[(0, 0)] * (x.ndim - len(widths)), *widths), "constant", constant_values=value)


def _ceil_mode_padding(
    x: Any, kernel: tuple[int, ...], steps: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...]
) -> list[tuple[int, int]]:
    """ceil_mode: the padding behind each axis that completes a last, partial window."""
    results = []
    for extent, k, s, p, d in zip(x.shape[-len(kernel) :], kernel, steps, padding, dilation):
        n, reach = int(extent), d * (k - 1) + 1
        starts = -((n + 2 * p - reach) // -s)
        starts -= starts * s >= n + p
        results.append((0, max(0, starts * s + reach - n - 2 * p)))
    return results


def _windows(x: Any, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> list[Any]:
    """Slices of `x` with the first, second, … element of every window of its last axes."""
    if math.prod(kernel) > MOST_SLICES:
        raise Unsupported(f"windows of {math.prod(kernel)} elements are not supported", "unsupported.pool",
                          help=f"at most {MOST_SLICES}; for all of a dimension use mean or amax")  # fmt: skip
    counts = []
    for extent, k, s, d in zip(x.shape[-len(kernel) :], kernel, stride, dilation):
        reach = d * (k - 1)
        if extent <= reach:
            raise ShapeError(f"a window of {reach + 1} over {int(extent)} elements", "shape.pool",
                             help="choose a smaller kernel_size, or pad")  # fmt: skip
        counts.append((extent - reach - 1) // s)
    results = []
    for offset in itertools.product(*map(range, kernel)):
        parts = [slice(i * d, i * d + c * s + 1, s) for i, d, c, s in zip(offset, dilation, counts, stride)]
        results.append(x[(..., *parts)])
    return results


def _joined(parts: list[Any], join: Callable[[Any, Any], Any]) -> Any:
    result = parts[0]
    for part in parts[1:]:
        result = join(result, part)
    return result


def _check(input: Any, axes: int) -> None:
    if input.ndim not in (axes + 1, axes + 2):
        raise ShapeError(f"pooling over {axes} dimensions of {input.ndim}", "shape.pool",
                         help="(batch, channels, ...), or (channels, ...)")  # fmt: skip


@dataclass(frozen=True)
class _Windows:
    """Windows over the last axes: their extents, steps, dilation, padding on both sides, and what ceil_mode adds."""

    kernel: tuple[int, ...]
    steps: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    ceil_mode_padding: list[tuple[int, int]]

    def combined(self, x: Any, join: Callable[[Any, Any], Any]) -> Any:
        """The elements of each window, joined."""
        return _joined(_windows(x, self.kernel, self.steps, self.dilation), join)


def _windows_over(axes: int) -> Callable[..., _Windows]:
    """The windows of pooling over so many axes, from torch's arguments."""

    def windows(
        input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, dilation: Any = 1
    ) -> _Windows:
        _check(input, axes)
        kernel, dilations, pad = _ntuple(kernel_size, axes), _ntuple(dilation, axes), _ntuple(padding, axes)
        steps = _ntuple(stride, axes) if stride else kernel
        ceil_mode_padding = _ceil_mode_padding(input, kernel, steps, pad, dilations) if ceil_mode else [(0, 0)] * axes
        return _Windows(kernel, steps, dilations, pad, ceil_mode_padding)

    return windows


def _avg_pool(axes: int) -> Callable[..., Any]:
    """F.avg_pool over the last axes."""

    @declared(
        "input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None"
    )
    def avg_pool(input, count_include_pad, divisor_override, **given):
        windows = _windows_over(axes)(input, **given)
        both = [(p, p) for p in windows.padding]

        def total(x: Any) -> Any:
            return windows.combined(_padded(x, windows.ceil_mode_padding, 0), lambda a, b: a + b)

        def share(whole: Any, count: Any) -> Any:
            return TABLE["div"](whole, count, rounding_mode=None if input.is_floating_point() else "trunc")

        whole, ones = total(_padded(input, both, 0)), language("ones_like", input)
        partial = any(map(any, windows.ceil_mode_padding)) or (any(windows.padding) and not count_include_pad)
        if divisor_override or not partial:
            return share(whole, divisor_override or math.prod(windows.kernel))
        return share(whole, total(_padded(ones, both, 1 if count_include_pad else 0)))

    return avg_pool


def _max_pool(axes: int) -> Callable[..., Any]:
    """F.max_pool over the last axes."""

    @declared(
        "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False", NO_INDICES
    )
    def max_pool(input, kernel_size, stride, padding, dilation, ceil_mode):
        windows = _windows_over(axes)(input, kernel_size, stride, padding, ceil_mode, dilation)
        padded = _padded(
            input, [(p, p + more) for p, (_, more) in zip(windows.padding, windows.ceil_mode_padding)], -math.inf
        )
        return windows.combined(padded, lambda a, b: language("maximum", a, b))

    return max_pool


def _adaptive_pool(axes: int, reduce: Callable[..., Any]) -> Callable[..., Any]:
    """Adaptive pooling: a given number of windows, each reduced."""

    @declared("input, output_size, return_indices=False", NO_INDICES)
    def pool(input, output_size):
        _check(input, axes)
        sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * axes
        if all(n == 1 for n in sizes):
            return reduce(input, tuple(range(-axes, 0)), True)
        for k, n in zip(range(-axes, 0), sizes):
            input = input if n is None else _adapted(input, k, int(n), reduce)
        return input

    return pool


def _adapted(x: Any, axis: int, n: int, reduce: Callable[..., Any]) -> Any:
    """`x` with an axis, counted from the last, reduced to `n` windows, which overlap if `n` does not divide it."""
    extent = int(x.shape[axis])
    if n and extent % n == 0:
        parts = x.reshape(*x.shape[:axis], n, extent // n, *x.shape[x.ndim + axis + 1 :])
        return reduce(parts, axis, False)
    if n < 1:
        raise ArgumentError(f"pooling to {n} elements", "argument.range", help="output_size is 1 or more")
    if n > MOST_SLICES:
        raise Unsupported(f"adaptive pooling of {extent} to {n} elements", "unsupported.pool",
                          help=f"at most {MOST_SLICES}, or a divisor")  # fmt: skip
    bounds = [(k * extent // n, -((k + 1) * extent // -n)) for k in range(n)]
    cut = (slice(None),) * (x.ndim + axis)
    return language("concat", tuple(reduce(x[(*cut, slice(a, b))], axis, True) for a, b in bounds), axis)


@torch_function()
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha mean(x^2 over `size` channels))^beta."""
    if input.ndim < 3:
        raise ShapeError(f"local_response_norm of {input.ndim} dimensions", "shape.norm",
                         help="(batch, channels, ...)")  # fmt: skip
    rest = [(0, 0)] * (input.ndim - 2)
    squares = _padded(input * input, [(size // 2, (size - 1) // 2), *rest], 0)
    channels = input.shape[1]
    near = _joined([squares[:, first : first + channels] for first in range(size)], lambda a, b: a + b)
    return input / (near / size * alpha + k) ** beta


@torch_function()
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """unfold (im2col), of (batch, channels, height, width): each window as a column of the result."""
    _check(input, 2)
    if input.ndim == 3:
        return unfold(input[None], kernel_size, dilation, padding, stride)[0]
    kernel, dilations, steps = _ntuple(kernel_size, 2), _ntuple(dilation, 2), _ntuple(stride, 2)
    padded = _padded(input, [(p, p) for p in _ntuple(padding, 2)], 0)
    result = language("stack", tuple(_windows(padded, kernel, steps, dilations)), 2)
    batch, channels, _, high, wide = result.shape
    return result.reshape(batch, channels * math.prod(kernel), high * wide)


@torch_function("Tensor.unfold", "unfold_copy")
def unfolded(input, dimension, size, step):
    """Tensor.unfold: all slices of `size` elements, `step` apart, along a dimension, with a new last dimension."""
    return language("stack", tuple(_windows_of_one(input, dimension, size, step)), -1)


def _windows_of_one(x: Any, axis: int, size: int, step: int) -> list[Any]:
    swapped = x.transpose(axis, -1)
    return [part.transpose(axis, -1) for part in _windows(swapped, (size,), (step,), (1,))]


for _axes in (1, 2, 3):
    TABLE[f"avg_pool{_axes}d"], TABLE[f"max_pool{_axes}d"] = _avg_pool(_axes), _max_pool(_axes)
    TABLE[f"adaptive_avg_pool{_axes}d"] = _adaptive_pool(_axes, mean)
    TABLE[f"adaptive_max_pool{_axes}d"] = _adaptive_pool(_axes, amax)
