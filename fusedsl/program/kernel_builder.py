"""The compiler of a call's kernels, by way of memory and the cache; saved files replace it."""

from __future__ import annotations

from typing import Any

from ..kernel_ir.plan import KernelPlan
from ..runtime import compile as compiler
from ..runtime.bound_kernel import BoundKernel
from ..runtime.run_compilers import CompiledKernel


class KernelCompiler:
    """Compiles kernels that are neither in memory nor in the cache. `call` is the ResolvedCall that has them."""

    def on_cpu(self, plan: KernelPlan, bound: BoundKernel, call: Any) -> tuple[CompiledKernel, BoundKernel]:
        """The compiled kernel of a call on this CPU, with its bound shapes."""
        return compiler.build_cpu(bound, plan.digest), bound

    def on_cuda(self, kernel: Any, schedule: Any, digest: str, cc: tuple[int, int], call: Any) -> CompiledKernel:
        """The compiled kernel of a call for a compute capability."""
        return compiler.build_scheduled(kernel, schedule, digest, cc)


DEFAULT_COMPILER = KernelCompiler()
