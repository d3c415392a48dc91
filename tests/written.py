"""Bodies of tests from lines of Python: an expression becomes the instructions that compute it, one operation each."""

from __future__ import annotations

import ast

from fusedsl.ir.types import BOOL, DTYPES, FLOAT32, INT64, DType
from fusedsl.kernel_ir.instruction import Constant, Instruction, Operand

INFIX = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}
LOGICAL = {ast.BitAnd: "logical_and", ast.BitOr: "logical_or", ast.BitXor: "logical_xor"}
BITWISE = {ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor"}
ORDERS = {ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal"}
ORDERS |= {ast.Eq: "equal", ast.NotEq: "not_equal"}
CALLS = {"select": "where", "not_": "logical_not", "shift_left": "left_shift", "shift_right": "right_shift"}
KINDS = {"logical_not": BOOL, "left_shift": INT64, "right_shift": INT64, "negative": INT64}


def instructions(*lines: str) -> tuple[Instruction, ...]:
    """The instructions of lines `name = expression  # comment`, in the vocabulary of bodies."""
    made: list[Instruction] = []
    for line in lines:
        code, _, comment = line.partition("  # ")
        name, _, text = code.partition(" = ")
        _define(made, name, ast.parse(text, mode="eval").body, comment)
    return tuple(made)


def _define(made: list[Instruction], name: str, x: ast.expr, comment: str = "") -> None:
    op, parts, d = _operation(x)
    operands: list[Operand] = []
    for k, part in enumerate(parts):
        operands.append(_operand(part) or f"{name}_{k}")
        if operands[-1] == f"{name}_{k}":
            _define(made, f"{name}_{k}", part)
    made.append(Instruction(name, op, tuple(operands), d, comment))


def _operand(x: ast.expr) -> Operand | None:
    """A name or a literal; None for what takes an instruction."""
    match x:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=bool() as value):
            return Constant(BOOL, str(value))
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name in DTYPES and _is_number(argument):
            return Constant(DTYPES[name], ast.unparse(argument))
    return None


def _is_number(x: ast.expr) -> bool:
    inside = x.operand if isinstance(x, ast.UnaryOp) else x
    return isinstance(inside, ast.Constant) or (isinstance(inside, ast.Name) and inside.id in ("inf", "nan"))


def _operation(x: ast.expr) -> tuple[str, list[ast.expr], DType]:
    """(operation, its operands, its dtype)."""
    match x:
        case _ if _operand(x) is not None:
            return "copy", [x], FLOAT32
        case ast.BinOp(left=a, op=op, right=b):
            return (INFIX | LOGICAL)[type(op)], [a, b], BOOL if type(op) in LOGICAL else FLOAT32
        case ast.Compare(left=a, ops=[op], comparators=[b]):
            return ORDERS[type(op)], [a, b], FLOAT32
        case ast.UnaryOp(op=ast.USub(), operand=a):
            return "negative", [a], FLOAT32
        case ast.UnaryOp(op=ast.Not(), operand=a):
            return "logical_not", [a], BOOL
        case ast.Call(func=ast.Name(id=name), args=[ast.BinOp(left=a, op=op, right=b)]) if name[-1] in "2468":
            if name in DTYPES and DTYPES[name].kind != "f":
                return (INFIX | BITWISE)[type(op)], [a, b], DTYPES[name]
        case ast.Call(func=ast.Name(id=name), args=[ast.UnaryOp(op=ast.Invert(), operand=a)]):
            return "bitwise_invert", [a], DTYPES[name]
    assert isinstance(x, ast.Call) and isinstance(x.func, ast.Name), ast.unparse(x)
    name, first, _ = x.func.id, *x.func.id.partition("_")[::2]
    if name in DTYPES or name == "bool_":
        return "convert", x.args, DTYPES.get(name, BOOL)
    if name.endswith("_round"):
        return "round", x.args, DTYPES[name.removesuffix("_round")]
    if first in ("fetch", "saturate"):
        return first, x.args, DTYPES[name.partition("_")[2]]
    op = CALLS.get(name, name)
    return op, x.args, KINDS.get(op, FLOAT32)
