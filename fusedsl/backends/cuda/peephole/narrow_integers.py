"""Integers of bodies that fit in 32 bits, as their ranges show, are computed in 32: of 64 bits an operation takes
several instructions, and a division by a number some twenty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from ....ir.types import INT64
from ....kernel_ir.instruction import Constant, Instruction, Operand
from ....kernel_ir.memory_access import LONGEST
from ....rewrite.intervals.integer_ranges import multiply_ranges

Range = tuple[int, int]
PLACES: Range = (0, LONGEST + (1 << 19))  # of positions on axes, a last tile's beyond them too, and of their extents
WORD: Range = (-(1 << 31), (1 << 31) - 1)


def narrowed(instructions: Iterable[Instruction], ranges: Mapping[str, Range]) -> Iterator[Instruction]:
    """The instructions of a body, whose integers of 64 bits keep their type; `ranges` are those of its arguments."""
    known = dict(ranges)
    for i in instructions:
        operands = [_range(a, known) for a in i.args]
        narrow = None if None in operands else _short(i, cast("list[Range]", operands))
        if narrow is None:
            yield i
        else:
            further, known[i.target] = narrow
            args = (*i.args, *(Constant(INT64, str(n)) for n in further))
            yield replace(i, op=f"narrow_{i.op}", args=args, dtype=INT64)


def _short(i: Instruction, operands: list[Range]) -> tuple[tuple[int, ...], Range] | None:
    """Further operands of an instruction in 32 bits, and its range; None where that is not known to fit."""
    match i.op, operands:
        case "add", [x, y]:
            return _exact((x[0] + y[0], x[1] + y[1]))
        case "subtract", [x, y]:
            return _exact((x[0] - y[1], x[1] - y[0]))
        case "multiply", [x, y]:
            return _exact(multiply_ranges(x, y))
        case "fma", [x, y, z]:
            product = multiply_ranges(x, y)
            return _exact((product[0] + z[0], product[1] + z[1]))
        case "remainder" | "floor_divide", [x, (by, most)] if by == most:
            return _divided(i.op, x, by)
        case "absolute", [x] if _fits(x) and x[0] > WORD[0]:
            return _exact((max(0, x[0], -x[1]), max(-x[0], x[1])))
    return None


def _exact(range_: Range) -> tuple[tuple[int, ...], Range] | None:
    return ((), range_) if _fits(range_) else None


def _divided(op: str, held: Range, divisor: int) -> tuple[tuple[int, ...], Range] | None:
    """Floored division by a positive constant: of a number that is not below 0, once a multiple of it is added."""
    if divisor <= 0:
        return None
    times, quotients = max(0, -(held[0] // divisor)), (held[0] // divisor, held[1] // divisor)
    if max(divisor, held[1] + times * divisor) >= 1 << 32 or not _fits(quotients):
        return None
    if op == "remainder":
        return (times * divisor,), (0, divisor - 1)
    return (times * divisor, times), quotients


def _range(operand: Operand, known: Mapping[str, Range]) -> Range | None:
    """The least and the greatest that an integer can be; None where that is not known."""
    if isinstance(operand, str):
        return known.get(operand)
    return (int(operand.value), int(operand.value)) if operand.dtype is INT64 else None


def _fits(range_: Range) -> bool:
    return WORD[0] <= range_[0] and range_[1] <= WORD[1]
