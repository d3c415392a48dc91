"""The suite `time`: programs that differ in what bounds them, from kilobytes to gigabytes, for the time model.

`predicted_us` says what the model says of a row of this suite, or of those of elementwise programs, rows and problems.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import problems
import suite_gpu
from fusedsl.bench import workloads
from fusedsl.bench.record import Report, Row, times_row


@dataclass(frozen=True)
class Program:
    """A text over arrays x, y, z of one shape; what it is here for; the dtypes that it is timed in."""

    name: str
    text: str
    about: str
    dtypes: tuple[str, ...] = ("float32", "bfloat16")


PROGRAMS = (
    Program("scale", "x * 2", "reads as much as it writes"),
    Program("triad", "x + y * z", "three reads to a write", ("float32",)),
    Program("pair", "return x * 2, x * 3", "two writes to a read", ("float32",)),
    Program("row_sum", "sum(x, axis=-1)", "reads alone"),
    Program("softmax", "softmax(x)", "rows that stay on the chip", ("float32",)),
    Program("functions", "sin(exp(tanh(erf(x)))) + log1p(absolute(cos(x)))", "instructions"),
    Program("powers", "exp2(x) + exp2(-x) + exp2(2*x) + exp2(3*x)", "special functions", ("bfloat16",)),
    Program("double", "exp(x) * x + tanh(x)", "float64 arithmetic", ("float64",)),
)
BY_NAME = {p.name: p for p in PROGRAMS}
COLUMNS = 1024
ROWS = (16, 256, 4096, 16384, 65536, 262144)


def run(report: Report, settings: Any) -> None:
    """Measure the suite. Raises RuntimeError where there is no GPU or no torch to time with."""
    suite_gpu.need_gpu("time")
    import torch

    import fusedsl as fd
    from gpu import Card

    card = Card()
    for program in PROGRAMS:
        for dtype in program.dtypes:
            for rows in ROWS[:2] if settings.quick else ROWS:
                shape = (rows, COLUMNS)
                made = fd.kernel(program.text)
                if not workloads.selected(settings.only, program.name, workloads.shape_name(shape), dtype):
                    continue
                given = [torch.rand(shape, device="cuda", dtype=getattr(torch, dtype)) for _ in made.params]
                results = made(*given)

                def call(made=made, given=given, results=results):
                    made(*given, out=results)

                told = made.explain(*given, compile=False)
                case = ("time", program.name, workloads.shape_name(shape), dtype)
                times = card.times(call, settings.repetitions)
                report.add(times_row(case, "fusedsl", times, (told.bytes, 0), None, None))
                print(f"  {program.name} {rows}x{COLUMNS} {dtype}: {report.rows[-1].median_us} µs", flush=True)


def predicted_us(row: Row | dict) -> float:
    """What the time model says of a measured row of fusedsl."""
    import fusedsl as fd

    row = row if isinstance(row, dict) else vars(row)
    shape = tuple(int(n) for n in row["shape"].split("x"))
    if row["suite"] in problems.SUITES:
        asked = _problems(row["suite"])[row["workload"], row["shape"], row["dtype"]]
        made, known = fd.kernel(asked.expression.text), asked.specs()
    elif row["suite"] == "time":
        made = fd.kernel(BY_NAME[row["workload"]].text)
        known = {name: fd.spec(shape, row["dtype"]) for name in made.params}
    else:
        workload = workloads.BY_NAME[row["workload"]]
        made = fd.kernel(workload.text)
        known = {i.name: fd.spec(i.shape(shape), row["dtype"]) for i in workload.inputs} | dict(workload.scalars)
    return 1e6 * made.explain(compile=False, cc=90, **known).seconds


@cache
def _problems(suite: str) -> dict[tuple[str, str, str], problems.Problem]:
    return {p.case[1:]: p for p in problems.problems(suite)}
