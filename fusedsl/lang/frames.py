"""Where evaluation stands: the names in force, and how a place in an inlined body leads back to the user's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .syntax import Call, Definition, Expr, Literal, Name, Span, Unary, postorder


class Broken(Exception):
    """A value or function that an earlier fault left undefined was read: that fault says it all."""


BROKEN: Any = object()


@dataclass(frozen=True, eq=False)
class UserFunction:
    """A function of the text, closed over the values and functions in force where it is defined."""

    definition: Definition
    values: Mapping[str, Any]
    functions: Mapping[str, Any]
    defaults: Mapping[str, Any]


@dataclass(eq=False)
class Frame:
    """The names that an expression sees. An inlined body has a frame of its own, whose `call` lies in `parent`.

    `arguments` are the expressions, in `parent`, that the body's parameters stand for. A call from Python has
    neither.
    """

    values: dict[str, Any]
    functions: Mapping[str, Any] = field(default_factory=dict)
    parent: Frame | None = None
    call: Call | None = None
    arguments: Mapping[str, Expr] = field(default_factory=dict)


def place(frame: Frame, node, caret: int) -> tuple[Span | None, int | None]:
    """The span and caret, in the user's text, of a node: an inlined one lies at its argument, or at the call."""
    span: Span | None = node.span
    while frame.parent is not None:
        if isinstance(node, Name) and node.name in frame.arguments:
            node = frame.arguments[node.name]
            span, caret = node.span, node.span[0]
        elif frame.call is None:
            return None, None
        else:
            node = frame.call
            span, caret = node.span, node.function_span[0]
        frame = frame.parent
    return span, caret


def plain_name(frame: Frame, expression: Any) -> str:
    """The name by which the text calls an operand, where it is no more than a name."""
    while isinstance(expression, Name) and frame.parent is not None:
        expression, frame = frame.arguments.get(expression.name), frame.parent
    return expression.name if isinstance(expression, Name) else ""


def find_literal(operands: tuple, value: Any) -> Expr | None:
    """The literal of this value below the operands."""
    for operand in operands:
        for part in () if operand is None else postorder(operand):
            match part:
                case Unary(op="-", operand=Literal(value=int() as number)) if type(number) is int and -number == value:
                    return part
                case Literal(value=int() as number) if type(number) is int and number == value:
                    return part
    return None
