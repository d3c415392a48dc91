"""Groups reductions over scores by kv axis and rows: the candidates for attention kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...ir.graph import Node, node, rebuild, resolve, walk
from ...rewrite.online.masks import Masks
from ...rewrite.scalar_builder import free_axes, replace_nodes
from ...rewrite.selects import SelectAnalysis
from ..coordinates import Axis, ComputedIndex
from ..scalar_program import ScalarStore
from .score_products import direct_reductions, hoist_score_factors, scores, split_weight


@dataclass(eq=False)
class ReductionSet:
    """Reductions over one kv axis for the same rows: the source's folds on one axis (`rewritten`), and output axes."""

    rewritten: dict[Node, Node]
    folds: list[Node]
    value_axes: set[Axis]


Key = tuple[frozenset, Axis]  # of a group: its rows, and its stream


def group_reductions(
    roots: Sequence[ScalarStore], apart: set[Node], level: bool
) -> tuple[dict[Node, Node], list[ReductionSet]]:
    """(every node, with folds over alike streams on one axis, those streams); folds in `apart` are left alone. For
    `level` see OnlineReduction.

    Streams get tags that no axis of the program has, a higher one for each level of nesting, and where a group would
    need its own results by way of a temporary.
    """
    values = [r.value for r in roots]
    free, tag = free_axes(values), _unused_tag(values)
    groups: dict[Key, ReductionSet] = {}
    masks: dict[Axis, Masks] = {}
    order = _SetDependencies()

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        made = node(old.op, args, old.attr, old.type) if args != old.args else old
        if made not in free:
            free.update(free_axes([made]))
        alone = made.op == "fold" and len(made.attr[1]) == 1 and old not in apart
        if not alone or not scores(made.args[0], made.attr[1][0], free):
            return made
        (along,) = made.attr[1]
        whole, depth = made, _nesting_depth(made.args[0], along, free, tag)
        while True:
            stream = Axis(along.extent, tag + depth)
            value = hoist_score_factors(rename_axis(whole.args[0], along, stream, free), stream, level)
            kept = masks.setdefault(stream, Masks(SelectAnalysis(partial(_reads_reduction, stream))))
            value = kept.hoist_masks(value, made.attr[0])
            free.update(free_axes([value]))
            own, rows = frozenset[Axis](), free[value]
            if made.attr[0] == "sum":
                rows, own, value = split_weight(value, stream, free, level)
            key = (rows - {stream}, stream)
            if order.admits(key, value):
                break
            depth += 1
        made = node("fold", (value,), (made.attr[0], (stream,)), made.type)
        free.update(free_axes([made]))
        group = groups.setdefault(key, ReductionSet({}, [], set()))
        group.rewritten[old] = made
        group.value_axes |= own
        order.add(key, made)
        if made not in group.folds:
            group.folds.append(made)
        return made

    new: dict[Node, Node] = {}
    for root in in_dependency_order(roots):
        for old in walk([root.value]):
            if old not in new:
                new[old] = change(old, tuple(new[a] for a in old.args))
        if root.kind == "temporary":
            order.stored(root.index, new[root.value])
    return new, list(groups.values())


def in_dependency_order(roots: Sequence[ScalarStore]) -> list[ScalarStore]:
    """The roots, each after those of the temporaries that it reads."""
    stores: dict[int, list[ScalarStore]] = {}
    for r in roots:
        if r.kind == "temporary":
            stores.setdefault(r.index, []).append(r)
    found: dict[ScalarStore, None] = {}

    def needs(r: ScalarStore) -> list[ScalarStore]:
        return [s for t in temporaries_read([r.value]) for s in stores.get(t, ()) if s is not r]

    done: dict[ScalarStore, bool] = {}
    for r in roots:
        resolve(done, r, needs, lambda r: found.setdefault(r) is None)
    return list(found)


def temporaries_read(values: Iterable[Node]) -> list[int]:
    """The temporaries that some values read."""
    read = (n.attr[0] for n in walk(values) if n.op in ("load", "pointer"))
    return list(dict.fromkeys(s.index for s in read if s.kind == "temporary"))


class _SetDependencies:
    """Which groups need which, directly or by way of temporaries: a pass cannot need its own results."""

    def __init__(self) -> None:
        self.set_of: dict[Node, Key] = {}
        self.needs: dict[Key, set[Key]] = {}
        self.of_temporary: dict[int, set[Key]] = {}

    def admits(self, key: Key, value: Node) -> bool:
        """Whether a group may fold a value: nothing that the value reads from memory is computed from the group, and
        none of another group's results that it reads."""
        stack, seen = [*self._read(value), *(self._direct(value) - {key})], set[Key]()
        while stack:
            k = stack.pop()
            if k == key:
                return False
            if k not in seen:
                seen.add(k)
                stack += self.needs.get(k, ())
        return True

    def add(self, key: Key, fold: Node) -> None:
        """Note a fold of a group."""
        self.set_of[fold] = key
        self.needs.setdefault(key, set()).update(self._below(fold) - {key})

    def stored(self, temporary: int, value: Node) -> None:
        """Note what a temporary is computed from."""
        self.of_temporary.setdefault(temporary, set()).update(self._below(value))

    def _read(self, value: Node) -> set[Key]:
        """The groups whose results a value reads by way of temporaries."""
        return set().union(*(self.of_temporary.get(t, set()) for t in temporaries_read([value])))

    def _direct(self, value: Node) -> set[Key]:
        return {self.set_of[n] for n in walk([value]) if n in self.set_of}

    def _below(self, value: Node) -> set[Key]:
        return self._read(value) | self._direct(value)


def _nesting_depth(value: Node, along: Axis, free: dict[Node, frozenset], tag: int) -> int:
    """How many streams are bound, one inside the other, in what of a value varies along an axis: that axis needs a name
    of its own, for a name that is bound there would capture it."""
    levels, seen, stack = 0, {value}, [value]
    while stack:
        n = stack.pop()
        if n.op == "fold":
            levels = max([levels, *(1 + a.tag - tag for a in n.attr[1] if a.tag >= tag)])
        for a in n.args:
            if a not in seen and along in free[a]:
                seen.add(a)
                stack.append(a)
    return levels


def _reads_reduction(stream: Axis, n: Node) -> bool:
    """Whether a value is made of a fold over a stream."""
    return any(f.op == "fold" and f.attr[1] == (stream,) for f in direct_reductions([n]))


def split_by_scores(group: ReductionSet) -> list[ReductionSet]:
    """The folds of a group whose elements hold the same scores, directly or by way of others, together."""
    free = free_axes(group.folds)
    held = [set(scores(f.args[0], f.attr[1][0], free)) for f in group.folds]
    parts: list[tuple[set[Node], list[Node]]] = []
    for f, own in zip(group.folds, held):
        joined = [part for part in parts if part[0] & own]
        parts = [part for part in parts if not part[0] & own]
        parts.append((own.union(*(s for s, _ in joined)), [*(g for _, folds in joined for g in folds), f]))
    if len(parts) == 1:
        return [group]
    return [_subset(group, set(folds)) for _, folds in parts]


def split_by_weighted_sum(
    groups: list[ReductionSet], values: list[Node]
) -> tuple[list[ReductionSet], list[Node], list[Node]]:
    """(groups that weigh one operand each, as a kernel does; the values of them; what had to part): what else a group
    weighs has a stream of its own, along which all that it reads is folded anew."""
    tag, found, moved = _unused_tag(values), [], {}
    for group in groups:
        free = free_axes(group.folds)
        weighing = [f for f in group.folds if free[f] & group.value_axes]
        others = [f for f in weighing[1:] if len(set(weighing) & set(walk([f]))) == 1]
        for f in others:
            (stream,) = f.attr[1]
            new = _on_kv_axis(f, group.folds, Axis(stream.extent, tag))
            tag += 1
            moved[f] = new[f]
            written = {old: new[f] for old, made in group.rewritten.items() if made is f}
            found.append(ReductionSet(written, [new[g] for g in group.folds if g in new], group.value_axes & free[f]))
        found.append(group)
    new_values = replace_nodes(values, moved)
    values = [new_values[v] for v in values]
    needed = set(walk(values))
    return [part for group in found if (part := _subset(group, needed)).folds], values, list(moved.values())


def _subset(group: ReductionSet, wanted: set[Node]) -> ReductionSet:
    """The folds of a group that are among these."""
    folds = [f for f in group.folds if f in wanted]
    free = free_axes(folds)
    written = {old: made for old, made in group.rewritten.items() if made in folds}
    return ReductionSet(written, folds, {a for a in group.value_axes if any(a in free[f] for f in folds)})


def _on_kv_axis(root: Node, folds: Sequence[Node], stream: Axis) -> dict[Node, Node]:
    """The folds that a fold reads, and itself, along another axis."""
    inner = set(folds)

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old not in inner:
            return node(old.op, args, old.attr, old.type) if args != old.args else old
        value = rename_axis(args[0], old.attr[1][0], stream, free_axes(args))
        return node("fold", (value,), (old.attr[0], (stream,)), old.type)

    new = rebuild([root], change)
    return {f: new[f] for f in folds if f in new}


def _unused_tag(roots: Sequence[Node]) -> int:
    """A tag that no axis has."""
    free = free_axes(roots)
    folded = (a for n in free if n.op == "fold" for a in n.attr[1])
    return 1 + max((a.tag for axes in (*free.values(), folded) for a in axes), default=0)


def rename_axis(root: Node, old: Axis, new: Axis, free: dict[Node, frozenset]) -> Node:
    """A value with another name for one of the axes that it depends on."""

    def coordinate(c):
        if isinstance(c, ComputedIndex):
            return replace(c, value=rename_axis(c.value, old, new, free_axes([c.value])))
        return replace(c, axis=new) if c.axis == old else c

    done: dict[Node, Node] = {}

    def change(n: Node) -> Node:
        if old not in free[n]:
            return n
        args, attr = tuple(done[a] for a in n.args), n.attr
        if n.op == "load":
            attr = (attr[0], tuple(map(coordinate, attr[1])))
        elif n.op == "fetch":
            attr = (attr[0], tuple(map(coordinate, attr[1])), *attr[2:])
        elif n.op == "position":
            attr = new
        elif n.op in ("scan", "select", "ranked"):
            attr = tuple(new if part == old else part for part in attr)
        return node(n.op, args, attr, n.type)

    return resolve(done, root, lambda n: n.args if old in free[n] else (), change)
