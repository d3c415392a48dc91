"""Counter-based random numbers: Philox's published answers, the same bits on every target, and what they look like."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import evaluate
from test_targets import TARGETS, check

import fusedsl as fd
from fusedsl.ir.semantics import philox, philox_high, philox_pair, philox_word
from fusedsl.runtime.array_copies import to_host

X = np.zeros((37, 53), np.float32)
ONES = 2**64 - 1
ANSWERS = [  # Random123's kat_vectors, philox4x32 with 10 rounds: counter (position, stream), key, words
    ((0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x85A308D3243F6A88, 0x299F31D0A4093822, 0x0370734413198A2E), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


@pytest.mark.parametrize(("given", "words"), ANSWERS)
def test_philox_gives_its_published_answers(given, words):
    position, seed, stream = map(np.uint64, given)
    assert int(philox(position, seed, stream)) == words[0] | words[1] << 32
    assert int(philox_high(position, seed, stream)) == words[2] | words[3] << 32


def test_neighbours_share_what_a_counter_gives():
    position, seed, stream = np.arange(8, dtype=np.uint64), np.uint64(5), np.uint64(6)
    low, high = (name(position, seed, stream) for name in (philox, philox_high))
    words = np.stack([low, high], 1).view(np.uint32).ravel()
    np.testing.assert_array_equal(philox_word(position, seed, stream), words[:8])
    np.testing.assert_array_equal(philox_pair(position, seed, stream), words.view(np.uint64)[:8])


@pytest.mark.parametrize(("shape", "dtype"), [((3, 32), np.float16), ((5, 38), np.float32)], ids=str)
def test_a_gpu_draws_vectors_of_neighbours_at_once(shape, dtype):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    x = np.random.default_rng(3).standard_normal(shape).astype(dtype)
    text = "uniform(9, x) + x, uniform(9, x.T).T + x, float32(uniform(8, float64(x)))"
    with emulated_gpu() as gpu:
        made = fd.evaluate(text, x=gpu.asarray(x))
    for result, wanted in zip(made, evaluate(text, x=x)):
        np.testing.assert_array_equal(to_host(result), wanted)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
@pytest.mark.parametrize("text", ("uniform(seed, x)", "uniform(seed, x, stream=5)", "uniform(-3, x.T)[1:]"))
def test_every_target_gives_the_same_bits(text, dtype, target):
    x = X.astype(dtype)
    kernel = fd.kernel(text, fallback=False)
    given = {"x": target(x), "seed": 1234567890123}
    made = to_host(kernel(*(given[n] for n in kernel.params)))
    wanted = evaluate(text, **{n: {"x": x, "seed": 1234567890123}[n] for n in kernel.params})
    assert made.dtype == wanted.dtype == (np.float64 if dtype == "float64" else np.float32)
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_normal_numbers_agree_within_their_functions_bounds(target):
    check("normal(7, x), normal(7, x, stream=1)", {"x": X}, target)
    check("normal(7, x)", {"x": X.astype(np.float64)}, target)


def test_shapes_come_from_arrays_tuples_and_integers():
    one = evaluate("uniform(9, 10)")
    np.testing.assert_array_equal(evaluate("uniform(9, (2, 5))").ravel(), one)
    np.testing.assert_array_equal(evaluate("uniform(9, (size(x, 0), 2))", x=X).ravel()[:10], one)
    np.testing.assert_array_equal(evaluate("uniform(9, x)", x=X).ravel()[:10], one)
    assert evaluate("uniform(9, s)", s=np.array(2.0, np.float32)) == one[0]
    assert evaluate("uniform(9, x)", x=X[:0]).shape == (0, 53)
    np.testing.assert_array_equal(evaluate("uniform(18446744073709551615, 3)"), evaluate("uniform(k, 3)", k=-1))
    np.testing.assert_array_equal(evaluate("uniform(k, 3)", k=np.int8(-1)), evaluate("uniform(-1, 3)"))


def test_the_numbers_look_as_they_should():
    u = evaluate("uniform(1, 400000)").astype(np.float64)
    assert u.min() >= 0 and u.max() < 1
    counts = np.histogram(u, 64, (0, 1))[0]
    assert ((counts - 6250) ** 2 / 6250).sum() < 110  # 99.98 % of chi-squared with 63 degrees
    n = evaluate("normal(1, 400000)").astype(np.float64)
    assert abs(n.mean()) < 0.008 and abs(n.std() - 1) < 0.006 and abs((n**4).mean() - 3) < 0.07
    assert np.isfinite(n).all()
    others = [evaluate("uniform(1, 400000, stream=1)"), evaluate("uniform(2, 400000)"), np.roll(u, 1)]
    assert all(abs(np.corrcoef(u, other)[0, 1]) < 0.007 for other in others)


def test_dropout_is_one_map_and_its_mask_comes_back():
    kernel = fd.kernel("r + where(uniform(seed, x) >= p, x / (1 - p), 0)")
    specs = {"r": fd.spec((64, 512), "bfloat16"), "x": fd.spec((64, 512), "bfloat16"), "seed": 3, "p": 0.1}
    assert len(kernel.explain(*(specs[n] for n in kernel.params)).kernels) == 1
    x = np.ones((64, 512), np.float32)
    forward = fd.evaluate("where(uniform(3, x) >= 0.25, x, 0)", x=x)
    np.testing.assert_array_equal(fd.evaluate("where(uniform(3, g) >= 0.25, g, 0)", g=x), forward)
    assert abs(forward.mean() - 0.75) < 0.01


@pytest.mark.parametrize(
    ("text", "error", "column"),
    [
        ("uniform(1.5, x)", fd.DTypeError, 9),
        ("uniform(x, x)", fd.ArgumentError, 9),
        ("uniform(1, 'a')", fd.ArgumentError, 12),
        ("uniform(1)", fd.ArgumentError, 10),
        ("normal(1, x, stream=x)", fd.ArgumentError, 21),
        ("uniform(1, (2, s))", fd.ArgumentError, 16),
        ("randint(1, (2,), 3, 3)", fd.ArgumentError, 21),
        ("randint(1, (2,), 0, 2**40)", fd.ArgumentError, 21),
        ("randint(1, (2,), 0, 3, stream=s)", fd.DTypeError, 31),
    ],
)
def test_faults_are_placed(text, error, column):
    with pytest.raises(error) as caught:
        evaluate(text, x=X, s=2.5)
    assert caught.value.column == column


def test_integers_are_even_within_their_bounds_and_equal_on_the_interpreter():
    found = fd.evaluate("randint(5, (1000, 64), -3, 7)")
    assert found.dtype == np.int64 and (found.min(), found.max()) == (-3, 6)
    counts = np.bincount(found.ravel() + 3)
    assert np.abs(counts - 6400).max() < 5 * np.sqrt(6400)
    np.testing.assert_array_equal(found, evaluate("randint(5, (1000, 64), -3, 7)"))
    assert (found != fd.evaluate("randint(5, (1000, 64), -3, 7, stream=1)")).mean() > 0.8
    with pytest.raises(fd.DTypeError):
        fd.evaluate("randint(5, (3,), 0, 1.5)")


def test_a_permutation_has_every_number_once():
    found = fd.evaluate("permutation(5, 1000)")
    np.testing.assert_array_equal(np.sort(found), np.arange(1000))
    assert (found == np.arange(1000)).sum() < 10
    np.testing.assert_array_equal(found, evaluate("permutation(5, 1000)"))


@pytest.mark.parametrize("cc", (75, 90))
@pytest.mark.parametrize("n", (0, 1))
def test_permutations_of_none_and_of_one_are_planned_for_cuda(n, cc):
    assert fd.kernel(f"permutation(5, {n})", fallback=False).explain(cc=cc, compile=False).kernels
