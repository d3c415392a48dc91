"""Integer overflow: indices, axes, masks and literals at the ends of their dtypes wrap, in block masks and constant
folding too."""

from __future__ import annotations

import math

import numpy as np
import pytest
from edges import INTEGERS, combined, edges
from oracle import evaluate
from test_undefined import TARGETS

import fusedsl as fd
from fusedsl.ir.constant_folding import PYTHON, fold
from fusedsl.ir.graph import constant
from fusedsl.ir.ops import OPS
from fusedsl.ir.types import FLOAT64, INT64

LEAST, GREATEST = -(2**63), 2**63 - 1


# -- literals

WHOLE = [0, 1, -1, 2, 3, -3, 7, 31, 63, 64, 65, -63, -64, 2**31, 2**53, 2**53 + 1, GREATEST, LEAST]
REAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 2.0**53, 2.0**63, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan]


def literal(value):
    return constant(value, INT64 if isinstance(value, int) else FLOAT64, weak=True)


def same(found, wanted) -> bool:
    """Equal, in value, kind and the sign of zeros."""
    if isinstance(wanted, float):
        zeros = math.copysign(1, found) == math.copysign(1, wanted)
        return isinstance(found, float) and ((found == wanted and zeros) or (found != found and wanted != wanted))
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool) and not isinstance(found, float)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", PYTHON)
def test_arithmetic_on_literals_is_that_of_run_time(name):
    """In int64, or where one is a float in float64; beyond 64 bits it is an error, which no other is."""
    op, count = OPS[name], 0
    for values in (*zip(WHOLE), *zip(REAL)) if op.arity == 1 else combined_values(op.arity):
        if op.rule in ("bits", "shift", "logical") and any(isinstance(v, float) for v in values):
            continue
        if name == "power" and all(isinstance(v, int) for v in values) and values[1] < 0:
            continue  # the builder makes a float of the base
        try:
            found = fold(op, tuple(map(literal, values)))
        except fd.LimitError:
            continue
        real = op.rule in ("divide", "float") or any(isinstance(v, float) for v in values[op.rule == "where" :])
        with np.errstate(all="ignore"):
            arrays = [np.asarray(v, np.float64 if real else np.int64) for v in values]
            if op.rule == "logical":
                arrays = [x != 0 for x in arrays]
            if op.rule == "where":
                arrays[0] = np.asarray(values[0]) != 0
            wanted = np.asarray(op.meaning(*arrays)).item()
        if isinstance(found, int) and not LEAST <= found <= GREATEST:
            continue  # a uint64, or an error once it meets an int64
        count += 1
        assert same(found, wanted), (values, found, wanted)
    assert count > 10


def combined_values(arity):
    numbers = [*WHOLE, *REAL]
    if arity == 2:
        return [(x, y) for x in numbers for y in numbers]
    return [(c, x, y) for c in (0, 1, 0.5) for x in numbers for y in numbers]


def test_bools_among_literals_keep_their_dtype():
    text = "sqrt(True), hypot(True, False), True & 3, True + True, 2 - True, exp(False), minimum(True, 2)"
    made, wanted = fd.evaluate(text, {}), evaluate(text.replace("True", "t").replace("False", "f"), t=True, f=False)
    for x, y in zip(made, wanted):
        assert x.dtype == y.dtype and x == y
    x = np.float32([2])
    assert fd.evaluate("x * copysign(2.0, True)", x=x).dtype == np.float64  # as for an array of bools


# -- places

READS = ("w[i]", "w[i + 1]", "w[i * 2]", "w[i - 1]", "w[-i]", "w[~i]", "w[i << 1]", "w[i ** 2]", "w[abs(i)]",
         "w[i // 2]", "take(w, i)", "w[::-1][i]", "concat((w, w))[i]", "pad(w, 3)[i]", "n[i]", "n[i * i]")  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("extent", (5, 300))
@pytest.mark.parametrize("dtype", INTEGERS)
def test_places_that_are_out_of_range_or_wrap_on_their_way(dtype, extent, target):
    """No place beyond the array is read, whatever the width of its index, and none counts as another."""
    if target == "cuda" and extent == 5:
        pytest.skip("as with 300")
    kind, w = np.iinfo(dtype), np.arange(1, extent + 1, dtype=np.float32)
    near = [v for v in (extent - 1, extent, -extent, -extent - 1) if kind.min <= v <= kind.max]
    given = {"w": w, "n": w.astype(np.int32), "i": np.unique(np.concatenate([edges(dtype), np.array(near, dtype)]))}
    kernel = fd.kernel(", ".join(READS), fallback=False)
    found = TARGETS[target](kernel, [given[p] for p in kernel.params])
    for text, made, wanted in zip(READS, found, evaluate(kernel.text, **given)):
        np.testing.assert_array_equal(made, wanted, text)
    position = given["i"].astype(object)
    there = (position >= -extent) & (position < extent)
    wanted = np.where(there, w[np.where(there, position, 0).astype(int)], np.nan)
    np.testing.assert_array_equal(found[0], wanted)


@pytest.mark.parametrize("far", (GREATEST, LEAST + 1, 10**30))
def test_slices_and_rolls_go_as_far_as_python_does(far):
    x = np.arange(7.0)
    text = f"x[{far}:], x[:{far}], x[::{far}], x[{far}::-1], roll(x, {far})"
    wanted = (x[far:], x[:far], x[::far], x[far::-1], np.roll(x, far % 7))
    for found in (fd.evaluate(text, x=x), evaluate(text, x=x)):
        for made, right in zip(found, wanted):
            np.testing.assert_array_equal(made, right)


@pytest.mark.parametrize("k", (GREATEST, LEAST, 2**62, 1, -1, np.int8(-2), np.uint8(2), np.uint64(1)))
def test_triangles_have_any_diagonal(k):
    x = np.arange(1.0, 1 + 150 * 200).reshape(150, 200)
    i, j = np.indices(x.shape).astype(object)
    for found in (fd.evaluate("tril(x, k), triu(x, k)", x=x, k=k), evaluate("tril(x, k), triu(x, k)", x=x, k=k)):
        np.testing.assert_array_equal(found[0], np.where((j - i <= int(k)).astype(bool), x, 0))
        np.testing.assert_array_equal(found[1], np.where((j - i >= int(k)).astype(bool), x, 0))


def test_positions_compare_with_uint64_as_numbers():
    u = np.array([0, 1, 2**63, 2**64 - 1], np.uint64)
    text = "iota(u, 0) - 2 < u, u <= iota(u, 0) - 2, iota(u, 0) - 5 == u, iota(u, 0) - size(u, 0) != u"
    for found in (fd.evaluate(text, u=u), evaluate(text, u=u)):
        assert [x.all() for x in found] == [True, False, False, True]


# -- masks

MASKS = (("j <= i + w", GREATEST), ("j - w <= i", LEAST + 1), ("abs((j - i) * w) <= 5", 2**57),
         ("j * w < i * w", 2**57), ("minimum(j + w, i) < 50", GREATEST), ("where(j < 100, j + w, j - w) < i", GREATEST),
         ("-j - w < i", GREATEST), ("(j + w) // 64 == (i + w) // 64", GREATEST))  # fmt: skip


def attended(mask, **numbers):
    """Attention with a mask, and the same in NumPy, where integers wrap too."""
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((1, 2, n, 16)).astype(np.float32) for n in (100, 170, 170))
    made = fd.attention(q, k, v, mask=mask, **numbers)
    names = {"minimum": np.minimum, "where": np.where, "abs": np.abs, "int8": np.int8, "uint8": np.uint8}
    names |= {
        "j": np.arange(170)[None, :],
        "i": np.arange(100)[:, None],
        **{n: np.int64(x) for n, x in numbers.items()},
    }
    with np.errstate(over="ignore"):
        scores = np.where(eval(mask, names), q.astype(np.float64) @ k.swapaxes(-1, -2) / 4, -np.inf)
    weights = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e30))
    total = weights.sum(-1, keepdims=True)
    return made, weights @ v / np.where(total == 0, 1, total)


@pytest.mark.parametrize(("mask", "w"), MASKS)
def test_a_mask_whose_numbers_wrap_is_known_of_no_tile(mask, w):
    made, wanted = attended(mask, w=w)
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", ("int8(j <= i) * 100 * 2 > 50", "(uint8(j <= i) << 7) * 2 == 0", "-uint8(j <= i) > 3"))
def test_literals_of_a_mask_wrap_as_their_dtype_does(mask):
    made, wanted = attended(mask)
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)


# -- exponents


@pytest.mark.parametrize("target", TARGETS)
def test_ldexp_takes_any_exponent(target):
    for real in (np.float32, np.float64):
        for dtype in INTEGERS[:7]:
            with np.errstate(all="ignore"):
                values = np.array([0.0, -0.0, 1.5, -3.0, 1e-38, 3e-310, 1e308, np.inf, np.nan]).astype(real)
            x, n = combined(values, edges(dtype))
            if target == "cuda" and dtype not in ("int8", "uint32", "int64"):
                continue
            found = TARGETS[target](fd.kernel("ldexp(x, n)", fallback=False), (x, n))
            with np.errstate(all="ignore"):
                wanted = np.ldexp(x, np.clip(n.astype(object), -5000, 5000).astype(np.int32))
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(np.signbit(found)[x == x], np.signbit(wanted)[x == x])
