"""torch's type promotion: the common dtype of tensors, 0-d tensors and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import DTypeError
from ...ir.builder import fits
from ...ir.graph import Node, constant, value_of, walk
from ...ir.types import BOOL, DTYPES, INT64, DType, promote
from ..recorder import Recorder
from .numbers import check_scalar, checked_convert, wrapped

CATEGORY = {"b": 0, "i": 1, "u": 1, "f": 2}


def default_float() -> DType:
    """torch's default dtype, to which numbers and integers promote if a float is needed."""
    import torch

    return DTYPES[str(torch.get_default_dtype()).removeprefix("torch.")]


def result_type(operands: Sequence[Node]) -> DType:
    """The common dtype of tensors; 0-d tensors, then numbers, count only in a higher category (bool, integer, float).

    Source: torch.result_type, aten/src/ATen/native/TypeProperties.cpp.
    """
    levels: dict[int, DType] = {}
    for x in operands:
        level = 0 if x.type.weak else 1 if not x.type.shape else 2
        dtype = x.type.dtype if not x.type.weak else default_float() if x.type.dtype.kind == "f" else INT64
        levels[level] = promoted_dtype(levels[level], dtype) if level in levels else dtype
    result: DType | None = None
    for level in (2, 1, 0):
        if level in levels:
            lower = levels[level]
            if result is None or CATEGORY[lower.kind] > CATEGORY[result.kind]:
                result = lower if result is None else promoted_dtype(result, lower)
    assert result is not None
    return result


def promoted_dtype(a: DType, b: DType) -> DType:
    """torch.promote_types: a float keeps its width with any integer."""
    if (a.kind == "f") != (b.kind == "f"):
        return a if a.kind == "f" else b
    return promote(a, b)


def can_cast(a: DType, to: DType) -> bool:
    """torch.can_cast: True if a result of dtype `a` may be written to a tensor of dtype `to`."""
    return CATEGORY[a.kind] <= CATEGORY[to.kind]


def converted(r: Recorder, x: Node, to: DType) -> Node:
    """An operand converted to the common dtype; numbers out of range wrap, as in torch."""
    if x.type.weak:
        if x.op == "const" and x.type.dtype.kind == "i":
            value = check_scalar(int(value_of(x)))
            if to.kind in "iu" and not fits(value, to):
                return constant(wrapped(value, to), to)
        if x.type.dtype.kind == "i" and to.kind in "iu" and any(n.op == "scalar" for n in walk([x])):
            return r.builder.cast(r.builder.coerce(x, INT64), to)
        return r.builder.coerce(x, to)
    return r.builder.convert(x, to) if to.kind == "f" else r.builder.cast(x, to)


def common(r: Recorder, *values: Any, floating: bool = False) -> tuple[list[Node], DType]:
    """(operands converted to their common dtype, that dtype); `floating` promotes integers to floats."""
    nodes = [r.node(v) for v in values]
    dtype = result_type(nodes)
    if floating and dtype.kind != "f":
        dtype = default_float()
    return [converted(r, x, dtype) for x in nodes], dtype


FLOATING = frozenset([
    "divide", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "arcsin",
    "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "erf", "erfc", "lgamma",
    "sigmoid", "reciprocal", "deg2rad", "rad2deg", "sinc", "xlogy", "copysign", "hypot", "logaddexp", "logaddexp2",
])  # fmt: skip
# What torch refuses of bools.
REFUSED = {
    "subtract": "use ^ or logical_xor", "negative": "use ~ or logical_not", "absolute": "it is its own",
    "positive": "it is its own", "remainder": "cast it first", "fmod": "cast it first", "floor_divide": "cast it first",
    "power": "cast it first", "left_shift": "cast it first", "right_shift": "cast it first", "floor": "it is its own",
    "ceil": "it is its own", "trunc": "it is its own", "hypot": "cast it first",
}  # fmt: skip


def operate(r: Recorder, name: str, *operands: Any) -> Any:
    """Call an elementwise function of the language with torch's promotion."""
    with r.at_user_line():
        nodes = [r.node(x) for x in operands]
        if all(x.type.weak for x in nodes):
            return r.wrap(r.call(name, tuple(map(r.tracer, nodes)), {}))
        values, dtype = common(r, *map(r.tracer, nodes), floating=name in FLOATING)
        bools = [x for x in nodes if x.type.dtype is BOOL and not x.type.weak]
        if name in REFUSED and (dtype is BOOL or (name == "subtract" and bools)):
            raise DTypeError(f"torch has no {name} of bools", f"dtype.{name}", help=REFUSED[name])
        if name == "power" and nodes[1].op == "const" and nodes[1].type.weak:
            if dtype.kind in "iu" and value_of(nodes[1]) < 0:
                help = "make one of them a float"
                raise DTypeError("torch has no negative powers of integers", "dtype.power", help=help)
            values[1] = checked_convert(r, nodes[1], dtype)
        if name == "remainder" and dtype.kind == "f":
            return r.wrap(_remainder(r, *values))
        return r.wrap(r.call(name, tuple(map(r.tracer, values)), {}))


def _remainder(r: Recorder, x: Node, y: Node) -> Node:
    """remainder, with the divisor's sign; 0 has the dividend's. Source: c10/util/generic_math.h of PyTorch."""
    b, zero = r.builder, r.builder.literal(0.0)
    rest = b.elementwise("fmod", x, y)
    negative = (b.elementwise("less", n, zero) for n in (rest, y))
    crossed = b.elementwise(
        "logical_and", b.elementwise("not_equal", rest, zero), b.elementwise("logical_xor", *negative)
    )
    return b.elementwise("where", crossed, b.elementwise("add", rest, y), rest)
