"""Integers of bodies that fit in 32 bits, as their ranges show, are computed in 32: of 64 bits an operation takes
several instructions, and a division by a number some twenty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from ....ir.types import INT64, UINT64
from ....kernel_ir.instruction import Constant, Instruction, Operand
from ....kernel_ir.kernel import SHORT, KernelIR
from ....kernel_ir.memory_access import INDEX64_FROM, LONGEST
from ....kernel_ir.phase import Body, Phase
from ....rewrite.intervals.integer_ranges import multiply_ranges

Range = tuple[int, int]
INDICES: Range = (0, LONGEST + (1 << 19))  # of positions on axes, a last tile's beyond them too, and of their extents
MAP_POSITIONS: Range = (0, INDEX64_FROM + (1 << 25))  # of a map with 32-bit counts, a last tile's beyond them too
WORD: Range = (-(1 << 31), (1 << 31) - 1)
DIVISIONS = {"remainder": "word_remainder", "floor_divide": "word_floor_divide"}  # by numbers that are no literals


def narrowed_map(kernel: KernelIR, phase: Phase, body: Body) -> Body:
    """The body of a map that computes where it reads: of positions and extents that have 32 bits."""
    if kernel.index64 or kernel.row_axes or not kernel.short_extents:
        return body
    ranges = {p.value.name: MAP_POSITIONS for p in kernel.positions if p.value.dtype is INT64}
    ranges |= dict.fromkeys(kernel.short_extents, (0, SHORT - 1))
    return replace(body, instructions=tuple(narrowed(body.instructions, ranges)))


def narrowed(instructions: Iterable[Instruction], ranges: Mapping[str, Range]) -> Iterator[Instruction]:
    """The instructions of a body, whose integers of 64 bits keep their type; `ranges` are those of its arguments."""
    known = dict(ranges)
    unsigned: set[str] = set()  # uint64 that are such integers
    for i in instructions:
        if i.op == "convert" and i.dtype is UINT64 and i.args[0] in known:
            unsigned.add(i.target)
        if i.op == "less" and i.dtype is UINT64 and unsigned.issuperset(i.args):
            yield replace(i, op="narrow_less")
            continue
        operands = [_range(a, known) for a in i.args]
        narrow = None if None in operands else _short(i, cast("list[Range]", operands))
        if narrow is None:
            bounds = None if None in operands else _bounded(i, cast("list[Range]", operands))
            known |= {i.target: bounds} if bounds else {}
            yield i
        else:
            further, known[i.target] = narrow
            args = (*i.args, *(Constant(INT64, str(n)) for n in further))
            by_value = isinstance(i.args[-1], str)
            short = DIVISIONS.get(i.op) if by_value else None
            yield replace(i, op=short or f"narrow_{i.op}", args=args, dtype=INT64)


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
        case "remainder" | "floor_divide", [x, (least, most)] if least >= 0 and _fits(x) and most <= WORD[1]:
            return (), (0, most) if i.op == "remainder" else (min(x[0], 0), max(x[1], 0))
        case "minimum" | "maximum", [x, y] if _fits(x) and _fits(y):
            best = min if i.op == "minimum" else max
            return (), (best(x[0], y[0]), best(x[1], y[1]))
        case "absolute", [x] if _fits(x) and x[0] > WORD[0]:
            return _exact((max(0, x[0], -x[1]), max(-x[0], x[1])))
    return None


def _bounded(i: Instruction, operands: list[Range]) -> Range | None:
    """The range of an integer that is as cheap in 64 bits; None where it is not known."""
    match i.op, operands:
        case "right_shift", [x, (by, most)] if by == most and 0 <= by < 63:
            return x[0] >> by, x[1] >> by
        case "bitwise_and", [_, (mask, most)] if mask == most and mask >= 0:
            return 0, mask
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
