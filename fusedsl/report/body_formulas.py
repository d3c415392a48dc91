"""Bodies of kernels as readable formulas: names and operators, without the guards against infinities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import e, log2

from ..ir.ops import OPS
from ..ir.printer import bracketed
from ..ir.types import BOOL
from ..kernel_ir.instruction import Instruction, Operand, form_of
from ..kernel_ir.phase import Body

LONGEST = 140  # characters of a formula
SHORT = 16  # characters of an operation that is shown at any depth
DEEPEST, LEAST = 12, 2  # nesting depths of a formula, from which the deepest short one is shown
MOST_FACTORS = 32  # of a product, up to which it is written flat
LOWEST, COMPARING, UNARY = 0, 4, 11  # operator precedence
BINDING = {"or": 1, "and": 2, "not": 3} | dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), COMPARING)
BINDING |= {"|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10, "**": 12}
REPEATED = {"or", "and", "+", "*"}  # associative: a right operand of the same kind needs no brackets
BOOLS = dict.fromkeys(("add", "bitwise_or", "maximum", "fmax"), "or")
BOOLS |= dict.fromkeys(("multiply", "bitwise_and", "minimum", "fmin"), "and")
BOOLS |= {"bitwise_xor": "!=", "logical_xor": "!=", "bitwise_invert": "not"}
CONVERSIONS = ("convert", "saturate", "round", "convert_round")
WIDE = ("float32", "float64", "int32", "int64", "uint32", "uint64")  # compute dtypes: conversions to them are not shown
LOG2_E = f"{log2(e):.5g}"


@dataclass(frozen=True, eq=False)
class FormulaTerm:
    """An operation (a symbol or a function's name) on terms, or a leaf: its text."""

    head: str
    args: tuple[FormulaTerm, ...] = ()


@dataclass(frozen=True)
class SourceTerms:
    """The user's texts of terms: the names that values are assigned to, and the expressions."""

    names: Mapping[FormulaTerm, str]
    expressions: Mapping[FormulaTerm, str]


class Formulas:
    """The formulas of the values that bodies compute; `leaves` are names and their texts.

    Long ones are shown in the user's names and expressions, which `source` finds once they are needed.
    """

    def __init__(self, leaves: Mapping[str, str], source: Callable[[Formulas], SourceTerms] | None = None):
        self.terms: dict[tuple, FormulaTerm] = {}
        self._source = source
        self.values = {name: self.term(text) for name, text in leaves.items()}

    def read(self, bodies: Iterable[Body]) -> None:
        """Read bodies, in an order in which each comes after those that it uses."""
        for i in (i for body in bodies for i in body.instructions):
            if i.target not in self.values:
                self.values[i.target] = self._read(i)

    def text(self, name: str) -> str:
        """The formula of this name, as deep as it stays short enough."""
        return self.shown(self.value(name))

    def argument(self, name: str) -> str:
        """The formula of what is reduced: a long one by the name that the user gave it, if any."""
        text, term = self.text(name), self.value(name)
        return text if len(_shown(term, DEEPEST, {})) <= LONGEST else self.source_terms.names.get(term, text)

    def product(self, a: str, b: str) -> str:
        """The product of two values."""
        return self.shown(self.term("*", self.value(a), self.value(b)))

    def value(self, name: str) -> FormulaTerm:
        """The term of a name; of a name without a body, its stem."""
        return self.values.get(name) or self.term(name.rpartition("_")[0] or name)

    def shown(self, term: FormulaTerm) -> str:
        """A term in full if that is short, else in the user's names, or as the user's expression, or without depth."""
        if len(text := _shown(term, DEEPEST, {})) <= LONGEST:
            return text
        own = self.source_terms
        names = {t: name for t, name in own.names.items() if t is not term}
        if len(text := _shown(term, DEEPEST, names)) <= LONGEST:
            return text
        if term in own.expressions:
            return own.expressions[term]
        for depth in range(DEEPEST, LEAST, -1):
            text = _shown(term, depth, {**own.expressions, **names})
            if len(text) <= LONGEST:
                break
        return text

    @cached_property
    def source_terms(self) -> SourceTerms:
        return SourceTerms({}, {}) if self._source is None else self._source(self)

    def term(self, head: str, *args: FormulaTerm) -> FormulaTerm:
        """The term of an operation; equal terms are one object."""
        return self.terms.setdefault((head, *map(id, args)), FormulaTerm(head, args))

    def _read(self, i: Instruction) -> FormulaTerm:
        """The term of what an instruction computes."""
        args, d, form = [self._operand(a) for a in i.args], i.dtype, form_of(i)
        if form == "{0}":
            return args[0]
        if "{" not in form:
            return self.term(form)
        if i.op == "fetch":
            array = args[0]
            while array.args:
                array = array.args[0]
            return self.term(f"{array.head}[...]")
        if i.op in CONVERSIONS:
            return args[0] if i.op == "convert" and d.name in WIDE else self.simplified(d.name, *args)
        if i.op == "fma" and d.kind != "f":
            times, plus = ("and", "or") if d is BOOL else ("*", "+")
            value = self.simplified(plus, self.simplified(times, *args[:2]), args[2])
        else:
            symbol = "*" if i.op == "mul_rn" else OPS[i.op].symbol if i.op in OPS else None
            value = self.simplified((BOOLS.get(i.op) if d is BOOL else None) or symbol or i.op, *args)
        return self.simplified(d.name, value) if form.startswith("{t}") and d.name not in WIDE else value

    def _operand(self, a: Operand) -> FormulaTerm:
        """The term of a value, or of a number."""
        if isinstance(a, str):
            return self.value(a)
        if a.text.startswith("-"):
            return self.simplified("-", self.term(number_text(-a.value)))
        return self.term(number_text(a.value))

    def simplified(self, head: str, *args: FormulaTerm) -> FormulaTerm:
        """An operation, simplified: without guards against infinities, and with exp2 as exp."""
        match head, args:
            case "-", (a,) if not a.args and a.head in ("inf", "nan"):
                return self.term(f"-{a.head}")
            case "-", (a, b) if a is b:
                return self.term("0")
            case "-", (a, FormulaTerm("0")):
                return a
            case "*", (FormulaTerm("1"), a) | (a, FormulaTerm("1")):
                return a
            case "*", (FormulaTerm("/", (FormulaTerm("1"), b)), a):
                return self.simplified("/", a, b)
            case "*", (a, b) if a is b and a.args:
                return self.term("**", a, self.term("2"))
            case "*", (a, FormulaTerm("*", (b, c)) as product) if _factors(product) <= MOST_FACTORS:
                return self.simplified("*", self.simplified("*", a, b), c)
            case "*", (FormulaTerm("*", (a, FormulaTerm(b, ()))), FormulaTerm(c, ())) if _numbers(b, c):
                return self.simplified("*", a, self.term(number_text(float(b) * float(c))))
            case "==", (FormulaTerm("*", (a, FormulaTerm("rsqrt"))), FormulaTerm("-inf")):
                return self.simplified("==", a, args[1])
            case "exp" | "exp2", (FormulaTerm("0"),):
                return self.term("1")
            case "exp2", (FormulaTerm("-", (FormulaTerm("*", (a, c)), FormulaTerm("*", (b, d)))),) if c is d:
                return self._raised(self.simplified("-", a, b), c)
            case "exp2", (FormulaTerm("*", (a, c)),):
                return self._raised(a, c)
            case "-", (FormulaTerm("*", (a, c)), FormulaTerm("*", (b, d))) if c is d and c.head == "rsqrt":
                return self.term("*", self.simplified("-", a, b), c)
            case "where", (FormulaTerm("isfinite", (a,)), b, FormulaTerm("0")) if a is b:
                return a
            case "where", (FormulaTerm(">", (FormulaTerm("absolute"), FormulaTerm())), FormulaTerm("0.5"), a) if (
                _is_log2_e(a)
            ):
                return a  # at such magnitudes, values are equal or their exponential is 0 or inf
            case "maximum", (a, FormulaTerm("0")) if a.head.isdigit():
                return a
            case "quotient", (a, FormulaTerm("*", (b, FormulaTerm("divisor_scale"))), _, _):
                return self.simplified("/", a, b)
            case "not", (FormulaTerm("!=", (a, b)),):
                return self.simplified("==", a, b)
        return self.term(head, *args)

    def _raised(self, power: FormulaTerm, factor: FormulaTerm) -> FormulaTerm:
        """2 to the power times a factor; as exp if the factor is log2(e), or a round multiple of it."""
        if factor.head == LOG2_E:
            return self.simplified("exp", power)
        if _numbers(factor.head):
            times = f"{float(factor.head) / log2(e):.4g}"
            if len(times.lstrip("0.").replace(".", "")) < 4:
                return self.simplified("exp", self.simplified("*", power, self.term(times)))
        return self.term("exp2", self.term("*", power, factor))


def _factors(term: FormulaTerm) -> int:
    """How many factors a product has, up to a few more than are shown."""
    count, stack = 0, [term]
    while stack and count <= MOST_FACTORS:
        here = stack.pop()
        stack += here.args if here.head == "*" else ()
        count += here.head != "*"
    return count


def _is_log2_e(factor: FormulaTerm) -> bool:
    """Whether a factor converts exponents of e to exponents of 2."""
    return any(part.head == LOG2_E for part in (factor, *factor.args))


def number_text(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _numbers(*texts: str) -> bool:
    """Whether leaves are numbers."""
    return all(text[:1].isdigit() for text in texts)


def _shown(term: FormulaTerm, depth: int, texts: Mapping[FormulaTerm, str], outside: int = LOWEST) -> str:
    """A term as text, in brackets if the operator `outside` binds as closely; `texts` stand for whole terms."""
    if term in texts:
        return texts[term] if outside == LOWEST else bracketed(texts[term])
    if not term.args:
        return f"({term.head})" if term.head.startswith("-") and outside >= UNARY else term.head
    if depth == 0:
        whole = "..." if any(a.args for a in term.args) else _shown(term, 1, texts, outside)
        return whole if len(whole) <= SHORT else "..."
    head, args = term.head, term.args
    if len(args) == 2 and head in BINDING:
        own = BINDING[head]
        before = own if own == COMPARING else own - 1
        after = own - 1 if head in REPEATED and args[1].head == head else own
        text = f"{_shown(args[0], depth - 1, texts, before)} {head} {_shown(args[1], depth - 1, texts, after)}"
    elif len(args) == 1 and head in ("-", "~", "not"):
        own = BINDING["not"] if head == "not" else UNARY
        text = f"{head}{' ' * (head == 'not')}{_shown(args[0], depth - 1, texts, own)}"
    else:
        return f"{head}({', '.join(_shown(a, depth - 1, texts) for a in args)})"
    return f"({text})" if own <= outside else text
