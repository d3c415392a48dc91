"""How a kernel runs on the CPU: which loops, how many units of work, how much workspace. Imports no Numba."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...config import num_threads
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.matmul_axes import Sides, extent, sides, worthwhile
from .core_time import seconds
from .work import Launch, Stage
from .workspace import cross_bytes, cross_parts, split_bytes

CHUNK = 16384  # elements of a map's innermost axis that one unit computes
TILE = (64, 32)  # innermost columns, rows of a block of two axes
WORK = 65536  # elements of a part of a long row
SEGMENT = 2048  # columns that are folded in vector lanes before their sum joins the pairwise tree
SHORT = 12  # columns of rows that are too short for loops of their own
SHORT_ROWS = 16  # … where the axis of the rows has at least so many
SHORT_LINES = 256  # of the body of such a loop over rows, at most: it is compiled for each number of columns
NEAR_STEP = 4  # strides of a loop that vectors of neighbours serve: reversed, every second, third or fourth element
NUMBERS = 64  # strides that the code of short rows may say as numbers
PRODUCT_BLOCK = (192, 512, 256)  # rows and columns of a block of a product of matrices, steps that are packed at a time
PIECE = 5e-5  # seconds of work that are worth waking a thread
LANES = 64  # rows of a tile of a pass over scores
GRANULE = 64  # strips, of rows side by side where these are neighbours in memory, are multiples of so many rows
HELD_STRIP = 256  # rows of a strip that holds elements
STRIPS = 2  # for each thread, at most: the wider the better


@dataclass(frozen=True)
class Short:
    """Short rows: their extents, and for each operand the strides of the axis before them and of theirs, those that
    the code says as numbers."""

    counts: tuple[int, ...]
    strides: tuple[tuple[int | None, ...], ...]

    def __str__(self) -> str:
        lines = [".".join("s" if step is None else str(step) for step in line) for line in self.strides]
        return f"{'x'.join(map(str, self.counts))}:{','.join(lines)}"

    @classmethod
    def read(cls, text: str) -> Short:
        """The inverse of `str`."""
        counts, _, strides = text.partition(":")
        lines = [[None if step == "s" else int(step) for step in line.split(".")] for line in strides.split(",")]
        return cls(tuple(map(int, counts.split("x"))), tuple(map(tuple, lines)))


def choose(kernel: KernelIR, extents: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> str:
    """The loops for these extents and strides (in elements, per operand and axis): part of the kernel's key.

    "map", followed by a colon and the innermost strides that the code says as numbers, where there are any; "tiles", a
    map in blocks of two axes; "rows"; "cross", rows that are folded both ways; "split", few rows cut into parts that
    threads share; "stream:" and the axis of a tile's rows, for passes over scores; "short:" and a `Short`; or "strips:"
    and a letter per operand, rows side by side, where the last row axis is contiguous and the columns are not, or the
    rows are very short.
    """
    if kernel.stream is not None:
        return f"stream:{max(kernel.stream.lanes, key=lambda axis: extents[axis])}"
    scans = any(phase.scans for phase in kernel.phases)
    if any(phase.select for phase in kernel.phases):
        return "rows"
    if (short := _short(kernel, extents, strides)) is not None:
        return f"short:{short}"
    if kernel.row_axes == 0 and not scans and not any(phase.folds for phase in kernel.phases):
        return "tiles" if _crosses(extents, strides) else _map(kernel, strides)
    if kernel.finish is not None:
        return "cross"
    if (found := _product(kernel, extents)) is not None:
        ends = (found.rows[-1], found.columns[-1])
        near = [line[axis] for axis in ends for line in strides]
        return "products:" + "".join(str(step) if step in (0, 1) else "s" for step in near)
    rows, columns = prod(extents[: kernel.row_axes]), prod(extents[kernel.row_axes :])
    if kernel.row_axes and (extents[kernel.row_axes - 1] >= 8 or kernel.steady):
        steps = [line[kernel.row_axes - 1] for line in strides]
        full = [(step, line[-1]) for step, line in zip(steps, strides) if any(line[kernel.row_axes :])]
        beside = any(step == 1 and across != 1 for step, across in full) and all(step in (0, 1) for step, _ in full)
        if beside or (columns <= SHORT and rows >= 256 and not kernel.steady):
            return "strips:" + "".join(str(step) if step in (0, 1) else "s" for step in steps)
    if (rows < 16 or kernel.steady) and columns >= 4 * WORK and not scans:
        return "split"
    return "rows"


def _short(kernel: KernelIR, extents: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> Short | None:
    """The short rows of a kernel, or the short end of a map."""
    if kernel.finish is not None or kernel.steady:
        return None
    first = kernel.row_axes
    if not first and not any(phase.folds or phase.scans for phase in kernel.phases):
        first = kernel.axes - 1
        while first > 1 and prod(extents[first - 1 :]) <= SHORT:
            first -= 1
    count = prod(extents[first:])
    if not first or not 1 < count <= SHORT or extents[first - 1] < SHORT_ROWS or prod(extents[:first]) < 256:
        return None
    lines = sum(len(body.instructions) for phase in kernel.phases for body in phase.bodies)
    if lines * count > SHORT_LINES:
        return None
    near = [[step if abs(step) <= NUMBERS else None for step in line[first - 1 :]] for line in strides]
    return Short(tuple(extents[first:]), tuple(map(tuple, near)))


def general(kernel: KernelIR) -> str:
    """The loops that do for any extents and strides, if not as fast as those that are chosen."""
    if kernel.stream is not None:
        return f"stream:{min(kernel.stream.lanes)}"
    if kernel.finish is not None:
        return "cross"
    computes = any(phase.folds or phase.scans or phase.select for phase in kernel.phases)
    return "rows" if kernel.row_axes or computes else "map"


def _map(kernel: KernelIR, strides: tuple[tuple[int, ...], ...]) -> str:
    """A map, with the small strides along its loop."""
    steps = [(o.strides[-1:], line[-1:]) for o, line in zip(kernel.operands, strides)]
    words = [str(line[0]) if letter == "s" and 0 < abs(line[0]) <= NEAR_STEP else "s" for letter, line in steps]
    return f"map:{','.join(words)}" if words.count("s") < len(words) else "map"


def _product(kernel: KernelIR, extents: tuple[int, ...]) -> Sides | None:
    """The sides of a kernel's products, where blocks of them are worth packing."""
    found = sides(kernel)
    return found if found is not None and worthwhile(kernel, found, extents) else None


def _crosses(extents: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> bool:
    """Whether an operand of a map runs across the innermost axis, with neighbours along the one before it."""
    if len(extents) < 2 or extents[-2] < 8 or extents[-1] < 8:
        return False
    return any(abs(line[-2]) == 1 and abs(line[-1]) > 1 for line in strides)


def launch(kernel: KernelIR, variant: str, extents: tuple[int, ...]) -> Launch:
    """The stages for these extents. Their results do not depend on the number of threads."""
    rows, columns = prod(extents[: kernel.row_axes]), prod(extents[kernel.row_axes :])
    if variant == "split":
        return _split(kernel, rows, columns, extents)
    if variant == "cross":
        return _cross(kernel, rows, columns, extents)
    count = _units(kernel, variant, extents)
    grain = _grain(kernel, extents, count)
    if variant.startswith("strips"):  # a call makes strips of its own: the wider, the better memory delivers them
        grain = max(grain, -(-count // (STRIPS * num_threads())), HELD_STRIP // GRANULE)
    return Launch((Stage("kernel", count, grain),))


def _units(kernel: KernelIR, variant: str, extents: tuple[int, ...]) -> int:
    """How many units of work the loops of one stage have: rows, or blocks of rows and columns."""
    if kernel.stream is not None:
        lane = int(variant.partition(":")[2])
        return prod(extents[: kernel.row_axes]) // max(1, extents[lane]) * -(-extents[lane] // LANES)
    if variant.startswith("map"):
        return prod(extents[:-1]) * -(-(extents[-1] if extents else 1) // CHUNK)
    if variant == "tiles":
        chunk, height = TILE
        return prod(extents[:-2]) * -(-extents[-2] // height) * -(-extents[-1] // chunk)
    if variant.startswith("products"):
        found = sides(kernel)
        assert found is not None
        counts = [extent(axes, extents) for axes in (found.rows, found.columns)]
        return extent(found.batch, extents) * prod(-(-n // most) for n, most in zip(counts, PRODUCT_BLOCK))
    if variant.startswith("short"):
        loop = kernel.axes - len(Short.read(variant.partition(":")[2]).counts) - 1
        return prod(extents[:loop]) * -(-extents[loop] // CHUNK)
    if variant.startswith("strips"):
        return prod(extents[: kernel.row_axes - 1]) * -(-extents[kernel.row_axes - 1] // GRANULE)
    return prod(extents[: kernel.row_axes])


def _grain(kernel: KernelIR, extents: tuple[int, ...], count: int) -> int:
    """How many of so many units of a kernel a thread is to take at least: of work for two, half."""
    pieces = max(1, int(seconds(kernel, extents) / PIECE))
    return max(1, -(-count // pieces))


def _split(kernel: KernelIR, rows: int, columns: int, extents: tuple[int, ...]) -> Launch:
    """Parts of about WORK elements; two stages a phase."""
    segments = prod(extents[kernel.row_axes : -1]) * -(-extents[-1] // SEGMENT)
    parts = max(1, min(segments, columns // WORK))
    stages, grain = [], _grain(kernel, extents, rows * parts * len(kernel.phases))
    for p in range(len(kernel.phases)):
        stages += [Stage(f"phase{p}", rows * parts, grain), Stage(f"merge{p}", rows, rows)]
    return Launch(tuple(stages), split_bytes(kernel, rows, columns, parts), parts)


def _cross(kernel: KernelIR, rows: int, columns: int, extents: tuple[int, ...]) -> Launch:
    """Parts of the rows, then columns."""
    parts = cross_parts(rows)
    stages = (
        Stage("rows", parts, _grain(kernel, extents, parts)),
        Stage("columns", columns, max(1, WORK // max(1, parts))),
    )
    return Launch(stages, cross_bytes(kernel, parts, columns), parts)
