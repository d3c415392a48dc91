"""Who computes a case of the map of the language: fusedsl, NumPy or CuPy, torch and numexpr, each from its text."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from language_cases import Case, filled, parsed

Call = Callable[[], Any]
LEAST_FREE = 24 << 30  # bytes of a card
KEPT = 24  # arrays that cases share
STRANGE = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # dtypes that NumPy lacks
WHOLE = {1: torch.int8, 2: torch.int16}  # what carries their bits


class Arrays:
    """The arrays of one case, as each library has them."""

    def __init__(self, case: Case, target: str, device: str):
        specs = {parsed(spec).name: spec for spec in case.arrays.split("; ")}
        self.torch = {name: drawn(spec, target, device) for name, spec in specs.items()}
        self.read = sum(x.nbytes for name, x in self.torch.items() if name not in case.unread.split())
        self.device = device

    def numpy(self) -> dict[str, Any]:
        """NumPy's on a CPU, CuPy's on a GPU; of other dtypes those of ml_dtypes."""
        return {name: _foreign(x) for name, x in self.torch.items()}

    def ours(self) -> dict[str, Any]:
        """What users pass: torch's tensors on a GPU, NumPy's arrays on a CPU."""
        return self.torch if self.device == "cuda" else self.numpy()


def free(device: str, everything: bool = False) -> None:
    """Free the device's memory that nothing uses where little is left; `everything`: arrays that wait for cases too."""
    if everything:
        drawn.cache_clear()
    if device == "cuda" and (everything or torch.cuda.mem_get_info()[0] < LEAST_FREE):
        gc.collect()
        torch.cuda.empty_cache()
        if "cupy" in sys.modules:
            sys.modules["cupy"].get_default_memory_pool().free_all_blocks()


@lru_cache(KEPT)
def drawn(spec: str, target: str, device: str) -> torch.Tensor:
    """An array, which cases that have it in common share."""
    return filled(parsed(spec), target, device)


def _foreign(x: torch.Tensor) -> Any:
    name = str(x.dtype).removeprefix("torch.")
    strange = name in STRANGE
    whole = x.view(WHOLE[x.itemsize]) if strange else x
    if x.is_cuda:
        import cupy

        made = cupy.asarray(whole)
    else:
        made = whole.numpy()
    if strange:
        import ml_dtypes

        made = made.view(getattr(ml_dtypes, name))
    return made


def tensors(value: Any) -> tuple[torch.Tensor, ...]:
    """A peer's result or results as tensors."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(v if isinstance(v, torch.Tensor) else _tensor(v) for v in values)


def _tensor(a: Any) -> torch.Tensor:
    if isinstance(a, (np.ndarray, np.generic, int, float)):
        a = np.array(a)
    elif min(a.strides, default=0) < 0:  # torch ends the process that hands it a negative stride by DLPack
        a = a.copy()
    name, device = a.dtype.name, "cpu" if isinstance(a, np.ndarray) else "cuda"
    if name in (*STRANGE, "uint16", "uint32", "uint64"):
        return torch.as_tensor(a.view(f"int{8 * a.dtype.itemsize}"), device=device).view(getattr(torch, name))
    return torch.as_tensor(a, device=device)


def ours(case: Case, arrays: Arrays) -> Call:
    """The text, compiled at its first call; results are new arrays, as the peers' are."""
    import fusedsl as fd

    kernel, given = fd.kernel(case.text), arrays.ours()
    ordered = [given[name] for name in kernel.params]
    return lambda: kernel(*ordered)


def with_numpy(case: Case, arrays: Arrays) -> Call:
    """NumPy's text; of CuPy where the arrays are on a GPU."""
    names: dict[str, Any] = {}
    if arrays.device == "cuda":
        import cupy

        names["np"] = cupy
        if "sp." in case.numpy:
            from cupyx.scipy import special

            names["sp"] = special
    else:
        names["np"] = np
        if "sp." in case.numpy:
            from scipy import special  # type: ignore[import-not-found,import-untyped,unused-ignore]

            names["sp"] = special
    return evaluated(case.numpy, names | arrays.numpy())


def with_torch(case: Case, arrays: Arrays) -> Call:
    """torch's text."""
    return evaluated(case.torch, {"torch": torch, "F": torch.nn.functional} | arrays.torch)


def with_compile(case: Case, arrays: Arrays) -> Call:
    """torch's text compiled for these shapes alone, at its first call."""
    torch._dynamo.reset()
    names = ", ".join(arrays.torch)
    function = eval(f"lambda {names}: {case.torch}", {"torch": torch, "F": torch.nn.functional})
    compiled, given = torch.compile(function, dynamic=False), tuple(arrays.torch.values())
    return lambda: compiled(*given)


def with_numexpr(case: Case, arrays: Arrays) -> Call:
    """numexpr, with the case's own text."""
    import numexpr  # type: ignore[import-not-found,import-untyped,unused-ignore]

    given = arrays.numpy()
    return lambda: numexpr.evaluate(case.text, given)


def evaluated(text: str, names: dict[str, Any]) -> Call:
    """A text of Python, compiled once."""
    code = compile(text, "<case>", "eval")
    return lambda: eval(code, names)


def peers(case: Case, device: str) -> dict[str, Callable[[Case, Arrays], Call]]:
    """What makes the call of each peer that has a text."""
    found: dict[str, Callable[[Case, Arrays], Call]] = {"fusedsl": ours}
    if case.torch:
        found["torch"] = with_torch
    if case.numpy and not any(name in case.arrays for name in STRANGE):
        found["cupy" if device == "cuda" else "numpy"] = with_numpy
    if case.numexpr and device == "cpu":
        found["numexpr"] = with_numexpr
    if case.compiled and device == "cuda":
        found["torch.compile"] = with_compile
    return found
