"""Conversions on CUDA: floats to integers, 16-bit and 8-bit floats to and from float32."""

from __future__ import annotations

from collections.abc import Iterable
from math import nan

from ....ir.types import DTYPES
from ..compiler.numba_backend import F32, I8, I16, I32, Emitter, intrinsic, ir, numba_type, types


def saturate(name: str):
    target = numba_type(name)

    def rule(kind):
        return (target, lambda e, x: _float_to_integer(e, x, kind, target)) if isinstance(kind, types.Float) else None

    rule.__name__ = f"saturate_{name}"
    return intrinsic(1)(rule)


def _float_to_integer(e: Emitter, x: ir.Value, kind: types.Type, target: types.Type) -> ir.Value:
    """Truncate, saturate, NaN to 0. (PTX's cvt saturates; of NaN it makes 0 only where neither side has 64 bits.)"""
    b, wide = e.builder, 64 if target.bitwidth == 64 else 32
    word, sign = ir.IntType(wide), "s" if target.signed else "u"
    register = "l" if wide == 64 else "r"
    text = f"cvt.rzi.{sign}{wide}.f{kind.bitwidth} $0, $1;"
    integer = e.asm(word, text, f"={register},{'f' if kind.bitwidth == 32 else 'd'}", [x])
    integer = b.select(b.fcmp_unordered("uno", x, x), word(0), integer)
    if target.bitwidth >= 32:
        return integer
    low = -(1 << (target.bitwidth - 1)) if target.signed else 0
    high = (1 << (target.bitwidth - bool(target.signed))) - 1
    less = b.icmp_signed if target.signed else b.icmp_unsigned
    integer = b.select(less("<", integer, word(low)), word(low), integer)
    integer = b.select(less(">", integer, word(high)), word(high), integer)
    return b.trunc(integer, ir.IntType(target.bitwidth))


def round_through(name: str):
    def rule(kind):
        if kind == types.float64 and name == "float16":
            return types.float32, lambda e, x: widen(e, e.asm(I16, "cvt.rn.f16.f64 $0, $1;", "=h,d", [x]), name)
        if kind != types.float32:
            return None
        if name == "bfloat16":
            return kind, _round_bfloat16
        return kind, lambda e, x: widen(e, narrow(e, x, name), name)

    rule.__name__ = f"{name}_round"
    return intrinsic(1)(rule)


def _round_bfloat16(e: Emitter, x: ir.Value) -> ir.Value:
    """The upper half of a pair is its float32."""
    if e.cc >= (8, 0):
        return e.builder.bitcast(bfloat16_pair(e, F32(0), x), F32)
    return widen(e, narrow(e, x, "bfloat16"), "bfloat16")


def bfloat16_pair(e: Emitter, low: ir.Value, high: ir.Value) -> ir.Value:
    """Two float32 rounded into the halves of a word (sm_80 and later).

    Also for one of them: the linker can make F2F.BF16.F32 of `cvt.rn.bf16.f32`, and where it stood, an H200 gave 0 for
    subnormal numbers.
    """
    return e.asm(I32, "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f", [low, high])


def widen(e: Emitter, half: ir.Value, name: str) -> ir.Value:
    """The stored bits of a narrow float as float32."""
    if DTYPES[name].storage:
        return widen_bytes(e, [half], name)[0]
    if name == "bfloat16":
        return e.builder.bitcast(e.builder.shl(e.builder.zext(half, I32), I32(16)), F32)
    return e.asm(F32, "cvt.f32.f16 $0, $1;", "=f,h", [half])


def narrow(e: Emitter, x: ir.Value, name: str) -> ir.Value:
    """float32 rounded to nearest even into the bits of a narrow float."""
    if DTYPES[name].storage:
        return narrow_bytes(e, [x], name)[0]
    if name == "float16":
        return e.asm(I16, "cvt.rn.f16.f32 $0, $1;", "=h,f", [x])
    if e.cc >= (8, 0):
        return e.builder.trunc(bfloat16_pair(e, x, F32(0)), I16)
    b = e.builder  # before sm_80 there is no conversion: round the bits, keep NaN quiet
    bits = b.bitcast(x, I32)
    odd = b.and_(b.lshr(bits, I32(16)), I32(1))
    rounded = b.lshr(b.add(bits, b.add(odd, I32(0x7FFF))), I32(16))
    return b.trunc(b.select(b.fcmp_unordered("uno", x, x), I32(0x7FFF), rounded), I16)


# float8 formats: bits of the fraction, exponent bias, the first word that is no finite number, the word of NaN.
_BYTES = {"float8_e4m3fn": (3, 7, 0x7F, 0x7F), "float8_e5m2": (2, 15, 0x7C, 0x7E)}
_LARGEST = {
    "float8_e4m3fn": 464.0,
    "float8_e5m2": 61440.0 - 2.0**-8,
}  # the largest float32 that rounds to a finite number
TOGETHER = 16  # values whose range is looked at as one
_PAIR = {"float8_e4m3fn": "e4m3x2", "float8_e5m2": "e5m2x2"}


def widen_bytes(e: Emitter, bytes: list[ir.Value], name: str) -> list[ir.Value]:
    """Stored float8 as float32; neighbours together where there are instructions for it."""
    if e.cc < (8, 9):
        return [_widen_byte(e, byte, name) for byte in bytes]
    b, floats, half = e.builder, [], f"cvt.rn.f16x2.{_PAIR[name]}"
    for begin in range(0, len(bytes), 4):
        word = I32(0)
        for k, byte in enumerate(bytes[begin : begin + 4]):
            word = b.or_(word, b.shl(b.zext(byte, I32), I32(8 * k)))
        text = f"{{.reg .b16 low, high; mov.b32 {{low, high}}, $2; {half} $0, low; {half} $1, high;}}"
        pairs = e.unpack(e.asm(ir.LiteralStructType([I32, I32]), text, "=r,=r,r", [word]), 2)
        halves = [b.trunc(b.lshr(pair, I32(shift)), I16) for pair in pairs for shift in (0, 16)]
        floats += [widen(e, part, "float16") for part in halves[: len(bytes) - begin]]
    return floats


def narrow_bytes(e: Emitter, values: list[ir.Value], name: str) -> list[ir.Value]:
    """float32 rounded into float8; neighbours together where there are instructions for it.

    Beyond the range is NaN in e4m3fn, which has no infinity, and infinity in e5m2: as ml_dtypes does.
    """
    if e.cc < (8, 9):
        return [_narrow_byte(e, x, name) for x in values]
    b, words = e.builder, []
    for begin in range(0, len(values), TOGETHER):
        words += _words(e, values[begin : begin + TOGETHER], name)
    return [b.trunc(b.lshr(word, I32(shift)), I8) for word in words for shift in (0, 8, 16, 24)][: len(values)]


def _fours(values: list[ir.Value]) -> list[list[ir.Value]]:
    return [values[begin : begin + 4] for begin in range(0, len(values), 4)]


def _word(e: Emitter, values: list[ir.Value], name: str) -> ir.Value:
    """Up to four float8 in a word; of what is beyond the range, PTX makes the largest number."""
    pair = f"cvt.rn.satfinite.{_PAIR[name]}.f32"
    values = values + [ir.Constant(F32, 0.0)] * (4 - len(values))
    text = f"{{.reg .b16 low, high; {pair} low, $2, $1; {pair} high, $4, $3; mov.b32 $0, {{low, high}};}}"
    return e.asm(I32, text, "=r,f,f,f,f", values)


def _words(e: Emitter, values: list[ir.Value], name: str) -> list[ir.Value]:
    """Neighbours as words of float8, right beyond the range too: of several the largest magnitude says whether any is,
    and only then each is looked at."""
    b = e.builder

    def beyond(size: ir.Value) -> ir.Value:
        return b.fcmp_ordered(">", size, ir.Constant(F32, _LARGEST[name]))

    def careful() -> list[ir.Value]:
        if name == "float8_e5m2":  # the word after that of the largest number is infinity
            return [_stepped(b, word, map(beyond, four)) for word, four in zip(plain(values), _fours(sizes))]
        return plain([b.select(beyond(size), ir.Constant(F32, nan), x) for size, x in zip(sizes, values)])

    def plain(chosen: list[ir.Value]) -> list[ir.Value]:
        return [_word(e, four, name) for four in _fours(chosen)]

    sizes = [e.call(F32, "__nv_fabsf", [x]) for x in values]
    if len(values) <= 2:
        return careful()
    usual, most = plain(values), list(sizes)
    while len(most) > 1:
        larger = [e.call(F32, "__nv_fmaxf", [x, y]) for x, y in zip(most[::2], most[1::2])]
        most = larger + most[len(larger) * 2 :]
    return e.unlikely(beyond(most[0]), usual, careful)


def _stepped(b: ir.IRBuilder, word: ir.Value, steps: Iterable[ir.Value]) -> ir.Value:
    """Bytes of a word, each one more where its step is true."""
    for k, step in enumerate(steps):
        word = b.add(word, b.shl(b.zext(step, I32), I32(8 * k)))
    return word


def _widen_byte(e: Emitter, byte: ir.Value, name: str) -> ir.Value:
    b, (fraction, bias, top, _) = e.builder, _BYTES[name]
    wide = b.zext(byte, I32)
    magnitude = b.and_(wide, I32(0x7F))
    scaled = b.bitcast(b.shl(magnitude, I32(23 - fraction)), F32)
    bits = b.bitcast(b.fmul(scaled, ir.Constant(F32, 2.0 ** (127 - bias))), I32)
    special = b.or_(bits, I32(0x7FC00000 if fraction == 3 else 0x7F800000))
    bits = b.select(b.icmp_unsigned(">=", magnitude, I32(top)), special, bits)
    return b.bitcast(b.or_(bits, b.shl(b.and_(wide, I32(0x80)), I32(24))), F32)


def _narrow_byte(e: Emitter, x: ir.Value, name: str) -> ir.Value:
    b, (fraction, bias, top, nan_word) = e.builder, _BYTES[name]
    bits, size = b.bitcast(x, I32), e.call(F32, "__nv_fabsf", [x])
    sign = b.and_(b.lshr(bits, I32(24)), I32(0x80))
    beyond = b.fcmp_unordered(">", size, ir.Constant(F32, _LARGEST[name]))
    magnitude, shift, rebias = b.and_(bits, I32(0x7FFFFFFF)), 23 - fraction, 127 - bias
    odd = b.and_(b.lshr(magnitude, I32(shift)), I32(1))
    normal = b.add(b.add(magnitude, I32((1 << (shift - 1)) - 1 - (rebias << 23))), odd)
    step = 24 - bias - fraction  # 2**step has the least subnormal in its last place
    shifted = b.bitcast(b.fadd(size, ir.Constant(F32, 2.0**step)), I32)
    subnormal = b.sub(shifted, I32((127 + step) << 23))
    small = b.icmp_unsigned("<", magnitude, I32((rebias + 1) << 23))
    value = b.select(small, subnormal, b.lshr(normal, I32(shift)))
    value = b.select(beyond, I32(top), value)
    value = b.select(b.fcmp_unordered("uno", x, x), I32(nan_word), value)
    return b.trunc(b.or_(value, sign), I8)
