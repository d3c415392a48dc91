"""A program and its caches: prepared calls by shapes, plans by signature. Kernel and Fused share it.

The modules that prepare a call (`first_call`, `plans`) are imported only when a call is prepared. A process whose calls
are all on disk never imports them.
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
from ..runtime.warm_call import WarmCall, build_warm_call, no_warm_call

if TYPE_CHECKING:
    from ..ir.labels import Origins
    from ..runtime.bound_call import BoundCall
    from .call_steps import ProgramSource
    from .plans import Plans

MAX_PREPARED_CALLS = 4096  # of one program
MAX_WARM_CALLS = 4  # kinds of calls that generated code repeats at a time
MAX_REWRITES = 8  # warm calls that are built for one prepared call, each after the last one missed


_programs: WeakSet[Program] = WeakSet()
forget_hooks: list[Callable[[], None]] = []  # further caches of prepared calls to clear


def forget_calls() -> None:
    """Drop all prepared calls, for example after the number of threads changed. Bound calls stay as they are."""
    for program in list(_programs):
        program.forget()
    for forget in forget_hooks:
        forget()


class Program:
    """One source with its options. Thread-safe; plans and prepared calls are made on first use."""

    def __init__(self, source: ProgramSource, names: Sequence[str], options: Options, plans: Plans | None = None):
        self.source = source
        self.names = tuple(names)
        self.options = options
        self._plans = plans
        self._calls: dict[tuple, Any] = {}  # a Call, or one that asks for its indices first
        self._origins: LRU[tuple, list[Origins]] = LRU(config.cache_size)
        self._stored_count = 0  # calls that were stored on disk
        self._has_loaded_plans = plans is not None  # from a saved file
        self._lock = threading.RLock()
        self.name = dynamo.name(self)
        parts = source.cache_parts()
        self.program_key = self.name if parts is None else hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
        self.warm_call: WarmCall = no_warm_call  # of the last call
        self.earlier_warm_calls: tuple[WarmCall, ...] = ()  # of earlier calls
        _programs.add(self)

    # -- the hot path

    def run(self, values: Sequence[Any], outs: Sequence[Any] | None = None, spent: float = 0.0) -> list:
        """The results for these arguments, in the order of `names`; `outs` holds an array or None per result.

        A slow first call is logged with the time of its preparation, `spent` seconds included.
        """
        results = self.again(values, outs)
        return self._run_first(values, outs, spent) if results is None else results

    def again(self, values: Sequence[Any], outs: Sequence[Any] | None = None) -> list | None:
        """The results if a call of this kind was prepared before; else None, and nothing happens."""
        out = outs if outs is None else outs[0] if len(outs) == 1 else tuple(outs)
        result = self.warm_call(values, out)
        if result is None and (result := self.earlier_warm_call(values, out)) is None:
            return self._run_prepared(values, outs)
        return list(result) if type(result) is tuple else [result]

    def earlier_warm_call(self, values: Sequence[Any], out: Any) -> Any:
        """The result of a warm call before the last: a kernel that is called in turn for several shapes stays fast."""
        for other in self.earlier_warm_calls:
            result = other(values, out)
            if result is not None:
                return result
        return None

    def _run_prepared(self, values: Sequence[Any], outs: Sequence[Any] | None) -> list | None:
        keys, payloads = all_argument_keys(values)
        if outs is not None:
            keys = (keys, output_keys(outs))
        call = self._calls.get(keys)
        if call is None or (outs is not None and not call.may_write(payloads, outs)):
            return None
        results = call(payloads, outs)
        if results is None or (call.warm_call is None and not call.worth_a_warm_call()):
            return results
        if call.warm_call is None or (self.warm_call is call.warm_call and call.rewrites < MAX_REWRITES):
            call.warm_call, call.rewrites = build_warm_call(call, values, outs, results), call.rewrites + 1
        if self.warm_call is not call.warm_call:
            warm_calls = (self.warm_call, *self.earlier_warm_calls)
            self.earlier_warm_calls = tuple(r for r in warm_calls if r is not call.warm_call and r is not no_warm_call)[
                : MAX_WARM_CALLS - 1
            ]
            self.warm_call = call.warm_call
        return results

    @property
    def has_prepared_calls(self) -> bool:
        """Whether some call can be repeated."""
        return bool(self._calls)

    def _run_first(self, values: Sequence[Any], outs: Sequence[Any] | None, spent: float) -> list:
        """The results of a call of a new kind: loaded as another process prepared it, or prepared now."""
        argument_keys, payloads = all_argument_keys(values)
        keys = argument_keys if outs is None else (argument_keys, output_keys(outs))
        facts = describe_all(self.names, values)
        cacheable = not any(k is SLOW for k in _flat(keys, outs))
        key = self._stored_key(facts, outs) if cacheable else None
        call: Any = None if key is None else stored_calls.load(key)
        if call is not None and (outs is None or call.may_write(payloads, outs)):
            results = call(payloads, outs)
        else:
            from . import first_call

            with specialization_quota.recording() as recorded:
                results, call = first_call.run_first_call(self.plans, facts, outs, spent)
            # a refused quota depends on the earlier calls of this process: such a call is not stored
            if (
                isinstance(call, PreparedCall)
                and key is not None
                and not recorded.refused
                and self._stored_count < stored_calls.MAX_STORED_CALLS
            ):
                self._stored_count += 1
                stored_calls.save(key, call, library_and_device(facts)[1], recorded.acquired)
        if call is not None and cacheable:
            if len(self._calls) >= MAX_PREPARED_CALLS:
                self._calls.clear()
            self._calls[keys] = call
        return results

    def _stored_key(self, facts: Facts, outs: Sequence[Any] | None) -> str | None:
        """The disk key of this call; None if it is not stored, or if debug output of its preparation is wanted."""
        parts = None if self._has_loaded_plans else self.source.cache_parts()
        if parts is None or self.options.verify or self.options.tunes or debug.showing(debug.KERNELS):
            return None
        with contextlib.suppress(FusedslError):
            if runs_on_other_device(self.options, facts):
                return None
            return stored_calls.call_key(parts, self.options, facts, outs)
        return None

    def bind(self, values: Sequence[Any], outs: Sequence[Any] | None = None) -> BoundCall:
        """A function without arguments that recomputes the results of these arguments, into the same arrays.

        Compiles everything and computes nothing yet; raises what a call would raise.
        """
        from . import first_call

        return first_call.bind_call(self.plans, self.run, values, outs)

    def forget(self) -> None:
        """Drop all prepared calls; plans and binaries stay."""
        self._calls.clear()
        self.warm_call, self.earlier_warm_calls = no_warm_call, ()

    # -- preparation, imported on first use

    @property
    def plans(self) -> Plans:
        """The plans by signature."""
        with self._lock:
            if self._plans is None:
                from .plans import Plans

                self._plans = Plans(self.source, self.names, self.options, self.program_key)
        return self._plans

    def origins(self, values: Sequence[Any]) -> list[Origins]:
        """Which axes of these arguments each axis of each result runs along, element by element."""
        keys, _ = all_argument_keys(values)
        origins = self._origins.get(keys)
        if origins is None:
            origins = self.plans.origins(describe_all(self.names, values))
            self._origins.put(keys, origins)
        return origins


def _flat(keys: tuple, outs: Sequence[Any] | None) -> tuple:
    return keys if outs is None else (*keys[0], *keys[1])
