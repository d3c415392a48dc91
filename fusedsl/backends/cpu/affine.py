"""What the lines of a loop compute as its index goes on: affine values, and where the conditions change that they are
affine under.

Reads at rolled, padded, concatenated, repeated or gathered places compute an address for each element. Between two
changes of a condition such an address is affine in the index (index-set splitting: Allen and Kennedy, Optimizing
Compilers for Modern Architectures, section 5.5).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, lcm

from ...ir.types import DTYPES

MOST_PERIOD = 8  # elements that one turn of a loop computes, so that divisions by literals are affine
ACCESS = re.compile(r"(load|at)\d+|\w+_get")  # of memory, other than by an address
NANS = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000, "float64": 0x7FF8 << 48}  # their bits
FETCH = re.compile(r"fetch_(\w+)")


@dataclass(frozen=True)
class Slope:
    """What a value grows by from one turn of a loop to the next, as text. `value` is that number (None: a stride that
    only the call knows); where it is not `sure`, it is the number in the longest part of most loops."""

    text: str
    value: int | None
    sure: bool = True

    @classmethod
    def of(cls, value: int) -> Slope:
        return cls(str(value), value)

    def __add__(self, other: Slope) -> Slope:
        return other if self == ZERO else self if other == ZERO else self._with(other, "+", int.__add__)

    def __sub__(self, other: Slope) -> Slope:
        return self if other == ZERO else self._with(other, "-", int.__sub__)

    def __mul__(self, other: Slope) -> Slope:
        return ZERO if ZERO in (self, other) else self._with(other, "*", int.__mul__)

    def _with(self, other: Slope, sign: str, meaning: Callable[[int, int], int]) -> Slope:
        value = None if self.value is None or other.value is None else meaning(self.value, other.value)
        sure = self.sure and other.sure
        if sure and value is not None:
            return Slope.of(value)
        return Slope(f"({self.text}) {sign} ({other.text})", value, sure)


ZERO = Slope.of(0)


@dataclass(frozen=True)
class Affine:
    """A value that grows by `slope` a turn, up to the next cut of its line: an int64 or uint64, or of any type where it
    is fixed; `number`, if it is this integer always."""

    slope: Slope
    number: int | None = None
    unsigned: bool = False

    @property
    def fixed(self) -> bool:
        return self.slope == ZERO


FIXED = Affine(ZERO)


@dataclass(frozen=True)
class Read:
    """A line that reads an element of neighbours: `base` is the address of the first of a part, `slope` in bytes.
    Where it is not `wanted` in a part, elements are zeros."""

    dtype: str
    base: str
    wanted: str
    slope: Slope

    def is_even(self, usual: bool) -> bool:
        """Whether the slope is a known number of elements: in all parts, or in those where slopes are as usual."""
        known = self.slope.value is not None and (usual or self.slope.sure)
        return known and self.slope.value % DTYPES[self.dtype].itemsize == 0  # type: ignore[operator]


@dataclass
class Lines:
    """The lines of a loop that define a name each, in order, and what is known of these names: None for what is not
    affine.

    `cuts` are, by name, how many turns the line stays affine for, in terms of values at the first of them; `slopes` are
    assignments of slopes that differ from part to part.
    """

    index: str
    period: int  # what the index grows by
    known: Mapping[str, int]  # names that are numbers
    kinds: dict[str, Affine | None] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    reads: dict[str, Read] = field(default_factory=dict)
    cuts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    slopes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    conditions: set[str] = field(default_factory=set)  # fixed names that choices between other values hang on
    wish: int = 1  # what the period should be a multiple of
    most: int = MOST_PERIOD  # of the period

    def add(self, name: str, code: str, value: ast.expr) -> None:
        """Take in the line `code`, which says name = value."""
        self.code[name], self.cuts[name], self.slopes[name] = code, (), ()
        called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        if found := FETCH.fullmatch(called):
            self.kinds[name] = self._fetch(name, found[1], *value.args)  # type: ignore[attr-defined]
        elif called == "select" and (read := self._chosen(name, *value.args)):  # type: ignore[attr-defined]
            self.reads[name], self.kinds[name] = read, None
        else:
            self.kinds[name] = self.kind(name, value)

    def _fetch(self, name: str, dtype: str, address: ast.expr, wanted: ast.expr) -> Affine | None:
        at, there = self.kind(name, address), self.kind(name, wanted)
        if at is None or there is None or not there.fixed:
            return None
        if at.fixed:
            return FIXED
        where, whether = ast.unparse(address), ast.unparse(wanted)
        self.reads[name] = Read(dtype, f"origin({where}, {whether})", whether, at.slope)
        return None

    def _chosen(self, name: str, condition: ast.expr, *values: ast.expr) -> Read | None:
        """A choice between reads of like elements, or a read and zero or NaN, that is the same all along a part."""
        which = self.kind(name, condition)
        reads = [self.reads.get(v.id) if isinstance(v, ast.Name) else None for v in values]
        one = next((r for r in reads if r is not None), None)
        if which is None or not which.fixed or one is None or not one.is_even(usual=False):
            return None
        bases: list[str | None] = []
        wanted = []
        for value, read in zip(values, reads):
            if read is not None and (read.dtype, read.slope) != (one.dtype, one.slope):
                return None
            bases.append(_constant(value, one.dtype) if read is None else f"{ast.unparse(value)}_base")
            wanted.append("False" if read is None else f"{ast.unparse(value)}_wanted")
        if None in bases:
            return None
        test = ast.unparse(condition)
        return replace(
            one,
            base=f"select({test}, {bases[0]}, {bases[1]})",
            wanted=f"select({test}, {', '.join(wanted)})",
        )

    def kind(self, name: str, value: ast.expr) -> Affine | None:
        """What an expression in the line of `name` is."""
        match value:
            case ast.Constant(value=number):
                return Affine(ZERO, number) if type(number) is int else FIXED
            case ast.Name(id=word):
                return self._name(word)
            case ast.UnaryOp(op=op, operand=operand):
                x = self.kind(name, operand)
                return self._negative(x) if isinstance(op, ast.USub) else _fixed(x)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(name, type(op), left, right)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compare(name, type(op), left, right)
            case ast.Call(func=ast.Name(id=word), args=args) if not ACCESS.fullmatch(word):
                return self._call(name, word, args)
        return None

    def _name(self, word: str) -> Affine | None:
        if word == self.index:
            return Affine(Slope.of(self.period))
        return self.kinds[word] if word in self.kinds else Affine(ZERO, self.known.get(word))

    @staticmethod
    def _negative(x: Affine | None) -> Affine | None:
        return x and Affine(ZERO - x.slope, None if x.number is None else -x.number, x.unsigned)

    def _binary(self, name: str, op: type, left: ast.expr, right: ast.expr) -> Affine | None:
        x, y = self.kind(name, left), self.kind(name, right)
        if x is None or y is None:
            return None
        if x.fixed and y.fixed:
            return FIXED
        if op is ast.Add:
            return Affine(x.slope + y.slope, unsigned=x.unsigned or y.unsigned)
        if op is ast.Sub:
            return Affine(x.slope - y.slope, unsigned=x.unsigned or y.unsigned)
        if op is ast.Mult and (x.fixed or y.fixed):
            factor, fixed, other = (left, x, y) if x.fixed else (right, y, x)
            step = Slope(ast.unparse(factor), None) if fixed.number is None else Slope.of(fixed.number)
            return Affine(other.slope * step, unsigned=other.unsigned)
        if op is ast.BitAnd and (mask := y.number) is not None and mask > 0 and mask & (mask + 1) == 0:
            return self._divided(name, ast.unparse(left), str(mask + 1), x, mask + 1, rest=True)
        return None

    def _compare(self, name: str, op: type, left: ast.expr, right: ast.expr) -> Affine | None:
        x, y = self.kind(name, left), self.kind(name, right)
        if x is None or y is None:
            return None
        a, b, slope = ast.unparse(left), ast.unparse(right), x.slope - y.slope
        if slope == ZERO:
            return FIXED
        if x.unsigned or y.unsigned:
            if op is not ast.Lt or not y.fixed:
                return None
            self.cuts[name] += (f"until_within(int64({a}), int64({b}), {slope.text})",)
        else:
            self.cuts[name] += _until(op, a, b, slope)
        return FIXED

    def _call(self, name: str, word: str, args: Sequence[ast.expr]) -> Affine | None:
        kinds = [k for x in args if (k := self.kind(name, x)) is not None]
        if len(kinds) < len(args):
            first = args[0]
            if word == "select" and isinstance(first, ast.Name) and _fixed(self.kinds.get(first.id)):
                self.conditions.add(first.id)
            return None
        if word in ("int64", "uint64") and len(args) == 1:
            return replace(kinds[0], unsigned=word == "uint64")
        if all(k.fixed for k in kinds):
            return FIXED
        texts = [ast.unparse(x) for x in args]
        match word:
            case "negative":
                return self._negative(kinds[0])
            case "select" if kinds[0].fixed:
                return self._either(name, texts[0], kinds[1], kinds[2])
            case "minimum" | "maximum":
                return self._extreme(name, word, texts[0], texts[1], *kinds)
            case "floor_divide" | "remainder" if kinds[1].fixed:
                return self._divided(name, texts[0], texts[1], kinds[0], kinds[1].number, word == "remainder")
            case "right_shift" if kinds[1].number is not None and 0 <= kinds[1].number < 32:
                by = 1 << kinds[1].number
                return self._divided(name, texts[0], str(by), kinds[0], by, rest=False)
        return None

    def _extreme(self, name: str, word: str, a: str, b: str, x: Affine, y: Affine) -> Affine | None:
        if x.unsigned or y.unsigned:
            return None
        self.cuts[name] += () if x.slope == y.slope else _until(ast.Lt, a, b, x.slope - y.slope)
        return self._either(name, f"{a} < {b}", *((x, y) if word == "minimum" else (y, x)))

    def _either(self, name: str, condition: str, a: Affine, b: Affine) -> Affine:
        """One of two values, the same one up to the next cut."""
        x, y, unsigned = a.slope, b.slope, a.unsigned or b.unsigned
        if x == y:
            return Affine(x, unsigned=unsigned)
        text = f"{name}_slope"
        self.slopes[name] += (f"{text} = select({condition}, int64({x.text}), int64({y.text}))",)
        value = None if x.value is None or y.value is None else max(x.value, y.value)
        return Affine(Slope(text, value, sure=False), unsigned=unsigned)

    def _divided(self, name: str, x: str, y: str, of: Affine, number: int | None, rest: bool) -> Affine | None:
        """The quotient, rounded down, or the rest of a division: by a literal that divides the slope both are affine
        everywhere, else up to the next multiple of the divisor."""
        slope = of.slope
        if slope.value is None or not slope.sure:
            return None
        if of.unsigned:
            self.cuts[name] += _until(ast.Lt, f"int64({x})", "0", slope)
            y = f"uint64({y})"
        if number is not None and number > 0:
            if slope.value % number == 0:
                return FIXED if rest else Affine(Slope.of(slope.value // number), unsigned=of.unsigned)
            turns = number // gcd(slope.value, number)
            if turns * self.period <= self.most:
                self.wish = lcm(self.wish, turns * self.period)
                return None
        self.cuts[name] += (f"until_wrap(int64(remainder({x}, {y})), int64({y}), {slope.text})",)
        return of if rest else FIXED


def _constant(value: ast.expr, dtype: str) -> str | None:
    """The address of a line of this literal, if it is zero or NaN."""
    match value:
        case ast.Call(args=[ast.Constant(value=number)]) if number == 0:
            return "origin(0, False)"
        case ast.Constant(value=False):
            return "origin(0, False)"
        case ast.Call(args=[ast.Name(id="nan")]) if dtype in NANS:
            return f"nans_{dtype}()"
    return None


def _fixed(x: Affine | None) -> Affine | None:
    return FIXED if x is not None and x.fixed else None


def _until(op: type, a: str, b: str, slope: Slope) -> tuple[str, ...]:
    """How long a comparison of integers stays as it is, whose left side grows by `slope` beyond its right side."""
    less, at_most = (f"until_less({a}, {b}{more}, {slope.text})" for more in ("", " + 1"))
    match op:
        case ast.Lt | ast.GtE:
            return (less,)
        case ast.LtE | ast.Gt:
            return (at_most,)
    return (less, at_most)
