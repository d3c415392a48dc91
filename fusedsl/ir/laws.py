"""Laws of numbers on which NumPy, Numba, C and processors disagree: one row per law, with an example for every target.

`ops.py` lists the operations, `semantics.py` defines them; this table has the cases that a reader may expect otherwise.
The arrays of an example have one axis of four elements; its text names them x, y and z.
"""

from __future__ import annotations

from math import inf, nan, pi

from .float_laws import FLOATS
from .law import LOW, law

DTYPES = (
    law(
        "an integer literal takes the array's dtype",
        "Numba: int64",
        "x + 1",
        ("int8", (127, 0, -1, 5)), ("int8", (-128, 1, 0, 6)),
    ),
    law(
        "a float literal takes the float array's dtype",
        "Numba: float64",
        "x * 2.5",
        ("float32", (1.0, 2.0, -3.0, 0.1)), ("float32", (2.5, 5.0, -7.5, 0.25)),
    ),
    law(
        "a float literal with integers gives float64",
        "JAX: float32",
        "x * 0.5",
        ("int8", (1, 2, 3, -4)), ("float64", (0.5, 1.0, 1.5, -2.0)),
    ),
    law(
        "weak stays weak: pi / 2 has no dtype of its own",
        "NumPy: a NumPy function of a number is float64",
        "x * sqrt(4.0) * (pi - pi / 2)",
        ("float32", (0.0, 1.0, 2.0, -1.0)), ("float32", (0.0, pi, 2 * pi, -pi)),
    ),
    law(
        "small integers are computed in their own width",
        "Numba: widened to int64; C: to int",
        "(x + y) >> 1",
        ("uint8", (200, 255, 1, 0)), ("uint8", (100, 1, 2, 0)), ("uint8", (22, 0, 1, 0)),
    ),
    law(
        "~ and unary - keep the dtype",
        "Numba: int64 of uint32",
        "~x ^ -x",
        ("uint32", (0, 1, 5, 2**32 - 1)), ("uint32", (2**32 - 1, 1, 1, 1)),
    ),
    law(
        "int64 with uint64 is computed in float64",
        "C: uint64",
        "x + y",
        ("int64", (-1, -2, 3, 0)), ("uint64", (0, 1, 2, 2**63)), ("float64", (-1.0, -1.0, 5.0, 2.0**63)),
    ),
    law(
        "signed and unsigned integers compare as numbers",
        "C: -1 > 0 of unsigned; Numba: in float64",
        "x < y",
        ("int64", (-1, 2**62, 2**63 - 1, 0)), ("uint64", (0, 2**63, 2**63, 0)), ("bool", (True, True, True, False)),
    ),
    law(
        "integers compare with what their dtype cannot hold",
        "C: after a conversion that wraps",
        "x < 300",
        ("int8", (1, 127, -128, 0)), ("bool", (True, True, True, True)),
    ),
    law(
        "/ of integers is float64",
        "C: the truncated quotient",
        "x / y",
        ("int8", (7, -7, 1, 0)), ("int8", (2, 2, 0, 0)), ("float64", (3.5, -3.5, inf, nan)),
    ),
    law(
        "+ of bools is or",
        "Numba: int64",
        "x + y",
        ("bool", (True, True, False, False)), ("bool", (True, False, True, False)), ("bool", (True, True, True, False)),
    ),
    law(
        "float16 is computed in float32 and rounded once",
        "NumPy: inf",
        "x * x / x",
        ("float16", (300.0, 1.0, -256.0, 65504.0)), ("float16", (300.0, 1.0, -256.0, 65504.0)),
    ),
    law(
        "float64 to float16 is rounded once",
        "by way of float32: twice, and up to infinity here",
        "float16(x)",
        ("float64", (65519.999999, 1 + 2.0**-11 + 2.0**-40, nan, -1e300)),
        ("float16", (65504.0, 1 + 2.0**-10, nan, -inf)),
    ),
    law(
        "casts to a narrower integer wrap",
        "LLVM's saturating casts",
        "int8(x)",
        ("int32", (127, 128, -129, 2**31 - 1)), ("int8", (127, -128, 127, -1)),
    ),
    law(
        "float to integer truncates, saturates, and takes NaN to 0",
        "C, NumPy: undefined; PTX: the least int64 for NaN",
        "int64(x) + int8(y)",
        ("float64", (nan, inf, -1.5, 1e30)), ("float32", (-1000.0, nan, 1e9, -0.9)),
        ("int64", (-128, 2**63 - 1, 126, 2**63 - 1)),
    ),
)  # fmt: skip

INTEGERS = (
    law(
        "an integer // 0 is 0",
        "Numba: ZeroDivisionError; x86: a trap",
        "x // y",
        ("int32", (5, -5, 0, 7)), ("int32", (0, 0, 0, 2)), ("int32", (0, 0, 0, 3)),
    ),
    law(
        "an integer % 0 is 0",
        "Numba: ZeroDivisionError; PTX: all ones",
        "x % y",
        ("int32", (5, -5, 0, 7)), ("int32", (0, 0, 0, -2)), ("int32", (0, 0, 0, -1)),
    ),
    law(
        "the least integer // -1 wraps",
        "x86: a trap; LLVM: undefined",
        "x // y + x % y",
        ("int32", (LOW[32], LOW[32] + 1, 5, -1)), ("int32", (-1, -1, -1, -1)),
        ("int32", (LOW[32], -(LOW[32] + 1), -5, 1)),
    ),
    law(
        "// and % floor, fmod truncates",
        "C: // and % truncate",
        "(x // y) * 100 + (x % y) * 10 + fmod(x, y)",
        ("int32", (7, -7, 7, -7)), ("int32", (3, 3, -3, -3)), ("int32", (211, -281, -319, 189)),
    ),
    law(
        "a shift by the width or more leaves nothing",
        "LLVM: undefined; x86: by the count modulo the width",
        "(x << y) - (x >> y)",
        ("int32", (1, -1, 5, -5)), ("int32", (32, 31, 40, 40)), ("int32", (0, LOW[32] + 1, 0, 1)),
    ),
    law(
        "what shifts leave nothing of divides as 0 does",
        "LLVM: a divisor that is never 0; x86: a trap",
        "x ** 3 // (3 << y)",
        ("uint16", (9, 9, 40, 65535)), ("uint16", (1, 16, 4, 65535)), ("uint16", (121, 0, 1333, 0)),
    ),
    law(
        "an integer ** a negative is 0, or ±1 of ±1",
        "NumPy: ValueError; Numba: float64",
        "x ** y",
        ("int32", (2, -1, 1, 0)), ("int32", (-1, -3, -4, -2)), ("int32", (0, -1, 1, 0)),
    ),
    law(
        "an integer ** an integer wraps",
        "C: by way of double",
        "x ** y",
        ("int32", (3, 2, -3, 7)), ("int32", (21, 32, 20, 0)), ("int32", (3**21 - 2 * 2**32, 0, 3**20 - 2**32, 1)),
    ),
    law(
        "abs of the least integer is itself",
        "C: undefined",
        "abs(x)",
        ("int8", (-128, -127, 0, 5)), ("int8", (-128, 127, 0, 5)),
    ),
)  # fmt: skip


READS = (
    law(
        "a float read out of range is NaN; -1 is the last element",
        "NumPy: IndexError; JAX: the nearest element",
        "x[y]",
        ("float32", (1.0, 2.0, 3.0, 4.0)), ("int64", (-1, 0, 4, -5)), ("float32", (4.0, 1.0, nan, nan)),
    ),
    law(
        "an integer or a bool read out of range is 0",
        "NumPy: IndexError; C: whatever lies there",
        "x[y] + z[y]",
        ("int32", (1, 2, 3, 4)), ("int64", (-4, 3, LOW[64], 2**63 - 1)), ("bool", (True, True, True, True)),
        ("int32", (2, 5, 0, 0)),
    ),
)  # fmt: skip

FOLDS = (
    law("small integers are added up in int64", "Numba: wrapped where the array is int8",
         "sum(x)", ("int8", (127, 127, 127, 127)), ("int64", (508,))),
    law("sums of unsigned integers are uint64", "Numba: int64",
         "sum(x)", ("uint64", (2**64 - 1, 2, 0, 0)), ("uint64", (1,))),
    law("a sum of bools counts", "C++: a bool",
         "sum(x)", ("bool", (True, True, False, True)), ("int64", (3,))),
    law("max keeps NaN, wherever it stands", "PTX's max, fmax: the largest number",
         "max(x)", ("float32", (1.0, nan, 3.0, inf)), ("float32", (nan,))),
    law("the larger of zeros is 0.0, the smaller -0.0", "comparing: the first",
         "copysign(1.0, max(x)) + copysign(2.0, min(x))", ("float32", (-0.0, 0.0, -0.0, 0.0)), ("float32", (-1.0,))),
    law("the sum of nothing but -0.0 is 0.0", "adding up from the first element: -0.0",
         "1 / sum(x)", ("float32", (-0.0, -0.0, -0.0, -0.0)), ("float32", (inf,))),
    law("argmax is the first NaN", "comparing: the largest number",
         "argmax(x)", ("float32", (inf, nan, 3.0, nan)), ("int64", (1,))),
    law("argmin is the first of equals; -0.0 equals 0.0", "a tree of threads: any of them",
         "argmin(x)", ("float32", (1.0, 0.0, -0.0, 0.0)), ("int64", (1,))),
    law("the mean of 64-bit integers does not wrap", "sum(x) / n: wrapped",
         "mean(x)", ("int64", (2**62, 2**62, 2**62, 0)), ("float64", (3 * 2.0**60,))),
    law("a mean of no elements is NaN", "0",
         "mean(x, where=x < 0)", ("float32", (1.0, 2.0, 3.0, 4.0)), ("float32", (nan,))),
    law("a sum of no elements is 0, even if the others are NaN", "0 * NaN: NaN",
         "sum(x, where=x < 0)", ("float32", (nan, 2.0, inf, 4.0)), ("float32", (0.0,))),
    law("any and all take NaN for true", "comparing with > 0: false",
         "any(x) & all(x)", ("float32", (nan, 2.0, -3.0, inf)), ("bool", (True,))),
)  # fmt: skip

ELEMENTWISE = DTYPES + INTEGERS + FLOATS
LAWS = ELEMENTWISE + READS + FOLDS
