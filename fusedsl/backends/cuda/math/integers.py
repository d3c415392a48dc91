"""Integers in generated bodies: total division, powers and shifts, and workarounds for ptxas bugs."""

from __future__ import annotations

from llvmlite.ir.instructions import CastInstr

from ..compiler.numba_backend import F32, I1, I32, I64, Emitter, ir, types


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


MAGIC = 1.5 * 2**23  # a float32 of which the last bit is 1: the low bits of a sum are those of the other number
INTEGERS_BITS = 0x4B000000  # those of 2**23, to which a number below it is added by its bits


def _narrow_floor(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    """x // y of at most 16 bits, by a reciprocal; anything where y is 0.

    x is moved by half in y's direction, so that the quotient is at least 1 / (2 |y|) from the integers around it; the
    reciprocal and the product are off by less than 2**-22 of |x / y|, 1 / (4 |y|) at most. The sum with MAGIC, rounded
    down, is the floor.
    """
    b = e.builder
    dividend, divisor = (_narrow_float(b, kind, v) for v in (x, y))
    half = e.call(F32, "llvm.copysign.f32", [F32(0.5), divisor])
    inverse = e.asm(F32, "rcp.approx.ftz.f32 $0, $1;", "=f,f", [divisor])
    ratio = b.fmul(b.fadd(dividend, half), inverse)
    floor = e.asm(F32, "add.rm.f32 $0, $1, $2;", "=f,f,f", [ratio, F32(MAGIC)])
    return b.trunc(b.bitcast(floor, I32), x.type)


def _narrow_float(b: ir.IRBuilder, kind: types.Type, x: ir.Value) -> ir.Value:
    """An integer of at most 16 bits as float32, without the conversion, of which an SM has few units."""
    bias = 1 << (kind.bitwidth - 1) if kind.signed else 0
    bits = b.or_(b.zext(b.xor(x, x.type(bias)), I32), I32(INTEGERS_BITS))
    return b.fsub(b.bitcast(bits, F32), F32(2.0**23 + bias))


def floor_divide(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    """x // y, and 0 where y is 0."""
    b = e.builder
    if kind.bitwidth <= 16:
        return b.select(b.icmp_unsigned("==", y, y.type(0)), x.type(0), _narrow_floor(e, kind, x, y))
    quotient, rest, divisor = truncated(e, kind, x, y)
    quotient = b.select(_off_floor(b, kind, rest, divisor), b.sub(quotient, quotient.type(1)), quotient)
    if kind.signed:
        quotient = b.select(b.icmp_signed("==", y, y.type(-1)), b.neg(x), quotient)
    return b.select(b.icmp_unsigned("==", y, y.type(0)), x.type(0), quotient)


def remainder(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    """x % y with the sign of y, and 0 where y is 0."""
    b = e.builder
    if kind.bitwidth <= 16:
        rest = b.sub(x, b.mul(_narrow_floor(e, kind, x, y), y))
        return b.select(b.icmp_unsigned("==", y, y.type(0)), x.type(0), rest)
    # A divisor of 0 or -1 was replaced by 1, whose remainder is the 0 that is wanted.
    _, rest, divisor = truncated(e, kind, x, y)
    return b.select(_off_floor(b, kind, rest, divisor), b.add(rest, divisor), rest)


RECIPROCAL = float.fromhex("0x1.fffff0p31")  # 2**32, less than what the hardware's reciprocal may be too large by


def _reciprocal(e: Emitter, y: ir.Value) -> ir.Value:
    """2**32 / y of an unsigned word, or a little less; computed once for a divisor that is the same for all."""
    b = e.builder
    inverse = e.asm(F32, "rcp.approx.ftz.f32 $0, $1;", "=f,f", [b.uitofp(y, F32)])
    estimate = e.asm(I32, "cvt.rzi.u32.f32 $0, $1;", "=r,f", [b.fmul(inverse, F32(RECIPROCAL))])
    return b.add(estimate, _high(b, estimate, b.mul(b.neg(y), estimate)))  # one step of Newton's method


def _high(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The upper word of a product of unsigned words."""
    return b.trunc(b.lshr(b.mul(b.zext(x, I64), b.zext(y, I64)), I64(32)), I32)


def _divided(e: Emitter, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Quotient and remainder of x, or of -1 - x where x is below 0, by y >= 0, and a word of the sign of x.

    With t = 2**32 / y, at least 2, the reciprocal is too small by less than 1 + 1 / t + 2**-7, so the quotient of a
    number below 2**31 by less than 1, and its floor by at most 1. Anything where y is 0.
    """
    b = e.builder
    sign = b.ashr(x, I32(31))
    magnitude = b.xor(x, sign)
    quotient = _high(b, magnitude, _reciprocal(e, y))
    rest = b.sub(magnitude, b.mul(quotient, y))
    more = b.icmp_unsigned(">=", rest, y)
    return b.add(quotient, b.zext(more, I32)), b.select(more, b.sub(rest, y), rest), sign


def word_remainder(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    """x % y of int32, y >= 0; 0 where y is 0."""
    b = e.builder
    _, rest, sign = _divided(e, x, y)
    rest = b.add(b.xor(rest, sign), b.and_(sign, y))  # below 0: y - 1 - rest
    return b.select(b.icmp_signed("==", y, I32(0)), I32(0), rest)


def word_floor_divide(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    """x // y of int32, y >= 0; 0 where y is 0."""
    b = e.builder
    quotient, _, sign = _divided(e, x, y)
    return b.select(b.icmp_signed("==", y, I32(0)), I32(0), b.xor(quotient, sign))


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
    """x << y, and 0 where y is negative or at least the width."""
    known, width = _literal(y), x.type.width
    if known is None:
        return _shifted(e, kind, "shl", x, y)
    return e.builder.shl(x, y) if 0 <= known < width else x.type(0)


def shift_right(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    """x >> y, and the sign in all bits where y is negative or at least the width."""
    b, known, width = e.builder, _literal(y), x.type.width
    if known is None:
        return _shifted(e, kind, "ashr" if kind.signed else "lshr", x, y)
    if 0 <= known < width:
        return (b.ashr if kind.signed else b.lshr)(x, y)
    return b.ashr(x, x.type(width - 1)) if kind.signed else x.type(0)


def _literal(y: ir.Value) -> int | None:
    """The number that a literal is, by way of changes of its type too."""
    while isinstance(y, CastInstr):
        y = y.operands[0]
    return y.constant if isinstance(y, ir.Constant) else None


_SHIFTS = {"shl": "shl.b", "ashr": "shr.s", "lshr": "shr.u"}


def _shifted(e: Emitter, kind: types.Type, name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """A shift by a distance that is taken for an unsigned one: a negative one is beyond every width.

    LLVM's shift by the width or more is poison, so that none is written. PTX's instruction takes such a distance for
    the width; narrow integers are shifted in 32 bits, where a shift by 31 leaves only sign bits.
    """
    b, width = e.builder, x.type.width
    if width < 32:
        wide, distance = (b.sext if kind.signed else b.zext)(x, I32), b.zext(y, I32)
        distance = b.select(b.icmp_unsigned("<", distance, I32(31)), distance, I32(31))
        return b.trunc(getattr(b, name)(wide, distance), x.type)
    if width == 64:
        y = b.trunc(b.select(b.icmp_unsigned("<", y, y.type(width)), y, y.type(width)), I32)
    letter = "l" if width == 64 else "r"
    return e.asm(x.type, f"{_SHIFTS[name]}{width} $0, $1, $2;", f"={letter},{letter},r", [x, y])


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
    word, register = ir.IntType(bits), "r" if bits == 32 else "l"
    operand = x if x.type == word else b.sext(x, word)
    result = e.asm(word, text.replace("word", f"s{bits}"), f"={register},{register}", [operand])
    return result if x.type == word else b.trunc(result, x.type)
