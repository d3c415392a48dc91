"""Numbers of generated files: what holds them, how they turn into each other, and what operators make of them.

All as Numba has it: integers widen to 64 bits, of which signed ones do not overflow; literals are int64 and float64.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..numba_backend import I1, ir, types
from .values import Frame, UnsupportedForm, llvm_type

Step = Callable[[Frame], None]
"""Writes one statement."""
Kinds = dict[str, types.Type]
"""The types of the names that have a value."""
ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
BITS = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@dataclass(frozen=True)
class Typed:
    """An expression: its type, and what writes it."""

    kind: types.Type
    emit: Callable[[Frame], Any]


def constant(value: bool | int | float) -> Typed:
    """A literal: bool, int64 or float64."""
    kind = {bool: types.boolean, int: types.int64, float: types.float64}[type(value)]
    held = ir.Constant(llvm_type(kind), int(value) if kind == types.boolean else value)
    return Typed(kind, lambda frame: held)


# -- operators


def _both(x: Typed, y: Typed, kind: types.Type, write: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value],
          result: types.Type | None = None) -> Typed:  # fmt: skip
    """An operation on two numbers as this type has them."""

    return Typed(result or kind, lambda frame: write(frame.builder, *_as(frame, kind, x, y)))


def _as(frame: Frame, kind: types.Type, *numbers: Typed) -> list[ir.Value]:
    """Numbers as this type has them."""
    values = [x.emit(frame) for x in numbers]
    return [frame.unit.cast(value, x.kind, kind) for value, x in zip(values, numbers)]


def _whole(x: Typed, y: Typed) -> types.Type | None:
    """The type of an operation on integers: 64 bits, signed unless both are not."""
    if not isinstance(x.kind, types.Integer) or not isinstance(y.kind, types.Integer):
        return None
    return types.int64 if x.kind.signed or y.kind.signed else types.uint64


def _wider(x: Typed, y: Typed) -> types.Type:
    return max(x.kind, y.kind, key=lambda kind: kind.bitwidth)


def _floating(x: Typed, y: Typed) -> types.Type | None:
    return _wider(x, y) if isinstance(x.kind, types.Float) and isinstance(y.kind, types.Float) else None


def binary(op: ast.operator, x: Typed, y: Typed) -> Typed:
    """x op y. Raises UnsupportedForm."""
    real, whole = _floating(x, y), _whole(x, y)
    name = ARITHMETIC.get(type(op))
    if real is not None and (name or isinstance(op, ast.Div)):
        return _both(x, y, real, lambda b, u, v: getattr(b, f"f{name or 'div'}")(u, v))
    if type(op) in BITS and (whole is not None or x.kind == y.kind == types.boolean):
        return _both(x, y, whole or types.boolean, lambda b, u, v: getattr(b, BITS[type(op)])(u, v))
    if whole is None:
        raise UnsupportedForm(f"{type(op).__name__} of {x.kind}, {y.kind}")
    if name:
        flags = ["nsw"] if whole.signed else []  # 64 bits do not overflow, as Numba has it
        return _both(x, y, whole, lambda b, u, v: getattr(b, name)(u, v, flags=flags))
    if isinstance(op, (ast.LShift, ast.RShift)):
        kind = types.int64 if x.kind.signed else types.uint64
        shift = "shl" if isinstance(op, ast.LShift) else "ashr" if x.kind.signed else "lshr"
        return _both(x, y, kind, lambda b, u, v: getattr(b, shift)(u, v))
    if isinstance(op, ast.FloorDiv) and x.kind.signed and y.kind.signed:
        return Typed(whole, lambda frame: frame.floor_quotient(*_as(frame, whole, x, y)))
    raise UnsupportedForm(type(op).__name__)


def compared(op: ast.cmpop, x: Typed, y: Typed) -> Typed:
    """A comparison. Raises UnsupportedForm."""
    sign = COMPARED.get(type(op))
    real, whole = _floating(x, y), _whole(x, y)
    if sign is None:
        raise UnsupportedForm(type(op).__name__)
    if real is not None:
        ordered = "fcmp_unordered" if sign == "!=" else "fcmp_ordered"
        return _both(x, y, real, lambda b, u, v: getattr(b, ordered)(sign, u, v), types.boolean)
    if x.kind == y.kind == types.boolean and sign in ("==", "!="):
        return _both(x, y, x.kind, lambda b, u, v: b.icmp_unsigned(sign, u, v))
    if whole is None or x.kind.signed != y.kind.signed:
        raise UnsupportedForm(f"{sign} of {x.kind}, {y.kind}")
    compare = "icmp_signed" if whole.signed else "icmp_unsigned"
    kind = _wider(x, y)

    def emit(frame: Frame) -> ir.Value:
        return getattr(frame.builder, compare)(sign, *_as(frame, kind, x, y))

    return Typed(types.boolean, emit)


def extreme(name: str, x: Typed, y: Typed) -> Typed:
    """max(x, y) or min(x, y) of integers. Raises UnsupportedForm."""
    whole = _whole(x, y)
    if whole is None or x.kind.signed != y.kind.signed:
        raise UnsupportedForm(f"{name} of {x.kind}, {y.kind}")
    compare = "icmp_signed" if whole.signed else "icmp_unsigned"
    sign = ">" if name == "max" else "<"
    return _both(x, y, _wider(x, y), lambda b, u, v: b.select(getattr(b, compare)(sign, v, u), v, u))


def unary(op: ast.unaryop, x: Typed) -> Typed:
    """op x. Raises UnsupportedForm."""
    if isinstance(op, ast.USub) and isinstance(x.kind, types.Float):
        return Typed(x.kind, lambda frame: frame.builder.fsub(ir.Constant(llvm_type(x.kind), -0.0), x.emit(frame)))
    if isinstance(op, ast.USub) and isinstance(x.kind, types.Integer) and x.kind.signed:
        wide = Typed(types.int64, lambda frame: frame.unit.cast(x.emit(frame), x.kind, types.int64))
        return _both(constant(0), wide, types.int64, lambda b, u, v: b.sub(u, v))
    if isinstance(op, ast.Not) and x.kind == types.boolean:
        return Typed(x.kind, lambda frame: frame.builder.xor(x.emit(frame), I1(1)))
    raise UnsupportedForm(type(op).__name__)
