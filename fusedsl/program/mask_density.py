"""The share of a pass's tiles that count, as far as positions and lengths say which: its sieve, asked beforehand."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..backends.cuda.attention.sm90_schedule import AttentionTiling, operands_of
from ..ir.ops import OPS
from ..ir.types import DTYPES
from ..kernel_ir.attention import BlockMask
from ..kernel_ir.kernel import KernelIR

MOST_TILES = 1 << 20  # that are asked: of more, every so many rows of tiles

Answer = Any  # an array over tiles; None where that is not known
INFIX: dict[type, Callable] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
INFIX |= {ast.Div: operator.truediv, ast.BitXor: operator.xor, ast.Eq: operator.eq, ast.NotEq: operator.ne}
INFIX |= {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}
NAMED: dict[str, Callable] = {"select": np.where, "not_": np.logical_not, "bool_": np.asarray}


def counted(
    kernel: KernelIR, schedule: AttentionTiling, extents: tuple[int, ...], numbers: Mapping[str, int]
) -> tuple[float, float]:
    """(the share of tiles where something counts, the share where everything does): (1, 0) where neither is known.

    `numbers` are scalars of the kernel that are known. What memory has may let everything count.
    """
    sieve, found = kernel.attention.block_mask if kernel.attention else None, operands_of(kernel)
    if sieve is None or found is None:
        return 1.0, 0.0
    rows, columns = extents[found.query_axis], extents[kernel.row_axes]
    across = -(-columns // schedule.columns)
    apart = schedule.rows * max(1, -(-rows // schedule.rows) * across // MOST_TILES)
    places = {
        found.query_axis: np.arange(0, rows, apart)[:, None],
        kernel.row_axes: np.arange(0, columns, schedule.columns)[None, :],
    }
    sizes = {found.query_axis: (schedule.rows, rows), kernel.row_axes: (schedule.columns, columns)}
    known: dict[str, Answer] = dict(numbers)
    for axis, first, last in sieve.ranges:
        if axis in places:
            size, extent = sizes[axis]
            known |= {first.name: places[axis], last.name: np.minimum(places[axis] + size, extent) - 1}
    shape = (places[found.query_axis].size, across)
    some, every = _answers(sieve, known)
    return (
        1.0 if some is None else float(np.broadcast_to(some, shape).mean()),
        0.0 if every is None else float(np.broadcast_to(every, shape).mean()),
    )


def _answers(sieve: BlockMask, known: dict[str, Answer]) -> tuple[Answer, Answer]:
    """Whether something in a tile counts, and whether everything does, as far as that is known."""
    certain = bool(sieve.full_phases) and all(v.name in known for v in sieve.body.args)
    for line in sieve.body.instructions:
        name, _, value = line.partition("  # ")[0].partition(" = ")
        known[name] = _value(ast.parse(value, mode="eval").body, known)
    some, every = (known.get(v.name) for v in sieve.body.results)
    return some, every if certain else None


def _value(x: ast.expr, known: Mapping[str, Answer]) -> Answer:
    """An expression in the vocabulary of bodies; None where something that is not known decides it."""
    match x:
        case ast.Name(id=name):
            return {"inf": np.inf, "nan": np.nan, "True": True, "False": False}.get(name, known.get(name))
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=a):
            return _applied(operator.neg, a, known=known)
        case ast.BinOp(left=a, op=ast.BitAnd(), right=b):
            return _both(_value(a, known), _value(b, known))
        case ast.BinOp(left=a, op=ast.BitOr(), right=b):
            return _applied(operator.or_, a, b, known=known)
        case ast.BinOp(left=a, op=op, right=b) if type(op) in INFIX:
            return _applied(INFIX[type(op)], a, b, known=known)
        case ast.Compare(left=a, ops=[op], comparators=[b]):
            return _applied(INFIX[type(op)], a, b, known=known)
        case ast.Call(func=ast.Name(id=name), args=args):
            made = NAMED.get(name) or (OPS[name].meaning if name in OPS else None)
            if name in DTYPES:
                made = np.asarray
            return None if made is None else _applied(made, *args, known=known)
    return None


def _both(a: Answer, b: Answer) -> Answer:
    """Both conditions: the one that is known may already say no."""
    return b if a is None else a if b is None else a & b


def _applied(function: Callable, *args: ast.expr, known: Mapping[str, Answer]) -> Answer:
    values = [_value(a, known) for a in args]
    return None if any(value is None for value in values) else function(*values)
