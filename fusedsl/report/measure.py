"""The measured seconds of each launch of a call, on its target device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..ir.types import numpy_dtype
from ..program.prepare_call import prepare
from ..program.resolve_call import ResolvedCall
from ..runtime.arrays import CPU, ArrayFacts, Weak, describe
from ..runtime.host_device_copies import upload
from ..runtime.outputs import library_and_device
from ..runtime.timing import Clock
from ..specs import Spec
from .target import this_machine


def launch_seconds(call: ResolvedCall, values: Sequence[Any]) -> list[float]:
    """The median seconds of each launch of a call, 0 for an empty one; results are written to fresh memory.

    Specs are filled with random numbers. Raises ArgumentError if this machine lacks the call's target.
    """
    here = this_machine()
    if call.target.is_cuda and (not here.is_cuda or here.hardware.cc != call.target.hardware.cc):  # type: ignore[union-attr]
        help = "explain it without measure=True, or where that GPU is"
        raise ArgumentError(f"there is nothing to measure {call.target} on", "argument.measure", help=help)
    facts = {name: describe(_random_array(v), name) for name, v in zip(call.plans.names, values)}
    if call.target.is_cuda:
        facts = _upload(facts)
    _, device = library_and_device(facts)
    prepared = prepare(call.plans, facts, None)
    fires, cuda_stream = prepared.call.repeatable(prepared.payloads)
    timed = iter(Clock(device, cuda_stream).seconds(fires))
    return [0.0 if all(bound.empty for _, bound in launch) else next(timed) for launch in call.launches]


def _upload(facts: dict[str, ArrayFacts | Weak]) -> dict[str, ArrayFacts | Weak]:
    """The arguments on a GPU: arrays on the host are copied to the device of the others."""
    devices = [a.device for a in facts.values() if isinstance(a, ArrayFacts) and a.device != CPU]
    index = devices[0][1] if devices else 0
    moved = {}
    for name, a in facts.items():
        if isinstance(a, ArrayFacts) and a.device == CPU and not a.by_value:
            a = upload(a, index)
            a = replace(a, library="interface") if devices else a  # goes with arrays of any library
        moved[name] = a
    return moved


def _random_array(value: Any) -> Any:
    """A random array for a spec, strides included."""
    if not isinstance(value, Spec):
        return value
    draw, kind = np.random.default_rng(0), numpy_dtype(value.dtype)
    reach = 1 + sum((n - 1) * abs(s) for n, s in zip(value.shape, value.strides)) if 0 not in value.shape else 0
    numbers = draw.standard_normal(reach, np.float32) if value.dtype.kind == "f" else draw.integers(0, 2, reach)
    flat = numbers.astype(kind)
    start = sum((1 - n) * s for n, s in zip(value.shape, value.strides) if s < 0)
    steps = [s * flat.itemsize for s in value.strides]
    return np.lib.stride_tricks.as_strided(flat[start:], value.shape, steps) if reach else np.empty(value.shape, kind)
