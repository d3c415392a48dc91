"""`demo`: fuses real workloads, checks them against float64, and times them against unfused NumPy or CuPy."""

from __future__ import annotations

import argparse
import time

from ..bench.workloads import BY_NAME
from ..errors import ArgumentError
from ..report.table import text_table
from ..report.units import bytes_text, seconds_text
from .measure import Measured, find_target, measure

WORKLOADS = tuple(BY_NAME[name] for name in ("softmax", "gelu", "add_layer_norm", "black_scholes"))
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
    start = time.perf_counter()
    wanted = [w for w in WORKLOADS if chosen.only.lower() in w.name.lower()]
    if not wanted:
        help = f"the workloads are {', '.join(w.name for w in WORKLOADS)}"
        raise ArgumentError(f"no workload has {chosen.only!r} in its name", "argument.workload", help=help)
    target = find_target()
    elements = target.elements if chosen.elements is None else chosen.elements
    print(f"on {target.name}; unfused: {target.unfused}; float32, {elements:,} elements")
    measured = [measure(w, elements, target) for w in wanted]
    print(text_table(HEAD, [row(m) for m in measured]))
    print("bytes and kernels: fused / unfused. registers: a thread on CUDA, by the compiler (~: by estimate).")
    print("error: the largest difference from float64, as a share of the largest magnitude. times: medians.")
    first = ", ".join(f"{m.name} {seconds_text(m.first_call)}" for m in measured)
    print(f"first calls, with compilation or the cache: {first}. all of this: {time.perf_counter() - start:.1f} s")
    wrong = [m.name for m in measured if not m.correct]
    if wrong:
        print(f"WRONG: {', '.join(wrong)}; please report it with the output of python -m fusedsl doctor")
    return 1 if wrong else 0


def row(m: Measured) -> list[str]:
    """One line of the table."""
    return [
        m.name,
        f"{len(m.explanation.kernels)} / {m.explanation.before.kernels}",
        f"{bytes_text(m.explanation.bytes)} / {bytes_text(m.explanation.before.bytes)}",
        _registers(m),
        seconds_text(m.seconds),
        seconds_text(m.unfused_seconds),
        f"{m.unfused_seconds / m.seconds:.1f}x",
        f"{m.error:.1e}",
        f"{m.unfused_error:.1e}",
    ]


def _registers(m: Measured) -> str:
    real = [k.figures.registers for k in m.explanation.kernels if k.figures]
    if real:
        return str(max(real))
    predicted = [k.predicted_registers for k in m.explanation.kernels if k.predicted_registers]
    return f"~{max(predicted)}" if predicted else "-"
