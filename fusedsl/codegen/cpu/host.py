"""The CPU that object code is made for, as LLVM names it: part of every key of cached object code."""

from __future__ import annotations

from functools import cache


@cache
def cpu() -> tuple[str, str]:
    """The host's name and its feature string."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def tag() -> str:
    """What object code depends on besides its source: the CPU and llvmlite's version. Imports no Numba."""
    import llvmlite

    return "|".join((*cpu(), llvmlite.__version__))
