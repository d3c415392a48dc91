"""Special functions: erf, erfc and lgamma.

erf in float32 after N. Juffa's two-piece polynomials (one of them the exponent of 1 - erf); in float64 an odd
polynomial below 1. erfc(t) = exp(-t²) P((t - 4) / (t + 4)) / (1 + 2t) after Shepherd & Laframboise, 1981.
"""

from __future__ import annotations

from ....ir.types import FLOAT32, FLOAT64
from ..llvm_values import LLVMValue, absolute, call, copysign, fma, polynomial, rint, select
from .elementary import INF, exp, through_float64
from .logarithm import log
from .trigonometric import PI, sine_and_cosine

ERF_INNER = (
    1.1283791670955126,
    -0.3761263890318375,
    0.11283791670954885,
    -0.02686617064507787,
    0.005223977624828389,
    -0.0008548326981423463,
    0.00012055331132892126,
    -1.4925595770909825e-05,
    1.6461008460771013e-06,
    -1.635039606926364e-07,
    1.466032781931662e-08,
    -1.137495257919263e-09,
    5.960680339728099e-11,
)
ERF_INNER_FLOAT32 = (1.28379166e-1, -3.76125336e-1, 1.12819925e-1, -2.67681349e-2, 4.99119423e-3, -5.96761703e-4)
ERF_OUTER_FLOAT32 = (
    -1.28717512e-1,
    -6.34846687e-1,
    -1.06777877e-1,
    2.42546219e-2,
    -3.88396438e-3,
    3.83197126e-4,
    -1.72853470e-5,
)
ERFC = (
    1.2329951186255526,
    -0.1396211168405629,
    0.015379652102619764,
    0.0680970542547366,
    -0.10103906603630115,
    0.09373283499682397,
    -0.0663303658125635,
    0.03716751556185108,
    -0.01619773404842998,
    0.005031969763574863,
    -0.0007577734048224171,
    -0.00019925556126051516,
    0.00015062247141339258,
    -2.4402941611530214e-05,
    -1.1225282669218995e-05,
    5.717295630439911e-06,
    3.0195592475882423e-07,
    -8.342410674772396e-07,
    6.238935724916823e-08,
    1.1456188318619815e-07,
    -7.778849138375484e-09,
    -1.3386461220806674e-08,
    -1.7176957369054665e-09,
)
# Γ(z) for z >= 1/2 after Lanczos, with Boost's g = 6.02… and rational series for 53 bits (lanczos13m53), which is flat
# to every digit of the logarithm from 1e8 on. (An integer below is a denominator's coefficient, exactly.)
LANCZOS_G, LANCZOS_FLAT = 6.024680040776729583740234375, 1e8
LANCZOS_OVER = (
    23531376880.410759688572007674451636754734,
    42919803642.649098768957899047001988850932,
    35711959237.355668049440185451547166705960,
    17921034426.037209699919755754458931112671,
    6039542586.3520280050642916443072979210699,
    1439720407.3117216736632230727949123939715,
    248874557.86205415651146038641322942321632,
    31426415.585400194380614231628318205362874,
    2876370.6289353724412254090516208496135991,
    186056.26539522349504029498971604569928220,
    8071.6720023658162106380029022722506138218,
    210.82427775157934587250973392071336271166,
    2.5066282746310002701649081771338373386264,
)
LANCZOS_UNDER = (0, 39916800, 120543840, 150917976, 105258076, 45995730, 13339535, 2637558, 357423, 32670, 1925, 66, 1)


def erf(x: LLVMValue) -> LLVMValue:
    if x.dtype is FLOAT32:
        return erf_float32(x)
    size = absolute(x)
    inner = x * polynomial(x * x, ERF_INNER)
    return select(size < 1, inner, copysign(1 - erfc_of_size(select(size < 1, 1, size)), x))


def erf_float32(x: LLVMValue) -> LLVMValue:
    size = absolute(x)
    limited = select(size > 4, 4, size)
    exponent = fma(polynomial(limited, ERF_OUTER_FLOAT32), limited, -limited)
    outer = copysign(1 - exp(exponent), x)
    return select(size > 0.927734375, outer, fma(polynomial(x * x, ERF_INNER_FLOAT32), x, x))


def erfc(x: LLVMValue) -> LLVMValue:
    if x.dtype is FLOAT32:
        return through_float64(erfc)(x)
    tail = erfc_of_size(absolute(x))
    inner = 1 - x * polynomial(x * x, ERF_INNER)
    return select(absolute(x) < 0.5, inner, select(x < 0, 2 - tail, tail))


def erfc_of_size(t: LLVMValue) -> LLVMValue:
    """erfc t for float64 t >= 0. The rounding error of t² is put back: it would grow with t² in the exponent."""
    t = select(t > 28, 28, t)
    square = LLVMValue(t.builder, t.dtype, t.builder.fmul(t.value, t.value))
    lost = fma(t, t, -square)
    core = exp(-square)
    core = core - core * lost
    return core * polynomial((t - 4) / (t + 4), ERFC) / (t * 2 + 1)


def lgamma(x: LLVMValue) -> LLVMValue:
    """The C library's of float64; of float32 computed in float64, which keeps the digits beside its zeros."""
    return call("lgamma", x) if x.dtype is FLOAT64 else through_float64(lgamma_by_lanczos)(x)


def lgamma_by_lanczos(x: LLVMValue) -> LLVMValue:
    """ln |Γ(x)| of a float64 within 4e-15 of the terms it is a sum of: L(z) ((z + g - 1/2) / e)^(z - 1/2) / e^g for
    z >= 1/2, and below it π / (sin πx Γ(1 - x))."""
    below, size = x < 0.5, absolute(x)
    z = select(below, 1 - x, x)
    limited = select(z > LANCZOS_FLAT, LANCZOS_FLAT, z)
    series = polynomial(limited, LANCZOS_OVER) / polynomial(limited, LANCZOS_UNDER)
    root = log(select(below, PI / (sine_of_half_turns(absolute(x - rint(x))) * series), series))
    power = (z - 0.5) * (log(z + (LANCZOS_G - 0.5)) - 1) - LANCZOS_G
    return select(size < INF, root + select(below, -power, power), size)


def sine_of_half_turns(t: LLVMValue) -> LLVMValue:
    """sin πt for t from 0 to 1/2."""
    steep = t < 0.25
    sine, cosine = sine_and_cosine(select(steep, t, 0.5 - t) * PI)
    return select(steep, sine, cosine)
