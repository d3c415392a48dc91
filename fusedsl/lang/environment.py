"""Environments of evaluation: names in scope, and the mapping of positions in inlined bodies to the user's program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .syntax_tree import CallExpr, Definition, Expr, Literal, Name, Span, UnaryOp, postorder

MOST_SHOWN = 60  # characters of an inlined expression that an error shows
MOST_TRAIL = 4  # nested calls that an error shows


class ErrorValue(Exception):
    """An error value was read: evaluation stops without a new error, since an earlier one is recorded."""


ERROR_VALUE: Any = object()  # the value of an expression or name with a recorded error


@dataclass(frozen=True, eq=False)
class UserFunction:
    """A function of the program: a closure over values and functions in scope at its definition."""

    definition: Definition
    values: Mapping[str, Any]
    functions: Mapping[str, Any]
    defaults: Mapping[str, Any]
    source: str  # the program that holds the definition


@dataclass(eq=False)
class Environment:
    """The names in scope of an expression. An inlined body has an environment of its own, with `call` in `parent`.

    A call from Python sets only `values` and `functions`.
    """

    values: dict[str, Any]
    functions: Mapping[str, Any] = field(default_factory=dict)
    parent: Environment | None = None
    call: CallExpr | None = None
    arguments: Mapping[str, Expr] = field(default_factory=dict)  # parameter → its argument's expression in `parent`
    free: Mapping[str, Any] = field(default_factory=dict)  # names of the body that are no parameters
    source: str = ""  # the program that the body's spans refer to

    # The mapping to the user's program, computed once per environment, so that deep inlining stays linear.
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


def source_span(env: Environment, node, caret: int) -> tuple[Span | None, int | None]:
    """(span, caret) of a node in the user's program; for an inlined node, of its argument or the call."""
    if env.parent is None:
        return node.span, caret
    if isinstance(node, Name) and node.name in env.argument_spans:
        return env.argument_spans[node.name]
    return env.call_span


def inline_trail(env: Environment, node) -> tuple[str, ...]:
    """The chain of inlined expressions from the user's program to a node, outermost first."""
    if env.parent is None or not env.source:
        return ()
    shown = " ".join(env.source[node.span[0] : min(node.span[1], node.span[0] + 2 * MOST_SHOWN)].split())
    shown = shown if len(shown) <= MOST_SHOWN else f"{shown[: MOST_SHOWN - 3]}..."
    return (*env.inline_trail, f"{env.name}: {shown}")[-MOST_TRAIL:]


def operand_name(env: Environment, expression: Any) -> str:
    """The operand's name in the user's program; empty if the operand is no plain name."""
    if not isinstance(expression, Name):
        return ""
    if env.parent is None or expression.name in env.free:
        return expression.name
    return env.argument_names.get(expression.name, "")


def find_literal(operands: tuple, value: Any) -> Expr | None:
    """The literal with this value among the operands' subexpressions; else None."""
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
