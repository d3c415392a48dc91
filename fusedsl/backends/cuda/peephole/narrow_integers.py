"""Integers of bodies that fit in 32 bits, as their ranges show, are computed in 32: of 64 bits an operation takes
several instructions, and a division by a number some twenty."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from ....kernel_ir.memory_access import LONGEST

Range = tuple[int, int]
PLACES: Range = (0, LONGEST + (1 << 19))  # of positions on axes, a last tile's beyond them too, and of their extents
WORD: Range = (-(1 << 31), (1 << 31) - 1)


def narrowed_lines(lines: Iterable[str], ranges: Mapping[str, Range]) -> list[str]:
    """The lines of a body, whose integers of 64 bits keep their type; `ranges` are those of its arguments."""
    known, made = dict(ranges), []
    for line in lines:
        code, mark, comment = line.partition("  # ")
        name, _, text = code.partition(" = ")
        found = _short(ast.parse(text, mode="eval").body, known)
        if found is not None:
            text, known[name] = found
        made.append(f"{name} = {text}{mark}{comment}")
    return made


def _short(value: ast.expr, known: Mapping[str, Range]) -> tuple[str, Range] | None:
    """How a value is computed, and its range; None where that is not known to fit."""
    match value:
        case ast.Call(func=ast.Name(id="int64"), args=[ast.BinOp() as whole]):
            found = _range(whole, known)
            return None if found is None or not _fits(found) else (f"int64(int32({ast.unparse(whole)}))", found)
        case ast.Call(func=ast.Name(id=("remainder" | "floor_divide") as name), args=[x, y]):
            return _divided(name, x, _range(x, known), _range(y, known))
        case ast.Call(func=ast.Name(id="absolute"), args=[x]):
            found = _range(x, known)
            if found is None or not _fits(found) or found[0] == WORD[0]:
                return None
            least = max(0, found[0], -found[1])
            return f"int64(absolute(int32({ast.unparse(x)})))", (least, max(-found[0], found[1]))
    return None


def _divided(name: str, x: ast.expr, held: Range | None, by: Range | None) -> tuple[str, Range] | None:
    """Floored division by a positive constant: of a number that is not below 0, once a multiple of it is added."""
    if held is None or by is None or by[0] != by[1] or by[0] <= 0:
        return None
    divisor = by[0]
    times, quotients = max(0, -(held[0] // divisor)), (held[0] // divisor, held[1] // divisor)
    if max(divisor, held[1] + times * divisor) >= 1 << 32 or not _fits(quotients):
        return None
    call = f"int64({name}(uint32({ast.unparse(x)} + {times * divisor}), uint32({divisor})))"
    if name == "remainder":
        return call, (0, divisor - 1)
    return f"int64(int32({call} - {times}))", quotients


def _range(value: ast.expr, known: Mapping[str, Range]) -> Range | None:
    """The least and the greatest that an integer can be; None where that is not known."""
    match value:
        case ast.Name(id=name):
            return known.get(name)
        case ast.Call(func=ast.Name(id="int64"), args=[ast.Constant(value=int(number))]):
            return number, number
        case ast.Call(func=ast.Name(id="int64"), args=[ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(n)))]):
            return -n, -n
        case ast.BinOp(left=left, op=op, right=right):
            x, y = _range(left, known), _range(right, known)
            if x is None or y is None:
                return None
            match op:
                case ast.Add():
                    return x[0] + y[0], x[1] + y[1]
                case ast.Sub():
                    return x[0] - y[1], x[1] - y[0]
                case ast.Mult():
                    products = [a * b for a in x for b in y]
                    return min(products), max(products)
    return None


def _fits(found: Range) -> bool:
    return WORD[0] <= found[0] and found[1] <= WORD[1]
