"""Kernel → generated Python file → object code for this CPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...schedule.kernel import Kernel
from . import map, row
from .roles import Array


@dataclass(frozen=True)
class CompiledCpu:
    """Object code that exports `symbols`; `source` is the generated file."""

    object_bytes: bytes
    symbols: tuple[str, ...]
    source: str


def generate(kernel: Kernel, variant: str) -> tuple[str, list[Array]]:
    """The source of a kernel in a variant of `variant.choose`, and the working memory that it names."""
    match variant.partition(":")[0]:
        case "map":
            return map.emit(kernel), []
        case "rows":
            return row.emit(kernel)
    raise ValueError(f"unknown variant {variant!r}")


def compile_kernel(kernel: Kernel, source_path: str | Path, variant: str = "map") -> CompiledCpu:
    """Write the source to `source_path` and compile it. A map needs no variant; others are given by `variant.choose`."""
    from .compiler import object_code
    from .words import vocabulary

    source, arrays = generate(kernel, variant)
    Path(source_path).write_text(source)
    namespace = {"__builtins__": {}, "range": range, **vocabulary(kernel, arrays)}
    names = set(namespace)
    exec(compile(source, str(source_path), "exec"), namespace)
    functions = {name: value for name, value in namespace.items() if name not in names}
    return CompiledCpu(object_code(functions), tuple(functions), source)


def cache_tag() -> str:
    """What object code depends on besides the kernel and its variant: the CPU's name and features, and LLVM."""
    import llvmlite

    from .compiler import host

    return "|".join((*host(), llvmlite.__version__))
