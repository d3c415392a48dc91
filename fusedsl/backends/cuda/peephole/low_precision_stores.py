"""Cheaper quotients and exponentials for values that are only stored in 16 or 8 bits."""

from __future__ import annotations

import dataclasses
import re

from ....ir.types import BFLOAT16, DTYPES, DType
from ....kernel_ir.kernel import KernelIR, MixedReductionKernel
from ....kernel_ir.liveness import NAME
from ....kernel_ir.phase import Body, Phase

FUNCTION = re.compile(r"\w+ = (?P<function>exp|log)\((?P<x>\w+)\)")
SCALED = re.compile(
    r"\w+ \* \w+|mul_rn\(.*\)|\w+ / \w+|((near|byte)_)?quotient\(.*\)"
)  # what leaves an error what it is, relative to a value
ADDED = re.compile(rf"{SCALED.pattern}|\w+ [-+] \w+")  # … or relative to the largest of what is added
SUMMED = re.compile(rf"{ADDED.pattern}|(near_)?log\(.*\)")
QUOTIENT = re.compile(r"(?P<name>\w+) = quotient\((?P<x>\w+), (?P<divisor>\w+), (?P<scale>\w+), (?P<inverse>\w+)\)")
STORED_QUOTIENTS = {  # by what is stored: what computes it
    BFLOAT16: r"\g<name> = div_for_bf16(\g<x>, \g<scale>, \g<inverse>)",
    DTYPES["float8_e4m3fn"]: r"\g<name> = div_for_fp8(\g<x>, \g<divisor>, \g<scale>, \g<inverse>)",
}


def narrow_body(kernel: KernelIR, phase: Phase, body: Body | None = None) -> Body:
    """The element body of a phase (or what was made of it) where all that comes of it is rounded to 16 bits."""
    return stored_functions(kernel, phase, stored_quotients(kernel, phase, body or phase.element))


def stored_functions(kernel: KernelIR, phase: Phase, body: Body) -> Body:
    """The body with `stored_exp` and `near_log` where a kernel's outputs are 16-bit floats.

    exp(x) is off by 2**-24 |x| + 2**-21 of itself: about what the rounding of x to float32 does where x is computed,
    and less than 2**-8 of what rounding to 16 bits does. So it serves what is summed or scaled alone; in rows that are
    too long to be held, what is added to others too, for x is measured there from what comes of long sums. What such
    rows sum alone may be of an x that is as it was read, and go through a logarithm; so may logarithms of computed
    values, which are off by 2**-22: a long sum is rounded oftener.
    """
    stores = [store for part in kernel.phases for store in (*part.stores, *part.row_stores)]
    stores += kernel.column_epilogue.stores if isinstance(kernel, MixedReductionKernel) else ()
    kinds = {kernel.operands[store.operand].dtype for store in stores}
    if not kinds or not all(kind.kind == "f" and kind.bits == 16 for kind in kinds):
        return body
    made, lines = set(), []
    for line in body.instructions:
        found, name = FUNCTION.match(line), line.split(" ", 1)[0]
        if found and _is_near(kernel, phase, name, found["function"], found["x"] in made):
            function = found["function"]
            line = line.replace(f" = {function}(", " = exp_for_half(" if function == "exp" else " = log_approx(", 1)
        lines.append(line)
        made.add(name)
    return dataclasses.replace(body, instructions=tuple(lines))


def _is_near(kernel: KernelIR, phase: Phase, name: str, function: str, computed: bool) -> bool:
    """Whether the value of a function, of a computed operand or not, may be as near as the hardware's."""
    summed = not kernel.resident and _ends(kernel, phase, name, SUMMED) == {"sum"}
    if function == "log":
        return summed and computed
    return summed or (computed and bool(_ends(kernel, phase, name, SCALED if kernel.resident else ADDED)))


def _ends(kernel: KernelIR, phase: Phase, name: str, form: re.Pattern) -> set[str]:
    """Where a value that a phase makes comes to, in lines of this form alone: "sum" and "store"; nothing where
    something else is done with it."""
    parts, names, ends = [part for other in kernel.phases for part in other.passes], {name}, set()
    first = next(k for k, part in enumerate(parts) if part is phase)
    for part in parts[first:]:
        other = [value for step in part.scans for use in step.scans for value in use.inputs]
        other += [value for use in part.column_reductions for value in use.inputs] + (
            [part.select.key] if part.select else []
        )
        other += [value for use in part.folds if use.name != "sum" for value in use.inputs]
        if any(value.name in names for value in other):
            return set()
        for line in part.element.instructions:
            target, _, expression = line.split("#", 1)[0].partition(" = ")
            if names & set(NAME.findall(expression)):
                if not form.fullmatch(expression.strip()):
                    return set()
                names.add(target.strip())
        ends |= {"store" for store in part.stores if store.value in names}
        ends |= {"sum" for use in part.folds for value in use.inputs if value.name in names}
    return ends


def stored_quotients(kernel: KernelIR, phase: Phase, body: Body) -> Body:
    """The element body of a phase, with `near_quotient` where all that reads a quotient is a store of bfloat16, and
    `byte_quotient` where it is one of float8_e4m3fn.

    The former's error of 2**-23 is 2**-15 of a bfloat16 ulp: quotients of bfloat16 numbers, which stay 2**-17 away from
    where rounding turns, are the same bits; others differ once in thousands, by what their operands' own rounding does.
    The latter rounds to the same byte.
    """
    candidates = {found["name"] for line in body.instructions if (found := QUOTIENT.match(line))}
    if not candidates:
        return body
    form: dict[str, str] = {}
    for kind, short in STORED_QUOTIENTS.items():
        form |= dict.fromkeys(candidates - _read(kernel, phase, kind), short)
    return dataclasses.replace(body, instructions=tuple(_changed(line, form) for line in body.instructions))


def _read(kernel: KernelIR, phase: Phase, kind: DType) -> set[str]:
    """Names that something but a store of this type reads."""
    uses = [*phase.folds, *phase.column_reductions, *(use for step in phase.scans for use in step.scans)]
    names = {value.name for use in uses for value in use.inputs}
    names |= {phase.select.key.name} if phase.select else set()
    names |= {store.value for store in phase.stores if kernel.operands[store.operand].dtype is not kind}
    for other in kernel.phases:
        bodies = [*(other.bodies if other is not phase else other.bodies[1:]), *([other.row] if other.row else [])]
        names |= {value.name for body in bodies for value in body.args}
    for line in phase.element.instructions:
        names |= set(NAME.findall(line.split("#", 1)[0].partition("=")[2]))
    return names


def _changed(line: str, form: dict[str, str]) -> str:
    found = form.get(line.split(" ", 1)[0])
    return line if found is None else QUOTIENT.sub(found, line)
