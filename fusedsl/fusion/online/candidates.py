"""Sets of reductions over scores with one kv axis and the same rows: candidates for attention kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...ir.graph import Node, node, rebuild, resolve, search, walk, with_arguments
from ...rewrite.online.masks import Masks
from ...rewrite.scalar_builder import free_axes, replace_nodes
from ...rewrite.selects import SelectAnalysis
from ..coordinates import Axis, ComputedIndex
from ..scalar_program import ScalarStore
from .score_products import direct_reductions, hoist_score_factors, scores, split_weight


@dataclass(eq=False)
class ReductionSet:
    """Reductions over one kv axis for the same rows: original folds and their rewritten forms, and axes of v alone."""

    rewritten: dict[Node, Node]
    folds: list[Node]
    value_axes: set[Axis]


Key = tuple[frozenset, Axis]  # (rows, kv axis) of a set


def group_reductions(
    roots: Sequence[ScalarStore], excluded: set[Node], running_reference: bool
) -> tuple[dict[Node, Node], list[ReductionSet]]:
    """(every node with its rewritten form, the reduction sets); folds in `excluded` stay as they are.

    Similar folds share a kv axis, with a tag that no axis of the program has. The tag grows with the nesting depth, and
    once more if a set would read its own results through a temporary.
    """
    values = [r.value for r in roots]
    free, tag = free_axes(values), _unused_tag(values)
    groups: dict[Key, ReductionSet] = {}
    masks: dict[Axis, Masks] = {}
    dependencies = SetDependencies()

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        fold = with_arguments(old, args)
        if fold not in free:
            free.update(free_axes([fold]))
        single_axis = fold.op == "fold" and len(fold.attr[1]) == 1 and old not in excluded
        if not single_axis or not scores(fold.args[0], fold.attr[1][0], free):
            return fold
        (axis,) = fold.attr[1]
        depth = _nesting_depth(fold.args[0], axis, free, tag)
        while True:
            kv_axis = Axis(axis.extent, tag + depth)
            value = hoist_score_factors(rename_axis(fold.args[0], axis, kv_axis, free), kv_axis, running_reference)
            axis_masks = masks.setdefault(kv_axis, Masks(SelectAnalysis(partial(_reads_reduction, kv_axis))))
            value = axis_masks.hoist_masks(value, fold.attr[0])
            free.update(free_axes([value]))
            value_axes, rows = frozenset[Axis](), free[value]
            if fold.attr[0] == "sum":
                rows, value_axes, value = split_weight(value, kv_axis, free, running_reference)
            key = (rows - {kv_axis}, kv_axis)
            if dependencies.admits(key, value):
                break
            depth += 1
        rewritten = node("fold", (value,), (fold.attr[0], (kv_axis,)), fold.type)
        free.update(free_axes([rewritten]))
        group = groups.setdefault(key, ReductionSet({}, [], set()))
        group.rewritten[old] = rewritten
        group.value_axes |= value_axes
        dependencies.add(key, rewritten)
        if rewritten not in group.folds:
            group.folds.append(rewritten)
        return rewritten

    new: dict[Node, Node] = {}
    for root in in_dependency_order(roots):
        for old in walk([root.value]):
            if old not in new:
                new[old] = change(old, tuple(new[a] for a in old.args))
        if root.kind == "temporary":
            dependencies.stored(root.index, new[root.value])
    return new, list(groups.values())


def in_dependency_order(roots: Sequence[ScalarStore]) -> list[ScalarStore]:
    """The stores, each after those of the temporaries that it reads."""
    stores: dict[int, list[ScalarStore]] = {}
    for r in roots:
        if r.kind == "temporary":
            stores.setdefault(r.index, []).append(r)

    def needs(r: ScalarStore) -> list[ScalarStore]:
        return [s for t in temporaries_read([r.value]) for s in stores.get(t, ()) if s is not r]

    ordered: dict[ScalarStore, None] = {}  # in post-order
    for r in roots:
        resolve(ordered, r, needs, lambda _: None)
    return list(ordered)


def temporaries_read(values: Iterable[Node]) -> list[int]:
    """Indices of the temporaries that some values read."""
    read = (n.attr[0] for n in walk(values) if n.op in ("load", "pointer"))
    return list(dict.fromkeys(s.index for s in read if s.kind == "temporary"))


class SetDependencies:
    """Which sets a set needs, directly or through temporaries: it must not need its own results."""

    def __init__(self) -> None:
        self.set_of: dict[Node, Key] = {}
        self.needs: dict[Key, set[Key]] = {}
        self.of_temporary: dict[int, set[Key]] = {}

    def admits(self, key: Key, value: Node) -> bool:
        """Whether a set may fold a value.

        Neither a temporary that the value reads, nor the result of another set, may be computed from this set.
        """
        start = [*self._read(value), *(self._direct(value) - {key})]
        return key not in search(start, lambda k: self.needs.get(k, ()))

    def add(self, key: Key, fold: Node) -> None:
        """Record a fold of a set."""
        self.set_of[fold] = key
        self.needs.setdefault(key, set()).update(self._below(fold) - {key})

    def stored(self, temporary: int, value: Node) -> None:
        """Record the value of a temporary."""
        self.of_temporary.setdefault(temporary, set()).update(self._below(value))

    def _read(self, value: Node) -> set[Key]:
        """Sets that a value reads through temporaries."""
        return set().union(*(self.of_temporary.get(t, set()) for t in temporaries_read([value])))

    def _direct(self, value: Node) -> set[Key]:
        return {self.set_of[n] for n in walk([value]) if n in self.set_of}

    def _below(self, value: Node) -> set[Key]:
        return self._read(value) | self._direct(value)


def _nesting_depth(value: Node, axis: Axis, free: dict[Node, frozenset], tag: int) -> int:
    """Nesting depth of kv axes below a value that vary along an axis: a deeper tag is not captured there."""
    varying = search([value], lambda n: [a for a in n.args if axis in free[a]])
    return max((1 + a.tag - tag for n in varying if n.op == "fold" for a in n.attr[1] if a.tag >= tag), default=0)


def _reads_reduction(kv_axis: Axis, n: Node) -> bool:
    """Whether a value reads a fold over a kv axis."""
    return any(f.op == "fold" and f.attr[1] == (kv_axis,) for f in direct_reductions([n]))


def split_by_scores(group: ReductionSet) -> list[ReductionSet]:
    """The folds of a set, split into sets that read no score in common."""
    free = free_axes(group.folds)
    scores_of = [set(scores(f.args[0], f.attr[1][0], free)) for f in group.folds]
    parts: list[tuple[set[Node], list[Node]]] = []
    for f, held in zip(group.folds, scores_of):
        joined = [part for part in parts if part[0] & held]
        parts = [part for part in parts if not part[0] & held]
        parts.append((held.union(*(s for s, _ in joined)), [*(g for _, folds in joined for g in folds), f]))
    if len(parts) == 1:
        return [group]
    return [_subset(group, set(folds)) for _, folds in parts]


def split_by_weighted_sum(
    groups: list[ReductionSet], values: list[Node]
) -> tuple[list[ReductionSet], list[Node], list[Node]]:
    """(sets with one weighted sum each, the values in terms of them, folds that had to be split off).

    A kernel multiplies one v by its weights. Each further weighted sum gets a kv axis of its own, with copies of all
    folds that it reads.
    """
    tag, sets, renamed = _unused_tag(values), [], {}
    for group in groups:
        free = free_axes(group.folds)
        weighing = [f for f in group.folds if free[f] & group.value_axes]
        others = [f for f in weighing[1:] if len(set(weighing) & set(walk([f]))) == 1]
        for f in others:
            (kv_axis,) = f.attr[1]
            new = _on_kv_axis(f, group.folds, Axis(kv_axis.extent, tag))
            tag += 1
            renamed[f] = new[f]
            written = {old: new[f] for old, new_fold in group.rewritten.items() if new_fold is f}
            sets.append(ReductionSet(written, [new[g] for g in group.folds if g in new], group.value_axes & free[f]))
        sets.append(group)
    new_values = replace_nodes(values, renamed)
    values = [new_values[v] for v in values]
    needed = set(walk(values))
    return [part for group in sets if (part := _subset(group, needed)).folds], values, list(renamed.values())


def _subset(group: ReductionSet, wanted: set[Node]) -> ReductionSet:
    """The set with the `wanted` folds only."""
    folds = [f for f in group.folds if f in wanted]
    free = free_axes(folds)
    written = {old: new for old, new in group.rewritten.items() if new in folds}
    return ReductionSet(written, folds, {a for a in group.value_axes if any(a in free[f] for f in folds)})


def _on_kv_axis(root: Node, folds: Sequence[Node], kv_axis: Axis) -> dict[Node, Node]:
    """A fold, and the folds that it reads, renamed to another kv axis."""
    inner = set(folds)

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old not in inner:
            return with_arguments(old, args)
        value = rename_axis(args[0], old.attr[1][0], kv_axis, free_axes(args))
        return node("fold", (value,), (old.attr[0], (kv_axis,)), old.type)

    new = rebuild([root], change)
    return {f: new[f] for f in folds if f in new}


def _unused_tag(roots: Sequence[Node]) -> int:
    """A tag above those of all axes."""
    free = free_axes(roots)
    folded = (a for n in free if n.op == "fold" for a in n.attr[1])
    return 1 + max((a.tag for axes in (*free.values(), folded) for a in axes), default=0)


def rename_axis(root: Node, old: Axis, new: Axis, free: dict[Node, frozenset]) -> Node:
    """A value with one of its free axes renamed."""

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
        elif n.op in ("scan", "sort", "sorted"):
            attr = tuple(new if part == old else part for part in attr)
        return node(n.op, args, attr, n.type)

    return resolve(done, root, lambda n: n.args if old in free[n] else (), change)
