"""The compiler of a call's kernels, by way of memory and the cache; saved files replace it."""

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


class CallShapes(Protocol):
    """The shapes of a call, as far as the choice of a kernel depends on them."""

    @property
    def facts(self) -> Sequence[ArrayFacts | Weak]:
        """The facts of the arguments."""

    @property
    def extents(self) -> Mapping[Symbol, int]:
        """The extents of the arguments' axes."""

    @property
    def layouts(self) -> Mapping[tuple[str, int], ArrayLayout]:
        """The layout of every array, by kind and index."""


class KernelCompiler:
    """Compiles kernels that are neither in memory nor in the cache."""

    def on_cpu(self, plan: KernelPlan, bound: BoundKernel, call: CallShapes) -> tuple[CompiledKernel, BoundKernel]:
        """The compiled kernel of a call on this CPU, with its bound shapes."""
        return call_steps.build_kernel(plan, bound, None), bound

    def on_cuda(self, kernel: Any, schedule: Any, digest: str, cc: tuple[int, int], call: CallShapes) -> CompiledKernel:
        """The compiled kernel of a call for a compute capability."""
        return compiler.build_scheduled(kernel, schedule, digest, cc)


DEFAULT_COMPILER = KernelCompiler()
