"""Verifies attention kernels: every name is defined before it is read, in tiles, in the state and in the outputs."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.verify import require
from .attention import AttentionBody, BlockMask
from .phase import Body, Phase
from .plan import KernelPlan
from .verify_bodies import BodyInputs, DefinedNames, Known, are_known, body, body_inputs


def verify_attention(kernel: KernelPlan) -> None:
    """Raise VerifyError if a name of an attention body is read before it is defined."""
    attention = kernel.attention
    assert attention is not None
    given = body_inputs(kernel)
    elements = _element_values(attention, given)
    tile = _tile(attention, attention.tile_phases, elements)
    if attention.block_mask is not None:
        _verify_block_mask(attention, attention.block_mask, given, elements, tile)
    state = _combined_state(attention, tile)
    _verify_outputs(attention, given, state)


def _results_of(bodies: Iterable[Body | None], known: Known) -> Known:
    """The results of bodies that read the same values."""
    return {name: d for part in bodies if part is not None for name, d in body(part, known).items()}


def _element_values(attention: AttentionBody, given: BodyInputs) -> Known:
    """The values that elements of a tile are computed from."""
    known = dict(given.elements)
    if attention.paged is not None:
        places = body(attention.paged.body, given.elements)
        for line in (attention.paged.k, attention.paged.v):
            are_known([] if line is None else [line.address, line.predicate], places, line)
        are_known(attention.paged.valid, places, attention.paged)
        known |= {v.name: v.dtype for v in attention.paged.valid}
    known |= _results_of((*attention.mask_inputs, *attention.row_inputs), given.elements)
    for score in attention.scores:
        _results_of((score.q, score.k), given.elements)
        known[score.value.name] = score.value.dtype
    _results_of((w.v for w in attention.weighted_sums), given.elements)
    return known


def _tile(attention: AttentionBody, phases: Iterable[Phase], elements: Known) -> DefinedNames:
    """The values defined after a tile's phases; the first reductions update the row maximum, if there is one."""
    scope, joined = DefinedNames(dict(elements), dict(elements)), attention.update_row_max is None
    for phase in phases:
        scope.folded(phase)
        if phase.folds and not joined:
            _update_row_max(attention, scope)
            joined = True
        scope.finished(phase)
    return scope


def _update_row_max(attention: AttentionBody, scope: DefinedNames) -> None:
    before = {v.name: v.dtype for v in attention.state.accumulators}
    for part in (attention.update_row_max, attention.choose_reference):
        if part is not None:
            body(part, scope.rows | before)
            require(len(part.results) <= len(attention.state.inputs), "the row maximum is part of a tile's state", part)
            scope.rows |= {v.name: v.dtype for v in attention.state.inputs[: len(part.results)]}


def _verify_block_mask(
    attention: AttentionBody, block_mask: BlockMask, given: BodyInputs, elements: Known, tile: DefinedNames
) -> None:
    known = dict(given.elements)
    known |= {v.name: v.dtype for _, *ends in block_mask.ranges for v in ends}
    for extreme in block_mask.bounds:
        body(extreme.body, given.elements)
        known |= {v.name: v.dtype for v in (extreme.lower, extreme.upper)}
    body(block_mask.body, known)
    if block_mask.full_phases:
        whole = _tile(attention, block_mask.full_phases, elements)
        for partial, other in block_mask.full_names:
            there = partial in tile.elements and other in whole.elements
            require(there, "full tiles have the values of partial tiles", partial, other)


def _combined_state(attention: AttentionBody, tile: DefinedNames) -> Known:
    """The state after a tile, and the row values that its sums are rescaled by."""
    use = attention.state
    before = {v.name: v.dtype for v in use.accumulators}
    are_known(use.inputs, tile.rows | before, "state")
    require(len(use.inputs) == len(use.identity) == len(use.accumulators), "a tile has the state of a row", use)
    known = {**tile.rows, **before}
    merged = body(use.combine, known)
    require(len(use.combine.results) >= len(use.accumulators), "two states merge to one", use)
    known |= merged
    for w in attention.weighted_sums:
        are_known([w.p], tile.elements | tile.rows, w)
        if w.is_active is not None:
            body(w.is_active, tile.elements)
        before[w.state.name] = w.state.dtype
        body(w.combine_tile, known | {v.name: v.dtype for v in (*w.sides, w.state)})
    if attention.combine_splits is not None:
        own = {v.name: v.dtype for v in (*attention.combine_splits.accumulators, *attention.combine_splits.inputs)}
        moving = body(attention.combine_splits.combine, {**tile.rows, **before, **own})
        for w in attention.weighted_sums:
            if w.combine_splits is not None:
                sides = {v.name: v.dtype for v in w.combine_splits.args if v.name.startswith("split_output_")}
                body(w.combine_splits, {**tile.rows, **before, **own, **moving, **sides})
    return before


def _verify_outputs(attention: AttentionBody, given: BodyInputs, state: Known) -> None:
    known = {**given.elements, **state}
    if attention.row_epilogue is not None:
        known |= body(attention.row_epilogue, {**given.rows, **state})
    scope = DefinedNames(known, known)
    scope.stores(attention.row_outputs, {**given.rows, **known})
    for ending in attention.epilogues:
        scope.stores(ending.stores, {**known, **body(ending.body, known)})
