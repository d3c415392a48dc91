"""Passes over scores on NumPy: a part of the stream after the other, and the state with each."""

from __future__ import annotations

import numpy as np

from ..ir.compare import MOST_ELEMENTS, TooLarge
from ..ir.types import numpy_dtype
from .attention import Score, Stream, Weighing
from .evaluate import KernelRun
from .evaluate_phases import finish_row, parts, work
from .phase import Body


def run_scores(run: KernelRun) -> None:
    """Run a pass over scores."""
    stream = run.kernel.stream
    assert stream is not None
    use = stream.state
    run.known |= {v.name: x for v, x in zip(use.accumulators, run.identity(use))}
    for w in stream.weighings:
        run.known[w.state.name] = run.single(0).astype(numpy_dtype(w.state.dtype))
    for part in parts(run):
        run.part = part
        run.read()
        _tile(run, stream)
    run.part = slice(0, run.axes[run.columns[0]])
    run.read()
    run.body(stream.row)
    for store in stream.row_stores:
        run.store(store)
    for ending in stream.endings:
        run.body(ending.body)
        for store in ending.stores:
            run.store(store)


def _tile(run: KernelRun, stream: Stream) -> None:
    """One part of the stream."""
    for one in (*stream.inputs, *stream.row_inputs):
        run.body(one)
    if stream.gather is not None:
        run.body(stream.gather.body)
    for score in stream.scores:
        run.known[score.value.name] = _score(run, score)
    joined = stream.join is None
    for phase in stream.tile:
        work(run, phase)
        for use in phase.folds:
            state = run.folded(use, run.columns[:1])
            run.known |= {v.name: x.astype(numpy_dtype(v.dtype)) for v, x in zip(use.accumulators, state)}
        if phase.folds and not joined and stream.join is not None:
            run.known |= {v.name: x for v, x in zip(stream.state.inputs, run.body(stream.join))}
            joined = True
        finish_row(run, phase)
    _merge(run, stream)


def _score(run: KernelRun, score: Score) -> np.ndarray:
    """The sum of products along the axis of a score."""
    left, right = _only(run, score.left), _only(run, score.right)
    return _summed(run, left, right, score.axis).astype(numpy_dtype(score.value.dtype))


def _only(run: KernelRun, one: Body) -> np.ndarray:
    (value,) = run.body(one)
    return value


def _summed(run: KernelRun, x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    shape = np.broadcast_shapes(x.shape, y.shape)
    if np.prod([max(n, 1) for n in shape]) * run.axes[axis] > MOST_ELEMENTS:
        raise TooLarge
    wide = np.float64 if x.dtype.kind == "f" else x.dtype
    return run.over(np.multiply(x, y, dtype=wide), (axis,)).sum(axis, keepdims=True, dtype=wide)


def _merge(run: KernelRun, stream: Stream) -> None:
    """The state so far with that of a tile."""
    use = stream.state
    weights = [(w, _weighed(run, w)) for w in stream.weighings]
    moved = run.body(use.combine)
    run.known |= {v.name: x for v, x in zip(use.accumulators, moved)}
    for w, total in weights:
        before, tile = w.sides
        run.known[before.name], run.known[tile.name] = run.known[w.state.name], total
        (state,) = run.body(w.merge)
        run.known[w.state.name] = state + total if stream.level else state


def _weighed(run: KernelRun, w: Weighing) -> np.ndarray:
    """What a tile adds to a sum with an axis of its own. What does not count weighs nothing, whatever it weighs."""
    weight, right = run.known[w.weight.name], _only(run, w.right)
    if w.kept is not None:
        counted = _only(run, w.kept)
        zero = weight.dtype.type(0)
        weight, right = np.where(counted, weight, zero), np.where(counted, right, right.dtype.type(0))
    return _summed(run, weight, right, run.columns[0]).astype(numpy_dtype(w.state.dtype))
