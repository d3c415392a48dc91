"""Where the machine code of a call's kernels comes from: the compilers, by way of memory and the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..ir.dims import Symbol
from ..kernel_ir.plan import KernelPlan
from ..runtime import compile as compiler
from ..runtime.arrays import ArrayFacts, Weak
from ..runtime.bind_shapes import BoundKernel
from ..runtime.compile import CompiledKernel
from ..runtime.layout import ArrayLayout
from . import call_steps


class Shaped(Protocol):
    """A call, or what stands for one, as far as its shapes matter to the choice of a kernel."""

    @property
    def facts(self) -> Sequence[ArrayFacts | Weak]:
        """Of the arguments."""

    @property
    def extents(self) -> Mapping[Symbol, int]:
        """Of the arguments' axes."""

    @property
    def layouts(self) -> Mapping[tuple[str, int], ArrayLayout]:
        """Where every array has its elements, by kind and index."""


class Builder:
    """Compiles what is neither in memory nor in the cache."""

    def on_cpu(self, plan: KernelPlan, bound: BoundKernel, call: Shaped) -> tuple[CompiledKernel, BoundKernel]:
        """The compiled kernel of a call on this CPU, with its numbers."""
        return call_steps.build_kernel(plan, bound, None), bound

    def on_cuda(self, kernel: Any, schedule: Any, digest: str, cc: tuple[int, int], call: Shaped) -> CompiledKernel:
        """The compiled kernel of a call, scheduled for a compute capability."""
        return compiler.build_scheduled(kernel, schedule, digest, cc)


COMPILERS = Builder()
