"""Reductions over the lanes that share a row of a fragment, and questions about its elements."""

from __future__ import annotations

from collections.abc import Callable

from ..compiler.numba_backend import F32, emitted, intrinsic, ir, numba_type, types
from ..tile.reduce import ReduceOp
from ..tile.shuffle import shuffle
from .fragment import any_of
from .fragment_layout import ROWS
from .row_states import packed_states, row_states


@intrinsic(1)
def any_not_one(values):
    """True if a row value of a lane of the warp is not 1."""

    def emit(e, given):
        b, one = e.builder, ir.Constant(F32, 1.0)
        flags = [b.fcmp_unordered("une", e.cast(v, values.dtype, types.float32), one) for v in e.unpack(given, ROWS)]
        return any_of(e, b.or_(*flags))

    return types.boolean, emit


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


def splat_rows(name: str) -> Callable:
    """`splat_rows(value)`: a scalar as the value of both rows of a thread."""
    result = types.UniTuple(numba_type(name), ROWS)

    def rule(kind):
        return result, lambda e, value: e.pack(result, [e.cast(value, kind, result.dtype)] * ROWS)

    return intrinsic(1)(rule)
