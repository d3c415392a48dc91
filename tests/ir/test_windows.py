"""Sliding windows: NumPy's meaning, nothing stored where a fold consumes them, one cost for long ones."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view as view
from oracle import evaluate as interpreted

import fusedsl as fd
from fusedsl.ir.windows import LONGEST_BLOCK, MOST_BLOCKS, UNROLLED, block_length

RANDOM = np.random.default_rng(12)
X = RANDOM.standard_normal((6, 50)).astype(np.float32)
W = RANDOM.standard_normal(5).astype(np.float32)
GIVEN = {"x": X, "w": W}
SHORT = [
    ("sum(sliding_window(x, 5), -1)", view(X, 5, -1).sum(-1)),
    ("max(sliding_window(2 * x, 3, axis=0), axis=-1)", view(2 * X, 3, 0).max(-1)),
    ("sum(sliding_window(x, 5) * w, -1)", (view(X, 5, -1) * W).sum(-1)),
    ("std(sliding_window(x, 5), axis=-1)", view(X, 5, -1).std(-1)),
    ("sum(sliding_window(x, (3, 3)), axis=(-2, -1))", view(X, (3, 3)).sum((-2, -1))),
    ("min(sliding_window(x, (2, 3), axis=(1, 0)), axis=(-2, -1))", view(X, (2, 3), (1, 0)).min((-2, -1))),
    ("sum(sliding_window(x, 5) > x[:, 2:-2, None], axis=-1)", (view(X, 5, -1) > X[:, 2:-2, None]).sum(-1)),
    ("argmax(sliding_window(x, 5), axis=-1)", view(X, 5, -1).argmax(-1)),
    ("any(sliding_window(x > 1, 4, axis=0), axis=-1, keepdims=True)", view(X > 1, 4, 0).any(-1, keepdims=True)),
    ("sum(pad(x, 1)[1:-1, 1:-1] * w[0], 1) + sum(sliding_window(x, 50), -1)[:, 0]", X.sum(1) * W[0] + X.sum(1)),
]
LONG = [
    ("max(sliding_window(x, 40), axis=-1)", view(X, 40, -1).max(-1)),
    ("sum(sliding_window(exp(x), 33), -1)", view(np.exp(X), 33, -1).sum(-1)),
    ("mean(sliding_window(x, 50) ** 2, axis=-1)", (view(X, 50, -1) ** 2).mean(-1)),
    ("prod(sliding_window(x < 1.5, 36), axis=-1)", view(X < 1.5, 36, -1).prod(-1)),
]
Y = RANDOM.standard_normal((3, 1300)).astype(np.float32)
TWO_LEVELS = [
    ("sum(sliding_window(y, 100), -1)", view(Y, 100, -1).sum(-1)),
    ("mean(sliding_window(y, 101), axis=-1)", view(Y, 101, -1).mean(-1)),  # one element remains
    ("max(sliding_window(y, 101), axis=-1)", view(Y, 101, -1).max(-1)),  # blocks overlap
    ("min(sliding_window(exp(y), 297), axis=-1)", view(np.exp(Y), 297, -1).min(-1)),
    ("sum(sliding_window(y, 256) ** 2, axis=-1)", (view(Y, 256, -1) ** 2).sum(-1)),
    ("any(sliding_window(y > 2.5, 40), axis=-1)", view(Y > 2.5, 40, -1).any(-1)),
    ("max(sliding_window(y.T, 100, axis=0), axis=-1)", view(Y.T, 100, 0).max(-1)),
]


@pytest.mark.parametrize(("text", "wanted"), [*SHORT, ("sliding_window(x, 5)", view(X, 5, -1))])
def test_short_windows_are_one_kernel(text, wanted):
    kernel = fd.kernel(text) if text.count("sum") == 2 else fd.kernel(text, max_kernels=1)
    arguments = [GIVEN[name] for name in kernel.params]
    np.testing.assert_allclose(kernel(*arguments), wanted, 1e-5, 1e-5)
    found = interpreted(text, **{name: GIVEN[name] for name in kernel.params})
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


@pytest.mark.parametrize(("text", "wanted"), LONG)
def test_long_windows_are_two_scans_whatever_their_length(text, wanted):
    kernel = fd.kernel(text, max_kernels=3)
    np.testing.assert_allclose(kernel(X), wanted, 1e-5, 1e-5)
    assert str(kernel.explain(X)).count("computes   cum") == 2


@pytest.mark.parametrize(("text", "wanted"), TWO_LEVELS)
def test_windows_of_some_hundred_are_folded_in_two_levels(text, wanted):
    kernel = fd.kernel(text, max_kernels=3)
    np.testing.assert_allclose(kernel(Y), wanted, 1e-4, 1e-4)
    np.testing.assert_allclose(interpreted(text, y=Y), wanted, 1e-4, 1e-4)
    assert "computes   cum" not in str(kernel.explain(Y))


@pytest.mark.parametrize("fold", ["sum", "max"])
def test_neither_level_is_long(fold):
    for length in range(UNROLLED + 1, UNROLLED**2 + 1):
        block = block_length(fold, length, 4)
        assert block == 0 or (block <= LONGEST_BLOCK and length // block <= MOST_BLOCKS)
    assert block_length(fold, UNROLLED**2, 4) == 0


def test_a_value_that_is_read_twice_at_each_step_before_a_fold_is_planned_once():
    steps = "w = tanh(w * w)\n" * 40
    kernel = fd.kernel(f"w = sliding_window(x, 40)\n{steps}return max(w, axis=-1)")
    assert "cummax" in str(kernel.explain(fd.spec((300,)), device="cuda", compile=False))


def test_a_window_with_nan_or_infinity_leaves_the_others_alone():
    x = np.ones(100)
    x[[10, 70]] = np.nan, np.inf
    wanted = view(x, 40).sum(-1)
    np.testing.assert_array_equal(fd.evaluate("sum(sliding_window(x, 40), -1)", x=x), wanted)


def test_values_that_differ_between_windows_keep_long_folds_whole():
    text = "sum(sliding_window(x, 40) * x[:, :11, None], axis=-1)"
    np.testing.assert_allclose(
        fd.kernel(text, max_kernels=1)(X), (view(X, 40, -1) * X[:, :11, None]).sum(-1), 1e-4, 1e-4
    )


def test_numpys_windows_are_traced():
    def function(x):
        return np.max(view(x, (3, 3)), axis=(-2, -1)) + view(x, 3, axis=0)[:, 1:-1].sum(-1)

    np.testing.assert_allclose(fd.fuse(function)(X), function(X), 1e-5, 1e-5)


def test_convolutions_of_taps_of_the_program_are_one_map():
    kernel = fd.kernel("convolve(x, (0.25, 0.5, 0.25), mode='same') - x", max_kernels=1)
    wanted = [np.convolve(row, [0.25, 0.5, 0.25], "same") for row in X]
    np.testing.assert_allclose(kernel(X), wanted - X, 1e-5, 1e-6)
    assert "map_" in str(kernel.explain(X))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_taps_that_are_not_finite_multiply_no_element_beside_the_array(name, mode):
    x = np.arange(1.0, 7)
    for taps in ([np.nan, 1, 2], [1, 2, np.inf], [-np.inf, 1, np.nan, 3]):
        wanted = getattr(np, name)(x, taps, mode)
        np.testing.assert_array_equal(fd.evaluate(f"{name}(x, v, '{mode}')", x=x, v=np.array(taps)), wanted)
        numbers = ", ".join(map(str, taps))
        np.testing.assert_array_equal(fd.evaluate(f"{name}(x, ({numbers}), '{mode}')", x=x), wanted)


def test_depthwise_convolutions_of_torch_are_traced():
    torch = pytest.importorskip("torch")
    x, w, bias = torch.from_numpy(X[None]), torch.from_numpy(X[:, None, :4].copy()), torch.from_numpy(X[:, 0].copy())
    for options in ({}, {"padding": 3}, {"padding": "same"}, {"stride": 2, "dilation": 2, "padding": 1}):

        def function(x, w, bias, options=options):
            return torch.tanh(torch.nn.functional.conv1d(x, w, bias, groups=6, **options))

        torch.testing.assert_close(fd.fuse(function)(x, w, bias), function(x, w, bias))
    with pytest.raises(fd.ShapeError, match="taps that span 4 elements, in an axis of 3, padding included"):
        fd.fuse(lambda x, w: torch.nn.functional.conv1d(x, w, groups=6))(x[..., :3], w)


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("convolve(x[0], 3)", "shape.convolve", 16),
        ("convolve(x[0], x)", "shape.convolve", 16),
        ("correlate(x, x[0], mode='odd')", "argument.choice", 25),
        ("convolve(x[0, :4], x[0])", "shape.convolve", 1),
        ("correlate(x[0, :4], x[0], 'valid')", "shape.convolve", 1),
        ("convolve(x[0], x[0, :0])", "shape.convolve", 1),
        ("sliding_window(x, 0)", "argument.range", 19),
        ("sliding_window(x, 51)", "shape.sliding_window", 1),
        ("sliding_window(x, 3, axis=4)", "shape.axis", 27),
        ("sliding_window(x, (3, 3), axis=1)", "argument.axis", 32),
        ("sliding_window(x, (3, 3), axis=(1, -1))", "argument.axis", 32),
        ("sliding_window(x, size(x, 0))", "argument.kind", 19),
    ],
)
def test_faults_of_windows(text, code, column):
    with pytest.raises(fd.FusedslError) as fault:
        fd.evaluate(text, x=X)
    assert (fault.value.code, fault.value.column) == (code, column)


@pytest.mark.parametrize("cc", (80, 90))
def test_windows_compile_for_cuda(cc):
    for text in ("sum(sliding_window(x, 7), -1)", "max(sliding_window(x, 100), axis=-1)"):
        found = fd.kernel(text).resources(fd.spec((512, 4096), "float32"), cc=cc)
        assert all(kernel.figures.spill_bytes == 0 for kernel in found)


TWICE = "sliding_window(sliding_window(x[0], 9), 2)"
GUARDED = {
    "a window of windows, padded": "pad(sliding_window(sliding_window(x[0], 3), 2), ((0, 0), (2, 5), (0, 0))) * 1",
    "windows of a roll, padded": "pad(sliding_window(roll(x[0], 2), 3), ((3, 4), (0, 0))) * 1",
    "a diagonal of windows, padded": "pad(diagonal(sliding_window(x[0], 3)), (2, 9)) * 1",
    "joined windows of windows": f"concat([{TWICE}, {TWICE} * 2], axis=1)",
}


@pytest.mark.parametrize("case", GUARDED)
def test_what_is_read_under_a_guard_stays_inside_of_its_array(case):
    """The guard holds for every view below: the verifier finds a read that is outside, and the emulator, too."""
    text = GUARDED[case]
    wanted = interpreted(text, x=X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(fd.evaluate(text, x=X, fallback=False), wanted)
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    with emulated_gpu(cc=(8, 0)) as gpu:
        result = fd.kernel(text, fallback=False)(gpu.asarray(X.astype(np.float32))).get()
    np.testing.assert_allclose(result, interpreted(text, x=X.astype(np.float32)))


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "bfloat16", "bool"])
def test_windows_of_any_dtype_pass_the_verifier(name):
    x = (np.arange(12) % 3).astype(getattr(ml_dtypes, name, name))
    want = np.stack([x[k : k + 3] for k in range(10)])
    assert np.array_equal(fd.kernel("sliding_window(x, 3)", verify=True, fallback=False)(x), want)
