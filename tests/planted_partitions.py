"""Faults of partitions: kernels in a wrong order, stores and imports that are missing or of something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from planted_plans import mutations

from fusedsl.fusion.coordinates import Axis, Coordinate
from fusedsl.fusion.fusion_group import FusionGroup, Partition
from fusedsl.fusion.scalar_program import ScalarStore
from fusedsl.ir.dims import Symbol
from fusedsl.ir.graph import node
from fusedsl.ir.types import INT32

Change = Callable[[Partition], Partition | None]
STORES = ("stores", "row_stores", "sorted_stores", "value_axis_stores", "column_stores")
OTHER = Axis(Symbol(7, 3))


def copied(g: FusionGroup, **changes) -> FusionGroup:
    """A group with lists of its own, so that the partition that it came from stays as it was."""
    own = {f.name: getattr(g, f.name) for f in fields(g)}
    own = {name: type(v)(v) if isinstance(v, (list, dict, set)) else v for name, v in own.items()}
    return FusionGroup(**(own | changes))


def in_groups(change: Callable[[FusionGroup], FusionGroup | None]) -> Change:
    """Changes the first group that can be changed."""

    def planted(p: Partition) -> Partition | None:
        for k, g in enumerate(p.groups):
            made = change(copied(g))
            if made is not None:
                return replace(p, groups=(*p.groups[:k], made, *p.groups[k + 1 :]))
        return None

    return planted


def in_stores(change: Callable[[FusionGroup, ScalarStore], list[ScalarStore] | None]) -> Change:
    """Puts other roots in the place of the first one that can be changed."""

    def changed(g: FusionGroup) -> FusionGroup | None:
        for name in STORES:
            for k, root in enumerate(roots := getattr(g, name)):
                made = change(g, root)
                if made is not None:
                    return copied(g, **{name: [*roots[:k], *made, *roots[k + 1 :]]})
        return None

    return in_groups(changed)


def _reversed(p: Partition) -> Partition | None:
    """The order is wrong where a kernel reads what another one writes."""
    if not any(g.waits_for for g in p.groups):
        return None
    last = len(p.groups) - 1
    return replace(p, groups=tuple(copied(g, waits_for={last - k for k in g.waits_for}) for g in reversed(p.groups)))


def _forgotten_order(g: FusionGroup) -> FusionGroup | None:
    return copied(g, waits_for=set()) if g.waits_for else None


def _scatter_too_early(p: Partition) -> Partition | None:
    """A scatter before the kernel that stores what it merges into, and nothing but the order tells."""
    for k, g in enumerate(p.groups):
        if g.scatters and g.waits_for == {k - 1}:
            first, second = copied(g, waits_for=set()), copied(p.groups[k - 1], waits_for=set())
            return replace(p, groups=(*p.groups[: k - 1], first, second, *p.groups[k + 1 :]))
    return None


def _after_itself(p: Partition) -> Partition:
    return replace(p, groups=(copied(p.groups[0], waits_for={0}), *p.groups[1:]))


def _without(which: int) -> Change:
    return lambda p: replace(p, groups=tuple(g for k, g in enumerate(p.groups) if k != which % len(p.groups)))


def _twice(p: Partition) -> Partition:
    return replace(p, groups=(*p.groups, copied(p.groups[0], waits_for={0})))


def _of_kind(kind: str, change: Callable[[ScalarStore], list[ScalarStore]]) -> Change:
    return in_stores(lambda g, r: change(r) if r.kind == kind else None)


def _turned(g: FusionGroup, r: ScalarStore) -> list[ScalarStore] | None:
    extents = [None if a is None else a.extent for a in r.axes]
    return [replace(r, axes=tuple(reversed(r.axes)))] if extents != extents[::-1] else None


def _doubled(g: FusionGroup, r: ScalarStore) -> list[ScalarStore] | None:
    axes = [a for a in r.axes if a is not None]
    return [replace(r, axes=tuple(axes[0] for _ in r.axes))] if len(axes) > 1 else None


def _along_another_axis(g: FusionGroup, r: ScalarStore) -> list[ScalarStore] | None:
    return [replace(r, axes=(OTHER, *r.axes[1:]))] if r.axes else None


def _exchanged(p: Partition) -> Partition | None:
    """Two temporaries, each stored where the other belongs."""
    written = [r.index for g in p.groups for r in g.all_stores if r.kind == "temporary"]
    if len(set(written)) < 2:
        return None
    a, b = sorted(set(written))[:2]
    if p.temporaries[a] == p.temporaries[b]:
        return None
    other = {a: b, b: a}

    def moved(g: FusionGroup) -> FusionGroup:
        def index(r: ScalarStore) -> ScalarStore:
            return replace(r, index=other.get(r.index, r.index)) if r.kind == "temporary" else r

        return copied(g, **{name: [index(r) for r in getattr(g, name)] for name in STORES})

    return replace(p, groups=tuple(map(moved, p.groups)))


def _imports(change: Callable[[dict], dict]) -> Change:
    return in_groups(lambda g: copied(g, imports=change(g.imports)) if g.imports else None)


def _of_another(imports: dict) -> dict:
    """Every load, of the next temporary."""
    made = {}
    for fold, load in imports.items():
        source, at = load.attr
        made[fold] = node("load", (), (replace(source, index=source.index + 1), at), load.type)
    return made


def _along_other_axes(imports: dict) -> dict:
    made = {}
    for fold, load in imports.items():
        source, at = load.attr
        made[fold] = node("load", (), (source, tuple(replace(c, axis=OTHER) for c in at)), load.type)
    return made


def _shifted(imports: dict) -> dict:
    made = {}
    for fold, load in imports.items():
        source, at = load.attr
        moved = tuple(Coordinate(1, c.step, c.axis) for c in at)
        made[fold] = node("load", (), (source, moved), load.type)
    return made


def _temporaries(change: Callable) -> Change:
    def planted(p: Partition) -> Partition | None:
        return replace(p, temporaries=(change(p.temporaries[0]), *p.temporaries[1:])) if p.temporaries else None

    return planted


def _turned_group(g: FusionGroup) -> FusionGroup | None:
    return copied(g, rows=g.columns, columns=g.rows) if g.rows and not g.attention else None


def _without_rows(g: FusionGroup) -> FusionGroup | None:
    return copied(g, rows=g.rows[1:]) if g.rows and not g.attention else None


def _without_folds(g: FusionGroup) -> FusionGroup | None:
    return copied(g, folds=g.folds[:-1]) if g.folds and not g.attention else None


def _another_column(g: FusionGroup) -> FusionGroup | None:
    return copied(g, columns=(OTHER, *g.columns[1:])) if g.columns and not g.attention else None


def _row_twice(g: FusionGroup) -> FusionGroup | None:
    return copied(g, rows=(*g.rows, g.rows[0])) if g.rows and not g.attention else None


def _operands_exchanged(g: FusionGroup, r: ScalarStore) -> list[ScalarStore] | None:
    if r.value.op not in ("subtract", "divide"):
        return None
    return [replace(r, value=node(r.value.op, r.value.args[::-1], r.value.attr, r.value.type))]


def _another_operation(g: FusionGroup, r: ScalarStore) -> list[ScalarStore] | None:
    if r.value.op not in ("add", "multiply"):
        return None
    return [replace(r, value=node("maximum", r.value.args, None, r.value.type))]


# What these leave is well formed: only a comparison with the graph finds them.
MEANINGS = mutations(
    {
        "the operands of what is stored exchanged": in_stores(_operands_exchanged),
        "another operation before a store": in_stores(_another_operation),
    },
    {},
)

PARTITIONS = mutations(
    {
        "the order of kernels reversed": _reversed,
        "a kernel that does not wait": in_groups(_forgotten_order),
        "a scatter before what it merges into": _scatter_too_early,
        "a kernel that waits for itself": _after_itself,
        "the first kernel left out": _without(0),
        "the last kernel left out": _without(-1),
        "a kernel twice": _twice,
        "a temporary that is not stored": _of_kind("temporary", lambda r: []),
        "a result that is not stored": _of_kind("result", lambda r: []),
        "a store twice": in_stores(lambda g, r: [r, r]),
        "a store to another temporary": _of_kind("temporary", lambda r: [replace(r, index=r.index + 9)]),
        "a store to a result that there is not": _of_kind("result", lambda r: [replace(r, index=r.index + 9)]),
        "two temporaries exchanged": _exchanged,
        "the axes of a store exchanged": in_stores(_turned),
        "an axis of a store twice": in_stores(_doubled),
        "a store along an axis that the kernel has not": in_stores(_along_another_axis),
        "a fold that is not imported": _imports(lambda imports: {}),
        "an import of another temporary": _imports(_of_another),
        "an import along an axis that the kernel has not": _imports(_along_other_axes),
        "an import one further": _imports(_shifted),
        "a temporary of another dtype": _temporaries(lambda t: replace(t, dtype=INT32)),
        "a temporary that is too small": _temporaries(lambda t: replace(t, shape=(1,) * t.rank)),
        "a temporary without an axis": _temporaries(lambda t: replace(t, shape=t.shape[1:])),
        "rows and columns exchanged": in_groups(_turned_group),
        "an axis of the rows left out": in_groups(_without_rows),
        "an axis of the rows twice": in_groups(_row_twice),
        "another axis of the columns": in_groups(_another_column),
        "a fold that no kernel computes": in_groups(_without_folds),
    },
    {},
)
