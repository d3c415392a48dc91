"""The suite `tune`: every workload of `map` and `rows` as it is scheduled, and with autotune=True, on one GPU."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

import suite_gpu
from fusedsl.bench.record import Report, times_row
from fusedsl.bench.workloads import BY_NAME, Workload, shape_name

Case = tuple[str, tuple[int, int], str]


def run(report: Report, settings: Any) -> None:
    """Measure the suite. Raises RuntimeError where there is no GPU or no torch to time with."""
    suite_gpu.need_gpu("tune")
    import torch

    cases = [case for suite in ("map", "rows") for case in suite_gpu.cases(suite, settings)]
    chosen = [(w.name, shape, dtype) for w, shape, dtype in cases]
    cc = torch.cuda.get_device_capability()
    with multiprocessing.get_context("spawn").Pool(max(1, (os.cpu_count() or 2) - 2)) as workers:
        workers.starmap(compile_neighbours, [(case, cc) for case in chosen], chunksize=1)
    from gpu import Card

    card = Card()
    for case in chosen:
        _measure(card, report, settings, BY_NAME[case[0]], *case[1:])


def compile_neighbours(case: Case, cc: tuple[int, int]) -> None:
    """Everything that tuning a case will try, into the cache."""
    import warnings

    import fusedsl as fd
    from fusedsl.backends.cuda.tuning_space import tuning_space
    from fusedsl.hardware import hardware_facts
    from fusedsl.report.explain import resolved_call
    from fusedsl.runtime.compile import build_scheduled, scheduled_cuda

    warnings.simplefilter("ignore")
    name, shape, dtype = case
    workload, hardware = BY_NAME[name], hardware_facts(cc)
    made = fd.kernel(workload.text)
    known: dict[str, Any] = {i.name: fd.spec(i.shape(shape), dtype) for i in workload.inputs}
    known |= dict(workload.scalars)
    for plan, bound in resolved_call(made._program, [known[n] for n in made.params], "cuda", cc).kernels:
        kernel, schedule = scheduled_cuda(bound, hardware)
        for one in (schedule, *tuning_space(schedule, kernel, hardware)):
            build_scheduled(kernel, one, plan.digest, cc)


def _measure(card: Any, report: Report, settings: Any, w: Workload, shape: tuple[int, int], dtype: str) -> None:
    """Both peers in turns, so that a drifting clock moves both."""
    import fusedsl as fd
    from gpu import tensors

    given: dict[str, Any] = {**tensors(w, shape, dtype), **dict(w.scalars)}
    size = w.bytes(shape, next(t for t in given.values() if hasattr(t, "element_size")).element_size())
    calls, times = {}, {}
    for peer, options in (("fusedsl", {}), ("fusedsl tuned", {"autotune": True})):
        made = fd.kernel(w.text, **options)
        results = made(*(given[n] for n in made.params))
        results = results if isinstance(results, tuple) else (results,)
        calls[peer] = lambda made=made, results=results: made(*(given[n] for n in made.params), out=results)
        times[peer] = []
    for _ in range(2):
        for peer, call in calls.items():
            times[peer] += card.times(call, max(3, settings.repetitions // 2))
    facts = (size, w.flops * shape[0] * shape[1])
    for peer in calls:
        report.add(times_row(("tune", w.name, shape_name(shape), dtype), peer, times[peer], facts, None, None))
    ratio = report.rows[-1].median_us / report.rows[-2].median_us
    print(f"  {w.name} {shape_name(shape)} {dtype}: tuned takes {ratio:.3f} of the time", flush=True)
