"""Whether a pass over scores leaves so much of a card idle that products of matrices with stored scores take less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ..backends.cuda.attention.mma_schedule import WarpSchedule
from ..backends.cuda.attention.sm90_schedule import AttendSchedule
from ..backends.cuda.matmul.schedule import EDGE, THREADS
from ..backends.cuda.schedule import geometry
from ..fusion.roofline import Work, seconds
from ..hardware import Hardware
from ..ir.types import FLOAT64
from ..kernel_ir.attention import Score
from ..kernel_ir.kernel import KernelIR
from ..runtime.bind_shapes import BoundKernel
from ..runtime.compile import scheduled_cuda
from .attention_work import of_pass, scores, share_at_work
from .instruction_counts import multiplication

BUSY = 0.5  # the share of the multiprocessors' time beyond which passes are not asked about
WORTH = 0.9  # of the time of passes: for less, scores are not worth their memory
NOTHING = Work(0, 0, 0)
OF_THREAD = 4  # elements that a thread has of a row that is stored
ACCESSES = 3  # instructions of an element of a product that is stored: two loads and a store


def take_less_stored(bounds: Sequence[BoundKernel], hardware: Hardware) -> bool:
    """Whether the time model says so of the passes of a call, at these extents."""
    found = [_scheduled(bound, hardware) for bound in bounds if not bound.empty]
    if all(share_at_work(k, s, b, geometry(s, k, b.extents), hardware, False) > BUSY for k, s, b in found):
        return False
    known: set[tuple] = set()
    stored = sum(stored_seconds(k, b, hardware, known) for k, _, b in found)
    return stored < WORTH * sum(pass_seconds(k, s, b, hardware) for k, s, b in found)


def _scheduled(bound: BoundKernel, hardware: Hardware) -> tuple[KernelIR, AttendSchedule | WarpSchedule, BoundKernel]:
    kernel, schedule = scheduled_cuda(bound, hardware)
    assert isinstance(schedule, (AttendSchedule, WarpSchedule))
    return kernel, schedule, bound


def pass_seconds(
    kernel: KernelIR, schedule: AttendSchedule | WarpSchedule, bound: BoundKernel, hardware: Hardware
) -> float:
    """How long a pass takes whose masks are not known."""
    sizes = [_bytes(kernel, bound, k) for k in range(len(kernel.operands))]
    read, written = sum(sizes[: kernel.inputs]), sum(sizes[kernel.inputs :])
    launch = geometry(schedule, kernel, bound.extents)
    return seconds(of_pass(kernel, schedule, bound, launch, hardware, read, written, {}), hardware)


def stored_seconds(kernel: KernelIR, bound: BoundKernel, hardware: Hardware, known: set[tuple]) -> float:
    """How long products of matrices take that store their scores, and a kernel of their rows between. Scores that are
    `known` are stored by another pass.
    """
    stream = kernel.stream
    assert stream is not None
    rows = prod(bound.extents[a] for a in stream.lanes)
    batch = prod(bound.extents[: kernel.row_axes]) // max(1, rows)
    size = max(score.value.dtype.itemsize for score in stream.scores)
    columns, held = bound.extents[kernel.row_axes], size * batch * rows * bound.extents[kernel.row_axes]
    wide, total = size == FLOAT64.itemsize, 0.0
    for score in stream.scores:
        if (like := _alike(score, kernel, bound)) not in known:
            known.add(like)
            sides = batch, rows, columns, bound.extents[score.axis]
            total += seconds(_product(sides, wide, held), hardware)
    issued, special, double = scores(kernel, bound)
    issued += held // size
    each = Work(held, 0, issued, special, double, chain=issued * size / held * OF_THREAD if held else 0)
    for weighing in stream.weighings:
        sides = batch, rows, bound.extents[weighing.axis], columns
        total += _weighed(sides, wide, each, hardware)
    return total + seconds(each, hardware)


def _weighed(sides: tuple[int, int, int, int], wide: bool, weights: Work, hardware: Hardware) -> float:
    """How long a product takes whose left operand are weights: computed for each of its squares, or stored before."""
    again = -(-sides[2] // EDGE)
    inside = seconds(_product(sides, wide, weights.read, weights, again), hardware)
    stored = replace(weights, written=weights.read)
    return min(inside, seconds(stored, hardware) + seconds(_product(sides, wide, weights.read), hardware))


def _alike(score: Score, kernel: KernelIR, bound: BoundKernel) -> tuple:
    """What says whether scores of two passes are the same: how they are computed, from which arrays."""
    lines = (*score.left.lines, *score.right.lines, *score.left.results, *score.right.results)
    names = {value.name for value in (*score.left.args, *score.right.args)}
    read = [load.operand for load in kernel.loads if load.value.name in names]
    arrays = tuple((kernel.operands[k].name, bound.strides[k]) for k in read)
    return lines, arrays, bound.extents[score.axis], bound.extents[: kernel.row_axes + 1]


def _product(sides: tuple[int, int, int, int], wide: bool, moved: float, other: Work = NOTHING, times: int = 0) -> Work:
    """A product of matrices beside which so many bytes of scores are moved, and other work is done so many times."""
    batch, rows, columns, terms = sides
    issued = multiplication(*sides) + batch * rows * columns * ACCESSES + other.instructions * times
    double = batch * rows * columns * terms if wide else 0
    blocks = max(1, batch * -(-rows // EDGE) * -(-columns // EDGE))
    chain = issued / (blocks * THREADS)
    return Work(moved, 0, issued, other.special * times, double + other.double * times, chain=chain)


def _bytes(kernel: KernelIR, bound: BoundKernel, operand: int) -> int:
    """The elements of an array that a kernel reads or writes, in bytes."""
    places = prod(n for n, stride in zip(bound.extents, bound.strides[operand]) if stride)
    return kernel.operands[operand].dtype.itemsize * places
