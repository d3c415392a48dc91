"""Meets a kernel plan with concrete arrays: evaluates views, merges axes, gives the kernel that the shapes call for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.dims import Symbol, evaluate
from ..schedule.access import (
    WIDE,
    Collapsed,
    collapse,
    collapse_rows,
    kept_access,
    letters,
    lies_across,
    map_access,
    near_access,
    reach,
    row_access,
)
from ..schedule.kernel import Kernel, Operand, Position
from ..schedule.phase import Phase
from ..schedule.plan import ArrayUse, KernelPlan
from ..schedule.split import state_words
from ..schedule.steady import steady_width


class NeedsCopy(Exception):
    """A view that these strides cannot give without moving data: the array must be made contiguous first."""


@dataclass(frozen=True)
class Layout:
    """Where an array's elements are: shape, strides and first element (in elements), and the pointer's last digits."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    address: int = 0  # of element 0, modulo ALIGNMENT


ALIGNMENT = 16


def contiguous(shape: tuple[int, ...]) -> Layout:
    """A C-contiguous array at an aligned address."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return Layout(shape, tuple(reversed(strides)))


@dataclass(frozen=True)
class Family:
    """Calls of a program whose arrays have the same dtypes and ranks, whatever their shapes: they have few binaries.

    So many of these are its `own`, each for one class of shapes (see `lengths`).
    """

    name: str
    options: str
    kinds: tuple[tuple[str, int], ...]
    own: int


@dataclass(frozen=True)
class Bound:
    """A kernel with the numbers of one call: extents of its axes, strides and offsets (in elements) per operand.

    `streamed` is the same computation for a row that does not stay on the chip. Where arrays lie along an axis that is
    kept, `across` are both again, with vectors along that axis.
    """

    kernel: Kernel
    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...] = ()  # per operand whose addresses a kernel computes: bytes along its own axes
    streamed: Kernel | None = None
    across: tuple[Kernel, Kernel] | None = None
    chained: bool = False  # its call has several launches
    family: Family | None = None  # whose kernels have few binaries in all; None where every length has its own
    units: bool = False  # its plan is for arguments some of whose extents are 1
    loose: bool = False  # … for any extents, though some are 1

    @property
    def empty(self) -> bool:
        """Nothing is stored: no launch."""
        if self.kernel.finish is not None:
            return False
        if self.kernel.stream is not None:
            return 0 in self.extents[: self.kernel.row_axes]
        rows_only = self.kernel.phases[-1].folds or self.streamed
        outputs = self.kernel.row_axes if rows_only else len(self.extents)
        return any(n == 0 for n in self.extents[:outputs])


def view(layout: Layout, views: tuple, extents: Mapping[Symbol, int]) -> Layout:
    """The layout after host-side views; NeedsCopy where the strides do not allow one."""
    for kind, how in views:
        if kind == "index":
            layout = _index(layout, how, extents)
        else:
            layout = _reshape(layout, tuple(evaluate(d, extents) for d in how))
    return layout


def _index(layout: Layout, key: tuple, extents: Mapping[Symbol, int]) -> Layout:
    """The elements that a basic index leaves."""
    shape, strides, offset = [], [], layout.offset
    axes = iter(layout.strides)
    for entry in key:
        stride = 0 if entry[0] == "new" else next(axes)
        offset += 0 if entry[0] == "new" else evaluate(entry[1], extents) * stride
        if entry[0] != "int":
            shape.append(1 if entry[0] == "new" else evaluate(entry[3], extents))
            strides.append(stride if entry[0] == "new" else entry[2] * stride)
    return Layout(tuple(shape), tuple(strides), offset, layout.address)


def _reshape(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The same elements under another shape, by matching runs of axes that multiply to the same extent."""
    if 0 in shape:
        return Layout(shape, contiguous(shape).strides, layout.offset, layout.address)
    old = [(n, s) for n, s in zip(layout.shape, layout.strides) if n != 1]
    strides = [0] * len(shape)
    i, place = 0, 0
    while place < len(shape):
        if shape[place] == 1:
            place += 1
            continue
        begin, wanted = place, shape[place]
        first, have = i, old[i][0] if i < len(old) else 1
        i += 1
        while have != wanted:
            if have < wanted:
                if old[i - 1][1] != old[i][1] * old[i][0]:
                    raise NeedsCopy
                have *= old[i][0]
                i += 1
            else:
                place += 1
                wanted *= shape[place]
        assert first < i
        step = old[i - 1][1]
        for a in range(place, begin - 1, -1):
            strides[a] = step
            step *= shape[a]
        place += 1
    return Layout(shape, tuple(strides), layout.offset, layout.address)


def bind(
    plan: KernelPlan, layouts: Mapping[tuple[str, int], Layout], extents: Mapping[Symbol, int], loose: bool = False
) -> Bound:
    """The kernel for arrays of these layouts (by kind and index), with its numbers.

    Where it is to be `loose`, axes that the plan has for any extent stay where theirs is 1: of columns, and of rows
    that lie across what is contiguous; else one, where there is but one row.
    """
    rows = tuple(evaluate(d, extents) for d in plan.rows)
    columns = tuple(evaluate(d, extents) for d in plan.columns)
    axes = len(rows) + len(columns)
    placed = [place_array(use, layouts, extents, axes + len(plan.ranks)) for use in plan.arrays]
    strides, offsets = [p[0][:axes] for p in placed], tuple(p[1] for p in placed)
    ranks = [p[0][axes:] if any(c.axis == axes for c in use.at) else () for use, p in zip(plan.arrays, placed)]
    addresses = [
        (layouts[use.kind, use.index].address + offset * use.dtype.itemsize) % ALIGNMENT
        for use, offset in zip(plan.arrays, offsets)
    ]
    if plan.stream is not None:
        steps = tuple(_steps(use, layouts, extents) for use in plan.arrays)
        return _bind_stream(plan, rows + columns, strides, offsets, steps, addresses, loose)
    outputs = range(plan.inputs, len(plan.arrays))
    keep = [p.axis for p in plan.positions]
    dtypes = [use.dtype for use in plan.arrays]
    stay = [a for a, d in enumerate((*plan.rows, *plan.columns)) if loose and not isinstance(d, int)]
    if plan.is_map:
        merged, row_axes = collapse(columns, strides, outputs, keep, stay), 0  # type: ignore[arg-type]
        access = map_access(merged, dtypes, addresses)
    else:
        merged, row_axes = collapse_rows(rows, columns, strides, outputs, keep, stay)  # type: ignore[arg-type]
        if stay and not lies_across(merged, row_axes, dtypes):
            first = min(stay) if max(rows, default=1) == 1 else -1
            stay = [a for a in stay if a >= len(rows) or a == first]
            merged, row_axes = collapse_rows(rows, columns, strides, outputs, keep, stay)  # type: ignore[arg-type]
        access = row_access(merged, row_axes, dtypes, addresses, plan.steady)
    steady = 0
    if plan.steady and not plan.is_map:
        steady = steady_width(merged.extents[-1], dtypes, [letters(merged.extents, line) for line in merged.strides])
        access = tuple("vector" if a == "vector" and steady > 1 else "element" for a in access)
    nears = [(-1, "element")] * len(dtypes) if not plan.is_map else near_access(merged, dtypes, addresses)
    operands = tuple(
        Operand(use.name, use.dtype, letters(merged.extents, line), a, *near, _rank_letter(rank))
        for use, line, a, near, rank in zip(plan.arrays, merged.strides, access, nears, ranks)
    )
    places = tuple(evaluate(d, extents) for d in plan.ranks)
    wide = merged.wide or any(
        reach(merged.extents + places, line + rank) >= WIDE for line, rank in zip(merged.strides, ranks) if rank
    )
    positions = tuple(Position(p.value, merged.axes.index((p.axis,))) for p in plan.positions)

    steps = tuple(_steps(use, layouts, extents) for use in plan.arrays)
    strides_used = [s for s in plan.scalars if s.kind == "stride"]
    literals = tuple(
        (s.value.name, plan.arrays[s.source[0]].dtype.itemsize)
        for s in strides_used
        if steps[s.source[0]][s.source[1]] == plan.arrays[s.source[0]].dtype.itemsize
    )

    def kernel(resident: bool, operands: tuple[Operand, ...] = operands, kept: int = 0) -> Kernel:
        return Kernel(
            plan.name,
            plan.header,
            row_axes,
            len(merged.extents) - row_axes,
            plan.inputs,
            operands,
            plan.loads,
            positions,
            tuple(s.value for s in plan.scalars),
            plan.resident if resident else plan.streamed,
            resident,
            wide,
            plan.pointers,
            literals,
            kept,
            finish=plan.finish,
            fast=plan.fast,
            steady=steady,
        )

    streamed = None if plan.is_map or plan.finish else kernel(False)
    lines = tuple(line + rank for line, rank in zip(merged.strides, ranks))
    both = None
    if not plan.is_map and _may_turn(plan) and lies_across(merged, row_axes, dtypes):
        both = tuple(kernel(r, *_turned(plan, r, merged, row_axes, dtypes, addresses)) for r in (True, False))
    return Bound(kernel(True), merged.extents, lines, offsets, steps, streamed, both)  # type: ignore[arg-type]


def _bind_stream(plan: KernelPlan, extents: tuple[int, ...], strides, offsets, steps, addresses, loose: bool) -> Bound:
    """A pass over scores: its axes stay as they are, and a stride of one element is known on any of them."""
    lines = [tuple(0 if n == 1 and not loose else s for n, s in zip(extents, line)) for line in strides]
    operands = tuple(
        Operand(
            use.name,
            use.dtype,
            "".join("s" if s not in (0, 1) else str(s) for s in line),
            _access(line, use.dtype.itemsize, address) if plan.stream and plan.stream.level else "element",
        )
        for use, line, address in zip(plan.arrays, lines, addresses)
    )
    kernel = Kernel(
        plan.name,
        plan.header,
        len(plan.rows),
        len(plan.columns),
        plan.inputs,
        operands,
        plan.loads,
        plan.positions,
        tuple(s.value for s in plan.scalars),
        (),
        pointers=plan.pointers,
        stream=plan.stream,
        fast=plan.fast,
        steady=int(plan.steady),
    )
    return Bound(kernel, extents, tuple(lines), offsets, steps)


def _access(strides: tuple[int, ...], size: int, address: int) -> str:
    """ "vector" where every line of an array begins at a multiple of 16 bytes, and none goes backwards."""
    apart = any(s < 0 or s * size % ALIGNMENT for s in strides if s != 1)
    return "element" if apart or address else "vector"


def _may_turn(plan: KernelPlan) -> bool:
    """Whether the vectors of a row kernel may lie across its columns: none of them is ordered, scanned or fetched."""
    along = any(part.scans or part.select for phase in plan.resident for part in phase.passes)
    return not plan.pointers and not plan.finish and not along


def _turned(plan: KernelPlan, resident: bool, merged: Collapsed, row_axes: int, dtypes, addresses):
    """(operands, elements of a vector) of a kernel whose vectors lie across its columns."""
    phases = plan.resident if resident else plan.streamed
    alone = _alone(plan, phases, merged, row_axes)
    width, lines, access = kept_access(merged, row_axes, dtypes, addresses, state_words(phases), alone)
    if plan.steady:
        width, access = 1, ("element",) * len(access)
    return tuple(Operand(use.name, use.dtype, line, a) for use, line, a in zip(plan.arrays, lines, access)), width


def _alone(plan: KernelPlan, phases: tuple[Phase, ...], merged: Collapsed, row_axes: int) -> int:
    """The operand that all work on elements reads, where states are all that it makes; -1 where there is none."""
    first, *others = phases
    read = {value.name for part in first.passes for value in part.reads}
    loads = {load.operand for load in plan.loads if load.value.name in read}
    placed = {merged.axes.index((p.axis,)) for p in plan.positions if p.value.name in read}
    alone = not first.stores and not any(phase.folds or phase.stores for phase in others)
    return min(loads) if alone and len(loads) == 1 and row_axes - 1 not in placed else -1


def _rank_letter(strides: tuple[int, ...]) -> str:
    """How an array goes from place to place of an order; "" where it does not."""
    return "".join("1" if s == 1 else "s" for s in strides)


def _steps(use: ArrayUse, layouts, extents) -> tuple[int, ...]:
    if use.gathered is None:
        return ()
    return tuple(s * use.dtype.itemsize for s in view(layouts[use.kind, use.index], use.views, extents).strides)


def place_array(use: ArrayUse, layouts, extents, axes: int) -> tuple[tuple[int, ...], int]:
    """(stride along each iteration axis, offset of the first element) of one array."""
    layout = view(layouts[use.kind, use.index], use.views, extents)
    strides, offset = [0] * axes, layout.offset
    for c, stride in zip(use.at, layout.strides):
        offset += evaluate(c.start, extents) * stride
        if c.axis is not None:
            strides[c.axis] += c.step * stride
    return tuple(strides), offset if all(layout.shape) else 0
