"""A value that is a result and that later kernels read is stored once: they read the result."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.report.explain import resolved_call
from fusedsl.runtime.array_copies import to_host

R = np.random.default_rng(5)
X, W = (R.standard_normal((40, 40), dtype=np.float32) for _ in "xw")


def softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def chain(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
    y = x @ w
    return y, y @ w, (y @ w) @ w


TEXTS = {
    "y = x @ w; return y, y @ w": lambda x, w: (x @ w, x @ w @ w),
    "y = softmax(x); return y, y @ w": lambda x, w: (softmax(x), softmax(x) @ w),
    "y = sort(x); return y, cumsum(y, 0)": lambda x: (np.sort(x), np.cumsum(np.sort(x), 0)),
    "y = x @ w; z = y @ w; return y, z, z @ w": chain,
    "y = x @ w; return y[::-1] @ w, y": lambda x, w: ((x @ w)[::-1] @ w, x @ w),
    "y = cumsum(x, 0); return y, cumsum(y, 1), y.T @ w": lambda x, w: (
        np.cumsum(x, 0),
        np.cumsum(np.cumsum(x, 0), 1),
        np.cumsum(x, 0).T @ w,
    ),
    "k = x @ w; return k, softmax(w @ k.mT) @ x": lambda x, w: (x @ w, softmax(w @ (x @ w).T) @ x),
    "y = x @ w; return y, take(y, argsort(y[0]), axis=1) @ w": lambda x, w: (
        x @ w,
        (x @ w)[:, np.argsort((x @ w)[0], kind="stable")] @ w,
    ),
}
RESHAPED = "y = x @ w; return y, softmax(reshape(y, (-1, 8))) @ w[:8]"


def plan_of(text: str, device: str = "cpu"):
    kernel = fd.kernel(text, verify=True)
    arrays = [fd.spec((300, 300), "float32") for _ in kernel.params]
    return resolved_call(kernel._program, arrays, device, (9, 0) if device == "cuda" else None).plan


def close(found, expected) -> None:
    for one, right in zip(found, expected):
        np.testing.assert_allclose(to_host(one), right, rtol=2e-4, atol=2e-4 * np.abs(right).max())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("text", TEXTS)
def test_later_kernels_read_the_result(text, device):
    plan = plan_of(text, device)
    read = {(u.kind, u.index) for k in plan.kernels for u in k.arrays[: k.inputs]}
    stored = [(u.kind, u.index) for k in plan.kernels for u in k.arrays[k.inputs :]]
    assert any(kind == "result" for kind, _ in read)
    assert len(stored) == len(set(stored)) == len(plan.results) + len(plan.temporaries)


@pytest.mark.parametrize("text", TEXTS)
def test_values(text):
    kernel = fd.kernel(text, verify=True, fallback=False)
    given = [X, W][: len(kernel.params)]
    close(kernel(*given), TEXTS[text](*given))


@pytest.mark.parametrize("text", TEXTS)
def test_values_on_an_emulated_gpu(text):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    kernel = fd.kernel(text)
    given = [X, W][: len(kernel.params)]
    with emulated_gpu(multiprocessors=4) as gpu:
        close(kernel(*map(gpu.asarray, given)), TEXTS[text](*given))


def test_a_reader_that_reshapes_keeps_the_temporary():
    plan = plan_of(RESHAPED)
    read = {u.kind for k in plan.kernels for u in k.arrays[: k.inputs]}
    assert "result" not in read
    out = np.empty((40, 40), np.float32, order="F")
    y, z = fd.kernel(RESHAPED, verify=True)(X, W, out=(out, None))
    close((y, z), (X @ W, softmax((X @ W).reshape(-1, 8)) @ W[:8]))


def strange(name: str) -> np.ndarray:
    """An array of X's shape with strides that no new result has."""
    return {
        "F": np.empty((40, 40), np.float32, order="F"),
        "backwards": np.empty((40, 40), np.float32)[::-1, ::-1],
        "every other": np.empty((80, 120), np.float32)[::2, 1::3],
        "unaligned": np.empty(1601, np.float32)[1:].reshape(40, 40),
    }[name]


@pytest.mark.parametrize("name", ["F", "backwards", "every other", "unaligned"])
@pytest.mark.parametrize("text", TEXTS)
def test_an_output_of_any_strides(text, name):
    kernel, out = fd.kernel(text, verify=True), strange(name)
    given = [X, W][: len(kernel.params)]
    expected = TEXTS[text](*given)
    outs = tuple(out if k == 0 else None for k in range(len(expected)))
    if expected[0].shape == out.shape:
        found = kernel(*given, out=outs)
        assert found[0] is out
        close(found, expected)
    found = kernel(*given, out=tuple(strange(name) for _ in expected))
    close(found, expected)


@pytest.mark.parametrize("text", TEXTS)
def test_an_output_that_is_an_argument(text):
    """Later kernels that read the argument get what it held before the call."""
    kernel = fd.kernel(text, verify=True)
    for over in range(len(kernel.params)):
        for result in range(len(TEXTS[text](X, W)) if len(kernel.params) == 2 else 2):
            given = [X.copy(), W.copy()][: len(kernel.params)]
            expected = TEXTS[text](*given)
            outs = [None] * len(expected)
            outs[result] = given[over]
            close(kernel(*given, out=tuple(outs)), expected)


def test_calls_that_are_repeated_read_their_own_result():
    kernel = fd.kernel("y = x @ w; return y, y @ w")
    first = kernel(X, W)
    second = kernel(X + 1, W)
    third = kernel(X, W)
    close(first, (X @ W, X @ W @ W))
    close(second, ((X + 1) @ W, (X + 1) @ W @ W))
    close(third, first)
    again = kernel.bind(X, W)
    close(again(), first)
