"""Builds the block mask of an attention kernel: which key tiles are empty, partial or full."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...fusion.mask_conditions import Condition, conditions, conjuncts
from ...ir.graph import Node, Type, constant, is_literal, node, rebuild, walk
from ...ir.ops import CASTS
from ...ir.types import BOOL, INT64
from ...rewrite.intervals.interval_analysis import Intervals
from ...rewrite.intervals.three_valued_logic import LOGIC, NO, UNKNOWN, YES, Truth, all_hold, both, either, opposite
from ...rewrite.online.online_reduction import TileReduction
from ...rewrite.scalar_builder import free_axes
from ..attention import BlockMask, TileBounds
from ..phase import Phase
from .attention_frame import AttentionFrame
from .block_mask_text import describe_finite_mask, describe_tiles

PhaseNodes = tuple[
    Sequence[TileReduction], Sequence[Node], Sequence[Node], Phase
]  # (reductions, other results, live-ins, the phase)


def block_mask(emitter: AttentionFrame, parts: Sequence[PhaseNodes]) -> tuple[BlockMask | None, str]:
    """(the block mask, None if it would save no work; its description for explain())"""
    pattern = emitter.pattern
    counted = conditions(pattern.reduction)
    if counted is None or not any(counted):
        return None, describe_finite_mask(pattern.reduction)
    tiled = (*pattern.query_axes, *pattern.reduction.axes)
    ends = {a: tuple(node("state", (), (end, a), Type(INT64)) for end in ("first", "last")) for a in tiled}
    free = free_axes(c for group in counted for c, _ in group)
    intervals = Intervals(ends, lambda n: free.get(n, frozenset()), frozenset(pattern.reduction.axes))  # type: ignore[arg-type]
    somewhere, everywhere, known = _any_and_all_active(intervals, counted, emitter.inputs[0])
    words = describe_tiles(emitter.builder, intervals, counted, (somewhere, everywhere))
    if not known or (somewhere is YES and everywhere is NO):
        return None, words
    mask = _mask_body(emitter, intervals, (somewhere, everywhere))
    whole, names = _full_tile_phases(emitter, parts, known) if everywhere is not NO else ((), ())
    return replace(mask, full_phases=whole, full_names=names), words


def _mask_body(emitter: AttentionFrame, intervals: Intervals, answers: Truth) -> BlockMask:
    """The block mask with its ranges, bounds and body, still without full phases."""
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
        extremes.append(TileBounds(axes.index(axis), builder.body((), [n], emitter.known()), *values))
    pairs = (*intervals.ends.values(), *intervals.extremes.values())
    known = [*emitter.known(), *(n for pair in pairs for n in pair)]
    return BlockMask(named, tuple(extremes), builder.body((), answers, known), (), ())


def _any_and_all_active(
    intervals: Intervals, counted: list[list[Condition]], inputs: Iterable[Node]
) -> tuple[Node, Node, dict[Node, bool]]:
    """(any element active, all elements active, the conditions known in full tiles).

    Only conditions that the ranges of a tile decide are known. Others stay element masks: random masks, and conditions
    combined with loads or index masks of each element."""
    somewhere, everywhere, given = NO, YES, set(inputs)
    known: dict[Node, bool] = {}
    for conjunction in counted:
        some, every = YES, YES
        for condition in conjunction:
            parts = _condition_terms(intervals, condition)
            truths = {c: truth for c in parts if (truth := _truth(intervals, c)) != UNKNOWN}
            some = both(some, all_hold(x for x, _ in truths.values()))
            together = len(parts) > 1 and not given.isdisjoint(walk([condition[0]]))
            every = NO if together else both(every, all_hold(x for _, x in truths.values()))
            known |= dict(truths.keys())
        somewhere, everywhere = either(somewhere, some), both(everywhere, every)
    return somewhere, everywhere, known


def _condition_terms(intervals: Intervals, condition: Condition) -> list[Condition]:
    """The condition, or the terms of its conjunction if it is not known to hold in any whole tile."""
    terms = conjuncts(condition, lambda part: _truth(intervals, part)[1] is NO)
    return terms if len(terms) > 1 else [condition]


def _truth(intervals: Intervals, condition: Condition) -> Truth:
    c, wanted = condition
    truth = intervals.truth(c)
    return truth if wanted else opposite(truth)


# -- full tiles


def _full_tile_phases(
    emitter: AttentionFrame, parts: Sequence[PhaseNodes], known: dict[Node, bool]
) -> tuple[tuple[Phase, ...], tuple[tuple[str, str], ...]]:
    """(the phases of a full tile, pairs of the partial phases' value names and theirs)"""
    roots = [n for lifts, others, given, _ in parts for n in (*(x.value for x in lifts), *others, *given)]
    stay = {*emitter.inputs[0], *emitter.inputs[1], *emitter.paged.valid} - known.keys()  # computed before tiles branch
    new = rebuild(roots, lambda old, args: old if old in stay else _simplify_known(old, args, known))
    results = dict.fromkeys(n for _, others, _, _ in parts for n in others)
    if any(new[n].op == "const" for n in emitter.weights.values()):  # no phase computes a literal for each element
        return tuple(phase for *_, phase in parts), tuple((emitter.builder.names[n],) * 2 for n in results)
    phases: list[Phase] = []
    names: dict[str, str] = {}
    for lifts, others, given, partial in parts:
        moved = [TileReduction(x.fold, new[x.value], x.slots) for x in lifts]
        others = [n for n in others if new[n].op != "const"]
        full = emitter.elements(moved, [new[n] for n in others], _without_constants(new[n] for n in given))
        phases.append(Phase(full.element, (), full.folds, row=partial.row))
        names |= {emitter.builder.names[n]: emitter.builder.names[new[n]] for n in others}
    return tuple(phases), tuple(names.items())


def _without_constants(nodes: Iterable[Node]) -> list[Node]:
    return list(dict.fromkeys(n for n in nodes if n.op != "const"))


def _simplify_known(old: Node, args: tuple[Node, ...], known: dict[Node, bool]) -> Node:
    if old.op == "fold":  # a score keeps the selects of its operands
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
    if old.op == "multiply" and (x := _drop_factor_one(*args)) is not None:
        return x
    return node(old.op, args, old.attr, old.type)


def _drop_factor_one(x: Node, y: Node) -> Node | None:
    """The other factor, if one is 1."""
    return next((b for a, b in ((x, y), (y, x)) if is_literal(a, 1)), None)
