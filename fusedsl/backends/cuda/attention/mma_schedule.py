"""Schedule of attention with mma.sync or fused multiply-adds: 16 query rows a warp, scores in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from ....hardware import Hardware, registers_for
from ....kernel_ir.attention_operands import AttentionOperands, operands_of
from ....kernel_ir.kernel import AttentionKernel
from ....kernel_ir.launch_config import LaunchConfig
from ..schedule_base import Extents, Schedule
from .sm90_schedule import block_mask_words

ROWS = 16  # query rows of a warp
SWIZZLE_BYTES = 128  # bytes of a swizzled row in shared memory
COPY_BYTES = 16  # bytes of one cp.async
MMA_K = 16  # q·k sums are padded to a multiple of it
WIDEST = {"float16": 256, "bfloat16": 256, "float32": 256, "float64": 64}  # output columns that fit in registers
SHAPES = ((8, 64), (4, 64), (4, 32), (2, 32), (2, 16))  # (warps, columns), the best first
FMA_SHAPES = ((4, 64), *SHAPES[2:])  # … with fused multiply-adds
NARROW = 64  # up to this head dimension, two blocks of eight warps share an SM
COLUMNS = ((192, 16), (128, 32), (-1, 64))  # (output words more than this, most score columns)
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
    reason: str = field(default="", compare=False)
    registers: int = field(default=0, compare=False)
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
        found, at = {}, 0
        for name, size in sizes.items():
            found[name] = at
            at += size
        return found | {"block_mask_at": at}

    def config(self, kernel: AttentionKernel, extents: Extents) -> LaunchConfig:
        tiles, shared = work_tiles(self, kernel, extents), mma_smem_bytes(self, kernel, extents)
        found = LaunchConfig(tiles * self.num_splits, self.block_threads, shared, exclusive=True)
        if not self.is_split_kv:
            return found
        workspace = found.blocks * partial_state_bytes(self, kernel)
        return replace(found, workspace=workspace, semaphores=found.blocks)


def schedule_mma(kernel: AttentionKernel, extents: tuple[int, ...], hardware: Hardware) -> MmaAttentionSchedule | None:
    """The schedule of attention by warps; None if the operands have several dtypes or are too wide."""
    found = operands_of(kernel)
    if found is None or (extents[found.query_axis] < LEAST_ROWS and not kernel.batch_invariant_width):
        return None
    if found.paged and _prefers_staged_kv(kernel, found, extents, hardware):
        return None
    for warps, columns in _shapes(kernel, found, extents, hardware):
        made = mma_schedule(kernel, extents, hardware, warps, columns)
        if made is None:
            continue
        items = work_tiles(made, kernel, extents)
        if items < 1 << 31:
            blocks = 2 if warps == 8 and max(made.head_dim, made.head_dim_v) <= NARROW else 1
            registers = registers_for(hardware, blocks, made.block_threads)
            return replace(made, blocks=blocks, registers=registers, reason=_reason(made, items) + paged_reason(found))
    return None


def _prefers_staged_kv(
    kernel: AttentionKernel, found: AttentionOperands, extents: tuple[int, ...], hardware: Hardware
) -> bool:
    """True if paged k and v are better staged in arrays for the sm_90 kernel.

    Its products take 0.4 of the time (600 against 250 TFLOP/s); staging costs as much as that saves at STAGED_ABOVE
    query rows (at 4.8 TB/s).
    """
    rows, kinds = (
        prod(extents[a] for a in kernel.attention.query_axes),
        [kernel.operands[k].dtype for k in found.multiplied],
    )
    return hardware.cc[0] == 9 and rows > STAGED_ABOVE and all(_tensor(d.name) for d in kinds)


def mma_schedule(
    kernel: AttentionKernel, extents: tuple[int, ...], hardware: Hardware, warps: int, columns: int
) -> MmaAttentionSchedule | None:
    """The schedule of so many warps with key tiles of up to `columns`; None if no product takes these dtypes, or
    they do not fit in shared memory."""
    found, stream = operands_of(kernel), kernel.attention
    if found is None:
        return None
    kind = _kind(kernel, found, hardware)
    width, out_width = extents[stream.scores[0].axis], sum(extents[w.axis] for w in stream.weighted_sums)
    if kind is None or out_width > WIDEST[kind]:
        return None
    sums = out_width * (2 if kind == "float64" else 1)  # words of two threads
    columns = min(columns, next(most for wide, most in COLUMNS if sums > wide))
    copied = _copied(kernel, found, kind, hardware, extents)
    if not all(way for k, way in zip(found.multiplied, copied) if k in found.paged):
        return None
    made = MmaAttentionSchedule(columns, warps, width, out_width, kind, _tensor(kind), copied)
    return made if mma_smem_bytes(made, kernel, extents) <= hardware.block_shared else None


def _kind(kernel: AttentionKernel, found: AttentionOperands, hardware: Hardware) -> str | None:
    """The dtype of operands in shared memory: their own 16 bits for tensor cores, else that of the sums."""
    given = [kernel.operands[k].dtype for k in found.multiplied]
    sums = {kernel.attention.scores[0].value.dtype.name, *(w.state.dtype.name for w in kernel.attention.weighted_sums)}
    if len(sums) != 1 or any(d.kind != "f" for d in given):
        return None
    (summed,) = sums
    if len(set(given)) == 1 and _tensor(given[0].name) and summed == "float32" and hardware.cc >= (8, 0):
        return given[0].name
    return summed if summed in ("float32", "float64") else None


def _tensor(kind: str) -> bool:
    return kind in ("float16", "bfloat16")


def _copied(
    kernel: AttentionKernel, found: AttentionOperands, kind: str, hardware: Hardware, extents: tuple[int, ...]
) -> tuple[bool, bool, bool]:
    """Which of q, k, v are loaded by cp.async, 16 bytes at a time."""
    stream = kernel.attention
    inner = (stream.scores[0].axis, stream.scores[0].axis, *(w.axis for w in stream.weighted_sums))

    def aligned(k: int, axis: int) -> bool:
        operand = kernel.operands[k]
        whole = extents[axis] * operand.dtype.itemsize % COPY_BYTES == 0
        lines = operand.strides[axis] == "1" and operand.access == "vector"
        alone = operand.strides.count("1") == 1 or k in found.paged
        return operand.dtype.name == kind and lines and alone and whole

    copied = [hardware.cc >= (8, 0) and aligned(k, axis) for k, axis in zip(found.multiplied, inner)]
    left, right, weighed = (*copied, False)[:3]
    return left, right, weighed


def _shapes(
    kernel: AttentionKernel, found: AttentionOperands, extents: tuple[int, ...], hardware: Hardware
) -> Iterator[tuple[int, int]]:
    """(warps, columns) to try in order: blocks no larger than the query rows, or than filling all SMs allows."""
    rows = extents[found.query_axis]
    others = prod(n for a, n in enumerate(extents[: kernel.row_axes]) if a != found.query_axis)
    for warps, columns in SHAPES if _tensor(_kind(kernel, found, hardware) or "") else FMA_SHAPES:
        enough = others * -(-rows // (ROWS * warps)) >= hardware.multiprocessors
        if warps <= 4 or (enough and rows > ROWS * 4):
            yield warps, columns


def _reason(made: MmaAttentionSchedule, items: int) -> str:
    how = (
        f"tensor cores multiply {made.smem_dtype}" if made.tensor_cores else f"products are summed in {made.smem_dtype}"
    )
    return (
        f"scores stay in registers: {items} tiles of {made.rows} rows, {made.columns} scores of each at a time; "
        f"{made.warps} warps of 16 rows, {how}"
    )


def paged_reason(found: AttentionOperands) -> str:
    """The part of a reason about paged k and v."""
    return "; each warp looks up where lines are" if found.paged else ""


def block_mask_bytes(schedule: MmaAttentionSchedule, kernel: AttentionKernel, extents: tuple[int, ...]) -> int:
    """Shared memory of the block mask, and of the alignment of the block's start."""
    return SWIZZLE_BYTES + 8 * block_mask_words(schedule, kernel, extents)


def mma_smem_bytes(schedule: MmaAttentionSchedule, kernel: AttentionKernel, extents: tuple[int, ...]) -> int:
    """Dynamic shared memory of a block."""
    return schedule.smem_offsets["block_mask_at"] + block_mask_bytes(schedule, kernel, extents)


def work_tiles(schedule: MmaAttentionSchedule, kernel: AttentionKernel, extents: tuple[int, ...]) -> int:
    """The number of work tiles."""
    found = operands_of(kernel)
    assert found is not None
    others = prod(
        n for a, n in enumerate(extents[: kernel.row_axes]) if a not in (found.query_axis, schedule.packed_gqa_axis)
    )
    return others if schedule.packed_gqa_axis is not None else others * -(-extents[found.query_axis] // schedule.rows)


def partial_state_bytes(schedule: MmaAttentionSchedule, kernel: AttentionKernel) -> int:
    """What one split leaves: of each thread its rows' states and its sums, 4 or 8 bytes each, in groups of 16 bytes."""
    stream = kernel.attention
    assert stream.combine_splits is not None
    sums = -(-schedule.head_dim_v // 16) * 16 // 2
    rows = sum(2 * max(1, v.dtype.itemsize // 4) for v in stream.combine_splits.accumulators)
    words = rows + sums * max(1, stream.weighted_sums[0].state.dtype.itemsize // 4)
    return schedule.block_threads * 16 * -(-words // 4)
