"""Loops and conditions in the IR of an intrinsic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..compiler.numba_backend import Emitter, ir


@contextmanager
def repeated(e: Emitter, first: ir.Value, keep: Callable, following: Callable) -> Iterator[ir.Value]:
    """`first`, then `following(it)`, as long as `keep(it)`."""
    with looped(e, [first], keep) as (state, after):
        yield state[0]
        after.append(following(state[0]))


@contextmanager
def looped(e: Emitter, first: Sequence[ir.Value], keep: Callable) -> Iterator[tuple[list[ir.Value], list[ir.Value]]]:
    """(the values of an iteration, a list to fill with those of the next) as long as `keep(*values)`.

    After the loop the values are those of the iteration that was not kept.
    """
    b = e.builder
    before = b.block
    head, body, after = (b.append_basic_block(name) for name in ("turn", "turn.body", "turn.end"))
    b.branch(head)
    b.position_at_end(head)
    state = [b.phi(value.type) for value in first]
    for phi, value in zip(state, first):
        phi.add_incoming(value, before)
    b.cbranch(keep(*state), body, after)
    b.position_at_end(body)
    next_state: list[ir.Value] = []
    yield state, next_state
    for phi, value in zip(state, next_state):
        phi.add_incoming(value, b.block)
    b.branch(head)
    b.position_at_end(after)


def when(e: Emitter, condition: ir.Value, values: Sequence[ir.Value], change: Callable) -> list[ir.Value]:
    """`change()` where the condition holds, `values` as they are elsewhere."""
    b = e.builder
    before, then, after = b.block, b.append_basic_block("then"), b.append_basic_block("then.end")
    b.cbranch(condition, then, after)
    b.position_at_end(then)
    changed = change()
    end = b.block
    b.branch(after)
    b.position_at_end(after)
    return e.phi((values, before), (changed, end))
