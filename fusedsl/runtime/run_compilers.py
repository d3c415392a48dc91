"""A generated file to machine code: calls of the CPU's and CUDA's compilers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from .. import logs, progress
from ..errors import CompileError, FusedslError, not_installed
from ..profiler_ranges import profiled
from .cache import cache_key, disk


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel: its schedule, its machine code, the compiler's figures, and where its source is."""

    kernel: Any  # a KernelIR, or a ComboKernel of several
    schedule: Any  # a Schedule on CUDA, the name of the loops on the CPU
    code: bytes
    symbols: tuple[str, ...]
    source: str
    path: str
    registers: int = 0
    spill_bytes: int = 0
    shared_bytes: int = 0
    blocks: int = 0  # launch bound (blocks per SM); below the schedule's if values would have spilled
    columns: int = 0  # score columns at a time, if the schedule's number spilled; else 0
    cached: bool = False
    cache_key: str = ""
    seconds: float = 0.0  # that it took to compile, if it was compiled now


def file_name(key: tuple) -> str:
    return f"{key[3]}_{key[0]}_{cache_key(kernel=repr(key))[:12]}"


def compile_source(kernel: Any, schedule: Any, cc: tuple[int, int], name: str) -> CompiledKernel:
    """A kernel's generated file, written to disk under this name, and its machine code."""
    from ..backends.cuda import compile as cuda

    source = cuda.generate(kernel, schedule)
    path = disk().write_source(name, source)
    compiled = run_compiler(lambda chosen: cuda.compile_source(source, path, kernel, chosen, cc), schedule, path)
    figures = (compiled.registers, compiled.spill_bytes, compiled.shared_bytes, compiled.blocks)
    return CompiledKernel(kernel, schedule, compiled.code, (compiled.function,), source, path, *figures)


def run_compiler(compiler, chosen: Any, path: str):
    """Run a compiler; any exception becomes a CompileError that names the generated file or what is missing."""
    try:
        with logs.silenced():
            return compiler(chosen)
    except FusedslError:
        raise
    except ModuleNotFoundError as missing:
        raise not_installed(missing) from None
    except Exception as fault:
        help = f"the generated source is {path}; please report it with the expression of the kernel"
        raise CompileError(f"the generated kernel does not compile: {fault}", "compile.kernel", help=help) from fault


def architecture(cc: tuple[int, int]) -> str:
    """A compute capability as compilers call it: sm_90."""
    return f"sm_{cc[0]}{cc[1]}"


def timed(kernel: Any, target: str, work: Callable[[], CompiledKernel]) -> CompiledKernel:
    """The kernel that `work` compiles, with the seconds that it takes."""
    logs.compiling(kernel.name, target)
    progress.compiling(kernel.name)
    start = perf_counter()
    with profiled(f"compile {kernel.name}"):
        built = work()
    return replace(built, seconds=perf_counter() - start)
