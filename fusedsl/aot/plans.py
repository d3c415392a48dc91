"""The plans and the machine code of a saved file, in place of plans that are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..config import Options
from ..fusion.formulation import ON_CPU, AttentionMode, Formulation
from ..ir.dims import Symbol
from ..ir.graph import Graph, Parameter
from ..kernel_ir.plan import KernelPlan, Plan
from ..program import call_steps
from ..program.call_steps import ProgramSource
from ..program.kernel_builder import KernelCompiler
from ..program.plans import Arguments, Plans
from ..program.resolve_call import ResolvedCall
from ..runtime.arrays import CPU, Facts
from ..runtime.bound_kernel import BoundKernel
from ..runtime.compile import cuda_key, is_preloaded
from ..runtime.host_device_copies import runs_on_other_device
from ..runtime.outputs import library_and_device
from ..runtime.run_compilers import CompiledKernel
from .loops import loops_for
from .missing_kernel import compile_instead, no_code, no_plan
from .saved import SavedFile, SavedPlan, matches


class SavedBuilder(KernelCompiler):
    """Takes machine code from a file; a missing kernel is compiled if compilers are installed, else an error."""

    def __init__(self, saved: SavedFile):
        self.saved = saved

    def on_cpu(self, plan: KernelPlan, bound: BoundKernel, call: ResolvedCall) -> tuple[CompiledKernel, BoundKernel]:
        """The loops for a call, else those for any call."""
        for kernel, loops, numbers in loops_for(plan, bound, call.layouts, call.extents):
            if (built := self.saved.built(kernel, loops, plan.digest)) is not None:
                return built, numbers
        if self.saved.plans_kernel(plan.digest):
            compile_instead(self.saved, no_code(self.saved, call.facts, None), True)
        return super().on_cpu(plan, bound, call)

    def on_cuda(
        self, kernel: Any, schedule: Any, digest: str, cc: tuple[int, int], call: ResolvedCall
    ) -> CompiledKernel:
        """The kernel of a call."""
        if self.saved.plans_kernel(digest) and not is_preloaded(cuda_key(kernel, schedule, digest, cc)):
            compile_instead(self.saved, no_code(self.saved, call.facts, cc), False)
        return super().on_cuda(kernel, schedule, digest, cc, call)


class SavedPlans(Plans):
    """The plans of a file. They do not depend on earlier calls."""

    has_generic = False  # the file has no further binaries
    uses_libraries = False  # products have the bits of the file's kernels

    def __init__(self, saved: SavedFile, source: ProgramSource, options: Options, program_key: str):
        super().__init__(source, saved.names, options, program_key)
        self.saved = saved
        self.kernel_compiler = SavedBuilder(saved)

    def plan(
        self,
        arguments: Arguments,
        extents: Mapping[Symbol, int],
        way: Formulation = ON_CPU,
        symbolic_units: bool = False,
    ) -> Plan:
        """The file's plan for these arguments; the plan for other extents serves 1 if it computes the same."""
        on_cpu, parameters = way.attention is AttentionMode.TILE_MAX, self.parameters(arguments)
        match = self._match(parameters, extents, on_cpu, way)
        if match is not None:
            return match.plan
        compile_instead(self.saved, no_plan(self.saved, parameters, arguments, on_cpu), on_cpu)
        return super().plan(arguments, extents, way, symbolic_units)

    def _match(
        self, parameters: Sequence[Parameter], extents: Mapping[Symbol, int], on_cpu: bool, way: Formulation
    ) -> SavedPlan | None:
        """The file's plan for this signature: if there are several, the one of this formulation."""
        fit = [
            each
            for each in self.saved.plans
            if each.on_cpu is on_cpu and matches(each, parameters) and call_steps.guards_hold(each.plan.guards, extents)
        ]
        return next((each for each in fit if each.plan.formulation == way), fit[0] if fit else None)

    def replan_after_spill(self, plan: Plan, arguments: Arguments, extents: Mapping[Symbol, int]) -> bool:
        """Never: a kernel that spills was saved so."""
        return False

    def graph(self, facts: Facts) -> Graph:
        """The typed graph for these arguments, from the file if it has their plan."""
        arguments = list(facts.values())
        on_cpu = library_and_device(facts)[1] == CPU and not runs_on_other_device(self.options, facts)
        extents = call_steps.extents_of(arguments)
        match = self._match(self.parameters(arguments), extents, on_cpu, ON_CPU)
        return super().graph(facts) if match is None else match.graph
