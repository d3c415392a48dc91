"""The table of operations: one row each, with its type rule, its meaning in NumPy, and its cost.

Elementwise operands have one common dtype (the builder inserts `convert`): a row's type rule maps the operands' dtypes
to (dtype computed in, dtype of the result), and its meaning is a function of arrays of that dtype. Composite functions
(gelu, softmax, layer_norm ...) are not rows: lang/prelude.fd defines them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from . import semantics as m
from .types import BOOL, DTYPES, FLOAT64, INT8, INT64, DType, promote

ROUNDED = "rounded"  # attribute of a product that is rounded before it is added
CASTS = ("convert", "cast")  # dtype changes: between compute dtypes, and to any dtype
OPERAND = "operand"  # attribute of a cast that rounds an operand of a contraction: it may be done later, or never
WIDENED = "widened"  # attribute of a cast after which a value of 16 bits is multiplied in its compute dtype
MIRRORED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
CONTRARY = {"less": "greater_equal", "greater": "less_equal", "less_equal": "greater", "greater_equal": "less"}


@dataclass(frozen=True)
class Op:
    """One elementwise operation; `cost` is its instructions for a float32 element on a GPU.

    A `special` operation is expensive enough to be stored rather than computed twice.
    """

    name: str
    arity: int
    rule: str
    meaning: Callable
    cost: int = 1
    symbol: str | None = None  # infix or prefix notation, for messages and comments
    internal: bool = False  # created by rewrite rules only; no program calls it
    formula: str = ""  # definition, if there is no symbol

    @property
    def special(self) -> bool:
        return self.cost >= 8


def _table(*rows: Op) -> dict[str, Op]:
    return {row.name: row for row in rows}


OPS: dict[str, Op] = _table(
    Op("add", 2, "arithmetic", m.add, symbol="+"),
    Op("subtract", 2, "numeric", m.subtract, symbol="-"),
    Op("multiply", 2, "arithmetic", m.multiply, symbol="*"),
    Op("divide", 2, "divide", m.divide, cost=10, symbol="/"),
    Op("floor_divide", 2, "integral", m.floor_divide, cost=20, symbol="//"),
    Op("remainder", 2, "integral", m.remainder, cost=20, symbol="%"),
    Op("fmod", 2, "integral", m.fmod, cost=20, formula="remainder of x / y, with the sign of x"),
    Op("power", 2, "integral", m.power, cost=40, symbol="**"),
    Op("negative", 1, "numeric", m.negative, symbol="-"),
    Op("absolute", 1, "same", m.absolute, formula="|x|"),
    Op("sign", 1, "numeric", m.sign, cost=3, formula="-1, 0 or 1; NaN stays NaN"),
    Op("fma", 3, "arithmetic", m.fma, formula="x * y + z"),
    # comparisons and logic
    Op("less", 2, "compare", m.less, symbol="<"),
    Op("less_equal", 2, "compare", m.less_equal, symbol="<="),
    Op("greater", 2, "compare", m.greater, symbol=">"),
    Op("greater_equal", 2, "compare", m.greater_equal, symbol=">="),
    Op("equal", 2, "compare", m.equal, symbol="=="),
    Op("not_equal", 2, "compare", m.not_equal, symbol="!="),
    Op("logical_and", 2, "logical", m.bitwise_and, symbol="and"),
    Op("logical_or", 2, "logical", m.bitwise_or, symbol="or"),
    Op("logical_xor", 2, "logical", m.bitwise_xor, formula="exactly one of x != 0 and y != 0"),
    Op("logical_not", 1, "logical", m.logical_not, symbol="not"),
    Op("bitwise_and", 2, "bits", m.bitwise_and, symbol="&"),
    Op("bitwise_or", 2, "bits", m.bitwise_or, symbol="|"),
    Op("bitwise_xor", 2, "bits", m.bitwise_xor, symbol="^"),
    Op("bitwise_invert", 1, "bits", m.bitwise_invert, symbol="~"),
    Op("count_ones", 1, "bits", m.count_ones, cost=2, internal=True),
    Op("left_shift", 2, "shift", m.left_shift, cost=3, symbol="<<"),
    Op("right_shift", 2, "shift", m.right_shift, cost=3, symbol=">>"),
    Op("maximum", 2, "same", m.maximum, cost=2, formula="the larger; NaN wins"),
    Op("minimum", 2, "same", m.minimum, cost=2, formula="the smaller; NaN wins"),
    Op("fmax", 2, "same", m.fmax, formula="the larger; NaN loses"),
    Op("fmin", 2, "same", m.fmin, formula="the smaller; NaN loses"),
    Op("where", 3, "where", m.where, formula="x where the condition holds, else y"),
    Op("isnan", 1, "test", m.isnan, formula="x is NaN"),
    Op("isinf", 1, "test", m.isinf, formula="x is inf or -inf"),
    Op("isfinite", 1, "test", m.isfinite, formula="x is neither NaN nor infinite"),
    Op("signbit", 1, "float_test", m.signbit, formula="the sign bit is set, as in -0.0"),
    # rounding
    Op("floor", 1, "whole", m.floor, formula="the largest integer <= x"),
    Op("ceil", 1, "whole", m.ceil, formula="the smallest integer >= x"),
    Op("trunc", 1, "whole", m.trunc, formula="x without its fraction"),
    Op("rint", 1, "float", m.rint, formula="the nearest integer, half to even"),
    # functions of floats
    Op("sqrt", 1, "float", m.sqrt, cost=9, formula="√x, correctly rounded"),
    Op("rsqrt", 1, "float", m.rsqrt, cost=3, formula="1 / √x"),
    Op("cbrt", 1, "float", m.cbrt, cost=20, formula="∛x"),
    Op("exp", 1, "float", m.exp, cost=8, formula="e^x"),
    Op("exp2", 1, "float", m.exp2, cost=4, formula="2^x"),
    Op("expm1", 1, "float", m.expm1, cost=18, formula="e^x - 1, exact near 0"),
    Op("log", 1, "float", m.log, cost=18, formula="ln x"),
    Op("log2", 1, "float", m.log2, cost=20, formula="log₂ x"),
    Op("log10", 1, "float", m.log10, cost=20, formula="log₁₀ x"),
    Op("log1p", 1, "float", m.log1p, cost=22, formula="ln(1 + x), exact near 0"),
    Op("sin", 1, "float", m.sin, cost=30, formula="sin x"),
    Op("cos", 1, "float", m.cos, cost=30, formula="cos x"),
    Op("tan", 1, "float", m.tan, cost=40, formula="tan x"),
    Op("arcsin", 1, "float", m.arcsin, cost=20, formula="sin⁻¹ x"),
    Op("arccos", 1, "float", m.arccos, cost=20, formula="cos⁻¹ x"),
    Op("arctan", 1, "float", m.arctan, cost=20, formula="tan⁻¹ x"),
    Op("arctan2", 2, "float", m.arctan2, cost=30, formula="tan⁻¹(x / y) in the quadrant of the point (y, x)"),
    Op("sinh", 1, "float", m.sinh, cost=25, formula="(e^x - e^-x) / 2"),
    Op("cosh", 1, "float", m.cosh, cost=15, formula="(e^x + e^-x) / 2"),
    Op("tanh", 1, "float", m.tanh, cost=18, formula="sinh x / cosh x"),
    Op("arcsinh", 1, "float", m.arcsinh, cost=30, formula="sinh⁻¹ x"),
    Op("arccosh", 1, "float", m.arccosh, cost=30, formula="cosh⁻¹ x"),
    Op("arctanh", 1, "float", m.arctanh, cost=30, formula="tanh⁻¹ x"),
    Op("erf", 1, "float", m.erf, cost=22, formula="2/√π ∫₀ˣ e^(-t²) dt"),
    Op("erfc", 1, "float", m.erfc, cost=35, formula="1 - erf x, exact for large x"),
    Op("logistic", 1, "float", m.logistic, cost=12, internal=True),
    Op("lgamma", 1, "float", m.lgamma, cost=80, formula="ln |Γ(x)|"),
    Op("hypot", 2, "float", m.hypot, cost=15, formula="√(x² + y²) without overflow"),
    Op("copysign", 2, "float", m.copysign, formula="|x| with the sign of y"),
    Op("nextafter", 2, "float", m.nextafter, cost=8, formula="the next number from x towards y"),
    Op("ldexp", 2, "ldexp", m.ldexp, cost=8, formula="x · 2^y, y an integer"),
    # random bits: of a position, a seed and a stream, all uint64
    Op("philox", 3, "arithmetic", m.philox, cost=70, internal=True),
    Op("philox_high", 3, "arithmetic", m.philox_high, cost=70, internal=True),
    Op("philox_word", 3, "arithmetic", m.philox_word, cost=25, internal=True),
    Op("philox_pair", 3, "arithmetic", m.philox_pair, cost=40, internal=True),
)

# Operations that are not elementwise: their types are inferred in builder.py, their meaning is in interp.py.
LEAVES = ("param", "scalar", "const", "size", "iota")
VIEWS = ("index", "transpose", "broadcast", "reshape")
OTHERS = ("convert", "cast", "reduce", "scan", "sorted", "gather", "contract", "scatter")


class RuleError(Exception):
    """Dtypes that an operation does not take: `operand` is the index at fault, or None."""

    def __init__(self, operand: int | None, help: str) -> None:
        super().__init__(help)
        self.operand, self.help = operand, help


def float_of(d: DType) -> DType:
    """The float type in which NumPy computes a function of this dtype."""
    if d.kind == "f":
        return d
    return DTYPES["float16" if d.bits <= 8 else "float32" if d.bits == 16 else "float64"]


def _common(dtypes: tuple[DType, ...]) -> DType:
    return reduce(promote, dtypes)


def _numeric(dtypes: tuple[DType, ...], symbol: str) -> tuple[DType, DType]:
    common = _common(dtypes)
    if common is BOOL:
        instead = {"-": "use ^ or logical_xor, or ~ to negate", "sign": "a bool has no sign"}.get(
            symbol, "use ~ or not"
        )
        raise RuleError(None, instead)
    return common, common


def _integral(dtypes: tuple[DType, ...]) -> tuple[DType, DType]:
    common = _common(dtypes)
    return (INT8, INT8) if common is BOOL else (common, common)


def _whole_only(dtypes: tuple[DType, ...], symbol: str | None) -> None:
    for k, d in enumerate(dtypes):
        if d.kind == "f":
            power = "a power is written **; " if symbol == "^" else ""
            raise RuleError(k, f"{power}{d} has no bits to work on: cast with int32(x), or compare first, as in x > 0")


def _divide(dtypes: tuple[DType, ...]) -> tuple[DType, DType]:
    if all(d.kind != "f" for d in dtypes):
        return FLOAT64, FLOAT64
    return _float(dtypes)


def _float(dtypes: tuple[DType, ...]) -> tuple[DType, DType]:
    if any(d.name == "bfloat16" for d in dtypes):  # as in JAX: integers do not widen it
        common = _common(dtypes)
    else:
        common = _common(tuple(float_of(d) for d in dtypes))
    return common, common


def _check_storage(op: Op, dtypes: tuple[DType, ...]) -> None:
    """RuleError for arithmetic on float8, which can only be selected and tested."""
    for k, d in enumerate(dtypes):
        if d.storage and op.rule != "test" and (op.rule != "where" or any(other is not d for other in dtypes)):
            raise RuleError(k, f"{d} only stores: cast it first, e.g. float32(x)")


def infer(op: Op, dtypes: tuple[DType, ...]) -> tuple[DType, DType]:
    """(dtype to compute in, dtype of the result) for strong operands; raises RuleError.

    `where` and `ldexp` have one operand of another kind; the builder treats those operands itself.
    """
    _check_storage(op, dtypes)
    match op.rule:
        case "arithmetic" | "same" | "where":
            common = _common(dtypes)
            return common, common
        case "numeric":
            return _numeric(dtypes, op.symbol or op.name)
        case "integral":
            return _integral(dtypes)
        case "divide":
            return _divide(dtypes)
        case "float" | "ldexp":
            return _float(dtypes)
        case "whole":
            return (dtypes[0], dtypes[0]) if dtypes[0].kind != "b" else (BOOL, BOOL)
        case "compare":
            return _common(dtypes), BOOL
        case "logical":
            return BOOL, BOOL
        case "test":
            return dtypes[0], BOOL
        case "float_test":
            return float_of(dtypes[0]), BOOL
        case "bits":
            _whole_only(dtypes, op.symbol)
            common = _common(dtypes)
            if common.kind == "f":  # int64 with uint64
                raise RuleError(None, "int64 and uint64 have no common integer; cast one of them")
            return common, common
        case "shift":
            _whole_only(dtypes, op.symbol)
            common = _integral(dtypes)[0]
            if common.kind == "f":
                raise RuleError(None, "int64 and uint64 have no common integer; cast one of them")
            return common, common
    raise AssertionError(op.rule)


def reduced_dtype(fold: str, d: DType) -> DType:
    """The dtype of a reduction's result, as in NumPy."""
    if fold in ("any", "all"):
        return BOOL
    if fold in ("argmax", "argmin"):
        return INT64
    if fold in ("sum", "prod") and d.kind != "f":
        return d.accumulate
    return d
