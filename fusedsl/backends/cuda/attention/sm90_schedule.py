"""Passes over scores on Hopper: blocks have tiles of rows, whose scores stay in registers of groups of four warps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Protocol

from ....hardware import Hardware
from ....kernel_ir.attention import Stream
from ....kernel_ir.kernel import KernelIR, Window
from ....kernel_ir.phase import Body
from .block_mask_inputs import asks_memory, extreme_axes, extremes_fit, kept_extremes
from .sm90_tile_shape import shape

ROWS, WARP_ROWS = 64, 16  # of a group of four warps, and of a warp
GROUP = 128  # threads of a group
PANEL = 64  # elements of a line in shared memory: 128 bytes
WIDEST = 256  # sums that one product has side by side
NOTHING = -1  # the number of an operand, or an axis, that is not there
MAP_AXES = 5  # that the copy engine knows
ALIGNMENT = 1024
BARRIER = 8  # bytes of a barrier in memory
ORDER_BYTES = 16  # of what says which tile of rows is where
NOTES, TILE_NOTES = 4, 8  # on items, and on tiles of the stream, that those who copy leave for the others
MOST_TILES = 1 << 23  # of a stream: a note has so many bits for their numbers
NARROWER = (96, 64, 48, 32)  # columns at a time, where values spilled with more
NEAR_BYTES = 32 << 20  # of what items of one section stream: it stays in the L2 (measured on an H200)
PLAIN_STAGES = ((2, 0), (1, 0))  # tiles of rows, and of elements beside scores, that are on chip: the best first
STAGES = ((2, 2), (1, 2), (2, 1), (1, 1), *PLAIN_STAGES)


class Tiles(Protocol):
    """How a pass over scores is cut: a block of `block` threads has so many `rows`, and takes so many `columns` of the
    stream at a time; a row of the first product has `width` elements, and one of results `out_width`."""

    @property
    def block(self) -> int: ...

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def out_width(self) -> int: ...


@dataclass(frozen=True)
class AttendSchedule:
    """`groups` of four warps have 64 rows each; tiles of `columns` scores go by, of which `stages` are on chip.

    `width` and `out_width` are the lengths of the first product's sums and of a row of results; of the rows,
    `left_stages` tiles are on chip, and of what stands beside scores in memory, if it is copied, `beside_stages`.
    Where `boxed`, results leave through shared memory, by the copy engine. Groups take `turns` at starting their
    products. References of exponentials may `lag` behind the extrema, which are kept beside, so that sums are seldom
    moved. It may be what is left where values `spilled` with more columns.
    """

    columns: int
    groups: int
    stages: int
    width: int
    out_width: int
    left_stages: int = 1
    beside_stages: int = 0
    boxed: bool = False
    turns: bool = True
    lags: bool = False
    spilled: bool = False
    reason: str = field(default="", compare=False)
    registers: int = field(default=0, compare=False)
    resident: int = field(default=0, compare=False)  # blocks that are there at once, and take items in turn; 0: all
    blocks: int = 1

    @property
    def block(self) -> int:
        return GROUP * (self.groups + 1)

    @property
    def threads(self) -> int:
        return self.block

    @property
    def rows(self) -> int:
        return ROWS * self.groups

    def tile_bytes(self, lines: int, width: int) -> int:
        """Shared memory of so many lines."""
        return -(-width // PANEL) * PANEL * 2 * lines


@dataclass(frozen=True)
class Operands:
    """What the two products of a pass are made of: numbers of operands (`weighed` NOTHING: it only folds), the axis
    that tiles of rows lie along, and the operands whose lines are `gathered`."""

    left: int
    right: int
    weighed: int
    lane: int
    gathered: tuple[int, ...] = ()

    @property
    def multiplied(self) -> tuple[int, ...]:
        """The operands that there are."""
        return tuple(k for k in (self.left, self.right, self.weighed) if k != NOTHING)


def operands_of(kernel: KernelIR) -> Operands | None:
    """The operands of a pass with one score and at most one weighing, whose products take arrays as they are, or lines
    of arrays that are looked up."""
    stream = kernel.stream
    if stream is None or not stream.level or len(stream.scores) != 1 or len(stream.weighings) > 1:
        return None
    score, gather = stream.scores[0], stream.gather
    lines = (None, gather.right, gather.weighed) if gather else (None, None, None)
    bodies = (score.left, score.right, *(w.right for w in stream.weighings))
    found = [_array(kernel, body) if line is None else line.operand for body, line in zip(bodies, lines)]
    if None in found:
        return None
    left, right, weighed = (*found, NOTHING)[:3]
    lanes = [a for a in stream.lanes if kernel.operands[left].strides[a] != "0"]  # type: ignore[index]
    if not lanes and all(operand.strides[stream.lanes[-1]] == "0" for operand in kernel.operands):
        lanes = list(stream.lanes)  # an axis of one row
    if not lanes:
        return None
    gathered = tuple(line.operand for line in lines if line is not None)
    return Operands(left, right, weighed, lanes[-1], gathered)  # type: ignore[arg-type]


def _array(kernel: KernelIR, body: Body) -> int | None:
    """The operand that a body reads and does nothing with."""
    if body.instructions or len(body.results) != 1:
        return None
    name = body.results[0].name
    return next((load.operand for load in kernel.loads if load.value.name == name), None)


def beside_of(kernel: KernelIR, lane: int) -> int | None:
    """The operand with an element for each score, 16 bits each, whose boxes the copy engine can bring."""
    assert kernel.stream is not None
    for body in kernel.stream.inputs:
        k = _array(kernel, body)
        if k is None or kernel.operands[k].dtype.name not in ("float16", "bfloat16"):
            continue
        operand, along = kernel.operands[k], kernel.row_axes
        near = operand.strides[along] == "1" and operand.strides[lane] == "s" and operand.access == "vector"
        if near and len(_axes(kernel, k, along, lane)) <= MAP_AXES:
            return k
    return None


def boxed_results(kernel: KernelIR, lane: int) -> tuple[int, int] | None:
    """The operand that the copy engine can bring results to, 16 bits each, and the axis along its lines."""
    assert kernel.stream is not None
    for ending in kernel.stream.endings:
        for store in ending.stores:
            operand, axis = kernel.operands[store.operand], ending.axis
            if operand.dtype.name not in ("float16", "bfloat16") or operand.access != "vector":
                continue
            near = operand.strides[axis] == "1" and operand.strides[lane] == "s"
            if near and len(_axes(kernel, store.operand, axis, lane)) <= MAP_AXES:
                return store.operand, axis
    return None


def _fits(kernel: KernelIR, found: Operands, stream: Stream) -> bool:
    """Whether the copy engine and the products can take these arrays."""
    score, weighing = stream.scores[0], stream.weighings[0]
    inner = {found.left: score.axis, found.right: score.axis, found.weighed: weighing.axis}
    kinds = {kernel.operands[k].dtype for k in inner}
    if found.gathered or kernel.operands[found.left].strides[found.lane] == "0":
        return False
    if len(kinds) != 1 or next(iter(kinds)).name not in ("float16", "bfloat16"):
        return False
    for k, axis in inner.items():
        operand = kernel.operands[k]
        if (
            operand.strides[axis] != "1"
            or operand.access != "vector"
            or len(_axes(kernel, k, axis, found.lane if k == found.left else kernel.row_axes)) > MAP_AXES
        ):
            return False
    return True


def _axes(kernel: KernelIR, operand: int, inner: int, along: int) -> tuple[int, ...]:
    """The axes of an operand that boxes lie in, from the innermost outwards, and that along which they have lines."""
    letters = kernel.operands[operand].strides
    return (inner, *(a for a in reversed(range(kernel.axes)) if a != inner and (letters[a] != "0" or a == along)))


def schedule_attend(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> AttendSchedule | None:
    """How a pass over scores runs on this card; None where no kernel of it fits."""
    found, stream = operands_of(kernel), kernel.stream
    if found is None or found.weighed == NOTHING or stream is None:
        return None
    if hardware.cc[0] != 9 or not _fits(kernel, found, stream):
        return None
    width, out_width = extents[stream.scores[0].axis], extents[stream.weighings[0].axis]
    if width % 8 or out_width % 8 or max(width, out_width) > WIDEST:
        return None
    beside = beside_of(kernel, found.lane) is not None
    groups, columns, stages = shape(width, out_width, beside, kernel)
    if extents[kernel.row_axes] // NARROWER[-1] >= MOST_TILES:
        return None
    lags = groups < 3 or stream.sieve is None  # three groups have no registers for more beside a mask
    least = AttendSchedule(columns, groups, stages, width, out_width, turns=groups > 1, lags=lags)
    ways = [replace(least, left_stages=n, beside_stages=m) for n, m in (STAGES if beside else PLAIN_STAGES)]
    staying = [replace(way, resident=hardware.multiprocessors) for way in ways if extremes_fit(kernel)]
    ways = [*staying, *(way for way in ways if asks_memory(kernel) and way.left_stages == 1)]
    made = next((way for way in ways if _room(way, kernel, extents) <= hardware.block_shared), None)
    if made is None:
        return None
    through = replace(made, boxed=boxed_results(kernel, found.lane) is not None)
    if _room(through, kernel, extents) <= hardware.block_shared:
        made = through
    blocks = _items(made, kernel, extents)
    if blocks >= 1 << 31:
        return None
    reason = (
        f"scores stay in registers: {blocks} tiles of {made.rows} rows, {columns} scores of each at a time; one group "
        f"of four warps copies {stages} tiles ahead, {groups} take turns at products and exponentials"
        f"{'; results leave through shared memory' if made.boxed else ''}"
    )
    return replace(made, reason=reason, registers=hardware.registers // made.block // 8 * 8)


def in_columns(kernel: KernelIR, schedule: AttendSchedule, columns: int) -> tuple[KernelIR, AttendSchedule]:
    """The same pass with so many columns of scores at a time."""
    schedule = replace(schedule, columns=columns, spilled=True)
    return replace(kernel, windows=windows(schedule, kernel)), schedule


def narrower(kernel: KernelIR, schedule: AttendSchedule) -> Iterator[tuple[KernelIR, AttendSchedule]]:
    """The same pass with fewer columns at a time, which stand in fewer registers."""
    for columns in NARROWER:
        if columns < schedule.columns:
            yield in_columns(kernel, schedule, columns)


def windows(schedule: AttendSchedule, kernel: KernelIR) -> tuple[Window, ...]:
    """The boxes of the operands: panels of 64 elements of a tile's lines, and of results of a warp's, the last ones."""
    found, stream = operands_of(kernel), kernel.stream
    assert found is not None and stream is not None
    made, beside = [], beside_of(kernel, found.lane)
    boxes = [
        (found.left, stream.scores[0].axis, found.lane, schedule.rows),
        (found.right, stream.scores[0].axis, kernel.row_axes, schedule.columns),
        (found.weighed, stream.weighings[0].axis, kernel.row_axes, schedule.columns),
    ]
    if schedule.beside_stages:
        assert beside is not None
        boxes.append((beside, kernel.row_axes, found.lane, schedule.rows))
    if schedule.boxed:
        results = boxed_results(kernel, found.lane)
        assert results is not None
        boxes.append((*results, found.lane, WARP_ROWS))
    for operand, inner, along, lines in boxes:
        axes = _axes(kernel, operand, inner, along)
        made.append(Window(operand, axes, tuple({inner: PANEL, along: lines}.get(a, 1) for a in axes)))
    return tuple(made)


def class_words(schedule: Tiles, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """32-bit words that say which tiles of a stream count, and as many that say which count whole."""
    assert kernel.stream is not None
    tiles = -(-extents[kernel.row_axes] // schedule.columns)
    return -(-tiles // 32) if asks_memory(kernel) else 0


def extreme_bytes(schedule: Tiles, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Shared memory of the answers."""
    tiles = -(-extents[kernel.row_axes] // schedule.columns)
    return 8 * len(kept_extremes(kernel)) * tiles * prod(extents[a] for a in extreme_axes(kernel))


def note_bytes(kernel: KernelIR) -> int:
    """Shared memory of how items lie, and of notes: a word for a tile, places on all axes and a count for an item."""
    return ORDER_BYTES + TILE_NOTES * 4 + NOTES * (8 + 4 * kernel.row_axes)


def fixed_bytes(schedule: AttendSchedule) -> int:
    """Shared memory of a block: the rows, the tiles of both right operands, what is beside scores, results, and the
    barriers."""
    rows = schedule.left_stages * (schedule.tile_bytes(schedule.rows, schedule.width) + 2 * BARRIER)
    tiles = sum(schedule.tile_bytes(schedule.columns, w) for w in (schedule.width, schedule.out_width))
    beside = schedule.beside_stages * (schedule.tile_bytes(schedule.rows, schedule.columns) + 2 * BARRIER)
    results = schedule.tile_bytes(schedule.rows, schedule.out_width) if schedule.boxed else 0
    return rows + beside + results + schedule.stages * tiles + BARRIER * (2 + 4 * schedule.stages)


def attend_shared(schedule: AttendSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Dynamic shared memory of a block, and what its start may be off."""
    assert kernel.stream is not None
    words = -(-extents[kernel.row_axes] // (32 * schedule.columns)) if kernel.stream.sieve else 0
    classes = 8 * words * (NOTES if schedule.resident else 1)
    classes += extreme_bytes(schedule, kernel, extents) if schedule.resident else 0
    return ALIGNMENT + fixed_bytes(schedule) + note_bytes(kernel) + classes


def _room(schedule: AttendSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Shared memory of a block, should values spill and fewer columns be taken, too."""
    least = min(schedule.columns, NARROWER[-1])
    return max(attend_shared(replace(schedule, columns=n), kernel, extents) for n in (schedule.columns, least))


def attend_grid(schedule: AttendSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Blocks of the launch: one for each tile of rows, or as many as are there at once."""
    items = _items(schedule, kernel, extents)
    return min(items, schedule.resident) if schedule.resident else items


def _items(schedule: AttendSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Tiles of rows."""
    found = operands_of(kernel)
    assert found is not None
    others = prod(n for a, n in enumerate(extents[: kernel.row_axes]) if a != found.lane)
    return others * -(-extents[found.lane] // schedule.rows)
