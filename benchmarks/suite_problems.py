"""The suites `expressions`, `wide`, `reductions` and `backward`: each problem's kernel beside its peers on one GPU."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import warm
from fusedsl.bench.interleaved_timing import Subject, compare
from fusedsl.bench.record import Report, failed_row, quantile, times_row
from fusedsl.bench.workloads import selected
from suite_gpu import OVER, Settings, need_gpu

LEAST_FREE, SETTLING = 32 << 30, 0.5  # bytes on the card below which its memory is freed; seconds to wait then
COMPILED: dict[str, str | None] = {"torch.compile": None}
TUNED = {"torch.compile (tuned)": "max-autotune-no-cudagraphs"}  # where tuning finds other kernels: reductions


def chosen(suite: str, settings: Settings) -> list:
    """The problems that the command line lets through."""
    from problems import problems

    found = [
        p
        for p in problems(suite)
        if settings.dtype in (None, p.dtype) and selected(settings.only, p.name, p.shape, p.dtype)
    ]
    return settings.share(found)


def run(suite: str, report: Report, settings: Settings) -> None:
    """Measure the suite. Raises RuntimeError where there is no GPU or no torch to time with."""
    need_gpu(suite)

    from gpu import Card

    picked = chosen(suite, settings)
    ready = warm.compile_peers(suite, len(picked), settings)
    card = Card()
    gc.freeze()  # what is imported is no garbage
    for problem in picked:
        begun = time.monotonic()
        try:
            measure(card, report, settings, problem, ready)
        except Exception as fault:  # a problem that cannot run is a result too
            report.add(failed_row(problem.case, "fusedsl", (0, 0), fault))
        make_room()
        print(f"  {problem.name} {problem.shape} {problem.dtype}: {time.monotonic() - begun:.1f} s", flush=True)


def make_room() -> None:
    """Free what the last problem left where the next may need it: the card may be slower for a while after that."""
    import torch

    gc.collect()
    if torch.cuda.mem_get_info()[0] < LEAST_FREE:
        torch.cuda.empty_cache()
        time.sleep(SETTLING)


def measure(card: Any, report: Report, settings: Settings, problem: Any, ready: Collection[str] = ()) -> None:
    """All peers of one problem, each checked against float64; those that are `ready` need no time to compile."""
    from gpu import as_results

    arguments = problem.arguments(settings.quick)
    calls = peers(problem, arguments)
    results = as_results(calls["fusedsl"]())
    size = sum(_bytes(x) for x in arguments.values()) + sum(map(_bytes, results))
    floors = card.transfer(sum(_bytes(x) for x in arguments.values()), sum(map(_bytes, results)), settings.repetitions)
    floor = round(quantile(floors, 0.5), 3)
    facts = (size, 0)
    report.add(times_row(problem.case, "copy", floors, facts, floor, 0.0))
    references = reference(problem, arguments)
    entrants: dict[str, Any] = {name: partial(_entrant, card, name, call, references) for name, call in calls.items()}
    if time.monotonic() > settings.compile_until:
        entrants |= dict.fromkeys(modes(problem.suite).keys() - set(ready), OVER)
    compare(report, Subject(problem.case, facts, floor), entrants, settings.repetitions)


def _entrant(card: Any, name: str, call: Callable, references: tuple | None):
    """One peer's timer, once its results are checked against float64."""
    from gpu import as_results

    made = call().wait() if name == "jax" else call()
    error = None if references is None else worst(as_results(made), references)
    return partial(card.wall_times if name == "jax" else card.times, call), error


def peers(problem: Any, arguments: dict) -> dict[str, Callable[[], Any]]:
    """The calls: fusedsl into results that hold NaN before the first, then torch, compiled and eager, and others."""
    import torch

    import fusedsl as fd
    import peers_rows
    from torch_expressions import TWINS

    torch._dynamo.reset()  # and not between the peers, which take turns
    kernel = fd.kernel(problem.expression.text, max_kernels=problem.expression.kernels)
    outs: list = []

    def ours():
        if not outs:
            made = kernel(**arguments)
            outs.append(made)
            for one in made if isinstance(made, tuple) else (made,):
                if one.is_floating_point() and one.element_size() > 1:
                    one.fill_(float("nan"))
        return kernel(**arguments, out=outs[0])

    found: dict[str, Callable] = {"fusedsl": ours}
    function = TWINS[problem.twin]
    found |= {name: compiled(function, arguments, mode) for name, mode in modes(problem.suite).items()}
    found["torch"] = lambda: function(**arguments)
    return found | peers_rows.others(problem, arguments)


def modes(suite: str) -> dict[str, str | None]:
    """torch.compile's modes that a suite compares with."""
    return COMPILED | TUNED if suite == "reductions" else COMPILED


def compilers(suite: str) -> dict[str, Callable[[Any], None]]:
    """What compiles a problem as torch.compile's modes do; with the first, our kernels too."""
    first = next(iter(modes(suite)))
    return {name: partial(_compile, mode, name == first) for name, mode in modes(suite).items()}


def _compile(mode: str | None, ours: bool, problem: Any) -> None:
    import torch

    import fusedsl as fd
    from torch_expressions import TWINS

    torch._dynamo.reset()
    arguments = problem.arguments()
    if ours:
        fd.kernel(problem.expression.text, max_kernels=problem.expression.kernels)(**arguments)
    compiled(TWINS[problem.twin], arguments, mode)()


def compiled(function: Callable, arguments: dict, mode: str | None) -> Callable:
    """The torch function compiled at its first call, for these shapes alone."""
    import torch

    kept: list = []

    def call():
        if not kept:
            kept.append(torch.compile(function, dynamic=False, mode=mode))
        return kept[0](**arguments)

    return call


def reference(problem: Any, arguments: dict) -> tuple | None:
    """The results in float64; None for what draws its own random numbers."""
    import torch

    from gpu import as_results
    from torch_expressions import TWINS

    if problem.twin == "dropout":
        return None
    wide = {k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in arguments.items()}
    return as_results(TWINS[problem.twin](**wide))


def worst(results: Sequence, references: Sequence) -> float:
    """The largest absolute error over the largest reference; of integers and bools the share that differs."""
    import torch

    found = 0.0
    for result, expected in zip(results, references, strict=True):
        if not result.is_floating_point():
            error = (result != expected).double().mean()
        else:
            scale = expected.double().abs().nan_to_num(posinf=0).max().clamp(min=1e-30)
            same = result.double() == expected.double()  # infinities
            error = torch.where(same, 0.0, (result.double() - expected.double()).abs()).max() / scale
        found = max(found, float(error)) if not torch.isnan(error) else float("nan")
        if found != found:
            break
    return found


def _bytes(x: Any) -> int:
    """Bytes of an array; of a broadcast one, those that are there."""
    if not hasattr(x, "element_size"):
        return 0
    count = 1
    for n, stride in zip(x.shape, x.stride()):
        count *= n if stride else 1
    return count * x.element_size()
