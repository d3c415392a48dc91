"""Which expression of a traced function made which nodes: the trace records instructions, reports find their spans."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from types import CodeType
from typing import Any

from ..ir.builder import GraphBuilder
from ..ir.graph import Node

Span = tuple[int, int]  # offsets in the text of the function


class ExpressionNodes:
    """The values of a trace in order, each with the instruction of the function that was running.

    An operation in a function that it calls belongs to the call.
    """

    def __init__(self, function: Callable) -> None:
        self._function = function
        self._code: CodeType | None = getattr(inspect.unwrap(function), "__code__", None)
        self._running = -1  # an index of the function's bytecode
        self._values: list[tuple[int, Node]] = []

    def enter(self, frame: Any) -> None:
        """Values that follow belong to the instruction that runs in this frame or in a caller of it."""
        while frame is not None and frame.f_code is not self._code:
            frame = frame.f_back
        self._running = -1 if frame is None else frame.f_lasti

    def add(self, value: Node) -> None:
        """A new value of the trace."""
        if self._running >= 0 and value.args:
            self._values.append((self._running, value))

    def spans(self, builder: GraphBuilder) -> dict[Span, list[Node]]:
        """The nodes that each expression adds to those of its parts, as the builder's finished graph has them."""
        if not self._values or self._code is None:
            return {}
        finished = builder.finish([n for _, n in self._values]).results
        text = FunctionText(self._function)
        nodes_of_spans: dict[Span, list[Node]] = {}
        seen: set[Node] = set()
        for (instruction, _), value in zip(self._values, finished):
            if (span := text.span(self._code, instruction)) is not None:
                nodes_of_spans.setdefault(span, []).extend(_below(value, seen))
        return nodes_of_spans


def _below(root: Node, seen: set[Node]) -> Iterator[Node]:
    """The operations of a value that were not seen before."""
    stack = [root]
    while stack:
        n = stack.pop()
        if n not in seen and n.args:
            seen.add(n)
            yield n
            stack += n.args


class FunctionText:
    """The source of a function without its indentation, and the offsets of places of its file in it."""

    def __init__(self, function: Callable) -> None:
        try:
            lines, self._first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            lines, self._first = [f"def {getattr(function, '__name__', 'function')}(...): ..."], 0
        self.text = textwrap.dedent("".join(lines)).rstrip()
        self._lines = [line.encode() for line in self.text.splitlines(keepends=True)]
        self._indent = len(lines[0]) - len(lines[0].lstrip()) - (len(self.text) - len(self.text.lstrip()))

    def span(self, code: CodeType, instruction: int) -> Span | None:
        """The expression of an instruction; before Python 3.11 its line. None if the text lacks it."""
        if not self._first:
            return None
        start_line, end_line, start, end = _position(code, instruction)
        if start_line is None or end_line is None:
            return None
        last = self._offset(end_line, end)
        if start is None or end is None:
            line = self._line(start_line)
            start, last = self._indent + len(line) - len(line.lstrip()), self._offset(start_line, None)
        first = self._offset(start_line, start)
        return None if first is None or last is None else (first, last)

    def _line(self, number: int) -> bytes:
        k = number - self._first
        return self._lines[k] if 0 <= k < len(self._lines) else b""

    def _offset(self, number: int, column: int | None) -> int | None:
        """The offset of a column of the file, counted in bytes; None is the end of what the line holds."""
        if not (line := self._line(number)):
            return None
        before = sum(len(other.decode()) for other in self._lines[: number - self._first])
        if column is None:
            return before + len(line.decode().rstrip())
        return before + len(line[: max(0, column - self._indent)].decode(errors="ignore"))


def _position(code: CodeType, instruction: int) -> Sequence[int | None]:
    """(line, last line, column, end column) of an instruction; before Python 3.11 without columns."""
    if hasattr(code, "co_positions"):
        return next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    line = next((line for start, end, line in code.co_lines() if start <= instruction < end), None)
    return line, line, None, None
