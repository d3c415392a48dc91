"""NumPy's composite functions on tracers: averages, norms, covariances, gradients, select and choose, kron, cross."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import ArgumentError, ShapeError, Unsupported
from ...lang.declared_signatures import Refusal, declared
from ..recorder import Recorder
from .calculus import ediff1d, gradient, polyval, trapezoid
from .out import write_out
from .reduce import numpy_function
from .views import moveaxis


def _average(recorder: Recorder, a: Any, axis: Any = None, weights: Any = None, returned: bool = False,
             *, keepdims: Any = False) -> Any:  # fmt: skip
    a, keepdims = recorder.strong(a), keepdims is not np._NoValue and keepdims
    if weights is None:
        result = numpy_function(recorder, "mean", a, axis=axis, keepdims=keepdims)
        total = a.size / result.size if returned else None
    else:
        weights = _align_weights(recorder, recorder.strong(weights), a, axis)
        floats = () if a.dtype.kind == "f" else (np.float64,)
        kind = np.result_type(a.dtype, weights.dtype, *floats)
        total = numpy_function(recorder, "sum", weights, axis=axis, dtype=kind, keepdims=keepdims)
        products = a.astype(kind) * weights.astype(kind)
        result = numpy_function(recorder, "sum", products, axis=axis, keepdims=keepdims) / total
    if not returned:
        return result
    return result, recorder.apply("astype", recorder.apply("full_like", result, total), recorder.dtype(result.dtype))


def _align_weights(recorder: Recorder, weights: Any, a: Any, axis: Any) -> Any:
    """Weights over some axes, aligned with the axes of the weighted array."""
    if weights.ndim == a.ndim:
        return weights
    axes = recorder.axes(a, axis)
    if axis is None or weights.ndim != len(axes):
        raise ArgumentError(
            f"{weights.ndim} axes of weights for {a.ndim}",
            "argument.weights",
            help="name as many axes: np.average(x, axis=0, weights=w)",
        )
    order = sorted(range(len(axes)), key=lambda k: axes[k])
    return weights.transpose(order)[tuple(slice(None) if k in axes else None for k in range(a.ndim))]


def _ptp(recorder: Recorder, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    high, low = (numpy_function(recorder, name, a, axis=axis, keepdims=keepdims) for name in ("max", "min"))
    return write_out(recorder, out, high - low)


def _norm(recorder: Recorder, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """norm: for vectors (sum |x|^ord)^(1/ord) and its limits; for matrices Frobenius, and the extreme row or column
    sums."""
    x = recorder.strong(x)
    x = x if x.dtype.kind == "f" else recorder.apply("astype", x, "float64")
    if axis is None and ord is not None and x.ndim not in (1, 2):
        raise ShapeError(f"norm(ord={ord!r}) of {x.ndim} axes", "shape.axis", help="name one axis or two: axis=-1")
    axes = recorder.axes(x, axis)
    matrix = len(axes) == 2 and (axis is not None or x.ndim == 2)
    if ord is None or (ord == "fro" and matrix) or (ord == 2 and not matrix):
        return recorder.apply("norm", x, axis, keepdims=keepdims)
    if matrix and ord in (1, -1, np.inf, -np.inf):
        rows, columns = axes
        added, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = recorder.apply("sum", abs(x), added, keepdims=True)
        result = recorder.apply("max" if ord > 0 else "min", sums, axis=other, keepdims=True)
        return result if keepdims else recorder.apply("squeeze", result, (rows, columns))
    if matrix or isinstance(ord, str) or len(axes) != 1:
        raise Unsupported(
            f"norm(ord={ord!r}) of matrices is not supported",
            "unsupported.function",
            help="'fro', 1, -1, inf and -inf are there",
        )
    size = abs(x)
    if abs(ord) == np.inf:
        return numpy_function(recorder, "max" if ord > 0 else "min", size, axis=axis, keepdims=keepdims)
    if ord == 0:
        hits = recorder.apply("astype", x != 0, recorder.dtype(x.dtype))
        return recorder.apply("sum", hits, axis, keepdims=keepdims)
    return recorder.apply("sum", size**ord, axis, keepdims=keepdims) ** (1 / ord)


def _vector_norm(recorder: Recorder, x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    flat = x.reshape(-1) if axis is None and not keepdims else x
    return _norm(recorder, flat, None if ord == 2 else ord, axis, keepdims)


def _cumulative(name: str) -> Callable[..., Any]:
    def apply(recorder: Recorder, x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None,
              include_initial: bool = False) -> Any:  # fmt: skip
        if axis is None and x.ndim != 1:
            raise ArgumentError(f"cumulative_{name[3:]} of {x.ndim} axes needs axis=", "argument.missing",
                                help="axis=-1, or x.reshape(-1)")  # fmt: skip
        axis = recorder.axis(x, axis or 0)
        result = numpy_function(recorder, name, x, axis=axis, dtype=dtype)
        if include_initial:
            kind = recorder.dtype(result.dtype)
            result = recorder.apply(f"cumulative_{name[3:]}", x, axis, dtype=kind, include_initial=True)
        return write_out(recorder, out, result)

    return apply


def _select(recorder: Recorder, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """select: the first choice whose condition is true, in the choices' common dtype."""
    result = default
    for condition, choice in reversed(list(zip(condlist, choicelist))):
        result = recorder.apply("where", condition, choice, result)
    return result


@declared(
    "recorder, a, choices, out=None, mode='raise'",
    Refusal("mode out", "choose(mode=, out=) is not supported", "clip the index first, and assign the result"),
)
def _choose(recorder: Recorder, a: Any, choices: Any) -> Any:
    parts = list(choices)
    result = parts[-1]
    for k in reversed(range(len(parts) - 1)):
        result = recorder.apply("where", recorder.apply("equal", a, k), parts[k], result)
    return result


def _modf(recorder: Recorder, x: Any) -> Any:
    x = recorder.apply("as_float", x)
    whole = recorder.apply("trunc", x)
    rest = recorder.apply("where", recorder.apply("isinf", x), 0, x - whole)
    return recorder.apply("copysign", rest, x), whole


def _spacing(recorder: Recorder, x: Any) -> Any:
    x = recorder.apply("as_float", x)
    beyond = recorder.apply("copysign", recorder.apply("full_like", x, np.inf), x)
    return recorder.apply("nextafter", x, beyond) - x


def _infinite(compare: str) -> Callable[..., Any]:
    def apply(recorder: Recorder, x: Any, out: Any = None) -> Any:
        return write_out(recorder, out, recorder.apply("isinf", x) & recorder.apply(compare, x, 0))

    return apply


# -- products


def _kron(recorder: Recorder, a: Any, b: Any) -> Any:
    rank = max(a.ndim, b.ndim)
    a, b = (x.reshape(*[1] * (rank - x.ndim), *x.shape) for x in map(recorder.lifted, (a, b)))
    left = a[tuple(part for _ in range(rank) for part in (slice(None), None))]
    right = b[tuple(part for _ in range(rank) for part in (None, slice(None)))]
    return (left * right).reshape(*(m * n for m, n in zip(a.shape, b.shape)))


@declared("recorder, a, b, axisa=-1, axisb=-1, axisc=-1, axis=None")
def _cross(recorder: Recorder, a: Any, b: Any, axis: Any, **axes: int) -> Any:
    """cross, of vectors with 3 elements: along `axis`, or axes of each operand and of the result."""
    parts = [recorder.lifted(x) for x in (a, b)]
    axisa, axisb, axisc = axes.values() if axis is None else (axis,) * 3
    moved = [moveaxis(recorder, x, place, -1) for x, place in zip(parts, (axisa, axisb))]
    if any(int(x.shape[-1]) != 3 for x in moved):
        raise Unsupported("cross of vectors that have not 3 elements", "unsupported.function",
                          help="a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0] for two")  # fmt: skip
    (x, y), roll = moved, lambda v, k: recorder.apply("roll", v, -k, -1)
    result = roll(x, 1) * roll(y, 2) - roll(x, 2) * roll(y, 1)
    return moveaxis(recorder, result, -1, axisc)


def _isin(recorder: Recorder, element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False,
          *, kind: Any = None) -> Any:  # fmt: skip
    among = recorder.lifted(recorder.array_like(test_elements) if isinstance(test_elements, list) else test_elements)
    flat = recorder.apply("reshape", among, (-1,))
    result = recorder.apply("any", recorder.apply("equal", recorder.lifted(element)[..., None], flat), -1)
    return recorder.apply("logical_not", result) if invert else result


NO_WEIGHTS = Refusal("y fweights aweights", "cov with y or weights is not supported", "np.cov(x)")


@declared(
    "recorder, m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None", NO_WEIGHTS
)
def _cov(recorder: Recorder, m: Any, rowvar: bool, bias: bool, ddof: Any, dtype: Any) -> Any:
    """cov, of rows as variables, or of columns."""
    if m.ndim > 2:
        raise NO_WEIGHTS.error({})
    m = recorder.apply("astype", m, recorder.dtype(np.result_type(m.dtype, np.float64) if dtype is None else dtype))
    rows = m[None] if m.ndim < 2 else m if rowvar else m.T
    centered = rows - numpy_function(recorder, "mean", rows, axis=1, keepdims=True)
    count = recorder.apply("maximum", rows.shape[1] - ((0 if bias else 1) if ddof is None else ddof), 0)
    result = recorder.apply("matmul", centered, centered.T) / count
    return result if int(rows.shape[0]) > 1 else result[0, 0]


def _corrcoef(recorder: Recorder, x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    both = _cov(recorder, x, y, rowvar, dtype=dtype)
    if not both.ndim:
        return both / both
    lone = recorder.apply("sqrt", numpy_function(recorder, "diagonal", both))
    return recorder.apply("clip", both / lone[:, None] / lone, -1, 1)


def _refuse_truth(recorder: Recorder, *args: Any, **named: Any) -> Any:
    raise recorder.no_value("the truth of an array", "return (x == y).all(), or np.isclose(x, y).all()")


FORMULAS: dict[str, Callable[..., Any]] = {
    "average": _average,
    "ptp": _ptp,
    "norm": _norm,
    "vector_norm": _vector_norm,
    "matrix_norm": lambda recorder, x, /, *, keepdims=False, ord="fro": _norm(recorder, x, ord, (-2, -1), keepdims),
    "cross": _cross,
    "matvec": lambda recorder, x1, x2: recorder.apply("matmul", x1, recorder.lifted(x2)[..., None])[..., 0],
    "vecmat": lambda recorder, x1, x2: recorder.apply("matmul", recorder.lifted(x1)[..., None, :], x2)[..., 0, :],
    "isin": _isin,
    **dict.fromkeys(("allclose", "array_equal", "array_equiv"), _refuse_truth),
    "cumulative_sum": _cumulative("cumsum"),
    "cumulative_prod": _cumulative("cumprod"),
    "ediff1d": ediff1d,
    "trapezoid": trapezoid,
    "gradient": gradient,
    "polyval": polyval,
    "cov": _cov,
    "corrcoef": _corrcoef,
    "select": _select,
    "choose": _choose,
    "modf": _modf,
    "spacing": _spacing,
    "float_power": lambda recorder, *x: recorder.apply("power", *(recorder.apply("astype", v, "float64") for v in x)),
    "isposinf": _infinite("greater"),
    "isneginf": _infinite("less"),
    "kron": _kron,
}
