"""How a kernel runs on the CPU: which loops, how many units of work, how much workspace. Imports no Numba."""

from __future__ import annotations

from math import prod

from ...schedule.kernel import Kernel
from ...schedule.product import Sides, extent, sides, worthwhile
from .work import Launch, Stage
from .workspace import cross_bytes, cross_parts, split_bytes

CHUNK = 16384  # elements of a map's innermost axis that one unit computes
TILE = (64, 32)  # innermost columns, rows of a block of two axes
WORK = 65536  # elements that are worth a thread
SEGMENT = 2048  # columns that are folded in vector lanes before their sum joins the pairwise tree
SHORT = 12  # columns of rows that are too short for loops of their own
PRODUCT_BLOCK = (192, 512, 256)  # rows and columns of a block of a product of matrices, steps that are packed at a time
PRODUCT_WORK = 1 << 21  # multiplications that are worth a thread
LANES = 64  # rows of a tile of a pass over scores
STRIP = 256  # rows that are folded side by side where neighbours in memory are rows


def choose(kernel: Kernel, extents: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> str:
    """The loops for these extents and strides (in elements, per operand and axis): part of the kernel's key.

    "map"; "tiles", a map in blocks of two axes; "rows"; "cross", rows that are folded both ways; "split", few rows cut
    into parts that threads share; "stream:" and the axis of a tile's rows, for passes over scores; or
    "strips:" and a letter per operand, rows side by side, where the last row axis is contiguous and the columns are
    not, or the rows are very short.
    """
    if kernel.stream is not None:
        return f"stream:{max(kernel.stream.lanes, key=lambda axis: extents[axis])}"
    scans = any(phase.scans for phase in kernel.phases)
    if any(phase.select for phase in kernel.phases):
        return "rows"
    if kernel.row_axes == 0 and not scans and not any(phase.folds for phase in kernel.phases):
        return "tiles" if _crosses(extents, strides) else "map"
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


def general(kernel: Kernel) -> str:
    """The loops that do for any extents and strides, if not as fast as those that are chosen."""
    if kernel.stream is not None:
        return f"stream:{min(kernel.stream.lanes)}"
    if kernel.finish is not None:
        return "cross"
    computes = any(phase.folds or phase.scans or phase.select for phase in kernel.phases)
    return "rows" if kernel.row_axes or computes else "map"


def _product(kernel: Kernel, extents: tuple[int, ...]) -> Sides | None:
    """The sides of a kernel's products, where blocks of them are worth packing."""
    found = sides(kernel)
    return found if found is not None and worthwhile(kernel, found, extents) else None


def _crosses(extents: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> bool:
    """Whether an operand of a map runs across the innermost axis, with neighbours along the one before it."""
    if len(extents) < 2 or extents[-2] < 8 or extents[-1] < 8:
        return False
    return any(abs(line[-2]) == 1 and abs(line[-1]) > 1 for line in strides)


def launch(kernel: Kernel, variant: str, extents: tuple[int, ...]) -> Launch:
    """The stages for these extents. Their results do not depend on the number of threads."""
    rows, columns = prod(extents[: kernel.row_axes]), prod(extents[kernel.row_axes :])
    if kernel.stream is not None:
        lane = int(variant.partition(":")[2])
        units = rows // max(1, extents[lane]) * -(-extents[lane] // LANES)
        return Launch((Stage("kernel", units, 1),))
    if variant == "map":
        inner = extents[-1] if extents else 1
        count = prod(extents[:-1]) * -(-inner // CHUNK)
        return Launch((Stage("kernel", count, max(1, WORK // max(1, min(inner, CHUNK)))),))
    if variant == "tiles":
        chunk, height = TILE
        count = prod(extents[:-2]) * -(-extents[-2] // height) * -(-extents[-1] // chunk)
        return Launch((Stage("kernel", count, WORK // (chunk * height)),))
    if variant == "rows":
        return Launch((Stage("kernel", rows, max(1, WORK // max(1, columns))),))
    if variant == "split":
        return _split(kernel, rows, columns, extents)
    if variant == "cross":
        return _cross(kernel, rows, columns)
    if variant.startswith("products"):
        return _products(kernel, extents, columns)
    strips = prod(extents[: kernel.row_axes - 1]) * -(-extents[kernel.row_axes - 1] // STRIP)
    return Launch((Stage("kernel", strips, max(1, WORK // max(1, columns * STRIP))),))


def _products(kernel: Kernel, extents: tuple[int, ...], steps: int) -> Launch:
    """Blocks of the result."""
    found = sides(kernel)
    assert found is not None
    counts = [extent(axes, extents) for axes in (found.rows, found.columns)]
    blocks = [-(-n // most) for n, most in zip(counts, PRODUCT_BLOCK)]
    work = prod(min(n, most) for n, most in zip(counts, PRODUCT_BLOCK)) * steps
    return Launch((Stage("kernel", extent(found.batch, extents) * prod(blocks), max(1, PRODUCT_WORK // work)),))


def _split(kernel: Kernel, rows: int, columns: int, extents: tuple[int, ...]) -> Launch:
    """Parts of about WORK elements; two stages a phase."""
    segments = prod(extents[kernel.row_axes : -1]) * -(-extents[-1] // SEGMENT)
    parts = max(1, min(segments, columns // WORK))
    stages = []
    for p in range(len(kernel.phases)):
        stages += [Stage(f"phase{p}", rows * parts, 1), Stage(f"merge{p}", rows, rows)]
    return Launch(tuple(stages), split_bytes(kernel, rows, columns, parts), parts)


def _cross(kernel: Kernel, rows: int, columns: int) -> Launch:
    """Parts of the rows, then columns."""
    parts = cross_parts(rows)
    each = -(-rows // max(parts, 1))
    stages = (
        Stage("rows", parts, max(1, WORK // max(1, each * columns))),
        Stage("columns", columns, max(1, WORK // max(1, parts))),
    )
    return Launch(stages, cross_bytes(kernel, parts, columns), parts)
