"""Evaluator of programs: the syntax tree to graph nodes, with located errors."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any

from ..config import Limits
from ..errors import ArgumentError, FusedslError, LimitError, UnknownNameError
from ..ir import gathers, shapes
from ..ir import graph as ir
from ..ir.builder import GraphBuilder
from ..ir.checks import explain, holds
from ..ir.contraction import matmul
from ..ir.types import BOOL, DTYPES
from . import calls, parameter_kinds
from .array_functions import matrix_transpose, positive
from .environment import ERROR_VALUE, Environment, ErrorValue, UserFunction, inline_trail, source_span
from .error_cascade import root_causes
from .faults import EvaluatorBase, TooManyErrors
from .hints import value_hint
from .syntax import (
    Assign,
    Attribute,
    BinaryOp,
    CallArgument,
    CallExpr,
    Compare,
    Conditional,
    Definition,
    Expr,
    Literal,
    Name,
    ParsedText,
    Sequence,
    Slice,
    Subscript,
    UnaryOp,
    postorder,
)

OPERATORS = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide", "%": "remainder",
    "**": "power", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "<<": "left_shift", ">>": "right_shift",
    "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal", "!=": "not_equal",
}  # fmt: skip
Visit = Generator[tuple[Any, Environment], Any, Any]


class TextEvaluator(EvaluatorBase):
    """Evaluates a syntax tree on a builder.

    Values are nodes, None, strings, dtypes, and tuples of them. Each visit method is a generator that yields the
    (expression, environment) whose value it needs next; `evaluate` runs them on an explicit stack, so that long chains
    and deep inlining do not recurse.
    """

    def __init__(self, builder: GraphBuilder, text: str | None, limits: Limits):
        super().__init__(builder, text, limits)
        self.operations = 0

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
                explain(c, self.builder.extents) for c in self.builder.checks if not holds(c, self.builder.extents)
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

    # -- expressions

    def evaluate(self, expression: Expr, env: Environment) -> Any:
        """The value of an expression; ERROR_VALUE if it has an error and errors are recorded."""
        stack: list[Visit] = []
        request: tuple[Any, Environment] | None = (expression, env)
        value: Any = None
        while True:
            if request is not None:
                self._count(*request)
                stack.append(self.visit(*request))
                value, request = None, None
            try:
                request = stack[-1].send(value)
            except StopIteration as finished:
                stack.pop()
                value = finished.value
            except ErrorValue:
                stack.pop()
                value = ERROR_VALUE
            except FusedslError as error:
                if self.faults is None or isinstance(error, LimitError):
                    raise
                self.record(error)
                stack.pop()
                value = ERROR_VALUE
            if not stack:
                return value

    def visit(self, node: Any, env: Environment) -> Visit:
        """The generator that evaluates one expression."""
        return VISITS[type(node)](self, node, env)

    def _count(self, node, env: Environment) -> None:
        self.operations += not isinstance(node, (Name, Literal, CallArgument))
        if self.operations > self.limits.operations:
            raise self.fault(
                LimitError(
                    f"more than {self.limits.operations} operations",
                    "limit.operations",
                    help="cut the program in two, or raise limits={'operations': ...}",
                ),
                env,
                node,
            )

    def _literal(self, node: Literal, env: Environment) -> Visit:
        if isinstance(node.value, (int, float)):
            return self.builder.literal(node.value)
        return node.value
        yield  # a generator, as every visit

    def _name(self, node: Name, env: Environment) -> Visit:
        if node.name in env.values:
            value = env.values[node.name]
            if value is ERROR_VALUE:
                raise ErrorValue
            return value
        if node.name in DTYPES:
            return DTYPES[node.name]
        raise self._unknown_value(node, env)
        yield

    def _unknown_value(self, node: Name, env: Environment) -> FusedslError:
        hint = value_hint(node.name, env.values, env.functions) or "pass it by name, or assign it first"
        return self.fault(UnknownNameError(f"name {node.name!r} is not defined", "name.value", help=hint), env, node)

    def _sequence(self, node: Sequence, env: Environment) -> Visit:
        values = []
        for item in node.items:
            values.append((yield item, env))
        if any(value is ERROR_VALUE for value in values):
            raise ErrorValue
        return tuple(values)

    def _unary(self, node: UnaryOp, env: Environment) -> Visit:
        value = yield node.operand, env
        with self.at(env, node, node.at, (node.operand,), own=False):
            x = self._value(value, node.operand, env, node.op)
            if node.op == "+":
                return positive(self.builder, x)
            if node.op == "not":
                return self._logic(node.op, (x,))
            return self._elementwise({"-": "negative", "~": "bitwise_invert"}[node.op], x)

    def _binary(self, node: BinaryOp, env: Environment) -> Visit:
        left = yield node.left, env
        if node.op in ("and", "or") and _known(left) is (node.op == "or"):
            return left  # True or ..., False and ...
        right = yield node.right, env
        if node.op in ("and", "or") and _known(left) is not None:
            return right
        with self.at(env, node, node.at, (node.left, node.right), own=False):
            operands = (
                self._value(left, node.left, env, node.op), self._value(right, node.right, env, node.op)
            )  # fmt: skip
            if node.op == "@":
                return self.check_rank(matmul(self.builder, *operands))
            if node.op in ("and", "or"):
                return self._logic(node.op, operands)
            return self._elementwise(OPERATORS[node.op], *operands)

    def _logic(self, op: str, operands: tuple[ir.Node, ...]) -> ir.Node:
        for x in operands:
            if x.type.dtype is not BOOL:
                raise parameter_kinds.bool_hint(op, self.builder, x)
        return self._elementwise(f"logical_{op}", *operands)

    def _compare(self, node: Compare, env: Environment) -> Visit:
        result = None
        left = yield node.operands[0], env
        for op, caret, k in zip(node.ops, node.ats, range(1, len(node.operands))):
            right = yield node.operands[k], env
            if isinstance(left, str) and isinstance(right, str):
                return self.builder.literal((left == right) is (op == "=="))
            pair = (node.operands[k - 1], node.operands[k])
            with self.at(env, node, caret, pair, own=False):
                x, y = self._value(left, pair[0], env, op), self._value(right, pair[1], env, op)
                compared = self._elementwise(OPERATORS[op], x, y)
                result = compared if result is None else self._elementwise("logical_and", result, compared)
            left = right
        return result

    def _conditional(self, node: Conditional, env: Environment) -> Visit:
        condition = yield node.condition, env
        if condition is ERROR_VALUE:  # it may decide which branch is built
            raise ErrorValue
        known = _known(condition)
        if known is not None:
            return (yield (node.then if known else node.otherwise), env)
        then = yield node.then, env
        otherwise = yield node.otherwise, env
        parts = (node.condition, node.then, node.otherwise)
        with self.at(env, node, node.at, parts, own=False):
            values = [self._value(v, p, env, "if") for v, p in zip((condition, then, otherwise), parts)]
            return self._elementwise("where", *values)

    def _attribute(self, node: Attribute, env: Environment) -> Visit:
        value = yield node.value, env
        with self.at(env, node, node.at, (node.value,), own=False):
            x = self._value(value, node.value, env, f".{node.name}")
            if node.name == "T":
                return shapes.transpose(self.builder, x)
            return matrix_transpose(self.builder, x)

    def _subscript(self, node: Subscript, env: Environment) -> Visit:
        value = yield node.value, env
        key: list[Any] = []
        for index in node.indices:
            if isinstance(index, Slice):
                bounds = []
                for part in (index.start, index.stop, index.step):
                    bounds.append(None if part is None else calls.bound(self, (yield part, env), part, env))
                key.append(slice(*bounds))
            elif isinstance(index, Literal) and index.value is ...:
                key.append(...)
            else:
                key.append(calls.position(self, (yield index, env), index, env))
        if value is ERROR_VALUE:
            raise ErrorValue
        if isinstance(value, tuple):
            return calls.tuple_item(self, value, key, node, env)
        with self.at(env, node, node.at, node.indices):
            sites = [
                ir.Site(self.text, *source_span(env, index, index.span[0]), inline_trail(env, node))
                for index in node.indices
            ]
            x = self._value(value, node.value, env, "[ ]")
            return self.check_rank(gathers.index(self.builder, x, tuple(key), sites))

    def _call(self, node: CallExpr, env: Environment) -> Visit:
        return (yield from calls.call(self, node, env))

    # -- nodes

    def _elementwise(self, name: str, *operands: ir.Node) -> ir.Node:
        return self.check_rank(self.builder.elementwise(name, *operands))

    def _value(self, value: Any, expression: Expr, env: Environment, op: str) -> ir.Node:
        """An operand as a node; ArgumentError if it is no array or number."""
        if value is ERROR_VALUE:
            raise ErrorValue
        try:
            return parameter_kinds.array(self.builder, op, value)
        except ArgumentError as error:
            raise self.fault(error, env, expression) from None


def _known(value: Any) -> bool | None:
    """The value of a bool known at build time; else None."""
    if isinstance(value, bool):
        return value
    if isinstance(value, ir.Node) and value.op == "const" and value.type.dtype is BOOL:
        return bool(ir.value_of(value))
    return None


VISITS: dict[type, Callable[[TextEvaluator, Any, Environment], Visit]] = {
    Literal: TextEvaluator._literal,
    Name: TextEvaluator._name,
    Sequence: TextEvaluator._sequence,
    UnaryOp: TextEvaluator._unary,
    BinaryOp: TextEvaluator._binary,
    Compare: TextEvaluator._compare,
    Conditional: TextEvaluator._conditional,
    Attribute: TextEvaluator._attribute,
    Subscript: TextEvaluator._subscript,
    CallExpr: TextEvaluator._call,
}
