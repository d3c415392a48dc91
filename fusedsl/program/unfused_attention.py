"""Whether unfused attention, matmuls with stored scores, is faster: low occupancy leaves much of a card idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ..backends.cuda.matmul.schedule import THREADS, TILE_MN
from ..fusion.roofline import TENSOR_SHARE, Work, seconds
from ..hardware import Hardware
from ..ir.types import FLOAT32, FLOAT64
from ..kernel_ir.attention import Score
from ..kernel_ir.kernel import AttentionKernel
from ..runtime.bound_kernel import BoundKernel
from ..runtime.compile import scheduled_cuda
from .attention_work import attention_work, score_instructions, utilization
from .instruction_counts import matmul_instructions
from .kernel_launch import KernelLaunch
from .product_work import SPLIT, library_rate

BUSY_SHARE = 0.5  # of the SMs' time, above which attention stays fused
WORTH = 0.9  # of attention's time: a smaller gain is not worth the memory of scores
OWN_SHARE, OWN_DOUBLE_SHARE = 0.8, 0.6  # of the library's rate that our own products reach (measured: H100)
NO_WORK = Work(0, 0, 0)
ELEMENTS_PER_THREAD = 4  # of a stored row
STORED_PRODUCT_ACCESSES = 3  # instructions per stored element: two loads and a store


def stored_scores_are_faster(bounds: Sequence[BoundKernel], hardware: Hardware) -> bool:
    """Whether the time model predicts so for the attention kernels of a call, at these extents."""
    launches = [KernelLaunch(*scheduled_cuda(bound, hardware), bound) for bound in bounds if not bound.empty]
    if all(utilization(launch, hardware, False) > BUSY_SHARE for launch in launches):
        return False
    known: set[tuple] = set()
    stored = sum(stored_seconds(launch.kernel, launch.bound, hardware, known) for launch in launches)
    return stored < WORTH * sum(pass_seconds(launch, hardware) for launch in launches)


def pass_seconds(launch: KernelLaunch, hardware: Hardware) -> float:
    """The predicted seconds of an attention kernel, if nothing is masked."""
    kernel = launch.kernel
    sizes = [launch.bound.operand_bytes(k) for k in range(len(kernel.operands))]
    read, written = sum(sizes[: kernel.inputs]), sum(sizes[kernel.inputs :])
    return seconds(attention_work(launch, hardware, read, written, {}), hardware)


def stored_seconds(kernel: AttentionKernel, bound: BoundKernel, hardware: Hardware, known: set[tuple]) -> float:
    """The predicted seconds of matmuls that store their scores, with a row kernel between them.

    Scores that are `known` are stored by another attention kernel of the call.
    """
    stream = kernel.attention
    rows = prod(bound.extents[a] for a in stream.query_axes)
    batch = prod(bound.extents[: kernel.row_axes]) // max(1, rows)
    size = max(score.value.dtype.itemsize for score in stream.scores)
    columns, score_bytes = bound.extents[kernel.row_axes], size * batch * rows * bound.extents[kernel.row_axes]
    wide, total = size == FLOAT64.itemsize, 0.0
    for score in stream.scores:
        if (like := _score_key(score, kernel, bound)) not in known:
            known.add(like)
            sides = batch, rows, columns, bound.extents[score.axis]
            total += seconds(_stored_product(sides, wide, score_bytes, hardware), hardware)
    issued, special, double = score_instructions(kernel, bound)
    issued += score_bytes // size
    each = Work(
        score_bytes,
        0,
        issued,
        special,
        double,
        chain=issued * size / score_bytes * ELEMENTS_PER_THREAD if score_bytes else 0,
    )
    for weighing in stream.weighted_sums:
        sides = batch, rows, bound.extents[weighing.axis], columns
        total += _weighted_product_seconds(sides, wide, each, hardware)
    return total + seconds(each, hardware)


def _weighted_product_seconds(sides: tuple[int, int, int, int], wide: bool, weights: Work, hardware: Hardware) -> float:
    """The seconds of P @ V: weights are computed for each tile, or stored before, whichever is faster."""
    again = -(-sides[2] // TILE_MN)
    inside = seconds(_product(sides, wide, weights.read, weights, again), hardware)
    stored = replace(weights, written=weights.read)
    product = _stored_product(sides, wide, weights.read, hardware)
    return min(inside, seconds(stored, hardware) + seconds(product, hardware))


def _score_key(score: Score, kernel: AttentionKernel, bound: BoundKernel) -> tuple:
    """The key under which scores of two attention kernels are the same: bodies, arrays, extents."""
    lines = (*score.q.instructions, *score.k.instructions, *score.q.results, *score.k.results)
    names = {value.name for value in (*score.q.args, *score.k.args)}
    read = [load.operand for load in kernel.loads if load.value.name in names]
    arrays = tuple((kernel.operands[k].name, bound.strides[k]) for k in read)
    return lines, arrays, bound.extents[score.axis], bound.extents[: kernel.row_axes + 1]


def _stored_product(sides: tuple[int, int, int, int], wide: bool, moved: float, hardware: Hardware) -> Work:
    """The work of a matmul of arrays in memory, which also moves so many bytes of scores."""
    if hardware.cc < (8, 0) or (wide and not hardware.double_tensor_cores):
        return _product(sides, wide, moved)
    batch, rows, columns, terms = sides
    tiles = batch * -(-rows // TILE_MN) * -(-columns // TILE_MN) * max(1, terms // SPLIT)
    rate = library_rate(FLOAT64 if wide else FLOAT32, hardware) * (OWN_DOUBLE_SHARE if wide else OWN_SHARE)
    rate *= min(1.0, max(1, tiles) / hardware.multiprocessors)
    products = batch * rows * columns * terms * hardware.rate(hardware.tensor) * TENSOR_SHARE / rate
    return Work(moved, 0, batch * rows * columns * STORED_PRODUCT_ACCESSES, products=products)


def _product(sides: tuple[int, int, int, int], wide: bool, moved: float, other: Work = NO_WORK, times: int = 0) -> Work:
    """The work of a matmul that also moves so many bytes of scores, and does other work so many times."""
    batch, rows, columns, terms = sides
    issued = matmul_instructions(*sides) + batch * rows * columns * STORED_PRODUCT_ACCESSES + other.instructions * times
    double = batch * rows * columns * terms if wide else 0
    blocks = max(1, batch * -(-rows // TILE_MN) * -(-columns // TILE_MN))
    chain = issued / (blocks * THREADS)
    return Work(moved, 0, issued, other.special * times, double + other.double * times, chain=chain)
