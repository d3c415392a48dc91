"""NumPy's functions that are formulas of others, on tracers: averages, the nan family, norms, choices, products."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import Unsupported

if TYPE_CHECKING:
    from .recorder import Recorder


def _numpy(recorder: Recorder, name: str, *args: Any, **kwargs: Any) -> Any:
    """NumPy's function on tracers."""
    from .numpy_functions import call_function

    return call_function(recorder, name, args, kwargs)


def _average(recorder: Recorder, a: Any, axis: Any = None, weights: Any = None, returned: bool = False, **named: Any):
    keepdims = named.get("keepdims", False)
    keepdims = False if keepdims is np._NoValue else keepdims
    if returned:
        raise Unsupported(
            "average(returned=True) is not there yet",
            code="unsupported.function",
            help="return np.sum(weights) beside it",
        )
    if weights is None:
        return _numpy(recorder, "mean", a, axis=axis, keepdims=keepdims)
    weights = recorder.lifted(weights)
    if axis is not None and weights.ndim == 1 and a.ndim > 1:
        weights = weights[(slice(None), *[None] * (a.ndim - axis % a.ndim - 1))]
    total = _numpy(recorder, "sum", a * weights, axis=axis, keepdims=keepdims)
    each = recorder.apply("broadcast_to", weights, a.shape)
    return total / _numpy(recorder, "sum", each, axis=axis, keepdims=keepdims)


def _ptp(recorder: Recorder, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    high, low = (_numpy(recorder, name, a, axis=axis, keepdims=keepdims) for name in ("max", "min"))
    return high - low


def _nan_as(name: str, value: float, **where_empty: Any) -> Callable[..., Any]:
    """A function of the elements that are not NaN, which `value` leaves as they are."""

    def apply(recorder: Recorder, a: Any, axis: Any = None, *args: Any, **named: Any) -> Any:
        if recorder.node(a).type.dtype.kind != "f":
            return _numpy(recorder, name, a, axis, *args, **named)
        missing = recorder.apply("isnan", a)
        found = _numpy(recorder, name, recorder.apply("where", missing, value, a), axis, *args, **named)
        if "or" not in where_empty:
            return found
        keepdims = named.get("keepdims", False)
        empty = _numpy(recorder, "all", missing, axis, keepdims=keepdims)
        return recorder.apply("where", empty, where_empty["or"], found)

    return apply


def _nan_spread(name: str) -> Callable[..., Any]:
    def apply(recorder: Recorder, a: Any, axis: Any = None, dtype: Any = None, **named: Any) -> Any:
        return _numpy(recorder, name, a, axis, dtype, where=~recorder.apply("isnan", a), **named)

    return apply


def _norm(recorder: Recorder, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Of vectors: (sum |x|^ord)^(1/ord) and its limits. Of matrices: Frobenius', and the largest or least sum of a row
    or column."""
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    matrix = len(axes) == 2 or (axis is None and x.ndim == 2)
    if ord is None or (ord == "fro" and matrix) or (ord == 2 and not matrix):
        return recorder.apply("norm", x, axis, keepdims=keepdims)
    if matrix and ord in (1, -1, np.inf, -np.inf):
        rows, columns = (a % x.ndim for a in (axes if axis is not None else (0, 1)))
        added, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = recorder.apply("sum", abs(x), added, keepdims=True)
        found = recorder.apply("max" if ord > 0 else "min", sums, axis=other, keepdims=True)
        return found if keepdims else recorder.apply("squeeze", found, (rows, columns))
    if matrix or isinstance(ord, str) or (axis is None and x.ndim > 2):
        raise Unsupported(
            f"norm(ord={ord!r}) of matrices is not there yet",
            code="unsupported.function",
            help="'fro', 1, -1, inf and -inf are there",
        )
    size = abs(x)
    if abs(ord) == np.inf:
        return _numpy(recorder, "max" if ord > 0 else "min", size, axis=axis, keepdims=keepdims)
    if ord == 0:
        hits = recorder.apply("astype", x != 0, recorder.dtype(x.dtype))
        return recorder.apply("sum", hits, axis, keepdims=keepdims)
    size = size * 1.0 if x.dtype.kind != "f" else size
    return recorder.apply("sum", size**ord, axis, keepdims=keepdims) ** (1 / ord)


def _vector_norm(recorder: Recorder, x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    flat = x.reshape(-1) if axis is None and not keepdims else x
    return _norm(recorder, flat, None if ord == 2 else ord, axis, keepdims)


def _matrix_norm(recorder: Recorder, x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return _norm(recorder, x, ord, (-2, -1), keepdims)


def _cumulative(name: str, start: int) -> Callable[..., Any]:
    def apply(recorder: Recorder, x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None,
              include_initial: bool = False) -> Any:  # fmt: skip
        axis = 0 if axis is None and x.ndim == 1 else axis
        found = _numpy(recorder, name, x, axis=axis, dtype=dtype, out=out)
        if not include_initial:
            return found
        before = found[(*[slice(None)] * (axis % x.ndim), slice(None, 1))]
        return recorder.apply("concat", (recorder.apply("full_like", before, start), found), axis)

    return apply


def _ediff1d(recorder: Recorder, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    flat = recorder.apply("reshape", ary, -1)
    return _numpy(recorder, "diff", flat, prepend=None, append=None) if to_end is to_begin is None else _joined(
        recorder, to_begin, recorder.apply("diff", flat), to_end)  # fmt: skip


def _joined(recorder: Recorder, *parts: Any) -> Any:
    rows = [recorder.apply("reshape", part, -1) for part in parts if part is not None]
    return recorder.apply("concat", tuple(rows), 0)


def _trapezoid(recorder: Recorder, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    steps: Any = dx
    if x is not None:
        steps = _numpy(recorder, "diff", recorder.lifted(x), axis=axis if recorder.lifted(x).ndim > 1 else -1)
        if steps.ndim == 1:
            steps = steps[(slice(None), *[None] * (y.ndim - axis % y.ndim - 1))]
    cut = [slice(None)] * (axis % y.ndim)
    pairs = y[(*cut, slice(1, None))] + y[(*cut, slice(None, -1))]
    return _numpy(recorder, "sum", steps * pairs / 2.0, axis=axis)


def _gradient(recorder: Recorder, f: Any, *spacing: Any, axis: Any = None, edge_order: int = 1) -> Any:
    axes = range(f.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    steps = [*spacing] * (len(axes) if len(spacing) == 1 else 1) or [1.0] * len(axes)
    if edge_order != 1 or any(not isinstance(s, (int, float)) for s in steps):
        raise Unsupported(
            "gradient with uneven steps or edge_order=2 is not there yet",
            code="unsupported.function",
            help="write the differences: (f[2:] - f[:-2]) / (x[2:] - x[:-2])",
        )
    found = [_slope(recorder, f, a % f.ndim, step) for a, step in zip(axes, steps)]
    return found[0] if len(found) == 1 else tuple(found)


def _slope(recorder: Recorder, f: Any, axis: int, step: Any) -> Any:
    """Central differences, one-sided at the ends."""
    f = f if f.dtype.kind == "f" else recorder.apply("astype", f, "float64")

    def part(start: Any, stop: Any) -> Any:
        return f[(*[slice(None)] * axis, slice(start, stop))]

    middle = (part(2, None) - part(None, -2)) / (2.0 * step)
    ends = (part(1, 2) - part(None, 1)) / step, (part(-1, None) - part(-2, -1)) / step
    return recorder.apply("concat", (ends[0], middle, ends[1]), axis)


def _polyval(recorder: Recorder, p: Any, x: Any) -> Any:
    from .numpy_creation import call_creator

    p = call_creator(recorder, "asarray", (p,), {})
    found: Any = recorder.apply("zeros_like", x)
    for k in range(len(p)):
        found = found * x + p[k]
    return found


def _select(recorder: Recorder, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """The first choice whose condition holds, in the choices' common dtype."""
    found = default
    for condition, choice in reversed(list(zip(condlist, choicelist))):
        found = recorder.apply("where", condition, choice, found)
    return found


def _choose(recorder: Recorder, a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    if mode != "raise" or out is not None:
        raise Unsupported(
            "choose(mode=, out=) is not there yet",
            code="unsupported.function",
            help="clip the index first, and assign the result",
        )
    parts = list(choices)
    found = parts[-1]
    for k in reversed(range(len(parts) - 1)):
        found = recorder.apply("where", recorder.apply("equal", a, k), parts[k], found)
    return found


def _modf(recorder: Recorder, x: Any) -> Any:
    x = recorder.apply("as_float", x)
    whole = recorder.apply("trunc", x)
    rest = recorder.apply("where", recorder.apply("isinf", x), 0, x - whole)
    return recorder.apply("copysign", rest, x), whole


def _spacing(recorder: Recorder, x: Any) -> Any:
    beyond = recorder.apply("copysign", recorder.apply("full_like", x, np.inf), x)
    return recorder.apply("nextafter", x, beyond) - x


def _float_power(recorder: Recorder, x1: Any, x2: Any) -> Any:
    return recorder.apply("power", *(recorder.apply("astype", x, "float64") for x in (x1, x2)))


def _infinite(compare: str) -> Callable[..., Any]:
    def apply(recorder: Recorder, x: Any, out: Any = None) -> Any:
        return recorder.apply("isinf", x) & recorder.apply(compare, x, 0)

    return apply


# -- products


def _kron(recorder: Recorder, a: Any, b: Any) -> Any:
    rank = max(a.ndim, b.ndim)
    a, b = (x.reshape(*[1] * (rank - x.ndim), *x.shape) for x in map(recorder.lifted, (a, b)))
    left = a[tuple(part for _ in range(rank) for part in (slice(None), None))]
    right = b[tuple(part for _ in range(rank) for part in (None, slice(None)))]
    return (left * right).reshape(*(m * n for m, n in zip(a.shape, b.shape)))


def _cross(recorder: Recorder, a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None):
    """Of vectors of 3 elements."""
    parts = [recorder.lifted(x) for x in (a, b)]
    turned = [
        recorder.apply("swapaxes", x, place if axis is None else axis, -1) if place != -1 or axis is not None else x
        for x, place in zip(parts, (axisa, axisb))
    ]
    if any(int(x.shape[-1]) != 3 for x in turned):
        raise Unsupported("cross of vectors that have not 3 elements", code="unsupported.function",
                          help="a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0] for two")  # fmt: skip
    (x, y), roll = turned, lambda v, k: recorder.apply("roll", v, -k, -1)
    found = roll(x, 1) * roll(y, 2) - roll(x, 2) * roll(y, 1)
    back = axisc if axis is None else axis
    return found if back == -1 else recorder.apply("swapaxes", found, -1, back)


def _isin(recorder: Recorder, element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False,
          *, kind: Any = None) -> Any:  # fmt: skip
    among = recorder.lifted(recorder.array_like(test_elements) if isinstance(test_elements, list) else test_elements)
    flat = recorder.apply("reshape", among, (-1,))
    found = recorder.apply("any", recorder.apply("equal", recorder.lifted(element)[..., None], flat), -1)
    return recorder.apply("logical_not", found) if invert else found


def _cov(recorder: Recorder, m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None,
         fweights: Any = None, aweights: Any = None, *, dtype: Any = None) -> Any:  # fmt: skip
    """Of the rows, each a variable, or of the columns."""
    if y is not None or fweights is not None or aweights is not None or m.ndim > 2:
        raise Unsupported("cov with y or weights is not there yet", code="unsupported.function", help="np.cov(x)")
    m = recorder.apply("astype", m, recorder.dtype(np.result_type(m.dtype, np.float64) if dtype is None else dtype))
    rows = m[None] if m.ndim < 2 else m if rowvar else m.T
    apart = rows - _numpy(recorder, "mean", rows, axis=1, keepdims=True)
    count = rows.shape[1] - ((0 if bias else 1) if ddof is None else ddof)
    found = recorder.apply("matmul", apart, apart.T) / count
    return found if int(rows.shape[0]) > 1 else found[0, 0]


def _corrcoef(recorder: Recorder, x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    both = _cov(recorder, x, y, rowvar, dtype=dtype)
    if not both.ndim:
        return both / both
    lone = recorder.apply("sqrt", _numpy(recorder, "diagonal", both))
    return recorder.apply("clip", both / lone[:, None] / lone, -1, 1)


def _truth(recorder: Recorder, *args: Any, **named: Any) -> Any:
    raise recorder.no_value("the truth of an array", "return (x == y).all(), or np.isclose(x, y).all()")


FORMULAS: dict[str, Callable[..., Any]] = {
    "average": _average,
    "ptp": _ptp,
    "nanmax": _nan_as("max", -np.inf, **{"or": np.nan}),
    "nanmin": _nan_as("min", np.inf, **{"or": np.nan}),
    "nanargmax": _nan_as("argmax", -np.inf),
    "nanargmin": _nan_as("argmin", np.inf),
    "nanprod": _nan_as("prod", 1),
    "nancumsum": _nan_as("cumsum", 0),
    "nancumprod": _nan_as("cumprod", 1),
    "nanvar": _nan_spread("var"),
    "nanstd": _nan_spread("std"),
    "norm": _norm,
    "vector_norm": _vector_norm,
    "matrix_norm": _matrix_norm,
    "cross": _cross,
    "matvec": lambda recorder, x1, x2: recorder.apply("matmul", x1, recorder.lifted(x2)[..., None])[..., 0],
    "vecmat": lambda recorder, x1, x2: recorder.apply("matmul", recorder.lifted(x1)[..., None, :], x2)[..., 0, :],
    "isin": _isin,
    **dict.fromkeys(("allclose", "array_equal", "array_equiv"), _truth),
    "cumulative_sum": _cumulative("cumsum", 0),
    "cumulative_prod": _cumulative("cumprod", 1),
    "ediff1d": _ediff1d,
    "trapezoid": _trapezoid,
    "gradient": _gradient,
    "polyval": _polyval,
    "cov": _cov,
    "corrcoef": _corrcoef,
    "select": _select,
    "choose": _choose,
    "modf": _modf,
    "spacing": _spacing,
    "float_power": _float_power,
    "isposinf": _infinite("greater"),
    "isneginf": _infinite("less"),
    "kron": _kron,
}
