"""Approximate exp2 for exponentials that are measured from the row's maximum and only summed."""

from __future__ import annotations

import dataclasses
import re

from ....ir.types import FLOAT32
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.liveness import NAME
from ....kernel_ir.phase import Body, Phase

EXPONENTIAL = re.compile(r"(?P<name>\w+) = exp\((?P<argument>\w+)\)")
DIFFERENCE = re.compile(r"(?P<value>\w+) - (?P<reference>\w+)$")
SCALED = re.compile(r"(?P<value>\w+) \* float32\((?P<factor>[-+.e\d]+)\)$")
CLEANED = re.compile(r"select\(\w+, (?P<value>\w+), float32\(0\.0\)\)$")


def approximate_summed_exp(kernel: KernelIR, phase: Phase, body: Body) -> Body:
    """The element body of a phase, with `near_exp` where sums alone read exp(u - M), M the row's (or tile's) extreme u.

    exp(t) = 2**(t log2 e) with a rounded product is off by |t| 2**-24 of itself, and |t| exp(t) 2**-24 is no more than
    2**-25 of the largest summand, 1; the hardware's 2**x is right to 2 ulp. What is below 2**-126 adds nothing.
    """
    alone = _summed(phase) - _read(kernel, phase)
    made = dict(map(_split, body.instructions))
    lines = []
    for line in body.instructions:
        found = EXPONENTIAL.match(line)
        if found and found["name"] in alone and _from_extreme(kernel, made, found["argument"]):
            line = line.replace(" = exp(", " = exp_for_sum(", 1)
        lines.append(line)
    return dataclasses.replace(body, instructions=tuple(lines))


def _summed(phase: Phase) -> set[str]:
    """Names that a sum in float32 takes."""
    return {v.name for use in phase.folds if use.name == "sum" for v in use.inputs if v.dtype is FLOAT32}


def _read(kernel: KernelIR, phase: Phase) -> set[str]:
    """Names that anything but a sum of this phase reads."""
    others = [
        use for use in (*phase.folds, *phase.column_reductions) if use.name != "sum" or use in phase.column_reductions
    ]
    names = {value.name for use in others for value in use.inputs}
    names |= {phase.select.key.name} if phase.select else set()
    names |= {store.value for store in phase.stores}
    for other in _passes(kernel):
        names |= set() if other is phase else {value.name for value in other.reads}
    for body in phase.bodies:
        for line in body.instructions:
            names |= set(NAME.findall(_split(line)[1]))
    return names | {value.name for step in phase.scans for use in step.scans for value in use.inputs}


def _passes(kernel: KernelIR) -> list[Phase]:
    return [part for phase in kernel.phases for part in phase.passes]


def _from_extreme(kernel: KernelIR, made: dict[str, str], argument: str) -> bool:
    """Is this u - M, or that times a number, so that it is nowhere positive?"""
    expression, kind = made.get(argument, ""), "max"
    if scaled := SCALED.match(expression):
        kind = "min" if float(scaled["factor"]) < 0 else "max"
        expression = made.get(scaled["value"], "")
    found = DIFFERENCE.match(expression)
    return found is not None and (kind, found["value"], _origin(kernel, found["reference"])) in _extremes(kernel)


def _extremes(kernel: KernelIR) -> set[tuple[str, str, str]]:
    """(max or min, what is folded, the name of its extreme)."""
    uses = [use for phase in _passes(kernel) for use in phase.folds if use.name in ("max", "min")]
    return {(use.name, use.inputs[0].name, use.accumulators[0].name) for use in uses}


def _origin(kernel: KernelIR, name: str) -> str:
    """The row value that another is, unless it is not finite."""
    rows = [phase.row for phase in _passes(kernel) if phase.row is not None]
    lines = dict(_split(line) for row in rows for line in row.instructions)
    found = CLEANED.match(lines.get(name, ""))
    return found["value"] if found else name


def _split(line: str) -> tuple[str, str]:
    target, _, expression = line.split("#", 1)[0].partition(" = ")
    return target.strip(), expression.strip()
