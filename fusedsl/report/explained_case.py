"""One program with arguments or specs, not run: its plan, layouts, and bound kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..ir.dims import Symbol, evaluate
from ..ir.graph import Graph
from ..kernel_ir.plan import ArrayUse, KernelPlan, Plan
from ..program import call_steps
from ..program.autotune import TuningResult, chooser_of, tuning_result
from ..program.plans import Plans
from ..program.resolve_call import layout_of, result_order, temporary_layouts
from ..runtime import compile as compiler
from ..runtime.arrays import ArrayFacts, Weak
from ..runtime.bind_shapes import BoundKernel
from ..runtime.compile import CompiledKernel
from ..runtime.layout import ArrayLayout, NeedsCopy, contiguous, view
from ..runtime.outputs import packed_strides
from ..runtime.specialize import combo_kernel, digests
from .target import ReportTarget


@dataclass(frozen=True)
class Case:
    """A call as it would run: `copied` names the arguments that must be made contiguous first.

    With `reserve` it takes its place in the specialisation quota, as a call does; else later calls are not affected.
    """

    plans: Plans
    arguments: Mapping[str, ArrayFacts | Weak]
    extents: Mapping[Symbol, int]
    plan: Plan
    bounds: tuple[BoundKernel, ...]
    copied: tuple[str, ...]
    target: ReportTarget
    layouts: Mapping[tuple[str, int], ArrayLayout]
    reserve: bool = False

    @property
    def facts(self) -> list[ArrayFacts | Weak]:
        """The facts of the arguments."""
        return list(self.arguments.values())

    @property
    def kernels(self) -> list[tuple[KernelPlan, BoundKernel]]:
        return list(zip(self.plan.kernels, self.bounds))

    @cached_property
    def launches(self) -> list[list[tuple[KernelPlan, BoundKernel]]]:
        """The kernels of each launch. On the CPU each kernel has its own."""
        if self.target.hardware is None:
            return [[one] for one in self.kernels]
        launches_ = []
        for numbers in self.plan.shared:
            members = [self.kernels[k] for k in numbers if not self.bounds[k].empty] or [self.kernels[numbers[0]]]
            together = len(members) > 1 and self.combo(members) is not None
            launches_ += [members] if together else [[one] for one in members]
        return launches_

    @cached_property
    def graph(self) -> Graph:
        """The typed graph of the plan."""
        graph, _ = self.plans.source.build(self.plan.parameters, self.extents, self.plans.options)
        return graph

    def without_stored_scores(self) -> list[tuple[KernelPlan, BoundKernel]]:
        """The kernels of the plan without stored scores, which this plan replaces."""
        given = list(self.arguments.values())
        plan = self.plans.plan(given, self.extents, self.plan.together, "staged", False)
        layouts, _ = bind_layouts(plan, given, self.extents)
        return list(zip(plan.kernels, call_steps.bind_kernels(plan, layouts, self.extents, None)))

    def scheduled(self, plan: KernelPlan, bound: BoundKernel) -> tuple[Any, Any]:
        """(kernel, schedule) of one kernel on the target, under the program's options."""
        if self.target.hardware is None:
            return compiler.scheduled_cpu(bound)
        return chooser_of(self.plans, self.reserve)(0, plan, bound, self.target.hardware)

    def combo(self, members: Sequence[tuple[KernelPlan, BoundKernel]]) -> tuple[Any, Any] | None:
        """(kernel, schedule) of kernels that are to share a launch on CUDA; None if they cannot."""
        assert self.target.hardware is not None
        chosen = [self.scheduled(*member) for member in members]
        return combo_kernel(members, chosen, self.target.hardware, self.reserve)

    def tuned(self, plan: KernelPlan, bound: BoundKernel) -> TuningResult | None:
        """The tuning result of one kernel, if the program is tuned and this kernel has been."""
        hardware = self.target.hardware
        if hardware is None or not self.plans.options.tunes:
            return None
        return tuning_result(plan, *compiler.scheduled_cuda(bound, hardware, False), hardware)

    def built(self, members: Sequence[tuple[KernelPlan, BoundKernel]]) -> CompiledKernel:
        """The compiled launch; CompileError if the compiler is missing or fails."""
        hardware, build = self.target.hardware, self.plans.kernel_compiler
        if len(members) > 1 and hardware is not None:
            joined = self.combo(members)
            assert joined is not None
            return build.on_cuda(*joined, digests(members), hardware.cc, self)
        plan, bound = members[0]
        if hardware is None:
            return build.on_cpu(plan, bound, self)[0]
        return build.on_cuda(*self.scheduled(plan, bound), plan.digest, hardware.cc, self)

    def shape_of(self, use: ArrayUse) -> tuple[int, ...]:
        """The shape of the array that a kernel reads or writes, before views."""
        types = {
            "argument": [p.type for p in self.plan.parameters],
            "result": self.plan.results,
            "temporary": self.plan.temporaries,
        }[use.kind]
        return tuple(evaluate(d, self.extents) for d in types[use.index].shape)


def make_case(
    plans: Plans,
    arguments: Mapping[str, ArrayFacts | Weak],
    target: ReportTarget,
    reserve: bool = False,
    alone: bool = False,
    listed: bool = False,
) -> Case:
    """The case of these arguments; raises what a call would raise for their shapes and dtypes.

    With `alone` its shapes get specialised binaries, whatever was called before; with `listed` it is one call of a
    foreach.
    """
    case = _make_case(plans, arguments, target, reserve, alone)
    given, hardware = list(arguments.values()), target.hardware
    if hardware and plans.use_generic_plan(case.plan, case.bounds, given, case.extents, hardware, listed, reserve):
        return _make_case(plans, arguments, target, reserve, alone, True)
    return case


def _make_case(
    plans: Plans,
    arguments: Mapping[str, ArrayFacts | Weak],
    target: ReportTarget,
    reserve: bool,
    alone: bool,
    symbolic_units: bool = False,
) -> Case:
    """The case under a plan whose kernels have schedules; for `symbolic_units` see `Plans.plan`."""
    given = list(arguments.values())
    extents = call_steps.extents_of(given)
    way: tuple[bool, str] | None = (True, "apart" if target.hardware is None else "level")
    while way is not None:
        plan = plans.plan(given, extents, *way, symbolic_units)
        call_steps.check_call(plan, extents)
        layouts, copied = bind_layouts(plan, given, extents)
        family = None if alone else call_steps.specialization_group(plans.program_key, plans.options, plan)
        bounds = tuple(call_steps.bind_kernels(plan, layouts, extents, family))
        way = call_steps.fallback_formulation(plan, bounds, target.hardware, reserve)
    names = tuple(plans.names[k] for k in copied)
    return Case(plans, arguments, extents, plan, bounds, names, target, layouts, reserve)


def bind_layouts(plan: Plan, given: Sequence[ArrayFacts | Weak], extents) -> tuple[dict, list[int]]:
    """The layout of every array of a call, and the arguments that must be made contiguous."""
    layouts = {("argument", k): layout_of(a) for k, a in enumerate(given) if isinstance(a, ArrayFacts)}
    copied = _pack(plan, layouts, extents)
    for k, shape in enumerate(call_steps.result_shapes(plan, extents)):
        layouts["result", k] = ArrayLayout(shape, packed_strides(shape, result_order(plan, k, layouts, extents)))
    return layouts | temporary_layouts(plan, extents), copied


def _pack(plan: Plan, layouts: dict, extents) -> list[int]:
    """Make arrays contiguous if a view of the plan needs it; the arguments' indices."""
    copied: list[int] = []
    for use in (u for k in plan.kernels for u in k.arrays if u.kind == "argument" and u.views):
        try:
            view(layouts["argument", use.index], use.views, extents)
        except NeedsCopy:
            layouts["argument", use.index] = contiguous(layouts["argument", use.index].shape)
            copied.append(use.index)
    return copied
