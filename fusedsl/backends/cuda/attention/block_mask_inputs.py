"""What the sieve of a pass over scores asks of memory, for which tiles of the stream count."""

from __future__ import annotations

from ....kernel_ir.attention import TileBounds
from ....kernel_ir.kernel import KernelIR


def kv_bounds(kernel: KernelIR) -> tuple[TileBounds, ...]:
    """What is asked of memory along the stream, tile by tile."""
    sieve = kernel.attention.block_mask if kernel.attention else None
    return tuple(x for x in sieve.bounds if x.axis == kernel.row_axes) if sieve else ()


def mask_reads_memory(kernel: KernelIR) -> bool:
    """Whether what is in memory along a stream says which of its tiles count: a block looks it up once."""
    sieve = kernel.attention.block_mask if kernel.attention else None
    return sieve is not None and any(x.axis == kernel.row_axes for x in sieve.bounds)


def bounds_axes(kernel: KernelIR) -> tuple[int, ...]:
    """The axes on which the answers depend, besides the stream's."""
    read = {v.name for x in kv_bounds(kernel) for v in x.body.args}
    letters = [kernel.operands[load.operand].strides for load in kernel.loads if load.value.name in read]
    found = {a for one in letters for a, letter in enumerate(one) if letter != "0"}
    found |= {p.axis for p in kernel.positions if p.value.name in read}
    return tuple(sorted(found - {kernel.row_axes}))


def bounds_fit(kernel: KernelIR) -> bool:
    """Whether blocks that stay can keep the answers, in words."""
    return all(x.lower.dtype.bits <= 32 for x in kv_bounds(kernel))
