"""How long a kernel keeps one core busy, roughly: it decides whether other threads are woken for it.

measured: one core of an EPYC 9005 (Zen 5, vectors of 64 bytes), 2026-11. Other processors take longer, for which
waking a thread costs more too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log2, prod

from ...ir.op_cost import instructions
from ...ir.types import DType
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.matmul_axes import sides, worthwhile
from ...kernel_ir.phase import Body, Reduction
from ..cuda.scan_sort.sort_method import selection

NEAR, FAR = 1.2e-11, 3e-11  # seconds for a byte that a cache delivers, or memory
CACHE = 16 << 20  # bytes that stay in the last cache between two calls
INSTRUCTION = 2.6e-12  # … for an instruction of each byte of an element's type, in vectors
MULTIPLICATION = 5e-12  # … likewise, of products of matrices
CALL, CALLED = 9e-9, ("lgamma",)  # functions that are no vector code
SCANNED = 1.5e-9  # an element joins a running state
ORDERED = 1.1e-8  # an element takes one step of a merge sort
KEPT = 2e-9  # an element is held against the best few

Amount = tuple[float, float]  # instructions times bytes of their type, calls


def seconds(kernel: KernelIR, extents: Sequence[int]) -> float:
    """What a launch takes on one thread."""
    return max(_moving(kernel, extents), _computing(kernel, extents))


def _moving(kernel: KernelIR, extents: Sequence[int]) -> float:
    """The bytes of the operands; of what is read at computed addresses, an element for each read."""
    total = 0
    for operand in kernel.operands:
        total += prod(n for n, letter in zip(extents, operand.strides) if letter != "0") * operand.dtype.itemsize
    reads = sum(
        line.count("= fetch_") for phase in kernel.phases for body in phase.bodies for line in body.instructions
    )
    total += reads * prod(extents) * _width(kernel)
    return total * (NEAR if total <= CACHE else FAR)


def _computing(kernel: KernelIR, extents: Sequence[int]) -> float:
    rows, elements = prod(extents[: kernel.row_axes]), prod(extents)
    width = _width(kernel)
    if kernel.stream is not None:
        return _of_scores(kernel, extents, width)
    found = sides(kernel)
    if found is not None and worthwhile(kernel, found, tuple(extents)):
        return elements * len(kernel.products) * width * MULTIPLICATION
    total = 0.0
    for phase in kernel.phases:
        bodies = [*phase.bodies, *(use.combine for use in (*phase.folds, *phase.column_reductions))]
        total += elements * _of_bodies(bodies, width) + rows * _of_bodies([phase.row] if phase.row else [], width)
        total += elements * SCANNED * sum(len(step.scans) for step in phase.scans)
    return total + elements * _ordering(kernel, prod(extents[kernel.row_axes :]))


def _ordering(kernel: KernelIR, columns: int) -> float:
    """For each element of a row that is put in order."""
    select = selection(kernel)
    if select is None:
        return 0.0
    return ORDERED * log2(max(2, columns)) if select.count is None or select.count > 64 else KEPT


def _of_scores(kernel: KernelIR, extents: Sequence[int], width: int) -> float:
    """A pass over scores: products, and what is done with each score."""
    stream = kernel.stream
    assert stream is not None
    every = prod(extents[: kernel.row_axes + 1])
    axes = [*(score.axis for score in stream.scores), *(w.axis for w in stream.weighings)]
    uses: Iterable[Reduction] = [use for phase in stream.tile for use in phase.folds]
    bodies = [*(phase.element for phase in stream.tile), *(use.combine for use in uses), *stream.inputs]
    return every * (sum(extents[a] for a in axes) * width * MULTIPLICATION + _of_bodies(bodies, width))


def _of_bodies(bodies: Iterable[Body], width: int) -> float:
    """One run of each."""
    total = 0.0
    for body in bodies:
        calls = sum(any(f"{name}(" in line for name in CALLED) for line in body.instructions)
        total += instructions(body.instructions) * width * INSTRUCTION + calls * CALL
    return total


def _width(kernel: KernelIR) -> int:
    """Bytes of the widest value that is computed with."""
    types: list[DType] = [operand.dtype.compute for operand in kernel.operands]
    return max((d.itemsize for d in types), default=8)
