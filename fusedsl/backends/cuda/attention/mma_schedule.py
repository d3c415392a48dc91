"""Passes over scores where warps multiply: each has 16 rows, whose scores stay in its registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from ....hardware import Hardware, registers_for
from ....kernel_ir.kernel import KernelIR
from .sm90_schedule import AttentionOperands, block_mask_words, operands_of

ROWS = 16  # of a warp
SWIZZLE_BYTES = 128  # bytes of a line of a panel in shared memory
COPY_BYTES = 16  # bytes that one copy brings
MMA_K = 16  # sums are as long as a multiple of it
WIDEST = {"float16": 256, "bfloat16": 256, "float32": 256, "float64": 64}  # results of a row that registers hold
SHAPES = ((8, 64), (4, 64), (4, 32), (2, 32), (2, 16))  # (warps, columns), the best first
FMA_SHAPES = ((4, 64), *SHAPES[2:])  # … where products are no tensor core's
NARROW = 64  # with rows up to this, two blocks of eight warps are there at once
COLUMNS = ((192, 16), (128, 32), (-1, 64))  # at most, beside results of a row of more words than this
STAGED_ABOVE = 256  # rows of a stream whose lines are looked up by warps: those of more are stored for Hopper's kernel
LEAST_ROWS = 16  # rows for which scores are worth a tile: those of fewer rows take little memory


@dataclass(frozen=True)
class MmaAttentionSchedule:
    """`warps` have 16 rows each; tiles of `columns` scores go by, of which one is on chip.

    `width` and `out_width` are the lengths of the first product's sums and of a row of results (0: nothing is weighed).
    Tiles of the operands stand in shared memory as `kind`, whose products are those of `tensor` cores or fused
    multiply-adds; an operand is `copied` asynchronously, or element by element (all three: left, right, weighed). If
    the stream is `split`, so many `parts` of it have a block each; a launch says how many. A tile has the rows of all
    places on the axis `packed`.
    """

    columns: int
    warps: int
    head_dim: int
    head_dim_v: int
    smem_dtype: str
    tensor_cores: bool
    cp_async: tuple[bool, bool, bool]
    is_split_kv: bool = False
    packed_gqa_axis: int | None = None
    blocks: int = 1
    num_splits: int = field(default=1, compare=False)
    reason: str = field(default="", compare=False)
    registers: int = field(default=0, compare=False)

    @property
    def block(self) -> int:
        return 32 * self.warps

    @property
    def threads(self) -> int:
        return self.block

    @property
    def rows(self) -> int:
        return ROWS * self.warps

    @property
    def itemsize(self) -> int:
        """Bytes of an element in shared memory."""
        return {"float32": 4, "float64": 8}.get(self.smem_dtype, 2)

    def row_bytes(self, width: int) -> int:
        """Of a line as products read it."""
        return -(-width // MMA_K) * MMA_K * self.itemsize

    def tile_bytes(self, lines: int, width: int) -> int:
        """Shared memory of so many lines."""
        return -(-self.row_bytes(width) // SWIZZLE_BYTES) * SWIZZLE_BYTES * lines

    @property
    def smem_offsets(self) -> dict[str, int]:
        """Where the parts of the shared memory begin: tiles of the operands, weights, classes of tiles; its end."""
        sizes = {
            "left_at": self.tile_bytes(self.rows, self.head_dim),
            "right_at": self.tile_bytes(self.columns, self.head_dim),
            "weighed_at": self.tile_bytes(self.columns, self.head_dim_v),
            "weights_at": 0 if self.tensor_cores or not self.head_dim_v else self.tile_bytes(self.rows, self.columns),
        }
        found, at = {}, 0
        for name, size in sizes.items():
            found[name] = at
            at += size
        return found | {"classes_at": at}


def schedule_mma(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> MmaAttentionSchedule | None:
    """How a pass over scores runs on warps alone; None where its operands are not of one kind, or too wide."""
    found = operands_of(kernel)
    if found is None or (extents[found.query_axis] < LEAST_ROWS and not kernel.steady):
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
            registers = registers_for(hardware, blocks, made.block)
            return replace(made, blocks=blocks, registers=registers, reason=_reason(made, items) + paged_reason(found))
    return None


def _prefers_staged_kv(
    kernel: KernelIR, found: AttentionOperands, extents: tuple[int, ...], hardware: Hardware
) -> bool:
    """Whether lines that are looked up are stored first, for Hopper's kernel: its products take 0.4 of the time, and
    storing takes what that saves where so many rows share a stream (at 600 and 250 TFLOP/s, and 4.8 TB/s)."""
    assert kernel.attention is not None
    rows, kinds = (
        prod(extents[a] for a in kernel.attention.query_axes),
        [kernel.operands[k].dtype for k in found.multiplied],
    )
    return hardware.cc[0] == 9 and rows > STAGED_ABOVE and all(_tensor(d.name) for d in kinds)


def mma_schedule(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, warps: int, columns: int
) -> MmaAttentionSchedule | None:
    """The schedule of so many warps that take up to `columns` of the stream at a time; None where nothing of a kind
    multiplies the operands, or they do not fit."""
    found, stream = operands_of(kernel), kernel.attention
    if found is None or stream is None:
        return None
    kind = _kind(kernel, found, hardware)
    width, out_width = extents[stream.scores[0].axis], sum(extents[w.axis] for w in stream.weighted_sums)
    if kind is None or out_width > WIDEST[kind]:
        return None
    sums = out_width * (2 if kind == "float64" else 1)  # words, of two threads
    columns = min(columns, next(most for wide, most in COLUMNS if sums > wide))
    copied = _copied(kernel, found, kind, hardware, extents)
    if not all(way for k, way in zip(found.multiplied, copied) if k in found.paged):
        return None
    made = MmaAttentionSchedule(columns, warps, width, out_width, kind, _tensor(kind), copied)
    return made if mma_smem_bytes(made, kernel, extents) <= hardware.block_shared else None


def _kind(kernel: KernelIR, found: AttentionOperands, hardware: Hardware) -> str | None:
    """The type that operands have in shared memory: their own 16 bits for tensor cores, else that of the sums."""
    assert kernel.attention is not None
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
    kernel: KernelIR, found: AttentionOperands, kind: str, hardware: Hardware, extents: tuple[int, ...]
) -> tuple[bool, bool, bool]:
    """Which operands are copied as they are, 16 bytes at a time."""
    stream = kernel.attention
    assert stream is not None
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
    kernel: KernelIR, found: AttentionOperands, extents: tuple[int, ...], hardware: Hardware
) -> Iterator[tuple[int, int]]:
    """(warps, columns) to try in turn: blocks no larger than their rows, or than all multiprocessors need."""
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
    """What a reason says of lines that are read at computed places."""
    return "; each warp looks up where lines are" if found.paged else ""


def block_mask_bytes(schedule: MmaAttentionSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Shared memory of what says which tiles count, and of what a block's start may be off."""
    return SWIZZLE_BYTES + 8 * block_mask_words(schedule, kernel, extents)


def mma_smem_bytes(schedule: MmaAttentionSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Dynamic shared memory of a block."""
    return schedule.smem_offsets["classes_at"] + block_mask_bytes(schedule, kernel, extents)


def work_tiles(schedule: MmaAttentionSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Tiles of rows."""
    found = operands_of(kernel)
    assert found is not None
    others = prod(
        n for a, n in enumerate(extents[: kernel.row_axes]) if a not in (found.query_axis, schedule.packed_gqa_axis)
    )
    return others if schedule.packed_gqa_axis is not None else others * -(-extents[found.query_axis] // schedule.rows)


def mma_grid(schedule: MmaAttentionSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Blocks of the launch: one for each tile of rows, or each part of its stream."""
    return work_tiles(schedule, kernel, extents) * schedule.num_splits
