"""x ** y on the CPU target: within 1 ulp of the exact power, C's special cases, and the same bits in every lane."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from test_cpu_math import computed, ulps

from fusedsl.backends.cpu.math.roots import ROOTS
from fusedsl.ir.types import BOOL, DTYPES, FLOAT32, FLOAT64, numpy_dtype

TYPES = pytest.mark.parametrize("d", [FLOAT32, FLOAT64], ids=str)
REACH = {FLOAT32: 87.0, FLOAT64: 706.0}  # |log| of normal numbers


def bases_and_exponents(d, count, seed=7):
    """Pairs by kind: what bends the logarithm, and results of every size."""
    random, reach = np.random.default_rng(seed), REACH[d]
    sizes = random.uniform(-reach, reach, count)  # of the logarithm of the result

    def towards(log_x, sizes):
        return np.exp(log_x), sizes / log_x

    small = 10.0 ** random.uniform(-6 if d is FLOAT32 else -14, -0.3, count) * random.choice([-1, 1], count)
    root = np.log(2) * (random.choice([-0.5, 0.5], count) + random.standard_normal(count) * 0.001)
    yield "common", (np.exp(random.standard_normal(count)), random.standard_normal(count) * 3)
    yield "all exponents", towards(random.uniform(-reach, reach, count), sizes)
    yield "bases near 1", towards(small, sizes)
    yield "bases near a root of 2", towards(root, sizes)
    yield "large results", towards(random.uniform(0.1, 3, count), random.uniform(0.97, 1.01, count) * reach)
    yield "small results", towards(random.uniform(0.1, 3, count), random.uniform(-1.05, -0.99, count) * reach)
    yield "small exponents", (np.exp(random.uniform(-3, 3, count)), 10.0 ** random.uniform(-30, -1, count))
    yield "subnormal bases", (np.exp(random.uniform(-1.04, -1, count) * reach), random.uniform(-1, 1, count))


def rounded(x, y, d):
    """Both in the dtype; where the base became 1 it is 2, and the power with it."""
    with np.errstate(over="ignore"):
        x, y = x.astype(numpy_dtype(d)), y.astype(numpy_dtype(d))
    return np.where(x == 1, numpy_dtype(d).type(2), x), np.where(x == 1, numpy_dtype(d).type(0.1), y)


def exact_powers(x, y):
    with mpmath.workprec(120):
        pairs = zip(x.tolist(), y.tolist())
        return np.array([_long(mpmath.power(mpmath.mpf(a), mpmath.mpf(b))) for a, b in pairs])


def _long(value):
    """As a long double: two doubles, scaled so that the lower one is normal."""
    fraction, exponent = mpmath.frexp(value)
    high = float(fraction)
    with np.errstate(over="ignore"):
        return np.ldexp(np.longdouble(high) + np.longdouble(float(fraction - high)), int(exponent))


@TYPES
@pytest.mark.parametrize("kind", [kind for kind, _ in bases_and_exponents(FLOAT32, 2)])
def test_powers_are_within_an_ulp(d, kind, tmp_path):
    x, y = rounded(*dict(bases_and_exponents(d, 2500))[kind], d)
    assert ulps(computed(tmp_path, "power(x_0, x_1)", x, y), exact_powers(x, y)) < (1 if d is FLOAT32 else 0.8)


@TYPES
@pytest.mark.parametrize("y", [*ROOTS, 0.4545, -2.0, 10.0, 0.1])
def test_powers_of_literal_exponents_are_within_an_ulp(d, y, tmp_path):
    random = np.random.default_rng(8)
    reach = REACH[d] / max(1.0, abs(y))
    size = np.concatenate([random.uniform(-1.05 * reach, reach, 2000), random.standard_normal(1000)])
    x = np.exp(size).astype(numpy_dtype(d))
    exponent = np.full_like(x, y)
    assert ulps(computed(tmp_path, f"power(x_0, {d}({y!r}))", x), exact_powers(x, exponent)) < 1


def special_numbers(d):
    finfo = np.finfo(numpy_dtype(d))
    digits = finfo.nmant
    numbers = [0, 0.5, 1, 1.5, 2, 3, 4, 7, 0.25, 0.1, 1e-30, 1e30, np.inf, np.nan, finfo.tiny, finfo.max]
    numbers += [finfo.smallest_subnormal, 1 + finfo.eps, 1 - finfo.epsneg, 333.0, 2.0 ** (digits - 1) + 0.5]
    numbers += [2.0**digits + k for k in (0, 1)] + [2.0 ** (digits + 1) + k for k in (-1, 0, 2)]
    numbers = np.array(numbers, numpy_dtype(d))
    return np.concatenate([numbers, -numbers])


def assert_c_power(result, x, y):
    """C's pow: the same NaN, infinities and signs of zero; other values within an ulp."""
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble)).astype(result.dtype)
        same = (result == exact) & (np.signbit(result) == np.signbit(exact)) | np.isnan(result) & np.isnan(exact)
        near = np.abs(result - exact) <= np.spacing(np.abs(exact))
    wrong = ~(same | near & (np.signbit(result) == np.signbit(exact)))
    assert not wrong.any(), [*zip(x[wrong], y[wrong], result[wrong], exact[wrong])]


@TYPES
def test_special_cases_are_those_of_c(d, tmp_path):
    numbers = special_numbers(d)
    x, y = (np.ascontiguousarray(part.ravel()) for part in np.meshgrid(numbers, numbers))
    assert_c_power(computed(tmp_path, "power(x_0, x_1)", x, y), x, y)


@TYPES
@pytest.mark.parametrize("literal", [*ROOTS, 0.0, 1.0, -2.0, 3.0, 10.0, 0.1, -0.75, 1e30, "inf", "-inf", "nan"])
def test_special_cases_of_literals_are_those_of_c(d, literal, tmp_path):
    numbers = special_numbers(d)
    other = np.full_like(numbers, float(literal))
    assert_c_power(computed(tmp_path, f"power(x_0, {d}({literal}))", numbers), numbers, other)
    assert_c_power(computed(tmp_path, f"power({d}({literal}), x_0)", numbers), other, numbers)


@TYPES
@pytest.mark.parametrize("y", ["x_1", "{d}(0.4545)", "{d}(1.5)", "{d}(-3.0)"])
def test_every_lane_computes_the_same(d, y, tmp_path):
    """Vectors, shorter vectors and what is left over, and blocks with and without rare cases."""
    x, exponent = rounded(*dict(bases_and_exponents(d, 300))["common"], d)
    line, given = f"power(x_0, {y.format(d=d)})", (x, exponent) if y == "x_1" else (x,)
    whole = computed(tmp_path, line, *given)
    for start, count in ((1, 299), (7, 33), (100, 5), (299, 1)):
        part = computed(tmp_path, line, *(a[start : start + count].copy() for a in given))
        np.testing.assert_array_equal(part, whole[start : start + count])
    padded = [np.concatenate([a, np.zeros(1, a.dtype)]) for a in given]
    np.testing.assert_array_equal(computed(tmp_path, line, *padded)[:-1], whole)


@pytest.mark.sampled(2)
@TYPES
@pytest.mark.parametrize("y", ["x_1", "{d}(0.4545)", "{d}(-3.0)"])
def test_the_form_for_common_numbers_gives_the_same_bits(d, y, tmp_path):
    for kind, pair in bases_and_exponents(d, 3000):
        x, exponent = rounded(*pair, d)
        if "-3" in y:
            x[::2] *= -1
        given, text = (x, exponent) if y == "x_1" else (x,), f"(x_0, {y.format(d=d)})"
        common = ~computed(tmp_path, f"power_beyond{text}", *given, result=BOOL)
        assert common.mean() > 0.5 or kind in ("large results", "small results", "subnormal bases") or "-3" in y
        general, near = [computed(tmp_path, f"{name}{text}", *given) for name in ("power", "power_near")]
        np.testing.assert_array_equal(general[common], near[common])


@TYPES
def test_rare_numbers_are_beyond_the_form_for_common_ones(d, tmp_path):
    numbers = special_numbers(d)
    rare = numbers[~(np.abs(numbers) >= np.finfo(numpy_dtype(d)).tiny) | np.isinf(numbers) | (numbers < 0)]
    for x, y in ((rare, np.ones_like(rare)), (np.full(3, 2, rare.dtype), np.array([np.inf, np.nan, 1e4], rare.dtype))):
        assert computed(tmp_path, "power_beyond(x_0, x_1)", x, y, result=DTYPES["bool"]).all()
