"""Trigonometric functions and their inverses; float32 arguments of any size are reduced exactly, without a branch.

x = m · 2^e, and 2^e · 2/π modulo 4 is read from a table as the sum of two doubles: m times that is the angle in
quarter turns with 80 good bits after the point, where no float32 comes nearer to a multiple of π/2 than 2^-33
(Payne & Hanek, 1983). float64 calls the C library. A loop whose arguments are all within NEAR uses the "near"
functions: Cody & Waite's reduction in three parts. measured: a third of the time.
"""

from __future__ import annotations

from functools import cache

from llvmlite import ir

from ....ir.types import FLOAT32, FLOAT64, INT32, INT64, UINT32
from ..llvm_values import LLVMValue, absolute, call, copysign, fma, multiply_rounded, polynomial, rint, select, sqrt
from .elementary import INF, NAN, round_to_integer

PI, HALF_PI, HALF_PI_LOW = 3.141592653589793, 1.5707963267948966, 6.123233995736766e-17
# π/2 in three parts, and the largest argument that they reduce well
HALF_PI_PARTS = {
    FLOAT32: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    FLOAT64: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
PI_PARTS = {FLOAT32: (3.1415927410125732, -8.742278000372485e-08), FLOAT64: (3.141592653589793, 1.2246467991473532e-16)}
NEAR = {FLOAT32: 2.0**15, FLOAT64: 2.0**20}
TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561  # · 2^256
SIN = {
    FLOAT32: (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4),
    FLOAT64: (
        -1.66666666666666324348e-01,
        8.33333333332248946124e-03,
        -1.98412698298579493134e-04,
        2.75573137070700676789e-06,
        -2.50507602534068634195e-08,
        1.58969099521155010221e-10,
    ),
}
COS = {
    FLOAT32: (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5),
    FLOAT64: (
        4.16666666666666019037e-02,
        -1.38888888888741095749e-03,
        2.48015872894767294178e-05,
        -2.75573143513906633035e-07,
        2.08757232129817482790e-09,
        -1.13596475577881948265e-11,
    ),
}
# (atan t - t) / t^3 and (asin t - t) / t^3 as polynomials of t^2, minimax in relative error
ATAN = {
    FLOAT32: (
        -0.3333329908539488,
        0.19998548096983962,
        -0.14264239696540668,
        0.10952176636585874,
        -0.0840342801730329,
        0.05795728422234512,
        -0.03117760271758697,
        0.010914505881662118,
        -0.0017936053526909973,
    ),
    FLOAT64: (
        -0.33333333333333287,
        0.19999999999990445,
        -0.1428571428503647,
        0.11111111086443418,
        -0.09090908547194557,
        0.07692299711139937,
        -0.06666583718054127,
        0.05881716128146417,
        -0.05259433683535696,
        0.047449257950230035,
        -0.04286390171686578,
        0.038210050804569,
        -0.03278541156577492,
        0.02615165166084263,
        -0.01861419299848873,
        0.011317654854826744,
        -0.005612396127284143,
        0.002151594880402627,
        -0.0005928963025426368,
        0.00010387266288099609,
        -8.65429100832681e-06,
    ),
}
ASIN = {
    FLOAT32: (
        0.16666659873960976,
        0.07500510809805598,
        0.04451573950295973,
        0.03181746392183766,
        0.014403111602356657,
        0.03756456552971043,
    ),
    FLOAT64: (
        0.16666666666666763,
        0.07499999999970276,
        0.04464285717510872,
        0.03038194268413989,
        0.022372215646872588,
        0.01735160031326084,
        0.013980959004595494,
        0.011397794505779024,
        0.01078643275865653,
        0.0036833803451796878,
        0.021762731410188144,
        -0.021076276854141426,
        0.032676295250092,
    ),
}


@cache
def quarter_turns() -> tuple[tuple[float, float], ...]:
    """Per biased exponent of a float32: 2^(exponent of its last bit) · 2/π modulo 4, as a sum of two doubles."""
    rows = []
    for biased in range(256):
        exponent = max(biased, 1) - 150
        scaled = TWO_OVER_PI << 128 if exponent < 0 else (TWO_OVER_PI << (128 + exponent)) % (1 << 386)
        factor = 2.0 ** min(exponent, 0)
        high = scaled / 2**384
        low = (scaled - int(high * 2.0**300) * 2**84) / 2**384
        rows.append((high * factor, low * factor))
    return tuple(rows)


def table(builder: ir.IRBuilder, part: int, index: LLVMValue) -> LLVMValue:
    """Part 0 (high) or 1 (low) of row `index` of `quarter_turns`, from a constant in the module."""
    name, module = f"quarter_turns_{part}", builder.module
    constant = module.globals.get(name)
    kind = ir.ArrayType(ir.DoubleType(), 256)
    if constant is None:
        constant = ir.GlobalVariable(module, kind, name)
        constant.linkage, constant.global_constant = "internal", True
        constant.initializer = ir.Constant(kind, [row[part] for row in quarter_turns()])
    zero = ir.Constant(ir.IntType(64), 0)
    address = builder.gep(constant, [zero, index.value], inbounds=True, source_etype=kind)
    return LLVMValue(builder, FLOAT64, builder.load(address, typ=ir.DoubleType()))


def reduce_angle(x: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """(r, q): |x| = q · π/2 + r modulo 2π for float32 x; r is a float64 in [-π/4, π/4], q an int32."""
    bits = x.reinterpret(UINT32) & 0x7FFFFFFF
    exponent = bits >> 23
    mantissa = (bits & 0x7FFFFF) | select(exponent == 0, 0, bits.like(1 << 23))
    m, row = mantissa.to(INT32).to(FLOAT64), exponent.to(INT64)
    high, low = table(x.builder, 0, row), table(x.builder, 1, row)
    product = multiply_rounded(m, high)
    lost = fma(m, high, -product)
    turns = rint(product)
    fraction = (product - turns) + fma(m, low, lost)
    turns_modulo_4 = turns - rint(turns * 0.25) * 4
    quadrant = LLVMValue(x.builder, INT32, x.builder.fptosi(turns_modulo_4.value, ir.IntType(32)))
    return fraction * HALF_PI, quadrant


def beyond(x: LLVMValue) -> LLVMValue:
    """True if an argument needs the general reduction; False for NaN."""
    return absolute(x) > NEAR[x.dtype]


def reduce_near_angle(x: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """(r, q): x = q · π/2 + r for |x| <= NEAR. The first difference is exact, the others cost half an ulp each."""
    turns, quadrant = round_to_integer(x, 2 / PI)
    for part in HALF_PI_PARTS[x.dtype]:
        x = fma(turns, -part, x)
    return x, quadrant


def sin_near(x: LLVMValue) -> LLVMValue:
    r, quadrant = reduce_near_angle(x)
    return select(x == 0, x, in_quadrant(*sine_and_cosine(r), quadrant))


def cos_near(x: LLVMValue) -> LLVMValue:
    r, quadrant = reduce_near_angle(x)
    return in_quadrant(*sine_and_cosine(r), quadrant + 1)


def tan_near(x: LLVMValue) -> LLVMValue:
    r, quadrant = reduce_near_angle(x)
    return select(x == 0, x, tangent(r, quadrant))


def tangent(r: LLVMValue, quadrant: LLVMValue) -> LLVMValue:
    sine, cosine = sine_and_cosine(r)
    even = (quadrant & 1) == 0
    return select(even, sine, -cosine) / select(even, cosine, sine)


def sine_and_cosine(r: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """sin r and cos r for |r| <= π/4."""
    z = r * r
    sine = fma(r * z, polynomial(z, SIN[r.dtype]), r)
    cosine = fma(z * z, polynomial(z, COS[r.dtype]), fma(z, -0.5, 1.0))
    return sine, cosine


def in_quadrant(sine: LLVMValue, cosine: LLVMValue, quadrant: LLVMValue) -> LLVMValue:
    """sin of the angle `quadrant` quarter turns further."""
    value = select((quadrant & 1) == 0, sine, cosine)
    return select((quadrant & 2) == 0, value, -value)


def sin(x: LLVMValue) -> LLVMValue:
    if x.dtype is FLOAT64:
        return call("sin", x)
    r, quadrant = reduce_angle(x)
    value = in_quadrant(*sine_and_cosine(r.to(FLOAT32)), quadrant)
    return finite_or_nan(x, select(x.bits() < 0, -value, value))


def cos(x: LLVMValue) -> LLVMValue:
    if x.dtype is FLOAT64:
        return call("cos", x)
    r, quadrant = reduce_angle(x)
    return finite_or_nan(x, in_quadrant(*sine_and_cosine(r.to(FLOAT32)), quadrant + 1))


def tan(x: LLVMValue) -> LLVMValue:
    if x.dtype is FLOAT64:
        return call("tan", x)
    r, quadrant = reduce_angle(x)
    value = tangent(r.to(FLOAT32), quadrant)
    return finite_or_nan(x, select(x.bits() < 0, -value, value))


def finite_or_nan(x: LLVMValue, value: LLVMValue) -> LLVMValue:
    return select(absolute(x) < INF, value, NAN)


def arctan(x: LLVMValue) -> LLVMValue:
    """atan t for t <= 1, π/2 - atan(1/t) above."""
    size = absolute(x)
    above = size > 1
    value = arctan_below_1(select(above, 1 / size, size))
    return copysign(select(above, minus(HALF_PI_PARTS, value), value), x)


def arctan_below_1(t: LLVMValue) -> LLVMValue:
    z = t * t
    return fma(t * z, polynomial(z, ATAN[t.dtype]), t)


def minus(parts: dict, angle: LLVMValue) -> LLVMValue:
    """An angle less than that of two or more parts, π/2 or π."""
    high, low, *_ = parts[angle.dtype]
    return (high - angle) + low


def arctan2(y: LLVMValue, x: LLVMValue) -> LLVMValue:
    """The angle of the point (x, y), with C's signs at zeros and infinities."""
    across, up = absolute(x), absolute(y)
    both_infinite = (across == INF) & (up == INF)
    large, small = select(across > up, across, up), select(across > up, up, across)
    ratio = select(both_infinite, 1, select(large == 0, 0, small / large))
    angle = arctan_below_1(ratio)
    angle = select(up > across, minus(HALF_PI_PARTS, angle), angle)
    angle = select(x.bits() < 0, minus(PI_PARTS, angle), angle)
    return select((x != x) | (y != y), x + y, copysign(angle, y))


def arcsin_core(x: LLVMValue) -> tuple[LLVMValue, LLVMValue, LLVMValue]:
    """(is |x| > 1/2, asin of |x| or of √((1 - |x|) / 2), |x|)."""
    size = absolute(x)
    above = size > 0.5
    z = select(above, (1 - size) * 0.5, size * size)
    t = select(above, sqrt(z), size)
    return above, fma(t * z, polynomial(z, ASIN[x.dtype]), t), size


def arcsin(x: LLVMValue) -> LLVMValue:
    above, value, _ = arcsin_core(x)
    return copysign(select(above, HALF_PI - (value * 2 - HALF_PI_LOW), value), x)


def arccos(x: LLVMValue) -> LLVMValue:
    above, value, _ = arcsin_core(x)
    negative = x < 0
    outer = select(negative, PI - (value * 2 - HALF_PI_LOW * 2), value * 2)
    inner = HALF_PI - (select(negative, -value, value) - HALF_PI_LOW)
    return select(above, outer, inner)
