"""The suite `cpu`: fusedsl on this processor beside NumPy, numexpr and torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from fusedsl.bench.record import Report, failed_row, quantile, times_row
from fusedsl.bench.workloads import BY_NAME, Workload, selected, shape_name
from suite_gpu import Settings

SHAPE, QUICK_SHAPE = (4096, 4096), (128, 256)
WORKLOADS = ("gelu", "chain10", "softmax", "layer_norm")
DTYPE = "float32"

GELU = "{half}*x*({one} + tanh({c}*(x + {k}*x*x*x)))"
CHAIN = "sqrt(abs(x*y + {half}*x - y))*(x - {a}) + where(x > y, x, y)"
NUMBERS = {"half": 0.5, "one": 1.0, "c": 0.7978845608028654, "k": 0.044715, "a": 1.5}


def run(report: Report, settings: Settings) -> None:
    shape = QUICK_SHAPE if settings.quick else SHAPE
    for name in WORKLOADS:
        if selected(settings.only, name, shape_name(shape), DTYPE):
            _case(report, settings, BY_NAME[name], shape)


def arrays(w: Workload, shape: tuple[int, int], seed: int = 1) -> dict[str, np.ndarray]:
    """Random inputs in float32."""
    draw = np.random.default_rng(seed)
    return {i.name: draw.standard_normal(i.shape(shape), dtype=np.float32) for i in w.inputs}


def _case(report: Report, settings: Settings, w: Workload, shape: tuple[int, int]) -> None:
    given = arrays(w, shape)
    case = ("cpu", w.name, shape_name(shape), DTYPE)
    facts = (w.bytes(shape, 4), w.flops * shape[0] * shape[1])
    reference = w.plain(np, None)(*(a.astype(np.float64) for a in given.values()))
    makers = {"fusedsl": _fusedsl, "numpy": _numpy, "numexpr": _numexpr, "numexpr float32": _numexpr32, "torch": _torch}
    calls, errors, failed = {"copy": _copy(facts[0])}, {"copy": 0.0}, []
    for peer, make in makers.items():
        try:
            call = make(w, given)
            errors[peer] = float(np.max(np.abs(np.asarray(call()) - reference)) / np.max(np.abs(reference)))
            calls[peer] = call
        except Exception as fault:  # a peer's failure is a result, whatever its type
            failed.append(failed_row(case, peer, facts, fault))
    found = times(calls, 3 if settings.quick else 11)
    floor = round(quantile(found["copy"], 0.5), 3)
    for peer in calls:
        report.add(times_row(case, peer, found[peer], facts, floor, errors[peer]))
    for row in failed:
        report.add(row)


def times(calls: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, list[float]]:
    """µs of each call, the peers taking turns, so that a busy machine is busy for all of them; two rounds warm up."""
    found: dict[str, list[float]] = {peer: [] for peer in calls}
    for _ in range(repetitions + 2):
        for peer, call in calls.items():
            begun = time.perf_counter()
            call()
            found[peer].append(1e6 * (time.perf_counter() - begun))
    return {peer: all_times[2:] for peer, all_times in found.items()}


def _copy(size: int) -> Callable[[], Any]:
    """A copy that reads and writes `size` bytes in total, on as many threads as fusedsl takes."""
    from fusedsl.config import num_threads

    source = np.random.default_rng(0).standard_normal(size // 8, dtype=np.float32)
    parts = list(zip(*(np.array_split(a, num_threads()) for a in (np.empty_like(source), source))))
    pool = ThreadPoolExecutor(num_threads())
    return lambda: list(pool.map(lambda pair: np.copyto(*pair), parts))


def _fusedsl(w: Workload, given: dict[str, np.ndarray]) -> Callable[[], Any]:
    import fusedsl as fd

    kernel = fd.kernel(w.text)
    out = np.full_like(given["x"], np.nan)
    ordered = [given[p] for p in kernel.params]
    return lambda: kernel(*ordered, out=out)


def _numpy(w: Workload, given: dict[str, np.ndarray]) -> Callable[[], Any]:
    function = w.plain(np, None)
    return lambda: function(*given.values())


def _torch(w: Workload, given: dict[str, np.ndarray]) -> Callable[[], Any]:
    import torch

    function, tensors = w.torch(torch), [torch.from_numpy(a) for a in given.values()]
    return lambda: function(*tensors)


def _numexpr(w: Workload, given: dict[str, np.ndarray]) -> Callable[[], Any]:
    """As one writes it: literals are double, and so is the work."""
    return _numexpr_with(w, given, {name: repr(value) for name, value in NUMBERS.items()}, {})


def _numexpr32(w: Workload, given: dict[str, np.ndarray]) -> Callable[[], Any]:
    """With every constant passed as float32, which keeps numexpr in float32."""
    constants = {f"c_{name}": np.float32(value) for name, value in NUMBERS.items()}
    return _numexpr_with(w, given, {name: f"c_{name}" for name in NUMBERS}, constants)


def _numexpr_with(w: Workload, given, words: dict[str, str], constants: dict[str, Any]) -> Callable[[], Any]:
    import numexpr as ne

    out = np.empty_like(given["x"])
    if w.name in ("gelu", "chain10"):
        text = (GELU if w.name == "gelu" else CHAIN).format(**words)
        return lambda: ne.evaluate(text, {**given, **constants}, out=out, casting="same_kind")
    if w.name != "softmax":
        raise NotImplementedError("numexpr has no mean along a row; nobody writes a layer norm in it")
    x = given["x"]

    def softmax():
        m = ne.evaluate("max(x, axis=1)")[:, None]
        ne.evaluate("exp(x - m)", {"x": x, "m": m}, out=out)
        s = ne.evaluate("sum(out, axis=1)")[:, None]
        return ne.evaluate("out / s", {"out": out, "s": s}, out=out)

    return softmax
