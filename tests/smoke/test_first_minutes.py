"""What must work before anything else: a dozen programs on the CPU, their explanations, and their CUDA sources."""

import numpy as np
import pytest

import fusedsl as fd

X = np.random.default_rng(0).standard_normal((12, 40)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((40, 8)).astype(np.float32)
SQUARE = X @ X.T


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


PROGRAMS = {
    "x * 2 + 1": lambda: X * 2 + 1,
    "where(x > 0, x, exp(x) - 1)": lambda: np.where(X > 0, X, np.exp(X) - 1),
    "sum(x, -1)": lambda: X.sum(-1),
    "max(x, axis=0)": lambda: X.max(0),
    "(x - mean(x, -1, keepdims=True)) / std(x, -1, keepdims=True)": lambda: (
        (X - X.mean(-1, keepdims=True)) / X.std(-1, keepdims=True)
    ),
    "softmax(x)": lambda: softmax(X),
    "cumsum(x, -1)": lambda: X.cumsum(-1),
    "sort(x, -1)": lambda: np.sort(X, -1),
    "x @ w": lambda: X @ W,
    "s @ (s @ s)": lambda: SQUARE @ (SQUARE @ SQUARE),
    "softmax(x @ x.mT) @ x": lambda: softmax(SQUARE) @ X,
    "x[argmax(sum(x, -1))]": lambda: X[X.sum(-1).argmax()],
}
ARRAYS = {"x": X, "w": W, "s": SQUARE}


@pytest.mark.parametrize("text", PROGRAMS)
def test_on_the_cpu(text):
    kernel = fd.kernel(text)
    expected = PROGRAMS[text]()
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(kernel(*(ARRAYS[n] for n in kernel.params)), expected, rtol=2e-5, atol=2e-5 * scale)


def test_cuda_sources_need_no_gpu():
    source = fd.kernel("softmax(x)").source(X, device="cuda")
    assert "def kernel(" in source and "allocate" not in source


def test_an_explanation_says_what_is_saved():
    assert str(fd.kernel("softmax(x)").explain(X)).startswith("1 kernel instead of")


def test_a_typo_is_told():
    with pytest.raises(fd.FusedslError, match="softmax"):
        fd.kernel("softmx(x)")(X)
