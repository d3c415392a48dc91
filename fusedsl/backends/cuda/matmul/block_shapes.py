"""Shapes of blocks for products, with the share of the peak that each reaches."""

from __future__ import annotations

from dataclasses import replace

from ....config import TENSOR_FLOAT
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.matmul_operands import MatmulOperands
from ..mma.tile_sizes import SWIZZLE_BYTES
from .tile_shapes import BlockShape, FmaTileShape, MmaTileShape

# measured: H100, 4096³. The share of the peak of each table is of its own instructions: fused multiply-adds of float32
# for FMA_SHAPES (those of 64 columns or fewer before fragments were read ahead), mma.sync for MMA_SHAPES (16 bits,
# relative to the first one, which reaches 436 TFLOP/s)
FMA_SHAPES = (
    BlockShape(128, 256, block_k=16, warps=(2, 4), peak_fraction=0.76, lanes=(4, 8)),
    BlockShape(128, 256, block_k=8, warps=(2, 4), peak_fraction=0.74, lanes=(4, 8)),  # less shared memory
    BlockShape(128, 128, block_k=8, warps=(2, 2), peak_fraction=0.72, lanes=(4, 8)),
    BlockShape(256, 128, block_k=16, warps=(4, 2), peak_fraction=0.71, lanes=(4, 8)),
    BlockShape(128, 128, block_k=8, warps=(2, 4), peak_fraction=0.68, lanes=(8, 4)),
    BlockShape(128, 64, block_k=16, warps=(2, 2), peak_fraction=0.655, lanes=(8, 4)),
    BlockShape(64, 64, block_k=16, warps=(2, 2), peak_fraction=0.65, lanes=(8, 4)),
    BlockShape(32, 32, block_k=16, warps=(1, 2), peak_fraction=0.49, lanes=(8, 4)),
)
MMA_SHAPES = (
    BlockShape(128, 128, block_k=64, warps=(2, 2), peak_fraction=0.6),
    BlockShape(128, 256, block_k=64, warps=(2, 4), peak_fraction=0.56),
    BlockShape(256, 128, block_k=64, warps=(4, 2), peak_fraction=0.56),
    BlockShape(128, 128, block_k=64, warps=(2, 4), peak_fraction=0.545),
    BlockShape(128, 64, block_k=64, warps=(2, 2), peak_fraction=0.49),
    BlockShape(64, 128, block_k=64, warps=(2, 2), peak_fraction=0.49),
    BlockShape(64, 64, block_k=64, warps=(2, 2), peak_fraction=0.41),
    BlockShape(32, 64, block_k=64, warps=(1, 4), peak_fraction=0.275),
    BlockShape(16, 64, block_k=64, warps=(1, 4), peak_fraction=0.165),
)
# mma.sync of float64, relative to the tensor cores' peak, measured likewise; those of 32 rows are not
DOUBLE_SHAPES = (
    BlockShape(64, 128, block_k=16, warps=(2, 2), peak_fraction=0.74),
    BlockShape(64, 64, block_k=16, warps=(2, 2), peak_fraction=0.695),
    BlockShape(128, 64, block_k=16, warps=(2, 2), peak_fraction=0.695),
    BlockShape(32, 64, block_k=16, warps=(1, 4), peak_fraction=0.4),
)
ACCUMULATOR_DTYPE = {  # by operand dtype
    **dict.fromkeys(("float16", "bfloat16", "float32"), "float32"),
    **dict.fromkeys(("int8", "uint8"), "int32"),
    "float64": "float64",
}


def block_shapes(kernel: KernelIR, operands: MatmulOperands) -> tuple[BlockShape, ...]:
    """The shapes of blocks that multiply these dtypes; none if no instruction does."""
    dtypes = {kernel.operands[k].dtype.name for k in (*operands.left, *operands.right)}
    (dtype,) = dtypes if len(dtypes) == 1 else ("",)
    if {use.accumulators[0].dtype.name for use in kernel.phases[0].folds} != {ACCUMULATOR_DTYPE.get(dtype)}:
        return ()
    if dtype == "float64":
        return DOUBLE_SHAPES
    if dtype == "float32" and kernel.matmul not in TENSOR_FLOAT:
        return FMA_SHAPES
    size = kernel.operands[operands.left[0]].dtype.itemsize
    return tuple(replace(shape, block_k=SWIZZLE_BYTES // size) for shape in MMA_SHAPES)


def tile_shape(dtype: str, shape: BlockShape) -> FmaTileShape | MmaTileShape:
    if shape.lanes is not None:
        return FmaTileShape(dtype, shape.rows, shape.columns, shape.block_k, shape.warps, shape.lanes)
    return MmaTileShape(dtype, ACCUMULATOR_DTYPE[dtype], shape.rows, shape.columns, shape.block_k, shape.warps)
