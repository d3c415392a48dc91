"""Evaluator of statements: assignments, functions and results of a program to graph nodes, with located errors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..errors import ArgumentError
from ..ir import graph as ir
from ..ir.checks import holds, shape_error
from ..ir.types import DTYPES
from . import calls, parameter_kinds
from .environment import ERROR_VALUE, Environment, ErrorValue, UserFunction
from .error_cascade import root_causes
from .error_recovery import TooManyErrors
from .evaluate_expression import ExpressionEvaluator
from .syntax_tree import Assign, CallExpr, Definition, Expr, Name, ParsedText, postorder


class TextEvaluator(ExpressionEvaluator):
    """Evaluates a syntax tree on a builder.

    Values are nodes, None, strings, dtypes, and tuples of them. Each visit method is a generator that yields the
    (expression, environment) whose value it needs next; `evaluate` runs them on an explicit stack, so that long chains
    and deep inlining do not recurse.
    """

    # -- statements

    def program(
        self, program: ParsedText, constants: Mapping[str, Any], values: Mapping[str, ir.Node] | None = None
    ) -> list[ir.Node]:
        """The results of a program, for the builder's parameters, or for these values."""
        given = {p.name: self.builder.parameter(k) for k, p in enumerate(self.builder.parameters)}
        env = Environment(given if values is None else dict(values))
        env.values.update((name, self._constant(value)) for name, value in constants.items())
        return self.texts(program, env)

    def _constant(self, value: Any) -> Any:
        """The node or value of a literal."""
        if isinstance(value, tuple):
            return tuple(map(self._constant, value))
        return value if value is None or isinstance(value, str) else self.builder.literal(value)

    def texts(self, program: ParsedText, env: Environment) -> list[ir.Node]:
        """The results of a program in an environment; raises all errors of the program as one."""
        self.faults, self.defined = [], tuple(definition.name for definition in program.functions)
        results: list[ir.Node] = []
        with suppress(TooManyErrors):
            results = self._statements(program, env)
        if self.faults:
            broken = (
                shape_error(c, self.builder.extents) for c in self.builder.checks if not holds(c, self.builder.extents)
            )
            self.faults += root_causes(self.text or "", list(broken), self.faults)
            raise self.combined_error()
        return results

    def _statements(self, program: ParsedText, env: Environment) -> list[ir.Node]:
        """The results of the statements in order; errors are recorded."""
        for statement in program.statements:
            with self.recording_errors(env, statement):
                if isinstance(statement, Definition):
                    env.functions = {**env.functions, statement.name: self._define(statement, env)}
                else:
                    self._assign(statement, env)
        results: list[ir.Node] = []
        for expression in program.results:
            with self.recording_errors(env, expression):
                results += self._result(expression, env)
        return results

    def _define(self, definition: Definition, env: Environment) -> UserFunction:
        """A function definition, closed over the current values of its free names."""
        own = {p.name for p in definition.parameters}
        bound = {}
        for part in postorder(definition.body):
            if isinstance(part, CallExpr):
                calls.check_known(self, part, env)
            if isinstance(part, Name) and part.name not in own and part.name not in bound:
                if part.name not in env.values and part.name not in DTYPES:
                    raise self._unknown_value(part, env)
                if part.name in env.values:
                    bound[part.name] = env.values[part.name]
        defaults = {p.name: self.evaluate(p.default, env) for p in definition.parameters if p.default is not None}
        return UserFunction(definition, bound, env.functions, defaults, self.text or "")

    def _assign(self, statement: Assign, env: Environment) -> None:
        value = self.evaluate(statement.value, env)
        if value is ERROR_VALUE:
            raise ErrorValue
        if len(statement.targets) == 1:
            env.values[statement.targets[0].name] = value
            return
        count = len(value) if isinstance(value, tuple) else 1
        if count != len(statement.targets):
            raise ArgumentError(
                f"{len(statement.targets)} names for {count} result{'s' * (count != 1)}",
                "argument.results",
                span=statement.span,
                caret=statement.value.span[0],
                help="only a function with several results, or shape(x), fills several names",
            )
        env.values.update((target.name, part) for target, part in zip(statement.targets, value))

    def _result(self, expression: Expr, env: Environment) -> list[ir.Node]:
        value = self.evaluate(expression, env)
        if value is ERROR_VALUE:
            raise ErrorValue
        parts = value if isinstance(value, tuple) else (value,)
        nodes = []
        for part in parts:
            with self.at(env, expression, expression.span[0], (expression,)):
                if not isinstance(part, ir.Node):
                    message = f"a result is an array or a number, not {parameter_kinds.show_value(part)}"
                    raise ArgumentError(message, "argument.kind", help="return an expression of the arguments")
                nodes.append(self.check_rank(self.builder.strong(part)))
        return nodes
