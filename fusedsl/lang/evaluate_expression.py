"""Evaluator of expressions: a stack of generators, one for each node of the syntax tree; no recursion."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from ..config import Limits
from ..errors import ArgumentError, FusedslError, LimitError, UnknownNameError
from ..ir import gathers, shapes
from ..ir import graph as ir
from ..ir.builder import GraphBuilder
from ..ir.contraction import matmul
from ..ir.types import BOOL, DTYPES
from . import calls, parameter_kinds
from .array_functions import matrix_transpose, positive
from .environment import ERROR_VALUE, Environment, ErrorValue, inline_trail, source_span
from .error_recovery import EvaluatorBase
from .hints import value_hint
from .syntax_tree import (
    Attribute,
    BinaryOp,
    CallArgument,
    CallExpr,
    Compare,
    Conditional,
    Expr,
    Literal,
    Name,
    Sequence,
    Slice,
    Subscript,
    UnaryOp,
)

OPERATORS = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide", "%": "remainder",
    "**": "power", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "<<": "left_shift", ">>": "right_shift",
    "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal", "!=": "not_equal",
}  # fmt: skip
Visit = Generator[tuple[Any, Environment], Any, Any]


class ExpressionEvaluator(EvaluatorBase):
    """Values of expressions in an environment, with located errors."""

    def __init__(self, builder: GraphBuilder, text: str | None, limits: Limits):
        super().__init__(builder, text, limits)
        self.operations = 0

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


VISITS: dict[type, Callable[[ExpressionEvaluator, Any, Environment], Visit]] = {
    Literal: ExpressionEvaluator._literal,
    Name: ExpressionEvaluator._name,
    Sequence: ExpressionEvaluator._sequence,
    UnaryOp: ExpressionEvaluator._unary,
    BinaryOp: ExpressionEvaluator._binary,
    Compare: ExpressionEvaluator._compare,
    Conditional: ExpressionEvaluator._conditional,
    Attribute: ExpressionEvaluator._attribute,
    Subscript: ExpressionEvaluator._subscript,
    CallExpr: ExpressionEvaluator._call,
}
