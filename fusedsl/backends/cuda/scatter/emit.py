"""Emits a scatter kernel: a thread loads its elements, computes places and values, and merges them by atomics."""

from __future__ import annotations

from ....ir.superaccumulators import ACCUMULATE
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Scatter
from ..elementwise.emit import load_line
from ..emit.intrinsic import Binding, Function
from ..emit.multi_axis_index import MultiAxisIndex
from ..emit.source_text import TILE, SourceBuilder, header
from ..peephole import rewritten
from ..rows_and_columns import grid_dim
from . import accumulate_tile, clear_bins, flush_bins, merge_into_bins, merge_tile, private_bins
from .schedule import PrivateScatterSchedule, ScatterSchedule


def emit_scatter(kernel: KernelIR, schedule: ScatterSchedule) -> str:
    """The generated file of a scatter kernel."""
    src = SourceBuilder(kernel)
    opening = header(kernel, f"a scatter; each thread merges {schedule.elements} elements", "")
    src.read_scalars()
    if schedule.width > 1:
        load_line(src, schedule.width, schedule.elements // schedule.width, schedule.threads)
        _compute(src, schedule.width, f"{kernel.index}(n - start)")
    else:
        elements = MultiAxisIndex(src, tuple(range(kernel.axes)), 1, "first", "count")
        elements.begin_tiles(schedule.elements, schedule.threads, sorted({load.operand for load in kernel.loads}))
        _load(src, elements)
    for k, scatter in enumerate(kernel.scatters):
        places, values = src.element(scatter.place), src.element(scatter.value)
        merge = src.bind(f"merge_{k}", _merge_of(kernel, scatter))
        src.emit(merge(src.names.pointer(scatter.operand), places, values, "left"))
    return src.text(opening, "Load elements, compute where they go, merge them there.")


def emit_private_scatter(kernel: KernelIR, schedule: PrivateScatterSchedule) -> str:
    """The generated file of a scatter kernel whose blocks merge into bins of their own first."""
    (scatter,) = kernel.scatters
    src = SourceBuilder(kernel)
    opening = header(kernel, f"a scatter; blocks of {schedule.threads} threads have {schedule.copies} × bins", "")
    src.read_scalars()
    name = kernel.operands[scatter.operand].dtype.name
    bins = private_bins(name, scatter.fold, schedule.bins, schedule.copies, schedule.threads, schedule.unit)
    bins_of_block = src.bind("bins", bins)
    clear, flush = src.bind("clear", clear_bins(bins_of_block)), src.bind("flush", flush_bins(bins_of_block))
    src.emit(clear())
    elements = MultiAxisIndex(src, tuple(range(kernel.axes)), 1, "first", "count")
    elements.begin_tiles(schedule.elements, schedule.threads, sorted({load.operand for load in kernel.loads}))
    merge = src.bind("merge", merge_into_bins(bins_of_block, TILE))
    index, tile = kernel.index, schedule.elements * schedule.threads
    src.assign("step", f"{index}({index}({grid_dim()}) * {tile})")
    with src.while_("first < count"):
        _load(src, elements)
        src.emit(merge(src.element(scatter.place), src.element(scatter.value), "left"))
        src.assign("first", f"{index}(first + step)")
    src.emit(flush(src.names.pointer(scatter.operand)))
    return src.text(opening, "Merge elements into bins of the block, then these into the array.")


def _merge_of(kernel: KernelIR, scatter: Scatter) -> Binding[Function]:
    """What merges a tile of elements."""
    if scatter.fold == ACCUMULATE:
        (name,) = {v.dtype.name for v in kernel.phases[0].results if v.name == scatter.value}
        return accumulate_tile(TILE, name)
    return merge_tile(TILE, kernel.operands[scatter.operand].dtype.name, scatter.fold)


def _load(src: SourceBuilder, elements: MultiAxisIndex) -> None:
    """Load elements, and compute their places and values."""
    elements.load_tile()
    _compute(src, 1, f"{elements.index}(count - first)")


def _compute(src: SourceBuilder, width: int, left: str) -> None:
    """Places and values of a tile, of which so many elements are left."""
    src.map_body("body", rewritten(src.kernel, src.kernel.phases[0]), width)
    src.assign("left", left)
