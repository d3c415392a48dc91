"""What holds of the names in a pass over scores: a tile's, those of the state and its merging, and of the results."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.verify import require
from .attention import Sieve, Stream
from .phase import Body, Phase
from .plan import KernelPlan
from .verify_bodies import BodyInputs, DefinedNames, Known, are_known, body, body_inputs


def verify_stream(kernel: KernelPlan) -> None:
    """VerifyError where a name of a pass over scores is read before it is defined."""
    stream = kernel.stream
    assert stream is not None
    given = body_inputs(kernel)
    elements = _read(stream, given)
    tile = _tile(stream, stream.tile, elements)
    if stream.sieve is not None:
        _verify_sieve(stream, stream.sieve, given, elements, tile)
    state = _merged(stream, tile)
    _verify_results(stream, given, state)


def _all(bodies: Iterable[Body | None], known: Known) -> Known:
    """What bodies define that all read the same."""
    return {name: d for one in bodies if one is not None for name, d in body(one, known).items()}


def _read(stream: Stream, given: BodyInputs) -> Known:
    """What the elements of a tile are computed of."""
    known = dict(given.elements)
    if stream.gather is not None:
        places = body(stream.gather.body, given.elements)
        for line in (stream.gather.right, stream.gather.weighed):
            are_known([] if line is None else [line.address, line.wanted], places, line)
        are_known(stream.gather.there, places, stream.gather)
        known |= {v.name: v.dtype for v in stream.gather.there}
    known |= _all((*stream.inputs, *stream.row_inputs), given.elements)
    for score in stream.scores:
        _all((score.left, score.right), given.elements)
        known[score.value.name] = score.value.dtype
    _all((w.right for w in stream.weighings), given.elements)
    return known


def _tile(stream: Stream, phases: Iterable[Phase], elements: Known) -> DefinedNames:
    """What is known once a tile's phases are over; where tiles are level, the first folds are joined to all so far."""
    scope, joined = DefinedNames(dict(elements), dict(elements)), stream.join is None
    for phase in phases:
        scope.folded(phase)
        if phase.folds and not joined:
            _join(stream, scope)
            joined = True
        scope.finished(phase)
    return scope


def _join(stream: Stream, scope: DefinedNames) -> None:
    before = {v.name: v.dtype for v in stream.state.accumulators}
    for one in (stream.join, stream.rise):
        if one is not None:
            body(one, scope.rows | before)
            require(len(one.results) <= len(stream.state.inputs), "what is joined is the state of a tile", one)
            scope.rows |= {v.name: v.dtype for v in stream.state.inputs[: len(one.results)]}


def _verify_sieve(stream: Stream, sieve: Sieve, given: BodyInputs, elements: Known, tile: DefinedNames) -> None:
    known = dict(given.elements)
    known |= {v.name: v.dtype for _, *ends in sieve.ends for v in ends}
    for extreme in sieve.extremes:
        body(extreme.body, given.elements)
        known |= {v.name: v.dtype for v in (extreme.least, extreme.greatest)}
    body(sieve.body, known)
    if sieve.whole:
        whole = _tile(stream, sieve.whole, elements)
        for partial, other in sieve.names:
            there = partial in tile.elements and other in whole.elements
            require(there, "tiles that count whole have the values of others", partial, other)


def _merged(stream: Stream, tile: DefinedNames) -> Known:
    """The state with that of a tile, and what its sums are moved by."""
    use = stream.state
    before = {v.name: v.dtype for v in use.accumulators}
    are_known(use.inputs, tile.rows | before, "state")
    require(len(use.inputs) == len(use.identity) == len(use.accumulators), "a tile has the state of a row", use)
    known = {**tile.rows, **before}
    merged = body(use.combine, known)
    require(len(use.combine.results) >= len(use.accumulators), "two states merge to one", use)
    known |= merged
    for w in stream.weighings:
        are_known([w.weight], tile.elements | tile.rows, w)
        if w.kept is not None:
            body(w.kept, tile.elements)
        before[w.state.name] = w.state.dtype
        body(w.merge, known | {v.name: v.dtype for v in (*w.sides, w.state)})
    if stream.parts is not None:
        own = {v.name: v.dtype for v in (*stream.parts.accumulators, *stream.parts.inputs)}
        moving = body(stream.parts.combine, {**tile.rows, **before, **own})
        for w in stream.weighings:
            if w.parts is not None:
                sides = {v.name: v.dtype for v in w.parts.args if v.name.startswith("part_")}
                body(w.parts, {**tile.rows, **before, **own, **moving, **sides})
    return before


def _verify_results(stream: Stream, given: BodyInputs, state: Known) -> None:
    known = {**given.elements, **state}
    if stream.row is not None:
        known |= body(stream.row, {**given.rows, **state})
    scope = DefinedNames(known, known)
    scope.stores(stream.row_stores, {**given.rows, **known})
    for ending in stream.endings:
        scope.stores(ending.stores, {**known, **body(ending.body, known)})
