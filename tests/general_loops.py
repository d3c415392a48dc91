"""A builder for the CPU that gives every call the loops that serve any extents and strides."""

from __future__ import annotations

from dataclasses import dataclass, field

from fusedsl.backends.cpu import processor, schedule
from fusedsl.program.kernel_builder import KernelCompiler
from fusedsl.runtime import compile as compiler
from fusedsl.runtime.bind_shapes import bind_general


@dataclass
class GeneralLoops(KernelCompiler):
    """Builds so, and notes the loops that it gave."""

    given: list[str] = field(default_factory=list)

    def on_cpu(self, plan, bound, call):
        bound = bind_general(plan, call.layouts, call.extents)
        kernel = compiler.plain_kernel(bound.kernel)
        self.given.append(schedule.general(kernel))
        return compiler.build_loops(kernel, self.given[-1], plan.digest, processor.host()), bound
