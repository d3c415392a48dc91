"""Who computes a workload: fusedsl, and the libraries that are installed, each as a function without arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..api import kernel
from ..threads import get_num_threads
from .formulas import erf_of
from .ratios import OURS
from .workloads import Workload

UNFUSED = {"cpu": "numpy", "cuda": "cupy"}  # the library of the unfused code, by target
PEERS = {"cpu": ("numpy", "numexpr", "torch", "torch.compile"), "cuda": ("cupy", "cupy.fuse", "torch", "torch.compile")}
CONSTANTS = {"half": 0.5, "one": 1.0, "c": 0.7978845608028654, "k": 0.044715, "a": 1.5}
NUMEXPR = {
    "axpy": "a*x + y",
    "gelu": "half*x*(one + tanh(c*(x + k*x*x*x)))",
    "swiglu": "g/(one + exp(-g))*u",
    "chain10": "sqrt(abs(x*y + half*x - y))*(x - a) + where(x > y, x, y)",
}


def installed(peer: str) -> bool:
    """Whether the peer's package can be imported."""
    return find_spec(peer.partition(".")[0]) is not None


class Peers:
    """The peers of one case; `build(peer)` gives its call, or raises what keeps it from computing the workload."""

    def __init__(self, workload: Workload, arrays: dict[str, Any], xp: Any) -> None:
        self.workload, self.arrays, self.xp = workload, arrays, xp
        self.numbers = tuple(dict(workload.scalars).values())
        self._compiled: Callable | None = None

    def build(self, peer: str, bound: bool = False) -> Callable[[], Any]:
        """The call of a peer. `bound`: ours repeats a call on its arrays, without Python's part of it."""
        makers = {
            OURS: self._bound if bound else self._fused,
            "numpy": self._unfused,
            "cupy": self._unfused,
            "numexpr": self._numexpr,
            "cupy.fuse": self._cupy_fuse,
            "torch": self._torch,
            "torch.compile": self._torch_compile,
        }
        return makers[peer]()

    def lacks(self, peer: str) -> str | None:
        """Why a peer does not compute this workload, if it does not."""
        name = self.workload.name
        if peer == "numexpr" and name not in NUMEXPR:
            return f"left out: it has no {name.replace('_', ' ')} in one expression"
        if peer == "cupy.fuse" and self.workload.suite != "map":
            return f"left out: no {name.replace('_', ' ')}, it fuses elementwise functions"
        return None

    def reference(self) -> tuple[Any, ...]:
        """The results in float64."""
        function = self.workload.plain(self.xp, erf_of(self.xp))
        return results_of(function(*self.numbers, *(x.astype(np.float64) for x in self.arrays.values())), self.xp)

    def _named(self) -> dict[str, Any]:
        return {**dict(self.workload.scalars), **self.arrays}

    def _fused(self) -> Callable[[], Any]:
        ours, named = kernel(self.workload.text), self._named()
        arguments = [named[name] for name in ours.params]
        return lambda: ours(*arguments)

    def _bound(self) -> Callable[[], Any]:
        return kernel(self.workload.text).bind(**self._named())

    def _unfused(self) -> Callable[[], Any]:
        function = self.workload.plain(self.xp, erf_of(self.xp))
        arguments = (*self.numbers, *self.arrays.values())
        return lambda: function(*arguments)

    def _numexpr(self) -> Callable[[], Any]:
        """With constants of the arrays' dtype: literals would make the work double."""
        import numexpr

        numexpr.set_num_threads(get_num_threads())
        text = NUMEXPR[self.workload.name]
        kind = next(iter(self.arrays.values())).dtype.type
        numbers = dict(self.workload.scalars) or CONSTANTS
        scope = {**{name: kind(value) for name, value in numbers.items()}, **self.arrays}
        return lambda: numexpr.evaluate(text, scope)

    def _cupy_fuse(self) -> Callable[[], Any]:
        import cupy

        fuse = cupy.fuse(kernel_name=f"fused_{self.workload.name}")  # a lambda's own name is none in C
        function = fuse(self.workload.plain(cupy, erf_of(cupy)))
        arguments = (*self.numbers, *self.arrays.values())
        return lambda: function(*arguments)

    def _tensors(self) -> list[Any]:
        import torch

        torch.set_num_threads(get_num_threads())
        device = "cpu" if self.xp is np else "cuda"
        return [torch.as_tensor(x, device=device) for x in self.arrays.values()]

    def _torch(self) -> Callable[[], Any]:
        import torch

        function, arguments = self.workload.torch(torch), (*self.numbers, *self._tensors())
        return lambda: function(*arguments)

    def _torch_compile(self) -> Callable[[], Any]:
        """Compiled for these shapes alone, once: dynamic shapes would cost it speed."""
        import torch

        arguments = (*self.numbers, *self._tensors())
        if self._compiled is None:
            torch._dynamo.reset()
            self._compiled = torch.compile(self.workload.torch(torch), dynamic=False)
        function = self._compiled
        return lambda: function(*arguments)


class Unusable:
    """Peers that compute nothing here, with the reason; and the seconds left for torch.compile to compile in."""

    def __init__(self, absent: Iterable[str], compile_seconds: float) -> None:
        self.reasons = {peer: f"ModuleNotFoundError: {peer.partition('.')[0]} is not installed" for peer in absent}
        self._left = compile_seconds

    def reason(self, peer: str) -> str | None:
        """Why a peer is left out, if it is."""
        if peer == "torch.compile" and self._left <= 0:
            return self.reasons.get(peer, "left out: the time for torch.compile is used up (--compile-seconds)")
        return self.reasons.get(peer)

    def prepared(self, peer: str, prepare: Callable[[], Any]) -> Any:
        """What `prepare` returns. The time of torch.compile is counted, and a missing compiler of C++ remembered."""
        begun = time.monotonic()
        try:
            return prepare()
        except Exception as fault:
            if peer == "torch.compile" and type(fault).__name__ in ("InvalidCxxCompiler", "InductorError"):
                self.reasons[peer] = " ".join(str(fault).split())[:200]
            raise
        finally:
            if peer == "torch.compile":
                self._left -= time.monotonic() - begun


def results_of(value: Any, xp: Any) -> tuple[Any, ...]:
    """A peer's result or results as arrays of NumPy or CuPy."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(xp.asarray(v.detach() if hasattr(v, "detach") else v) for v in values)


def largest_error(results: tuple[Any, ...], references: tuple[Any, ...]) -> float:
    """The largest absolute error over the largest reference, of the worst result; NaN if a result is not finite."""
    worst = 0.0
    for result, reference in zip(results, references, strict=True):
        if result.shape != reference.shape:
            raise ValueError(f"a result has the shape {result.shape}, not {reference.shape}")
        error = float(abs(result.astype(np.float64) - reference).max() / abs(reference).max())
        worst = error if not error <= worst else worst
    return worst
