"""Built-in functions for shapes, casts and rounding, built from several operations.

The signature of each function is its signature in a program; `@function` gives the kinds that KIND_OF does not have.
"""

from __future__ import annotations

from ..errors import ArgumentError, DTypeError, ShapeError
from ..ir import shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.dims import Dim, expression, product
from ..ir.graph import Node
from ..ir.types import BOOL, DTYPES, FLOAT32, FLOAT64, INT8, DType
from .functions import TABLE, FunctionSpec, ParameterSpec, function

Axes = int | tuple[int, ...] | None
Dims = tuple[Dim, ...]

# -- casts and copies


@function(dtype="dtype")
def astype(b: GraphBuilder, x: Node, dtype: DType):
    """`x` in another dtype: a float becomes an integer by truncation and saturation, NaN becomes 0."""
    return b.cast(x, dtype)


def _cast_to(d: DType) -> FunctionSpec:
    return FunctionSpec(d.name, (ParameterSpec("x", "array"),), lambda b, x: b.cast(x, d), about=f"astype(x, {d})")


TABLE.update({d.name: _cast_to(d) for d in DTYPES.values()})


@function()
def copy(b: GraphBuilder, x: Node):
    """`x` itself: results are always new arrays."""
    return x


@function(shape="shape | None")
def zeros_like(b: GraphBuilder, x: Node, *, dtype: DType | None = None, shape: Dims | None = None):
    """Zeros of the shape and dtype of `x`."""
    return full_like(b, x, b.literal(0), dtype=dtype, shape=shape)


@function(shape="shape | None")
def ones_like(b: GraphBuilder, x: Node, *, dtype: DType | None = None, shape: Dims | None = None):
    """Ones of the shape and dtype of `x`."""
    return full_like(b, x, b.literal(1), dtype=dtype, shape=shape)


@function(shape="shape | None")
def full_like(b: GraphBuilder, x: Node, fill_value: Node, *, dtype: DType | None = None, shape: Dims | None = None):
    """`fill_value` in the shape and dtype of `x`."""
    if dtype is not None or not x.type.weak:
        to = dtype or x.type.dtype
        fill_value = b.coerce(fill_value, to) if exact(fill_value, to) else b.cast(fill_value, to)
    return shapes.broadcast_to(b, fill_value, x.type.shape if shape is None else shape)


def exact(x: Node, to: DType) -> bool:
    """True if a weak value takes dtype `to` by promotion, as literals do, without a cast."""
    return x.type.weak and (x.type.dtype is BOOL or x.type.dtype.kind != "f" or to.kind == "f")


# -- elementwise


@function()
def positive(b: GraphBuilder, x: Node):
    """`x`."""
    if x.type.dtype is BOOL:
        raise fail(DTypeError("cannot take the sign of a bool", "dtype.positive", help="use int8(x)"), 0)
    return x


@function()
def square(b: GraphBuilder, x: Node):
    """x · x"""
    x = b.convert(x, INT8) if x.type.dtype is BOOL else x
    return b.elementwise("multiply", x, x)


@function(other="array | None")
def as_float(b: GraphBuilder, x: Node, other: Node | None = None):
    """`x` in the float dtype that NumPy computes in, alone or with another operand. Weak stays weak."""
    if x.type.weak or x.type.dtype.kind == "f":
        return x if x.type.dtype.kind == "f" else b.elementwise("multiply", x, b.literal(1.0))
    return b.convert(x, b.computed("hypot", x) if other is None else b.computed("hypot", x, other))


@function()
def nextafter(b: GraphBuilder, x: Node, y: Node):
    """The next number of the dtype itself after `x` towards `y`, also for float16 and bfloat16."""
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
def summand(b: GraphBuilder, x: Node):
    """64-bit integers as float64, so that the sum of a mean does not wrap; the sums of others are exact in int64."""
    wide = x.type.dtype.kind in "iu" and x.type.dtype.bits == 64 and not x.type.weak
    return b.convert(x, FLOAT64) if wide else x


@function()
def fabs(b: GraphBuilder, x: Node):
    """|x| as a float."""
    return b.elementwise("absolute", as_float(b, x))


@function(x="any")
def given(b: GraphBuilder, x):
    """Whether `x` is given: False only for None."""
    return b.literal(x is not None)


@function()
def divmod_(b: GraphBuilder, x: Node, y: Node):
    """Quotient and remainder: x // y, x % y."""
    return b.elementwise("floor_divide", x, y), b.elementwise("remainder", x, y)


@function(decimals="int")
def round_(b: GraphBuilder, x: Node, decimals: int = 0):
    """`x` with so many decimals, half to even."""
    if abs(decimals) > 308:
        message = f"decimals is {decimals:.3g}, and floats have 308 on either side of the point"
        raise fail(ArgumentError(message, "argument.range", help="give -308 to 308"), 1)
    if x.type.dtype.kind != "f":
        x = b.cast(x, DTYPES["float16"]) if x.type.dtype is BOOL else x
        if x.type.dtype.kind != "f":
            return x if decimals >= 0 else _round_integers(b, x, 10**-decimals)
    if decimals == 0:
        return b.elementwise("rint", x)
    scale = b.literal(10.0 ** abs(decimals))
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return b.elementwise(back, b.elementwise("rint", b.elementwise(there, x, scale)), scale)


def _round_integers(b: GraphBuilder, x: Node, unit: int) -> Node:
    """Integers to the nearest multiple of `unit`, half to even."""
    scaled = b.elementwise("divide", x, b.literal(unit))
    rounded = b.elementwise("multiply", b.elementwise("rint", scaled), b.literal(float(unit)))
    return rounded if x.type.weak else b.cast(rounded, x.type.dtype)


@function()
def fix(b: GraphBuilder, x: Node):
    """`x` without its fraction."""
    return b.elementwise("trunc", x)


@function()
def reciprocal(b: GraphBuilder, x: Node):
    """1 / x; integers divide as integers."""
    if x.type.dtype.kind == "f" or x.type.weak:
        return b.elementwise("divide", b.literal(1), x)
    x = b.convert(x, INT8) if x.type.dtype is BOOL else x
    is_one = b.elementwise("equal", x, b.literal(1))
    if x.type.dtype.kind == "u":
        return b.convert(is_one, x.type.dtype)
    minus = b.elementwise("where", b.elementwise("equal", x, b.literal(-1)), b.convert(b.literal(-1), x.type.dtype),
                          b.convert(b.literal(0), x.type.dtype))  # fmt: skip
    return b.elementwise("where", is_one, b.convert(b.literal(1), x.type.dtype), minus)


@function(nan="array | None", posinf="array | None", neginf="array | None")
def nan_to_num(
    b: GraphBuilder, x: Node, *, nan: Node | None = None, posinf: Node | None = None, neginf: Node | None = None
):
    """`x` with NaN replaced by 0 and infinities by the largest numbers, or by the given numbers."""
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
def reshape(b: GraphBuilder, x: Node, shape: Dims):
    """The elements in C order under another shape; one extent may be -1."""
    return shapes.reshape(b, x, shape)


@function(blame="axes")
def transpose(b: GraphBuilder, x: Node, axes: Axes = None):
    """The axes in another order, reversed by default."""
    return shapes.transpose(b, x, (axes,) if isinstance(axes, int) else axes)


@function()
def matrix_transpose(b: GraphBuilder, x: Node):
    """The last two axes swapped, as in x.mT."""
    if x.type.rank < 2:
        raise ShapeError(
            f"{b.describe(x.type)} has no two axes to swap", "shape.transpose", help="mT needs 2 axes or more"
        )
    return shapes.swapaxes(b, x, -1, -2)


@function(axis1="int", axis2="int")
def swapaxes(b: GraphBuilder, x: Node, axis1: int, axis2: int):
    """Two axes swapped."""
    return shapes.swapaxes(b, x, axis1, axis2)


@function(blame="axis", axis="ints")
def expand_dims(b: GraphBuilder, x: Node, axis: int | tuple[int, ...]):
    """New axes of extent 1, at these positions in the result."""
    return shapes.expand_dims(b, x, axis)


@function(blame="axis")
def squeeze(b: GraphBuilder, x: Node, axis: Axes = None):
    """Without axes of extent 1: these, or all."""
    if axis is None:
        return shapes.squeeze(b, x, b.unit_axes(x.type.shape))
    return shapes.squeeze(b, x, shapes.normalize_axes(b, x, axis))


@function(blame="shape")
def broadcast_to(b: GraphBuilder, x: Node, shape: Dims):
    """`x` repeated to a shape, without a copy."""
    return shapes.broadcast_to(b, x, shape, operand=1)


@function()
def size(b: GraphBuilder, x: Node, axis: Axes = None):
    """The number of elements, or the extent of some axes: a weak integer."""
    return b.extent(product(x.type.shape[a] for a in shapes.normalize_axes(b, x, axis)))


@function()
def shape_(b: GraphBuilder, x: Node):
    """The extents, as a tuple of weak integers."""
    return tuple(b.extent(d) for d in x.type.shape)


@function(axis="int")
def iota(b: GraphBuilder, x: Node, axis: int):
    """The index along an axis, in the shape of `x`: a weak integer, not stored in memory."""
    return shapes.iota_along(b, x, shapes.normalize_axis(b, x, axis))


@function(start="extent", stop="extent", step="int")
def arange(b: GraphBuilder, start: Dim, stop: Dim | None = None, step: int = 1, *, dtype: DType | None = None):
    """start, start + step, … below stop: weak integers, not stored in memory."""
    if step == 0:
        raise fail(ArgumentError("a step cannot be 0", "argument.step", help="use 1, or -1 to count down"), 2)
    start, stop = (0, start) if stop is None else (start, stop)
    counted = b.iota(_steps(start, stop, step))
    scaled = counted if step == 1 else b.elementwise("multiply", counted, b.literal(step))
    moved = scaled if start == 0 else b.elementwise("add", scaled, b.extent(start))
    return moved if dtype is None else b.cast(moved, dtype)


def _steps(start: Dim, stop: Dim, step: int) -> Dim:
    """How many numbers there are from start to stop."""
    room = expression("-", stop, start) if step > 0 else expression("-", start, stop)
    count = expression("//", expression("+", room, abs(step) - 1), abs(step))
    return count if isinstance(room, int) and room >= 0 else expression("max", count, 0)
