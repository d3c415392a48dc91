"""Affine analysis of a loop: values that are affine in the index, and the split points where a condition changes.

Reads of rolled, padded, concatenated, repeated or gathered arrays compute an address for each element. Between two
split points such an address is affine in the index (index-set splitting: Allen and Kennedy, Optimizing
Compilers for Modern Architectures, section 5.5).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, lcm

from ...ir.types import DTYPES

MAX_PERIOD = 8  # elements of one iteration: it is unrolled so that divisions by literals are affine
NANS = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000, "float64": 0x7FF8 << 48}  # bits of a NaN


@dataclass(frozen=True)
class Slope:
    """The step of an affine value from one iteration to the next."""

    text: str
    value: int | None  # as a number; None for a stride that is known at run time alone
    is_exact: bool = True  # if not, `value` is the step in the longest part of most loops

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
        sure = self.is_exact and other.is_exact
        if sure and value is not None:
            return Slope.of(value)
        return Slope(f"({self.text}) {sign} ({other.text})", value, sure)


ZERO = Slope.of(0)


@dataclass(frozen=True)
class AffineValue:
    """A value that grows by `slope` an iteration, up to the next split point; of any type if it is invariant."""

    slope: Slope
    number: int | None = None  # the constant that the value is
    unsigned: bool = False

    @property
    def is_invariant(self) -> bool:
        return self.slope == ZERO


INVARIANT = AffineValue(ZERO)


@dataclass(frozen=True)
class AffineRead:
    """A load whose address is affine."""

    dtype: str
    base: str  # the address of the first element of a part
    wanted: str  # the mask of a part: if false, its elements are zeros
    slope: Slope  # in bytes

    def is_contiguous(self, usual: bool) -> bool:
        """True if the slope is a known number of elements: in all parts, or in those with the usual slopes."""
        known = self.slope.value is not None and (usual or self.slope.is_exact)
        return known and self.slope.value % DTYPES[self.dtype].itemsize == 0  # type: ignore[operator]


@dataclass
class LoopAnalysis:
    """Affine values of a loop body, whose lines define a name each; all fields but the first are by name."""

    index: str
    period: int  # the step of the index
    constants: Mapping[str, int]  # names of known integers
    values: dict[str, AffineValue | None] = field(default_factory=dict)  # None: not affine
    code: dict[str, str] = field(default_factory=dict)
    reads: dict[str, AffineRead] = field(default_factory=dict)
    split_points: dict[str, tuple[str, ...]] = field(default_factory=dict)  # iterations until the line is not affine
    slopes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # assignments of slopes that differ between parts
    conditions: set[str] = field(default_factory=set)  # invariant names that select between other values
    invariant_fetches: set[str] = field(default_factory=set)
    preferred_period: int = 1  # a divisor of the period that makes more values affine
    max_period: int = MAX_PERIOD

    def add(self, name: str, code: str, value: ast.expr) -> None:
        """Analyse the line `code`, an assignment of `value` to `name`."""
        self.code[name], self.split_points[name], self.slopes[name] = code, (), ()
        called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        if called.startswith("fetch_"):
            self.values[name] = self._fetch(name, called.removeprefix("fetch_"), *value.args)  # type: ignore[attr-defined]
        elif called == "select" and (read := self._chosen(name, *value.args)):  # type: ignore[attr-defined]
            self.reads[name], self.values[name] = read, None
        else:
            self.values[name] = self.kind(name, value)

    def _fetch(self, name: str, dtype: str, address: ast.expr, wanted: ast.expr) -> AffineValue | None:
        at, there = self.kind(name, address), self.kind(name, wanted)
        if at is None or there is None or not there.is_invariant:
            return None
        if at.is_invariant:
            self.invariant_fetches.add(name)
            return INVARIANT
        where, whether = ast.unparse(address), ast.unparse(wanted)
        self.reads[name] = AffineRead(dtype, f"origin({where}, {whether})", whether, at.slope)
        return None

    def _chosen(self, name: str, condition: ast.expr, *values: ast.expr) -> AffineRead | None:
        """A select, invariant within a part, between two reads of one dtype and slope, or a read and zero or NaN."""
        which = self.kind(name, condition)
        reads = [self.reads.get(v.id) if isinstance(v, ast.Name) else None for v in values]
        first_read = next((r for r in reads if r is not None), None)
        if which is None or not which.is_invariant or first_read is None or not first_read.is_contiguous(usual=False):
            return None
        bases: list[str | None] = []
        wanted = []
        for value, read in zip(values, reads):
            if read is not None and (read.dtype, read.slope) != (first_read.dtype, first_read.slope):
                return None
            bases.append(_constant(value, first_read.dtype) if read is None else f"{ast.unparse(value)}_base")
            wanted.append("False" if read is None else f"{ast.unparse(value)}_wanted")
        if None in bases:
            return None
        test = ast.unparse(condition)
        return replace(
            first_read, base=f"select({test}, {bases[0]}, {bases[1]})", wanted=f"select({test}, {', '.join(wanted)})"
        )

    def kind(self, name: str, value: ast.expr) -> AffineValue | None:
        """The affine value of an expression in the line of `name`; None if it is not affine."""
        match value:
            case ast.Constant(value=number):
                return AffineValue(ZERO, number) if type(number) is int else INVARIANT
            case ast.Name(id=word):
                return self._name(word)
            case ast.UnaryOp(op=op, operand=operand):
                x = self.kind(name, operand)
                return self._negative(x) if isinstance(op, ast.USub) else _if_invariant(x)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(name, type(op), left, right)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compare(name, type(op), left, right)
            case ast.Call(func=ast.Name(id=word), args=args) if not _is_access(word):
                return self._call(name, word, args)
        return None

    def _name(self, word: str) -> AffineValue | None:
        if word == self.index:
            return AffineValue(Slope.of(self.period))
        return self.values[word] if word in self.values else AffineValue(ZERO, self.constants.get(word))

    @staticmethod
    def _negative(x: AffineValue | None) -> AffineValue | None:
        return x and AffineValue(ZERO - x.slope, None if x.number is None else -x.number, x.unsigned)

    def _binary(self, name: str, op: type, left: ast.expr, right: ast.expr) -> AffineValue | None:
        x, y = self.kind(name, left), self.kind(name, right)
        if x is None or y is None:
            return None
        if x.is_invariant and y.is_invariant:
            return INVARIANT
        if op is ast.Add:
            return AffineValue(x.slope + y.slope, unsigned=x.unsigned or y.unsigned)
        if op is ast.Sub:
            return AffineValue(x.slope - y.slope, unsigned=x.unsigned or y.unsigned)
        if op is ast.Mult and (x.is_invariant or y.is_invariant):
            factor, fixed, other = (left, x, y) if x.is_invariant else (right, y, x)
            step = Slope(ast.unparse(factor), None) if fixed.number is None else Slope.of(fixed.number)
            return AffineValue(other.slope * step, unsigned=other.unsigned)
        if op is ast.BitAnd and (mask := y.number) is not None and mask > 0 and mask & (mask + 1) == 0:
            return self._divided(name, ast.unparse(left), str(mask + 1), x, mask + 1, rest=True)
        return None

    def _compare(self, name: str, op: type, left: ast.expr, right: ast.expr) -> AffineValue | None:
        x, y = self.kind(name, left), self.kind(name, right)
        if x is None or y is None:
            return None
        a, b, slope = ast.unparse(left), ast.unparse(right), x.slope - y.slope
        if slope == ZERO:
            return INVARIANT
        if x.unsigned or y.unsigned:
            if op is not ast.Lt or not y.is_invariant:
                return None
            self.split_points[name] += (f"until_within(int64({a}), int64({b}), {slope.text})",)
        else:
            self.split_points[name] += _split_points(op, a, b, slope)
        return INVARIANT

    def _call(self, name: str, word: str, args: Sequence[ast.expr]) -> AffineValue | None:
        kinds = [k for x in args if (k := self.kind(name, x)) is not None]
        if len(kinds) < len(args):
            first = args[0]
            if word == "select" and isinstance(first, ast.Name) and _if_invariant(self.values.get(first.id)):
                self.conditions.add(first.id)
            return None
        if word in ("int64", "uint64") and len(args) == 1:
            return replace(kinds[0], unsigned=word == "uint64")
        if all(k.is_invariant for k in kinds):
            return INVARIANT
        texts = [ast.unparse(x) for x in args]
        match word:
            case "negative":
                return self._negative(kinds[0])
            case "select" if kinds[0].is_invariant:
                return self._either(name, texts[0], kinds[1], kinds[2])
            case "minimum" | "maximum":
                return self._extreme(name, word, texts[0], texts[1], *kinds)
            case "floor_divide" | "remainder" if kinds[1].is_invariant:
                return self._divided(name, texts[0], texts[1], kinds[0], kinds[1].number, word == "remainder")
            case "right_shift" if kinds[1].number is not None and 0 <= kinds[1].number < 32:
                by = 1 << kinds[1].number
                return self._divided(name, texts[0], str(by), kinds[0], by, rest=False)
        return None

    def _extreme(self, name: str, word: str, a: str, b: str, x: AffineValue, y: AffineValue) -> AffineValue | None:
        if x.unsigned or y.unsigned:
            return None
        self.split_points[name] += () if x.slope == y.slope else _split_points(ast.Lt, a, b, x.slope - y.slope)
        return self._either(name, f"{a} < {b}", *((x, y) if word == "minimum" else (y, x)))

    def _either(self, name: str, condition: str, a: AffineValue, b: AffineValue) -> AffineValue:
        """A select between two values: its condition is invariant up to the next split point."""
        x, y, unsigned = a.slope, b.slope, a.unsigned or b.unsigned
        if x == y:
            return AffineValue(x, unsigned=unsigned)
        text = f"{name}_slope"
        self.slopes[name] += (f"{text} = select({condition}, int64({x.text}), int64({y.text}))",)
        value = None if x.value is None or y.value is None else max(x.value, y.value)
        return AffineValue(Slope(text, value, is_exact=False), unsigned=unsigned)

    def _divided(
        self, name: str, x: str, y: str, of: AffineValue, number: int | None, rest: bool
    ) -> AffineValue | None:
        """The floored quotient, or the remainder.

        By a literal that divides the slope both are affine everywhere, else up to the next multiple of the divisor.
        """
        slope = of.slope
        if slope.value is None or not slope.is_exact:
            return None
        if of.unsigned:
            self.split_points[name] += _split_points(ast.Lt, f"int64({x})", "0", slope)
            y = f"uint64({y})"
        if number is not None and number > 0:
            if slope.value % number == 0:
                return INVARIANT if rest else AffineValue(Slope.of(slope.value // number), unsigned=of.unsigned)
            turns = number // gcd(slope.value, number)
            if turns * self.period <= self.max_period:
                self.preferred_period = lcm(self.preferred_period, turns * self.period)
                return None
        self.split_points[name] += (f"until_wrap(int64(remainder({x}, {y})), int64({y}), {slope.text})",)
        return of if rest else INVARIANT


def _is_access(word: str) -> bool:
    """Whether a function accesses memory, other than by a computed address."""
    return word.endswith("_get") or any(word.removeprefix(stem).isdigit() for stem in ("load", "at"))


def _constant(value: ast.expr, dtype: str) -> str | None:
    """The address of an array of this literal, if it is zero or NaN."""
    match value:
        case ast.Call(args=[ast.Constant(value=number)]) if number == 0:
            return "origin(0, False)"
        case ast.Constant(value=False):
            return "origin(0, False)"
        case ast.Call(args=[ast.Name(id="nan")]) if dtype in NANS:
            return f"nans_{dtype}()"
    return None


def _if_invariant(x: AffineValue | None) -> AffineValue | None:
    return INVARIANT if x is not None and x.is_invariant else None


def _split_points(op: type, a: str, b: str, slope: Slope) -> tuple[str, ...]:
    """Iterations until a comparison of integers changes; its left side grows by `slope` relative to its right side."""
    less, at_most = (f"until_less({a}, {b}{more}, {slope.text})" for more in ("", " + 1"))
    match op:
        case ast.Lt | ast.GtE:
            return (less,)
        case ast.LtE | ast.Gt:
            return (at_most,)
    return (less, at_most)
