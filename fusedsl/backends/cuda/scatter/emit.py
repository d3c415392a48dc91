"""Emits a scatter kernel: a thread loads its elements, computes places and values, and merges them by atomics."""

from __future__ import annotations

from ....kernel_ir.kernel import KernelIR
from ..emit.multi_axis_index import MultiAxisIndex
from ..emit.source_text import TILE, SourceBuilder, header
from ..peephole import rewritten
from . import merge_tile
from .schedule import ScatterSchedule


def emit_scatter(kernel: KernelIR, schedule: ScatterSchedule) -> str:
    """The generated file of a scatter kernel."""
    src = SourceBuilder(kernel)
    opening = header(kernel, f"a scatter; each thread merges {schedule.elements} elements", "")
    src.read_scalars()
    elements = MultiAxisIndex(src, tuple(range(kernel.axes)), 1, "first", "count")
    elements.load_tile(schedule.elements, schedule.threads, sorted({load.operand for load in kernel.loads}))
    phase = kernel.phases[0]
    src.map_body("body", rewritten(kernel, phase), 1)
    src.assign("left", f"{elements.index}(count - first)")
    for k, scatter in enumerate(phase.scatters):
        places, values = src.element(scatter.place), src.element(scatter.value)
        merge = src.bind(f"merge_{k}", merge_tile(TILE, kernel.operands[scatter.operand].dtype.name, scatter.fold))
        src.emit(merge(src.names.pointer(scatter.operand), places, values, "left"))
    return src.text(opening, "Load elements, compute where they go, merge them there.")
