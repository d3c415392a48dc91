"""Integers in generated bodies: division, powers and shifts that are defined for all operands, and around ptxas."""

from __future__ import annotations

from .backend import I1, Emitter, ir, types


def truncated(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """x / y truncated, its remainder, and the divisor used; total: by 0 and by -1 it divides by 1 instead."""
    b = e.builder
    special = b.icmp_unsigned("==", y, y.type(0))
    if kind.signed:
        special = b.or_(special, b.icmp_signed("==", y, y.type(-1)))
    divisor = b.select(special, y.type(1), y)
    quotient = (b.sdiv if kind.signed else b.udiv)(x, divisor)
    return quotient, b.sub(x, b.mul(quotient, divisor)), divisor


def _off_floor(b: ir.IRBuilder, kind: types.Type, rest: ir.Value, divisor: ir.Value) -> ir.Value:
    """Is a truncated quotient one more than the floored one?"""
    if not kind.signed:
        return I1(0)
    unlike = b.icmp_signed("<", b.xor(rest, divisor), rest.type(0))
    return b.and_(unlike, b.icmp_signed("!=", rest, rest.type(0)))


def floor_divide(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    """x // y, and 0 where y is 0."""
    b = e.builder
    quotient, rest, divisor = truncated(e, kind, x, y)
    quotient = b.select(_off_floor(b, kind, rest, divisor), b.sub(quotient, quotient.type(1)), quotient)
    if kind.signed:
        quotient = b.select(b.icmp_signed("==", y, y.type(-1)), b.neg(x), quotient)
    return b.select(b.icmp_unsigned("==", y, y.type(0)), x.type(0), quotient)


def remainder(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    """x % y with the sign of y, and 0 where y is 0."""
    b = e.builder  # a divisor of 0 or -1 was replaced by 1, whose remainder is the 0 that is wanted
    _, rest, divisor = truncated(e, kind, x, y)
    return b.select(_off_floor(b, kind, rest, divisor), b.add(rest, divisor), rest)


def power(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    """x ** y by squaring; for y < 0 what of 1 / x ** -y is an integer: of 1 and -1 their power, of others 0."""
    b = e.builder
    result, square = x.type(1), x
    for bit in range(kind.bitwidth - bool(kind.signed)):
        chosen = b.trunc(b.lshr(y, y.type(bit)), I1)
        result = b.select(chosen, b.mul(result, square), result)
        square = b.mul(square, square)
    if not kind.signed:
        return result
    odd = b.trunc(y, I1)
    of_minus_one = b.select(odd, x.type(-1), x.type(1))
    inverse = b.select(b.icmp_signed("==", x, x.type(-1)), of_minus_one, x.type(0))
    inverse = b.select(b.icmp_signed("==", x, x.type(1)), x.type(1), inverse)
    return b.select(b.icmp_signed("<", y, y.type(0)), inverse, result)


def shift_left(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    """x << y, and 0 where y is as large as the type or larger."""
    b = e.builder
    inside = b.icmp_unsigned("<", y, y.type(kind.bitwidth))
    return b.select(inside, b.shl(x, b.select(inside, y, y.type(0))), x.type(0))


def shift_right(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    """x >> y, and the sign in all bits where y is as large as the type or larger."""
    b = e.builder
    inside = b.icmp_unsigned("<", y, y.type(kind.bitwidth))
    if kind.signed:
        return b.ashr(x, b.select(inside, y, y.type(kind.bitwidth - 1)))
    return b.select(inside, b.lshr(x, b.select(inside, y, y.type(0))), x.type(0))


def negative(e: Emitter, x: ir.Value) -> ir.Value:
    """-x, of 16 bits in 32: ptxas 13.0 takes -(-32768) of 16 bits for 32768 where that is compared or converted."""
    return _written(e, x, "neg.word $0, $1;") if x.type.width == 16 else e.builder.neg(x)


def size(e: Emitter, x: ir.Value) -> ir.Value:
    """|x| as max(x, -x), in one piece that is not taken for an abs: ptxas (13.0 to 13.5) says that -abs(x) < c holds
    for every x, where c is a constant below 0."""
    return _written(e, x, "{ .reg .word other; neg.word other, $1; max.word $0, $1, other; }")


def _written(e: Emitter, x: ir.Value, text: str) -> ir.Value:
    """What PTX makes of a signed integer in a word of 32 bits, or of 64 where it has them."""
    b, bits = e.builder, max(x.type.width, 32)
    word, letter = ir.IntType(bits), "r" if bits == 32 else "l"
    given = x if x.type == word else b.sext(x, word)
    made = e.asm(word, text.replace("word", f"s{bits}"), f"={letter},{letter}", [given])
    return made if x.type == word else b.trunc(made, x.type)
