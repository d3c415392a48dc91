"""NumPy's shape functions on tracers: diagonals, splits, stacks, rotations, broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...errors import ArgumentError, ShapeError, Unsupported
from ..recorder import Recorder
from ..views import View
from .indexing import flipped
from .reduce import numpy_function


def _atleast(rank: int) -> Callable[..., Any]:
    def apply(recorder: Recorder, *arrays: Any) -> Any:
        arrays_of_rank = tuple(_with_rank(recorder.lifted(a), rank) for a in arrays)
        return arrays_of_rank[0] if len(arrays_of_rank) == 1 else arrays_of_rank

    return apply


def _with_rank(a: Any, rank: int) -> Any:
    """A view with axes of extent 1 added in front; a matrix gets its third axis behind."""
    missing = rank - a.ndim
    if missing <= 0:
        return a
    before = missing if rank < 3 else {0: 2, 1: 1, 2: 0}[a.ndim]
    return a[(*[None] * before, ..., *[None] * (missing - before))]


def _diagonal(recorder: Recorder, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """A read-only view of a diagonal."""
    static = recorder.specialized((offset, axis1, axis2))
    return a.viewed(View(lambda x: recorder.call("diagonal", (recorder.tracer(x), *static), {})))


def _diag(recorder: Recorder, v: Any, k: int = 0) -> Any:
    if v.ndim == 2:
        return _diagonal(recorder, v, k)
    if v.ndim != 1:
        raise ShapeError("diag takes a vector or a matrix", "shape.axis", help="np.diagonal(x) of more axes")
    k = int(k)
    padded = recorder.apply("pad", v, ((max(k, 0), max(-k, 0)),))
    indices = recorder.apply("arange", padded.shape[0])
    return recorder.apply("where", indices[:, None] + k == indices, padded, recorder.apply("zeros_like", padded))


def _trace(recorder: Recorder, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return numpy_function(recorder, "sum", _diagonal(recorder, a, offset, axis1, axis2), axis=-1, dtype=dtype)


def _split(recorder: Recorder, ary: Any, indices_or_sections: Any, axis: int = 0, even: bool = True) -> list:
    index = recorder.axis(ary, axis)
    extent = int(ary.shape[index])
    if not getattr(indices_or_sections, "ndim", 0) and not isinstance(indices_or_sections, (list, tuple)):
        n = int(indices_or_sections)
        if even and extent % n:
            raise ArgumentError(f"{extent} elements do not split into {n} equal parts", "argument.split",
                                help="np.array_split allows unequal ones")  # fmt: skip
        sizes = [extent // n + (k < extent % n) for k in range(n)]
        ends = [sum(sizes[: k + 1]) for k in range(n - 1)]
    else:
        ends = [int(e) for e in indices_or_sections]
    cut = [slice(None)] * index
    return [ary[(*cut, slice(first, last))] for first, last in zip([0, *ends], [*ends, None])]


def _split_along(axis: int) -> Callable[..., Any]:
    def apply(recorder: Recorder, ary: Any, indices_or_sections: Any) -> list:
        return _split(recorder, ary, indices_or_sections, axis if ary.ndim > 1 else 0)

    return apply


def _unstack(recorder: Recorder, x: Any, /, *, axis: int = 0) -> tuple:
    index = recorder.axis(x, axis)
    cut = [slice(None)] * index
    return tuple(x[(*cut, k)] for k in range(int(x.shape[index])))


def _column_stack(recorder: Recorder, tup: Any) -> Any:
    parts = [recorder.lifted(a) for a in tup]
    return recorder.apply("concat", tuple(a[:, None] if a.ndim == 1 else a for a in parts), 1)


def _append(recorder: Recorder, arr: Any, values: Any, axis: Any = None) -> Any:
    if axis is None:
        strong = recorder.tracer(recorder.builder.strong(recorder.node(values)))
        return recorder.apply("concat", tuple(recorder.apply("reshape", a, -1) for a in (arr, strong)), 0)
    return recorder.apply("concat", (arr, values), axis)


def _rot90(recorder: Recorder, m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    first, second = recorder.axes(m, axes)
    for _ in range(int(k) % 4):
        m = flipped(recorder, m, second).swapaxes(first, second)
    return m


def _rollaxis(recorder: Recorder, a: Any, axis: int, start: int = 0) -> Any:
    axis, start = recorder.axis(a, axis), start + a.ndim if start < 0 else start
    if not 0 <= start <= a.ndim:
        raise ShapeError(f"place {start} among {a.ndim} axes", "shape.axis", help=f"places run from 0 to {a.ndim}")
    order = [k for k in range(a.ndim) if k != axis]
    order.insert(start - 1 if axis < start else start, axis)
    return a.transpose(*order)


def _broadcast_arrays(recorder: Recorder, *args: Any, subok: bool = False) -> tuple:
    from .views import viewed

    total: Any = 0
    arrays = [recorder.strong(a) for a in args]
    for a in arrays:
        total = recorder.apply("add", recorder.apply("zeros_like", a), total)
    return tuple(viewed(recorder, "broadcast_to", (a, total.shape), {}) for a in arrays)


def _meshgrid(recorder: Recorder, *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple:
    lines = [x if x.ndim == 1 else x.reshape(-1) for x in map(recorder.strong, xi)]
    n = len(lines)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    open_grid = [x[tuple(slice(None) if order[k] == axis else None for axis in range(n))] for k, x in enumerate(lines)]
    return tuple(open_grid) if sparse else _broadcast_arrays(recorder, *open_grid)


def _putmask(recorder: Recorder, a: Any, mask: Any, values: Any) -> None:
    """putmask, for values of the array's shape or a single one."""
    chosen = recorder.lifted(values)
    if recorder.node(mask).type.rank != a.ndim:
        raise ShapeError(
            "putmask takes a mask of the array's shape", "shape.mask", help="np.broadcast_to(mask, x.shape)"
        )
    if getattr(chosen, "ndim", 0) not in (0, a.ndim):
        raise Unsupported("putmask with values that repeat", "unsupported.scatter", help="np.copyto(x, v, where=)")
    with recorder.at_user_line():
        a._write(recorder.call("where", (mask, chosen, a), {}), "unsafe")


SHAPES: dict[str, Callable[..., Any]] = {
    "atleast_1d": _atleast(1),
    "atleast_2d": _atleast(2),
    "atleast_3d": _atleast(3),
    "diagonal": _diagonal,
    "linalg_diagonal": lambda recorder, x, /, *, offset=0: _diagonal(recorder, x, offset, -2, -1),
    "linalg_trace": lambda recorder, x, /, *, offset=0, dtype=None: _trace(recorder, x, offset, -2, -1, dtype),
    "diag": _diag,
    "trace": _trace,
    "split": _split,
    "array_split": partial(_split, even=False),
    "vsplit": _split_along(0),
    "hsplit": _split_along(1),
    "dsplit": lambda recorder, ary, indices_or_sections: _split(recorder, ary, indices_or_sections, 2),
    "unstack": _unstack,
    "dstack": lambda recorder, tup: recorder.apply("concat", tuple(_with_rank(recorder.lifted(a), 3) for a in tup), 2),
    "column_stack": _column_stack,
    "append": _append,
    "rot90": _rot90,
    "rollaxis": _rollaxis,
    "broadcast_arrays": _broadcast_arrays,
    "meshgrid": _meshgrid,
    "putmask": _putmask,
}
