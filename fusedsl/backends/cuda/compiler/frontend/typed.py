"""Numbers of generated files: what holds them, how they turn into each other, and what operators make of them.

All as Numba has it: integers widen to 64 bits, of which signed ones do not overflow; literals are int64 and float64.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..numba_backend import I1, VOID, ir, types

if TYPE_CHECKING:
    from . import Frame

Step = Callable[["Frame"], None]
"""Writes one statement."""
Kinds = dict[str, types.Type]
"""Of the names that have a value."""
ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
BITS = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


class Unsuited(Exception):
    """A form, or a mix of types, that is left to Numba."""


@dataclass(frozen=True)
class Typed:
    """An expression: its type, and what writes it."""

    kind: types.Type
    emit: Callable[[Frame], Any]


# -- types


def llvm_type(kind: types.Type) -> ir.Type:
    """What holds a value of this type."""
    if kind == types.boolean:
        return I1
    if isinstance(kind, types.Integer):
        return ir.IntType(kind.bitwidth)
    if kind in (types.float32, types.float64):
        return ir.FloatType() if kind == types.float32 else ir.DoubleType()
    if isinstance(kind, types.UniTuple):
        return ir.ArrayType(llvm_type(kind.dtype), kind.count)
    if isinstance(kind, types.BaseTuple):
        return ir.LiteralStructType([llvm_type(x) for x in kind])
    if kind == types.void:
        return VOID
    raise Unsuited(str(kind))


def converted(b: ir.IRBuilder, value: ir.Value, source: types.Type, target: types.Type) -> ir.Value:
    """A number as one of another type."""
    want = llvm_type(target)
    signed = isinstance(source, types.Integer) and source.signed
    if isinstance(source, types.Float):
        if isinstance(target, types.Float) and isinstance(value, ir.Constant):
            return ir.Constant(want, value.constant)  # rounded where it is written
        if isinstance(target, types.Float):
            return b.fpext(value, want) if target.bitwidth > source.bitwidth else b.fptrunc(value, want)
        if isinstance(target, types.Integer):
            return b.fptosi(value, want) if target.signed else b.fptoui(value, want)
        return b.fcmp_unordered("!=", value, ir.Constant(value.type, 0.0))
    if source != types.boolean and not isinstance(source, types.Integer):
        raise Unsuited(f"{source} to {target}")
    if isinstance(target, types.Float):
        return b.sitofp(value, want) if signed else b.uitofp(value, want)
    if target == types.boolean:
        return b.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
    if want.width == value.type.width:
        return value
    if want.width < value.type.width:
        return b.trunc(value, want)
    return b.sext(value, want) if signed else b.zext(value, want)


def constant(value: bool | int | float) -> Typed:
    """A literal: bool, int64 or float64."""
    kind = {bool: types.boolean, int: types.int64, float: types.float64}[type(value)]
    held = ir.Constant(llvm_type(kind), int(value) if kind == types.boolean else value)
    return Typed(kind, lambda frame: held)


# -- operators


def _both(x: Typed, y: Typed, kind: types.Type, write: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value],
          result: types.Type | None = None) -> Typed:  # fmt: skip
    """An operation on two numbers as this type has them."""

    def emit(frame: Frame) -> ir.Value:
        left, right = x.emit(frame), y.emit(frame)
        return write(frame.builder, frame.unit.cast(left, x.kind, kind), frame.unit.cast(right, y.kind, kind))

    return Typed(kind if result is None else result, emit)


def _whole(x: Typed, y: Typed) -> types.Type | None:
    """The type of an operation on integers: 64 bits, signed unless both are not."""
    if not isinstance(x.kind, types.Integer) or not isinstance(y.kind, types.Integer):
        return None
    return types.int64 if x.kind.signed or y.kind.signed else types.uint64


def _floating(x: Typed, y: Typed) -> types.Type | None:
    if not isinstance(x.kind, types.Float) or not isinstance(y.kind, types.Float):
        return None
    return max(x.kind, y.kind, key=lambda kind: kind.bitwidth)


def binary(op: ast.operator, x: Typed, y: Typed) -> Typed:
    """x op y. Raises Unsuited."""
    real, whole = _floating(x, y), _whole(x, y)
    name = ARITHMETIC.get(type(op))
    if real is not None and (name or isinstance(op, ast.Div)):
        return _both(x, y, real, lambda b, u, v: getattr(b, f"f{name or 'div'}")(u, v))
    if type(op) in BITS and (whole is not None or x.kind == y.kind == types.boolean):
        return _both(x, y, whole or types.boolean, lambda b, u, v: getattr(b, BITS[type(op)])(u, v))
    if whole is None:
        raise Unsuited(f"{type(op).__name__} of {x.kind}, {y.kind}")
    if name:
        flags = ["nsw"] if whole.signed else []  # 64 bits do not overflow, as Numba has it
        return _both(x, y, whole, lambda b, u, v: getattr(b, name)(u, v, flags=flags))
    if isinstance(op, (ast.LShift, ast.RShift)):
        kind = types.int64 if x.kind.signed else types.uint64
        shift = "shl" if isinstance(op, ast.LShift) else "ashr" if x.kind.signed else "lshr"
        return _both(x, y, kind, lambda b, u, v: getattr(b, shift)(u, v))
    if isinstance(op, ast.FloorDiv) and x.kind.signed and y.kind.signed:
        return _both(x, y, whole, _floor_quotient)
    raise Unsuited(type(op).__name__)


def _floor_quotient(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x // y, and 0 where y is."""
    zero = ir.Constant(x.type, 0)
    nothing = b.icmp_signed("==", y, zero)
    divisor = b.select(nothing, ir.Constant(x.type, 1), y)
    quotient = b.sdiv(x, divisor)
    rest = b.sub(x, b.mul(quotient, divisor))
    below = b.and_(b.icmp_signed("!=", rest, zero), b.icmp_signed("<", b.xor(rest, divisor), zero))
    return b.select(nothing, zero, b.sub(quotient, b.zext(below, x.type)))


def compared(op: ast.cmpop, x: Typed, y: Typed) -> Typed:
    """A comparison. Raises Unsuited."""
    sign = COMPARED.get(type(op))
    real, whole = _floating(x, y), _whole(x, y)
    if sign is None:
        raise Unsuited(type(op).__name__)
    if real is not None:
        ordered = "fcmp_unordered" if sign == "!=" else "fcmp_ordered"
        return _both(x, y, real, lambda b, u, v: getattr(b, ordered)(sign, u, v), types.boolean)
    if x.kind == y.kind == types.boolean and sign in ("==", "!="):
        return _both(x, y, x.kind, lambda b, u, v: b.icmp_unsigned(sign, u, v))
    if whole is None or x.kind.signed != y.kind.signed:
        raise Unsuited(f"{sign} of {x.kind}, {y.kind}")
    compare = "icmp_signed" if whole.signed else "icmp_unsigned"
    return _both(x, y, whole, lambda b, u, v: getattr(b, compare)(sign, u, v), types.boolean)


def unary(op: ast.unaryop, x: Typed) -> Typed:
    """op x. Raises Unsuited."""
    if isinstance(op, ast.USub) and isinstance(x.kind, types.Float):
        return Typed(x.kind, lambda frame: frame.builder.fsub(ir.Constant(llvm_type(x.kind), -0.0), x.emit(frame)))
    if isinstance(op, ast.USub) and isinstance(x.kind, types.Integer) and x.kind.signed:
        wide = Typed(types.int64, lambda frame: frame.unit.cast(x.emit(frame), x.kind, types.int64))
        return _both(constant(0), wide, types.int64, lambda b, u, v: b.sub(u, v))
    if isinstance(op, ast.Not) and x.kind == types.boolean:
        return Typed(x.kind, lambda frame: frame.builder.xor(x.emit(frame), I1(1)))
    raise Unsuited(type(op).__name__)
