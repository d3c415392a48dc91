"""Instructions of bodies as records: operation, operands, compute type; each prints as one line of Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir.ops import OPS
from ..ir.types import BOOL, DType

# How operations print that are no plain calls: for floats (f), integers (i) and bools (b); "{t}" is the dtype. The
# names are the vocabulary that each target provides. A missing column: the type rules exclude it.
_CALL = {"f": "{op}({args})", "i": "{op}({args})"}


CONDITIONS = ("compare", "logical", "test", "float_test")  # rules of operations whose results are bools


def _infix(symbol: str) -> dict[str, str]:
    return {"f": f"{{0}} {symbol} {{1}}", "i": f"{{t}}({{0}} {symbol} {{1}})"}


def _compare(symbol: str) -> dict[str, str]:
    return dict.fromkeys("fi", f"{{0}} {symbol} {{1}}")


FORMS: dict[str, dict[str, str]] = {
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
    "count_ones": {"i": "count_ones({0})"},
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
    # conversions and loads: to `dtype`, or of what is stored as it
    "copy": dict.fromkeys("fib", "{0}"),
    "convert": {"f": "{t}({0})", "i": "{t}({0})", "b": "bool_({0})"},
    "saturate": {"i": "saturate_{t}({0})"},  # a float to an integer
    "round": {"f": "{t}_round({0})"},  # to a narrow float, in the type that it is computed in
    "convert_round": {"f": "{t}_round({c}({0}))"},
    "fetch": dict.fromkeys("fib", "fetch_{t}({args})"),  # a load from a computed address
    # int64 of which operands and results fit in 32 bits; divisors and what is added to a dividend are literals
    "narrow_add": {"i": "int64(int32({0} + {1}))"},
    "narrow_subtract": {"i": "int64(int32({0} - {1}))"},
    "narrow_multiply": {"i": "int64(int32({0} * {1}))"},
    "narrow_fma": {"i": "int64(int32({0} * {1} + {2}))"},
    "narrow_absolute": {"i": "int64(absolute(int32({0})))"},
    "narrow_remainder": {"i": "int64(remainder(uint32({0} + {2.text}), uint32({1.text})))"},
    "narrow_floor_divide": {
        "i": "int64(int32(int64(floor_divide(uint32({0} + {2.text}), uint32({1.text}))) - {3.text}))"
    },
    "narrow_minimum": {"i": "int64(minimum(int32({0}), int32({1})))"},
    "narrow_maximum": {"i": "int64(maximum(int32({0}), int32({1})))"},
    "narrow_less": {"i": "uint32({0}) < uint32({1})"},  # of uint64 that are such int64
    "word_remainder": {"i": "int64(word_remainder(int32({0}), int32({1})))"},  # by what is known to be 0 or more
    "word_floor_divide": {"i": "int64(word_floor_divide(int32({0}), int32({1})))"},
}


@dataclass(frozen=True, slots=True)
class Constant:
    """A typed constant, so that nothing becomes float64; `text` is its value as Python has it, or inf and nan."""

    dtype: DType
    text: str

    def __str__(self) -> str:
        return self.text if self.dtype is BOOL else f"{self.dtype.name}({self.text})"

    @property
    def value(self) -> float | int:
        """The number."""
        if self.dtype.kind == "f":
            return float(self.text)
        return self.text == "True" if self.dtype is BOOL else int(self.text)


Operand = str | Constant  # the name of a value, or a constant


@dataclass(frozen=True, slots=True)
class Instruction:
    """`target = op(args)`, computed in `dtype`; `op` is an operation of `ir/ops.py`, of FORMS, or a target's word."""

    target: str
    op: str
    args: tuple[Operand, ...]
    dtype: DType
    comment: str = ""

    def __str__(self) -> str:
        return f"{self.target} = {self.expression}{'  # ' if self.comment else ''}{self.comment}"

    @property
    def names(self) -> tuple[str, ...]:
        """The values that it reads, in order."""
        return tuple(a for a in self.args if isinstance(a, str))

    @property
    def reads_names_only(self) -> bool:
        """Whether no operand is a literal."""
        return len(self.names) == len(self.args)

    @property
    def expression(self) -> str:
        """What it computes, as Python."""
        d, args = self.dtype, ", ".join(map(str, self.args))
        return form_of(self).format(*self.args, op=self.op, args=args, t=d.name, c=d.compute.name)

    def renamed(self, names: Mapping[str, str]) -> Instruction:
        """The same, with other names for the values that it reads and defines."""
        args = tuple(names.get(a, a) if isinstance(a, str) else a for a in self.args)
        return replace(self, target=names.get(self.target, self.target), args=args)


def form_of(i: Instruction) -> str:
    """How its operation prints in its dtype."""
    return FORMS[i.op][dtype_column(i.dtype)] if i.op in FORMS else "{op}({args})"


def dtype_column(d: DType) -> str:
    """The tables' column for a dtype."""
    return d.kind if d.kind in "fb" else "i"


def result_type(i: Instruction) -> DType | None:
    """The type of the value that an instruction computes; None where it does not tell."""
    rule = OPS[i.op].rule if i.op in OPS else ""
    return None if rule == "ldexp" else BOOL if rule in CONDITIONS else i.dtype.compute


def needed(instructions: Sequence[Instruction], names: Iterable[str]) -> set[str]:
    """The names that these are computed from, themselves included."""
    needed_names = set(names)
    for i in reversed(instructions):
        if i.target in needed_names:
            needed_names.update(i.names)
    return needed_names
