"""NumPy's differences, gradients, integrals and polynomials on tracers."""

from __future__ import annotations

from typing import Any

from ...errors import Unsupported
from ..recorder import Recorder
from .reduce import numpy_function


def ediff1d(recorder: Recorder, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    flat = recorder.apply("reshape", ary, -1)
    if to_end is to_begin is None:
        return numpy_function(recorder, "diff", flat, prepend=None, append=None)
    return concat_flat(recorder, to_begin, recorder.apply("diff", flat), to_end)


def concat_flat(recorder: Recorder, *parts: Any) -> Any:
    rows = [recorder.apply("reshape", part, -1) for part in parts if part is not None]
    return recorder.apply("concat", tuple(rows), 0)


def trapezoid(recorder: Recorder, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    steps: Any = dx
    y, axis_number = recorder.strong(y), recorder.axis(y, axis)
    if x is not None:
        x = recorder.strong(x)
        steps = numpy_function(recorder, "diff", x, axis=axis if x.ndim > 1 else -1)
        if steps.ndim == 1:
            steps = steps[(slice(None), *[None] * (y.ndim - axis_number - 1))]
    cut = [slice(None)] * axis_number
    pairs = y[(*cut, slice(1, None))] + y[(*cut, slice(None, -1))]
    return numpy_function(recorder, "sum", steps * pairs / 2.0, axis=axis)


def gradient(recorder: Recorder, f: Any, *spacing: Any, axis: Any = None, edge_order: int = 1) -> Any:
    axes = recorder.axes(f, axis)
    steps = [*spacing] * (len(axes) if len(spacing) == 1 else 1) or [1.0] * len(axes)
    if edge_order != 1 or any(not isinstance(s, (int, float)) for s in steps):
        raise Unsupported(
            "gradient with uneven steps or edge_order=2 is not supported",
            "unsupported.function",
            help="write the differences: (f[2:] - f[:-2]) / (x[2:] - x[:-2])",
        )
    results = [_slope(recorder, f, a, step) for a, step in zip(axes, steps)]
    return results[0] if len(results) == 1 else tuple(results)


def _slope(recorder: Recorder, f: Any, axis: int, step: Any) -> Any:
    """gradient along one axis: central differences, one-sided at the ends."""
    f = f if f.dtype.kind == "f" else recorder.apply("astype", f, "float64")

    def part(start: Any, stop: Any) -> Any:
        return f[(*[slice(None)] * axis, slice(start, stop))]

    middle = (part(2, None) - part(None, -2)) / (2.0 * step)
    ends = (part(1, 2) - part(None, 1)) / step, (part(-1, None) - part(-2, -1)) / step
    return recorder.apply("concat", (ends[0], middle, ends[1]), axis)


def polyval(recorder: Recorder, p: Any, x: Any) -> Any:
    from .creation import call_creator

    p, x = call_creator(recorder, "asarray", (p,), {}), recorder.strong(x)
    result: Any = recorder.apply("zeros_like", x)
    for k in range(len(p)):
        result = result * x + p[k]
    return result
