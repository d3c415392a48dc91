"""Mistakes in a function under fuse: each is an error at its line that says what was meant."""

from pathlib import Path

import numba
import numpy as np
import pytest

import fusedsl as fd

X = np.arange(12, dtype=np.float32).reshape(3, 4)
N = np.arange(12).reshape(3, 4)
scaled = numba.njit(lambda x, factor: x * factor)


@pytest.mark.parametrize(("function", "says"), [
    (lambda x: np.sum(x, axes=1), "did you mean axis=?"),
    (lambda x: x.sum(axes=1), "did you mean axis=?"),
    (lambda x: x.sun(), "sum?"),
    (lambda x: x.frobnicate, "attributes and methods are those of the library's arrays"),
    (lambda x: np.bitwise_or.reduce(N + x.astype(int)), "a list of arrays is fine"),
    (lambda x: np.gcd.reduce(x.astype(int)), "compute it outside of the function"),
])  # fmt: skip
def test_a_mistake_is_shown_at_its_line_with_what_was_meant(function, says):
    with pytest.raises(fd.FusedslError) as caught:
        fd.fuse(function)(X)
    assert says in caught.value.help and caught.value.text in Path(__file__).read_text() and "line" in caught.value.note


def test_an_attribute_that_is_missing_is_an_attribute_error_so_that_hasattr_answers():
    @fd.fuse
    def doubled(x):
        return x * 3 if hasattr(x, "frobnicate") else x * 2

    np.testing.assert_array_equal(doubled(X), X * 2)
    with pytest.raises(AttributeError, match=r"fusedsl.TraceError\[trace.attribute\]: an array has no attribute sun"):
        fd.fuse(lambda x: x.sun())(X)


def test_functions_that_numba_compiles_are_traced_as_python():
    @fd.fuse
    @numba.njit
    def tripled(x):
        return x * 3

    @fd.fuse
    @numba.vectorize
    def squared(x):
        return x * x

    @fd.fuse
    def calls(x):
        return scaled(x, scaled(2, 3)) + 1

    for function, wanted in ((tripled, X * 3), (squared, X * X), (calls, X * 6 + 1)):
        np.testing.assert_array_equal(function(X), wanted)
        assert len(function.explain(X, compile=False).kernels) == 1
