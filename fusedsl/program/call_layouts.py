"""The layout of every array of a call: arguments, outputs or new results, temporaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.dims import Symbol, evaluate
from ..kernel_ir.plan import Plan
from ..runtime.array_protocols import packed_strides
from ..runtime.arrays import ArrayFacts, Weak
from ..runtime.layout import ALIGNMENT, ArrayLayout, NeedsCopy, bound_strides, contiguous, view
from ..runtime.outputs import common_order
from ..runtime.temporary_layouts import temporary_layouts
from . import call_steps

Layouts = dict[tuple[str, int], ArrayLayout]
"""By kind and index of an array."""


def call_layouts(
    plan: Plan,
    arguments: Sequence[ArrayFacts | Weak],
    extents: Mapping[Symbol, int],
    destinations: Sequence[ArrayFacts | None] = (),
) -> tuple[Layouts, tuple[int, ...]]:
    """(the layouts, the arguments that are made contiguous first). Results without a destination are new arrays."""
    layouts = {("argument", k): layout_of(a) for k, a in enumerate(arguments) if isinstance(a, ArrayFacts)}
    copied = _contiguous_copies(plan, layouts, extents)
    for k, shape in enumerate(call_steps.result_shapes(plan, extents)):
        out = destinations[k] if destinations else None
        if out is not None:
            layouts["result", k] = layout_of(out)
        else:
            layouts["result", k] = ArrayLayout(shape, packed_strides(shape, result_order(plan, k, layouts, extents)))
    temporaries = enumerate(temporary_layouts(plan, extents))
    return layouts | {("temporary", k): layout for k, layout in temporaries}, copied


def layout_of(a: ArrayFacts) -> ArrayLayout:
    """The layout of a described array."""
    return ArrayLayout(a.shape, a.strides, 0, a.pointer % ALIGNMENT)


def _contiguous_copies(plan: Plan, layouts: Layouts, extents: Mapping[Symbol, int]) -> tuple[int, ...]:
    """The arguments whose strides cannot express the plan's view are copied; their layouts become contiguous."""
    copied: list[int] = []
    for use in (u for k in plan.kernels for u in k.arrays if u.kind == "argument" and u.views):
        try:
            view(layouts["argument", use.index], use.views, extents)
        except NeedsCopy:
            layouts["argument", use.index] = contiguous(layouts["argument", use.index].shape)
            copied.append(use.index)
    return tuple(copied)


def result_order(plan: Plan, result: int, layouts, extents) -> tuple[int, ...] | None:
    """The memory order (axes from far to near) that a new result shares with its operands; None is C order."""
    for kernel in plan.kernels:
        store = next((u for u in kernel.arrays if (u.kind, u.index) == ("result", result)), None)
        if store is None:
            continue
        if store.views or len(store.at) < 2:
            return None
        axes = (*kernel.rows, *kernel.columns, *kernel.ranks)
        shape = tuple(1 if c.axis is None else evaluate(axes[c.axis], extents) for c in store.at)
        operands = []
        for use in (u for u in kernel.arrays[: kernel.inputs] if u.gathered is None):
            strides, _ = bound_strides(use, layouts, extents, len(axes)) if use.kind == "argument" else (None, 0)
            if strides is not None:
                operands.append((shape, tuple(0 if c.axis is None else strides[c.axis] for c in store.at)))
        return common_order(operands, len(shape)) if operands else None
    return None
