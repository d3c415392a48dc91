"""Error location and recovery: the source span of each error, and several errors of one program as one."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from ..config import Limits
from ..errors import FusedslError, LimitError
from ..ir.builder import GraphBuilder
from ..ir.checks import require_size
from ..ir.graph import Node, Site
from .environment import ERROR_VALUE, Environment, ErrorValue, find_literal, inline_trail, operand_name, source_span
from .syntax_tree import Assign, Definition, Sequence

MOST_FAULTS = 16  # errors of one text: each may search all names for a suggestion


class TooManyErrors(Exception):
    """The program has MOST_FAULTS errors: evaluation stops."""


def _item_expression(expression: Any, item: int | None) -> Any:
    """The expression of an item, if the sequence is written out in the program; else the whole expression."""
    is_literal_item = isinstance(expression, Sequence) and item is not None and item < len(expression.items)
    return expression.items[item] if is_literal_item else expression


class Faults:
    """Error locations of an evaluation on a builder."""

    def __init__(self, builder: GraphBuilder, text: str | None):
        self.builder = builder
        self.text = text
        self.python_site = Site()  # the location of a call from Python
        self.faults: list[FusedslError] | None = None  # recorded errors; None: the first error ends the evaluation

    @contextmanager
    def at(self, env: Environment, node: Any, caret: int, operands: tuple = (), own: bool = True):
        """Attribute the checks and errors of this block to `node`.

        An error that names an operand (and an item of it) points at that operand if `own`, else at the caret.
        """
        span, at = source_span(env, node, caret)
        within = inline_trail(env, node)
        self.builder.site = self.python_site if span is None else Site(self.text, span, at, within)
        self.builder.find_site = partial(self._site_of, self.builder.site, env, operands)
        self.builder.names = tuple(operand_name(env, o) for o in operands)
        try:
            yield
        except FusedslError as error:
            if self.text is not None and error.text not in (None, self.text):  # located already, in a nested expression
                raise
            k = getattr(error, "operand", None)
            if k is not None and (own or k < 0):
                error.span, error.caret = self._operand_span(error, k, env, operands, (span, at))
                error.operand = None  # type: ignore[attr-defined]
            elif error.span is None:
                error.span, error.caret = span, at
            error.inside = error.inside or within
            raise

    def _site_of(self, otherwise: Site, env: Environment, operands: tuple, k: int, item: int | None) -> Site:
        """The site of an operand (or an item of it); `otherwise`, the operation's site, if the operand has none."""
        if k >= len(operands) or operands[k] is None:
            return otherwise
        span, at = source_span(env, expression := _item_expression(operands[k], item), expression.span[0])
        return otherwise if span is None else replace(otherwise, span=span, caret=at)

    def _operand_span(self, error, k: int, env: Environment, operands: tuple, otherwise):
        if k < 0:
            at: Environment | None = env
            while at is not None:  # the literal may be an argument of the inlined call
                literal = find_literal(operands, getattr(error, "value", None))
                if literal is not None:
                    return source_span(at, literal, literal.span[0])
                operands, at = tuple(at.arguments.values()), at.parent
            return otherwise
        if k >= len(operands) or operands[k] is None:
            return otherwise
        expression = _item_expression(operands[k], getattr(error, "item", None))
        return source_span(env, expression, expression.span[0])

    def fault(self, error: FusedslError, env: Environment, node, caret: int | None = None) -> FusedslError:
        """The error, located at a node of the program."""
        error.inside = inline_trail(env, node)
        error.span, error.caret = source_span(env, node, node.span[0] if caret is None else caret)
        return error

    def record(self, error: FusedslError) -> None:
        assert self.faults is not None
        self.faults.append(error)
        if len(self.faults) == MOST_FAULTS:
            raise TooManyErrors

    def combined_error(self) -> FusedslError:
        """The first error of the program, with the others in `.others`, deduplicated by location and by cause."""
        assert self.faults
        ordered = sorted(self.faults, key=lambda error: error.caret or 0)
        locations, causes, errors = set(), set(), []
        for error in ordered:
            error.text = error.text or self.text
            if (error.span, error.caret) not in locations and (error.message, error.inside) not in causes:
                errors.append(error)
            locations.add((error.span, error.caret))
            causes.update([(error.message, error.inside)] if error.inside else [])
        errors[0].others = tuple(errors[1:])
        return errors[0]

    @contextmanager
    def recording_errors(self, env: Environment, statement):
        """Record a statement's error, and set its targets to ERROR_VALUE, so that evaluation can continue."""
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
            env.values.update((target.name, ERROR_VALUE) for target in statement.targets)
        elif isinstance(statement, Definition):
            env.functions = {**env.functions, statement.name: ERROR_VALUE}


class EvaluatorBase(Faults):
    """The evaluator as calls see it: it evaluates an argument, and checks the rank of a result."""

    def __init__(self, builder: GraphBuilder, text: str | None, limits: Limits):
        super().__init__(builder, text)
        self.limits = limits
        self.defined: tuple[str, ...] = ()  # the functions of the program, above or below the call

    def evaluate(self, expression: Any, env: Environment) -> Any:
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
                "limit.dimensions",
                help="reshape some axes into one",
            )
        return x
