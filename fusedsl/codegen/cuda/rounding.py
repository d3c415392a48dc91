"""Quotients that are stored in bfloat16 and read by nothing else: their last bit of float32 is not worth correcting."""

from __future__ import annotations

import dataclasses
import re

from ...ir.types import BFLOAT16
from ...schedule.kernel import Body, Kernel, Phase
from ...schedule.registers import NAME

QUOTIENT = re.compile(r"(?P<name>\w+) = quotient\((?P<x>\w+), \w+, (?P<scale>\w+), (?P<inverse>\w+)\)")


def stored_quotients(kernel: Kernel, phase: Phase) -> Body:
    """The element body of a phase, with `near_quotient` where all that reads a quotient is a store of bfloat16.

    Its error of 2**-23 is 2**-15 of a bfloat16 ulp: quotients of bfloat16 numbers, which stay 2**-17 away from where
    rounding turns, are the same bits; others differ once in thousands, by what their operands' own rounding does.
    """
    body = phase.element
    candidates = {found["name"]: found for line in body.lines if (found := QUOTIENT.match(line))}
    if not candidates:
        return body
    alone = set(candidates) - _read(kernel, phase)
    return dataclasses.replace(body, lines=tuple(_changed(line, candidates, alone) for line in body.lines))


def _read(kernel: Kernel, phase: Phase) -> set[str]:
    """Names that something but a store of bfloat16 reads."""
    uses = [*phase.folds, *phase.cross, *(use for step in phase.scans for use in step.scans)]
    names = {value.name for use in uses for value in use.lifted}
    names |= {phase.select.lifted.name} if phase.select else set()
    names |= {store.value for store in phase.stores if kernel.operands[store.operand].dtype is not BFLOAT16}
    for other in kernel.phases:
        bodies = [*(other.bodies if other is not phase else other.bodies[1:]), *([other.row] if other.row else [])]
        names |= {value.name for body in bodies for value in body.args}
    for line in phase.element.lines:
        names |= set(NAME.findall(line.split("#", 1)[0].partition("=")[2]))
    return names


def _changed(line: str, candidates: dict[str, re.Match], alone: set[str]) -> str:
    name = line.split(" ", 1)[0]
    if name not in alone:
        return line
    return QUOTIENT.sub(r"\g<name> = near_quotient(\g<x>, \g<scale>, \g<inverse>)", line)
