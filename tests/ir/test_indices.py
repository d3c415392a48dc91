"""An index out of range is an error where a result depends on it: on the CPU with bounds="raise", and under verify."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd

RANDOM = np.random.default_rng(17)
X = np.arange(1.0, 7)
M = np.arange(24.0).reshape(6, 4)
K = np.array([0, 7, 3, -9])
INSIDE = np.array([0, 5, 3, -6])
OPTIONS = ({"bounds": "raise"}, {"verify": True})


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    "text",
    [
        "where((k >= -6) & (k < 6), x[k], 0)",
        "where(k < -6, 0, where(k >= 6, 1, x[k] * 2))",
        "sum(where((k >= 0) & (k < 6), x[k], 0)), max(where(abs(k) < 6, x[k], -inf))",
        "sum(x[k], where=abs(k) < 6)",
        "(abs(k) < 6) & (x[k] > 2), (x[k] > 2) & (abs(k) < 6), (abs(k) > 5) | (x[k] > 2), abs(k) < 6 and x[k] > 2",
        "softmax(where(abs(k) < 6, x[k], -inf))",
        "y = x[k]; concat([y[:1], y[2:3]])",
        "cumsum(x[k][:1]), flip(x[k])[1]",
        "w = where(abs(k) < 6, 0.5, 0); w @ m[k], m[k].T @ w",
        "m[k][2:3].T, reshape(m[k], (2, 2, 4))[:, 0][:1]",
        "x[where(abs(k) < 6, k, 0)], x[clip(k, -6, 5)]",
        "x[k[:1]][argmax(x[:1])], sort(where(abs(k) < 6, x[k], 0))",
        "m[k, 2][0], m[k[2:3]][:, 1:]",
        "sum(x[k][:0]), sum(broadcast_to(x[k][1:2], (0, 1))), broadcast_to(x[k], (0, 4))",
    ],
)
def test_what_a_condition_leaves_out_is_not_read(text, options):
    arrays = {"x": X, "k": K, "m": M}
    kernel = fd.kernel(text, **options)
    given = [arrays[p] for p in kernel.params]
    plain = fd.kernel(text)(*given)
    for _ in range(2):
        made = kernel(*given)
        for got, expected in zip(made, plain) if type(made) is tuple else [(made, plain)]:
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    "text",
    [
        "x[k]",
        "where(k > 0, x[k], 0)",
        "where(k < 8, x[k], 0)",
        "where(x[k] > 0, 1, 2)",
        "sum(x[k]), 1",
        "1, any(x[k] > 3)",
        "(abs(k) < 8) * x[k]",
        "(k < 7) | (x[k] > 2)",
        "softmax(x[k])[0]",
        "x[k][1]",
        "take_along_axis(x, k), x",
        "m[k].T, m[k, 1]",
        "cumsum(x[k])[1:], cumsum(flip(x[k]))[:3]",
        "sort(x[k])[0], topk(x[k], 1)",
        "k @ m[k], m[k].T @ k, broadcast_to(1.0, (3, 4)) @ m[k]",
        "w = where(k > 0, 1, 0); w @ m[k]",
        "x[int64(x[k]) - 1]",
        "reshape(m[k], (2, 8))[0, 4:], transpose(m[k])[0, 1]",
        "argmax(x[k]), sum(x[k] > 1)",
        "f(a) = a[k]; f(x) + f(x * 2)",
    ],
)
def test_an_index_that_a_result_depends_on_is_an_error(text, options):
    arrays = {"x": X, "k": K, "m": M}
    kernel = fd.kernel(text, **options)
    given = [arrays[p] for p in kernel.params]
    inside = [INSIDE if p == "k" else arrays[p] for p in kernel.params]
    for _ in range(2):
        with pytest.raises(IndexError, match="index 7 is out of range for an axis of 6"):
            kernel(*given)
        kernel(*inside)


def test_indices_out_of_range_read_zero_or_nan_unless_they_are_to_raise():
    np.testing.assert_array_equal(fd.evaluate("x[k]", x=X, k=K), [1, np.nan, 4, np.nan])
    np.testing.assert_array_equal(fd.evaluate("x[k]", x=np.int32(X), k=K), [1, 0, 4, 0])


def test_nothing_is_written_where_an_index_is_out_of_range():
    out = np.full(4, 9.0)
    kernel = fd.kernel("x[k]", bounds="raise")
    for k in (K, K, INSIDE, K):
        before = out.copy()
        if k is INSIDE:
            kernel(X, k, out=out)
            np.testing.assert_array_equal(out, X[k])
            continue
        with pytest.raises(IndexError, match="index 7"):
            kernel(X, k, out=out)
        np.testing.assert_array_equal(out, before)


def test_a_bound_call_and_lists_of_calls_ask_too():
    kernel = fd.kernel("x[k]", bounds="raise")
    k = INSIDE.copy()
    bound = kernel.bind(X, k)
    np.testing.assert_array_equal(bound(), X[INSIDE])
    k[:] = K
    with pytest.raises(IndexError, match="index 7"):
        bound()
    outs = [np.full(4, 9.0), np.full(4, 9.0)]
    for _ in range(2):
        with pytest.raises(IndexError, match="index 7"):
            fd.foreach(kernel, X, [INSIDE, K], out=outs)
        assert all((out == 9).all() for out in outs)
    for _ in range(2):
        np.testing.assert_array_equal(fd.foreach(kernel, X, [INSIDE, INSIDE + 0])[1], X[INSIDE])


def test_functions_and_tensors_ask_too():
    @fd.fuse(bounds="raise")
    def taken(x, k):
        return np.take(x, k) + 1

    for _ in range(3):
        np.testing.assert_array_equal(taken(X, INSIDE), X[INSIDE] + 1)
        with pytest.raises(IndexError, match="index 7"):
            taken(X, K)
    torch = pytest.importorskip("torch")
    x, k, inside = map(torch.tensor, (X, K, INSIDE))
    kernel = fd.kernel("x[k]", bounds="raise")
    for _ in range(2):
        assert kernel(x, inside).tolist() == X[INSIDE].tolist()
        with pytest.raises(IndexError, match="index 7"):
            kernel(x, k)


def test_the_interpreter_in_place_of_a_kernel_asks_too(monkeypatch):
    from fusedsl.errors import CompileError
    from fusedsl.program import first_call

    def fails(*given):
        raise CompileError("no compiler", "compile")

    monkeypatch.setattr(first_call, "_prepare", fails)
    with pytest.warns(RuntimeWarning), pytest.raises(IndexError, match="index 7"):
        fd.evaluate("x[k]", x=X, k=K, bounds="raise")


def test_a_program_that_reads_at_no_computed_place_is_called_as_ever():
    kernel = fd.kernel("x[1:] + flip(x)[:-1]", bounds="raise")
    for _ in range(3):
        kernel(X)
    assert kernel._program.warm_call(([X]), None) is not None


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_keys_beyond_a_sequence_need_no_page(options):
    q = RANDOM.standard_normal((2, 2, 1, 8)).astype(np.float32)
    pages = RANDOM.standard_normal((3, 4, 2, 8)).astype(np.float32)
    table = np.array([[0, 1], [2, 99]])
    fd.attention(q, pages, pages, pages=table, lengths=np.array([8, 4]), **options)
    with pytest.raises(IndexError, match="index 99"):
        fd.attention(q, pages, pages, pages=table, lengths=np.array([8, 5]), **options)


def test_on_a_cuda_device_verify_alone_raises():
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4) as gpu:
        given = [gpu.asarray(a) for a in (X.astype(np.float32), K)]
        found = fd.kernel("x[k]", bounds="raise")(*given)
        np.testing.assert_array_equal(found.get(), [1, np.nan, 4, np.nan])
        with pytest.raises(IndexError, match="index 7"):
            fd.kernel("x[k]", bounds="raise", verify=True)(*given)
