"""Schedule of attention with mma.sync or fused multiply-adds: 16 query rows a warp, scores in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import prod

from ....hardware import Hardware, registers_for
from ....kernel_ir.attention_operands import AttentionOperands, operands_of, scheduled_operands
from ....kernel_ir.kernel import AttentionKernel
from ....kernel_ir.launch_config import LaunchConfig
from ..mma.tile_sizes import COPY_BYTES, SWIZZLE_BYTES
from ..schedule_base import Extents, Schedule
from .sm90_schedule import block_mask_words

ROWS = 16  # query rows of a warp
MMA_K = 16  # q·k sums are padded to a multiple of it
WIDEST = {"float16": 256, "bfloat16": 256, "float32": 256, "float64": 64}  # output columns that fit in registers
TILE_SHAPES = ((8, 64), (4, 64), (4, 32), (2, 32), (2, 16))  # (warps, kv_columns), in order of preference
FMA_TILE_SHAPES = TILE_SHAPES[1:]  # of products by fused multiply-adds
NARROW = 64  # up to this head dimension, two blocks of eight warps share an SM
KV_COLUMNS = ((192, 16), (128, 32), (-1, 64))  # (output words more than this, most score columns)
STAGED_ABOVE = 256  # query rows per kv head up to which warps look up pages; above, sm_90 stages k and v
LEAST_ROWS = 16  # query rows that are worth a tile: scores of fewer rows take little memory


@dataclass(frozen=True)
class MmaAttentionSchedule(Schedule):
    """Schedule of attention by warps of 16 query rows; key tiles of `columns`, one in shared memory at a time."""

    columns: int  # keys of a tile
    warps: int
    head_dim: int  # length of a q·k sum
    head_dim_v: int  # columns of the output; 0: no weighted sum
    smem_dtype: str  # of the operands in shared memory
    tensor_cores: bool  # mma.sync, else fused multiply-adds
    cp_async: tuple[bool, bool, bool]  # q, k, v: loaded asynchronously, else element by element
    is_split_kv: bool = False  # a block per split of the keys; the launch sets num_splits
    packed_gqa_axis: int | None = None  # a query tile has all positions of this axis
    blocks: int = 1
    num_splits: int = field(default=1, compare=False)
    width = 1
    wgmma = False
    tile_unit = ROWS  # tiles are padded to so many query rows

    @property
    def block_threads(self) -> int:
        return 32 * self.warps

    @property
    def rows(self) -> int:
        return ROWS * self.warps

    @property
    def itemsize(self) -> int:
        """Bytes of an operand's element in shared memory."""
        return {"float32": 4, "float64": 8}.get(self.smem_dtype, 2)

    def row_bytes(self, width: int) -> int:
        """Bytes of a row in shared memory, padded for the products."""
        return -(-width // MMA_K) * MMA_K * self.itemsize

    def tile_bytes(self, lines: int, width: int) -> int:
        """Shared memory of a tile of so many rows."""
        return -(-self.row_bytes(width) // SWIZZLE_BYTES) * SWIZZLE_BYTES * lines

    @property
    def smem_offsets(self) -> dict[str, int]:
        """Offsets in shared memory: tiles of q, k, v and p, then the block mask."""
        sizes = {
            "q_at": self.tile_bytes(self.rows, self.head_dim),
            "k_at": self.tile_bytes(self.columns, self.head_dim),
            "v_at": self.tile_bytes(self.columns, self.head_dim_v),
            "p_at": 0 if self.tensor_cores or not self.head_dim_v else self.tile_bytes(self.rows, self.columns),
        }
        return dict(zip((*sizes, "block_mask_at"), accumulate(sizes.values(), initial=0)))

    def config(self, kernel: AttentionKernel, extents: Extents) -> LaunchConfig:
        tiles, shared = work_tiles(self, kernel, extents), mma_smem_bytes(self, kernel, extents)
        config = LaunchConfig(tiles * self.num_splits, self.block_threads, shared, exclusive=True)
        if not self.is_split_kv:
            return config
        workspace = config.blocks * partial_state_bytes(self, kernel)
        return replace(config, workspace=workspace, semaphores=config.blocks)


def schedule_mma(kernel: AttentionKernel, extents: Extents, hardware: Hardware) -> MmaAttentionSchedule | None:
    """The schedule of attention by warps; None if the operands have several dtypes or are too wide."""
    operands = operands_of(kernel)
    if operands is None or (extents[operands.query_axis] < LEAST_ROWS and not kernel.batch_invariant_width):
        return None
    if operands.paged and _prefers_staged_kv(kernel, operands, extents, hardware):
        return None
    for warps, kv_columns in _shapes(kernel, operands, extents, hardware):
        schedule = mma_schedule(kernel, extents, hardware, warps, kv_columns)
        if schedule is None:
            continue
        tiles = work_tiles(schedule, kernel, extents)
        if tiles < 1 << 31:
            blocks = 2 if warps == 8 and max(schedule.head_dim, schedule.head_dim_v) <= NARROW else 1
            registers = registers_for(hardware, blocks, schedule.block_threads)
            reason = _reason(schedule, tiles) + paged_reason(operands)
            return replace(schedule, blocks=blocks, registers=registers, reason=reason)
    return None


def _prefers_staged_kv(
    kernel: AttentionKernel, operands: AttentionOperands, extents: Extents, hardware: Hardware
) -> bool:
    """True if paged k and v are better staged in arrays for the sm_90 kernel.

    Its products take 0.4 of the time (600 against 250 TFLOP/s); staging costs as much as that saves at STAGED_ABOVE
    query rows (at 4.8 TB/s).
    """
    rows = prod(extents[a] for a in kernel.attention.query_axes)
    dtypes = [kernel.operands[k].dtype.name for k in operands.qkv]
    return hardware.cc[0] == 9 and rows > STAGED_ABOVE and all(map(_is_tensor_dtype, dtypes))


def mma_schedule(
    kernel: AttentionKernel, extents: Extents, hardware: Hardware, warps: int, kv_columns: int
) -> MmaAttentionSchedule | None:
    """The schedule of so many warps with key tiles of up to `kv_columns`; None if no product takes these dtypes, or
    they do not fit in shared memory."""
    operands, body = operands_of(kernel), kernel.attention
    if operands is None:
        return None
    dtype = _smem_dtype(kernel, operands, hardware)
    head_dim, head_dim_v = extents[body.scores[0].axis], sum(extents[w.axis] for w in body.weighted_sums)
    if dtype is None or head_dim_v > WIDEST[dtype]:
        return None
    sums = head_dim_v * (2 if dtype == "float64" else 1)  # words of two threads
    kv_columns = min(kv_columns, next(most for wide, most in KV_COLUMNS if sums > wide))
    cp_async = _cp_async(kernel, operands, dtype, hardware, extents)
    if not all(is_async for k, is_async in zip(operands.qkv, cp_async) if k in operands.paged):
        return None
    schedule = MmaAttentionSchedule(kv_columns, warps, head_dim, head_dim_v, dtype, _is_tensor_dtype(dtype), cp_async)
    return schedule if mma_smem_bytes(schedule, kernel, extents) <= hardware.block_shared else None


def _smem_dtype(kernel: AttentionKernel, operands: AttentionOperands, hardware: Hardware) -> str | None:
    """The dtype of operands in shared memory: their own 16 bits for tensor cores, else that of the sums."""
    dtypes = [kernel.operands[k].dtype for k in operands.qkv]
    sums = {kernel.attention.scores[0].value.dtype.name, *(w.state.dtype.name for w in kernel.attention.weighted_sums)}
    if len(sums) != 1 or any(d.kind != "f" for d in dtypes):
        return None
    (sum_dtype,) = sums
    if len(set(dtypes)) == 1 and _is_tensor_dtype(dtypes[0].name) and sum_dtype == "float32" and hardware.cc >= (8, 0):
        return dtypes[0].name
    return sum_dtype if sum_dtype in ("float32", "float64") else None


def _is_tensor_dtype(dtype: str) -> bool:
    return dtype in ("float16", "bfloat16")


def _cp_async(
    kernel: AttentionKernel, operands: AttentionOperands, dtype: str, hardware: Hardware, extents: Extents
) -> tuple[bool, bool, bool]:
    """Which of q, k, v are loaded by cp.async, 16 bytes at a time."""
    body = kernel.attention
    inner = (body.scores[0].axis, body.scores[0].axis, *(w.axis for w in body.weighted_sums))

    def aligned(k: int, axis: int) -> bool:
        operand = kernel.operands[k]
        aligned_rows = extents[axis] * operand.dtype.itemsize % COPY_BYTES == 0
        contiguous = operand.strides[axis] == "1" and operand.access == "vector"
        one_axis = operand.strides.count("1") == 1 or k in operands.paged
        return operand.dtype.name == dtype and contiguous and one_axis and aligned_rows

    cp_async = [hardware.cc >= (8, 0) and aligned(k, axis) for k, axis in zip(operands.qkv, inner)]
    q, k, v = (*cp_async, False)[:3]
    return q, k, v


def _shapes(
    kernel: AttentionKernel, operands: AttentionOperands, extents: Extents, hardware: Hardware
) -> Iterator[tuple[int, int]]:
    """(warps, kv_columns) to try in order: blocks no larger than the query rows, or than filling all SMs allows."""
    rows = extents[operands.query_axis]
    outer = prod(n for a, n in enumerate(extents[: kernel.row_axes]) if a != operands.query_axis)
    tensor_cores = _is_tensor_dtype(_smem_dtype(kernel, operands, hardware) or "")
    for warps, kv_columns in TILE_SHAPES if tensor_cores else FMA_TILE_SHAPES:
        fills = outer * -(-rows // (ROWS * warps)) >= hardware.multiprocessors
        if warps <= 4 or (fills and rows > ROWS * 4):
            yield warps, kv_columns


def _reason(schedule: MmaAttentionSchedule, tiles: int) -> str:
    how = "tensor cores multiply" if schedule.tensor_cores else "products are summed in"
    return (
        f"scores stay in registers: {tiles} query tiles of {schedule.rows} rows, key tiles of {schedule.columns}; "
        f"{schedule.warps} warps of 16 rows, {how} {schedule.smem_dtype}"
    )


def paged_reason(operands: AttentionOperands) -> str:
    """The part of a reason about paged k and v."""
    return "; each warp looks up the rows of k and v" if operands.paged else ""


def block_mask_bytes(schedule: MmaAttentionSchedule, kernel: AttentionKernel, extents: Extents) -> int:
    """Shared memory of the block mask, and of the alignment of the block's start."""
    return SWIZZLE_BYTES + 8 * block_mask_words(schedule, kernel, extents)


def mma_smem_bytes(schedule: MmaAttentionSchedule, kernel: AttentionKernel, extents: Extents) -> int:
    """Dynamic shared memory of a block."""
    return schedule.smem_offsets["block_mask_at"] + block_mask_bytes(schedule, kernel, extents)


def work_tiles(schedule: MmaAttentionSchedule, kernel: AttentionKernel, extents: Extents) -> int:
    """The number of work tiles."""
    operands = scheduled_operands(kernel)
    query_axis, packed = operands.query_axis, schedule.packed_gqa_axis
    outer = prod(n for a, n in enumerate(extents[: kernel.row_axes]) if a not in (query_axis, packed))
    return outer if packed is not None else outer * -(-extents[query_axis] // schedule.rows)


def partial_state_bytes(schedule: MmaAttentionSchedule, kernel: AttentionKernel) -> int:
    """What one split leaves: of each thread its rows' states and its sums, 4 or 8 bytes each, in groups of 16 bytes."""
    body = kernel.attention
    assert body.combine_splits is not None
    sums = -(-schedule.head_dim_v // 16) * 16 // 2
    rows = sum(2 * max(1, v.dtype.itemsize // 4) for v in body.combine_splits.accumulators)
    words = rows + sums * max(1, body.weighted_sums[0].state.dtype.itemsize // 4)
    return schedule.block_threads * 16 * -(-words // 4)
