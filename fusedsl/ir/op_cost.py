"""Cost of a body's instructions: issue slots, and functions of a GPU's special function units."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from math import log2

from .ops import OPS

EXCHANGE = 6  # instructions of a compare-exchange of a sort
FETCH_COST = 8  # instructions of a load from a computed address

_NAMED = {"quotient": 6, "shift_left": OPS["left_shift"].cost, "shift_right": OPS["right_shift"].cost}


READ = re.compile(r"\b[A-Za-z_]\w*\b(?!\()")  # names of values, not of functions
# Functions of a GPU's special units (reciprocals, square roots, 2**x …) in one of ours, of float32.
SPECIAL = dict.fromkeys(("exp", "exp2", "expm1", "sqrt", "rsqrt", "erf", "erfc", "div_for_bf16"), 1)
SPECIAL |= dict.fromkeys(("tanh", "logistic", "sinh", "cosh", "power", "arctanh", "cbrt", "hypot"), 2)


def special_functions(lines: Iterable[str]) -> int:
    """Special function unit instructions in straight-line code."""
    return sum(map(_line_functions, lines))


@cache
def _line_functions(line: str) -> int:
    called = [p.func.id for p in ast.walk(ast.parse(line)) if isinstance(p, ast.Call) and isinstance(p.func, ast.Name)]
    divided = any(isinstance(part, ast.Div) for part in ast.walk(ast.parse(line)))
    return divided + sum(SPECIAL.get(name, 0) for name in called)


def instructions(lines: Iterable[str]) -> int:
    """Instructions of straight-line code, by the table of operations."""
    return sum(map(_line_cost, lines))


# Instructions of float64 in functions of it, and of the others (beside arithmetic, 1) for each of their table's.
DOUBLE = {"exp": 20, "log": 26, "erf": 45, "sin": 16, "cos": 16, "tanh": 45, "power": 50}
DOUBLE_SHARE = 1.5


def ordering(count: float) -> float:
    """Instructions per element of a merge sort of so many elements."""
    steps = log2(max(2, count))
    return steps * (steps + 1) / 4 * EXCHANGE


def double_instructions(lines: Iterable[str]) -> float:
    """float64 instructions in straight-line code."""
    return sum(map(_line_double, lines))


@cache
def _line_double(line: str) -> float:
    known = [p.func.id for p in ast.walk(ast.parse(line)) if isinstance(p, ast.Call) and isinstance(p.func, ast.Name)]
    cost = next((DOUBLE[name] for name in known if name in DOUBLE), None)
    other = _line_cost(line)
    return cost if cost is not None else other * DOUBLE_SHARE if other > 2 else other


def varying(lines: Iterable[str], fixed: Iterable[str]) -> list[str]:
    """Instructions whose values differ by element; a thread computes the others once."""
    same, lines_ = {"inf", "nan", "True", "False", *fixed}, []
    for line in lines:
        target, _, value = line.split("#", 1)[0].partition(" = ")
        if same.issuperset(READ.findall(value)):
            same.add(target)
        else:
            lines_.append(line)
    return lines_


@cache
def _line_cost(line: str) -> int:
    return sum(_part_cost(part) for part in ast.walk(ast.parse(line)))


def _part_cost(part: ast.AST) -> int:
    match part:
        case ast.BinOp(op=ast.Div()):
            return OPS["divide"].cost
        case ast.Call(args=[ast.Constant() | ast.UnaryOp() | ast.BinOp()]):
            return 0  # a typed literal, or the wrap of an integer result
        case ast.UnaryOp(operand=ast.Constant() | ast.Name(id="inf")):
            return 0
        case ast.BinOp() | ast.UnaryOp() | ast.Compare():
            return 1
        case ast.Call(func=ast.Name(id=name)):
            if name.startswith("fetch_"):
                return FETCH_COST
            return OPS[name].cost if name in OPS else _NAMED.get(name, 1)
    return 0
