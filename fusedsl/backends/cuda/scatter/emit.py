"""Emits a scatter kernel: a thread loads its elements, computes indices and values, and merges them by atomics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....ir.superaccumulators import SUPERACCUMULATORS
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Scatter
from ..elementwise.emit import load_line
from ..emit.intrinsic import Binding, Function
from ..emit.multi_axis_index import MultiAxisIndex
from ..emit.source_builder import TILE, SourceBuilder, header
from ..peephole import rewritten
from ..rows_and_columns import grid_dim
from ..tile import is_last_block, thread_idx
from . import (
    accumulate_tile,
    clear_bins,
    clear_words,
    finish_runs,
    flush_bins,
    flush_words,
    fold_runs,
    merge_equal_places,
    merge_into_bins,
    merge_into_words,
    merge_tile,
    ordered_runs,
    private_bins,
    private_words,
)
from .schedule import OrderedScatterSchedule, PrivateScatterSchedule, PrivateSumSchedule, ScatterSchedule, scatter_dtype


def emit_scatter(kernel: KernelIR, schedule: ScatterSchedule) -> str:
    """The generated file of a scatter kernel."""
    src = SourceBuilder(kernel)
    opening = header(kernel, f"a scatter; each thread merges {schedule.elements} elements", "")
    src.read_scalars()
    if schedule.width > 1:
        load_line(src, schedule.width, schedule.elements // schedule.width, schedule.threads)
        _compute(src, schedule.width, f"{kernel.index}(n - start)")
    else:
        _load(src, _tiles(src, schedule))
    for k, scatter in enumerate(kernel.scatters):
        flat_indices, values = src.element(scatter.flat_index), src.element(scatter.value)
        merge = src.bind(f"merge_{k}", _merge_of(kernel, scatter, schedule.width))
        src.emit(merge(src.names.pointer(scatter.operand), flat_indices, values, "left"))
    return src.text(opening, "Load elements, compute where they go, merge them there.")


def emit_ordered_scatter(kernel: KernelIR, schedule: OrderedScatterSchedule) -> str:
    """The generated file of a scatter whose indices do not decrease: runs are stored whole."""
    (scatter,) = kernel.scatters
    src = SourceBuilder(kernel)
    opening = header(kernel, f"an ordered scatter; each thread folds {schedule.elements} elements", "")
    src.read_scalars()
    if schedule.width > 1:
        load_line(src, schedule.width, schedule.elements // schedule.width, schedule.threads, together=True)
        _compute(src, schedule.width, f"{kernel.index}(n - start)")
    else:
        _load(src, _tiles(src, schedule))
    runs = src.bind("runs", ordered_runs(kernel.operands[scatter.operand].dtype.name, schedule.threads))
    fold, finish = src.bind("fold", fold_runs(runs, TILE)), src.bind("finish", finish_runs(runs))
    pointer, blocks = src.names.pointer(scatter.operand), grid_dim()
    src.emit(fold(pointer, src.element(scatter.flat_index), src.element(scatter.value), "left", "workspace"))
    with src.if_(is_last_block("semaphores", "0", blocks)):
        src.emit(finish(pointer, "workspace", blocks))
    return src.text(opening, "Fold runs of one place; the last block folds those that several blocks share.")


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
    elements = _tiles(src, schedule)
    merge = src.bind("merge", merge_into_bins(bins_of_block, TILE))
    with _turns(src, schedule, "first < count"):
        _load(src, elements)
        src.emit(merge(src.element(scatter.flat_index), src.element(scatter.value), "left"))
    src.emit(flush(src.names.pointer(scatter.operand)))
    return src.text(opening, "Merge elements into bins of the block, then these into the array.")


def emit_private_sums(kernel: KernelIR, schedule: PrivateSumSchedule) -> str:
    """The generated file of a kernel whose blocks add floats to words of their own first."""
    (scatter,) = kernel.scatters
    src = SourceBuilder(kernel)
    title = f"sums at few places; blocks of {schedule.threads} threads have {schedule.copies} × words"
    opening = header(kernel, title, "")
    src.read_scalars()
    shape = (schedule.chunks, schedule.bins, schedule.copies, schedule.threads)
    words = src.bind("words", private_words(scatter_dtype(kernel, scatter).name, scatter.fold, *shape))
    clear, flush = src.bind("clear", clear_words(words)), src.bind("flush", flush_words(words))
    src.emit(clear())
    elements = _tiles(src, schedule)
    merge = src.bind("merge", merge_into_words(words, TILE))
    pointer, index = src.names.pointer(scatter.operand), kernel.index
    with _turns(src, schedule, f"{index}(first - {index}({thread_idx()})) < count"):  # alike for all threads
        _load(src, elements)
        src.emit(merge(pointer, src.element(scatter.flat_index), src.element(scatter.value), "left"))
    src.emit(flush(pointer))
    return src.text(opening, "Add elements to words of the block, then these to the words in memory.")


def _tiles(src: SourceBuilder, schedule: ScatterSchedule) -> MultiAxisIndex:
    """The tiles of single elements that a block begins with."""
    kernel = src.kernel
    elements = MultiAxisIndex(src, tuple(range(kernel.axes)), 1, "first", "count")
    elements.begin_tiles(schedule.elements, schedule.threads, sorted({load.operand for load in kernel.loads}))
    return elements


@contextmanager
def _turns(src: SourceBuilder, schedule: ScatterSchedule, more: str) -> Iterator[None]:
    """A loop over every so many tiles as there are blocks."""
    index = src.kernel.index
    src.assign("step", f"{index}({index}({grid_dim()}) * {schedule.elements * schedule.threads})")
    with src.while_(more):
        yield
        src.assign("first", f"{index}(first + step)")


def _merge_of(kernel: KernelIR, scatter: Scatter, width: int) -> Binding[Function]:
    """What merges a tile of elements."""
    if scatter.fold in SUPERACCUMULATORS:
        return accumulate_tile(TILE, scatter_dtype(kernel, scatter).name, scatter.fold, kernel.axes > 1)
    merge = merge_equal_places if width > 1 else merge_tile
    return merge(TILE, kernel.operands[scatter.operand].dtype.name, scatter.fold)


def _load(src: SourceBuilder, elements: MultiAxisIndex) -> None:
    """Load elements, and compute their indices and values."""
    elements.load_tile()
    _compute(src, 1, f"{elements.index}(count - first)")


def _compute(src: SourceBuilder, width: int, left: str) -> None:
    """Indices and values of a tile, of which so many elements are left."""
    lines = [p.value.name for p in src.kernel.positions] if width > 1 else []
    src.map_body("body", rewritten(src.kernel, src.kernel.phases[0]), width, lines)
    src.assign("left", left)
