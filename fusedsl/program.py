"""A program with everything it remembers: plans by signature, prepared calls by shapes. What Kernel and fuse share.

What prepares a call is imported where one is prepared: a new process that finds its calls on disk does without.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import debug
from .config import Options
from .errors import CompileError, FusedslError
from .runtime import cache, dynamo, stored
from .runtime.arrays import CPU, Array, Weak, describe_all
from .runtime.call import Call
from .runtime.keys import SLOW, look_all, look_outs
from .runtime.replay import Replay, nothing, replay
from .runtime.results import place

if TYPE_CHECKING:
    from .ir.graph import Graph, Parameter
    from .pipeline import Source
    from .prepare import Prepared
    from .runtime.fixed import BoundCall
    from .schedule.plan import Plan
    from .settle import Facts

REMEMBERED_CALLS = 4096
KINDS = 4  # of calls that are short to make again
REPLAYS = 8  # that are written for one call, where the last one did not take what the call takes


class Program:
    """One source with its options. Thread-safe; plans and prepared calls are made on first need."""

    def __init__(self, source: Source, names: Sequence[str], options: Options):
        self.source = source
        self.names = tuple(names)
        self.options = options
        self._plans: dict[tuple, list[Plan]] = {}
        self._calls: dict[tuple, Call] = {}
        self._kept = 0  # calls that were put on disk
        self._adopted = False  # whether plans came from elsewhere
        self._lock = threading.RLock()
        self.name = dynamo.name(self)
        told = source.cache_parts()
        self.family = self.name if told is None else repr(told)
        self.replay: Replay = nothing  # of the call that was made last
        self.others: tuple[Replay, ...] = ()  # of calls before it

    # -- the hot path

    def run(self, values: Sequence[Any], outs: Sequence[Any] | None = None) -> list:
        """The results for these arguments, in the order of `names`; `outs` holds an array or None per result."""
        results = self.again(values, outs)
        return self._run_first(values, outs) if results is None else results

    def again(self, values: Sequence[Any], outs: Sequence[Any] | None = None) -> list | None:
        """The results where a call alike to this one was made before; else None, and nothing happens."""
        out = outs if outs is None else outs[0] if len(outs) == 1 else tuple(outs)
        result = self.replay(values, out)
        if result is None and (result := self.replay_other(values, out)) is None:
            return self._remembered(values, outs)
        return list(result) if type(result) is tuple else [result]

    def replay_other(self, values: Sequence[Any], out: Any) -> Any:
        """As `replay`, which is not tried: kernels that are called in turn for several shapes stay short to call."""
        for other in self.others:
            result = other(values, out)
            if result is not None:
                return result
        return None

    def _remembered(self, values: Sequence[Any], outs: Sequence[Any] | None) -> list | None:
        keys, payloads = look_all(values)
        if outs is not None:
            keys = (keys, look_outs(outs))
        call = self._calls.get(keys)
        if call is None or (outs is not None and not call.may_write(payloads, outs)):
            return None
        results = call(payloads, outs)
        if call.replay is None and not call.worth_replaying():
            return results
        if call.replay is None or (self.replay is call.replay and call.replays < REPLAYS):
            call.replay, call.replays = replay(call, values, outs, results), call.replays + 1
        if self.replay is not call.replay:
            known = (self.replay, *self.others)
            self.others = tuple(r for r in known if r is not call.replay and r is not nothing)[: KINDS - 1]
            self.replay = call.replay
        return results

    @property
    def remembers(self) -> bool:
        """Whether some call can be made again."""
        return bool(self._calls)

    def _run_first(self, values: Sequence[Any], outs: Sequence[Any] | None) -> list:
        """The results of a call that is like none before it: as another process prepared it, or prepared now."""
        looked, payloads = look_all(values)
        keys = looked if outs is None else (looked, look_outs(outs))
        facts = describe_all(self.names, values)
        lasting = not any(k is SLOW for k in _flat(keys, outs))
        key = self._stored_key(facts, outs) if lasting else None
        call = None if key is None else stored.read(key)
        if call is not None and (outs is None or call.may_write(payloads, outs)):
            results = call(payloads, outs)
        else:
            results, call = self._run_new(facts, outs)
            if call is not None and key is not None and self._kept < stored.MOST:
                self._kept += 1
                stored.keep(key, call, place(facts)[1])
        if call is not None and lasting:
            if len(self._calls) >= REMEMBERED_CALLS:
                self._calls.clear()
            self._calls[keys] = call
        return results

    def _stored_key(self, facts: Facts, outs: Sequence[Any] | None) -> str | None:
        """Where this call stands on disk; None where it is not kept there, or somebody wants to see how it is made."""
        parts = None if self._adopted else self.source.cache_parts()
        if parts is None or self.options.verify or self.options.tunes or debug.showing(debug.KERNELS):
            return None
        with contextlib.suppress(FusedslError):
            return None if self._away(facts) else stored.key_of(parts, self.options, facts, outs)
        return None

    def _run_new(self, facts: Facts, outs: Sequence[Any] | None) -> tuple[list, Call | None]:
        """The results of a call that is prepared now, and what repeats it, if anything does."""
        from .prepare import EmptyRows

        away = self._away(facts)
        try:
            if self.options.verify:
                return self._run_verified(facts, outs, away), None
            if away:
                return self._run_there(facts, outs), None
            prepared = self._prepare(facts, outs)
            results = prepared.run()
        except CompileError as error:
            if not self.options.fallback:
                raise
            warnings.warn(f"computed by the slow interpreter: {error}", RuntimeWarning, stacklevel=6)
            return self._interpret(facts, outs), None
        except EmptyRows:
            return self._interpret(facts, outs), None
        return results, prepared.call if prepared.reusable else None

    def bind(self, values: Sequence[Any], outs: Sequence[Any] | None = None) -> BoundCall:
        """A function of nothing that computes the results of these arguments again and again, into the same arrays.

        Nothing is computed yet, and everything is compiled; raises what a call would raise.
        """
        from .prepare import EmptyRows
        from .runtime.fixed import Fixed, bind_results, fix
        from .settle import outputs

        facts = describe_all(self.names, values)
        library, device = place(facts)
        plan, shapes = self.settled(facts)
        outputs(plan, outs, shapes, (library, device), facts)
        results = _destinations(plan, shapes, library, device, outs)
        index = None if device == CPU else device[1]
        if not (self.options.verify or self._away(facts)):
            with contextlib.suppress(EmptyRows):
                prepared = self._prepare(facts, results)
                if prepared.reusable:
                    return fix(prepared.call, prepared.payloads, results, values, index)
        result = results[0] if len(results) == 1 else tuple(results)
        return bind_results(lambda: (self.run(values, results), result)[1], result, Fixed(index))

    def _prepare(self, facts: Facts, outs: Sequence[Any] | None) -> Prepared:
        if self.options.tunes:
            from .tune import prepare_tuned

            return prepare_tuned(self, facts, outs)
        from .prepare import prepare

        return prepare(self, facts, outs)

    def _run_there(self, facts: Facts, outs: Sequence[Any] | None) -> list:
        """NumPy arrays to a CUDA device, and the results back."""
        from .runtime.transfer import download, upload
        from .settle import outputs

        device = int((self.options.device or "").partition(":")[2] or 0)
        plan, shapes = self.settled(facts)
        outputs(plan, outs, shapes, ("numpy", CPU), facts)
        there = {n: upload(a, device) if isinstance(a, Array) and not a.by_value else a for n, a in facts.items()}
        results = self._prepare(there, None).run()
        return [download(r, into) for r, into in zip(results, outs or [None] * len(results))]

    def _run_verified(self, facts: Facts, outs: Sequence[Any] | None, away: bool) -> list:
        """The results, written to `outs` only once they agree with the interpreter."""
        from .runtime.copies import assign
        from .settle import outputs
        from .verify import compare

        library, device = place(facts)
        plan, shapes = self.settled(facts)
        outputs(plan, outs, shapes, (library, device), facts)
        expected = self._interpreted(facts, strict=True)
        results = self._run_there(facts, None) if away else self._prepare(facts, None).run()
        compare(plan, expected, results)
        for k, out in enumerate(outs or ()):
            if out is not None:
                assign(out, results[k], library)
                results[k] = out
        return results

    def settled(self, facts: Facts) -> tuple[Plan, list[tuple[int, ...]]]:
        """The plan for these arguments and the shapes of its results, all checks passed."""
        from . import pipeline

        arguments = list(facts.values())
        extents = pipeline.extents_of(arguments)
        on_cpu = place(facts)[1] == CPU and not self._away(facts)
        plan = self.plan(arguments, extents, scores="apart" if on_cpu else "level")
        pipeline.check_call(plan, extents)
        return plan, pipeline.result_shapes(plan, extents)

    def _away(self, facts: Facts) -> bool:
        """Whether NumPy arrays are computed on a CUDA device; numbers alone stay where they are."""
        if not (self.options.device or "").startswith("cuda") or place(facts) != ("numpy", CPU):
            return False
        return any(isinstance(a, Array) and not a.by_value for a in facts.values())

    # -- the interpreter

    def graph(self, facts: Facts) -> Graph:
        """The typed graph for these arguments, as written: before any rewriting."""
        from . import pipeline

        arguments = list(facts.values())
        graph, _ = self.source.build(self._parameters(arguments), pipeline.extents_of(arguments), self.options)
        return graph

    def _interpreted(self, facts: Facts, strict: bool = False) -> list:
        """What the reference interpreter says, as NumPy arrays; where `strict`, an index out of range is an error."""
        from .ir.interp import interpret
        from .runtime.copies import to_host

        values = [a.value if isinstance(a, Weak) else to_host(a.owner) for a in facts.values()]

        return interpret(self.graph(facts), values, strict)

    def _interpret(self, facts: Facts, outs: Sequence[Any] | None) -> list:
        """The results from the interpreter, in arrays of the caller's library."""
        from .runtime.copies import from_host
        from .settle import outputs

        library, device = place(facts)
        plan, shapes = self.settled(facts)
        outputs(plan, outs, shapes, (library, device), facts)
        values = self._interpreted(facts)
        results = _destinations(plan, shapes, library, device, outs)
        for value, result in zip(values, results):
            from_host(value, result, library)
        return results

    # -- plans

    def plan(self, arguments: Sequence[Array | Weak], extents, together: bool = True, scores: str = "apart") -> Plan:
        """The plan for these arguments' signature (and the guards that their extents pass).

        Unless `together`, one whose kernels fold either rows or columns; for `scores` see `partition`.
        """
        from . import pipeline

        parameters = self._parameters(arguments)
        together = together and not self.options.steady  # a row's results do not depend on how others are folded
        key = (parameters, together, scores)
        plans = self._plans.get(key, ())
        for plan in plans:
            if pipeline.guards_hold(plan.guards, extents):
                return plan
        with self._lock:
            plan = self._stored_plan(parameters, extents, together, scores)
            self._plans.setdefault(key, []).append(plan)
        return plan

    def adopt(self, plan: Plan) -> None:
        """Use a plan that was made before, for the signature that it was made for."""
        self._adopted = True
        self._plans.setdefault(_key(plan), []).append(plan)

    def tighten(self, plan: Plan, arguments: Sequence[Array | Weak], extents) -> bool:
        """After a spill: plan these arguments anew, in more kernels that hold fewer values; False if there are none."""
        parameters = self._parameters(arguments)
        with self._lock:
            plans = self._plans.get(_key(plan), [])
            if plan not in plans:  # another thread was here
                return True
            from .planning import tightened
            from .schedule.plan import plan_to_json

            made = tightened(self.source, plan, extents, self.options)
            if made is None:
                return False
            plans[plans.index(plan)] = made
            if (key := self._plan_key(parameters, plan.together, plan.scores)) is not None:
                cache.disk().put(key, {"plan": plan_to_json(made)})
        return True

    def _stored_plan(self, parameters: tuple[Parameter, ...], extents, together: bool, scores: str) -> Plan:
        """The plan from the cache on disk, or a new one, which is put there. A traced function's is always new."""
        from . import pipeline
        from .schedule.plan import plan_from_json, plan_to_json

        key = self._plan_key(parameters, together, scores)
        entry = None if key is None else cache.disk().get(key)
        if entry is not None:
            with contextlib.suppress(KeyError, TypeError):
                plan = plan_from_json(entry[0]["plan"])
                if pipeline.guards_hold(plan.guards, extents):
                    return plan
        from .planning import make_plan

        plan = make_plan(self.source, parameters, extents, self.options, together, scores=scores)
        if key is not None:
            cache.disk().put(key, {"plan": plan_to_json(plan)})
        return plan

    def _plan_key(self, parameters: tuple[Parameter, ...], together: bool, scores: str) -> str | None:
        """Where plans for this signature stand on disk; None where they do not."""
        from . import pipeline
        from .schedule.plan import plan_to_json

        told = self.source.cache_parts()
        if told is None:
            return None
        kinds = {"together": together, "scores": scores}
        parts = {"parameters": plan_to_json(parameters), **kinds, "registers": pipeline.REGISTERS}
        return cache.cache_key(plan=told, options=repr(self.options), **parts)

    def _parameters(self, arguments: Sequence[Array | Weak]) -> tuple[Parameter, ...]:
        from . import pipeline

        return tuple(pipeline.signature(n, k, a) for k, (n, a) in enumerate(zip(self.names, arguments)))


def _destinations(plan: Plan, shapes: Sequence[tuple[int, ...]], library: str, device: Any, outs) -> list:
    """The arrays that results are written to: those given, and new ones."""
    from .runtime.results import empty

    each = zip(outs or [None] * len(shapes), shapes, plan.results)
    return [empty(library, device, shape, t.dtype) if out is None else out for out, shape, t in each]


def _key(plan: Plan) -> tuple:
    """What a plan is remembered by: the signature, and what its kernels may do."""
    return plan.parameters, plan.together, plan.scores


def _flat(keys: tuple, outs: Sequence[Any] | None) -> tuple:
    return keys if outs is None else (*keys[0], *keys[1])
