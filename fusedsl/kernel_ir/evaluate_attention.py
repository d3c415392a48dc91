"""Evaluates attention kernels on NumPy: one chunk of keys at a time, and the state after each."""

from __future__ import annotations

import numpy as np

from ..ir.differential_test import MOST_ELEMENTS, TooLarge
from ..ir.types import numpy_dtype
from .attention import AttentionBody, Score, WeightedSum
from .evaluate import KernelRun
from .evaluate_phases import finish_row, parts, work
from .phase import Body


def run_attention(run: KernelRun) -> None:
    """Run the attention body of a kernel."""
    stream = run.kernel.attention
    assert stream is not None
    use = stream.state
    run.known |= {v.name: x for v, x in zip(use.accumulators, run.identity(use))}
    for w in stream.weighted_sums:
        run.known[w.state.name] = run.single(0).astype(numpy_dtype(w.state.dtype))
    for part in parts(run):
        run.part = part
        run.read()
        _tile(run, stream)
    run.part = slice(0, run.axes[run.columns[0]])
    run.read()
    run.body(stream.row_epilogue)
    for store in stream.row_outputs:
        run.store(store)
    for ending in stream.epilogues:
        run.body(ending.body)
        for store in ending.stores:
            run.store(store)


def _tile(run: KernelRun, stream: AttentionBody) -> None:
    """Compute one chunk of keys and combine it with the state."""
    for inputs in (*stream.mask_inputs, *stream.row_inputs):
        run.body(inputs)
    if stream.paged is not None:
        run.body(stream.paged.body)
    for score in stream.scores:
        run.known[score.value.name] = _score(run, score)
    joined = stream.update_row_max is None
    for phase in stream.tile_phases:
        work(run, phase)
        for use in phase.folds:
            state = run.folded(use, run.columns[:1])
            run.known |= {v.name: x.astype(numpy_dtype(v.dtype)) for v, x in zip(use.accumulators, state)}
        if phase.folds and not joined and stream.update_row_max is not None:
            # under the names of the tile's maxima: later phases, and the combine body, read the running ones there
            run.known |= {v.name: x for v, x in zip(stream.state.inputs, run.body(stream.update_row_max))}
            joined = True
        finish_row(run, phase)
    _combine_tile(run, stream)


def _score(run: KernelRun, score: Score) -> np.ndarray:
    """The sum of products along the axis of a score."""
    left, right = _single_result(run, score.q), _single_result(run, score.k)
    return _contract(run, left, right, score.axis).astype(numpy_dtype(score.value.dtype))


def _single_result(run: KernelRun, body: Body) -> np.ndarray:
    (value,) = run.body(body)
    return value


def _contract(run: KernelRun, x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    shape = np.broadcast_shapes(x.shape, y.shape)
    if np.prod([max(n, 1) for n in shape]) * run.axes[axis] > MOST_ELEMENTS:
        raise TooLarge
    wide = np.float64 if x.dtype.kind == "f" else x.dtype
    return run.over(np.multiply(x, y, dtype=wide), (axis,)).sum(axis, keepdims=True, dtype=wide)


def _combine_tile(run: KernelRun, stream: AttentionBody) -> None:
    """Combine the state of a tile with the accumulated state."""
    use = stream.state
    weights = [(w, _weighted_sum(run, w)) for w in stream.weighted_sums]
    moved = run.body(use.combine)
    run.known |= {v.name: x for v, x in zip(use.accumulators, moved)}
    for w, total in weights:
        before, tile = w.sides
        run.known[before.name], run.known[tile.name] = run.known[w.state.name], total
        (state,) = run.body(w.combine_tile)
        run.known[w.state.name] = state + total if stream.running_reference else state


def _weighted_sum(run: KernelRun, w: WeightedSum) -> np.ndarray:
    """The product p·v of a tile. Inactive elements contribute 0, even if p or v is NaN."""
    weight, right = run.known[w.p.name], _single_result(run, w.v)
    if w.is_active is not None:
        counted = _single_result(run, w.is_active)
        zero = weight.dtype.type(0)
        weight, right = np.where(counted, weight, zero), np.where(counted, right, right.dtype.type(0))
    return _contract(run, weight, right, run.columns[0]).astype(numpy_dtype(w.state.dtype))
