"""What a scheduled kernel does, counted for the time model: bytes, instructions, and how much is under way at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log2, prod
from typing import Any

from ..fusion.lines import double_instructions, instructions, special_functions, varying
from ..fusion.time import Work
from ..hardware import Hardware, occupancy
from ..runtime.bind import Bound
from ..schedule import Geometry, MapSchedule, RowSchedule
from ..schedule.contract import EDGE
from ..schedule.kernel import Kernel
from ..schedule.phase import Body
from ..schedule.product import Sides, extent, sides, worthwhile
from ..schedule.ranking import selection
from ..schedule.registers import row_loads
from ..schedule.stream import Stream

SHARED_READS = 5 / 16  # of a thread for each of its products
ADDRESSING = 12  # instructions that find and stage an element of a factor
EXCHANGE = 6  # instructions that put two entries of an order in theirs
TENSOR_TERMS = 16  # of a product that the tensor cores do in the time of a multiply-add: 4,096 FLOP a clock against 256
DOUBLE_ISSUED = 1.9  # instructions that are issued for one of float64: constants, addresses and words beside it


def work_of(
    kernel: Kernel,
    schedule: Any,
    bound: Bound,
    launch: Geometry,
    hardware: Hardware,
    reads: Sequence[tuple[int, int]],
    written: int,
) -> Work:
    """The work of a launch; `reads` are the (bytes, passes) of each array."""
    issued, special, double = computed(kernel, bound)
    issued += _of_order(kernel, schedule, bound)
    once = sum(size // passes for size, passes in reads)
    again = sum(size for size, _ in reads) - once
    at_once = _blocks_at_once(schedule, launch, hardware)
    return Work(
        once,
        written,
        issued,
        special,
        double,
        chain=issued / max(1, launch.blocks * launch.threads),
        under_way=at_once * launch.threads * _thread_loads(kernel, schedule) or None,
        again=again,
        kept=at_once * _row_bytes(kernel, schedule, bound) if again else 0,
    )


def computed(kernel: Kernel, bound: Bound) -> tuple[float, float, float]:
    """(instructions, special functions, instructions of float64) of a launch."""
    rows, columns = prod(bound.extents[: kernel.row_axes]), prod(bound.extents[kernel.row_axes :])
    elements = rows * columns
    found = [0.0, 0.0, 0.0]
    if kernel.stream is not None:
        share = TENSOR_TERMS if kernel.windows else 1
        return _of_stream(kernel.stream, bound, rows, bound.extents[kernel.row_axes], share)
    products = sides(kernel)
    if products is not None and worthwhile(kernel, products, bound.extents):
        return _of_products(kernel, products, bound)
    found[0] = elements * len(kernel.operands)  # a load or store each
    fixed = [value.name for value in kernel.scalars]
    for phase in kernel.phases:
        if phase.row is not None:
            _count(found, phase.row, rows)
        for part in phase.passes:
            for body in part.bodies:
                _count(found, replace(body, lines=tuple(varying(body.lines, fixed))), elements)
            uses = [*part.folds, *part.cross, *(use for step in part.scans for use in step.scans for _ in range(2))]
            for use in uses:
                _count(found, use.merge, elements)
    return found[0], found[1], found[2]


def _of_order(kernel: Kernel, schedule: Any, bound: Bound) -> float:
    """Instructions that put rows in order: of the threads that take the best out in rounds, or sort in slots."""
    select, ranking = selection(kernel), getattr(schedule, "ranking", None)
    if select is None or ranking is None:
        return 0
    rows, columns = prod(bound.extents[: kernel.row_axes]), prod(bound.extents[kernel.row_axes :])
    if ranking.method == "rounds" and select.count is not None:
        own, turns = schedule.vectors * schedule.width, select.count
        exchanges = own * min(own, turns) / 2 + turns * (turns / 6 + 2 * log2(schedule.threads))
        return rows * schedule.threads * exchanges * EXCHANGE
    if ranking.method == "choose":
        return 0
    steps = log2(ranking.size)
    merges = log2(max(1, columns / ranking.size))  # of runs, where there are several
    return rows * columns * (steps * (steps + 1) / 4 + merges) * EXCHANGE


def _of_stream(stream: Stream, bound: Bound, rows: int, columns: int, share: int) -> tuple[float, float, float]:
    """The work of a pass over scores: a multiply-add for every term of a product (or for `share` of them), and what is
    done with a score."""
    found = [0.0, 0.0, 0.0]
    axes = [*(score.axis for score in stream.scores), *(w.axis for w in stream.weighings)]
    found[0] += rows * columns * sum(bound.extents[axis] for axis in axes) / share
    for phase in stream.tile:
        _count(found, phase.element, rows * columns)
        for use in phase.folds:
            _count(found, use.merge, rows * columns)
    for ending in stream.endings:
        _count(found, ending.body, rows * bound.extents[ending.axis])
    return found[0], found[1], found[2]


def _of_products(kernel: Kernel, products: Sides, bound: Bound) -> tuple[float, float, float]:
    """Products of matrices in squares: an element of a factor is computed once for each square that it is in, and a
    multiplication reads a third of a value from shared memory."""
    rows, columns = (extent(axes, bound.extents) for axes in (products.rows, products.columns))
    steps, batch = prod(bound.extents[kernel.row_axes :]), extent(products.batch, bound.extents)
    found = [0.0, 0.0, 0.0]
    for use, pair in zip(kernel.phases[0].folds, products.factors):
        wide = use.state[0].dtype.bits == 64 and use.state[0].dtype.kind == "f"
        found[0] += batch * rows * columns * steps * (1 + SHARED_READS)
        found[2] += batch * rows * columns * steps if wide else 0
        for body, own, other in zip(pair, (rows, columns), (columns, rows)):
            times = batch * own * steps * -(-other // EDGE)
            found[0] += times * ADDRESSING
            _count(found, body, times)
    row = kernel.phases[0].row
    if row is not None:
        _count(found, row, batch * rows * columns)
    found[0] += batch * rows * columns * len(kernel.operands)
    return found[0], found[1], found[2]


def _count(found: list[float], body: Body, times: int) -> None:
    wide = any(v.dtype.bits == 64 and v.dtype.kind == "f" for v in (*body.args, *body.results))
    if wide:
        double = times * double_instructions(body.lines)
        found[0] += double * DOUBLE_ISSUED
        found[2] += double
        return
    found[0] += times * instructions(body.lines)
    found[1] += times * special_functions(body.lines)


def _blocks_at_once(schedule: Any, launch: Geometry, hardware: Hardware) -> int:
    """Blocks that are on the GPU together."""
    fit = occupancy(hardware, max(1, schedule.registers), launch.threads, launch.shared).blocks
    return min(launch.blocks, hardware.multiprocessors * max(1, fit))


def _thread_loads(kernel: Kernel, schedule: Any) -> int:
    """Bytes that a thread loads before it uses any of them; 0 where that is not known."""
    if not isinstance(schedule, (MapSchedule, RowSchedule)):
        return 0
    rows = row_loads(kernel)
    first = {value.name for part in kernel.phases[0].passes for value in part.reads}
    taken = [x.operand for x in kernel.loads if x.operand not in rows and (x.value.name in first or not first)]
    sizes = [kernel.operands[k].dtype.itemsize for k in taken if "0" not in kernel.operands[k].strides]
    return sum(sizes) * schedule.width * schedule.vectors


def _row_bytes(kernel: Kernel, schedule: Any, bound: Bound) -> int:
    """Bytes of the rows that a block works on, whose later passes find them in the L2 if it holds them all."""
    columns = prod(bound.extents[kernel.row_axes :])
    size = sum(kernel.operands[x.operand].dtype.itemsize for x in kernel.loads if x.operand not in row_loads(kernel))
    return getattr(schedule, "rows", 1) * columns * size
