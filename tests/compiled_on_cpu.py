"""A kernel compiled for the CPU from a file that stays where a test can read it."""

from __future__ import annotations

from pathlib import Path

from fusedsl.backends.cpu import backend
from fusedsl.backends.cpu.backend import CompiledCpu
from fusedsl.kernel_ir.kernel import KernelIR


def compile_kernel(kernel: KernelIR, source_path: Path, schedule: str = "map") -> CompiledCpu:
    """Write the source to `source_path` and compile it; `schedule` is a result of `schedule.choose`."""
    source, _ = backend.generate(kernel, schedule)
    source_path.write_text(source)
    return backend.compile_source(source, kernel, schedule)
