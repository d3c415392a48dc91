"""Functions of numbers that are known to be positive and normal: they need no special cases, and keep their bits."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from math import inf, log, sqrt

from ....ir.types import FLOAT32, UINT32
from ....kernel_ir.instruction import Constant, Instruction, Operand
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body, Phase

Range = tuple[float, float]
WITHOUT_SPECIAL_CASES = {"log": "log_of_normal", "sqrt": "sqrt_of_normal"}
NORMAL: Range = (2.0**-100, 2.0**100)  # far from the ends of float32's range, where roots need care
FUNCTION_ERROR = 2.0**-20  # of a function, relatively: more than any is off
LARGEST = 2.0**127


def normal_arguments(kernel: KernelIR, phase: Phase, body: Body) -> Body:
    """The body with these functions where the range of their argument says so."""
    if kernel.fastmath or not any(i.op in WITHOUT_SPECIAL_CASES for i in body.instructions):
        return body
    ranges: dict[str, Range] = {}
    instructions = []
    for i in body.instructions:
        short = WITHOUT_SPECIAL_CASES.get(i.op)
        if short and i.dtype is FLOAT32 and _within(_range(i.args[0], ranges), NORMAL):
            i = replace(i, op=short)
        result_range = _result(i, [_range(a, ranges) for a in i.args])
        if result_range is not None:
            ranges[i.target] = result_range
        instructions.append(i)
    return replace(body, instructions=tuple(instructions))


def _within(inner: Range | None, outer: Range) -> bool:
    return inner is not None and outer[0] <= inner[0] and inner[1] <= outer[1]


def _range(operand: Operand, known: Mapping[str, Range]) -> Range | None:
    """The least and the greatest that a value can be; None where that is not known."""
    if isinstance(operand, Constant):
        value = float(operand.value)
        return (value, value) if abs(value) < inf else None
    return known.get(operand)


def _result(i: Instruction, operands: list[Range | None]) -> Range | None:
    """The range of a shifted word, and of arithmetic and functions of float32."""
    if i.op == "right_shift" and i.dtype is UINT32 and isinstance(i.args[1], Constant):
        return (0.0, float((1 << 32) - 1 >> int(i.args[1].value)))
    if i.dtype is not FLOAT32 or None in operands:
        return None
    match i.op, [x for x in operands if x is not None]:
        case "convert", [x]:
            return x
        case "add", [x, y]:
            return _single(x[0] + y[0]), _single(x[1] + y[1])
        case "multiply", [x, y]:  # which a sum may add unrounded
            exact = [p * q for p in x for q in y]
            ends = [*exact, *map(_single, exact)]
            return min(ends), max(ends)
        case "log" | "log_of_normal", [x] if x[0] > 0:
            return _near(log(x[0]), log(x[1]))
        case "sqrt" | "sqrt_of_normal", [x] if x[0] >= 0:
            return _near(sqrt(x[0]), sqrt(x[1]))
    return None


def _single(x: float) -> float:
    """A number rounded to float32: rounding keeps the order of numbers, and so the ends of a range."""
    return struct.unpack("f", struct.pack("f", x))[0] if abs(x) < LARGEST else x


def _near(low: float, high: float) -> Range:
    """The range of a function whose value is only so near."""
    return low - abs(low) * FUNCTION_ERROR, high + abs(high) * FUNCTION_ERROR
