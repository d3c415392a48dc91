"""Builds bodies: scalar nodes as three-address Python, one operation per line, in a vocabulary that all targets share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from ...ir.graph import Node, value_of
from ...ir.ops import CASTS, OPS
from ...ir.printer import show_literal
from ...ir.types import BOOL, FLOAT16, FLOAT64, DType
from ...rewrite.fp_contract import ROUNDED
from ..phase import Body, Value

# One row per operation: its code for floats (f), integers (i) and bools (b); "{t}" is the compute dtype.
# The names are the vocabulary that each target provides. A missing column: the type rules exclude it.
_CALL = {"f": "{op}({args})", "i": "{op}({args})"}


def _infix(symbol: str) -> dict[str, str]:
    return {"f": f"{{0}} {symbol} {{1}}", "i": f"{{t}}({{0}} {symbol} {{1}})"}


def _compare(symbol: str) -> dict[str, str]:
    return dict.fromkeys("fi", f"{{0}} {symbol} {{1}}")


LINES: dict[str, dict[str, str]] = {
    "add": _infix("+") | {"b": "{0} | {1}"},
    "subtract": _infix("-"),
    "multiply": _infix("*") | {"b": "{0} & {1}"},
    "divide": {"f": "{0} / {1}"},
    "fma": {"f": "fma({0}, {1}, {2})", "i": "{t}({0} * {1} + {2})", "b": "({0} & {1}) | {2}"},
    "negative": {"f": "-{0}", "i": "negative({0})"},
    "absolute": _CALL | {"b": "{0}"},
    "sign": {"f": "sign({0})", "i": "sign({0})"},
    "less": _compare("<") | {"b": "not_({0}) & {1}"},
    "less_equal": _compare("<=") | {"b": "not_({0}) | {1}"},
    "greater": _compare(">") | {"b": "{0} & not_({1})"},
    "greater_equal": _compare(">=") | {"b": "{0} | not_({1})"},
    "equal": _compare("==") | {"b": "not_({0} ^ {1})"},
    "not_equal": _compare("!=") | {"b": "{0} ^ {1}"},
    "logical_and": {"b": "{0} & {1}"},
    "logical_or": {"b": "{0} | {1}"},
    "logical_xor": {"b": "{0} ^ {1}"},
    "logical_not": {"b": "not_({0})"},
    "bitwise_and": {"i": "{t}({0} & {1})", "b": "{0} & {1}"},
    "bitwise_or": {"i": "{t}({0} | {1})", "b": "{0} | {1}"},
    "bitwise_xor": {"i": "{t}({0} ^ {1})", "b": "{0} ^ {1}"},
    "bitwise_invert": {"i": "{t}(~{0})", "b": "not_({0})"},
    "left_shift": {"i": "shift_left({0}, {1})"},
    "right_shift": {"i": "shift_right({0}, {1})"},
    "maximum": _CALL | {"b": "{0} | {1}"},
    "minimum": _CALL | {"b": "{0} & {1}"},
    "fmax": {"f": "fmax({0}, {1})", "i": "maximum({0}, {1})", "b": "{0} | {1}"},
    "fmin": {"f": "fmin({0}, {1})", "i": "minimum({0}, {1})", "b": "{0} & {1}"},
    "where": dict.fromkeys("fib", "select({0}, {1}, {2})"),
    "isnan": {"f": "isnan({0})", "i": "False", "b": "False"},
    "isinf": {"f": "isinf({0})", "i": "False", "b": "False"},
    "isfinite": {"f": "isfinite({0})", "i": "True", "b": "True"},
    "floor": {"f": "floor({0})", "i": "{0}", "b": "{0}"},
    "ceil": {"f": "ceil({0})", "i": "{0}", "b": "{0}"},
    "trunc": {"f": "trunc({0})", "i": "{0}", "b": "{0}"},
}

ABBREVIATIONS = {
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "negative": "neg",
    "maximum": "max",
    "minimum": "min",
}


def dtype_column(d: DType) -> str:
    """The table's column for a dtype."""
    return {"f": "f", "b": "b"}.get(d.kind, "i")


def literal(n: Node) -> str:
    """A constant in the vocabulary of bodies, typed, so that nothing becomes float64."""
    value, d = value_of(n), n.type.dtype.compute
    if d is BOOL:
        return str(bool(value))
    if d.kind != "f":
        return f"{d.name}({int(value)})"
    if math.isnan(value):
        return f"{d.name}(nan)"
    if math.isinf(value):
        return f"{d.name}({'-' if value < 0 else ''}inf)"
    return f"{d.name}({float(value)!r})"


class BodyBuilder:
    """Names the values of one kernel and builds its bodies."""

    def __init__(self) -> None:
        self.names: dict[Node, str] = {}
        self.comments: dict[Node, str] = {}
        self.used: set[str] = set()

    def fresh_name(self, stem: str) -> str:
        """A new identifier: a sanitised stem and a number."""
        stem = re.sub(r"[^A-Za-z0-9_]", "", stem)[:24] or "t"
        if stem[0].isdigit() or stem[0] == "_":
            stem = "t" + stem
        k = 0
        while (name := f"{stem}_{k}") in self.used:
            k += 1
        self.used.add(name)
        return name

    def name(self, n: Node, stem: str, comment: str) -> Value:
        """Name a leaf (load, fold, scalar, position) and set its comment."""
        if n not in self.names:
            self.names[n] = self.fresh_name(stem)
            self.comments[n] = comment
        return self.value(n)

    def describe(self, n: Node, comment: str) -> None:
        """Set the comment of a value that is named when it is computed."""
        self.comments[n] = comment

    def rename(self, n: Node, other: Node) -> None:
        """Make a node an alias of another one."""
        self.names[n], self.comments[n] = self.names[other], self.comment(other)

    def value(self, n: Node) -> Value:
        """Name and compute dtype of a named node."""
        return Value(self.names[n], n.type.dtype.compute)

    def comment(self, n: Node) -> str:
        """The node as an expression of named values, at most 60 characters."""
        if n.op == "const":
            return show_literal(n)
        return self.comments.get(n, self.names.get(n, n.op))

    def body(self, args: Iterable[Node], results: Iterable[Node], known: Iterable[Node]) -> Body:
        """Straight-line code from `known` values to `results`; known values that it reads become arguments.

        `args` are always arguments, read or not.
        """
        results, known = list(results), set(known)
        order, read = _schedule(results, known)
        lines = []
        for n in order:
            if _is_alias(n):
                self.names[n] = self.names[n.args[0]]
                self.comments[n] = self.comment(n.args[0])
                continue
            if n not in self.names:
                self.names[n] = self.fresh_name(ABBREVIATIONS.get(n.op, n.op))
                self.comments.setdefault(n, self._describe(n))
            lines.append(f"{self.names[n]} = {self._line(n)}  # {self.comments[n]}")
        fixed = list(args)
        arguments = {
            self.names[n]: n for n in [*fixed, *read]
        }  # one name for a value and its change of dtype: one argument
        outputs = []
        for n in results:
            if n.op == "const":
                name = self.fresh_name("constant")
                lines.append(f"{name} = {literal(n)}")
                outputs.append(Value(name, n.type.dtype.compute))
            else:
                outputs.append(self.value(n))
        return Body(tuple(map(self.value, arguments.values())), tuple(outputs), tuple(lines))

    def _ref(self, n: Node) -> str:
        return literal(n) if n.op == "const" else self.names[n]

    def _line(self, n: Node) -> str:
        args = [self._ref(a) for a in n.args]
        if n.op in CASTS:
            return conversion(args[0], n.args[0].type.dtype, n.type.dtype, rounding=n.op == "cast")
        if n.op == "fetch":
            return f"fetch_{n.attr[2].name}({', '.join(args)})"
        if n.op == "signbit" or n.op not in LINES:
            return f"{n.op}({', '.join(args)})"
        if n.attr == ROUNDED:
            return f"mul_rn({', '.join(args)})"
        d = n.args[-1].type.dtype.compute
        return LINES[n.op][dtype_column(d)].format(*args, op=n.op, args=", ".join(args), t=d.name)

    def _describe(self, n: Node) -> str:
        parts = [self.comment(a) for a in n.args]
        if n.op in CASTS:
            text = f"{n.type.dtype}({parts[0]})"
        elif n.op == "quotient":
            text = f"{_bracket(parts[0])} / {_bracket(self.comment(n.attr))}"
        elif (symbol := OPS[n.op].symbol if n.op in OPS else None) and len(parts) == 2:
            text = " ".join((_bracket(parts[0]), symbol, _bracket(parts[1])))
        elif symbol:
            text = f"{symbol}{' ' * symbol.isalpha()}{_bracket(parts[0])}"
        else:
            text = f"{n.op}({', '.join(parts)})"
        if len(text) <= 60:
            return text
        short = [p if len(p) <= 24 else self.names.get(a, p[:20] + "...") for a, p in zip(n.args, parts)]
        return f"{n.op}({', '.join(short)})"[:60]


def _bracket(text: str) -> str:
    return f"({text})" if " " in text and not re.fullmatch(r"\w+\([^()]*\)", text) else text


def conversion(x: str, source: DType, to: DType, rounding: bool) -> str:
    """`x` converted to another dtype; a cast to a narrow float rounds to it."""
    a, b = source.compute, to.compute
    if rounding and a is FLOAT64 and to is FLOAT16:
        return f"float16_round({x})"  # via float32 it would be rounded twice
    if a is b:
        result = x
    elif b is BOOL:
        result = f"bool_({x})"
    elif a.kind == "f" and b.kind != "f":
        result = f"saturate_{b.name}({x})"
    else:
        result = f"{b.name}({x})"
    return f"{to.name}_round({result})" if rounding and b is not to else result


def _is_alias(n: Node) -> bool:
    """Whether a convert leaves the compute dtype unchanged, such as bfloat16 to float32."""
    return n.op == "convert" and n.args[0].op != "const" and n.args[0].type.dtype.compute is n.type.dtype.compute


def _schedule(results: list[Node], known: set[Node]) -> tuple[list[Node], list[Node]]:
    """Nodes to compute, operands first, and the known values that they read."""
    order: list[Node] = []
    read: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(r, False) for r in reversed(results)]
    while stack:
        n, done = stack.pop()
        if done:
            order.append(n)
            continue
        if n in seen or n.op == "const":
            continue
        seen.add(n)
        if n in known:
            read.append(n)
            continue
        stack.append((n, True))
        stack.extend((a, False) for a in reversed(n.args))
    return order, read
