"""Which tiles of a pass over scores are skipped, and which need no masks: asked by the kernel, tile by tile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...fusion.mask_conditions import Condition, conditions, conjuncts
from ...ir.graph import Node, Type, constant, is_literal, node, rebuild, walk
from ...ir.ops import CASTS
from ...ir.types import BOOL, INT64
from ...rewrite.intervals.interval_analysis import Intervals
from ...rewrite.scalar_builder import free_axes
from ...rewrite.online.online_reduction import TileReduction
from ...rewrite.intervals.three_valued_logic import LOGIC, NO, UNKNOWN, YES, Truth, all_hold, both, either, opposite
from ..phase import Phase
from ..attention import Extreme, Sieve
from .block_mask_text import told_of_numbers, told_of_tiles

if TYPE_CHECKING:
    from .attention import AttentionBuilder

Part = tuple[
    Sequence[TileReduction], Sequence[Node], Sequence[Node], Phase
]  # what a phase folds, makes besides, knows; itself


def sieve(emitter: AttentionBuilder, parts: Sequence[Part]) -> tuple[Sieve | None, str]:
    """What is asked of a tile of this pass, None where no answer would save work; and what comes of it, in words."""
    one = emitter.streaming
    counted = conditions(one.fold)
    if counted is None or not any(counted):
        return None, told_of_numbers(one.fold)
    tiled = (*one.lanes, *one.fold.stream)
    ends = {a: tuple(node("state", (), (end, a), Type(INT64)) for end in ("first", "last")) for a in tiled}
    free = free_axes(c for found in counted for c, _ in found)
    intervals = Intervals(ends, lambda n: free.get(n, frozenset()), frozenset(one.fold.stream))  # type: ignore[arg-type]
    somewhere, everywhere, known = _asked(intervals, counted, emitter.inputs[0])
    words = told_of_tiles(emitter.builder, intervals, counted, (somewhere, everywhere))
    if not known or (somewhere is YES and everywhere is NO):
        return None, words
    made = _written(emitter, intervals, (somewhere, everywhere))
    whole, names = _whole(emitter, parts, known) if everywhere is not NO else ((), ())
    return replace(made, whole=whole, names=names), words


def _written(emitter: AttentionBuilder, intervals: Intervals, answers: Truth) -> Sieve:
    """The answers as a body, with what it asks."""
    builder, axes = emitter.builder, emitter.axes
    named = tuple(
        (axes.index(a), builder.name(first, "first", f"first {a}"), builder.name(last, "last", f"last {a}"))  # type: ignore[arg-type]
        for a, (first, last) in intervals.ends.items()
    )
    extremes, asked = [], set(walk(answers))
    for n, (least, greatest) in intervals.extremes.items():
        if asked.isdisjoint((least, greatest)):
            continue
        (axis,) = intervals.varies(n)
        values = (builder.name(least, "least", "least"), builder.name(greatest, "greatest", "greatest"))
        extremes.append(Extreme(axes.index(axis), builder.body((), [n], emitter.known()), *values))
    pairs = (*intervals.ends.values(), *intervals.extremes.values())
    known = [*emitter.known(), *(n for pair in pairs for n in pair)]
    return Sieve(named, tuple(extremes), builder.body((), answers, known), (), ())


def _asked(
    intervals: Intervals, counted: list[list[Condition]], inputs: Iterable[Node]
) -> tuple[Node, Node, dict[Node, bool]]:
    """(whether a tile may have something that counts, whether it has everything, the conditions that then hold):
    those of which a tile's ends say something. Others, as that a weight is drawn, stay, and so do those that stand with
    what is read or drawn for each element: masks are there all the same."""
    somewhere, everywhere, given = NO, YES, set(inputs)
    known: dict[Node, bool] = {}
    for found in counted:
        some, every = YES, YES
        for condition in found:
            parts = _parts(intervals, condition)
            truths = {c: truth for c in parts if (truth := _truth(intervals, c)) != UNKNOWN}
            some = both(some, all_hold(x for x, _ in truths.values()))
            together = len(parts) > 1 and not given.isdisjoint(walk([condition[0]]))
            every = NO if together else both(every, all_hold(x for _, x in truths.values()))
            known |= dict(truths.keys())
        somewhere, everywhere = either(somewhere, some), both(everywhere, every)
    return somewhere, everywhere, known


def _parts(intervals: Intervals, condition: Condition) -> list[Condition]:
    """A condition; where it never holds everywhere, as far as is known, those that hold where it does."""
    found = conjuncts(condition, lambda part: _truth(intervals, part)[1] is NO)
    return found if len(found) > 1 else [condition]


def _truth(intervals: Intervals, condition: Condition) -> Truth:
    c, wanted = condition
    truth = intervals.truth(c)
    return truth if wanted else opposite(truth)


# -- tiles where every condition holds


def _whole(
    emitter: AttentionBuilder, parts: Sequence[Part], known: dict[Node, bool]
) -> tuple[tuple[Phase, ...], tuple[tuple[str, str], ...]]:
    """(the phases of such a tile, the names of the partial phases' values with theirs)"""
    roots = [n for lifts, others, given, _ in parts for n in (*(x.value for x in lifts), *others, *given)]
    stay = {*emitter.inputs[0], *emitter.inputs[1], *emitter.places_read.there} - known.keys()  # made once for a tile
    new = rebuild(roots, lambda old, args: old if old in stay else _chosen(old, args, known))
    results = dict.fromkeys(n for _, others, _, _ in parts for n in others)
    if any(new[n].op == "const" for n in emitter.weights.values()):  # no phase computes a literal for each element
        return tuple(phase for *_, phase in parts), tuple((emitter.builder.names[n],) * 2 for n in results)
    phases: list[Phase] = []
    names: dict[str, str] = {}
    for lifts, others, given, partial in parts:
        moved = [TileReduction(x.fold, new[x.value], x.slots) for x in lifts]
        others = [n for n in others if new[n].op != "const"]
        made = emitter.elements(moved, [new[n] for n in others], _present(new[n] for n in given))
        phases.append(Phase(made.element, (), made.folds, row=partial.row))
        names |= {emitter.builder.names[n]: emitter.builder.names[new[n]] for n in others}
    return tuple(phases), tuple(names.items())


def _present(nodes: Iterable[Node]) -> list[Node]:
    return list(dict.fromkeys(n for n in nodes if n.op != "const"))


def _chosen(old: Node, args: tuple[Node, ...], known: dict[Node, bool]) -> Node:
    if old.op == "fold":  # a score, whatever its operands are chosen by
        return old
    if old in known:
        return YES if known[old] else NO
    if args == old.args:
        return old
    if old.op == "where" and args[0] in (YES, NO):
        return args[1] if args[0] is YES else args[2]
    if old.op in CASTS and args[0] in (YES, NO):
        return constant(args[0] is YES, old.type.dtype)
    if old.type.dtype is BOOL and old.op in LOGIC and not {YES, NO}.isdisjoint(args):
        return LOGIC[old.op](*((a, a) for a in args))[0]
    if old.op == "multiply" and (x := _times_one(*args)) is not None:
        return x
    return node(old.op, args, old.attr, old.type)


def _times_one(x: Node, y: Node) -> Node | None:
    """The other factor, where one is 1."""
    return next((b for a, b in ((x, y), (y, x)) if is_literal(a, 1)), None)
