"""A kernel of the user's own as a case of `bench`, FILE:NAME, beside the undecorated function, checked before it is
timed."""

from __future__ import annotations

import inspect
import re
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ..api import Kernel
from ..config import current
from ..decorator import Fused
from ..errors import ArgumentError, MemoryLimitError, suggest
from ..ir.types import numpy_dtype
from ..specs import Spec
from .interleaved_timing import Entrant, Subject, compare
from .ratios import FLOOR, OURS
from .record import Report, times_row
from .runner import TOLERANCE, WrongResult
from .timers import Clock

PLACE = re.compile(r"(.+\.py):(\w+)", re.ASCII)
SUITE, UNDECORATED = "own kernels", "undecorated"


def is_place(name: str) -> bool:
    """Whether an argument names a kernel of a file, FILE:NAME, and no suite."""
    return PLACE.fullmatch(name) is not None


@dataclass(frozen=True)
class OwnKernel:
    """A kernel or a fused function of a file, with the arguments of its calls by name."""

    name: str
    call: Kernel | Fused
    arguments: Mapping[str, Any]

    def verified(self) -> Any:
        """The results of a call, which are compared with the reference interpreter's."""
        if isinstance(self.call, Kernel):
            return Kernel(*self.call._definition, self.call.options.changed({"verify": True}))(**self.arguments)
        return Fused(self.call.function, self.call.options.changed({"verify": True}))(**self.arguments)


def load(place: str, values: Mapping[str, Any], maker: str | None, xp: Any) -> OwnKernel:
    """The kernel FILE:NAME with arguments: arrays for specs, or what the function `maker` of the file returns.

    A plain function is fused. Raises ArgumentError if the file does not exist or has no such kernel.
    """
    match = PLACE.fullmatch(place)
    assert match is not None
    path, name = Path(match[1]), match[2]
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}", "argument.file", help="write FILE.py:NAME")
    sys.path.insert(0, str(path.parent.absolute()))  # the file may import its neighbours, as a script does
    names = runpy.run_path(str(path))
    value = _named(names, name, path)
    call = value if isinstance(value, (Kernel, Fused)) else Fused(value, current())
    if maker is None:
        return OwnKernel(name, call, _random_arguments(values, xp))
    arguments = _named(names, maker, path)()
    if not isinstance(arguments, Mapping):
        arguments = dict(zip(_parameters(call), arguments if isinstance(arguments, (tuple, list)) else (arguments,)))
    return OwnKernel(name, call, {**arguments, **values})


def _named(names: Mapping[str, Any], name: str, path: Path) -> Any:
    """A kernel or function of a file."""
    value = names.get(name)
    if callable(value) and not isinstance(value, type):
        return value
    kernels = [n for n, v in names.items() if isinstance(v, (Kernel, Fused))]
    near = suggest(name, kernels)
    help = f"did you mean {near}?" if near else f"its kernels are {', '.join(kernels) or '(none)'}"
    raise ArgumentError(f"{path} has no kernel or function {name!r}", "argument.kernel", help=help)


def _parameters(call: Kernel | Fused) -> Sequence[str]:
    return call.params if isinstance(call, Kernel) else list(inspect.signature(call.function).parameters)


def _random_arguments(values: Mapping[str, Any], xp: Any) -> dict[str, Any]:
    """Random arrays for specs: normal floats, and integers that are indices of the shortest axis."""
    generator = np.random.default_rng(1)
    least = min([n for s in values.values() if isinstance(s, Spec) for n in s.shape], default=1)
    return {n: xp.asarray(_random(v, least, generator)) if isinstance(v, Spec) else v for n, v in values.items()}


def _random(spec: Spec, below: int, generator: np.random.Generator) -> np.ndarray:
    if spec.dtype.kind == "f":
        return np.asarray(generator.standard_normal(spec.shape)).astype(numpy_dtype(spec.dtype))
    return np.asarray(generator.integers(0, 2 if spec.dtype.kind == "b" else max(1, below), spec.shape)).astype(
        numpy_dtype(spec.dtype)
    )


def measure(own: OwnKernel, clock: Clock, report: Report, repetitions: int) -> None:
    """Add the rows of a kernel of the user's own: a copy of its bytes, the kernel, and the undecorated function."""
    arguments = own.arguments
    try:
        results = _arrays(own.verified())
    except MemoryLimitError as fault:
        report.say(f"    {own.name} is not compared with the interpreter: {fault.message}")
        results = _arrays(own.call(**arguments))
    given = [a for a in arguments.values() if hasattr(a, "nbytes") and hasattr(a, "shape")]
    size = sum(a.nbytes for a in (*given, *results))
    widest = max((*given, *results), key=lambda a: prod(a.shape))
    shape = "x".join(map(str, widest.shape)) or "1"
    key, facts = (SUITE, own.name, shape, str(widest.dtype).removeprefix("torch.")), (size, 0)
    copies = min((clock.cold(c, repetitions) for c in clock.copies(size)), key=median)
    floor = round(median(copies), 3)
    floors = report.head["floors"]
    floors["copy_gb_s"] = max(floors.get("copy_gb_s", 0.0), round(1e-3 * size / floor, 1))
    report.add(times_row(key, FLOOR, copies, facts, floor, None))
    for kind in ("kernel", "call"):
        time = clock.cold if kind == "kernel" else clock.warm
        repeat = own.call.bind(**arguments) if kind == "kernel" and isinstance(own.call, Kernel) else None
        entrants: dict[str, Entrant | str] = {OURS: partial(_timed, time, repeat or partial(own.call, **arguments))}
        if isinstance(own.call, Fused):
            entrants[UNDECORATED] = partial(_undecorated, own, time, results)
        compare(report, Subject(key, facts, floor if kind == "kernel" else None, kind), entrants, repetitions)


def _timed(time: Any, call: Any) -> tuple[Any, None]:
    call()
    return partial(time, call), None


def _undecorated(own: OwnKernel, time: Any, results: Sequence[Any]) -> tuple[Any, float]:
    """The timer of the function without fusedsl, once its results are those of the kernel up to rounding."""
    assert isinstance(own.call, Fused)
    call = partial(own.call.function, **own.arguments)
    error = 0.0
    for ours, other in zip(results, _arrays(call()), strict=True):
        a, b = _float64(ours), _float64(other)
        error = max(error, float(abs(a - b).max(initial=0.0) / (abs(a).max(initial=0.0) or 1.0)))
    dtypes = {str(r.dtype).removeprefix("torch.") for r in results}
    allowed = max(TOLERANCE.get(d, TOLERANCE["float16"] if "float" in d else 0.0) for d in dtypes)
    if not error <= allowed:
        raise WrongResult(f"its results differ from the kernel's by {error:.3g} of the largest magnitude")
    return partial(time, call), error


def _arrays(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def _float64(x: Any) -> np.ndarray:
    """An array of any library on the host, as float64."""
    if hasattr(x, "detach"):
        return x.detach().double().cpu().numpy()
    return np.asarray(x.get() if hasattr(x, "get") else x).astype(np.float64)
