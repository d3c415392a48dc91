"""The plans of one program, by signature: remembered, read from the cache, or made now."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property

from .. import config
from ..config import Options
from ..errors import FusedslError
from ..hardware import Hardware
from ..ir.checks import holds
from ..ir.dims import Symbol
from ..ir.graph import Graph, Parameter
from ..ir.labels import Origins, axis_origins
from ..kernel_ir.plan import Plan, plan_from_json, plan_to_json
from ..lru import LRU
from ..runtime import cache, specialization_quota
from ..runtime.arrays import CPU, ArrayFacts, Facts, Weak
from ..runtime.bind_shapes import BoundKernel
from ..runtime.host_device_copies import runs_on_other_device
from ..runtime.outputs import library_and_device
from ..runtime.specialize import quota_exhausted
from . import call_steps
from .call_steps import Source
from .kernel_builder import COMPILERS

Arguments = Sequence["ArrayFacts | Weak"]
ANY = 1 << 62  # shapes with extents of 1 may keep a plan for these
STORED = 8  # plans of one signature, each for other guards, that are kept on disk; the oldest go


class Plans:
    """What calls of a program are prepared from: its source, its options, the plans so far. Thread-safe.

    Programs of one `family` are alike: their calls share binaries. What makes a plan (`planning`) is imported where
    one is made: a call that finds its plan in the cache does without.
    """

    def __init__(self, source: Source, names: Sequence[str], options: Options, family: str):
        self.source = source
        self.names = tuple(names)
        self.options = options
        self.family = family
        self.builder = COMPILERS
        self._known: LRU[tuple, list[Plan]] = LRU(config.cache_size)
        self._origins: LRU[tuple[Parameter, ...], list[Origins]] = LRU(config.cache_size)
        self._strict: set[tuple[Parameter, ...]] = set()  # signatures whose extents of 1 are not as others
        self._lock = threading.RLock()

    def plan(
        self,
        arguments: Arguments,
        extents: Mapping[Symbol, int],
        together: bool = True,
        scores: str = "apart",
        loose: bool = False,
    ) -> Plan:
        """The plan for these arguments' signature (and the guards that their extents pass).

        Unless `together`, one whose kernels fold either rows or columns; for `scores` see `choose_passes`. Where it is
        to be `loose`, extents of 1 are as any others: then it may not be for these arguments (see `share`).
        """
        parameters = self._parameters(arguments, loose)
        together = together and not self.options.steady  # a row's results do not depend on how others are folded
        key = (parameters, together, scores)
        for plan in self._plans_of(key):
            if call_steps.guards_hold(plan.guards, extents):
                return plan
        with self._lock:
            plan = self._read_or_make(parameters, extents, together, scores)
            self._known.put(key, [*(self._known.get(key) or ()), plan])
        return plan

    def _plans_of(self, key: tuple) -> list[Plan]:
        """The plans in memory for a signature, each for other guards."""
        return self._known.get(key) or []

    def share(
        self,
        plan: Plan,
        bounds: Sequence[BoundKernel],
        arguments: Arguments,
        extents: Mapping[Symbol, int],
        hardware: Hardware,
        listed: bool = False,
        claim: bool = True,
    ) -> bool:
        """Whether a plan for any extents is to serve arguments with extents of 1, as no binary is left for these alone.

        What was decided for shapes by a call that is to `claim` binaries stands: later ones have the same bits.
        """
        if not any(bound.units for bound in bounds):
            return False
        kind, shapes = f"shapes of {self.family} {self.options!r}", repr((plan.parameters, *extents.values(), listed))
        if specialization_quota.is_specialized(kind, shapes):
            return False
        if quota_exhausted(plan, bounds, hardware, listed):
            return self._serve(plan, arguments, extents)
        if claim:
            specialization_quota.acquire(kind, shapes, ANY)
        return False

    def _serve(self, plan: Plan, arguments: Arguments, extents: Mapping[Symbol, int]) -> bool:
        """Whether what a plan computes for arguments with extents of 1, one for arguments of any extents does too."""
        if plan.parameters in self._strict or not self.source.generic:
            return False
        try:
            other = self.plan(arguments, extents, plan.together, plan.scores, loose=True)
        except FusedslError:  # an axis of 1 is dropped, or repeated
            self._strict.add(plan.parameters)
            return False
        if not all(holds(check, extents) for check in other.checks):
            return False
        return call_steps.result_shapes(plan, extents) == call_steps.result_shapes(other, extents)

    @cached_property
    def indices(self) -> Plans:
        """The plans of what says whether a result depends on an index out of range."""
        from .index_bounds import CHANGES, IndexSource

        options = self.options.changed(CHANGES)
        return Plans(IndexSource(self.source), self.names, options, f"indices of {self.family}")

    def tighten(self, plan: Plan, arguments: Arguments, extents: Mapping[Symbol, int]) -> bool:
        """After a spill: plan these arguments anew, in more kernels that hold fewer values; False if there are none."""
        with self._lock:
            plans = self._plans_of(_key(plan))
            if plan not in plans:  # another thread was here
                return True
            from .make_plan import tightened

            made = tightened(self.source, plan, extents, self.options)
            if made is None:
                return False
            self._known.put(_key(plan), [made, *(p for p in plans if p is not plan)])
            _store(self._disk_key(plan.parameters, plan.together, plan.scores), made)
        return True

    def settled(self, facts: Facts) -> tuple[Plan, list[tuple[int, ...]]]:
        """The plan for these arguments and the shapes of its results, all checks of their extents passed."""
        arguments = list(facts.values())
        extents = call_steps.extents_of(arguments)
        on_cpu = library_and_device(facts)[1] == CPU and not runs_on_other_device(self.options, facts)
        plan = self.plan(arguments, extents, scores="apart" if on_cpu else "level")
        call_steps.check_call(plan, extents)
        return plan, call_steps.result_shapes(plan, extents)

    def outline(self, facts: Facts) -> tuple[Plan, list[tuple[int, ...]]]:
        """A plan without kernels for these arguments, and the shapes of its results: all checks of extents passed."""
        from .make_plan import make_outline

        arguments = list(facts.values())
        extents = call_steps.extents_of(arguments)
        plan = make_outline(self.source, self._parameters(arguments), extents, self.options)
        call_steps.check_call(plan, extents)
        return plan, call_steps.result_shapes(plan, extents)

    def graph(self, facts: Facts) -> Graph:
        """The typed graph for these arguments, as written: before any rewriting."""
        arguments = list(facts.values())
        graph, _ = self.source.build(self._parameters(arguments), call_steps.extents_of(arguments), self.options)
        return graph

    def origins(self, facts: Facts) -> list[Origins]:
        """Which axes of the arguments the axes of each result run along."""
        key = self._parameters(list(facts.values()))
        return self._origins.get(key) or self._origins.put(key, axis_origins(self.graph(facts)))

    def _read_or_make(self, parameters: tuple[Parameter, ...], extents, together: bool, scores: str) -> Plan:
        """The plan from the cache on disk, or a new one, which is put there."""
        key = self._disk_key(parameters, together, scores)
        for plan in _stored(key):
            if call_steps.guards_hold(plan.guards, extents):
                return plan
        from .make_plan import make_plan

        plan = make_plan(self.source, parameters, extents, self.options, together, scores=scores)
        _store(key, plan)
        return plan

    def _disk_key(self, parameters: tuple[Parameter, ...], together: bool, scores: str) -> str | None:
        """Where plans for this signature stand on disk, those of several guards together; None where they do not."""
        told = self.source.cache_parts()
        if told is None:
            return None
        kinds = {"together": together, "scores": scores}
        parts = {"parameters": plan_to_json(parameters), **kinds, "registers": call_steps.REGISTERS}
        return cache.cache_key(plan=told, options=repr(self.options), **parts)

    def _parameters(self, arguments: Arguments, loose: bool = False) -> tuple[Parameter, ...]:
        return tuple(call_steps.signature(n, k, a, loose) for k, (n, a) in enumerate(zip(self.names, arguments)))


def _key(plan: Plan) -> tuple:
    """What a plan is remembered by: the signature, and what its kernels may do."""
    return plan.parameters, plan.together, plan.scores


def _stored(key: str | None) -> list[Plan]:
    """The plans that stand at a place on disk."""
    entry = None if key is None else cache.disk().get(key)
    with contextlib.suppress(KeyError, TypeError):
        return [] if entry is None else [plan_from_json(told) for told in entry[0]["plans"]]
    return []


def _store(key: str | None, plan: Plan) -> None:
    """Put a plan there, beside those for other guards."""
    if key is not None:
        others = [p for p in _stored(key) if p.guards != plan.guards]
        cache.disk().put(key, {"plans": [plan_to_json(p) for p in (plan, *others[: STORED - 1])]})
