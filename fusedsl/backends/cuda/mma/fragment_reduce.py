"""Reductions over the lanes that share a row of a fragment, and questions about its elements."""

from __future__ import annotations

from ..compiler.numba_backend import F32, emitted, ir, numba_type, types
from ..tile.reduce import ReduceOp
from ..tile.shuffle import shuffle
from .fragment import any_of
from .fragment_layout import ROWS
from .row_states import packed_states, row_states


@emitted(types.boolean)
def any_not_one(e, given, *, kinds):
    """True if a row value of a lane of the warp is not 1."""
    b, one = e.builder, ir.Constant(F32, 1.0)
    flags = [b.fcmp_unordered("une", e.cast(v, kinds[0].dtype, types.float32), one) for v in e.unpack(given, ROWS)]
    return any_of(e, b.or_(*flags))


@emitted(lambda rule_of: row_states(rule_of), lambda rule_of: len(rule_of.state))
def quad_all_reduce(e, *values, rule_of: ReduceOp):
    """`quad_all_reduce(state…)`: the row states combined over the quad of threads of a row."""
    parts = [e.unpack(v, ROWS) for v in values]
    rows = []
    for row in range(ROWS):
        state = [part[row] for part in parts]
        for distance in (1, 2):
            other = [shuffle(e, "bfly", part, distance, 4) for part in state]
            state = rule_of.merge.emit(e, state + other)
        rows.append(state)
    return packed_states(e, rule_of, rows)


@emitted(lambda name: types.UniTuple(numba_type(name), ROWS))
def splat_rows(e, value, *, kinds, name: str):
    """`splat_rows(value)`: a scalar as the value of both rows of a thread."""
    return [e.cast(value, kinds[0], numba_type(name))] * ROWS
