"""Reshapes: moved to where they are views, and the axes that maps run over because of them."""

from __future__ import annotations

from ..ir.dims import Dim, product
from ..ir.graph import Node, Type, node, rebuild, search, walk, with_arguments
from ..ir.ops import CASTS, OPS
from .view_coordinates import non_unit_axes, shared_ends, unshared_axes


def push_reshapes(results: tuple[Node, ...]) -> list[Node]:
    """Move each reshape below elementwise operations whose operands can be reshaped instead.

    A result that depends on a reduction keeps a final reshape, so that it is stored where it is computed.
    """
    results = tuple(map(_move_reshape_to_end, results))
    ends = {r for r in results if r.op == "reshape" and any(n.op == "reduce" for n in walk(r.args))}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op != "reshape" or old in ends:
            return with_arguments(old, args)
        return _reshaped(args[0], old.type.shape)

    new = rebuild(results, change)
    return [new[r] for r in results]


def _move_reshape_to_end(result: Node) -> Node:
    """A result with its reshape moved to the end, if a reduction is below the reshape."""
    inside = [n for n in _elements(result) if n.op == "reshape" and n.type.shape == result.type.shape]
    for n in inside if result.op != "reshape" else ():
        if any(m.op == "reduce" for m in walk(n.args)):
            inner = reshaped_freely(result, n.args[0].type.shape)
            if inner is not None:
                return node("reshape", (inner,), None, result.type)
    return result


def reshaped_freely(x: Node, shape: Shape) -> Node | None:
    """`reshape(x, shape)` if only arguments are reshaped for it, or None."""
    moved = _reshaped(x, shape)
    return moved if all(part.op != "reshape" or reshaped_argument(part) for part in _elements(moved)) else None


def _elements(n: Node) -> list[Node]:
    """Nodes that a value is computed from elementwise, down to other operations."""
    return list(search([n], lambda n: n.args if n.op in OPS or n.op in ("convert", "cast", "broadcast") else ()))


Shape = tuple[Dim, ...]


def _reshaped(x: Node, shape: Shape) -> Node:
    """`reshape(x, shape)` with the reshape as deep as possible."""
    pushed: dict[tuple[Node, Shape], Node] = {}
    stack = [(x, shape)]
    while stack:
        key = n, wanted = stack.pop()
        if key in pushed:
            continue
        while n.op == "reshape" or _keeps_elements(n):
            n = n.args[0]
        operands = _operands_reshaped(n, wanted)
        type = Type(n.type.dtype, wanted, n.type.weak)
        if n.type.shape == wanted:
            pushed[key] = n
        elif operands is None:
            pushed[key] = node("reshape", (n,), None, type)
        elif missing := [k for k in operands if k not in pushed]:
            stack += [key, *missing]
        else:
            pushed[key] = node(n.op, tuple(pushed[k] for k in operands), n.attr, type)
    return pushed[x, shape]


def _operands_reshaped(n: Node, shape: Shape) -> list[tuple[Node, Shape]] | None:
    """(operand, its shape) of an elementwise operation of this `shape`; None if not possible."""
    if n.op == "broadcast":
        part = _part_reshaped(n.args[0].type.shape, n.type.shape, shape)
        return None if part is None else [(n.args[0], part)]
    if (n.op not in OPS and n.op not in CASTS) or not n.type.shape or _rounds_fold(n):
        return None
    shapes = [_part_reshaped(a.type.shape, n.type.shape, shape) for a in n.args]
    return None if any(s is None for s in shapes) else [(a, s) for a, s in zip(n.args, shapes) if s is not None]


def _rounds_fold(n: Node) -> bool:
    """Whether a reduction is rounded to 16 bits: it is stored so, if a reshape needs it in memory."""
    if n.op != "cast" or n.type.dtype.kind != "f" or n.type.dtype.bits != 16:
        return False
    (x,) = n.args
    while _keeps_elements(x):
        (x,) = x.args
    return x.op == "reduce"


def _keeps_elements(n: Node) -> bool:
    """Whether a node is a basic index that only adds or removes unit axes."""
    if n.op != "index":
        return False
    plain = [entry for entry in n.attr if entry[0] != "new"]
    unchanged = (e[1:] == (0, 1, d) if e[0] == "slice" else d == 1 for e, d in zip(plain, n.args[0].type.shape))
    return all(unchanged)


def _part_reshaped(part: Shape, old: Shape, new: Shape) -> Shape | None:
    """The shape that broadcasts to `new` as `part` broadcasts to `old`; None if no reshape gives it."""
    if not part or part == old:
        return part and new
    first, last = shared_ends(old, new)
    before, after = non_unit_axes(old), non_unit_axes(new)
    padded = (1,) * (len(old) - len(part)) + part
    shape: list[Dim] = [1] * len(new)
    shared = (before[:first] + before[len(before) - last :], after[:first] + after[len(after) - last :])
    for a, c in zip(*shared):
        shape[c] = padded[a]
    inside = {padded[a] != 1 for a in before[first : len(before) - last]}
    if len(inside) == 2:
        return None
    for c in after[first : len(after) - last] if True in inside else ():
        shape[c] = new[c]
    return tuple(shape)


def reshaped_argument(n: Node) -> tuple[int, tuple] | None:
    """(argument index, views) of a reshaped argument, or None.

    A reshape of a packed argument is always a view; so is a slice with one axis split.
    """
    (x,) = n.args
    shaped, cut = ("reshape", n.type.shape), unshared_axes(x.type.shape, n.type.shape)[0]
    while x.op == "broadcast" and non_unit_axes(x.args[0].type.shape) == non_unit_axes(x.type.shape):
        (x,) = x.args  # same extents under other names
    while _keeps_elements(x):
        (x,) = x.args
    if x.op == "param":
        return x.attr, (shaped,)
    if x.op != "index" or x.args[0].op != "param" or len(cut) > 1:
        return None
    return x.args[0].attr, (("index", x.attr), shaped)


def refine(results: list[Node]) -> list[Node]:
    """Split the last axis of maps that merges literal extents.

    For `reshape(u, (n, 8 * k))` each eight elements become an axis: repeated elements are read once, and indices need
    no division.
    """
    while True:
        cuts = {s: split for s in {r.type.shape for r in results} if (split := _last_axis_split(results, s))}
        if not cuts:
            return results
        results = [_reshaped(r, cuts[r.type.shape]) if r.type.shape in cuts else r for r in results]


def _last_axis_split(results: list[Node], shape: Shape) -> Shape | None:
    """`shape` with its last axis split as some reshape in maps of this shape needs, or None."""
    maps = [r for r in results if r.type.shape == shape]
    nodes = list(walk(maps))
    if any(n.op in ("reduce", "scan", "sorted") for n in nodes):
        return None
    whole = [VECTOR_BYTES // r.type.dtype.itemsize for r in maps]
    splits: list[tuple[int, Dim]] = []
    for n in nodes:
        if n.op == "reshape" and reshaped_argument(n) is None and n.type.shape[-1:] == shape[-1:]:
            cut = _merged_last(n.args[0].type.shape, n.type.shape)
            if cut is not None and all(cut[0] % count == 0 for count in whole):
                splits.append(cut)
    if not splits:
        return None
    inner, outer = max(splits, key=lambda cut: cut[0])
    return (*shape[:-1], outer, inner)


VECTOR_BYTES = 16  # the last axis of a result should be a multiple


def _merged_last(old: Shape, new: Shape) -> tuple[int, Dim] | None:
    """(inner extent, outer extent) of a reshape's last axis if its operand ends in a literal part of it, or None."""
    first, last = shared_ends(old, new)
    before, after = non_unit_axes(old)[first:], non_unit_axes(new)[first:]
    if last or len(before) < 2 or not after or after[-1] != len(new) - 1 or before[-1] != len(old) - 1:
        return None
    inner, extent = old[-1], new[-1]
    if not isinstance(inner, int):
        return None
    if isinstance(extent, int):
        return (inner, extent // inner) if extent > inner > 0 and extent % inner == 0 else None
    return (inner, product(old[a] for a in before[:-1])) if len(after) == 1 else None
