"""torch.nn.functional's pooling on tracers: a window is as many strided slices as it has elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError, ShapeError, Unsupported
from .torch_functions import TABLE, language
from .torch_reductions import amax, mean

LARGEST = 256  # elements of a window, each a read of its own


def _each(value: Any, axes: int) -> tuple[int, ...]:
    """One integer for each axis."""
    parts = tuple(int(v) for v in (value if isinstance(value, (tuple, list)) else (value,)))
    if len(parts) not in (1, axes):
        raise ArgumentError(
            f"{len(parts)} numbers for {axes} dimensions", code="argument.pool", help="give one, or all"
        )
    return parts * axes if len(parts) == 1 else parts


def _padded(x: Any, padding: tuple[int, ...], value: float) -> Any:
    """`x` with so many more elements at both ends of its last axes."""
    if not any(padding):
        return x
    widths = ((0, 0),) * (x.ndim - len(padding)) + tuple((p, p) for p in padding)
    return language("pad", x, widths, "constant", constant_values=value)


def _windows(x: Any, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> list[Any]:
    """The slices of `x` that hold the first, the second … element of every window of its last axes."""
    if math.prod(kernel) > LARGEST:
        raise Unsupported(f"windows of {math.prod(kernel)} elements are not there yet", code="unsupported.pool",
                          help=f"at most {LARGEST}; for all of a dimension use mean or amax")  # fmt: skip
    counts = []
    for extent, k, s, d in zip(x.shape[-len(kernel) :], kernel, stride, dilation):
        reach = d * (k - 1)
        if extent <= reach:
            raise ShapeError(f"a window of {reach + 1} over {int(extent)} elements", code="shape.pool",
                             help="choose a smaller kernel_size, or pad")  # fmt: skip
        counts.append((extent - reach - 1) // s)
    found = []
    for place in itertools.product(*map(range, kernel)):
        parts = [slice(i * d, i * d + c * s + 1, s) for i, d, c, s in zip(place, dilation, counts, stride)]
        found.append(x[(..., *parts)])
    return found


def _joined(parts: list[Any], join: Callable[[Any, Any], Any]) -> Any:
    found = parts[0]
    for part in parts[1:]:
        found = join(found, part)
    return found


def _plain(input: Any, axes: int, ceil_mode: bool) -> None:
    if ceil_mode:
        raise Unsupported("ceil_mode is not there yet", code="unsupported.pool", help="pad the input")
    if input.ndim not in (axes + 1, axes + 2):
        raise ShapeError(f"pooling over {axes} dimensions of {input.ndim}", code="shape.pool",
                         help="(batch, channels, ...), or (channels, ...)")  # fmt: skip


def _pooling(axes: int) -> None:
    def avg_pool(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
                 divisor_override=None):  # fmt: skip
        _plain(input, axes, ceil_mode)
        kernel = _each(kernel_size, axes)
        steps, pad = _each(stride, axes) if stride else kernel, _each(padding, axes)

        def total(x: Any) -> Any:
            return _joined(_windows(_padded(x, pad, 0), kernel, steps, (1,) * axes), lambda a, b: a + b)

        def share(whole: Any, count: Any) -> Any:
            return TABLE["div"](whole, count, rounding_mode=None if input.is_floating_point() else "trunc")

        if count_include_pad or not any(pad) or divisor_override:
            return share(total(input), divisor_override or math.prod(kernel))
        return share(total(input), total(language("ones_like", input)))

    def max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        _plain(input, axes, ceil_mode)
        if return_indices:
            raise Unsupported("return_indices is not there yet", code="unsupported.pool", help="take the values alone")
        kernel, dilations = _each(kernel_size, axes), _each(dilation, axes)
        steps = _each(stride, axes) if stride else kernel
        padded = _padded(input, _each(padding, axes), -math.inf)
        return _joined(_windows(padded, kernel, steps, dilations), lambda a, b: language("maximum", a, b))

    def adaptive(reduce: Callable[..., Any]) -> Callable[..., Any]:
        def pool(input, output_size, return_indices=False):
            sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,)
            if return_indices or any(n is None or n != 1 for n in sizes):
                raise Unsupported(
                    "adaptive pooling to more than one element is not there yet", code="unsupported.pool",
                    help="avg_pool and max_pool with a kernel_size",
                )  # fmt: skip
            return reduce(input, tuple(range(-axes, 0)), True)

        return pool

    TABLE[f"avg_pool{axes}d"], TABLE[f"max_pool{axes}d"] = avg_pool, max_pool
    TABLE[f"adaptive_avg_pool{axes}d"], TABLE[f"adaptive_max_pool{axes}d"] = adaptive(mean), adaptive(amax)


for _axes in (1, 2, 3):
    _pooling(_axes)
