"""`resources()` and `compile()`: kernels compiled ahead of a call, with their registers, shared memory and spills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..program import Program
from ..runtime.arrays import CPU, ArrayFacts
from ..runtime.driver import driver
from .explain import resolved_call
from .kernel_report import Figures, figures_of, report_launch
from .table import html_table, text_table
from .target import this_machine


@dataclass(frozen=True)
class KernelResources:
    """The resources of one launch, from the real compiler."""

    name: str
    threads: int
    predicted_registers: int
    figures: Figures


class Resources(tuple[KernelResources, ...]):
    """The kernels' resources in launch order; `str()` is a table."""

    HEAD = ("kernel", "registers", "predicted", "spilled", "shared", "threads", "blocks/SM", "occupancy", "limit")

    def _rows(self) -> list[list[str]]:
        rows = []
        for k in self:
            f = k.figures
            numbers = (f.registers, k.predicted_registers, f"{f.spill_bytes} B", f"{f.shared_bytes} B", k.threads)
            rows.append([k.name, *map(str, numbers), str(f.blocks_per_sm), f"{f.occupancy:.0%}", f.limiter])
        return rows

    def __str__(self) -> str:
        return text_table(self.HEAD, self._rows())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self.HEAD, self._rows())


def resources(program: Program, values: Sequence[Any], cc: Any = None) -> Resources:
    """Registers, spills, shared memory and occupancy of each kernel of ours (see Kernel.resources)."""
    call = resolved_call(program, values, "cuda", cc)
    reports = []
    for members in call.own_launches:
        built = call.built(members)
        report = report_launch(call, members, built)
        figures = figures_of(call, members, built)
        reports.append(KernelResources(report.name, report.threads or 0, report.predicted_registers or 0, figures))
    return Resources(reports)


def compile_ahead(program: Program, values: Sequence[Any], device=None, cc=None) -> None:
    """Compile every kernel into memory and the cache, and load it on the arrays' device (see Kernel.compile)."""
    call = resolved_call(program, values, device, cc, specs=this_machine(), reserve=True)
    arrays = [a for a in call.arguments.values() if isinstance(a, ArrayFacts) and device is None and cc is None]
    cards = {a.device[1] for a in arrays if a.device != CPU and call.target.is_cuda}
    for members in call.own_launches:
        if not any(bound.empty for _, bound in members):
            built = call.built(members)
            for card in cards:
                driver().loaded(built.code, built.symbols[0], card)
