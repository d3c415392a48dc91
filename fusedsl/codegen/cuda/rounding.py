"""What ends in 16-bit floats: quotients whose last bit of float32 is not worth correcting, exponentials likewise."""

from __future__ import annotations

import dataclasses
import re

from ...ir.types import BFLOAT16
from ...schedule.kernel import Body, Kernel, Phase
from ...schedule.registers import NAME

EXPONENTIAL = re.compile(r"\w+ = exp\((?P<x>\w+)\)")
SCALED = re.compile(
    r"\w+ \* \w+|\w+ / \w+|(near_)?quotient\(.*\)"
)  # what leaves an error what it is, relative to a value
QUOTIENT = re.compile(r"(?P<name>\w+) = quotient\((?P<x>\w+), \w+, (?P<scale>\w+), (?P<inverse>\w+)\)")


def narrow_body(kernel: Kernel, phase: Phase, body: Body | None = None) -> Body:
    """The element body of a phase (or what was made of it) where all that comes of it is rounded to 16 bits."""
    return stored_exponentials(kernel, phase, stored_quotients(kernel, phase, body or phase.element))


def stored_exponentials(kernel: Kernel, phase: Phase, body: Body) -> Body:
    """The body with `stored_exp` where a kernel's outputs are 16-bit floats, the exponent x is itself computed, and
    exponentials are summed or scaled alone.

    They are off by 2**-24 |x| + 2**-21: about what the rounding of x to float32 does, and less than 2**-8 of what
    rounding to 16 bits does.
    """
    stores = [store for part in kernel.phases for store in (*part.stores, *part.row_stores)]
    kinds = {kernel.operands[store.operand].dtype for store in stores}
    if not all(kind.kind == "f" and kind.bits == 16 for kind in kinds):
        return body
    made, lines = set(), []
    for line in body.lines:
        found, name = EXPONENTIAL.match(line), line.split(" ", 1)[0]
        near = found and found["x"] in made and _scaled_or_summed(kernel, phase, name)
        lines.append(line.replace(" = exp(", " = stored_exp(", 1) if near else line)
        made.add(name)
    return dataclasses.replace(body, lines=tuple(lines))


def _scaled_or_summed(kernel: Kernel, phase: Phase, name: str) -> bool:
    """Whether nothing else is done with a value that a phase makes, before it is stored."""
    parts, names = [part for other in kernel.phases for part in other.passes], {name}
    first = next(k for k, part in enumerate(parts) if part is phase)
    for part in parts[first:]:
        other = [value for step in part.scans for use in step.scans for value in use.lifted]
        other += [value for use in part.cross for value in use.lifted] + ([part.select.lifted] if part.select else [])
        other += [value for use in part.folds if use.name != "sum" for value in use.lifted]
        if any(value.name in names for value in other):
            return False
        for line in part.element.lines:
            target, _, expression = line.split("#", 1)[0].partition(" = ")
            if names & set(NAME.findall(expression)):
                if not SCALED.fullmatch(expression.strip()):
                    return False
                names.add(target.strip())
    return True


def stored_quotients(kernel: Kernel, phase: Phase, body: Body) -> Body:
    """The element body of a phase, with `near_quotient` where all that reads a quotient is a store of bfloat16.

    Its error of 2**-23 is 2**-15 of a bfloat16 ulp: quotients of bfloat16 numbers, which stay 2**-17 away from where
    rounding turns, are the same bits; others differ once in thousands, by what their operands' own rounding does.
    """
    candidates = {found["name"]: found for line in body.lines if (found := QUOTIENT.match(line))}
    if not candidates:
        return body
    alone = set(candidates) - _read(kernel, phase)
    return dataclasses.replace(body, lines=tuple(_changed(line, alone) for line in body.lines))


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


def _changed(line: str, alone: set[str]) -> str:
    name = line.split(" ", 1)[0]
    if name not in alone:
        return line
    return QUOTIENT.sub(r"\g<name> = near_quotient(\g<x>, \g<scale>, \g<inverse>)", line)
