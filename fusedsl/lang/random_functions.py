"""Built-in random numbers: counter-based (Philox) functions of a seed, a stream and the index in C order; no state."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError, DTypeError, FusedslError
from ..ir import scans_sorts, shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.dims import Dim, product
from ..ir.graph import Node, value_of
from ..ir.types import FLOAT32, FLOAT64, INT64, UINT32, UINT64, DType
from .functions import function
from .parameter_kinds import KINDS, dim_of, not_constant, show_value

MOST_NUMBERS = 1 << 32  # from which randint chooses
BITS = {FLOAT32: 24, FLOAT64: 53}  # random bits of a number in [0, 1)
# sin(2 pi t) / t and cos(2 pi t) as polynomials of t^2, t in [0, 1/8]: minimax; in float32 the sine and the cosine are
# within 1.5 * 2^-24
SINE = (6.283185292, -41.34166263, 81.59255356, -75.40206787)
COSINE = (1.0, -19.73920881, 64.93937943, -85.45020599, 59.47599024)


@function(x_or_shape="any", stream="array")
def uniform(b: GraphBuilder, seed: Node, x_or_shape: Any, *, stream: Node | int = 0):
    """Random numbers in [0, 1), each computed from the seed, the stream and its index."""
    shape, kind = _shape_and_dtype(b, x_or_shape)
    return _to_unit_interval(
        b, _random_bits(b, "philox_pair" if kind is FLOAT64 else "philox_word", seed, stream, shape), kind
    )


@function(x_or_shape="any", stream="array")
def normal(b: GraphBuilder, seed: Node, x_or_shape: Any, *, stream: Node | int = 0):
    """Random numbers of the standard normal distribution (Box and Muller 1958); of float32, neighbours are a pair."""
    shape, kind = _shape_and_dtype(b, x_or_shape)
    if kind is FLOAT32:
        return _normal_pairs(b, seed, stream, shape)
    first, second = _independent_pair(b, seed, stream, shape)
    up = b.elementwise("add", first, b.literal(2.0 ** -BITS[kind]))  # in (0, 1], so that its logarithm is finite
    radius = _radius(b, up)
    turn = b.elementwise("cos", b.elementwise("multiply", second, b.literal(6.283185307179586)))
    return b.elementwise("multiply", radius, turn)


def _shape_and_dtype(b: GraphBuilder, x: Any) -> tuple[tuple[Dim, ...], DType]:
    """(shape, dtype) from an array, a tuple or an integer; float64 for a float64 array, else float32."""
    if isinstance(x, Node) and dim_of(x) is None and (x.type.shape or not x.type.weak):
        return x.type.shape, FLOAT64 if x.type.dtype is FLOAT64 else FLOAT32
    if isinstance(x, tuple) or (isinstance(x, Node) and dim_of(x) is not None):
        try:
            return KINDS["shape"](b, "shape", x), FLOAT32
        except ArgumentError as error:
            raise fail(error, 1) from None
    message = f"a shape is integers, or an array that has it, not {show_value(x)}"
    fault = ArgumentError(message, "argument.kind", help="uniform(seed, x) or uniform(seed, (n, m))")
    raise fail(not_constant(fault, x), 1)


def _random_bits(
    b: GraphBuilder, name: str, seed: Node, stream: Node | int, shape: tuple[Dim, ...], operand: int = 2
) -> Node:
    """64 or 32 random bits for each element; neighbours share the output of one counter. The stream is this operand."""
    return _bits_at(b, name, b.cast(_linear_index(b, shape), UINT64), seed, stream, operand)


def _bits_at(b: GraphBuilder, name: str, position: Node, seed: Node, stream: Node | int, operand: int) -> Node:
    """Random bits at positions of the stream."""
    number = b.literal(stream) if isinstance(stream, int) else stream
    key, stream_word = _integer_operand(b, "seed", seed, 0), _integer_operand(b, "stream", number, operand)
    return b.elementwise(name, position, key, stream_word)


def _integer_operand(b: GraphBuilder, what: str, x: Node, operand: int) -> Node:
    if x.type.shape or x.type.dtype.kind not in "iu":
        fault: type[FusedslError] = ArgumentError if x.type.shape else DTypeError
        message, help = f"a {what} is one integer, not {b.describe(x.type)}", "e.g. uniform(7, x), or int64(seed)"
        raise fail(fault(message, code=f"argument.{what}", help=help), operand)
    large = x.type.weak and x.op == "const" and value_of(x) >= 1 << 63
    return b.coerce(x, UINT64) if large else b.cast(x, UINT64)


def _linear_index(b: GraphBuilder, shape: tuple[Dim, ...]) -> Node:
    """The linear index in C order, for this shape."""
    total = shapes.broadcast_to(b, b.literal(0), shape)
    for axis, extent in enumerate(shape):
        line = b.elementwise("multiply", b.iota(extent), b.extent(product(shape[axis + 1 :])))
        behind = len(shape) - axis - 1
        line = shapes.expand_dims(b, line, list(range(1, behind + 1))) if behind else line
        total = b.elementwise("add", total, line)
    return total


def _independent_pair(b: GraphBuilder, seed: Node, stream: Node | int, shape) -> tuple[Node, Node]:
    """Two independent float64 in [0, 1)."""
    low, high = (_random_bits(b, name, seed, stream, shape) for name in ("philox", "philox_high"))
    return _to_unit_interval(b, low, FLOAT64), _to_unit_interval(b, high, FLOAT64)


def _normal_pairs(b: GraphBuilder, seed: Node, stream: Node | int, shape) -> Node:
    """float32 by Box and Muller: elements 2k and 2k + 1 are the coordinates of the k-th random point of the plane.

    Its angle is one of eight parts of a turn, by three bits, and a part of that, whose sine and cosine are polynomials.
    """
    position = b.cast(_linear_index(b, shape), UINT64)
    halved = b.elementwise("right_shift", position, b.literal(1))
    bits = _bits_at(b, "philox_pair", halved, seed, stream, 2)
    first, word = (b.cast(x, UINT32) for x in (bits, b.elementwise("right_shift", bits, b.literal(32))))
    number = b.convert(b.elementwise("right_shift", first, b.literal(33 - BITS[FLOAT32])), FLOAT32)
    step = 2.0 ** (1 - BITS[FLOAT32])  # odd multiples of half of it are exact, and lie between 0 and 1
    up = b.elementwise("add", b.elementwise("multiply", number, b.literal(step)), b.literal(step / 2))
    part = _to_unit_interval(b, word, FLOAT32, 0.125)
    square = b.elementwise("multiply", part, part)
    sine, cosine = b.elementwise("multiply", part, _polynomial(b, square, SINE)), _polynomial(b, square, COSINE)
    swapped, minus, minus_odd = (_bit(b, word, k) for k in range(3))
    radius = _radius(b, up)
    even = _signed(b, minus, radius, b.elementwise("where", swapped, sine, cosine))
    odd = _signed(b, minus_odd, radius, b.elementwise("where", swapped, cosine, sine))
    return b.elementwise("where", _bit(b, position, 0), odd, even)


def _radius(b: GraphBuilder, up: Node) -> Node:
    """The distance of a random point from the origin, of a number in (0, 1]."""
    return b.elementwise("sqrt", b.elementwise("multiply", b.elementwise("log", up), b.literal(-2.0)))


def _signed(b: GraphBuilder, minus: Node, radius: Node, x: Node) -> Node:
    """radius * x, or its negative."""
    return b.elementwise("multiply", b.elementwise("where", minus, b.elementwise("negative", radius), radius), x)


def _bit(b: GraphBuilder, word: Node, k: int) -> Node:
    return b.elementwise("not_equal", b.elementwise("bitwise_and", word, b.literal(1 << k)), b.literal(0))


def _polynomial(b: GraphBuilder, x: Node, coefficients: tuple[float, ...]) -> Node:
    """By Horner's rule, from the coefficient of x^0 on."""
    value = b.literal(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = b.elementwise("add", b.elementwise("multiply", value, x), b.literal(c))
    return value


def _to_unit_interval(b: GraphBuilder, bits: Node, kind: DType, end: float = 1.0) -> Node:
    """A number in [0, end) from the upper bits of a word: of 32 bits for float32, 64 for float64."""
    word = bits if kind is FLOAT64 else b.cast(bits, UINT32)
    mantissa = b.elementwise("right_shift", word, b.literal(word.type.dtype.bits - BITS[kind]))
    return b.elementwise("multiply", b.convert(mantissa, kind), b.literal(end * 2.0 ** -BITS[kind]))


@function(shape="shape", low="array", high="array", stream="array")
def randint(b: GraphBuilder, seed: Node, shape: tuple[Dim, ...], low: Node, high: Node, *, stream: Node | int = 0):
    """Random int64 from low to high - 1, which span up to 2^32 numbers.

    The upper half of 64 random bits times the span (Lemire 2019): no number is more likely by 2^-32
    of its probability than another.
    """
    for operand, bound in ((2, low), (3, high)):
        if bound.type.shape or bound.type.dtype.kind not in "iu":
            message = f"low and high are one integer each, not {b.describe(bound.type)}"
            raise fail(DTypeError(message, "argument.range", help="e.g. randint(7, (3,), 0, 10)"), operand)
    if low.op == high.op == "const" and not 0 < value_of(high) - value_of(low) <= MOST_NUMBERS:
        message = f"randint from {value_of(low)} to {value_of(high)} - 1"
        help = "high is more than low, by 2^32 at most"
        raise fail(ArgumentError(message, "argument.range", help=help), 3)
    low, high = b.convert(low, INT64), b.convert(high, INT64)
    span = b.cast(b.elementwise("subtract", high, low), UINT64)
    bits = _random_bits(b, "philox_pair", seed, stream, shape, 4)
    half = b.literal(32)
    upper = b.elementwise("multiply", b.elementwise("right_shift", bits, half), span)
    lower = b.elementwise("multiply", b.elementwise("bitwise_and", bits, b.literal((1 << 32) - 1)), span)
    carried = b.elementwise("add", upper, b.elementwise("right_shift", lower, half))
    return b.elementwise("add", b.cast(b.elementwise("right_shift", carried, half), INT64), low)


@function(n="extent", stream="array")
def permutation(b: GraphBuilder, seed: Node, n: Dim, *, stream: Node | int = 0):
    """The numbers 0 to n - 1 in random order: sorted by 64 random bits each."""
    return scans_sorts.sort_nodes(b, _random_bits(b, "philox_pair", seed, stream, (n,)), False)[1]
