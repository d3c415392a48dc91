"""Where evaluation stands: the names in force, and how a place in an inlined body leads back to the user's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .syntax import CallExpr, Definition, Expr, Literal, Name, Span, UnaryOp, postorder

MOST_SHOWN = 60  # characters of an inner place that an error shows
MOST_TRAIL = 4  # functions called inside each other that an error names


class ErrorValue(Exception):
    """A value or function that an earlier fault left undefined was read: that fault says it all."""


ERROR_VALUE: Any = object()


@dataclass(frozen=True, eq=False)
class UserFunction:
    """A function of the text, closed over the values and functions in force where it is defined.

    `source` is the text that holds its definition.
    """

    definition: Definition
    values: Mapping[str, Any]
    functions: Mapping[str, Any]
    defaults: Mapping[str, Any]
    source: str


@dataclass(eq=False)
class Environment:
    """The names that an expression sees. An inlined body has a frame of its own, whose `call` lies in `parent`.

    `arguments` are the expressions, in `parent`, that the body's parameters stand for, `free` its names that are
    none, and `source` is the text that its spans count in. A call from Python has none of them.
    """

    values: dict[str, Any]
    functions: Mapping[str, Any] = field(default_factory=dict)
    parent: Environment | None = None
    call: CallExpr | None = None
    arguments: Mapping[str, Expr] = field(default_factory=dict)
    free: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""

    # What leads back to the user's text, found once for a frame, so that deep inlining stays linear.
    name: str = field(init=False, default="")
    inline_trail: tuple[str, ...] = field(init=False, default=())
    call_span: tuple[Span | None, int | None] = field(init=False, default=(None, None))
    argument_spans: dict[str, tuple[Span | None, int | None]] = field(init=False, default_factory=dict)
    argument_names: dict[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.parent is None or self.call is None:
            return
        private = self.call.function.startswith("_") and self.parent.name
        self.name = self.parent.name if private else self.call.function
        self.inline_trail = self.parent.inline_trail if private else inline_trail(self.parent, self.call)
        self.call_span = source_span(self.parent, self.call, self.call.function_span[0])
        for name, expression in self.arguments.items():
            self.argument_spans[name] = source_span(self.parent, expression, expression.span[0])
            self.argument_names[name] = operand_name(self.parent, expression)


def source_span(frame: Environment, node, caret: int) -> tuple[Span | None, int | None]:
    """The span and caret, in the user's text, of a node: an inlined one lies at its argument, or at the call."""
    if frame.parent is None:
        return node.span, caret
    if isinstance(node, Name) and node.name in frame.argument_spans:
        return frame.argument_spans[node.name]
    return frame.call_span


def inline_trail(frame: Environment, node) -> tuple[str, ...]:
    """The places in inlined bodies that lead from the user's text to a node, outermost first."""
    if frame.parent is None or not frame.source:
        return ()
    shown = " ".join(frame.source[node.span[0] : min(node.span[1], node.span[0] + 2 * MOST_SHOWN)].split())
    shown = shown if len(shown) <= MOST_SHOWN else f"{shown[: MOST_SHOWN - 3]}..."
    return (*frame.inline_trail, f"{frame.name}: {shown}")[-MOST_TRAIL:]


def operand_name(frame: Environment, expression: Any) -> str:
    """The name by which the text calls an operand, where it is no more than a name."""
    if not isinstance(expression, Name):
        return ""
    if frame.parent is None or expression.name in frame.free:
        return expression.name
    return frame.argument_names.get(expression.name, "")


def find_literal(operands: tuple, value: Any) -> Expr | None:
    """The literal of this value below the operands."""
    for operand in operands:
        for part in () if operand is None else postorder(operand):
            match part:
                case UnaryOp(op="-", operand=Literal(value=int() as number)) if (
                    type(number) is int and -number == value
                ):
                    return part
                case Literal(value=int() as number) if type(number) is int and number == value:
                    return part
    return None
