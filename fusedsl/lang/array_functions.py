"""The table's functions that are no single operation and no line of the prelude: shapes, casts, rounding, reductions.

The signature of each function here is its signature in a text; `function` names the kinds that KIND_OF does not.
"""

from __future__ import annotations

from ..errors import ArgumentError, DTypeError, ShapeError
from ..ir import shapes
from ..ir.builder import Builder, fail
from ..ir.dims import Dim, expression, product
from ..ir.folds import highest, lowest
from ..ir.graph import Node, constant
from ..ir.types import BOOL, DTYPES, FLOAT32, FLOAT64, INT8, DType
from .functions import TABLE, Function, Parameter, function

Axes = int | tuple[int, ...] | None
Dims = tuple[Dim, ...]

# -- casts and copies


@function(dtype="dtype")
def astype(b: Builder, x: Node, dtype: DType):
    return b.cast(x, dtype)


def _cast_to(d: DType) -> Function:
    return Function(d.name, (Parameter("x", "array"),), lambda b, x: b.cast(x, d))


TABLE.update({d.name: _cast_to(d) for d in DTYPES.values()})


@function()
def copy(b: Builder, x: Node):
    return x


@function(shape="shape | None")
def zeros_like(b: Builder, x: Node, *, dtype: DType | None = None, shape: Dims | None = None):
    return full_like(b, x, b.literal(0), dtype=dtype, shape=shape)


@function(shape="shape | None")
def ones_like(b: Builder, x: Node, *, dtype: DType | None = None, shape: Dims | None = None):
    return full_like(b, x, b.literal(1), dtype=dtype, shape=shape)


@function(shape="shape | None")
def full_like(b: Builder, x: Node, fill_value: Node, *, dtype: DType | None = None, shape: Dims | None = None):
    if dtype is not None or not x.type.weak:
        to = dtype or x.type.dtype
        fill_value = b.coerce(fill_value, to) if _exact(fill_value, to) else b.cast(fill_value, to)
    return shapes.broadcast_to(b, fill_value, x.type.shape if shape is None else shape)


def _exact(x: Node, to: DType) -> bool:
    """Whether a value takes dtype `to` by meeting it, as literals do, rather than by a cast."""
    return x.type.weak and (x.type.dtype is BOOL or x.type.dtype.kind != "f" or to.kind == "f")


# -- elementwise


@function()
def positive(b: Builder, x: Node):
    if x.type.dtype is BOOL:
        raise fail(DTypeError("cannot take the sign of a bool", "dtype.positive", help="use int8(x)"), 0)
    return x


@function()
def square(b: Builder, x: Node):
    x = b.convert(x, INT8) if x.type.dtype is BOOL else x
    return b.elementwise("multiply", x, x)


@function(other="array | None")
def as_float(b: Builder, x: Node, other: Node | None = None):
    """`x` as the float that NumPy computes in, alone or beside another operand. Weak stays weak."""
    if x.type.weak or x.type.dtype.kind == "f":
        return x if x.type.dtype.kind == "f" else b.elementwise("multiply", x, b.literal(1.0))
    return b.convert(x, b.computed("hypot", x) if other is None else b.computed("hypot", x, other))


@function()
def nextafter(b: Builder, x: Node, y: Node):
    """The neighbour among the numbers of the dtype itself: float16 and bfloat16 are only computed in float32."""
    d = b.computed("nextafter", x, y)
    if d.compute is d:
        return b.elementwise("nextafter", x, y)
    x, y = (b.convert(b.cast(b.convert(v, d), d), FLOAT32) for v in (x, y))
    moved = b.elementwise("subtract", b.elementwise("nextafter", x, y), x)
    scaled = b.elementwise("multiply", moved, b.literal(2.0 ** (24 - PRECISION[d.name])))
    least = b.elementwise("maximum", b.elementwise("absolute", scaled), b.literal(SMALLEST[d.name]))
    finite = b.elementwise("add", x, b.elementwise("copysign", least, scaled))
    largest = b.elementwise("copysign", b.literal(LARGEST[d.name]), x)
    left = b.elementwise("where", b.elementwise("isinf", scaled), largest, finite)
    return b.cast(b.elementwise("where", b.elementwise("equal", x, y), y, left), d)


PRECISION = {"float16": 11, "bfloat16": 8}  # bits of a number; float32 has 24
SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133}


@function()
def summand(b: Builder, x: Node):
    """64-bit integers as float64, so that the sum of a mean does not wrap; the sums of others are exact in int64."""
    wide = x.type.dtype.kind in "iu" and x.type.dtype.bits == 64 and not x.type.weak
    return b.convert(x, FLOAT64) if wide else x


@function()
def fabs(b: Builder, x: Node):
    return b.elementwise("absolute", as_float(b, x))


@function(x="any")
def given(b: Builder, x):
    return b.literal(x is not None)


@function()
def divmod_(b: Builder, x: Node, y: Node):
    return b.elementwise("floor_divide", x, y), b.elementwise("remainder", x, y)


@function(decimals="int")
def round_(b: Builder, x: Node, decimals: int = 0):
    if x.type.dtype.kind != "f":
        x = b.cast(x, DTYPES["float16"]) if x.type.dtype is BOOL else x
        if x.type.dtype.kind != "f":
            return x if decimals >= 0 else _round_integers(b, x, 10**-decimals)
    if decimals == 0:
        return b.elementwise("rint", x)
    scale = b.literal(10.0 ** abs(decimals))
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return b.elementwise(back, b.elementwise("rint", b.elementwise(there, x, scale)), scale)


def _round_integers(b: Builder, x: Node, unit: int) -> Node:
    """Integers to the nearest multiple of `unit`, half to even."""
    scaled = b.elementwise("divide", x, b.literal(unit))
    whole = b.elementwise("multiply", b.elementwise("rint", scaled), b.literal(float(unit)))
    return whole if x.type.weak else b.cast(whole, x.type.dtype)


@function()
def fix(b: Builder, x: Node):
    return b.elementwise("trunc", x)


@function()
def reciprocal(b: Builder, x: Node):
    if x.type.dtype.kind == "f" or x.type.weak:
        return b.elementwise("divide", b.literal(1), x)
    x = b.convert(x, INT8) if x.type.dtype is BOOL else x
    one = b.elementwise("equal", x, b.literal(1))
    if x.type.dtype.kind == "u":
        return b.convert(one, x.type.dtype)
    minus = b.elementwise("where", b.elementwise("equal", x, b.literal(-1)), b.convert(b.literal(-1), x.type.dtype),
                          b.convert(b.literal(0), x.type.dtype))  # fmt: skip
    return b.elementwise("where", one, b.convert(b.literal(1), x.type.dtype), minus)


@function(nan="array | None", posinf="array | None", neginf="array | None")
def nan_to_num(b: Builder, x: Node, *, nan: Node | None = None, posinf: Node | None = None, neginf: Node | None = None):
    if x.type.dtype.kind != "f":
        return x
    largest = LARGEST[x.type.dtype.name]
    high = b.literal(largest) if posinf is None else posinf
    low = b.literal(-largest) if neginf is None else neginf
    zero = b.literal(0.0) if nan is None else nan
    infinite, negative = b.elementwise("isinf", x), b.elementwise("less", x, b.literal(0))
    bounded = b.elementwise("where", infinite, b.elementwise("where", negative, low, high), x)
    return b.elementwise("where", b.elementwise("isnan", x), zero, bounded)


LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38,
           "float64": 1.7976931348623157e308, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}  # fmt: skip


# -- shapes


@function(blame="shape")
def reshape(b: Builder, x: Node, shape: Dims):
    return shapes.reshape(b, x, shape)


@function(blame="axes")
def transpose(b: Builder, x: Node, axes: Axes = None):
    return shapes.transpose(b, x, (axes,) if isinstance(axes, int) else axes)


@function()
def matrix_transpose(b: Builder, x: Node):
    if x.type.rank < 2:
        raise ShapeError(
            f"{b.describe(x.type)} has no two axes to swap", code="shape.transpose", help="mT needs 2 axes or more"
        )
    return shapes.swapaxes(b, x, -1, -2)


@function(axis1="int", axis2="int")
def swapaxes(b: Builder, x: Node, axis1: int, axis2: int):
    return shapes.swapaxes(b, x, axis1, axis2)


@function(axis="places")
def expand_dims(b: Builder, x: Node, axis: int | tuple[int, ...]):
    return shapes.expand_dims(b, x, axis)


@function(blame="axis")
def squeeze(b: Builder, x: Node, axis: Axes = None):
    if axis is None:
        return shapes.squeeze(b, x, [a for a, d in enumerate(x.type.shape) if b.is_unit(d)])
    return shapes.squeeze(b, x, shapes.normalize_axes(b, x, axis))


@function(blame="shape")
def broadcast_to(b: Builder, x: Node, shape: Dims):
    return shapes.broadcast_to(b, x, shape)


@function()
def size(b: Builder, x: Node, axis: Axes = None):
    return b.extent(product(x.type.shape[a] for a in shapes.normalize_axes(b, x, axis)))


@function()
def shape_(b: Builder, x: Node):
    return tuple(b.extent(d) for d in x.type.shape)


@function(axis="int")
def iota(b: Builder, x: Node, axis: int):
    return shapes.iota_along(b, x, shapes.normalize_axis(b, x, axis))


@function(start="extent", stop="extent", step="int")
def arange(b: Builder, start: Dim, stop: Dim | None = None, step: int = 1, *, dtype: DType | None = None):
    if step == 0:
        raise fail(ArgumentError("a step cannot be 0", code="argument.step", help="use 1, or -1 to count down"), 2)
    start, stop = (0, start) if stop is None else (start, stop)
    counted = b.iota(_steps(start, stop, step))
    scaled = counted if step == 1 else b.elementwise("multiply", counted, b.literal(step))
    moved = scaled if start == 0 else b.elementwise("add", scaled, b.extent(start))
    return moved if dtype is None else b.cast(moved, dtype)


def _steps(start: Dim, stop: Dim, step: int) -> Dim:
    """How many numbers there are from start to stop."""
    room = expression("-", stop, start) if step > 0 else expression("-", start, stop)
    whole = expression("//", expression("+", room, abs(step) - 1), abs(step))
    return whole if isinstance(room, int) and room >= 0 else expression("max", whole, 0)


# -- reductions (mean, var, norm and the like are in the prelude)


def _kept(b: Builder, x: Node, where: Node | None, identity: Node) -> Node:
    """`x` with the elements that `where` leaves out replaced by the reduction's identity."""
    if where is None:
        return x
    if where.type.rank > x.type.rank:
        raise ShapeError(
            f"where= has {where.type.rank} axes, the array {x.type.rank}",
            code="shape.where",
            help="drop or sum an axis",
        )
    return b.elementwise("where", where, x, b.coerce(identity, x.type.dtype) if identity.type.weak else identity)


def _total(b: Builder, fold: str, identity: int, x: Node, axis, dtype, keepdims, initial, where) -> Node:
    if dtype is not None and x.type.dtype is not dtype:
        x = b.cast(x, dtype)
    identity_node = b.literal(bool(identity)) if x.type.dtype is BOOL else b.literal(identity)
    total = shapes.reduce(b, fold, _kept(b, x, where, identity_node), axis, keepdims)
    total = total if dtype is None else b.cast(total, dtype)
    return _joined(b, "add" if fold == "sum" else "multiply", total, initial)


def _joined(b: Builder, operation: str, total: Node, initial: Node | None) -> Node:
    """A reduction that starts from `initial`, taken in the dtype of the result as in NumPy."""
    if initial is None:
        return total
    if initial.type.rank:
        error = ArgumentError(
            f"initial is one number, not {b.describe(initial.type)}",
            code="argument.initial",
            help="add an array to the result",
        )
        raise fail(error, _INITIAL)
    to = total.type.dtype
    if not total.type.weak:
        initial = b.coerce(initial, to) if _exact(initial, to) else b.cast(initial, to)
    return b.elementwise(operation, total, initial)


_INITIAL = 4  # the operand


@function()
def sum_(b: Builder, x: Node, axis: Axes = None, *, dtype: DType | None = None, keepdims: bool = False,
         initial: Node | None = None, where: Node | None = None):  # fmt: skip
    return _total(b, "sum", 0, x, axis, dtype, keepdims, initial, where)


@function()
def prod(b: Builder, x: Node, axis: Axes = None, *, dtype: DType | None = None, keepdims: bool = False,
         initial: Node | None = None, where: Node | None = None):  # fmt: skip
    return _total(b, "prod", 1, x, axis, dtype, keepdims, initial, where)


@function()
def max_(b: Builder, x: Node, *, axis: Axes = None, keepdims: bool = False, initial: Node | None = None,
         where: Node | None = None):  # fmt: skip
    found = shapes.reduce(b, "max", _kept(b, x, where, lowest(x.type.dtype)), axis, keepdims)
    return _joined(b, "maximum", found, initial)


@function()
def min_(b: Builder, x: Node, *, axis: Axes = None, keepdims: bool = False, initial: Node | None = None,
         where: Node | None = None):  # fmt: skip
    found = shapes.reduce(b, "min", _kept(b, x, where, highest(x.type.dtype)), axis, keepdims)
    return _joined(b, "minimum", found, initial)


@function()
def any_(b: Builder, x: Node, axis: Axes = None, *, keepdims: bool = False, where: Node | None = None):
    return shapes.reduce(b, "any", _kept(b, b.truth(x), where, constant(False, BOOL)), axis, keepdims)


@function()
def all_(b: Builder, x: Node, axis: Axes = None, *, keepdims: bool = False, where: Node | None = None):
    return shapes.reduce(b, "all", _kept(b, b.truth(x), where, constant(True, BOOL)), axis, keepdims)


@function(axis="axis")
def argmax(b: Builder, x: Node, axis: int | None = None, *, keepdims: bool = False, where: Node | None = None):
    if where is not None:
        x = _reaches(b, x, max_(b, x, axis=axis, keepdims=axis is not None, where=where), where)
    return _position(b, "argmax", x, axis, keepdims)


@function(axis="axis")
def argmin(b: Builder, x: Node, axis: int | None = None, *, keepdims: bool = False, where: Node | None = None):
    if where is not None:
        x = _reaches(b, x, min_(b, x, axis=axis, keepdims=axis is not None, where=where), where)
    return _position(b, "argmin" if where is None else "argmax", x, axis, keepdims)


def _reaches(b: Builder, x: Node, extreme: Node, where: Node) -> Node:
    """Which of the elements that count equal their extreme: an infinite one is not taken for one that is left out."""
    same = b.elementwise("equal", x, extreme)
    both = b.elementwise("logical_and", b.elementwise("isnan", x), b.elementwise("isnan", extreme))
    return b.elementwise("logical_and", where, b.elementwise("logical_or", same, both))


def _position(b: Builder, fold: str, x: Node, axis: int | None, keepdims: bool) -> Node:
    found = shapes.reduce(b, fold, x, axis, keepdims)
    if axis is None and keepdims and x.type.rank != 1:
        return shapes.reshape(b, found, (1,) * x.type.rank)
    return found
