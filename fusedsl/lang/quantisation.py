"""Built-in quantisation: quantize, dequantize, and unpack of sub-byte integers."""

from __future__ import annotations

from ..errors import ArgumentError, DTypeError, ShapeError
from ..ir import shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.dims import Dim, expression
from ..ir.graph import Check, Node
from ..ir.types import DTYPES, FLOAT32, DType
from .array_functions import LARGEST, as_float
from .declared_signatures import declared
from .functions import function

WIDTHS = (1, 2, 4, 8, 16, 32)


@function(dtype="dtype", axis="axis", group="int")
@declared("b, x, scale, zero=None, *, dtype=DTYPES['int8'], axis=None, group=None")
def quantize(b: GraphBuilder, x: Node, scale: Node, zero: Node | None, dtype: DType, **groups: int | None):
    """clip(rint(x / scale) + zero) in `dtype`; one scale, one for each index of `axis`, or one for each `group`."""
    if dtype.kind == "b" or (dtype.kind == "f" and not dtype.storage):
        error = DTypeError(f"quantize to {dtype}", "dtype.quantize", help="to an integer or float8")
        raise fail(error, 3)
    x, scale, zero = _align_scales(b, x, scale, zero, **groups)
    value = b.elementwise("divide", as_float(b, x), scale)
    if not dtype.storage:
        value = b.elementwise("rint", value)
    if zero is not None:
        value = b.elementwise("add", value, b.convert(zero, value.type.dtype) if not value.type.weak else zero)
    if dtype.storage:  # integers saturate in their cast
        bound = LARGEST[dtype.name]
        value = b.elementwise("minimum", b.elementwise("maximum", value, b.literal(-bound)), b.literal(bound))
    return _merge_groups(b, b.cast(value, dtype), **groups)


@function(axis="axis", group="int")
def dequantize(b: GraphBuilder, x: Node, scale: Node, zero: Node | None = None, *, axis: int | None = None,
               group: int | None = None):  # fmt: skip
    """(x - zero) · scale"""
    x, scale, zero = _align_scales(b, x, scale, zero, axis, group)
    kind = scale.type.dtype if scale.type.dtype.kind == "f" and not scale.type.weak else FLOAT32
    value = b.convert(x, kind)
    if zero is not None:
        value = b.elementwise("subtract", value, b.convert(zero, kind))
    return _merge_groups(b, b.elementwise("multiply", value, b.convert(scale, kind)), axis, group)


def _align_scales(b: GraphBuilder, x: Node, scale: Node, zero: Node | None, axis: int | None, group: int | None):
    """(x, scale, zero point) reshaped to broadcast: x split into groups along an axis, or the others aligned to it."""
    if group is not None:
        if group < 1:
            raise fail(
                ArgumentError(f"a group holds 1 or more, not {group}", "argument.group", help="None takes no groups"),
                _GROUP,
            )
        a = shapes.normalize_axis(b, x, -1 if axis is None else axis)
        n = x.type.shape[a]
        count = expression("//", n, group)
        check = Check("same_size", (n, expression("*", count, group)), "group", (x.type,), site=b.site)
        if check.dims[0] != check.dims[1]:
            b.checks.append(check)
        grouped = shapes.reshape(b, x, (*x.type.shape[:a], count, group, *x.type.shape[a + 1 :]))
        return (
            grouped,
            _scale_of_groups(b, scale, x, a, 1),
            None if zero is None else _scale_of_groups(b, zero, x, a, 2),
        )
    if axis is None:
        return x, scale, zero
    a = shapes.normalize_axis(b, x, axis)
    return x, _along_axis(b, scale, x, a), None if zero is None else _along_axis(b, zero, x, a)


_GROUP = 5  # the number of the operand `group`


def _scale_of_groups(b: GraphBuilder, scale: Node, x: Node, axis: int, operand: int) -> Node:
    """A scale for each group, with an added axis of extent 1 for the group's elements."""
    if scale.type.rank not in (0, x.type.rank):
        error = ShapeError(
            f"{b.describe(scale.type)} has no number for each group of {b.describe(x.type)}",
            "shape.group",
            help="as many axes as the array, with one number for each group along the axis",
        )
        raise fail(error, operand)
    return shapes.expand_dims(b, scale, axis + 1) if scale.type.rank else scale


def _along_axis(b: GraphBuilder, scale: Node, x: Node, axis: int) -> Node:
    """A vector of scales aligned with an axis of x; other shapes broadcast unchanged."""
    after = x.type.rank - axis - 1
    return shapes.expand_dims(b, scale, list(range(1, after + 1))) if scale.type.rank == 1 and after else scale


def _merge_groups(b: GraphBuilder, x: Node, axis: int | None, group: int | None) -> Node:
    """Merge the groups of an axis again."""
    if group is None:
        return x
    a = (x.type.rank - 2 if axis is None else axis) if axis is None or axis >= 0 else x.type.rank - 1 + axis
    shape: list[Dim] = list(x.type.shape)
    shape[a : a + 2] = [expression("*", shape[a], shape[a + 1])]
    return shapes.reshape(b, x, shape)


@function(bits="int", signed="flag")
def unpack(b: GraphBuilder, x: Node, bits: int = 4, signed: bool = True):
    """The numbers of `bits` bits packed in integers, lowest bits first; the last axis grows."""
    x = b.strong(x)
    word = x.type.dtype
    if word.kind not in "iu":
        raise fail(DTypeError(f"{word} is not packed", "dtype.unpack", help="pass integers"), 0)
    if bits not in WIDTHS or word.bits % bits or not x.type.shape:
        message = f"{b.describe(x.type)} does not hold numbers of {bits} bits"
        help = f"bits is one of {', '.join(str(w) for w in WIDTHS if w <= word.bits)}, of an array"
        raise fail(ArgumentError(message, "argument.bits", help=help), 1)
    count = word.bits // bits
    shift = b.elementwise("multiply", b.iota(count), b.literal(bits))
    parts = b.elementwise("right_shift", shapes.expand_dims(b, x, x.type.rank), shift)
    if bits < word.bits:
        parts = b.elementwise("bitwise_and", parts, b.literal((1 << bits) - 1))
    if signed and bits < word.bits:
        sign = b.literal(1 << (bits - 1))
        parts = b.elementwise("subtract", b.elementwise("bitwise_xor", parts, sign), sign)
    narrow = b.cast(parts, DTYPES[f"{'int' if signed else 'uint'}{max(8, bits)}"])
    return shapes.reshape(b, narrow, (*x.type.shape[:-1], expression("*", x.type.shape[-1], count)))
