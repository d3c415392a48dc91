"""Time model: the rough time of a kernel on one core, which decides how many threads are worth waking.

measured: one core of an EPYC 9005 (Zen 5, vectors of 64 bytes), 2026-11. On slower processors both the kernel and
waking a thread take longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ...ir.types import DType
from ...kernel_ir.byte_tables import without_tables
from ...kernel_ir.instruction import Instruction
from ...kernel_ir.instruction_cost import total_cost
from ...kernel_ir.kernel import AttentionKernel, KernelIR
from ...kernel_ir.matmul_axes import matmul_axes, worth_tiling
from ...kernel_ir.phase import Body, Reduction
from ..cuda.sort.sort_method import sort_of
from .roles import ValueRoles

CACHE_BYTE, MEMORY_BYTE = 1.2e-11, 3e-11  # seconds for a byte from a cache, from memory
CACHE_SIZE = 16 << 20  # bytes that stay in the last-level cache between two calls
INSTRUCTION = 2.6e-12  # seconds for a vector instruction, per byte of the element type
MULTIPLICATION = 5e-12  # seconds for a multiply-add of a matmul, per byte of the element type
LIBRARY_CALL, LIBRARY_CALLS = 9e-9, ("lgamma",)  # seconds; functions of float64 that are not vectorised
LOOKUP = 3e-10  # seconds of a lookup in a byte table
SCAN_STEP = 1.5e-9  # seconds per element of a scan
SORT_STEP = 2e-9  # seconds per element and digit of a radix sort
POSITION = 2  # vector instructions per element of an argmax or argmin that a microkernel finds
MAX_TOP_K = 64  # k at most of a top-k by insertion; for more the row is sorted
TOP_K_STEP = 2e-9  # seconds per element of a top-k


def seconds(kernel: KernelIR, extents: Sequence[int]) -> float:
    """The time of a launch on one thread."""
    return max(_memory_seconds(kernel, extents), _compute_seconds(kernel, extents))


def _memory_seconds(kernel: KernelIR, extents: Sequence[int]) -> float:
    """Memory time: bytes of the operands, and one element for each load at a computed address."""
    total = 0
    for operand in kernel.operands:
        total += (
            prod(n for n, stride_kind in zip(extents, operand.strides) if stride_kind != "0") * operand.dtype.itemsize
        )
    reads = sum(i.op == "fetch" for phase in kernel.phases for body in phase.bodies for i in body.instructions)
    total += reads * prod(extents) * _width(kernel)
    return total * (CACHE_BYTE if total <= CACHE_SIZE else MEMORY_BYTE)


def _compute_seconds(kernel: KernelIR, extents: Sequence[int]) -> float:
    rows, elements = prod(extents[: kernel.row_axes]), prod(extents)
    width = _width(kernel)
    if isinstance(kernel, AttentionKernel):
        return _attention_seconds(kernel, extents, width)
    matmul = matmul_axes(kernel)
    if matmul is not None and worth_tiling(kernel, matmul, tuple(extents)):
        return elements * len(kernel.products) * width * MULTIPLICATION
    total = elements * len(kernel.tables) * LOOKUP
    kernel = without_tables(kernel)
    roles = ValueRoles(kernel)
    for p, phase in enumerate(kernel.phases):
        positions = roles.positional(p) if phase.folds else ()
        merges = (use.combine for use in (*phase.folds, *phase.column_reductions) if use not in positions)
        each = _body_seconds([*phase.bodies, *merges], width) + len(positions) * POSITION * width * INSTRUCTION
        total += elements * each + rows * _body_seconds([phase.row] if phase.row else [], width)
        total += elements * SCAN_STEP * len(phase.scan_uses)
    return total + elements * _sort_seconds(kernel)


def chain_seconds(instructions: Sequence[Instruction]) -> float:
    """The time of instructions on one element, in vectors of the widest type among them."""
    return _body_seconds([Body((), (), tuple(instructions))], max(i.dtype.itemsize for i in instructions))


def _sort_seconds(kernel: KernelIR) -> float:
    """Sort or top-k time per element."""
    sort = sort_of(kernel)
    if sort is None:
        return 0.0
    if sort.count is not None and sort.count <= MAX_TOP_K:
        return TOP_K_STEP
    return SORT_STEP * (sort.key.dtype.bits // 8 + 1)


def _attention_seconds(kernel: AttentionKernel, extents: Sequence[int], width: int) -> float:
    """Attention time: both matmuls, and the element work of each score."""
    attention = kernel.attention
    every = prod(extents[: kernel.row_axes + 1])
    axes = [*(score.axis for score in attention.scores), *(w.axis for w in attention.weighted_sums)]
    uses: Iterable[Reduction] = [use for phase in attention.tile_phases for use in phase.folds]
    bodies = [*(p.element for p in attention.tile_phases), *(use.combine for use in uses), *attention.mask_inputs]
    return every * (sum(extents[a] for a in axes) * width * MULTIPLICATION + _body_seconds(bodies, width))


def _body_seconds(bodies: Iterable[Body], width: int) -> float:
    """The time of one run of each body."""
    total = 0.0
    for body in bodies:
        calls = sum(i.op in LIBRARY_CALLS for i in body.instructions) if width == 8 else 0
        total += total_cost(body.instructions) * width * INSTRUCTION + calls * LIBRARY_CALL
    return total


def _width(kernel: KernelIR) -> int:
    """Bytes of the widest compute type of what has an element per column: all operands, if nothing has."""
    several = [o for o in kernel.operands if any(kind != "0" for kind in o.strides[kernel.row_axes :])]
    types: list[DType] = [operand.dtype.compute for operand in several or kernel.operands]
    return max((d.itemsize for d in types), default=8)
