"""The faults of a text: the place that each belongs to, and how several of one text are gathered."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from ..errors import FusedslError, LimitError
from ..ir.builder import GraphBuilder
from ..ir.graph import Site
from .frames import BROKEN, Broken, Frame, find_literal, inside, place, plain_name
from .syntax import Assign, Definition, Sequence

MOST_FAULTS = 16  # of one text: each may search all names for the one that was meant


class Enough(Exception):
    """The text has more faults than anyone wants to read."""


def _item(expression: Any, item: int | None) -> Any:
    """An item of a sequence that the text spells out, else the whole."""
    spelled = isinstance(expression, Sequence) and item is not None and item < len(expression.items)
    return expression.items[item] if spelled else expression


class Faults:
    """What an evaluation of syntax on a builder knows of places."""

    def __init__(self, builder: GraphBuilder, text: str | None):
        self.builder = builder
        self.text = text
        self.outside = Site()  # where a call from Python stands
        self.faults: list[FusedslError] | None = None  # of a text, gathered; None: the first one ends the evaluation

    @contextmanager
    def at(self, frame: Frame, node: Any, caret: int, operands: tuple = (), own: bool = True):
        """What is built inside belongs to `node`: checks remember the place, and faults are given it.

        Faults name an operand (and an item of it); with `own` they point at that operand, else at the caret.
        """
        span, at = place(frame, node, caret)
        within = inside(frame, node)
        self.builder.site = self.outside if span is None else Site(self.text, span, at, within)
        self.builder.find_site = partial(self._site_of, self.builder.site, frame, operands)
        self.builder.names = tuple(plain_name(frame, o) for o in operands)
        try:
            yield
        except FusedslError as error:
            if self.text is not None and error.text not in (None, self.text):  # drawn already, in a text inside
                raise
            k = getattr(error, "operand", None)
            if k is not None and (own or k < 0):
                error.span, error.caret = self._operand_place(error, k, frame, operands, (span, at))
                error.operand = None  # type: ignore[attr-defined]
            elif error.span is None:
                error.span, error.caret = span, at
            error.inside = error.inside or within
            raise

    def _site_of(self, otherwise: Site, frame: Frame, operands: tuple, k: int, item: int | None) -> Site:
        """Where an operand (or an item of it) stands, where the operation itself stands `otherwise`."""
        if k >= len(operands) or operands[k] is None:
            return otherwise
        span, at = place(frame, expression := _item(operands[k], item), expression.span[0])
        return otherwise if span is None else replace(otherwise, span=span, caret=at)

    def _operand_place(self, error, k: int, frame: Frame, operands: tuple, otherwise):
        if k < 0:
            at: Frame | None = frame
            while at is not None:  # the literal may be an argument of the call that is inlined here
                literal = find_literal(operands, getattr(error, "value", None))
                if literal is not None:
                    return place(at, literal, literal.span[0])
                operands, at = tuple(at.arguments.values()), at.parent
            return otherwise
        if k >= len(operands) or operands[k] is None:
            return otherwise
        expression = _item(operands[k], getattr(error, "item", None))
        return place(frame, expression, expression.span[0])

    def fault(self, error: FusedslError, frame: Frame, node, caret: int | None = None) -> FusedslError:
        """The error, placed at a node of the text."""
        error.inside = inside(frame, node)
        error.span, error.caret = place(frame, node, node.span[0] if caret is None else caret)
        return error

    def gather(self, error: FusedslError) -> None:
        assert self.faults is not None
        self.faults.append(error)
        if len(self.faults) == MOST_FAULTS:
            raise Enough

    def gathered(self) -> FusedslError:
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
    def gathering(self, frame: Frame, statement):
        """Keep a statement's fault, and mark what it would have assigned, so that the others are still examined."""
        try:
            yield
            return
        except Broken:
            pass
        except LimitError as error:
            error.text = error.text or self.text
            raise
        except FusedslError as error:
            self.gather(error)
        if isinstance(statement, Assign):
            frame.values.update((target.name, BROKEN) for target in statement.targets)
        elif isinstance(statement, Definition):
            frame.functions = {**frame.functions, statement.name: BROKEN}
