"""Evaluates syntax on a builder: expressions to nodes, statements to names, and every fault to its place."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any

from ..config import Limits
from ..errors import ArgumentError, FusedslError, LimitError, UnknownNameError
from ..ir import gathers, shapes
from ..ir import graph as ir
from ..ir.builder import Builder
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
    """Evaluates syntax on a builder.

    Values are nodes, None, strings, dtypes, and tuples of them. Each `_visit` method is a generator that yields the
    (expression, frame) whose value it needs next; `evaluate` drives them on a stack of its own, so that neither
    long chains nor deep inlining recurse.
    """

    def __init__(self, builder: Builder, text: str | None, limits: Limits):
        super().__init__(builder, text, limits)
        self.operations = 0

    # -- statements

    def program(
        self,
        program: ParsedText,
        constants: Mapping[str, Any],
        values: Mapping[str, ir.Node] | None = None,
    ) -> list[ir.Node]:
        """The results of a whole text, for the builder's parameters, or for these values."""
        given = {p.name: self.builder.parameter(k) for k, p in enumerate(self.builder.parameters)}
        frame = Environment(given if values is None else dict(values))
        frame.values.update((name, self._constant(value)) for name, value in constants.items())
        return self.texts(program, frame)

    def _constant(self, value: Any) -> Any:
        """What a literal of this value is."""
        if isinstance(value, tuple):
            return tuple(map(self._constant, value))
        return value if value is None or isinstance(value, str) else self.builder.literal(value)

    def texts(self, program: ParsedText, frame: Environment) -> list[ir.Node]:
        """The results of a text that sees these names."""
        self.faults, self.defined = [], tuple(definition.name for definition in program.functions)
        results: list[ir.Node] = []
        with suppress(TooManyErrors):
            results = self._statements(program, frame)
        if self.faults:
            broken = (
                explain(c, self.builder.extents) for c in self.builder.checks if not holds(c, self.builder.extents)
            )
            self.faults += root_causes(self.text or "", list(broken), self.faults)
            raise self.combined_error()
        return results

    def _statements(self, program: ParsedText, frame: Environment) -> list[ir.Node]:
        """The results of the statements in order, with every fault gathered."""
        for statement in program.statements:
            with self.recording_errors(frame, statement):
                if isinstance(statement, Definition):
                    frame.functions = {**frame.functions, statement.name: self._define(statement, frame)}
                else:
                    self._assign(statement, frame)
        results: list[ir.Node] = []
        for expression in program.results:
            with self.recording_errors(frame, expression):
                results += self._result(expression, frame)
        return results

    def _define(self, definition: Definition, frame: Environment) -> UserFunction:
        """A function of the text, with the values that its free names have here."""
        own = {p.name for p in definition.parameters}
        bound = {}
        for part in postorder(definition.body):
            if isinstance(part, CallExpr):
                calls.check_known(self, part, frame)
            if isinstance(part, Name) and part.name not in own and part.name not in bound:
                if part.name not in frame.values and part.name not in DTYPES:
                    raise self._unknown_value(part, frame)
                if part.name in frame.values:
                    bound[part.name] = frame.values[part.name]
        defaults = {p.name: self.evaluate(p.default, frame) for p in definition.parameters if p.default is not None}
        return UserFunction(definition, bound, frame.functions, defaults, self.text or "")

    def _assign(self, statement: Assign, frame: Environment) -> None:
        value = self.evaluate(statement.value, frame)
        if value is ERROR_VALUE:
            raise ErrorValue
        if len(statement.targets) == 1:
            frame.values[statement.targets[0].name] = value
            return
        count = len(value) if isinstance(value, tuple) else 1
        if count != len(statement.targets):
            raise ArgumentError(
                f"{len(statement.targets)} names for {count} result{'s' * (count != 1)}",
                code="argument.results",
                span=statement.span,
                caret=statement.value.span[0],
                help="only a function with several results, or shape(x), fills several names",
            )
        frame.values.update((target.name, part) for target, part in zip(statement.targets, value))

    def _result(self, expression: Expr, frame: Environment) -> list[ir.Node]:
        value = self.evaluate(expression, frame)
        if value is ERROR_VALUE:
            raise ErrorValue
        parts = value if isinstance(value, tuple) else (value,)
        nodes = []
        for part in parts:
            with self.at(frame, expression, expression.span[0], (expression,)):
                if not isinstance(part, ir.Node):
                    message = f"a result is an array or a number, not {parameter_kinds.show_value(part)}"
                    raise ArgumentError(message, code="argument.kind", help="return an expression of the arguments")
                nodes.append(self.check_rank(self.builder.strong(part)))
        return nodes

    # -- expressions

    def evaluate(self, expression: Expr, frame: Environment) -> Any:
        """The value of an expression; BROKEN where faults are gathered and it has one."""
        stack: list[Visit] = []
        request: tuple[Any, Environment] | None = (expression, frame)
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

    def visit(self, node: Any, frame: Environment) -> Visit:
        """What finds the value of one expression."""
        return VISITS[type(node)](self, node, frame)

    def _count(self, node, frame: Environment) -> None:
        self.operations += not isinstance(node, (Name, Literal, CallArgument))
        if self.operations > self.limits.operations:
            raise self.fault(
                LimitError(
                    f"more than {self.limits.operations} operations",
                    code="limit.operations",
                    help="cut the text in two, or raise limits={'operations': ...}",
                ),
                frame,
                node,
            )

    def _literal(self, node: Literal, frame: Environment) -> Visit:
        if isinstance(node.value, (int, float)):
            return self.builder.literal(node.value)
        return node.value
        yield  # a generator, as every visit

    def _name(self, node: Name, frame: Environment) -> Visit:
        if node.name in frame.values:
            value = frame.values[node.name]
            if value is ERROR_VALUE:
                raise ErrorValue
            return value
        if node.name in DTYPES:
            return DTYPES[node.name]
        raise self._unknown_value(node, frame)
        yield

    def _unknown_value(self, node: Name, frame: Environment) -> FusedslError:
        hint = value_hint(node.name, frame.values, frame.functions) or "pass it by name, or assign it first"
        return self.fault(UnknownNameError(f"nothing is called {node.name}", "name.value", help=hint), frame, node)

    def _sequence(self, node: Sequence, frame: Environment) -> Visit:
        values = []
        for item in node.items:
            values.append((yield item, frame))
        if any(value is ERROR_VALUE for value in values):
            raise ErrorValue
        return tuple(values)

    def _unary(self, node: UnaryOp, frame: Environment) -> Visit:
        value = yield node.operand, frame
        with self.at(frame, node, node.at, (node.operand,), own=False):
            x = self._value(value, node.operand, frame, node.op)
            if node.op == "+":
                return positive(self.builder, x)
            if node.op == "not":
                return self._logic(node.op, (x,))
            return self._elementwise({"-": "negative", "~": "bitwise_invert"}[node.op], x)

    def _binary(self, node: BinaryOp, frame: Environment) -> Visit:
        left = yield node.left, frame
        if node.op in ("and", "or") and _known(left) is (node.op == "or"):
            return left  # True or ..., False and ...
        right = yield node.right, frame
        if node.op in ("and", "or") and _known(left) is not None:
            return right
        with self.at(frame, node, node.at, (node.left, node.right), own=False):
            operands = (
                self._value(left, node.left, frame, node.op), self._value(right, node.right, frame, node.op)
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

    def _compare(self, node: Compare, frame: Environment) -> Visit:
        result = None
        left = yield node.operands[0], frame
        for op, caret, k in zip(node.ops, node.ats, range(1, len(node.operands))):
            right = yield node.operands[k], frame
            if isinstance(left, str) and isinstance(right, str):
                return self.builder.literal((left == right) is (op == "=="))
            pair = (node.operands[k - 1], node.operands[k])
            with self.at(frame, node, caret, pair, own=False):
                x, y = self._value(left, pair[0], frame, op), self._value(right, pair[1], frame, op)
                compared = self._elementwise(OPERATORS[op], x, y)
                result = compared if result is None else self._elementwise("logical_and", result, compared)
            left = right
        return result

    def _conditional(self, node: Conditional, frame: Environment) -> Visit:
        condition = yield node.condition, frame
        if condition is ERROR_VALUE:  # it may have been what decides which branch is built
            raise ErrorValue
        known = _known(condition)
        if known is not None:
            return (yield (node.then if known else node.otherwise), frame)
        then = yield node.then, frame
        otherwise = yield node.otherwise, frame
        parts = (node.condition, node.then, node.otherwise)
        with self.at(frame, node, node.at, parts, own=False):
            values = [self._value(v, p, frame, "if") for v, p in zip((condition, then, otherwise), parts)]
            return self._elementwise("where", *values)

    def _attribute(self, node: Attribute, frame: Environment) -> Visit:
        value = yield node.value, frame
        with self.at(frame, node, node.at, (node.value,), own=False):
            x = self._value(value, node.value, frame, f".{node.name}")
            if node.name == "T":
                return shapes.transpose(self.builder, x)
            return matrix_transpose(self.builder, x)

    def _subscript(self, node: Subscript, frame: Environment) -> Visit:
        value = yield node.value, frame
        key: list[Any] = []
        for index in node.indices:
            if isinstance(index, Slice):
                bounds = []
                for part in (index.start, index.stop, index.step):
                    bounds.append(None if part is None else calls.bound(self, (yield part, frame), part, frame))
                key.append(slice(*bounds))
            elif isinstance(index, Literal) and index.value is ...:
                key.append(...)
            else:
                key.append(calls.position(self, (yield index, frame), index, frame))
        if value is ERROR_VALUE:
            raise ErrorValue
        if isinstance(value, tuple):
            return calls.tuple_item(self, value, key, node, frame)
        with self.at(frame, node, node.at, node.indices):
            sites = [
                ir.Site(self.text, *source_span(frame, index, index.span[0]), inline_trail(frame, node))
                for index in node.indices
            ]
            x = self._value(value, node.value, frame, "[ ]")
            return self.check_rank(gathers.index(self.builder, x, tuple(key), sites))

    def _call(self, node: CallExpr, frame: Environment) -> Visit:
        return (yield from calls.call(self, node, frame))

    # -- nodes

    def _elementwise(self, name: str, *operands: ir.Node) -> ir.Node:
        return self.check_rank(self.builder.elementwise(name, *operands))

    def _value(self, value: Any, expression: Expr, frame: Environment, op: str) -> ir.Node:
        """An operand, which must be an array or a number."""
        if value is ERROR_VALUE:
            raise ErrorValue
        try:
            return parameter_kinds.array(self.builder, op, value)
        except ArgumentError as error:
            raise self.fault(error, frame, expression) from None


def _known(value: Any) -> bool | None:
    """The bool that a value is at build time, if it is one."""
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
