"""States of a fold for the rows of a fragment: their types, and how those of a row's elements are combined."""

from __future__ import annotations

from ..compiler.numba_backend import Emitter, ir, types
from ..tile.reduce import ReduceOp, State
from .fragment_layout import ROWS

CHAINS = 2  # independent reductions of a row, for instruction-level parallelism


def row_states(rule_of: ReduceOp) -> types.Type:
    parts = [types.UniTuple(kind, ROWS) for kind in rule_of.state]
    return parts[0] if len(parts) == 1 else types.Tuple.from_types(parts)


def packed_states(e: Emitter, rule_of: ReduceOp, rows: list[State]) -> ir.Value:
    parts = [e.pack(types.UniTuple(kind, ROWS), [row[n] for row in rows]) for n, kind in enumerate(rule_of.state)]
    return parts[0] if len(parts) == 1 else e.pack(row_states(rule_of), parts)


def chained(e: Emitter, rule_of: ReduceOp, states: list[State]) -> State:
    """The combined states of a row's elements, in independent chains."""
    chains = states[:CHAINS]
    for k, state in enumerate(states[CHAINS:]):
        chains[k % CHAINS] = rule_of.merge.emit(e, chains[k % CHAINS] + state)
    return rule_of.tree(e, chains)


def chained_in_order(e: Emitter, rule_of: ReduceOp, states: list[State]) -> State:
    """The same, where what follows a state has a cheaper combine: parts of neighbours, then the parts in order."""
    assert rule_of.follow is not None
    each, parts = -(-len(states) // (2 * CHAINS)), []
    for first in range(0, len(states), each):
        state = states[first]
        for following in states[first + 1 : first + each]:
            state = rule_of.follow.emit(e, state + following)
        parts.append(state)
    return rule_of.tree(e, parts, ordered=True)
