"""The suites `first_call` (a new text in a warm process, nothing cached) and `start` (a new process, all cached)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusedsl.bench.record import Report, failed_row, times_row
from fusedsl.bench.workloads import BY_NAME, selected
from suite_gpu import Settings

CHAIN = "sqrt(abs(x*y + {c}*x - y))*(x - 1.5) + maximum(x, y)"
SOFTMAX = "softmax(x*{c})"
TEXTS = {"chain10": CHAIN, "softmax": SOFTMAX}
SHAPE = (1024, 1024)

CACHED_START = """
import time, numpy as np, {library}
begun = time.perf_counter()
import fusedsl
imported = time.perf_counter() - begun
x = {array}
{wait}
begun = time.perf_counter()
y = fusedsl.evaluate({text!r}, {{"x": x, "y": x}})
{wait}
first = time.perf_counter() - begun
print("seconds", first, first + imported)
"""


def devices() -> list[str]:
    """cpu, and cuda where torch sees one."""
    return ["cpu", "cuda"] if _cuda() else ["cpu"]


def _cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def _array(device: str, shape: tuple[int, ...], seed: int) -> Any:
    x = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    if device == "cpu":
        return x
    import torch

    return torch.from_numpy(x).cuda()


def _wait(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


# ---- first calls


def run_first_call(report: Report, settings: Settings) -> None:
    """Seconds from a text that nobody has compiled to its result; the process has compiled another one before."""
    repetitions = 2 if settings.quick else 5
    for device in devices():
        x, y = _array(device, SHAPE, 1), _array(device, SHAPE, 2)
        for name, text in TEXTS.items():
            arrays = {"x": x, "y": y} if name == "chain10" else {"x": x}
            case = ("first_call", f"{name} on {device}", "x".join(map(str, SHAPE)), "float32")
            elements = SHAPE[0] * SHAPE[1]
            facts = (4 * elements * (len(arrays) + 1), BY_NAME[name].flops * elements)
            makers = {"fusedsl": _fresh_fusedsl} | ({"torch.compile": _fresh_torch} if device == "cuda" else {})
            for peer, make in makers.items():
                try:
                    fresh = [make(name, text, arrays, 0.3 + 0.01 * k) for k in range(repetitions + 1)]
                    error = _error(fresh[0](), name, arrays, 0.3)
                    row = times_row(case, peer, [_timed(call, device) for call in fresh[1:]], facts, None, error)
                except Exception as fault:  # a peer's failure is a result, whatever its type
                    row = failed_row(case, peer, facts, fault)
                report.add(row)
    if "cuda" in devices():
        _first_attention(report, settings)


def _first_attention(report: Report, settings: Settings) -> None:
    """The same of attention, in rounds over all cases: so what disturbs the machine for a while is in one time of each.
    Then FlexAttention, of widths of 128: it takes seconds and is asked once."""
    from peers_attention import INFLEXIBLE, TEXTS
    from suite_attention import Case

    length = 512 if settings.quick else 4096
    cases = [Case(name, width, length) for width in (64, 128, 256) for name in TEXTS]
    cases = [c for c in cases if selected(settings.only, *_told(c)[1:])]
    beside = [c for c in cases if c.width == 128 and c.name not in INFLEXIBLE]
    _rounds(report, cases, "fusedsl", _new_text, 4)
    _rounds(report, beside, "flex", _fresh_flex, 2)


def _told(case: Any) -> tuple[str, str, str, str]:
    return ("first_call", f"attention {case.name} on cuda", case.told, "bfloat16")


def _rounds(report: Report, cases: Sequence[Any], peer: str, make: Callable, rounds: int) -> None:
    """A peer's first calls; the first round is not timed, but its results are checked."""
    from peers_attention import Peers

    times: dict[Any, list[float]] = {case: [] for case in cases}
    errors: dict[Any, float | None] = {}
    faults: dict[Any, Exception] = {}
    for k in range(rounds):
        for case in cases:
            peers = Peers(case)
            try:
                call = make(peers, k)
                if k:
                    times[case].append(_timed(call, "cuda"))
                else:
                    errors[case] = peers.error(call())
            except Exception as fault:  # a peer's failure is a result, whatever its type
                faults[case] = fault
    for case in cases:
        told, facts = _told(case), (case.bytes, case.flops)
        if case in faults:
            report.add(failed_row(told, peer, facts, faults[case]))
        else:
            report.add(times_row(told, peer, times[case], facts, None, errors[case]))


def _new_text(peers: Any, number: int) -> Callable[[], Any]:
    import fusedsl as fd

    text = peers.text(peers.case.width**-0.5 * (1 + 1e-6 * number))
    given = {name: getattr(peers, name) for name in ("q", "k", "v", "slope", "doc", "bias", "sink")}

    def call() -> Any:
        kernel = fd.kernel(text)
        return kernel(*(given[name] for name in kernel.params))

    return call


def _fresh_flex(peers: Any, number: int) -> Callable[[], Any]:
    import torch
    import torch._inductor.config as inductor

    inductor.force_disable_caches = True
    torch._dynamo.reset()
    return peers.flex()


def _timed(call: Callable[[], Any], device: str) -> float:
    _wait(device)
    begun = time.perf_counter()
    call()
    _wait(device)
    return 1e6 * (time.perf_counter() - begun)


def _error(result: Any, name: str, arrays: dict[str, Any], c: float) -> float:
    """The largest error over the largest value, in float64."""
    on_host = {k: np.asarray(a.cpu() if hasattr(a, "cpu") else a, np.float64) for k, a in arrays.items()}
    given = np.asarray(result.cpu() if hasattr(result, "cpu") else result, np.float64)
    x = on_host["x"]
    if name == "chain10":
        y = on_host["y"]
        right = np.sqrt(np.abs(x * y + c * x - y)) * (x - 1.5) + np.maximum(x, y)
    else:
        right = BY_NAME["softmax"].plain(np, None)(x * c)
    return float(np.max(np.abs(given - right)) / np.max(np.abs(right)))


def _fresh_fusedsl(name: str, text: str, arrays: dict[str, Any], c: float) -> Callable[[], Any]:
    import fusedsl as fd

    return lambda: fd.evaluate(text.format(c=round(c, 4)), arrays)


def _fresh_torch(name: str, text: str, arrays: dict[str, Any], c: float) -> Callable[[], Any]:
    import torch
    import torch._inductor.config as inductor

    inductor.force_disable_caches = True

    def chain(x, y):
        return torch.sqrt(torch.abs(x * y + c * x - y)) * (x - 1.5) + torch.maximum(x, y)

    def softmax(x):
        return torch.softmax(x * c, -1)

    def call():
        torch._dynamo.reset()
        return torch.compile({"chain10": chain, "softmax": softmax}[name])(**arrays)

    return call


# ---- starts


def run_start(report: Report, settings: Settings) -> None:
    """Seconds to the first result of a process that finds the kernel in the cache: from the first array of its library
    on, and with the import of fusedsl, which comes first in most files.
    """
    for device in devices():
        _cached_start(report, settings, device)


def _cached_start(report: Report, settings: Settings, device: str) -> None:
    """In new processes that find the kernel in the cache, and bytecode as an installation has it; the first one makes
    both.
    """
    array = "np.ones((64, 64), np.float32)" if device == "cpu" else "torch.ones((64, 64), device='cuda')"
    library, wait = ("os", "") if device == "cpu" else ("torch", "torch.cuda.synchronize()")
    code = CACHED_START.format(library=library, array=array, wait=wait, text=CHAIN.format(c=0.5))
    cases = [("start", f"{what} on {device}", "64x64", "float32") for what in ("cached start", "with the import")]
    facts, seconds = (12 * 64 * 64, 10 * 64 * 64), []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment |= {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": os.path.join(os.environ["FUSEDSL_CACHE_DIR"], "bytecode"),
    }
    for _ in range(2 if settings.quick else 6):
        command = [sys.executable, "-c", code]
        told = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        lines = [line for line in told.stdout.splitlines() if line.startswith("seconds ")]
        if told.returncode != 0 or not lines:
            for case in cases:
                report.add(failed_row(case, "fusedsl", facts, told.stderr.strip()[-200:] or "no result"))
            return
        seconds.append([1e6 * float(word) for word in lines[-1].split()[1:]])
    for case, found in zip(cases, zip(*seconds[1:])):
        report.add(times_row(case, "fusedsl", list(found), facts, None, None))
