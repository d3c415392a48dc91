"""Binds a kernel plan to the arrays of a call: merges axes, and gives the kernel for these shapes with its strides."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import gcd, prod

from ..backends.cuda.batch_invariant import batch_invariant_width
from ..backends.cuda.columns.pairs import pair_width
from ..backends.cuda.split_heuristics import state_words
from ..ir.dims import Symbol, evaluate
from ..ir.superaccumulators import SUPERACCUMULATORS
from ..kernel_ir.grouped_axes import over_merged_axes, with_periodic_strides
from ..kernel_ir.kernel import KernelIR, Operand, Position, RowColumnKernel
from ..kernel_ir.map_access import elementwise_access, strided_axis_access
from ..kernel_ir.memory_access import (
    INDEX64_FROM,
    RUN_WIDTH,
    Access,
    MergedAxes,
    contiguous_axis_access,
    max_offset,
    merge_axes,
    merge_axes_in_order,
    merge_row_axes,
    prefers_row_axis_vectors,
    rank_stride_kind,
    row_access,
    row_axis_access,
    stride_kinds,
)
from ..kernel_ir.phase import Phase
from ..kernel_ir.plan import KernelPlan
from .bind_attention import bind_attention
from .bind_padded import is_padded, padded_images
from .bound_kernel import BoundArrays, BoundKernel
from .layout import ALIGNMENT, ArrayLayout, bound_strides, byte_strides
from .map_facts import columns_are_nearer, neighbour_rows, placed_alike, scalar_facts, shifted_loads


def _bind_arrays(
    plan: KernelPlan, layouts: Mapping[tuple[str, int], ArrayLayout], extents: Mapping[Symbol, int]
) -> BoundArrays:
    axes = len(plan.rows) + len(plan.columns)
    layout_strides = [bound_strides(use, layouts, extents, axes + len(plan.ranks)) for use in plan.arrays]
    return BoundArrays(
        tuple(use.dtype for use in plan.arrays),
        tuple(strides[:axes] for strides, _ in layout_strides),
        tuple(
            strides[axes:] if any(c.axis == axes for c in use.at) else ()
            for use, (strides, _) in zip(plan.arrays, layout_strides)
        ),
        tuple(offset for _, offset in layout_strides),
        tuple(
            (layouts[use.kind, use.index].address + offset * use.dtype.itemsize) % ALIGNMENT
            for use, (_, offset) in zip(plan.arrays, layout_strides)
        ),
        tuple(byte_strides(use, layouts, extents) for use in plan.arrays),
    )


def bind_kernel(
    plan: KernelPlan,
    layouts: Mapping[tuple[str, int], ArrayLayout],
    extents: Mapping[Symbol, int],
    symbolic_units: bool = False,
) -> BoundKernel:
    """The kernel for arrays of these layouts (by kind and index), with its numbers.

    With `symbolic_units`, an axis whose extent is symbolic in the plan is kept even if its extent is 1: any column
    axis, and row axes that lie across the contiguous one; else one of them, if there is a single row.
    """
    rows = tuple(evaluate(d, extents) for d in plan.rows)
    columns = tuple(evaluate(d, extents) for d in plan.columns)
    bound = _bind_arrays(plan, layouts, extents)
    if plan.attention is not None:
        return bind_attention(plan, plan.attention, rows + columns, bound, symbolic_units)
    bound = replace(bound, strides=with_periodic_strides(plan, rows, bound.strides))
    merged, row_axes = _merged(plan, rows, columns, bound, symbolic_units)
    lines = tuple(line + rank for line, rank in zip(merged.strides, bound.ranks))
    ranks = tuple(evaluate(d, extents) for d in plan.ranks)
    far = any(
        max_offset(merged.extents + ranks, line) >= INDEX64_FROM for line, rank in zip(lines, bound.ranks) if rank
    )
    kernel = _kernel(plan, merged, row_axes, bound, merged.index64 or far)
    if plan.scatters:
        kernel = replace(kernel, phases=tuple(_with_bins(plan, phase, layouts) for phase in plan.resident))
    near, operands = neighbour_rows(plan, merged, bound), shifted_loads(plan, kernel.operands, merged, bound)
    operands = placed_alike(operands, merged, row_axes)
    kernel = replace(kernel, neighbour_rows=near, operands=operands, **scalar_facts(plan, extents, bound))
    phases = tuple(over_merged_axes(phase, rows, merged.axes) for phase in kernel.phases)
    kernel = replace(kernel, columns_nearer=columns_are_nearer(merged, row_axes), phases=phases)
    looped = None
    if plan.looped and not plan.is_elementwise and not plan.column_epilogue:
        looped = replace(kernel, phases=plan.looped, resident=False)
    transposed = None
    tiled = kernel.is_pairwise and not plan.batch_invariant  # a single row is no tile, and takes the same bits
    across = tiled or prefers_row_axis_vectors(merged, row_axes, bound.dtypes)
    if looped is not None and _may_transpose(plan) and across:
        transposed = (_transposed(plan, kernel, merged, bound), _transposed(plan, looped, merged, bound))
    bound_kernel = BoundKernel(kernel, merged.extents, lines, bound.offsets, bound.byte_strides, looped, transposed)
    padded = any(map(is_padded, plan.arrays))
    return replace(bound_kernel, padded=padded_images(plan, layouts, extents, merged)) if padded else bound_kernel


def _with_bins(plan: KernelPlan, phase: Phase, layouts: Mapping[tuple[str, int], ArrayLayout]) -> Phase:
    """The phase, whose scatters know about how many places they have: a power of two, so that binaries are few."""
    with_bins = []
    for scatter in phase.scatters:
        use = plan.arrays[scatter.operand]
        shape = layouts[use.kind, use.index].shape
        count = shape[0] * shape[2] if scatter.fold in SUPERACCUMULATORS else prod(shape)
        with_bins.append(replace(scatter, bins=1 << max(0, count - 1).bit_length()))
    return replace(phase, scatters=tuple(with_bins))


MOST_DISPLACEMENT = 128  # elements that are constants of machine code; longer distances vary from call to call
NO_AXIS = -1  # an axis of extent 1, if a kernel has no row or column axis


def bind_general(
    plan: KernelPlan, layouts: Mapping[tuple[str, int], ArrayLayout], extents: Mapping[Symbol, int]
) -> BoundKernel:
    """The kernel that serves any layout and any extents, with the numbers of this call: no axes are merged.

    Every stride is a parameter. This kernel is for the CPU, whose compiler vectorises by itself.
    """
    rows, columns = ([evaluate(d, extents) for d in dims] for dims in (plan.rows, plan.columns))
    placed = _bind_arrays(plan, layouts, extents)
    uses = [{c.axis for c in use.at} for use in plan.arrays]
    if plan.attention is not None:
        bound = bind_attention(plan, plan.attention, (*rows, *columns), placed, True)
        operands = [
            operand if use.gathered is not None else _any_strides(operand, range(len(rows + columns)), axes)
            for operand, use, axes in zip(bound.kernel.operands, plan.arrays, uses)
        ]
        return replace(bound, kernel=replace(bound.kernel, operands=tuple(operands)))
    of_rows = [] if plan.is_elementwise else list(range(len(rows))) or [NO_AXIS]
    of_columns = list(range(len(rows), len(rows) + len(columns))) or [NO_AXIS]
    order = [*of_rows, *of_columns]
    numbers = [*rows, *columns]
    unmerged = MergedAxes(
        tuple(1 if a == NO_AXIS else numbers[a] for a in order),
        tuple(tuple(0 if a == NO_AXIS else line[a] for a in order) for line in placed.strides),
        tuple(() if a == NO_AXIS else (a,) for a in order),
    )
    kernel = _kernel(plan, unmerged, len(of_rows), placed, True)
    operands = [_any_strides(operand, order, axes) for operand, axes in zip(kernel.operands, uses)]
    kernel = replace(kernel, operands=tuple(operands), constant_scalars=())
    lines = tuple(line + rank for line, rank in zip(unmerged.strides, placed.ranks))
    return BoundKernel(kernel, unmerged.extents, lines, placed.offsets, placed.byte_strides)


def _any_strides(operand: Operand, order: Iterable[int], axes: Container[int | None]) -> Operand:
    """An operand whose strides are unknown, except for the axes along which it does not vary."""
    strides = "".join("s" if a in axes else "0" for a in order)
    return replace(operand, strides=strides, rank="s" if operand.rank else "")


def _merged(
    plan: KernelPlan, rows: tuple[int, ...], columns: tuple[int, ...], bound: BoundArrays, symbolic_units: bool
) -> tuple[MergedAxes, int]:
    """The axes that a kernel runs over after merging, and how many of them are row axes."""
    outputs = range(plan.inputs, len(plan.arrays))
    keep = [p.axis for p in plan.positions]
    keep += [phase.panel_folds.axis for phase in plan.resident if phase.panel_folds]
    keep += range(len(rows) + len(columns)) if any(map(is_padded, plan.arrays)) else ()
    stay = [a for a, d in enumerate((*plan.rows, *plan.columns)) if symbolic_units and not isinstance(d, int)]
    if plan.scatters:
        return merge_axes_in_order(columns, bound.strides, keep, stay), 0
    if plan.is_elementwise:
        return merge_axes(columns, bound.strides, outputs, keep, stay), 0
    merged, row_axes = merge_row_axes(rows, columns, bound.strides, outputs, keep, stay)
    if stay and not prefers_row_axis_vectors(merged, row_axes, bound.dtypes):
        first = min(stay) if max(rows, default=1) == 1 else -1
        stay = [a for a in stay if a >= len(rows) or a == first]
        return merge_row_axes(rows, columns, bound.strides, outputs, keep, stay)
    return merged, row_axes


def _kernel(plan: KernelPlan, merged: MergedAxes, row_axes: int, bound: BoundArrays, wide: bool) -> KernelIR:
    """The kernel over merged axes, for a row that stays on chip."""
    access, steady = _accesses(plan, merged, row_axes, bound)
    nears: Sequence[tuple[int, Access]] = [(-1, "element")] * len(plan.arrays)
    if plan.is_elementwise:
        nears = strided_axis_access(merged, bound.dtypes, bound.addresses)
    elif plan.resident[0].products:
        nears = contiguous_axis_access(merged, bound.dtypes, bound.addresses)
    operands = tuple(
        Operand(use.name, use.dtype, stride_kinds(merged.extents, line), a, *near, rank_stride_kind(rank))
        for use, line, a, near, rank in zip(plan.arrays, merged.strides, access, nears, bound.ranks)
    )
    finish = plan.column_epilogue
    make = KernelIR if finish is None else partial(RowColumnKernel, column_epilogue=finish)
    return make(
        plan.name,
        plan.header,
        row_axes,
        len(merged.extents) - row_axes,
        plan.inputs,
        operands,
        plan.loads,
        tuple(Position(p.value, merged.axes.index((p.axis,))) for p in plan.positions),
        tuple(s.value for s in plan.scalars),
        plan.resident,
        index64=wide,
        pointers=plan.pointers,
        constant_scalars=_literals(plan, bound),
        fastmath=plan.fastmath,
        matmul=plan.matmul,
        batch_invariant_width=steady,
    )


def _accesses(
    plan: KernelPlan, merged: MergedAxes, row_axes: int, bound: BoundArrays
) -> tuple[tuple[Access, ...], int]:
    """The access of each array along the innermost axis (see Operand), and the batch-invariant vector width."""
    if plan.is_elementwise:
        least = RUN_WIDTH if plan.scatters else 1
        return elementwise_access(merged, bound.dtypes, bound.addresses, least), int(plan.batch_invariant)
    access = row_access(merged, row_axes, bound.dtypes, bound.addresses, plan.batch_invariant)
    if not plan.batch_invariant:
        return access, 0
    steady = batch_invariant_width(
        merged.extents[-1], bound.dtypes, [stride_kinds(merged.extents, line) for line in merged.strides]
    )
    return tuple("vector" if a == "vector" and steady > 1 else "element" for a in access), steady


def _literals(plan: KernelPlan, bound: BoundArrays) -> tuple[tuple[str, int], ...]:
    """The byte strides among the scalars that are one element, as compile-time constants."""
    literals = []
    for scalar in plan.scalars:
        if scalar.kind == "stride":
            array, axis = scalar.source
            size = plan.arrays[array].dtype.itemsize
            literals += [(scalar.value.name, size)] if bound.byte_strides[array][axis] == size else []
    return tuple(literals)


def _may_transpose(plan: KernelPlan) -> bool:
    """Whether a row kernel may vectorise across its columns: nothing of it is sorted, scanned or gathered."""
    along = any(part.scans or part.sort for phase in plan.resident for part in phase.passes)
    return not plan.pointers and not plan.column_epilogue and not along


def _transposed(plan: KernelPlan, kernel: KernelIR, merged: MergedAxes, bound: BoundArrays) -> KernelIR:
    """The same kernel with vectors that lie across its columns."""
    alone = _only_operand(plan, kernel.phases, merged, kernel.row_axes)
    words = state_words(kernel.phases)
    width, lines, access = row_axis_access(merged, kernel.row_axes, bound.dtypes, bound.addresses, words, alone)
    if kernel.is_pairwise and not plan.batch_invariant:
        width, access = pair_width(kernel, merged.extents[kernel.row_axes - 1]), tuple("element" for _ in access)
    if plan.batch_invariant:
        width, access = 1, tuple("element" for _ in access)
    operands = tuple(Operand(use.name, use.dtype, line, a) for use, line, a in zip(plan.arrays, lines, access))
    operands = _with_bases(plan, operands, merged, bound) if kernel.is_pairwise else operands
    return replace(kernel, operands=operands, row_vector_width=width)


def _with_bases(
    plan: KernelPlan, operands: tuple[Operand, ...], merged: MergedAxes, bound: BoundArrays
) -> tuple[Operand, ...]:
    """Operands that read one array at constant distances share their addresses: those of a row's elements.

    Where these are aligned, LLVM joins their loads to vectors.
    """
    first: dict[tuple, int] = {}
    based = []
    for k, (operand, use) in enumerate(zip(operands, plan.arrays)):
        own = k >= plan.inputs or use.gathered is not None
        base = k if own else first.setdefault((use.kind, use.index, use.views, merged.strides[k]), k)
        distance = bound.offsets[k] - bound.offsets[base]
        near = base != k and abs(distance) <= MOST_DISPLACEMENT
        size, first_address = operand.dtype.itemsize, bound.addresses[base]
        alignment = gcd(ALIGNMENT, first_address, *(step * size for step in merged.strides[k]))
        alignment = 0 if own or alignment <= size else gcd(alignment, distance * size)
        based.append(
            replace(operand, base=base if near else -1, displacement=distance if near else 0, alignment=alignment)
        )
    return tuple(based)


def _only_operand(plan: KernelPlan, phases: tuple[Phase, ...], merged: MergedAxes, row_axes: int) -> int:
    """The single operand that element bodies read, if the kernel stores nothing but reduced states; else -1."""
    first, *others = phases
    read = {value.name for part in first.passes for value in part.reads}
    loads = {load.operand for load in plan.loads if load.value.name in read}
    position_axes = {merged.axes.index((p.axis,)) for p in plan.positions if p.value.name in read}
    alone = not first.stores and not any(phase.folds or phase.stores for phase in others)
    return min(loads) if alone and len(loads) == 1 and row_axes - 1 not in position_axes else -1
