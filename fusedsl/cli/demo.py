"""`demo`: fuses real workloads, checks them against float64, and times them against unfused NumPy or CuPy."""

from __future__ import annotations

import argparse
import contextlib
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..bench.workloads import BY_NAME, Workload
from ..errors import ArgumentError, CompileError
from ..report.table import text_table
from ..report.units import bytes_text, seconds_text

if TYPE_CHECKING:
    from ..bench.record import Row
    from ..report.explain import Explanation

WORKLOADS = tuple(BY_NAME[name] for name in ("softmax", "gelu", "add_layer_norm", "black_scholes"))
COLUMNS = 1024
ELEMENTS = {"cpu": 1 << 21, "cuda": 1 << 24}
HEAD = ("workload", "kernels", "bytes moved", "registers", "time", "unfused", "speedup", "error", "unfused")


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `demo`."""
    parser.add_argument("--elements", type=parse_count, help="elements of each array (default: 2 million, on a GPU 16)")
    parser.add_argument("--only", default="", metavar="WORD", help="workloads whose name holds this word")


def parse_count(text: str) -> int:
    """The integer of a count written as 1000, 1_000 or 1e6."""
    number = float(text)
    if not 1 <= number <= 1e12 or number != int(number):
        raise ValueError(f"{text} is no count")
    return int(number)


def run(chosen: argparse.Namespace) -> int:
    """Print the table; exit code 1 if a result is wrong."""
    from ..bench.peers import UNFUSED
    from ..bench.record import Report
    from ..bench.runner import BenchmarkRun, BenchmarkSettings, find_clock, wrong
    from ..bench.suites import BenchmarkCase

    start = time.perf_counter()
    wanted = [w for w in WORKLOADS if chosen.only.lower() in w.name.lower()]
    if not wanted:
        help = f"the workloads are {', '.join(w.name for w in WORKLOADS)}"
        raise ArgumentError(f"no workload has {chosen.only!r} in its name", "argument.workload", help=help)
    clock, report = find_clock(None), Report(None)
    unfused, elements = UNFUSED[clock.kind], chosen.elements or ELEMENTS[clock.kind]
    columns = max(8, min(COLUMNS, elements))
    shape = max(1, elements // columns), columns
    benchmark = BenchmarkRun(clock, report, BenchmarkSettings(peers=(unfused,), measures=("call",)))
    versions, machine = report.head["versions"], report.head["machine"]
    of = f"{unfused} {versions.get(unfused, '')}".strip()
    print(f"on {machine_name(machine)}; unfused: {of}, one thread; float32, {elements:,} elements")
    explained = {w.name: explanation(w, shape) for w in wanted}
    benchmark.measure([BenchmarkCase(w.suite, w, shape) for w in wanted], lambda _: contextlib.nullcontext())
    rows = {(row.workload, row.peer): row for row in report.rows}
    lines = [line(explained[w.name], rows[w.name, "fusedsl"], rows[w.name, unfused]) for w in wanted]
    print(text_table(HEAD, [[w.name, *cells] for w, cells in zip(wanted, lines)]))
    print("bytes and kernels: fused / unfused. registers: a thread on CUDA, by the compiler (~: by estimate).")
    print("error: the largest difference from float64, as a share of the largest magnitude. times: medians.")
    print(f"all of this, compilation included: {time.perf_counter() - start:.1f} s")
    faults = wrong(report)
    if faults:
        print("\n".join(f"WRONG: {fault}" for fault in faults))
        print("please report it with the output of python -m fusedsl doctor")
    return 1 if faults else 0


def machine_name(machine: dict[str, Any]) -> str:
    """The card, or the processor and its threads."""
    return str(machine.get("gpu") or f"{machine['cpu']}, {machine['threads']} threads")


def explanation(workload: Workload, shape: tuple[int, int]) -> Explanation:
    """The explanation for CUDA, with the compiler's register counts if numba-cuda is installed, else predicted ones."""
    from ..api import kernel
    from ..specs import spec

    specs = {x.name: spec(x.shape(shape), "float32") for x in workload.inputs}
    compiled, values = kernel(workload.text), dict[str, Any](workload.scalars) | specs
    try:
        return compiled.explain(**values, device="cuda", compile=find_spec("numba_cuda") is not None)
    except CompileError:
        return compiled.explain(**values, device="cuda", compile=False)


def line(explained: Explanation, ours: Row, unfused: Row) -> list[str]:
    """One line of the table, without the workload's name."""
    times = ours.median_us, unfused.median_us
    return [
        f"{len(explained.kernels)} / {explained.before.kernels}",
        f"{bytes_text(explained.bytes)} / {bytes_text(explained.before.bytes)}",
        _registers(explained),
        *("-" if t is None else seconds_text(1e-6 * t) for t in times),
        f"{times[1] / times[0]:.1f}x" if times[0] and times[1] else "-",
        *("-" if row.max_error is None else f"{row.max_error:.1e}" for row in (ours, unfused)),
    ]


def _registers(explained: Explanation) -> str:
    real = [k.figures.registers for k in explained.kernels if k.figures]
    if real:
        return str(max(real))
    predicted = [k.predicted_registers for k in explained.kernels if k.predicted_registers]
    return f"~{max(predicted)}" if predicted else "-"
