"""Resolves a call, of arrays or specs, before any kernel is compiled: its plan, its layouts, its bound kernels, and
their schedules. Calls, foreach, tuning, saved files and reports start here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from ..fusion.formulation import ON_CPU, ON_CUDA, AttentionMode, Formulation
from ..fusion.shared_planning import shared_planning
from ..garbage import no_collection
from ..ir.dims import Symbol, evaluate
from ..ir.graph import Graph
from ..kernel_ir.plan import ArrayUse, KernelPlan, Plan
from ..runtime import compile as compiler
from ..runtime import specialization_quota
from ..runtime.arrays import ArrayFacts, Facts, Weak
from ..runtime.bound_kernel import BoundKernel
from ..runtime.outputs import library_and_device
from ..runtime.run_compilers import CompiledKernel
from ..runtime.specialize import combo_kernel, digests, quota_exhausted, specialized_or_generic
from . import call_steps
from .call_layouts import Layouts, call_layouts
from .call_outputs import CallOutputs, check_outputs
from .call_target import CallTarget, Chooser, ScheduledKernel
from .call_time import own_seconds
from .library_product import LibraryProduct, blas_library, library_product
from .padded_reads import without_padded_copies
from .plans import Plans
from .product_choice import ProductChoice, choose_product_mode

Members = Sequence[tuple[KernelPlan, BoundKernel]]
"""The kernels of one launch."""
UNLIMITED = 1 << 62  # no limit: unit extents that once had a plan of their own keep it


@dataclass(frozen=True)
class ResolvedCall:
    """A call on its target. All checks of its arguments and outputs have passed."""

    plans: Plans
    arguments: Facts
    target: CallTarget
    plan: Plan
    extents: Mapping[Symbol, int]
    layouts: Layouts
    bounds: tuple[BoundKernel, ...]  # every kernel of the plan with the numbers of the call
    copied: tuple[int, ...]  # arguments that are made contiguous first: a view of the plan needs it
    outputs: CallOutputs
    made: Plan  # the plan as it was made: with kernels that fill padded temporaries, if `plan` reads without them
    product_choice: ProductChoice | None = None  # None: no product mode was compared with another
    _chosen: dict[tuple, Any] = field(default_factory=dict, compare=False)  # by the identity of kernels

    @property
    def facts(self) -> list[ArrayFacts | Weak]:
        """The facts of the arguments."""
        return list(self.arguments.values())

    @cached_property
    def library(self) -> str:
        """The library that results belong to."""
        return library_and_device(self.arguments)[0]

    @cached_property
    def device(self) -> tuple[str, int]:
        """The device of the arrays."""
        return library_and_device(self.arguments)[1]

    @property
    def kernels(self) -> Members:
        return list(zip(self.plan.kernels, self.bounds))

    @cached_property
    def launches(self) -> list[Members]:
        """The kernels of each launch. On the CPU each kernel has its own."""
        if not self.target.is_cuda:
            return [[one] for one in self.kernels]
        launches_: list[Members] = []
        for numbers in self.plan.shared:
            members = [self.kernels[k] for k in numbers if not self.bounds[k].empty] or [self.kernels[numbers[0]]]
            launches_ += [[one] for one in members if self.is_by_library([one])]
            members = [one for one in members if not self.is_by_library([one])]
            together = len(members) > 1 and self.combo(members) is not None
            launches_ += [members] if together else [[one] for one in members]
        return launches_

    @property
    def own_launches(self) -> list[Members]:
        """The launches of our own kernels."""
        return [members for members in self.launches if not self.is_by_library(members)]

    @cached_property
    def graph(self) -> Graph:
        """The typed graph of the plan."""
        graph, _ = self.plans.source.build(self.plan.parameters, self.extents, self.plans.options)
        return graph

    def without_stored_scores(self) -> Members:
        """The kernels of the plan without stored scores, which this plan replaces."""
        staged = replace(self.plan.formulation, attention=AttentionMode.RUNNING_MAX_STAGED)
        plan = self.plans.plan(self.facts, self.extents, staged)
        layouts, _ = call_layouts(plan, self.facts, self.extents)
        return list(zip(plan.kernels, call_steps.bind_kernels(plan, layouts, self.extents, None)))

    # -- products by a library

    def library_product(self, plan: KernelPlan, bound: BoundKernel) -> LibraryProduct | str:
        """How the arrays' own library computes a kernel of the plan; if it stays ours, the reason."""
        key = ("library", id(plan))
        if key not in self._chosen:
            self._chosen[key] = self._library_product(plan, bound)
        return self._chosen[key]

    def _library_product(self, plan: KernelPlan, bound: BoundKernel) -> LibraryProduct | str:
        hardware, library, options = self.target.hardware, self.product_library, self.plans.options
        product = library_product(bound, library, options, hardware)
        if isinstance(product, str):
            return product
        return library_product(bound, library, options, hardware, self.own_seconds(plan, bound))

    def own_seconds(self, plan: KernelPlan, bound: BoundKernel) -> float:
        """The predicted seconds of a kernel of the plan if it stays ours."""
        key = ("seconds", id(plan))
        if key not in self._chosen:
            self._chosen[key] = own_seconds(bound, self.target.hardware)
        return self._chosen[key]

    def is_by_library(self, members: Members) -> bool:
        """Whether a launch is a library product."""
        return isinstance(self.library_product(*members[0]), LibraryProduct)

    @cached_property
    def product_library(self) -> str | None:
        """The library that may compute products of these arrays; none does for saved files."""
        if self.target.alone or not self.plans.uses_libraries:
            return None
        return blas_library(self.library, self.target.is_cuda)

    # -- schedules and binaries: each is chosen once, whatever was called meanwhile

    def scheduled(self, plan: KernelPlan, bound: BoundKernel) -> ScheduledKernel:
        """(kernel, schedule) of one kernel of the plan on the target, under the program's options."""
        hardware = self.target.hardware
        if hardware is None:
            return compiler.scheduled_cpu(bound)
        if (id(plan),) not in self._chosen:
            self._chosen[id(plan),] = self._choose(plan, bound, hardware)
        return self._chosen[id(plan),]

    @property
    def _choose(self) -> Chooser:
        if self.target.choose is None and self.plans.options.tunes:
            from .autotune import tuned_choice

            return tuned_choice
        return self.target.choose or partial(specialized_or_generic, reserve=self.target.reserve)

    def combo(self, members: Members) -> ScheduledKernel | None:
        """(kernel, schedule) of kernels that are to share a launch on CUDA; None if they cannot."""
        hardware, key = self.target.hardware, tuple(id(plan) for plan, _ in members)
        assert hardware is not None
        if key not in self._chosen:
            chosen = [self.scheduled(*member) for member in members]
            self._chosen[key] = combo_kernel(members, chosen, hardware, self.target.reserve)
        return self._chosen[key]

    def scheduled_launch(self, members: Members) -> ScheduledKernel:
        """(kernel, schedule) of a launch."""
        chosen = self.combo(members) if len(members) > 1 else self.scheduled(*members[0])
        assert chosen is not None
        return chosen

    def built(self, members: Members) -> CompiledKernel:
        """The compiled launch; CompileError if the compiler is missing or fails."""
        compiler_, cc = self.plans.kernel_compiler, self.target.cc
        if cc is None:
            return compiler_.on_cpu(*members[0], self)[0]
        return compiler_.on_cuda(*self.scheduled_launch(members), digests(members), cc, self)

    def shape_of(self, use: ArrayUse) -> tuple[int, ...]:
        """The shape of the array that a kernel reads or writes, before views."""
        types = {
            "argument": [p.type for p in self.plan.parameters],
            "result": self.plan.results,
            "temporary": self.plan.temporaries,
        }[use.kind]
        return tuple(evaluate(d, self.extents) for d in types[use.index].shape)


def resolve(plans: Plans, arguments: Facts, target: CallTarget, outs: Mapping[str, Any] | None = None) -> ResolvedCall:
    """The call of these arguments, which writes to `outs` (by name); raises every error of theirs."""
    with no_collection():
        call = _resolve_schedulable(plans, arguments, target, outs)
        return _resolve_schedulable(plans, arguments, target, outs, True) if _uses_generic_plan(call) else call


def _resolve_schedulable(
    plans: Plans, arguments: Facts, target: CallTarget, outs: Mapping[str, Any] | None, symbolic_units: bool = False
) -> ResolvedCall:
    """The call under a plan whose kernels have schedules; for `symbolic_units` see `Plans.plan`."""
    given = list(arguments.values())
    extents = call_steps.extents_of(given)

    def resolve_as(way: Formulation) -> ResolvedCall:
        formulation: Formulation | None = way
        while formulation is not None:
            plan = plans.plan(given, extents, formulation, symbolic_units)
            call = _bind(plans, arguments, target, outs, plan)
            formulation = call_steps.fallback_formulation(plan, call.bounds, target.hardware, target.reserve)
        return call

    with shared_planning():
        call, choice = choose_product_mode(resolve_as(ON_CUDA if target.is_cuda else ON_CPU), resolve_as)
    return replace(call, product_choice=choice)


def _bind(
    plans: Plans, arguments: Facts, target: CallTarget, outs: Mapping[str, Any] | None, plan: Plan
) -> ResolvedCall:
    given = list(arguments.values())
    extents = call_steps.extents_of(given)
    call_steps.check_call(plan, extents)
    outputs = check_outputs(plan, call_steps.result_shapes(plan, extents), outs, arguments)
    layouts, copied = call_layouts(plan, given, extents, outputs.destinations)
    original = plan
    if plan.padded and not target.alone:
        plan = without_padded_copies(plan, layouts, extents, target.hardware)
        layouts, copied = call_layouts(plan, given, extents, outputs.destinations)
    group = None if target.alone else call_steps.specialization_group(plans.program_key, plans.options, plan)
    bounds = tuple(call_steps.bind_kernels(plan, layouts, extents, group, target.hardware))
    return ResolvedCall(plans, arguments, target, plan, extents, layouts, bounds, copied, outputs, original)


def _uses_generic_plan(call: ResolvedCall) -> bool:
    """Whether arguments with unit extents use the plan for arbitrary extents: the specialisation quota is used up.

    Once a call that may reserve has decided, the decision stands for these shapes: later calls have the same bits. A
    call of a foreach uses that plan if it may.
    """
    plans, plan, target = call.plans, call.plan, call.target
    if target.hardware is None or not plans.has_generic or not any(bound.has_unit_extents for bound in call.bounds):
        return False
    kind = f"shapes of {plans.program_key} {plans.options!r}"
    shapes = repr((plan.parameters, *call.extents.values(), target.listed))
    if specialization_quota.is_specialized(kind, shapes):
        return False
    if quota_exhausted(plan, call.bounds, target.hardware, target.listed):
        return plans.generic_plan_serves(plan, call.facts, call.extents)
    if target.reserve:
        specialization_quota.acquire(kind, shapes, UNLIMITED)
    return False
