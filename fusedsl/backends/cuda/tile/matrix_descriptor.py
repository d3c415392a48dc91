"""Matrix descriptors: how wgmma finds a matrix of 16-bit elements in shared memory with the 128-byte swizzle.

A row of such a matrix is 128 bytes: 64 elements. The fields are those of the PTX ISA ("Matrix Descriptor Format" of
wgmma): the start address, the leading and the stride dimension byte offset, each divided by 16, and the swizzle mode.
"""

from __future__ import annotations

from collections.abc import Callable

from ..compiler.numba_backend import I32, I64, Emitter, emitted, intrinsic, ir, types

ROW_BYTES = 128
SWIZZLE_128B = 1 << 62
STRIDE = (8 * ROW_BYTES >> 4) << 32  # from 8 rows, which the swizzle permutes together, to the next 8
K_MAJOR_SW128 = (
    SWIZZLE_128B | STRIDE | 1 << 16
)  # swizzled K-major matrices have no leading dimension offset; 1 by custom


@emitted(types.int64)
def k_major_descriptor(e, address, *, kinds):
    """The descriptor of a K-major matrix."""
    return _descriptor(e, e.cast(address, kinds[0], types.int32), K_MAJOR_SW128)


def mn_major_descriptor(lines: int) -> Callable:
    """`mn_major_descriptor(at)`: the descriptor of an MN-major matrix of `lines` rows."""
    mn_major = SWIZZLE_128B | STRIDE | (lines * ROW_BYTES >> 4) << 16
    return intrinsic(1)(
        lambda at: (types.int64, lambda e, address: _descriptor(e, e.cast(address, at, types.int32), mn_major))
    )


def _descriptor(e: Emitter, address: ir.Value, layout: int) -> ir.Value:
    """The 64 bits of a descriptor: the start address, in 16 bytes, and the layout's fields."""
    b = e.builder
    return b.or_(b.zext(b.lshr(address, I32(4)), I64), I64(layout))
