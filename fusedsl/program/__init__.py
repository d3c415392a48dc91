"""A program with everything it remembers: prepared calls by shapes, plans by signature. What Kernel and fuse share.

What prepares a call (`first`, `plans`) is imported where one is prepared: a new process that finds its calls on disk
does without.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from .. import config, debug
from ..config import Options
from ..errors import FusedslError
from ..lru import LRU
from ..runtime import dynamo, specialization_quota, stored_calls
from ..runtime.argument_keys import SLOW, all_argument_keys, output_keys
from ..runtime.arrays import Facts, describe_all
from ..runtime.host_device_copies import runs_on_other_device
from ..runtime.outputs import library_and_device
from ..runtime.prepared_call import PreparedCall
from ..runtime.warm_call import Replay, no_replay, write_replay

if TYPE_CHECKING:
    from ..ir.labels import Origins
    from ..runtime.bound_call import BoundCall
    from .call_steps import Source
    from .plans import Plans

REMEMBERED_CALLS = 4096
KINDS = 4  # of calls that are short to make again
REPLAYS = 8  # that are written for one call, where the last one did not take what the call takes


_programs: WeakSet[Program] = WeakSet()
forgetting: list[Callable[[], None]] = []  # what else forgets prepared calls


def forget_calls() -> None:
    """Prepare all calls anew, as for another number of threads. What was bound stays as it was prepared."""
    for program in list(_programs):
        program.forget()
    for forget in forgetting:
        forget()


class Program:
    """One source with its options. Thread-safe; plans and prepared calls are made on first need."""

    def __init__(self, source: Source, names: Sequence[str], options: Options, plans: Plans | None = None):
        self.source = source
        self.names = tuple(names)
        self.options = options
        self._plans = plans
        self._calls: dict[tuple, Any] = {}  # a Call, or one that asks for its indices first
        self._origins: LRU[tuple, list[Origins]] = LRU(config.cache_size)
        self._kept = 0  # calls that were put on disk
        self._adopted = plans is not None  # its plans came from elsewhere
        self._lock = threading.RLock()
        self.name = dynamo.name(self)
        told = source.cache_parts()
        self.family = self.name if told is None else hashlib.sha256(repr(told).encode()).hexdigest()[:32]
        self.replay: Replay = no_replay  # of the call that was made last
        self.others: tuple[Replay, ...] = ()  # of calls before it
        _programs.add(self)

    # -- the hot path

    def run(self, values: Sequence[Any], outs: Sequence[Any] | None = None, spent: float = 0.0) -> list:
        """The results for these arguments, in the order of `names`; `outs` holds an array or None per result.

        A first call is told of with how long it took to prepare, after the seconds that were `spent` on the program.
        """
        results = self.again(values, outs)
        return self._run_first(values, outs, spent) if results is None else results

    def again(self, values: Sequence[Any], outs: Sequence[Any] | None = None) -> list | None:
        """The results where a call alike to this one was made before; else None, and nothing happens."""
        out = outs if outs is None else outs[0] if len(outs) == 1 else tuple(outs)
        result = self.replay(values, out)
        if result is None and (result := self.replay_other(values, out)) is None:
            return self._remembered(values, outs)
        return list(result) if type(result) is tuple else [result]

    def replay_other(self, values: Sequence[Any], out: Any) -> Any:
        """The result of an earlier replay: a kernel that is called in turn for several shapes stays fast."""
        for other in self.others:
            result = other(values, out)
            if result is not None:
                return result
        return None

    def _remembered(self, values: Sequence[Any], outs: Sequence[Any] | None) -> list | None:
        keys, payloads = all_argument_keys(values)
        if outs is not None:
            keys = (keys, output_keys(outs))
        call = self._calls.get(keys)
        if call is None or (outs is not None and not call.may_write(payloads, outs)):
            return None
        results = call(payloads, outs)
        if results is None or (call.replay is None and not call.worth_replaying()):
            return results
        if call.replay is None or (self.replay is call.replay and call.replays < REPLAYS):
            call.replay, call.replays = write_replay(call, values, outs, results), call.replays + 1
        if self.replay is not call.replay:
            known = (self.replay, *self.others)
            self.others = tuple(r for r in known if r is not call.replay and r is not no_replay)[: KINDS - 1]
            self.replay = call.replay
        return results

    @property
    def remembers(self) -> bool:
        """Whether some call can be made again."""
        return bool(self._calls)

    def _run_first(self, values: Sequence[Any], outs: Sequence[Any] | None, spent: float) -> list:
        """The results of a call that is like none before it: as another process prepared it, or prepared now."""
        looked, payloads = all_argument_keys(values)
        keys = looked if outs is None else (looked, output_keys(outs))
        facts = describe_all(self.names, values)
        lasting = not any(k is SLOW for k in _flat(keys, outs))
        key = self._stored_key(facts, outs) if lasting else None
        call: Any = None if key is None else stored_calls.load(key)
        if call is not None and (outs is None or call.may_write(payloads, outs)):
            results = call(payloads, outs)
        else:
            from . import first_call

            with specialization_quota.recording() as noted:
                results, call = first_call.run_new(self.plans, facts, outs, spent)
            # what was refused binaries of its own follows from earlier calls
            if (
                isinstance(call, PreparedCall)
                and key is not None
                and not noted.refused
                and self._kept < stored_calls.MAX_STORED_CALLS
            ):
                self._kept += 1
                stored_calls.save(key, call, library_and_device(facts)[1], noted.claimed)
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
            return (
                None
                if runs_on_other_device(self.options, facts)
                else stored_calls.call_key(parts, self.options, facts, outs)
            )
        return None

    def bind(self, values: Sequence[Any], outs: Sequence[Any] | None = None) -> BoundCall:
        """A function of nothing that computes the results of these arguments again and again, into the same arrays.

        Nothing is computed yet, and everything is compiled; raises what a call would raise.
        """
        from . import first_call

        return first_call.bound(self.plans, self.run, values, outs)

    def forget(self) -> None:
        """Forget all prepared calls; plans and binaries stay."""
        self._calls.clear()
        self.replay, self.others = no_replay, ()

    # -- what is imported where a call is prepared

    @property
    def plans(self) -> Plans:
        """The plans by signature."""
        with self._lock:
            if self._plans is None:
                from .plans import Plans

                self._plans = Plans(self.source, self.names, self.options, self.family)
        return self._plans

    def origins(self, values: Sequence[Any]) -> list[Origins]:
        """Which axes of these arguments the axes of each result run along, element by element."""
        keys, _ = all_argument_keys(values)
        found = self._origins.get(keys)
        if found is None:
            found = self.plans.origins(describe_all(self.names, values))
            self._origins.put(keys, found)
        return found


def _flat(keys: tuple, outs: Sequence[Any] | None) -> tuple:
    return keys if outs is None else (*keys[0], *keys[1])
