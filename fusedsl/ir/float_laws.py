"""Laws of floats on which NumPy, Numba, C and processors disagree."""

from __future__ import annotations

from math import inf, nan

from .law import HALF_STEP, TINY, law

FLOATS = (
    law(
        "a float / 0 is an infinity or NaN",
        "Numba: ZeroDivisionError",
        "x / y",
        ("float32", (1.0, -1.0, 0.0, 1.0)), ("float32", (0.0, 0.0, 0.0, -0.0)), ("float32", (inf, -inf, nan, -inf)),
    ),
    law(
        "float // and % are NumPy's, by zero and infinity too",
        "Numba: ZeroDivisionError",
        "where(z, x // y, x % y)",
        ("float32", (1.0, 0.0, -1.0, -1.0)), ("float32", (0.0, 0.0, inf, inf)), ("bool", (True, True, True, False)),
        ("float32", (inf, nan, -1.0, inf)),
    ),
    law(
        "maximum and minimum keep NaN, whichever side it is on",
        "Python's max: the first; C's fmax, PTX's max: the number",
        "maximum(x, y) + minimum(x, y)",
        ("float32", (nan, 1.0, nan, 2.0)), ("float32", (1.0, nan, nan, 3.0)), ("float32", (nan, nan, nan, 5.0)),
    ),
    law(
        "fmax and fmin drop NaN",
        "maximum",
        "fmax(x, y) + fmin(x, y)",
        ("float32", (nan, 1.0, nan, 2.0)), ("float32", (1.0, nan, nan, 3.0)), ("float32", (2.0, 2.0, nan, 5.0)),
    ),
    law(
        "maximum and minimum order zeros by their signs, -0.0 < 0.0",
        "comparing: the first or the second, whatever its sign",
        "copysign(1.0, maximum(x, y)) + copysign(2.0, minimum(x, y))",
        ("float32", (0.0, -0.0, -0.0, 0.0)), ("float32", (-0.0, 0.0, -0.0, 0.0)), ("float32", (-1.0, -1.0, -3.0, 3.0)),
    ),
    law(
        "fmax and fmin do so too",
        "C's fmax: either",
        "copysign(1.0, fmax(x, y)) + copysign(2.0, fmin(x, y))",
        ("float64", (0.0, -0.0, -0.0, nan)), ("float64", (-0.0, 0.0, nan, 0.0)), ("float64", (-1.0, -1.0, -3.0, 3.0)),
    ),
    law(
        "a product that is read twice is one number, rounded",
        "contracted: the product less its rounded value",
        "x * y - maximum(x * y, 0.0)",
        ("float32", (0.1, 0.3, 0.7, 1.1)), ("float32", (0.1, 0.7, 0.9, 1.3)), ("float32", (0.0, 0.0, 0.0, 0.0)),
    ),
    law(
        "NaN is an ordinary value: isnan and x != x detect it",
        "fast-math: False, always",
        "isnan(x) & (x != x) | (isinf(y) & ~isfinite(y))",
        ("float32", (nan, 1.0, inf, nan)), ("float32", (1.0, inf, nan, nan)), ("bool", (True, True, False, True)),
    ),
    law(
        "-0.0 is kept: nothing folds x + 0 or 0 - x",
        "fast-math: 0.0",
        "copysign(1.0, x + y) + copysign(2.0, y - x) + copysign(4.0, -x)",
        ("float32", (0.0, -0.0, -0.0, 1.0)), ("float32", (0.0, 0.0, -0.0, -1.0)), ("float32", (-1.0, 7.0, 5.0, -5.0)),
    ),
    law(
        "sign of NaN is NaN, of -0.0 it is 0.0",
        "comparing: 0 of NaN",
        "sign(x) + copysign(2.0, sign(y))",
        ("float32", (nan, 5.0, -inf, 0.0)), ("float32", (1.0, -0.0, 0.0, -1.0)), ("float32", (nan, 3.0, 1.0, -2.0)),
    ),
    law(
        "rint and round go to even",
        "C's round: away from zero",
        "rint(x) + round(y)",
        ("float32", (0.5, 1.5, 2.5, -0.5)), ("float32", (-1.5, 0.5, 3.5, 4.5)), ("float32", (-2.0, 2.0, 6.0, 4.0)),
    ),
    law(
        "subnormal numbers are kept",
        "CUDA's fast modes: 0",
        "x * 0.5 + y / 2",
        ("float32", (TINY, -TINY, 0.0, TINY)), ("float32", (0.0, 0.0, TINY, TINY)),
        ("float32", (TINY / 2, -TINY / 2, TINY / 2, TINY)),
    ),
    law(
        "fma rounds once",
        "a * b + c: twice",
        "fma(x, y, -1.0)",
        ("float32", (1 + 2 * HALF_STEP,) * 2 + (1.0, 0.0)), ("float32", (1 - 2 * HALF_STEP, 1.0, 1.0, inf)),
        ("float32", (-4 * HALF_STEP**2, 2 * HALF_STEP, 0.0, nan)),
    ),
    law(
        "where selects: NaN in the side that is not taken has no effect",
        "c * x + (1 - c) * y: NaN",
        "where(z, x, y)",
        ("float32", (1.0, nan, inf, 2.0)), ("float32", (nan, 3.0, 4.0, inf)), ("bool", (True, False, False, True)),
        ("float32", (1.0, 3.0, 4.0, 2.0)),
    ),
    law(
        "x ** 0 and 1 ** y are 1, of NaN too",
        "NaN in, NaN out",
        "x ** y",
        ("float32", (nan, 1.0, -2.0, -2.0)), ("float32", (0.0, nan, 3.0, 0.5)), ("float32", (1.0, 1.0, -8.0, nan)),
    ),
    law(
        "logaddexp of two infinities is one",
        "inf - inf: NaN",
        "logaddexp(x, y)",
        ("float32", (inf, -inf, inf, -inf)), ("float32", (inf, -inf, -inf, 3.0)), ("float32", (inf, -inf, inf, 3.0)),
    ),
    law(
        "hypot does not overflow before its result does",
        "sqrt(x*x + y*y): inf; NaN beside an infinity",
        "hypot(x, y)",
        ("float32", (3e30, inf, 0.0, -3.0)), ("float32", (4e30, nan, 0.0, 4.0)), ("float32", (5e30, inf, 0.0, 5.0)),
    ),
    law(
        "the next float16 is the next float16",
        "computing in float32: the number itself",
        "nextafter(x, y)",
        ("float16", (1.0, 0.0, 65504.0, 1.0)), ("float16", (2.0, -1.0, inf, 1.0)),
        ("float16", (1 + 2.0**-10, -(2.0**-24), inf, 1.0)),
    ),
)  # fmt: skip
