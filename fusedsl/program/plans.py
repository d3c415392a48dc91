"""The plans of one program, by signature: cached in memory, read from disk, or made now."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from .. import config
from ..config import Options
from ..errors import FusedslError
from ..fusion.formulation import ON_CPU, ON_CUDA, Formulation
from ..ir.checks import holds
from ..ir.dims import Symbol
from ..ir.graph import Graph, Parameter
from ..ir.labels import Origins, axis_origins
from ..kernel_ir.plan import Plan, plan_from_json, plan_to_json
from ..lru import LRU
from ..runtime import cache
from ..runtime.arrays import CPU, ArrayFacts, Facts, Weak
from ..runtime.host_device_copies import runs_on_other_device
from ..runtime.outputs import library_and_device
from . import call_steps
from .call_steps import ProgramSource
from .kernel_builder import DEFAULT_COMPILER

Arguments = Sequence["ArrayFacts | Weak"]
MAX_STORED_PLANS = 8  # plans of one signature on disk, each for other guards; the oldest are dropped


class Plans:
    """The plans of a program so far, with its source and options. Thread-safe.

    Programs with one `program_key` are equal: their calls share binaries. make_plan.py is imported only when a plan is
    made: a call that finds its plan in the cache does without it.
    """

    has_generic = True  # plans for arbitrary extents
    uses_libraries = True  # products may be computed by the arrays' own library

    def __init__(self, source: ProgramSource, names: Sequence[str], options: Options, program_key: str):
        self.source = source
        self.names = tuple(names)
        self.options = options
        self.program_key = program_key
        self.kernel_compiler = DEFAULT_COMPILER
        self._known: LRU[tuple, list[Plan]] = LRU(config.cache_size)
        self._origins: LRU[tuple[Parameter, ...], list[Origins]] = LRU(config.cache_size)
        self._unit_specific: set[tuple[Parameter, ...]] = (
            set()
        )  # signatures for which no generic plan serves unit extents
        self._lock = threading.RLock()

    def plan(
        self,
        arguments: Arguments,
        extents: Mapping[Symbol, int],
        way: Formulation = ON_CPU,
        symbolic_units: bool = False,
    ) -> Plan:
        """The plan for these arguments' signature (and the guards that their extents pass).

        With `symbolic_units` extents of 1 are like any others: then the plan may not be for these arguments (see
        `generic_plan_serves`).
        """
        parameters = self.parameters(arguments, symbolic_units)
        if self.options.batch_invariant:  # a row's results must not depend on other rows
            way = replace(way, together=False)
        key = (parameters, way)
        for plan in self._plans_of(key):
            if call_steps.guards_hold(plan.guards, extents):
                return plan
        with self._lock:
            plan = self._read_or_make(parameters, extents, way)
            self._known.put(key, [*(self._known.get(key) or ()), plan])
        return plan

    def _plans_of(self, key: tuple) -> list[Plan]:
        """The plans in memory for a signature, each for other guards."""
        return self._known.get(key) or []

    def generic_plan_serves(self, plan: Plan, arguments: Arguments, extents: Mapping[Symbol, int]) -> bool:
        """Whether the plan for arbitrary extents computes the same as this one, for arguments with unit extents."""
        if plan.parameters in self._unit_specific or not self.source.generic:
            return False
        try:
            other = self.plan(arguments, extents, plan.formulation, symbolic_units=True)
        except FusedslError:  # for example an axis of 1 is squeezed or broadcast
            self._unit_specific.add(plan.parameters)
            return False
        if not all(holds(check, extents) for check in other.checks):
            return False
        return call_steps.result_shapes(plan, extents) == call_steps.result_shapes(other, extents)

    @cached_property
    def indices(self) -> Plans:
        """The plans of the check whether a result depends on an index out of range."""
        from .index_bounds import CHECK_OPTIONS, IndexSource

        options = self.options.changed(CHECK_OPTIONS)
        return Plans(IndexSource(self.source), self.names, options, f"indices of {self.program_key}")

    def replan_after_spill(self, plan: Plan, arguments: Arguments, extents: Mapping[Symbol, int]) -> bool:
        """After a spill: replan in more kernels that hold fewer values; False if there is no such plan."""
        with self._lock:
            plans = self._plans_of(_key(plan))
            if plan not in plans:  # another thread has replanned
                return True
            from .make_plan import plan_with_fewer_registers

            smaller = plan_with_fewer_registers(self.source, plan, extents, self.options)
            if smaller is None:
                return False
            self._known.put(_key(plan), [smaller, *(p for p in plans if p is not plan)])
            _store(self._disk_key(plan.parameters, plan.formulation), smaller)
        return True

    def checked_plan(self, facts: Facts) -> tuple[Plan, list[tuple[int, ...]]]:
        """The plan for these arguments and the shapes of its results; all checks of extents passed."""
        arguments = list(facts.values())
        extents = call_steps.extents_of(arguments)
        on_cpu = library_and_device(facts)[1] == CPU and not runs_on_other_device(self.options, facts)
        plan = self.plan(arguments, extents, ON_CPU if on_cpu else ON_CUDA)
        call_steps.check_call(plan, extents)
        return plan, call_steps.result_shapes(plan, extents)

    def outline(self, facts: Facts) -> tuple[Plan, list[tuple[int, ...]]]:
        """A plan without kernels for these arguments, and the shapes of its results; all checks of extents passed."""
        from .make_plan import make_outline

        arguments = list(facts.values())
        extents = call_steps.extents_of(arguments)
        plan = make_outline(self.source, self.parameters(arguments), extents, self.options)
        call_steps.check_call(plan, extents)
        return plan, call_steps.result_shapes(plan, extents)

    def graph(self, facts: Facts) -> Graph:
        """The typed graph for these arguments, before any rewriting."""
        arguments = list(facts.values())
        graph, _ = self.source.build(self.parameters(arguments), call_steps.extents_of(arguments), self.options)
        return graph

    def origins(self, facts: Facts) -> list[Origins]:
        """Which axes of the arguments the axes of each result run along."""
        key = self.parameters(list(facts.values()))
        return self._origins.get(key) or self._origins.put(key, axis_origins(self.graph(facts)))

    def _read_or_make(self, parameters: tuple[Parameter, ...], extents, way: Formulation) -> Plan:
        """The plan from the cache on disk, or a new one, which is stored there."""
        key = self._disk_key(parameters, way)
        for plan in _load(key):
            if call_steps.guards_hold(plan.guards, extents):
                return plan
        from .make_plan import make_plan

        plan = make_plan(self.source, parameters, extents, self.options, way)
        _store(key, plan)
        return plan

    def _disk_key(self, parameters: tuple[Parameter, ...], way: Formulation) -> str | None:
        """The disk key of a signature's plans, one per set of guards; None if they are not stored."""
        source = self.source.cache_parts()
        if source is None:
            return None
        kinds = {"together": way.together, "attention": way.attention.value, "products": way.products.value}
        kinds |= {"copies": plan_to_json(way.copies)} if way.copies else {}
        parts = {"parameters": plan_to_json(parameters), **kinds, "registers": call_steps.REGISTER_BUDGET}
        return cache.cache_key(plan=source, options=repr(self.options), **parts)

    def parameters(self, arguments: Arguments, symbolic_units: bool = False) -> tuple[Parameter, ...]:
        return tuple(
            call_steps.signature(n, k, a, symbolic_units) for k, (n, a) in enumerate(zip(self.names, arguments))
        )


def _key(plan: Plan) -> tuple:
    """The memory key of a plan: the signature, and the formulation of its kernels."""
    return plan.parameters, plan.formulation


def _load(key: str | None) -> list[Plan]:
    """The plans under a disk key."""
    entry = None if key is None else cache.disk().get(key)
    with contextlib.suppress(KeyError, TypeError, ValueError):
        return [] if entry is None else [plan_from_json(record) for record in entry[0]["plans"]]
    return []


def _store(key: str | None, plan: Plan) -> None:
    """Store a plan beside those for other guards."""
    if key is not None:
        others = [p for p in _load(key) if p.guards != plan.guards]
        cache.disk().put(key, {"plans": [plan_to_json(p) for p in (plan, *others[: MAX_STORED_PLANS - 1])]})
