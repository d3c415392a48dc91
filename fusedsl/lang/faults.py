"""The faults of a text: the place that each belongs to, and how several of one text are gathered."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from ..config import Limits
from ..errors import FusedslError, LimitError
from ..ir.builder import Builder
from ..ir.checks import require_size
from ..ir.graph import Node, Site
from .environment import ERROR_VALUE, Environment, ErrorValue, find_literal, inline_trail, operand_name, source_span
from .syntax import Assign, Definition, Sequence

MOST_FAULTS = 16  # of one text: each may search all names for the one that was meant


class TooManyErrors(Exception):
    """The text has more faults than anyone wants to read."""


def _item(expression: Any, item: int | None) -> Any:
    """An item of a sequence that the text spells out, else the whole."""
    spelled = isinstance(expression, Sequence) and item is not None and item < len(expression.items)
    return expression.items[item] if spelled else expression


class Faults:
    """What an evaluation of syntax on a builder knows of places."""

    def __init__(self, builder: Builder, text: str | None):
        self.builder = builder
        self.text = text
        self.python_site = Site()  # where a call from Python stands
        self.faults: list[FusedslError] | None = None  # of a text, gathered; None: the first one ends the evaluation

    @contextmanager
    def at(self, frame: Environment, node: Any, caret: int, operands: tuple = (), own: bool = True):
        """What is built inside belongs to `node`: checks remember the place, and faults are given it.

        Faults name an operand (and an item of it); with `own` they point at that operand, else at the caret.
        """
        span, at = source_span(frame, node, caret)
        within = inline_trail(frame, node)
        self.builder.site = self.python_site if span is None else Site(self.text, span, at, within)
        self.builder.find_site = partial(self._site_of, self.builder.site, frame, operands)
        self.builder.names = tuple(operand_name(frame, o) for o in operands)
        try:
            yield
        except FusedslError as error:
            if self.text is not None and error.text not in (None, self.text):  # drawn already, in a text inside
                raise
            k = getattr(error, "operand", None)
            if k is not None and (own or k < 0):
                error.span, error.caret = self._operand_span(error, k, frame, operands, (span, at))
                error.operand = None  # type: ignore[attr-defined]
            elif error.span is None:
                error.span, error.caret = span, at
            error.inside = error.inside or within
            raise

    def _site_of(self, otherwise: Site, frame: Environment, operands: tuple, k: int, item: int | None) -> Site:
        """Where an operand (or an item of it) stands, where the operation itself stands `otherwise`."""
        if k >= len(operands) or operands[k] is None:
            return otherwise
        span, at = source_span(frame, expression := _item(operands[k], item), expression.span[0])
        return otherwise if span is None else replace(otherwise, span=span, caret=at)

    def _operand_span(self, error, k: int, frame: Environment, operands: tuple, otherwise):
        if k < 0:
            at: Environment | None = frame
            while at is not None:  # the literal may be an argument of the call that is inlined here
                literal = find_literal(operands, getattr(error, "value", None))
                if literal is not None:
                    return source_span(at, literal, literal.span[0])
                operands, at = tuple(at.arguments.values()), at.parent
            return otherwise
        if k >= len(operands) or operands[k] is None:
            return otherwise
        expression = _item(operands[k], getattr(error, "item", None))
        return source_span(frame, expression, expression.span[0])

    def fault(self, error: FusedslError, frame: Environment, node, caret: int | None = None) -> FusedslError:
        """The error, placed at a node of the text."""
        error.inside = inline_trail(frame, node)
        error.span, error.caret = source_span(frame, node, node.span[0] if caret is None else caret)
        return error

    def record(self, error: FusedslError) -> None:
        assert self.faults is not None
        self.faults.append(error)
        if len(self.faults) == MOST_FAULTS:
            raise TooManyErrors

    def combined_error(self) -> FusedslError:
        """The first fault of the text, with the others: one for each place and each cause."""
        assert self.faults
        ordered = sorted(self.faults, key=lambda error: error.caret or 0)
        places, causes, kept = set(), set(), []
        for error in ordered:
            error.text = error.text or self.text
            if (error.span, error.caret) not in places and (error.message, error.inside) not in causes:
                kept.append(error)
            places.add((error.span, error.caret))
            causes.update([(error.message, error.inside)] if error.inside else [])
        kept[0].others = tuple(kept[1:])
        return kept[0]

    @contextmanager
    def recording_errors(self, frame: Environment, statement):
        """Keep a statement's fault, and mark what it would have assigned, so that the others are still examined."""
        try:
            yield
            return
        except ErrorValue:
            pass
        except LimitError as error:
            error.text = error.text or self.text
            raise
        except FusedslError as error:
            self.record(error)
        if isinstance(statement, Assign):
            frame.values.update((target.name, ERROR_VALUE) for target in statement.targets)
        elif isinstance(statement, Definition):
            frame.functions = {**frame.functions, statement.name: ERROR_VALUE}


class EvaluatorBase(Faults):
    """The evaluator as calls see it: it evaluates an argument, and checks the rank of a result."""

    def __init__(self, builder: Builder, text: str | None, limits: Limits):
        super().__init__(builder, text)
        self.limits = limits
        self.defined: tuple[str, ...] = ()  # the functions of the text, above or below the call

    def evaluate(self, expression: Any, frame: Environment) -> Any:
        """The value of an expression."""
        raise NotImplementedError

    def check_rank(self, x: Any) -> Any:
        """`x`; LimitError if it has more axes than the limit, or more elements than any device can compute."""
        if not isinstance(x, Node):
            return x
        require_size(x.type, self.builder.extents)
        if x.type.rank > self.limits.dimensions:
            raise LimitError(
                f"{x.type.rank} axes are more than {self.limits.dimensions}",
                code="limit.dimensions",
                help="reshape some axes into one",
            )
        return x
