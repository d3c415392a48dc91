"""Laws of numbers on which NumPy, Numba, C and processors disagree: one row per law, with an example for every target.

`ops.py` lists the operations, `meaning.py` defines them; this table has the cases that a reader may expect otherwise.
The arrays of an example have one axis of four elements; its text names them x, y and z.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, pi

Column = tuple[str, tuple]  # a dtype and four elements (one, for a whole reduction)


@dataclass(frozen=True)
class Law:
    """`text` of arrays `given` yields `wanted`, bit for bit; `elsewhere` says what others compute."""

    says: str
    elsewhere: str
    text: str
    given: tuple[Column, ...]
    wanted: Column


LOW = {8: -128, 32: -(2**31), 64: -(2**63)}
TINY, HALF_STEP = 2.0**-140, 2.0**-24  # below the normal float32 numbers; half of float32's last place at 1


def _law(says: str, elsewhere: str, text: str, *columns: Column) -> Law:
    return Law(says, elsewhere, text, columns[:-1], columns[-1])


DTYPES = (
    _law(
        "an integer literal takes the array's dtype",
        "Numba: int64",
        "x + 1",
        ("int8", (127, 0, -1, 5)), ("int8", (-128, 1, 0, 6)),
    ),
    _law(
        "a float literal takes the float array's dtype",
        "Numba: float64",
        "x * 2.5",
        ("float32", (1.0, 2.0, -3.0, 0.1)), ("float32", (2.5, 5.0, -7.5, 0.25)),
    ),
    _law(
        "a float literal with integers gives float64",
        "JAX: float32",
        "x * 0.5",
        ("int8", (1, 2, 3, -4)), ("float64", (0.5, 1.0, 1.5, -2.0)),
    ),
    _law(
        "weak stays weak: pi / 2 has no dtype of its own",
        "NumPy: a NumPy function of a number is float64",
        "x * sqrt(4.0) * (pi - pi / 2)",
        ("float32", (0.0, 1.0, 2.0, -1.0)), ("float32", (0.0, pi, 2 * pi, -pi)),
    ),
    _law(
        "small integers are computed in their own width",
        "Numba: widened to int64; C: to int",
        "(x + y) >> 1",
        ("uint8", (200, 255, 1, 0)), ("uint8", (100, 1, 2, 0)), ("uint8", (22, 0, 1, 0)),
    ),
    _law(
        "~ and unary - keep the dtype",
        "Numba: int64 of uint32",
        "~x ^ -x",
        ("uint32", (0, 1, 5, 2**32 - 1)), ("uint32", (2**32 - 1, 1, 1, 1)),
    ),
    _law(
        "int64 with uint64 is computed in float64",
        "C: uint64",
        "x + y",
        ("int64", (-1, -2, 3, 0)), ("uint64", (0, 1, 2, 2**63)), ("float64", (-1.0, -1.0, 5.0, 2.0**63)),
    ),
    _law(
        "signed and unsigned integers compare as numbers",
        "C: -1 > 0 of unsigned; Numba: in float64",
        "x < y",
        ("int64", (-1, 2**62, 2**63 - 1, 0)), ("uint64", (0, 2**63, 2**63, 0)), ("bool", (True, True, True, False)),
    ),
    _law(
        "integers compare with what their dtype cannot hold",
        "C: after a conversion that wraps",
        "x < 300",
        ("int8", (1, 127, -128, 0)), ("bool", (True, True, True, True)),
    ),
    _law(
        "/ of integers is float64",
        "C: the truncated quotient",
        "x / y",
        ("int8", (7, -7, 1, 0)), ("int8", (2, 2, 0, 0)), ("float64", (3.5, -3.5, inf, nan)),
    ),
    _law(
        "+ of bools is or",
        "Numba: int64",
        "x + y",
        ("bool", (True, True, False, False)), ("bool", (True, False, True, False)), ("bool", (True, True, True, False)),
    ),
    _law(
        "float16 is computed in float32 and rounded once",
        "NumPy: inf",
        "x * x / x",
        ("float16", (300.0, 1.0, -256.0, 65504.0)), ("float16", (300.0, 1.0, -256.0, 65504.0)),
    ),
    _law(
        "float64 to float16 is rounded once",
        "by way of float32: twice, and up to infinity here",
        "float16(x)",
        ("float64", (65519.999999, 1 + 2.0**-11 + 2.0**-40, nan, -1e300)),
        ("float16", (65504.0, 1 + 2.0**-10, nan, -inf)),
    ),
    _law(
        "casts to a narrower integer wrap",
        "LLVM's saturating casts",
        "int8(x)",
        ("int32", (127, 128, -129, 2**31 - 1)), ("int8", (127, -128, 127, -1)),
    ),
    _law(
        "float to integer truncates, saturates, and takes NaN to 0",
        "C, NumPy: undefined; PTX: the least int64 for NaN",
        "int64(x) + int8(y)",
        ("float64", (nan, inf, -1.5, 1e30)), ("float32", (-1000.0, nan, 1e9, -0.9)),
        ("int64", (-128, 2**63 - 1, 126, 2**63 - 1)),
    ),
)  # fmt: skip

INTEGERS = (
    _law(
        "an integer // 0 is 0",
        "Numba: ZeroDivisionError; x86: a trap",
        "x // y",
        ("int32", (5, -5, 0, 7)), ("int32", (0, 0, 0, 2)), ("int32", (0, 0, 0, 3)),
    ),
    _law(
        "an integer % 0 is 0",
        "Numba: ZeroDivisionError; PTX: all ones",
        "x % y",
        ("int32", (5, -5, 0, 7)), ("int32", (0, 0, 0, -2)), ("int32", (0, 0, 0, -1)),
    ),
    _law(
        "the least integer // -1 wraps",
        "x86: a trap; LLVM: undefined",
        "x // y + x % y",
        ("int32", (LOW[32], LOW[32] + 1, 5, -1)), ("int32", (-1, -1, -1, -1)),
        ("int32", (LOW[32], -(LOW[32] + 1), -5, 1)),
    ),
    _law(
        "// and % floor, fmod truncates",
        "C: // and % truncate",
        "(x // y) * 100 + (x % y) * 10 + fmod(x, y)",
        ("int32", (7, -7, 7, -7)), ("int32", (3, 3, -3, -3)), ("int32", (211, -281, -319, 189)),
    ),
    _law(
        "a shift by the width or more leaves nothing",
        "LLVM: undefined; x86: by the count modulo the width",
        "(x << y) - (x >> y)",
        ("int32", (1, -1, 5, -5)), ("int32", (32, 31, 40, 40)), ("int32", (0, LOW[32] + 1, 0, 1)),
    ),
    _law(
        "what shifts leave nothing of divides as 0 does",
        "LLVM: a divisor that is never 0; x86: a trap",
        "x ** 3 // (3 << y)",
        ("uint16", (9, 9, 40, 65535)), ("uint16", (1, 16, 4, 65535)), ("uint16", (121, 0, 1333, 0)),
    ),
    _law(
        "an integer ** a negative is 0, or ±1 of ±1",
        "NumPy: ValueError; Numba: float64",
        "x ** y",
        ("int32", (2, -1, 1, 0)), ("int32", (-1, -3, -4, -2)), ("int32", (0, -1, 1, 0)),
    ),
    _law(
        "an integer ** an integer wraps",
        "C: by way of double",
        "x ** y",
        ("int32", (3, 2, -3, 7)), ("int32", (21, 32, 20, 0)), ("int32", (3**21 - 2 * 2**32, 0, 3**20 - 2**32, 1)),
    ),
    _law(
        "abs of the least integer is itself",
        "C: undefined",
        "abs(x)",
        ("int8", (-128, -127, 0, 5)), ("int8", (-128, 127, 0, 5)),
    ),
)  # fmt: skip

FLOATS = (
    _law(
        "a float / 0 is an infinity or NaN",
        "Numba: ZeroDivisionError",
        "x / y",
        ("float32", (1.0, -1.0, 0.0, 1.0)), ("float32", (0.0, 0.0, 0.0, -0.0)), ("float32", (inf, -inf, nan, -inf)),
    ),
    _law(
        "float // and % are NumPy's, by zero and infinity too",
        "Numba: ZeroDivisionError",
        "where(z, x // y, x % y)",
        ("float32", (1.0, 0.0, -1.0, -1.0)), ("float32", (0.0, 0.0, inf, inf)), ("bool", (True, True, True, False)),
        ("float32", (inf, nan, -1.0, inf)),
    ),
    _law(
        "maximum and minimum keep NaN, whichever side it is on",
        "Python's max: the first; C's fmax, PTX's max: the number",
        "maximum(x, y) + minimum(x, y)",
        ("float32", (nan, 1.0, nan, 2.0)), ("float32", (1.0, nan, nan, 3.0)), ("float32", (nan, nan, nan, 5.0)),
    ),
    _law(
        "fmax and fmin drop NaN",
        "maximum",
        "fmax(x, y) + fmin(x, y)",
        ("float32", (nan, 1.0, nan, 2.0)), ("float32", (1.0, nan, nan, 3.0)), ("float32", (2.0, 2.0, nan, 5.0)),
    ),
    _law(
        "maximum and minimum order zeros by their signs, -0.0 < 0.0",
        "comparing: the first or the second, whatever its sign",
        "copysign(1.0, maximum(x, y)) + copysign(2.0, minimum(x, y))",
        ("float32", (0.0, -0.0, -0.0, 0.0)), ("float32", (-0.0, 0.0, -0.0, 0.0)), ("float32", (-1.0, -1.0, -3.0, 3.0)),
    ),
    _law(
        "fmax and fmin do so too",
        "C's fmax: either",
        "copysign(1.0, fmax(x, y)) + copysign(2.0, fmin(x, y))",
        ("float64", (0.0, -0.0, -0.0, nan)), ("float64", (-0.0, 0.0, nan, 0.0)), ("float64", (-1.0, -1.0, -3.0, 3.0)),
    ),
    _law(
        "a product that is read twice is one number, rounded",
        "contracted: the product less its rounded value",
        "x * y - maximum(x * y, 0.0)",
        ("float32", (0.1, 0.3, 0.7, 1.1)), ("float32", (0.1, 0.7, 0.9, 1.3)), ("float32", (0.0, 0.0, 0.0, 0.0)),
    ),
    _law(
        "NaN is there: isnan and x != x see it",
        "fast-math: False, always",
        "isnan(x) & (x != x) | (isinf(y) & ~isfinite(y))",
        ("float32", (nan, 1.0, inf, nan)), ("float32", (1.0, inf, nan, nan)), ("bool", (True, True, False, True)),
    ),
    _law(
        "-0.0 is kept: nothing folds x + 0 or 0 - x",
        "fast-math: 0.0",
        "copysign(1.0, x + y) + copysign(2.0, y - x) + copysign(4.0, -x)",
        ("float32", (0.0, -0.0, -0.0, 1.0)), ("float32", (0.0, 0.0, -0.0, -1.0)), ("float32", (-1.0, 7.0, 5.0, -5.0)),
    ),
    _law(
        "sign of NaN is NaN, of -0.0 it is 0.0",
        "comparing: 0 of NaN",
        "sign(x) + copysign(2.0, sign(y))",
        ("float32", (nan, 5.0, -inf, 0.0)), ("float32", (1.0, -0.0, 0.0, -1.0)), ("float32", (nan, 3.0, 1.0, -2.0)),
    ),
    _law(
        "rint and round go to even",
        "C's round: away from zero",
        "rint(x) + round(y)",
        ("float32", (0.5, 1.5, 2.5, -0.5)), ("float32", (-1.5, 0.5, 3.5, 4.5)), ("float32", (-2.0, 2.0, 6.0, 4.0)),
    ),
    _law(
        "the numbers below the normal ones stay",
        "CUDA's fast modes: 0",
        "x * 0.5 + y / 2",
        ("float32", (TINY, -TINY, 0.0, TINY)), ("float32", (0.0, 0.0, TINY, TINY)),
        ("float32", (TINY / 2, -TINY / 2, TINY / 2, TINY)),
    ),
    _law(
        "fma rounds once",
        "a * b + c: twice",
        "fma(x, y, -1.0)",
        ("float32", (1 + 2 * HALF_STEP,) * 2 + (1.0, 0.0)), ("float32", (1 - 2 * HALF_STEP, 1.0, 1.0, inf)),
        ("float32", (-4 * HALF_STEP**2, 2 * HALF_STEP, 0.0, nan)),
    ),
    _law(
        "where chooses, it does not weigh: the other side does no harm",
        "c * x + (1 - c) * y: NaN",
        "where(z, x, y)",
        ("float32", (1.0, nan, inf, 2.0)), ("float32", (nan, 3.0, 4.0, inf)), ("bool", (True, False, False, True)),
        ("float32", (1.0, 3.0, 4.0, 2.0)),
    ),
    _law(
        "x ** 0 and 1 ** y are 1, of NaN too",
        "NaN in, NaN out",
        "x ** y",
        ("float32", (nan, 1.0, -2.0, -2.0)), ("float32", (0.0, nan, 3.0, 0.5)), ("float32", (1.0, 1.0, -8.0, nan)),
    ),
    _law(
        "logaddexp of two infinities is one",
        "inf - inf: NaN",
        "logaddexp(x, y)",
        ("float32", (inf, -inf, inf, -inf)), ("float32", (inf, -inf, -inf, 3.0)), ("float32", (inf, -inf, inf, 3.0)),
    ),
    _law(
        "hypot does not overflow before its result does",
        "sqrt(x*x + y*y): inf; NaN beside an infinity",
        "hypot(x, y)",
        ("float32", (3e30, inf, 0.0, -3.0)), ("float32", (4e30, nan, 0.0, 4.0)), ("float32", (5e30, inf, 0.0, 5.0)),
    ),
    _law(
        "the next float16 is the next float16",
        "computing in float32: the number itself",
        "nextafter(x, y)",
        ("float16", (1.0, 0.0, 65504.0, 1.0)), ("float16", (2.0, -1.0, inf, 1.0)),
        ("float16", (1 + 2.0**-10, -(2.0**-24), inf, 1.0)),
    ),
)  # fmt: skip

READS = (
    _law(
        "a float read out of range is NaN; -1 is the last element",
        "NumPy: IndexError; JAX: the nearest element",
        "x[y]",
        ("float32", (1.0, 2.0, 3.0, 4.0)), ("int64", (-1, 0, 4, -5)), ("float32", (4.0, 1.0, nan, nan)),
    ),
    _law(
        "an integer or a bool read out of range is 0",
        "NumPy: IndexError; C: whatever lies there",
        "x[y] + z[y]",
        ("int32", (1, 2, 3, 4)), ("int64", (-4, 3, LOW[64], 2**63 - 1)), ("bool", (True, True, True, True)),
        ("int32", (2, 5, 0, 0)),
    ),
)  # fmt: skip

FOLDS = (
    _law("small integers are added up in int64", "Numba: wrapped where the array is int8",
         "sum(x)", ("int8", (127, 127, 127, 127)), ("int64", (508,))),
    _law("sums of unsigned integers are uint64", "Numba: int64",
         "sum(x)", ("uint64", (2**64 - 1, 2, 0, 0)), ("uint64", (1,))),
    _law("a sum of bools counts", "C++: a bool",
         "sum(x)", ("bool", (True, True, False, True)), ("int64", (3,))),
    _law("max keeps NaN, wherever it stands", "PTX's max, fmax: the largest number",
         "max(x)", ("float32", (1.0, nan, 3.0, inf)), ("float32", (nan,))),
    _law("the larger of zeros is 0.0, the smaller -0.0", "comparing: the first",
         "copysign(1.0, max(x)) + copysign(2.0, min(x))", ("float32", (-0.0, 0.0, -0.0, 0.0)), ("float32", (-1.0,))),
    _law("the sum of nothing but -0.0 is 0.0", "adding up from the first element: -0.0",
         "1 / sum(x)", ("float32", (-0.0, -0.0, -0.0, -0.0)), ("float32", (inf,))),
    _law("argmax is the first NaN", "comparing: the largest number",
         "argmax(x)", ("float32", (inf, nan, 3.0, nan)), ("int64", (1,))),
    _law("argmin is the first of equals; -0.0 equals 0.0", "a tree of threads: any of them",
         "argmin(x)", ("float32", (1.0, 0.0, -0.0, 0.0)), ("int64", (1,))),
    _law("the mean of 64-bit integers does not wrap", "sum(x) / n: wrapped",
         "mean(x)", ("int64", (2**62, 2**62, 2**62, 0)), ("float64", (3 * 2.0**60,))),
    _law("a mean of nothing is NaN", "0",
         "mean(x, where=x < 0)", ("float32", (1.0, 2.0, 3.0, 4.0)), ("float32", (nan,))),
    _law("a sum of nothing is 0, even among NaN", "0 * NaN: NaN",
         "sum(x, where=x < 0)", ("float32", (nan, 2.0, inf, 4.0)), ("float32", (0.0,))),
    _law("any and all take NaN for true", "comparing with > 0: false",
         "any(x) & all(x)", ("float32", (nan, 2.0, -3.0, inf)), ("bool", (True,))),
)  # fmt: skip

ELEMENTWISE = DTYPES + INTEGERS + FLOATS
LAWS = ELEMENTWISE + READS + FOLDS
