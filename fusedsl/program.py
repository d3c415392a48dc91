"""A program with everything it remembers: plans by signature, prepared calls by shapes. What Kernel and fuse share."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from . import pipeline
from .config import Options
from .prepare import prepare
from .runtime.arrays import Array, Weak
from .runtime.call import Call
from .runtime.keys import SLOW, look_all
from .schedule.plan import Plan

REMEMBERED_CALLS = 4096


class Program:
    """One source with its options. Thread-safe; plans and prepared calls are made on first need."""

    def __init__(self, source: pipeline.Source, names: Sequence[str], options: Options):
        self.source = source
        self.names = tuple(names)
        self.options = options
        self._plans: dict[tuple, list[Plan]] = {}
        self._calls: dict[tuple, Call] = {}
        self._lock = threading.RLock()

    # -- the hot path

    def run(self, values: Sequence[Any], outs: Sequence[Any] | None = None) -> list:
        """The results for these arguments, in the order of `names`; `outs` holds an array or None per result."""
        keys, payloads = look_all(values)
        if outs is None:
            call = self._calls.get(keys)
            if call is not None:
                return call(payloads)
        return self._run_first(keys, values, outs)

    def _run_first(self, keys: tuple, values: Sequence[Any], outs: Sequence[Any] | None) -> list:
        prepared = prepare(self, values, outs)
        if prepared.reusable and SLOW not in keys and outs is None:
            if len(self._calls) >= REMEMBERED_CALLS:
                self._calls.clear()
            self._calls[keys] = prepared.call
        return prepared.run()

    # -- plans

    def plan(self, arguments: Sequence[Array | Weak], extents) -> Plan:
        """The plan for these arguments' signature (and the guards that their extents pass)."""
        parameters = tuple(pipeline.signature(n, k, a) for k, (n, a) in enumerate(zip(self.names, arguments)))
        plans = self._plans.get(parameters, ())
        for plan in plans:
            if pipeline.guards_hold(plan, extents):
                return plan
        with self._lock:
            plan = pipeline.make_plan(self.source, parameters, extents, self.options)
            self._plans.setdefault(parameters, []).append(plan)
        return plan
