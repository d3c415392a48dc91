"""Each law of rules.py and store_to_load_forwarding.py: it fires where it says, keeps the meaning, and only there."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from fusedsl.config import DEFAULT
from fusedsl.ir.dims import Symbol
from fusedsl.ir.graph import Parameter, Type
from fusedsl.ir.interp import interpret
from fusedsl.ir.types import FLOAT32, INT32
from fusedsl.ir.verify import verify
from fusedsl.lang.build_graph import build
from fusedsl.lang.parse import parse
from fusedsl.rewrite import rules, store_to_load_forwarding  # noqa: F401
from fusedsl.rewrite.engine import RULES, rewrite

N = Symbol(0, 0)
CASES = {  # law: (text, does it fire)
    "a row of where(i == k, a, b) is one of a, or one of b": [
        ("where(arange(size(x, 0)) == 2, x, -x)[2]", True),
        ("where((arange(size(x, 0)) < 2) | (x > 0), x, 1)[1]", True),
        ("where(arange(size(x, 0)) == 2, x, -x)[None, 3, None]", True),
        ("where((arange(size(x, 0)) < 2) | (x > 0), x, 1)[2]", False),
        ("where(arange(size(x, 0)) == 2, x, -x)[1:3]", False),
        ("where(x > 0, x, -x)[2]", False),
    ],
    "x[None][0] = x": [("x[None][0]", True), ("x[1:, None][0]", False)],
    "x * 1 = x": [("x * 1", True), ("1 * x", True), ("x * 2", False)],
    "x / 1 = x": [("x / 1", True), ("1 / x", False)],
    "i + 0 = i and i - 0 = i, for integers (a float -0.0 + 0 is 0.0)": [
        ("i + 0", True),
        ("i - 0", True),
        ("x + 0", False),
    ],
    "0 - i = -i, i * -1 = -i and ~i + 1 = -i, for integers": [
        ("0 - i", True),
        ("-1 * i", True),
        ("1 + ~i", True),
        ("0 - x", False),
        ("1 - i", False),
    ],
    "-(-x) = x, ~~x = x, not not x = x": [("-(-x)", True), ("~~i", True), ("not (not (x > 0))", True), ("-x", False)],
    "where(True, a, b) = a, where(False, a, b) = b, where(c, a, a) = a": [
        ("where(x > 0, x, x)", True),
        ("where(x > 0, x, -x)", False),
    ],
    "x ** n is a product, for a literal n from 2 to 8": [
        ("x ** 2", True),
        ("x ** 5", True),
        ("i ** 3", True),
        ("x ** 9", False),
    ],
    "x ** 1 = x, x ** 0 = 1, and for floats x ** -1 = 1 / x, x ** 0.5 = sqrt(x) (as NumPy's ** does)": [
        ("x ** 1", True),
        ("x ** -1", True),
        ("x ** 0.5", True),
        ("x ** 1.5", False),
    ],
    "n ** -0.5 = rsqrt(n), for an extent n, which is no -0.0 and no -inf": [
        ("x * size(x, 0) ** -0.5", True),
        ("x * (1 + size(x, 0)) ** -0.5", False),
        ("x ** -0.5", False),
    ],
    "a / 0 of literals is NaN or an infinity, which compilers may take for a number": [
        ("x + mean(x[0], where=False)", True),
        ("x + mean(x[0])", False),
    ],
    "a / (1 + exp(-x)) = a logistic(x), one function with a bound of its own": [
        ("1 / (1 + exp(-x))", True),
        ("x / (exp(-x) + 1)", True),
        ("x / (1 + exp(x))", False),
    ],
    "1 + tanh(u) = 2 logistic(2 u), which does not cancel": [
        ("1 + tanh(x)", True),
        ("tanh(x) + 1", True),
        ("1 - tanh(x)", False),
    ],
    "(0.5 x) (2 logistic(u)) = x logistic(u): halving and doubling round nothing": [
        ("0.5 * x * (1 + tanh(0.8 * x))", True),
        ("0.5 * x * (2 * x)", False),
    ],
    "k s < c is k < ceil(c / s), for the upper bits k of a word, a power of two s and one number c": [
        ("float32(uint32(i) >> 8) * 2.0**-24 < 0.9", True),
        ("0.25 * float32(uint32(i) >> 30) >= x[0]", True),
        ("uniform(7, x) <= 0.5", True),
        ("float32(uint32(i) >> 8) * 0.3 < 0.9", False),
        ("float32(uint32(i) >> 7) * 2.0**-24 < 0.9", False),
        ("float32(uint32(i) >> 8) * 2.0**-24 < x", False),
    ],
    "x // y and x % y of floats, from fmod (NumPy's npy_divmod)": [
        ("x // 3", True),
        ("x % 2.5", True),
        ("i // 3", False),
    ],
}


def graph_of(text: str):
    parameters = (Parameter("x", Type(FLOAT32, (N,))), Parameter("i", Type(INT32, (N,))))
    return build(parse(text), parameters, {N: 7}, DEFAULT)[0]


@pytest.mark.parametrize("law", CASES)
def test_a_law_fires_where_it_says_and_keeps_the_meaning(law):
    x = np.array([1.5, -2.0, 0.0, np.inf, -np.inf, np.nan, 7.25], np.float32)
    i = np.array([1, -2, 0, 7, 100, -5, 3], np.int32)
    for text, fires in CASES[law]:
        seen: list[str] = []
        before = graph_of(text)
        after = rewrite(before, lambda r, old, new, seen=seen: seen.append(r.law))
        verify(after)
        assert (law in seen) is fires, f"{text}: {seen}"
        for a, b in zip(interpret(before, [x, i]), interpret(after, [x, i])):
            np.testing.assert_allclose(b, a, rtol=1e-6)
            assert a.dtype == b.dtype and a.shape == b.shape


@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("c", [-inf, -1.0, -0.0, 0.0, 1e-45, 0.1, 0.25, 0.2501, 0.75, 0.8, 1.0, 3e38, inf, nan])
def test_scaled_bits_compare_as_the_floats_do(op, c):
    i, x = (np.arange(4, dtype=np.int64) << 30).astype(np.int32), np.array([c], np.float32)
    for text in (f"0.25 * float32(uint32(i) >> 30) {op} x[0]", f"{c!r} {op} float32(uint32(i) >> 30) * 0.25"):
        seen: list[str] = []
        before = graph_of(text)
        after = rewrite(before, lambda r, old, new, seen=seen: seen.append(r.law))
        assert seen or np.isnan(c), text
        for a, b in zip(interpret(before, [x, i]), interpret(after, [x, i])):
            np.testing.assert_array_equal(b, a)


def test_every_law_has_a_case():
    laws = {rule.law for found in RULES.values() for rule in found}
    untested = laws - set(CASES) - {"a value in the dtype that it has needs no conversion"}
    assert not untested
