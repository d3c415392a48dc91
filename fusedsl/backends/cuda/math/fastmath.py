"""What the option fastmath puts in the place of float32 functions: the hardware's own approximations.

NaN and infinities stay what they are. Source: PTX ISA, "Floating Point Instructions" (ex2, lg2, sin, cos, tanh, sqrt
and div, approximate).
"""

from __future__ import annotations

import ast
from functools import cache
from math import e as EULER
from math import log2
from typing import Any

from ..compiler.numba_backend import Emitter, intrinsic, ir, types
from .libdevice import LIBDEVICE_1, library_rule
from .vocabulary import logistic

# name: (instruction, factor of its operand, factor of its result)
INSTRUCTIONS = {
    "exp": ("ex2.approx.ftz.f32", log2(EULER), 1.0),
    "exp2": ("ex2.approx.ftz.f32", 1.0, 1.0),
    "log": ("lg2.approx.f32", 1.0, 1 / log2(EULER)),
    "log2": ("lg2.approx.f32", 1.0, 1.0),
    "log10": ("lg2.approx.f32", 1.0, 1 / log2(10)),
    "sin": ("sin.approx.f32", 1.0, 1.0),
    "cos": ("cos.approx.f32", 1.0, 1.0),
    "tanh": ("tanh.approx.f32", 1.0, 1.0),
    "sqrt": ("sqrt.approx.f32", 1.0, 1.0),
}


@cache
def approximations() -> dict[str, Any]:
    """The functions of a body's vocabulary that are other ones under fastmath; of float64 they are the same."""
    names = {name: intrinsic(1)(_rule(name)) for name in INSTRUCTIONS}
    return names | {"logistic": intrinsic(1)(_logistic), "divided": intrinsic(2)(_divided)}


class _Divisions(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Div):
            return node
        call = ast.Call(ast.Name("divided", ast.Load()), [node.left, node.right], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


def approximated(tree: ast.Module) -> ast.Module:
    """A generated file with its divisions (of floats alone: places are split by shifts and magics) as calls."""
    return _Divisions().visit(tree)


def _divided(x, y):
    if x != y or x not in (types.float32, types.float64):
        return None
    if x == types.float64:
        return x, lambda e, a, b: e.builder.fdiv(a, b)
    return x, lambda e, a, b: e.asm(a.type, "div.full.f32 $0, $1, $2;", "=f,f,f", [a, b])


def _rule(name: str):
    exact = library_rule(name, LIBDEVICE_1[name])

    def rule(kind):
        return (kind, lambda e, x: _by_instruction(e, name, x)) if kind == types.float32 else exact(kind)

    rule.__name__ = name
    return rule


def _by_instruction(e: Emitter, name: str, x: ir.Value) -> ir.Value:
    instruction, inner, outer = INSTRUCTIONS[name]
    x = x if inner == 1 else e.builder.fmul(x, ir.Constant(x.type, inner))
    value = e.asm(x.type, f"{instruction} $0, $1;", "=f,f", [x])
    return value if outer == 1 else e.builder.fmul(value, ir.Constant(x.type, outer))


def _logistic(kind):
    """1 / (1 + exp(-x)), whose reciprocal keeps small results (tanh(x / 2) would not)."""
    if kind != types.float32:
        return logistic(kind)

    def emit(e, x):
        b, one = e.builder, ir.Constant(x.type, 1)
        grown = _by_instruction(e, "exp", b.fsub(ir.Constant(x.type, -0.0), x))
        return e.asm(x.type, "rcp.approx.ftz.f32 $0, $1;", "=f,f", [b.fadd(one, grown)])

    return kind, emit
