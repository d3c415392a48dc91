"""Splits axes that reshapes split or merge, in programs that reduce matrix products: all arrays get the split axes.

`k[:, :, None].expand(...).reshape(...)` repeats heads for grouped-query attention, so that each head of q has one of k.
If the heads of q are two axes as well, no reshape separates k from its use; only arguments and results are reshaped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.dims import Dim, product
from ..ir.graph import Node, Type, constant, node, rebuild, resolve, walk, with_arguments
from ..ir.ops import OPS
from .reshapes import reshaped_argument
from .view_coordinates import below_index, non_unit_axes, shared_ends, unshared_axes

ArrayAxis = tuple[Node, int]  # an axis of an array
Shape = tuple[Dim, ...]
SameExtent = Callable[[Dim, Dim], bool]
ELEMENTWISE = ("convert", "cast", "broadcast")


def split_axes(results: Sequence[Node], same: SameExtent) -> list[Node]:
    """Results of a program that reduces products, without reshapes between products and their operands.

    `same` answers whether two extents are equal in all calls that the plan is for.
    """
    if not _folds_products(results):
        return list(results)
    results = _without_splits(results, same)
    for k, r in enumerate(results):
        inner = r.args[0] if r.op == "reshape" else r
        for axis in reversed(range(inner.type.rank)):
            splits = _merged_below((inner, axis), same)
            split = _Split(splits[0], same).of((inner, axis)) if len(splits) == 1 else None
            inner = inner if split is None else split
        if inner is not (r.args[0] if r.op == "reshape" else r):
            results[k] = node("reshape", (inner,), None, r.type)
    return results


def _folds_products(results: Sequence[Node]) -> bool:
    """Whether a reduction depends on a sum of products."""
    holds: dict[Node, bool] = {}
    for n in walk(results):
        holds[n] = any(holds[a] for a in n.args)
        if n.op == "reduce" and holds[n]:
            return True
        holds[n] |= n.op == "reduce" and n.attr[0] == "sum" and n.args[0].op == "multiply"
    return False


def _without_splits(results: Sequence[Node], same: SameExtent) -> list[Node]:
    """The results with split arrays computed in the split shape."""

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        new = with_arguments(old, args)
        new = _with_ends(new, same) if new.op == "reshape" else new
        cut = _split_of(new) if new.op == "reshape" and reshaped_argument(new) is None else None
        split = None if cut is None else _Split(cut[1], same).of((new.args[0], cut[0]))
        return new if split is None else _in_shape(split, new.type.shape)

    new = rebuild(results, change)
    return [new[r] for r in results]


def _with_ends(n: Node, same: SameExtent) -> Node:
    """A reshape whose operand uses the result's expressions for the extents that it keeps."""
    x, new = n.args[0], n.type.shape
    shape = list(x.type.shape)
    while True:
        before, after = unshared_axes(tuple(shape), new)
        ends = [(before[k], after[k]) for k in (0, -1)] if len(before) > 1 < len(after) else []
        renamed = next(((a, c) for a, c in ends if same(shape[a], new[c])), None)
        if renamed is None:
            return node("reshape", (_named(x, tuple(shape)),), None, n.type)
        shape[renamed[0]] = new[renamed[1]]


def _named(x: Node, shape: Shape) -> Node:
    """The array with other expressions for its extents."""
    return x if x.type.shape == shape else node("broadcast", (x,), None, Type(x.type.dtype, shape, x.type.weak))


def _equal_splits(a: Shape, b: Shape, same: SameExtent) -> bool:
    """Whether two splits of one extent are equal; one unknown part follows from the others."""
    pairs = [(x, y) for x, y in zip(a, b) if x != y]
    alone = len(pairs) == 1 and not any(isinstance(d, int) for d in pairs[0])
    return len(a) == len(b) and (alone or all(same(x, y) for x, y in pairs))


def _split_of(n: Node) -> tuple[int, Shape] | None:
    """(axis of the operand, its parts) of a reshape that splits exactly this axis, or None."""
    old, new = unshared_axes(n.args[0].type.shape, n.type.shape)
    return (old[0], tuple(n.type.shape[a] for a in new)) if len(old) == 1 and len(new) > 1 else None


def _merged_below(array_axis: ArrayAxis, same: SameExtent) -> list[Shape]:
    """Distinct splits that reshapes merge into an axis of a result."""
    splits: list[Shape] = []
    seen: set[ArrayAxis] = set()
    stack = [array_axis]
    while stack:
        n, axis = stack.pop()
        if (n, axis) in seen or n.type.shape[axis] == 1:
            continue
        seen.add((n, axis))
        if n.op == "reshape" and axis in (middles := unshared_axes(n.args[0].type.shape, n.type.shape))[1]:
            if len(middles[1]) == 1 < len(middles[0]):
                parts = tuple(n.args[0].type.shape[a] for a in middles[0])
                splits += [] if any(_equal_splits(parts, other, same) for other in splits) else [parts]
            continue
        stack += _operands((n, axis)) or ()
    return splits


def _operands(array_axis: ArrayAxis) -> list[ArrayAxis] | None:
    """Axes of operands that an axis corresponds to; None if there is no direct correspondence."""
    n, axis = array_axis
    if n.op in OPS or n.op in ELEMENTWISE:
        aligned = [(a, axis - n.type.rank + a.type.rank) for a in n.args]
        return [(a, k) for a, k in aligned if k >= 0 and a.type.shape[k] != 1]
    match n.op:
        case "param" | "iota":
            return []
        case "transpose":
            return [(n.args[0], n.attr[axis])]
        case "index":
            inner = below_index(n, axis)
            return None if inner is None else [(n.args[0], inner)]
        case "reduce":
            return [(n.args[0], axis)]
        case "scan":
            return [(a, axis) for a in n.args] if n.attr[1] != axis else None
        case "gather":
            axes = [k for k, (kind, array_axis) in enumerate(n.attr[1]) if kind == "axis" and array_axis == axis]
            aligned = [(a, axis - n.type.rank + a.type.rank) for a in n.args[1:]]
            return [(n.args[0], k) for k in axes] + [(a, k) for a, k in aligned if k >= 0 and a.type.shape[k] != 1]
        case "reshape":
            old, new = n.args[0].type.shape, n.type.shape
            if axis in unshared_axes(n.args[0].type.shape, n.type.shape)[1]:
                return None
            first, _ = shared_ends(old, new)
            before, after = non_unit_axes(old), non_unit_axes(new)
            k = after.index(axis)
            return [(n.args[0], before[k] if k < first else before[k - len(after)])]
    return None


class _Split:
    """Arrays with one of their axes split."""

    def __init__(self, parts: Shape, same: SameExtent):
        self.parts, self.same = parts, same
        self.split_arrays: dict[ArrayAxis, Node | None] = {}

    def of(self, array_axis: ArrayAxis) -> Node | None:
        """The array with this axis split; None if something needs the whole axis."""
        return resolve(self.split_arrays, array_axis, self._needs, self._make)

    def _needs(self, array_axis: ArrayAxis) -> list[ArrayAxis]:
        n, axis = array_axis
        return [] if n.type.shape[axis] == 1 or self._ends(array_axis) else _operands(array_axis) or []

    def _ends(self, array_axis: ArrayAxis) -> bool:
        """Whether an array can be reshaped directly: an argument, or a merge of exactly these parts."""
        n, _ = array_axis
        return n.op == "param" or (
            n.op == "reshape" and (reshaped_argument(n) is not None or self._is_merged(array_axis))
        )

    def _is_merged(self, array_axis: ArrayAxis) -> bool:
        """Whether a reshape merges exactly these parts, and does nothing else."""
        n, axis = array_axis
        before, after = unshared_axes(n.args[0].type.shape, n.type.shape)
        return after == [axis] and _equal_splits(tuple(n.args[0].type.shape[a] for a in before), self.parts, self.same)

    def _shape(self, array_axis: ArrayAxis) -> Shape:
        n, axis = array_axis
        return (*n.type.shape[:axis], *self.parts, *n.type.shape[axis + 1 :])

    def _make(self, array_axis: ArrayAxis) -> Node | None:
        n, axis = array_axis
        shape = self._shape(array_axis)
        if n.type.shape[axis] == 1:
            return _in_shape(n, (*n.type.shape[:axis], *(1 for _ in self.parts), *n.type.shape[axis + 1 :]))
        if n.op == "reshape" and self._is_merged(array_axis):
            before, _ = unshared_axes(n.args[0].type.shape, n.type.shape)
            named = dict(zip(before, self.parts))
            x = n.args[0]
            return _in_shape(_named(x, tuple(named.get(k, d) for k, d in enumerate(x.type.shape))), shape)
        if self._ends(array_axis):
            return _in_shape(n, shape)
        operands = _operands(array_axis)
        new = {a: self.split_arrays[a] for a in operands or ()}
        if operands is None or None in new.values():
            return None
        type = Type(n.type.dtype, shape, n.type.weak)

        def split(x: Node, k: int) -> Node:
            """An operand with its axis split; an axis of extent 1 becomes as many of extent 1."""
            if (x, k) in new:
                return new[x, k]  # type: ignore[return-value]
            ones = (1,) * len(self.parts)
            return x if k < 0 else _in_shape(x, (*x.type.shape[:k], *ones, *x.type.shape[k + 1 :]))

        return self._split(n, axis, type, split)

    def _split(self, n: Node, axis: int, type: Type, split: Callable[[Node, int], Node]) -> Node | None:
        more = len(self.parts) - 1

        def moved(k: int) -> int:
            return k if k < axis else k + more

        x = n.args[0] if n.args else None
        match n.op:
            case "iota":
                return self._positions(type)
            case "transpose":
                inner = n.attr[axis]
                order = [k + more if k > inner else k for k in n.attr]
                order[axis : axis + 1] = range(inner, inner + more + 1)
                return node("transpose", (split(x, inner),), tuple(order), type)  # type: ignore[arg-type]
            case "index":
                inner = below_index(n, axis)
                entry = next(k for k, e in enumerate(_spread(n.attr)) if e == inner)
                parts = (("slice", 0, 1, d) for d in self.parts)
                key = (*n.attr[:entry], *parts, *n.attr[entry + 1 :])
                return node("index", (split(x, inner),), key, type)  # type: ignore[arg-type]
            case "reduce":
                name, axes = n.attr
                return node("reduce", (split(x, axis),), (name, tuple(map(moved, axes))), type)  # type: ignore[arg-type]
            case "scan":
                name, along, exclusive = n.attr
                return node("scan", tuple(split(a, axis) for a in n.args), (name, moved(along), exclusive), type)
            case "gather":
                return self._gather(n, axis, type, split)
            case "reshape":
                operands = _operands((n, axis))
                return node("reshape", (split(*operands[0]),), None, type) if operands else None
        args = [split(a, axis - n.type.rank + a.type.rank) for a in n.args]
        return node(n.op, tuple(args), n.attr, type)

    def _gather(self, n: Node, axis: int, type: Type, split: Callable[[Node, int], Node]) -> Node:
        (mode, entries), more = n.attr, len(self.parts) - 1
        entries_below: list[tuple[str, int]] = []
        x, (*arrays,) = n.args[0], n.args[1:]
        for k, (kind, index) in enumerate(entries):
            if kind == "axis" and index == axis:
                entries_below += [("axis", axis + part) for part in range(more + 1)]
                x = split(n.args[0], k)
            else:
                entries_below.append((kind, index + more if kind == "axis" and index > axis else index))
        arrays = [split(a, axis - n.type.rank + a.type.rank) for a in arrays]
        return node("gather", (x, *arrays), (mode, tuple(entries_below)), type)

    def _positions(self, type: Type) -> Node:
        """The indices of an axis, computed from those of its parts."""
        total: Node | None = None
        for k, d in enumerate(self.parts):
            indices: Node = node("iota", (), None, Type(type.dtype, (d,), type.weak))
            step = product(self.parts[k + 1 :])
            shape = (d, *(1 for _ in self.parts[k + 1 :]))
            indices = _in_shape(indices, shape)
            if step != 1:
                indices = node("multiply", (indices, _extent(step, type)), None, Type(type.dtype, shape, type.weak))
            type_so_far = Type(type.dtype, self.parts[: k + 1] + shape[1:], type.weak)
            total = indices if total is None else node("add", (total, indices), None, type_so_far)
        assert total is not None
        return total


def _extent(d: Dim, like: Type) -> Node:
    if isinstance(d, int):
        return constant(d, like.dtype, like.weak)
    return node("size", (), d, Type(like.dtype, (), like.weak))


def _spread(key: tuple) -> list[int | None]:
    """The operand's axis of each entry of a basic index."""
    axes: list[int | None] = []
    operand_axis = 0
    for entry in key:
        axes.append(None if entry[0] == "new" else operand_axis)
        operand_axis += entry[0] != "new"
    return axes


def _in_shape(x: Node, shape: Shape) -> Node:
    while x.op == "reshape":
        (x,) = x.args
    return x if x.type.shape == shape else node("reshape", (x,), None, Type(x.type.dtype, shape, x.type.weak))
