"""float64 functions on CUDA without branches, so that the elements of a tile interleave and share their constants.

libdevice's branch for every element: constants are then loaded anew each time, which takes as long as the arithmetic.
Errors are at most CUDA's documented ones: 1 ulp for exp and log, 2 for the others. Reductions after Cody & Waite, log
after fdlibm's e_log.c; polynomials are minimax.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

from ....ir.types import FLOAT64, INT32, INT64
from ...cpu.llvm_values import LLVMValue, fma, select
from ...cpu.math.elementary import LN2_PARTS, ROUNDER
from ...cpu.math.logarithm import LOG
from ...cpu.math.trigonometric import COS, HALF_PI_PARTS, SIN
from ..compiler.numba_backend import F64, I32, Emitter, ir

INV_LN2, TWO_OVER_PI = 1.4426950408889634, 0.6366197723675814
ROUND = ROUNDER[FLOAT64]
CONST_ADDRSPACE = 4  # constant memory
NAME_CHARACTERS = str.maketrans("-+.", "mp_")  # for those of a float that a name cannot have
NEAR = 0x41300000  # the high word of 2**20: angles below are reduced by π/2 in three parts
MOST_EXPONENT = 0x40890000  # that of 800: beyond ±750, e^x is infinite or 0
SQRT_HALF, ONE, LEAST_NORMAL = 0x3FE6A09E, 0x3FF00000, 0x00100000  # high words
# (e^r - 1 - r) / r² for |r| <= ln 2 / 2
EXP = (
    *(0.5, 0.1666666666666667, 0.041666666666666685, 0.008333333333326112, 0.0013888888888874352),
    *(0.00019841269874904636, 2.480158734744942e-05, 2.755725529422524e-06, 2.755725280625021e-07),
    *(2.5105260922590062e-08, 2.0921625276615325e-09),
)
# -log(erfc x) / x for 0 <= x <= 6; the error counts as much as it moves erf
ERF = (
    *(1.1283791670955126, 0.6366197723675836, 0.10277260330178875, -0.019128447005069715, -0.0002091946948525143),
    *(0.0016962063858306127, -0.0005901255533679437, 2.5878606125619655e-05, 6.449185558668263e-05),
    *(-2.9724034876065572e-05, 3.4072469248793233e-06, 2.835164167774371e-06, -1.741572034260739e-06),
    *(3.363848920151994e-07, 1.3716866278241177e-07, -1.417547683630753e-07, 6.573042787338662e-08),
    *(-2.0961619815771794e-08, 4.99743183362786e-09, -9.08167301027538e-10, 1.2483249954267735e-10),
    *(-1.2610054522820784e-11, 8.844853766246746e-13, -3.850189420566284e-14, 7.83345782251374e-16),
)
# (artanh(s) / s - 1 - z / 3) / z² for z = s² <= (3 - √8)²
ARTANH = (
    *(0.2, 0.1428571428571469, 0.1111111111082409, 0.090909091685173, 0.07692297398147405),
    *(0.06667406658524024, 0.05853007442209738, 0.05862704746816047),
)
THIRD, THIRD_LOW = 0.3333333333333333, 1.850371707708594e-17
LN2_HIGH, LN2_LOW = LN2_PARTS[FLOAT64]


def high_word(x: LLVMValue) -> LLVMValue:
    """The high word: sign, exponent, 20 bits of the fraction."""
    return (x.bits() >> 32).to(INT32)


def with_high_word(x: LLVMValue, word: LLVMValue) -> LLVMValue:
    """x with another high word."""
    low = x.bits() & 0xFFFFFFFF
    return (low | (word.to(INT64) << 32)).reinterpret(FLOAT64)


def polynomial(x: LLVMValue, coefficients: tuple[float, ...]) -> LLVMValue:
    """Σ coefficients[i] · x^i, in Horner's form. Constant memory takes one instruction each, code two."""
    module, kind = x.builder.module, ir.ArrayType(F64, len(coefficients))
    name = f"coefficients_{len(coefficients)}_{coefficients[-1].hex().translate(NAME_CHARACTERS)}"
    table = module.globals.get(name)
    if table is None:
        table = ir.GlobalVariable(module, kind, name, addrspace=CONST_ADDRSPACE)
        table.linkage, table.global_constant, table.align = "internal", True, 8
        table.initializer = ir.Constant(kind, list(coefficients))
    total = _constant(x.builder, table, len(coefficients) - 1)
    for k in reversed(range(len(coefficients) - 1)):
        total = fma(total, x, _constant(x.builder, table, k))
    return total


def _constant(builder: ir.IRBuilder, table: ir.GlobalVariable, k: int) -> LLVMValue:
    pointer = builder.gep(table, [I32(0), I32(k)])
    piece = ir.InlineAsm(ir.FunctionType(F64, [pointer.type]), "ld.const.f64 $0, [$1];", "=d,l")
    return LLVMValue(builder, FLOAT64, builder.call(piece, [pointer], attrs=("nounwind", "readnone")))


def fabs(x: LLVMValue) -> LLVMValue:
    return (x.bits() & 0x7FFFFFFFFFFFFFFF).reinterpret(FLOAT64)


def copysign(x: LLVMValue, sign: LLVMValue) -> LLVMValue:
    """x >= 0 with the sign of another number."""
    return (x.bits() | (sign.bits() & -(1 << 63))).reinterpret(FLOAT64)


def round_scaled(x: LLVMValue, scale: float) -> tuple[LLVMValue, LLVMValue]:
    """x · scale rounded, as a float64 and as an int32; NaN, and beyond 2^31, any integer."""
    shifted = fma(x, scale, ROUND)
    return shifted - ROUND, shifted.bits().to(INT32)


def ldexp(x: LLVMValue, n: LLVMValue) -> LLVMValue:
    """x · 2^n for x within 1/2 and 2 and |n| < 2000, rounded once; beyond float64 infinity or 0."""
    half = n >> 1
    factor = ((half + 1023) << 20).to(INT64) << 32
    return with_high_word(x, high_word(x) + ((n - half) << 20)) * factor.reinterpret(FLOAT64)


def cody_waite_reduce(x: LLVMValue, tail: LLVMValue | None = None) -> tuple[LLVMValue, LLVMValue]:
    """(r, n): x + tail = n ln 2 + r (Cody and Waite)."""
    n, count = round_scaled(x, INV_LN2)
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    return (r if tail is None else r + tail), count


def expm1_reduced(r: LLVMValue) -> LLVMValue:
    """e^r - 1 for |r| <= ln 2 / 2."""
    return fma(polynomial(r, EXP), r * r, r)


def exp(x: LLVMValue, tail: LLVMValue | None = None) -> LLVMValue:
    """e^(x + tail)."""
    r, n = cody_waite_reduce(x, tail)
    value = ldexp(expm1_reduced(r) + 1, n)
    return select(x < -746, 0, select(x <= 710, value, x + inf))  # for NaN `value` is unspecified; x + inf returns NaN


def reciprocal(x: LLVMValue) -> LLVMValue:
    """1 / x for x within 1 and 4, to about an ulp: the hardware's, and two of Newton's steps."""
    kind = ir.FunctionType(F64, [F64])
    piece = ir.InlineAsm(kind, "rcp.approx.ftz.f64 $0, $1;", "=d,d")
    near = LLVMValue(x.builder, FLOAT64, x.builder.call(piece, [x.value], attrs=("nounwind", "readnone")))
    minus = LLVMValue(x.builder, FLOAT64, x.builder.fsub(ir.Constant(F64, -0.0), x.value))
    for _ in range(2):
        near = fma(near, fma(near, minus, 1), near)
    return near


def decompose(x: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """(n, f): x = 2^n (1 + f), 1 + f within √½ and √2, for finite x > 0; as frexp, but for that range."""
    tiny = high_word(x) < LEAST_NORMAL
    x = select(tiny, x * 2.0**54, x)
    word = high_word(x) + (ONE - SQRT_HALF)
    n = (word >> 20) - select(tiny, word.like(1023 + 54), 1023)
    f = with_high_word(x, (word & 0xFFFFF) + SQRT_HALF) - 1
    return from_signed(n), f


def from_signed(n: LLVMValue) -> LLVMValue:
    """An int32 as float64, four times as fast as the instruction for it: 2^52 + 2^31 + n has n in its lower word, but
    for the sign."""
    biased = ((n ^ -(1 << 31)).to(INT64) & 0xFFFFFFFF) | (0x43300000 << 32)
    return biased.reinterpret(FLOAT64) - (2.0**52 + 2.0**31)


def from_integer(e: Emitter, n: ir.Value, signed: bool) -> ir.Value:
    """An int32 or uint32 as float64."""
    if signed:
        return from_signed(LLVMValue(e.builder, INT32, n)).value
    wide = LLVMValue(e.builder, INT64, e.builder.zext(n, ir.IntType(64)))
    return ((wide | (0x43300000 << 32)).reinterpret(FLOAT64) - 2.0**52).value


def log(x: LLVMValue) -> LLVMValue:
    n, f = decompose(x)
    bottom = f + 2
    inverse = reciprocal(bottom)
    s = f * inverse
    s = fma(fma(-1 * s, bottom, f), inverse, s)
    z, half = s * s, f * f * 0.5
    correction = s * fma(z, polynomial(z, LOG[FLOAT64]), half)
    value = fma(n, LN2_HIGH, f - (half - fma(n, LN2_LOW, correction)))
    value = select(x < inf, value, x)
    return select(x > 0, value, select(x == 0, -inf, select(x == x, x.like(nan), x)))


def product(x: LLVMValue, y: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """x · y in two parts: rounded, never contracted with what follows, and what that lost."""
    module, kind = x.builder.module, ir.FunctionType(F64, [F64, F64])
    function = module.globals.get("__nv_dmul_rn") or ir.Function(module, kind, "__nv_dmul_rn")
    high = LLVMValue(x.builder, FLOAT64, x.builder.call(function, [x.value, y.value]))
    return high, fma(x, y, high * -1)


def long_log(x: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """log x in two parts, to 2^-65 of it, for x >= 0: n ln 2 + 2 artanh s, s = f / (2 + f) in two parts as well."""
    n, f = decompose(x)
    bottom = f + 2
    inverse = reciprocal(bottom)
    s, _ = product(f, inverse)
    minus = s * -1
    s_low = fma(minus, f - (bottom - 2), fma(minus, bottom, f)) * inverse
    z, z_low = product(s, s)
    z_low = fma(s + s, s_low, z_low)
    rest = z * z * polynomial(z, ARTANH)
    third, third_low = product(z, z.like(THIRD))
    third_low = fma(z_low, THIRD, fma(z, THIRD_LOW, third_low))
    q = third + rest
    q_low = (third - q) + rest + third_low
    a, a_low = product(s, q)
    h = s + a
    h_low = (s - h) + a + (fma(s_low, q, fma(s, q_low, a_low)) + s_low)
    base, h = n * LN2_HIGH, h + h
    value = base + h
    low = ((base - value) + h) + fma(n, LN2_LOW, h_low + h_low)
    return select(x == 0, -inf, select(x < inf, value, x)), low


def signed_power(x: LLVMValue, y: LLVMValue, value: LLVMValue) -> LLVMValue:
    """x ** y for x < 0 or x = -0, from |x| ** y: by whether y is whole, and odd."""
    size, shifted = fabs(y), fabs(y) + 2.0**52
    large = size >= 2.0**52
    last = select(large, select(size < 2.0**53, y.bits(), 0), shifted.bits()) & 1
    is_whole = large | (shifted - 2.0**52 == size)
    value = select(is_whole & (last != 0), value * -1, value)
    value = select((x < 0) & (x > -inf) & ~is_whole, nan, value)
    return select((x == -1) & (size == inf), 1, value)


def power(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """|x| ** y as C's pow has it: e^(y log |x|), with 11 more bits in the exponent."""
    high, low = long_log(fabs(x))
    exponent, tail = product(y, high)
    within = (high_word(exponent) & 0x7FFFFFFF) < MOST_EXPONENT
    value = exp(exponent, select(within, fma(y, low, tail), 0))
    return select((x == 1) | ((y.bits() << 1) == 0), 1, value)


def erf(x: LLVMValue) -> LLVMValue:
    """-(e^y - 1) for y = log(erfc |x|), one polynomial all over."""
    size = fabs(x)
    size = select(size > 6, 6, size)
    r, n = cody_waite_reduce(polynomial(size, ERF) * size * -1)
    power = ldexp(r.like(1.0), n)
    return copysign(fma(power * -1, expm1_reduced(r), 1 - power), x)


def sine_and_cosine(x: LLVMValue) -> tuple[LLVMValue, LLVMValue, LLVMValue]:
    """(sin r, cos r, q): x = q π/2 + r, for |x| < 2^20."""
    turns, quadrant = round_scaled(x, TWO_OVER_PI)
    r = x
    for part in HALF_PI_PARTS[FLOAT64]:
        r = fma(turns, -part, r)
    z = r * r
    sine = fma(r * z, polynomial(z, SIN[FLOAT64]), r)
    return sine, fma(z * z, polynomial(z, COS[FLOAT64]), fma(z, -0.5, 1.0)), quadrant


def of_quadrant(sine: LLVMValue, cosine: LLVMValue, quadrant: LLVMValue) -> LLVMValue:
    """sin of the angle so many quarter turns further."""
    value = select((quadrant & 1) == 0, sine, cosine)
    return with_high_word(value, high_word(value) ^ ((quadrant & 2) << 30))


def sin(x: LLVMValue) -> LLVMValue:
    return select(x == 0, x, of_quadrant(*sine_and_cosine(x)))


def cos(x: LLVMValue) -> LLVMValue:
    sine, cosine, quadrant = sine_and_cosine(x)
    return of_quadrant(sine, cosine, quadrant + 1)


EVERYWHERE: dict[str, Callable[[LLVMValue], LLVMValue]] = {"exp": exp, "log": log, "erf": erf}
NEARBY: dict[str, Callable[[LLVMValue], LLVMValue]] = {"sin": sin, "cos": cos}  # for |x| < 2**20


def call(e: Emitter, name: str, x: ir.Value) -> ir.Value:
    """A function of EVERYWHERE or NEARBY; what is far is libdevice's."""
    number = LLVMValue(e.builder, FLOAT64, x)
    if name in EVERYWHERE:
        return EVERYWHERE[name](number).value
    far = e.builder.icmp_unsigned(">=", (high_word(number) & 0x7FFFFFFF).value, I32(NEAR))
    return e.unlikely(far, [NEARBY[name](number).value], lambda: [e.call(F64, f"__nv_{name}", [x])])[0]


def raised(e: Emitter, x: ir.Value, y: ir.Value) -> ir.Value:
    """x to the power y."""
    base, exponent = (LLVMValue(e.builder, FLOAT64, value) for value in (x, y))
    value = power(base, exponent)
    return e.unlikely((high_word(base) < 0).value, [value.value], lambda: [signed_power(base, exponent, value).value])[
        0
    ]
