"""Barriers of a whole grid whose blocks are all resident."""

from __future__ import annotations

from collections.abc import Sequence

from ..compiler.numba_backend import I32, VOID, Emitter, emitted, ir, types
from ..tile.thread_index import special_register

grid_dim = special_register("nctaid.x")  # blocks of the grid


@emitted(types.void)
def grid_barrier(e, semaphores, count):
    """`grid_barrier(semaphores, count)`: wait until all `count` blocks arrive; their writes are then visible to all.

    All blocks must be resident. There are two counters, 0 before the launch; `grid_barrier_exit` has to follow.
    """
    _by_the_first(
        e,
        semaphores,
        count,
        True,
        [
            "fence.acq_rel.gpu;",
            "red.relaxed.gpu.global.add.u32 [$0], 1;",
            "WAIT_${:uid}:",
            "ld.relaxed.gpu.global.u32 seen, [$0];",
            "setp.lt.u32 wrong, seen, $1;",
            "@wrong bra WAIT_${:uid};",
            "fence.acq_rel.gpu;",
        ],
    )


@emitted(types.void)
def grid_barrier_exit(e, semaphores, count):
    """`grid_barrier_exit(semaphores, count)`: the last block to call it resets both counters to 0."""
    _by_the_first(
        e,
        semaphores,
        count,
        False,
        [
            "sub.u32 limit, $1, 1;",
            "atom.relaxed.gpu.global.inc.u32 seen, [$0+4], limit;",
            "setp.ne.u32 wrong, seen, limit;",
            "@!wrong st.global.u32 [$0], 0;",
        ],
    )


def _by_the_first(e: Emitter, at: ir.Value, number: ir.Value, together: bool, lines: Sequence[str]) -> None:
    """PTX for the first thread of the block; the others wait for it where they are `together`."""
    b = e.builder
    text = "\n".join(["{", ".reg .pred wrong;", ".reg .b32 seen, limit;", *lines, "}"])
    if together:
        e.barrier()
    with b.if_then(b.icmp_unsigned("==", e.special_register("tid.x"), I32(0))):
        e.asm(VOID, text, "l,r,~{memory}", [at, number], side_effect=True)
    if together:
        e.barrier()
