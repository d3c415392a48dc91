"""What wgmma multiplies: of each dtype the PTX type, the accumulators, the elements of an instruction and a K-slice.

A K-slice is one swizzled row of 128 bytes of each line, which four instructions multiply, 32 bytes each.
"""

from __future__ import annotations

from dataclasses import dataclass

from .....config import TENSOR_FLOAT
from .....kernel_ir.kernel import KernelIR
from ...mma.tile_sizes import SWIZZLE_BYTES

STEP_BYTES = 32  # of K, that an instruction multiplies
STEPS = SWIZZLE_BYTES // STEP_BYTES


@dataclass(frozen=True)
class WgmmaKind:
    """Products of one dtype. `ptx` is the type of both factors in PTX."""

    dtype: str
    ptx: str
    accumulator: str
    itemsize: int

    @property
    def slice(self) -> int:
        """Elements of a K-slice, and of a swizzled row along M or N."""
        return SWIZZLE_BYTES // self.itemsize

    @property
    def reads_mn_major(self) -> bool:
        """Whether a matrix descriptor may be MN-major (PTX ISA, "Strides" of wgmma): of 16-bit elements alone."""
        return self.itemsize == 2


KINDS = {
    kind.dtype: kind
    for kind in (
        WgmmaKind("float16", "f16", "float32", 2),
        WgmmaKind("bfloat16", "bf16", "float32", 2),
        WgmmaKind("float32", "tf32", "float32", 4),
        WgmmaKind("int8", "s8", "int32", 1),
        WgmmaKind("uint8", "u8", "int32", 1),
    )
}
BY_PTX = {kind.ptx: kind for kind in KINDS.values()}


def wgmma_kind(kernel: KernelIR, operands: tuple[int, ...]) -> WgmmaKind | None:
    """The kind of a kernel's products of these operands; None if wgmma multiplies no such."""
    dtypes = {kernel.operands[k].dtype.name for k in operands}
    kind = KINDS.get(dtypes.pop()) if len(dtypes) == 1 else None
    if kind is None or {use.accumulators[0].dtype.name for use in kernel.phases[0].folds} != {kind.accumulator}:
        return None
    return kind if kind.ptx != "tf32" or kernel.matmul in TENSOR_FLOAT else None
