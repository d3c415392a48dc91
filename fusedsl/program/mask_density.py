"""The density of a block mask: the shares of active and of full tiles, as far as indices and lengths determine it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..backends.cuda.attention.sm90_schedule import AttentionTiling
from ..ir.ops import OPS
from ..ir.types import DTYPES
from ..kernel_ir.attention import BlockMask
from ..kernel_ir.attention_operands import operands_of
from ..kernel_ir.kernel import AttentionKernel

MAX_TILES = 1 << 20  # tiles to evaluate: beyond that, every so many rows of tiles

Answer = Any  # an array over tiles; None if unknown
INFIX: dict[type, Callable] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
INFIX |= {ast.Div: operator.truediv, ast.BitXor: operator.xor, ast.Eq: operator.eq, ast.NotEq: operator.ne}
INFIX |= {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}
NAMED: dict[str, Callable] = {"select": np.where, "not_": np.logical_not, "bool_": np.asarray}


def mask_density(
    kernel: AttentionKernel, schedule: AttentionTiling, extents: tuple[int, ...], numbers: Mapping[str, int]
) -> tuple[float, float]:
    """(share of tiles with some active element, share of full tiles): (1, 0) if neither is known.

    `numbers` are scalars of the kernel with known values. Masks from arrays count as active.
    """
    sieve, operands = kernel.attention.block_mask, operands_of(kernel)
    if sieve is None or operands is None:
        return 1.0, 0.0
    rows, columns = extents[operands.query_axis], extents[kernel.row_axes]
    across = -(-columns // schedule.columns)
    apart = schedule.rows * max(1, -(-rows // schedule.rows) * across // MAX_TILES)
    places = {
        operands.query_axis: np.arange(0, rows, apart)[:, None],
        kernel.row_axes: np.arange(0, columns, schedule.columns)[None, :],
    }
    sizes = {operands.query_axis: (schedule.rows, rows), kernel.row_axes: (schedule.columns, columns)}
    known: dict[str, Answer] = dict(numbers)
    for axis, first, last in sieve.ranges:
        if axis in places:
            size, extent = sizes[axis]
            known |= {first.name: places[axis], last.name: np.minimum(places[axis] + size, extent) - 1}
    shape = (places[operands.query_axis].size, across)
    active, full = _evaluate_mask(sieve, known)
    return (
        1.0 if active is None else float(np.broadcast_to(active, shape).mean()),
        0.0 if full is None else float(np.broadcast_to(full, shape).mean()),
    )


def _evaluate_mask(sieve: BlockMask, known: dict[str, Answer]) -> tuple[Answer, Answer]:
    """(any active, all active) per tile, each None if it is unknown."""
    certain = bool(sieve.full_phases) and all(v.name in known for v in sieve.body.args)
    for line in sieve.body.instructions:
        name, _, value = line.partition("  # ")[0].partition(" = ")
        known[name] = _value(ast.parse(value, mode="eval").body, known)
    active, full = (known.get(v.name) for v in sieve.body.results)
    return active, full if certain else None


def _value(x: ast.expr, known: Mapping[str, Answer]) -> Answer:
    """An expression in the vocabulary of bodies; None if it depends on an unknown value."""
    match x:
        case ast.Name(id=name):
            return {"inf": np.inf, "nan": np.nan, "True": True, "False": False}.get(name, known.get(name))
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=a):
            return _apply(operator.neg, a, known=known)
        case ast.BinOp(left=a, op=ast.BitAnd(), right=b):
            return _and(_value(a, known), _value(b, known))
        case ast.BinOp(left=a, op=ast.BitOr(), right=b):
            return _apply(operator.or_, a, b, known=known)
        case ast.BinOp(left=a, op=op, right=b) if type(op) in INFIX:
            return _apply(INFIX[type(op)], a, b, known=known)
        case ast.Compare(left=a, ops=[op], comparators=[b]):
            return _apply(INFIX[type(op)], a, b, known=known)
        case ast.Call(func=ast.Name(id=name), args=args):
            function = NAMED.get(name) or (OPS[name].meaning if name in OPS else None)
            if name in DTYPES:
                function = np.asarray
            return None if function is None else _apply(function, *args, known=known)
    return None


def _and(a: Answer, b: Answer) -> Answer:
    """The conjunction: one known condition may already be false."""
    return b if a is None else a if b is None else a & b


def _apply(function: Callable, *args: ast.expr, known: Mapping[str, Answer]) -> Answer:
    values = [_value(a, known) for a in args]
    return None if any(value is None for value in values) else function(*values)
