"""CPU backend: kernel IR to a generated Python file, and to object code for this CPU or another one."""

from __future__ import annotations

from dataclasses import dataclass

from ...kernel_ir.kernel import AttentionKernel, KernelIR, RowColumnKernel
from . import (
    attention,
    columns,
    elementwise,
    library_sort,
    matmul,
    ordered_scatter,
    rows,
    rows_and_columns,
    scatter,
    short_rows,
    split_rows,
    split_scan,
)
from .processor import Processor, host
from .roles import ScratchArray


@dataclass(frozen=True)
class CompiledCpu:
    """Object code that exports `symbols`; `source` is the generated file."""

    object_bytes: bytes
    symbols: tuple[str, ...]
    source: str


def generate(kernel: KernelIR, schedule: str, processor: Processor | None = None) -> tuple[str, list[ScratchArray]]:
    """The source of a kernel for a schedule (see `schedule.choose`), and its scratch arrays.

    The default processor is this machine's.
    """
    kind, _, parameters = schedule.partition(":")
    match kind:
        case "map" | "tiles":
            return elementwise.emit(kernel, parameters, tiled=kind == "tiles")
        case "scatter":
            return scatter.emit(kernel), []
        case "runs":
            return ordered_scatter.emit(kernel, int(parameters)), []
        case "rows":
            return rows.emit(kernel)
        case "matmul":
            return matmul.emit(kernel, parameters, (processor or host()).vectors)
        case "sorted":
            return library_sort.emit(kernel, parameters)
        case "split":
            return split_rows.emit(kernel)
        case "scan":
            return split_scan.emit(kernel)
        case "rows and columns" if isinstance(kernel, RowColumnKernel):
            return rows_and_columns.emit(kernel)
        case "attention" if isinstance(kernel, AttentionKernel):
            return attention.emit(kernel, int(parameters))
        case "short":
            return short_rows.emit(kernel, parameters), []
        case "strips":
            return columns.emit(kernel, parameters)
    raise ValueError(f"unknown schedule {schedule!r}")


def compile_source(source: str, kernel: KernelIR, schedule: str, processor: Processor | None = None) -> CompiledCpu:
    """Compile a source of `generate` for this processor."""
    from .compiler import object_code
    from .frontend import functions_of
    from .vocabulary import vocabulary

    processor = processor or host()
    _, arrays = generate(kernel, schedule, processor)
    functions, names = functions_of(source), symbols(kernel, schedule)
    words = vocabulary(kernel, arrays, processor.vectors)
    return CompiledCpu(object_code({name: functions[name] for name in names}, words, processor), names, source)


def symbols(kernel: KernelIR, schedule: str) -> tuple[str, ...]:
    """The C functions that the object code exports, in the order of their calls."""
    if schedule == "rows and columns":
        return ("rows", "columns")
    if schedule.startswith("sorted"):
        return ("keys", "ranks") if schedule in ("sorted", "sorted:best") else ("keys",)
    if schedule == "scan":
        return ("totals", "merge", "prefixes")
    if schedule != "split":
        return ("kernel",)
    return tuple(f"{stage}{p}" for p in range(len(kernel.phases)) for stage in ("phase", "merge"))
