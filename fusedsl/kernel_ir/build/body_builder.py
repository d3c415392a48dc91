"""Builds bodies: scalar nodes as three-address instructions, in a vocabulary that all targets share."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.graph import Node, value_of
from ...ir.ops import CASTS, OPS, ROUNDED
from ...ir.printer import bracketed, show_literal
from ...ir.types import BOOL, FLOAT16, FLOAT64, DType
from ..instruction import Constant, Instruction
from ..phase import Body, Value

ABBREVIATIONS = {
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "negative": "neg",
    "maximum": "max",
    "minimum": "min",
}

# First words of names in generated files that end like a value's: a word, and then a number or a value's name.
WORDS = """
    accumulate accumulators ahead align all at coefficients combine compute copy count edge element elements entry
    epilogue evaluate factor fallback fetch first fold full gather given group guarded hoisted identity implied index
    initial keep lift line load look map mask merge multiply narrow new no offset others output panel partial phase
    piece place pool prefetched quad quotient random ranked ranks read reduce reduction ring row saturate scan set
    slice splat spread stage start step store take tile tma totals wait widen work workspace zero
"""
GENERATED = frozenset(WORDS.split())


def stem_of(argument: str) -> str:
    """The stem of an argument's values: its name, if no name in generated files begins like it."""
    word = argument[: next((k for k, c in enumerate(argument) if not c.islower()), len(argument))]
    return f"given_{argument}" if word in GENERATED else argument


def literal(n: Node) -> Constant:
    """A constant of a graph."""
    value, d = value_of(n), n.type.dtype.compute
    if d.kind != "f":
        return Constant(d, str(bool(value) if d is BOOL else int(value)))
    return Constant(d, repr(float(value)))


class BodyBuilder:
    """Names the values of one kernel and builds its bodies."""

    def __init__(self) -> None:
        self.names: dict[Node, str] = {}
        self.comments: dict[Node, str] = {}
        self.used: set[str] = set()

    def fresh_name(self, stem: str) -> str:
        """A new identifier: a sanitised stem and a number."""
        stem = "".join(c for c in stem if c.isascii() and (c.isalnum() or c == "_"))[:24] or "t"
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
        instructions: list[Instruction] = []
        for n in order:
            if _is_alias(n):
                self.names[n] = self.names[n.args[0]]
                self.comments[n] = self.comment(n.args[0])
                continue
            if n not in self.names:
                self.names[n] = self.fresh_name(ABBREVIATIONS.get(n.op, n.op))
                self.comments.setdefault(n, self._describe(n))
            instructions.append(self._instruction(n))
        fixed = list(args)
        arguments = {
            self.names[n]: n for n in [*fixed, *read]
        }  # one name for a value and its change of dtype: one argument
        outputs = []
        for n in results:
            if n.op == "const":
                name = self.fresh_name("constant")
                instructions.append(Instruction(name, "copy", (literal(n),), n.type.dtype.compute))
                outputs.append(Value(name, n.type.dtype.compute))
            else:
                outputs.append(self.value(n))
        return Body(tuple(map(self.value, arguments.values())), tuple(outputs), tuple(instructions))

    def _instruction(self, n: Node) -> Instruction:
        args = tuple(literal(a) if a.op == "const" else self.names[a] for a in n.args)
        op, d = n.op, n.args[-1].type.dtype.compute
        if op in CASTS:
            op, d = conversion(n.args[0].type.dtype, n.type.dtype, rounding=op == "cast")
        elif op == "fetch":
            d = n.attr[2]
        elif n.attr == ROUNDED:
            op = "mul_rn"
        return Instruction(self.names[n], op, args, d, self.comments[n])

    def _describe(self, n: Node) -> str:
        """An operation as an expression; operands are their names if it is longer than 60 characters."""
        parts = [self.comment(a) for a in n.args]
        text = self._expression(n, parts)
        if len(text) > 60:
            short = [p if len(p) <= 24 else self.names.get(a, p[:20] + "...") for a, p in zip(n.args, parts)]
            text = self._expression(n, short)[:60]
        return text

    def _expression(self, n: Node, parts: list[str]) -> str:
        if n.op in CASTS:
            return f"{n.type.dtype}({parts[0]})"
        if n.op == "quotient":
            return f"{bracketed(parts[0])} / {bracketed(self.comment(n.attr))}"
        symbol = OPS[n.op].symbol if n.op in OPS else None
        if symbol and len(parts) == 2:
            return " ".join((bracketed(parts[0]), symbol, bracketed(parts[1])))
        if symbol:
            return f"{symbol}{' ' * symbol.isalpha()}{bracketed(parts[0])}"
        return f"{n.op}({', '.join(parts)})"


def conversion(source: DType, to: DType, rounding: bool) -> tuple[str, DType]:
    """The operation that converts to another dtype, and its dtype; a cast to a narrow float rounds to it."""
    a, b = source.compute, to.compute
    if rounding and b is not to:  # float64 to float16 directly: via float32 it would be rounded twice
        return "round" if a is b or (a is FLOAT64 and to is FLOAT16) else "convert_round", to
    if a is b:
        return "copy", b
    return "saturate" if a.kind == "f" and b.kind in "iu" else "convert", b


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
