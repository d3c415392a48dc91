"""Passes over scores where warps multiply: each has 16 rows, whose scores stay in its registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from ....hardware import Hardware, registers_for
from ....kernel_ir.kernel import KernelIR
from .sm90_schedule import Operands, class_words, operands_of

ROWS = 16  # of a warp
LINE = 128  # bytes of a line of a panel in shared memory
CHUNK = 16  # bytes that one copy brings
DEPTH = 16  # sums are as long as a multiple of it
WIDEST = {"float16": 256, "bfloat16": 256, "float32": 256, "float64": 64}  # results of a row that registers hold
SHAPES = ((8, 64), (4, 64), (4, 32), (2, 32), (2, 16))  # (warps, columns), the best first
SUMMED = ((4, 64), *SHAPES[2:])  # … where products are no tensor core's
NARROW = 64  # with rows up to this, two blocks of eight warps are there at once
COLUMNS = ((192, 16), (128, 32), (-1, 64))  # at most, beside results of a row of more words than this
STORED = 256  # rows of a stream whose lines are looked up by warps: those of more are stored for Hopper's kernel
FEWEST = 16  # rows for which scores are worth a tile: those of fewer rows take little memory


@dataclass(frozen=True)
class WarpSchedule:
    """`warps` have 16 rows each; tiles of `columns` scores go by, of which one is on chip.

    `width` and `out_width` are the lengths of the first product's sums and of a row of results (0: nothing is weighed).
    Tiles of the operands stand in shared memory as `kind`, whose products are those of `tensor` cores or fused
    multiply-adds; an operand is `copied` asynchronously, or element by element (all three: left, right, weighed). If
    the stream is `split`, so many `parts` of it have a block each; a launch says how many. A tile has the rows of all
    places on the axis `packed`.
    """

    columns: int
    warps: int
    width: int
    out_width: int
    kind: str
    tensor: bool
    copied: tuple[bool, bool, bool]
    split: bool = False
    packed: int | None = None
    blocks: int = 1
    parts: int = field(default=1, compare=False)
    reason: str = field(default="", compare=False)
    registers: int = field(default=0, compare=False)

    @property
    def block_threads(self) -> int:
        return 32 * self.warps

    @property
    def threads(self) -> int:
        return self.block_threads

    @property
    def rows(self) -> int:
        return ROWS * self.warps

    @property
    def size(self) -> int:
        """Bytes of an element in shared memory."""
        return {"float32": 4, "float64": 8}.get(self.kind, 2)

    def line_bytes(self, width: int) -> int:
        """Of a line as products read it."""
        return -(-width // DEPTH) * DEPTH * self.size

    def tile_bytes(self, lines: int, width: int) -> int:
        """Shared memory of so many lines."""
        return -(-self.line_bytes(width) // LINE) * LINE * lines

    @property
    def places(self) -> dict[str, int]:
        """Where the parts of the shared memory begin: tiles of the operands, weights, classes of tiles; its end."""
        sizes = {
            "left_at": self.tile_bytes(self.rows, self.width),
            "right_at": self.tile_bytes(self.columns, self.width),
            "weighed_at": self.tile_bytes(self.columns, self.out_width),
            "weights_at": 0 if self.tensor or not self.out_width else self.tile_bytes(self.rows, self.columns),
        }
        found, at = {}, 0
        for name, size in sizes.items():
            found[name] = at
            at += size
        return found | {"classes_at": at}


def schedule_warps(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> WarpSchedule | None:
    """How a pass over scores runs on warps alone; None where its operands are not of one kind, or too wide."""
    found = operands_of(kernel)
    if found is None or (extents[found.lane] < FEWEST and not kernel.batch_invariant_width):
        return None
    if found.gathered and _had_better_lie(kernel, found, extents, hardware):
        return None
    for warps, columns in _shapes(kernel, found, extents, hardware):
        made = of_shape(kernel, extents, hardware, warps, columns)
        if made is None:
            continue
        items = items_of(made, kernel, extents)
        if items < 1 << 31:
            blocks = 2 if warps == 8 and max(made.width, made.out_width) <= NARROW else 1
            registers = registers_for(hardware, blocks, made.block_threads)
            return replace(made, blocks=blocks, registers=registers, reason=_reason(made, items) + looked_up(found))
    return None


def _had_better_lie(kernel: KernelIR, found: Operands, extents: tuple[int, ...], hardware: Hardware) -> bool:
    """Whether lines that are looked up are stored first, for Hopper's kernel: its products take 0.4 of the time, and
    storing takes what that saves where so many rows share a stream (at 600 and 250 TFLOP/s, and 4.8 TB/s)."""
    assert kernel.stream is not None
    rows, kinds = prod(extents[a] for a in kernel.stream.lanes), [kernel.operands[k].dtype for k in found.multiplied]
    return hardware.cc[0] == 9 and rows > STORED and all(_tensor(d.name) for d in kinds)


def of_shape(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, warps: int, columns: int
) -> WarpSchedule | None:
    """The schedule of so many warps that take up to `columns` of the stream at a time; None where nothing of a kind
    multiplies the operands, or they do not fit."""
    found, stream = operands_of(kernel), kernel.stream
    if found is None or stream is None:
        return None
    kind = _kind(kernel, found, hardware)
    width, out_width = extents[stream.scores[0].axis], sum(extents[w.axis] for w in stream.weighings)
    if kind is None or out_width > WIDEST[kind]:
        return None
    sums = out_width * (2 if kind == "float64" else 1)  # words, of two threads
    columns = min(columns, next(most for wide, most in COLUMNS if sums > wide))
    copied = _copied(kernel, found, kind, hardware, extents)
    if not all(way for k, way in zip(found.multiplied, copied) if k in found.gathered):
        return None
    made = WarpSchedule(columns, warps, width, out_width, kind, _tensor(kind), copied)
    return made if warp_shared(made, kernel, extents) <= hardware.block_shared else None


def _kind(kernel: KernelIR, found: Operands, hardware: Hardware) -> str | None:
    """The type that operands have in shared memory: their own 16 bits for tensor cores, else that of the sums."""
    assert kernel.stream is not None
    given = [kernel.operands[k].dtype for k in found.multiplied]
    sums = {kernel.stream.scores[0].value.dtype.name, *(w.state.dtype.name for w in kernel.stream.weighings)}
    if len(sums) != 1 or any(d.kind != "f" for d in given):
        return None
    (summed,) = sums
    if len(set(given)) == 1 and _tensor(given[0].name) and summed == "float32" and hardware.cc >= (8, 0):
        return given[0].name
    return summed if summed in ("float32", "float64") else None


def _tensor(kind: str) -> bool:
    return kind in ("float16", "bfloat16")


def _copied(
    kernel: KernelIR, found: Operands, kind: str, hardware: Hardware, extents: tuple[int, ...]
) -> tuple[bool, bool, bool]:
    """Which operands are copied as they are, 16 bytes at a time."""
    stream = kernel.stream
    assert stream is not None
    inner = (stream.scores[0].axis, stream.scores[0].axis, *(w.axis for w in stream.weighings))

    def aligned(k: int, axis: int) -> bool:
        operand = kernel.operands[k]
        whole = extents[axis] * operand.dtype.itemsize % CHUNK == 0
        lines = operand.strides[axis] == "1" and operand.access == "vector"
        alone = operand.strides.count("1") == 1 or k in found.gathered
        return operand.dtype.name == kind and lines and alone and whole

    copied = [hardware.cc >= (8, 0) and aligned(k, axis) for k, axis in zip(found.multiplied, inner)]
    left, right, weighed = (*copied, False)[:3]
    return left, right, weighed


def _shapes(
    kernel: KernelIR, found: Operands, extents: tuple[int, ...], hardware: Hardware
) -> Iterator[tuple[int, int]]:
    """(warps, columns) to try in turn: blocks no larger than their rows, or than all multiprocessors need."""
    rows = extents[found.lane]
    others = prod(n for a, n in enumerate(extents[: kernel.row_axes]) if a != found.lane)
    for warps, columns in SHAPES if _tensor(_kind(kernel, found, hardware) or "") else SUMMED:
        enough = others * -(-rows // (ROWS * warps)) >= hardware.multiprocessors
        if warps <= 4 or (enough and rows > ROWS * 4):
            yield warps, columns


def _reason(made: WarpSchedule, items: int) -> str:
    how = f"tensor cores multiply {made.kind}" if made.tensor else f"products are summed in {made.kind}"
    return (
        f"scores stay in registers: {items} tiles of {made.rows} rows, {made.columns} scores of each at a time; "
        f"{made.warps} warps of 16 rows, {how}"
    )


def looked_up(found: Operands) -> str:
    """What a reason says of lines that are read at computed places."""
    return "; each warp looks up where lines are" if found.gathered else ""


def class_bytes(schedule: WarpSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Shared memory of what says which tiles count, and of what a block's start may be off."""
    return LINE + 8 * class_words(schedule, kernel, extents)


def warp_shared(schedule: WarpSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Dynamic shared memory of a block."""
    return schedule.places["classes_at"] + class_bytes(schedule, kernel, extents)


def items_of(schedule: WarpSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Tiles of rows."""
    found = operands_of(kernel)
    assert found is not None
    others = prod(n for a, n in enumerate(extents[: kernel.row_axes]) if a not in (found.lane, schedule.packed))
    return others if schedule.packed is not None else others * -(-extents[found.lane] // schedule.rows)


def warp_grid(schedule: WarpSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Blocks of the launch: one for each tile of rows, or each part of its stream."""
    return items_of(schedule, kernel, extents) * schedule.parts
