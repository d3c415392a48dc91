"""Addresses of dynamic shared memory, and the wait for copies to it."""

from __future__ import annotations

from ..compiler.numba_backend import I32, VOID, Emitter, emitted, ir, types


def thread_vector_at(e: Emitter, index: ir.Value, offset: int, size: int, threads: int) -> ir.Value:
    """The 32-bit address of this thread's vector of `size` bytes, in shared memory."""
    b = e.builder
    thread = b.and_(e.special_register("tid.x"), I32(threads - 1))
    return b.add(b.add(index, b.mul(thread, I32(size))), I32(offset))


@emitted(types.int32)
def smem_base(e):
    """The 32-bit address of dynamic shared memory, opaque to the compiler.

    (From an address known to be warp-uniform, ptxas of CUDA 13 makes an invalid LDGSTS.)
    """
    b, thread = e.builder, e.special_register("tid.x")
    text, own = "shfl.sync.idx.b32 $0, $1, $2, 31, 0xffffffff;", b.add(e.dynamic_shared(), thread)
    return b.sub(e.asm(I32, text, "=r,r,r", [own, thread], side_effect=True), thread)


@emitted(types.void)
def cp_async_wait_all(e):
    """cp.async.wait_all: this thread's copies are visible to it."""
    e.asm(VOID, "cp.async.wait_all;", "~{memory}", [], side_effect=True)
