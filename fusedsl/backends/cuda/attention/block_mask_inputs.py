"""Bounds of arrays along the kv axis, such as document ids, that the block mask of an attention kernel reads."""

from __future__ import annotations

from ....kernel_ir.attention import TileBounds
from ....kernel_ir.kernel import AttentionKernel


def kv_bounds(kernel: AttentionKernel) -> tuple[TileBounds, ...]:
    """The bounds along the kv axis, one pair per key tile."""
    sieve = kernel.attention.block_mask
    return tuple(x for x in sieve.bounds if x.axis == kernel.row_axes) if sieve else ()


def mask_reads_memory(kernel: AttentionKernel) -> bool:
    """True if the block mask reads memory along the kv axis: a block then evaluates it once."""
    sieve = kernel.attention.block_mask
    return sieve is not None and any(x.axis == kernel.row_axes for x in sieve.bounds)


def bounds_axes(kernel: AttentionKernel) -> tuple[int, ...]:
    """The axes besides the kv axis that these bounds depend on."""
    read = {v.name for x in kv_bounds(kernel) for v in x.body.args}
    letters = [kernel.operands[load.operand].strides for load in kernel.loads if load.value.name in read]
    found = {a for one in letters for a, letter in enumerate(one) if letter != "0"}
    found |= {p.axis for p in kernel.positions if p.value.name in read}
    return tuple(sorted(found - {kernel.row_axes}))


def bounds_fit(kernel: AttentionKernel) -> bool:
    """True if persistent blocks can keep the bounds in 32-bit words of shared memory."""
    return all(x.lower.dtype.bits <= 32 for x in kv_bounds(kernel))
