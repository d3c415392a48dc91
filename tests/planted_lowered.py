"""Faults of lowered programs: wrong coordinates, axes, folds, stores and temporaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planted_plans import SLICED, mutations

from fusedsl.fusion.coordinates import Axis, Coordinate
from fusedsl.fusion.scalar_program import ArraySource, ScalarProgram, ScalarStore
from fusedsl.ir.dims import Expression, Symbol
from fusedsl.ir.graph import Node, Type, node, rebuild, walk
from fusedsl.ir.types import FLOAT64, INT32
from fusedsl.rewrite.scalar_builder import free_axes

Change = Callable[[ScalarProgram], ScalarProgram | None]
OTHER = Symbol(7, 3)  # an extent of no argument


def in_values(change: Callable[[Node], Node | None]) -> Change:
    """Changes the first node that can be changed, of the first root whose value has one."""

    def planted(program: ScalarProgram) -> ScalarProgram | None:
        for k, root in enumerate(program.stores):
            for n in walk([root.value]):
                made = change(n)
                if made is not None and made is not n:
                    return _with_root(program, k, replace(root, value=_replaced(root.value, n, made)))
        return None

    return planted


def in_loads(change: Callable[[ArraySource, tuple], tuple | None]) -> Change:
    """Changes the coordinates of the first load that can be changed."""

    def changed(n: Node) -> Node | None:
        if n.op != "load":
            return None
        source, at = n.attr
        made = change(source, at)
        return None if made is None else node("load", (), (source, made), n.type)

    return in_values(changed)


def in_roots(change: Callable[[ScalarStore], ScalarStore | None]) -> Change:
    def planted(program: ScalarProgram) -> ScalarProgram | None:
        for k, root in enumerate(program.stores):
            made = change(root)
            if made is not None:
                return _with_root(program, k, made)
        return None

    return planted


def _with_root(program: ScalarProgram, k: int, root: ScalarStore) -> ScalarProgram:
    return replace(program, stores=(*program.stores[:k], root, *program.stores[k + 1 :]))


def _replaced(value: Node, old: Node, new: Node) -> Node:
    return rebuild([value], lambda n, args: new if n is old else node(n.op, args, n.attr, n.type))[value]


def _axes(at: tuple) -> list[int]:
    """The places of coordinates that follow an axis."""
    return [k for k, c in enumerate(at) if isinstance(c, Coordinate) and c.axis is not None]


def _exchanged(source: ArraySource, at: tuple) -> tuple | None:
    places = _axes(at)
    if len(places) < 2 or at[places[0]].axis.extent == at[places[1]].axis.extent:
        return None
    a, b = places[:2]
    made = list(at)
    made[a], made[b] = at[b], at[a]
    return tuple(made)


def _merged(source: ArraySource, at: tuple) -> tuple | None:
    places = _axes(at)
    if len(places) < 2 or at[places[0]].axis.extent == at[places[1]].axis.extent:
        return None
    made = list(at)
    made[places[1]] = replace(at[places[1]], axis=at[places[0]].axis)
    return tuple(made)


def _at(change: Callable[[Coordinate], Coordinate]) -> Callable[[ArraySource, tuple], tuple | None]:
    """Changes the first coordinate that runs over a whole axis."""

    def changed(source: ArraySource, at: tuple) -> tuple | None:
        for k in _axes(at):
            if (at[k].start, at[k].step) == (0, 1):
                return (*at[:k], change(at[k]), *at[k + 1 :])
        return None

    return changed


def _of_source(change: Callable[[ArraySource], ArraySource]) -> Change:
    def changed(n: Node) -> Node | None:
        if n.op != "load":
            return None
        source, at = n.attr
        made = change(source)
        return None if made == source else node("load", (), (made, at), n.type)

    return in_values(changed)


def _of_temporaries(change: Callable[[ArraySource], ArraySource]) -> Change:
    return _of_source(lambda s: change(s) if s.kind == "temporary" else s)


def _retyped(n: Node) -> Node | None:
    return node("load", (), n.attr, Type(INT32)) if n.op == "load" and n.type.dtype.kind == "f" else None


def _unlike_operands(n: Node) -> Node | None:
    """An operation of two dtypes."""
    if n.op not in ("add", "subtract", "multiply", "divide") or n.type.dtype.kind != "f":
        return None
    a, b = n.args
    return node(n.op, (a, node("convert", (b,), None, Type(FLOAT64))), n.attr, n.type)


def _fold(change: Callable[[tuple[Axis, ...]], tuple[Axis, ...] | None]) -> Change:
    def changed(n: Node) -> Node | None:
        if n.op != "fold":
            return None
        name, axes = n.attr
        made = change(axes)
        return None if made is None or made == axes else node("fold", n.args, (name, made), n.type)

    return in_values(changed)


def _folded_over_a_stored_axis(program: ScalarProgram) -> ScalarProgram | None:
    """A fold that binds an axis which the store, or what stands outside of the fold, runs over."""
    for k, root in enumerate(program.stores):
        stored = [a for a in root.axes if a is not None]
        for n in walk([root.value]):
            if n.op == "fold" and stored and stored[0] not in n.attr[1]:
                name, axes = n.attr
                made = node("fold", n.args, (name, (*axes, stored[0])), n.type)
                return _with_root(program, k, replace(root, value=_replaced(root.value, n, made)))
    return None


def _captured(program: ScalarProgram) -> ScalarProgram | None:
    """The axis of a fold, in all that it folds, under the name of one that is free there, of the same extent."""
    for k, root in enumerate(program.stores):
        for n in walk([root.value]):
            if n.op != "fold":
                continue
            (own, *rest) = n.attr[1]
            same = [a for a in root.axes if a is not None and a.extent == own.extent and a not in n.attr[1]]
            if same and same[0] in free_axes([n])[n]:
                made = node("fold", (_renamed(n.args[0], own, same[0]),), (n.attr[0], (same[0], *rest)), n.type)
                return _with_root(program, k, replace(root, value=_replaced(root.value, n, made)))
    return None


def _renamed(value: Node, old: Axis, new: Axis) -> Node:
    """A value with an axis of its loads renamed."""

    def changed(n: Node, args: tuple[Node, ...]) -> Node:
        if n.op != "load":
            return node(n.op, args, n.attr, n.type)
        source, at = n.attr
        return node("load", (), (source, tuple(replace(c, axis=new) if c.axis == old else c for c in at)), n.type)

    return rebuild([value], changed)[value]


def _swapped(n: Node) -> Node | None:
    return node(n.op, n.args[::-1], n.attr, n.type) if n.op in ("subtract", "divide") else None


def _another_fold(n: Node) -> Node | None:
    return node("fold", n.args, ("min", n.attr[1]), n.type) if n.op == "fold" and n.attr[0] == "max" else None


def _moved_slice(source: ArraySource, at: tuple) -> tuple | None:
    """Of an axis that is longer than the one which the coordinate follows."""
    for k in _axes(at):
        if isinstance(at[k].axis.extent, Expression) and (at[k].start, at[k].step) == (0, 1):
            return (*at[:k], replace(at[k], start=1), *at[k + 1 :])
    return None


def _scanned_elsewhere(n: Node) -> Node | None:
    if n.op != "scan":
        return None
    name, axis, *rest = n.attr
    return node("scan", n.args, (name, replace(axis, tag=axis.tag + 5), *rest), n.type)


def _position_of_no_axis(n: Node) -> Node | None:
    return node("position", (), replace(n.attr, tag=n.attr.tag + 5), n.type) if n.op == "position" else None


def _roots(keep: Callable[[ScalarStore], bool], most: int = 1) -> Change:
    """Drops the first roots of a kind."""

    def planted(program: ScalarProgram) -> ScalarProgram | None:
        dropped = [r for r in program.stores if keep(r)][:most]
        return replace(program, stores=tuple(r for r in program.stores if r not in dropped)) if dropped else None

    return planted


def _stored_twice(program: ScalarProgram) -> ScalarProgram:
    return replace(program, stores=(*program.stores, program.stores[0]))


def _turned(r: ScalarStore) -> ScalarStore | None:
    axes = tuple(reversed(r.axes))
    extents = [None if a is None else a.extent for a in r.axes]
    return replace(r, axes=axes) if extents != extents[::-1] else None


def _doubled(r: ScalarStore) -> ScalarStore | None:
    axes = [a for a in r.axes if a is not None]
    if len(axes) < 2:
        return None
    return replace(r, axes=tuple(axes[0] if a is not None else None for a in r.axes))


def _dropped(r: ScalarStore) -> ScalarStore | None:
    """A store along no axis where the array has one."""
    return replace(r, axes=(None, *r.axes[1:])) if r.axes and r.axes[0] is not None else None


def _wider(r: ScalarStore) -> ScalarStore | None:
    return replace(r, shape=(OTHER, *r.shape[1:]), viewed=(OTHER, *r.viewed[1:])) if r.shape else None


def _reads_itself(program: ScalarProgram) -> ScalarProgram | None:
    for k, r in enumerate(program.stores):
        if r.kind == "temporary":
            at = tuple(Coordinate(0, 1, a) for a in r.axes)
            own = node("load", (), (ArraySource("temporary", r.index), at), Type(r.value.type.dtype))
            return _with_root(program, k, replace(r, value=node("add", (r.value, own), None, r.value.type)))
    return None


def _temporaries(change: Callable[[Type], Type]) -> Change:
    def planted(program: ScalarProgram) -> ScalarProgram | None:
        first, *rest = program.temporaries or (None,)
        return None if first is None else replace(program, temporaries=(change(first), *rest))

    return planted


LOWERED = mutations(
    {
        "the axes of a load exchanged": in_loads(_exchanged),
        "two axes of a load merged": in_loads(_merged),
        "a load along an axis of another extent": in_loads(
            _at(lambda c: replace(c, axis=replace(c.axis, extent=OTHER)))
        ),
        "a load along an axis that nothing binds": in_loads(_at(lambda c: replace(c, axis=replace(c.axis, tag=9)))),
        "a load that starts at 1": in_loads(_at(lambda c: replace(c, start=1))),
        "a load that starts before its axis": in_loads(_at(lambda c: replace(c, start=-1))),
        "a load that takes every second element": in_loads(_at(lambda c: replace(c, step=2))),
        "a load that runs backwards from 0": in_loads(_at(lambda c: replace(c, step=-1))),
        "a load with a coordinate too few": in_loads(lambda s, at: at[:-1] or None),
        "a load with a coordinate too many": in_loads(lambda s, at: (*at, Coordinate(0, 1, None))),
        "a load of another dtype": in_values(_retyped),
        "a load of an argument that there is not": _of_source(lambda s: replace(s, kind="argument", index=40)),
        "a load of a temporary that there is not": _of_source(lambda s: replace(s, kind="temporary", index=40)),
        "a load of another temporary": _of_temporaries(lambda s: replace(s, index=s.index + 1)),
        "an operation of two dtypes": in_values(_unlike_operands),
        "a fold over another axis": _fold(lambda axes: tuple(replace(a, tag=a.tag + 5) for a in axes)),
        "a fold over an axis of another extent": _fold(lambda axes: tuple(replace(a, extent=OTHER) for a in axes)),
        "a fold over an axis twice": _fold(lambda axes: (*axes, axes[0])),
        "a fold over no axis": _fold(lambda axes: ()),
        "a scan along another axis": in_values(_scanned_elsewhere),
        "the position on an axis that nothing binds": in_values(_position_of_no_axis),
        "a temporary that is not stored": _roots(lambda r: r.kind == "temporary"),
        "a result that is not stored": _roots(lambda r: r.kind == "result"),
        "a store twice": _stored_twice,
        "the axes of a store exchanged": in_roots(_turned),
        "an axis of a store twice": in_roots(_doubled),
        "a store that leaves out an axis": in_roots(_dropped),
        "a store to an array of another extent": in_roots(_wider),
        "a store that starts beyond": in_roots(lambda r: replace(r, offsets=(1,) * len(r.axes)) if r.axes else None),
        "a store to a result that there is not": in_roots(lambda r: replace(r, index=r.index + 7)),
        "a store of another dtype": in_roots(lambda r: replace(r, type=replace(r.type, dtype=INT32))),
        "a temporary that reads itself": _reads_itself,
        "a temporary of another dtype": _temporaries(lambda t: replace(t, dtype=INT32)),
        "a temporary of another extent": _temporaries(lambda t: replace(t, shape=(1, *t.shape[1:]))),
        "a temporary without an axis": _temporaries(lambda t: replace(t, shape=t.shape[1:])),
    },
    {"a load that starts at 1": SLICED},
)

# The maximum that softmax subtracts may be any number.
REFERENCES = frozenset({"rows", "weights over columns", "attention", "attention received"})

# What these leave is well formed, and means something else: only a comparison with the graph finds them.
MEANINGS = mutations(
    {
        "a fold over an axis that is stored": _folded_over_a_stored_axis,
        "a fold that captures an axis": _captured,
        "operands exchanged": in_values(_swapped),
        "a fold of another kind": in_values(_another_fold),
        "a slice one further": in_loads(_moved_slice),
    },
    {
        "a fold over an axis that is stored": frozenset({"rows", "a gather of rows that are folded"}),
        "a fold of another kind": REFERENCES,
    },
)
