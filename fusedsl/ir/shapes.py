"""Builder of views and reductions; shapes that do not fit raise `shape_error`, or become checks of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from ..errors import ArgumentError, DTypeError, ShapeError
from .builder import GraphBuilder
from .checks import holds, shape_error
from .dims import Dim, evaluate, expression, product
from .graph import Check, Node, Type, node
from .index_keys import basic_index, whole_axis
from .ops import reduced_dtype
from .types import BOOL


def normalize_axis(b: GraphBuilder, x: Node, axis: int) -> int:
    """A non-negative axis of `x`; ShapeError if it is out of range."""
    rank = x.type.rank
    if not -rank <= axis < rank:
        have = f"axes {-rank} to {rank - 1}" if rank else "no axes"
        raise ShapeError(f"axis {axis} is out of range for {b.describe(x.type)}", "shape.axis", help=f"it has {have}")
    return axis % rank


def normalize_axes(b: GraphBuilder, x: Node, axis: int | Sequence[int] | None) -> tuple[int, ...]:
    """Sorted non-negative axes; all of them for None."""
    if axis is None:
        return tuple(range(x.type.rank))
    axes = [normalize_axis(b, x, a) for a in ([axis] if isinstance(axis, int) else axis)]
    if len(set(axes)) < len(axes):
        raise ArgumentError(f"an axis appears twice in {tuple(axis)}", "argument.axis", help="name each axis once")  # type: ignore[arg-type]
    return tuple(sorted(axes))


def reduce(b: GraphBuilder, fold: str, x: Node, axis=None, keepdims: bool = False, empty: bool = False) -> Node:
    """A fold of `x` over axes, as in NumPy; argmax and argmin take one axis, or None for the flattened array.

    If `empty`, an extremum of no elements is the fold's identity instead of an error.
    """
    axes = normalize_axes(b, x, axis)
    if x.type.dtype.storage:
        what = f"{fold} of {b.describe(x.type)}"
        raise DTypeError(f"no {what}", "dtype.storage", help="it only stores: cast it first, e.g. float32(x)")
    if fold in ("any", "all"):
        x = b.truth(x)
    if fold in ("argmax", "argmin"):
        x = b.strong(x)
    if fold in ("argmax", "argmin") and axis is None and x.type.rank != 1:
        x, axes = reshape(b, x, (product(x.type.shape),)), (0,)
        keepdims = False
    result = reduced_dtype(fold, x.type.dtype)
    kept_shape = tuple(1 if a in axes else d for a, d in enumerate(x.type.shape))
    if fold in ("max", "min", "argmax", "argmin") and not empty:
        require_elements(b, fold, x, axes)
    if fold in ("sum", "prod") and not x.type.weak:
        x = b.convert(x, result)
    if not axes and fold in ("sum", "prod", "max", "min"):
        return x
    windows = b.fold_windows(b, fold, x, axes) if b.fold_windows else None
    folded = windows or node(
        "reduce", (x,), (fold, axes), Type(result, kept_shape, x.type.weak and fold in ("sum", "prod", "max", "min"))
    )
    if b.rounding == "op" and result.compute is not result:
        folded = b.cast(folded, result)
    return folded if keepdims or not axes else squeeze(b, folded, axes)


def require_elements(b: GraphBuilder, fold: str, x: Node, axes) -> None:
    dims = tuple(x.type.shape[a] for a in axes if x.type.shape[a] != 1)
    if not axes and fold.startswith("arg"):
        raise ArgumentError(f"{fold} of a number has no position", "argument.axis", help="give it an array")
    if dims:
        check = Check("nonempty", dims, fold, (x.type,), site=b.site)
        if any(evaluate(d, b.extents) == 0 for d in dims):
            raise shape_error(check, b.extents)
        b.checks.append(check)


def squeeze(b: GraphBuilder, x: Node, axes: Sequence[int]) -> Node:
    """Drop axes of extent 1."""
    for a in axes:
        if not b.is_unit(x.type.shape[a]):
            raise ShapeError(
                f"cannot squeeze axis {a} of {b.describe(x.type)}", "shape.squeeze", help="only axes of extent 1 can go"
            )
    key = tuple(("int", 0) if a in axes else whole_axis(d) for a, d in enumerate(x.type.shape))
    return basic_index(x, key)


def expand_dims(b: GraphBuilder, x: Node, axis: int | Sequence[int]) -> Node:
    """Insert axes of extent 1 at these positions of the result."""
    positions = [axis] if isinstance(axis, int) else list(axis)
    rank = x.type.rank + len(positions)
    if any(not -rank <= p < rank for p in positions) or len({p % rank for p in positions}) < len(positions):
        raise ShapeError(
            f"cannot insert axes {tuple(positions)} into {b.describe(x.type)}",
            "shape.axis",
            help=f"places run from {-rank} to {rank - 1}",
        )
    wanted = {p % rank for p in positions}
    old = iter(x.type.shape)
    return basic_index(x, tuple(("new",) if k in wanted else whole_axis(next(old)) for k in range(rank)))


def transpose(b: GraphBuilder, x: Node, axes: Sequence[int] | None = None) -> Node:
    """The axes in another order; reversed for None."""
    order = tuple(reversed(range(x.type.rank))) if axes is None else tuple(normalize_axis(b, x, a) for a in axes)
    if sorted(order) != list(range(x.type.rank)):
        raise ShapeError(
            f"transpose needs each axis of {b.describe(x.type)} once, not {tuple(axes or ())}",
            "shape.transpose",
            help=f"give {x.type.rank} different axes",
        )
    if order == tuple(range(x.type.rank)):
        return x
    return node("transpose", (x,), order, Type(x.type.dtype, tuple(x.type.shape[a] for a in order), x.type.weak))


def require_mask(b: GraphBuilder, x: Node, mask: Node, widens: bool = False) -> None:
    """Check `where=` of a reduction: bools that broadcast to x's shape; if it `widens`, with x to a common shape."""
    if mask.type.dtype is not BOOL and not (mask.op == "const" and mask.type.weak):
        raise DTypeError(
            f"where= takes bools, not {b.describe(mask.type)}", "dtype.where", help="compare first: where=m != 0"
        )
    check = Check("equal", (), "where=", (x.type, mask.type), b.names)
    if widens:
        b.broadcast([x.type.shape, mask.type.shape], check)
        return
    if mask.type.rank > x.type.rank:
        raise ShapeError(
            f"where= has {mask.type.rank} axes, the array {x.type.rank}",
            "shape.where",
            help="drop an axis of it, or give the array one: x[None]",
        )
    for k, d in enumerate(mask.type.shape, start=-mask.type.rank):
        if not b.is_unit(d):
            _require_extent(b, x.type.shape[k], d, check, k)


def require_groups(b: GraphBuilder, x: Node, groups: Dim) -> None:
    """Check that the channels, the second axis, divide into so many groups."""
    if x.type.rank < 2:
        raise ShapeError(
            f"groups are those of channels, in (batch, channels, ...), not of {b.describe(x.type)}",
            "shape.group",
            help="x[None] adds an axis",
        )
    check = Check("groups", (x.type.shape[1], groups), "group", (x.type,), site=b.site)
    if check.dims[0] != groups:
        b.checks.append(check)
        if isinstance(groups, int) and not holds(check, b.extents):
            raise shape_error(check, b.extents)


def _require_extent(b: GraphBuilder, fixed: Dim, d: Dim, check: Check, axis: int) -> None:
    """An extent that broadcasting must not change: the other one is equal to it, even if it is 1."""
    if b.canonical(fixed) != b.canonical(d) and b.is_unit(fixed):
        raise shape_error(replace(check, dims=(fixed, d, axis), site=b.site), b.extents)
    b._require_equal(fixed, d, check, axis)


def broadcast_to(b: GraphBuilder, x: Node, shape: Sequence[Dim], operand: int | None = None) -> Node:
    """`x` repeated along axes of extent 1 and new leading axes to this shape: a view.

    Errors point at the items of `operand`, if that gives the shape.
    """
    shape = tuple(shape)
    if x.type.rank > len(shape):
        raise ShapeError(
            f"cannot broadcast {b.describe(x.type)} to {len(shape)} {'axis' if len(shape) == 1 else 'axes'}",
            "shape.broadcast",
            help=f"give a shape of {x.type.rank} axes or more; index or squeeze the array to have fewer",
        )
    check = Check("equal", (), "broadcast_to", (x.type, Type(x.type.dtype, shape)), b.names)
    for axis, d in enumerate(x.type.shape, start=-x.type.rank):
        if not b.is_unit(d):
            with nullcontext() if operand is None else b.pointing(operand, len(shape) + axis):
                _require_extent(b, shape[axis], d, check, axis)
    if shape == x.type.shape:
        return x
    return node("broadcast", (x,), None, Type(x.type.dtype, shape, x.type.weak))


def reshape(b: GraphBuilder, x: Node, shape: Sequence[Dim]) -> Node:
    """The elements of `x` in C order with another shape; one extent may be -1."""
    total = product(x.type.shape)
    known = product(d for d in shape if d != -1)
    if list(shape).count(-1) > 1:
        raise ShapeError("only one extent of a reshape can be -1", "shape.reshape", help="give the others")
    if known == 0 and -1 in shape:
        message = "an extent of -1 beside one of 0 could be any"
        raise ShapeError(message, "shape.reshape", help="give all extents")
    final = tuple(expression("//", total, known) if d == -1 else d for d in shape)
    if any(isinstance(d, int) and d < 0 for d in final):
        raise ShapeError(
            f"a shape cannot hold {min(d for d in final if isinstance(d, int))}",
            "shape.reshape",
            help="extents are 0 or more; -1 once",
        )
    check = Check("same_size", (total, product(final), *shape), "reshape", (x.type,), site=b.site)
    if check.dims[0] != check.dims[1]:
        b.checks.append(check)
        if all(isinstance(d, int) for d in check.dims):
            raise shape_error(check, b.extents)
    if final == x.type.shape:
        return x
    kept = [d for d in x.type.shape if d != 1]
    if kept == [d for d in final if d != 1] and x.type.rank:
        return _relabel(b, x, final)
    if x.op == "reshape":
        x = x.args[0]
    return node("reshape", (x,), None, Type(x.type.dtype, final, x.type.weak))


def _relabel(b: GraphBuilder, x: Node, final: tuple[Dim, ...]) -> Node:
    """A reshape that only drops and inserts axes of extent 1."""
    dropped = squeeze(b, x, [a for a, d in enumerate(x.type.shape) if d == 1])
    old = iter(dropped.type.shape)
    return basic_index(dropped, tuple(("new",) if d == 1 else whole_axis(next(old)) for d in final))


def swapaxes(b: GraphBuilder, x: Node, first: int, second: int) -> Node:
    """Two axes exchanged."""
    order = list(range(x.type.rank))
    i, j = normalize_axis(b, x, first), normalize_axis(b, x, second)
    order[i], order[j] = order[j], order[i]
    return transpose(b, x, order)


def iota_along(b: GraphBuilder, x: Node, axis: int) -> Node:
    """The index along an axis, with x's shape: a weak integer that is not stored in memory."""
    a = normalize_axis(b, x, axis)
    line = b.iota(x.type.shape[a])
    key = (whole_axis(x.type.shape[a]),) + (("new",),) * (x.type.rank - a - 1)
    return broadcast_to(b, basic_index(line, key), x.type.shape)
