"""Where evaluation stands: the names in force, and how a place in an inlined body leads back to the user's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .syntax import Call, Definition, Expr, Name, Span


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
