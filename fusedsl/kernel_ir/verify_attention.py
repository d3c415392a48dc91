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
    stream = kernel.attention
    assert stream is not None
    given = body_inputs(kernel)
    elements = _element_values(stream, given)
    tile = _tile(stream, stream.tile_phases, elements)
    if stream.block_mask is not None:
        _verify_block_mask(stream, stream.block_mask, given, elements, tile)
    state = _combined_state(stream, tile)
    _verify_outputs(stream, given, state)


def _results_of(bodies: Iterable[Body | None], known: Known) -> Known:
    """The results of bodies that read the same values."""
    return {name: d for part in bodies if part is not None for name, d in body(part, known).items()}


def _element_values(stream: AttentionBody, given: BodyInputs) -> Known:
    """The values that elements of a tile are computed from."""
    known = dict(given.elements)
    if stream.paged is not None:
        places = body(stream.paged.body, given.elements)
        for line in (stream.paged.k, stream.paged.v):
            are_known([] if line is None else [line.address, line.predicate], places, line)
        are_known(stream.paged.valid, places, stream.paged)
        known |= {v.name: v.dtype for v in stream.paged.valid}
    known |= _results_of((*stream.mask_inputs, *stream.row_inputs), given.elements)
    for score in stream.scores:
        _results_of((score.q, score.k), given.elements)
        known[score.value.name] = score.value.dtype
    _results_of((w.v for w in stream.weighted_sums), given.elements)
    return known


def _tile(stream: AttentionBody, phases: Iterable[Phase], elements: Known) -> DefinedNames:
    """The values defined after a tile's phases; the first reductions update the row maximum, if there is one."""
    scope, joined = DefinedNames(dict(elements), dict(elements)), stream.update_row_max is None
    for phase in phases:
        scope.folded(phase)
        if phase.folds and not joined:
            _update_row_max(stream, scope)
            joined = True
        scope.finished(phase)
    return scope


def _update_row_max(stream: AttentionBody, scope: DefinedNames) -> None:
    before = {v.name: v.dtype for v in stream.state.accumulators}
    for part in (stream.update_row_max, stream.choose_reference):
        if part is not None:
            body(part, scope.rows | before)
            require(len(part.results) <= len(stream.state.inputs), "the row maximum is part of a tile's state", part)
            scope.rows |= {v.name: v.dtype for v in stream.state.inputs[: len(part.results)]}


def _verify_block_mask(
    stream: AttentionBody, sieve: BlockMask, given: BodyInputs, elements: Known, tile: DefinedNames
) -> None:
    known = dict(given.elements)
    known |= {v.name: v.dtype for _, *ends in sieve.ranges for v in ends}
    for extreme in sieve.bounds:
        body(extreme.body, given.elements)
        known |= {v.name: v.dtype for v in (extreme.lower, extreme.upper)}
    body(sieve.body, known)
    if sieve.full_phases:
        whole = _tile(stream, sieve.full_phases, elements)
        for partial, other in sieve.full_names:
            there = partial in tile.elements and other in whole.elements
            require(there, "full tiles have the values of partial tiles", partial, other)


def _combined_state(stream: AttentionBody, tile: DefinedNames) -> Known:
    """The state after a tile, and the row values that its sums are rescaled by."""
    use = stream.state
    before = {v.name: v.dtype for v in use.accumulators}
    are_known(use.inputs, tile.rows | before, "state")
    require(len(use.inputs) == len(use.identity) == len(use.accumulators), "a tile has the state of a row", use)
    known = {**tile.rows, **before}
    merged = body(use.combine, known)
    require(len(use.combine.results) >= len(use.accumulators), "two states merge to one", use)
    known |= merged
    for w in stream.weighted_sums:
        are_known([w.p], tile.elements | tile.rows, w)
        if w.is_active is not None:
            body(w.is_active, tile.elements)
        before[w.state.name] = w.state.dtype
        body(w.combine_tile, known | {v.name: v.dtype for v in (*w.sides, w.state)})
    if stream.combine_splits is not None:
        own = {v.name: v.dtype for v in (*stream.combine_splits.accumulators, *stream.combine_splits.inputs)}
        moving = body(stream.combine_splits.combine, {**tile.rows, **before, **own})
        for w in stream.weighted_sums:
            if w.combine_splits is not None:
                sides = {v.name: v.dtype for v in w.combine_splits.args if v.name.startswith("split_output_")}
                body(w.combine_splits, {**tile.rows, **before, **own, **moving, **sides})
    return before


def _verify_outputs(stream: AttentionBody, given: BodyInputs, state: Known) -> None:
    known = {**given.elements, **state}
    if stream.row_epilogue is not None:
        known |= body(stream.row_epilogue, {**given.rows, **state})
    scope = DefinedNames(known, known)
    scope.stores(stream.row_outputs, {**given.rows, **known})
    for ending in stream.epilogues:
        scope.stores(ending.stores, {**known, **body(ending.body, known)})
