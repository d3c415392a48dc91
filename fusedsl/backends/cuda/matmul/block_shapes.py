"""Shapes of blocks for products, with the share of the peak that each reaches."""

from __future__ import annotations

from dataclasses import replace

from ....config import TENSOR_FLOAT
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.matmul_operands import MatmulOperands
from ..mma.tile_sizes import SWIZZLE_BYTES
from .tile_shapes import BlockShape, FmaTileShape, MmaTileShape

# measured: H100, 4096³; of 16 bits relative to the first, which reaches 436 TFLOP/s there
FMA_SHAPES = (
    BlockShape(128, 256, 8, (2, 4), 0.706, (4, 8)),
    BlockShape(128, 128, 8, (2, 2), 0.70, (4, 8)),
    BlockShape(256, 128, 16, (4, 2), 0.64, (4, 8)),
    BlockShape(128, 128, 8, (2, 4), 0.63, (8, 4)),
    BlockShape(128, 64, 16, (2, 2), 0.655, (8, 4)),
    BlockShape(64, 64, 16, (2, 2), 0.65, (8, 4)),
    BlockShape(32, 32, 16, (1, 2), 0.49, (8, 4)),
)
MMA_SHAPES = (
    BlockShape(128, 128, 64, (2, 2), 0.6),
    BlockShape(128, 256, 64, (2, 4), 0.56),
    BlockShape(256, 128, 64, (4, 2), 0.56),
    BlockShape(128, 128, 64, (2, 4), 0.545),
    BlockShape(128, 64, 64, (2, 2), 0.49),
    BlockShape(64, 128, 64, (2, 2), 0.49),
    BlockShape(64, 64, 64, (2, 2), 0.41),
    BlockShape(32, 64, 64, (1, 4), 0.275),
    BlockShape(16, 64, 64, (1, 4), 0.165),
)
# of float64 relative to the tensor cores' peak, measured likewise; those of 32 rows are not
DOUBLE_SHAPES = (
    BlockShape(64, 64, 16, (2, 2), 0.67),
    BlockShape(64, 128, 16, (2, 2), 0.655),
    BlockShape(128, 64, 16, (2, 2), 0.645),
    BlockShape(32, 64, 16, (1, 4), 0.4),
)
ACCUMULATORS = {
    **dict.fromkeys(("float16", "bfloat16", "float32"), "float32"),
    **dict.fromkeys(("int8", "uint8"), "int32"),
    "float64": "float64",
}  # of the products of each dtype that an instruction multiplies


def block_shapes(kernel: KernelIR, operands: MatmulOperands) -> tuple[BlockShape, ...]:
    """The shapes of blocks that multiply these dtypes; none if no instruction does."""
    dtypes = {kernel.operands[k].dtype.name for k in (*operands.left, *operands.right)}
    (dtype,) = dtypes if len(dtypes) == 1 else ("",)
    if {use.accumulators[0].dtype.name for use in kernel.phases[0].folds} != {ACCUMULATORS.get(dtype)}:
        return ()
    if dtype == "float64":
        return DOUBLE_SHAPES
    if dtype == "float32" and kernel.matmul not in TENSOR_FLOAT:
        return FMA_SHAPES
    size = kernel.operands[operands.left[0]].dtype.itemsize
    return tuple(replace(one, block_k=SWIZZLE_BYTES // size) for one in MMA_SHAPES)


def tile_shape(dtype: str, one: BlockShape) -> FmaTileShape | MmaTileShape:
    if one.lanes is not None:
        return FmaTileShape(dtype, one.rows, one.columns, one.block_k, one.warps, one.lanes)
    return MmaTileShape(dtype, ACCUMULATORS[dtype], one.rows, one.columns, one.block_k, one.warps)
