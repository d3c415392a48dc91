"""Kernel.bind: the same call again on the same arrays, with its parameters filled in once."""

from __future__ import annotations

import threading
import timeit
import weakref

import numpy as np
import pytest

import fusedsl as fd


def normal(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def test_a_bound_call_sees_what_its_arrays_hold_and_writes_one_result():
    x, y = normal(50, 7), normal(7)
    kernel = fd.kernel("x * y + c")
    bound = kernel.bind(x, y, 2.5)
    before = bound.result
    assert bound() is before
    np.testing.assert_array_equal(before, kernel(x, y, 2.5))
    x[:] = 3
    assert bound() is before
    np.testing.assert_array_equal(before, kernel(x, y, 2.5))


def test_binding_computes_nothing():
    x = normal(100)
    kept = x.copy()
    bound = fd.kernel("x + 1").bind(x, out=x)
    np.testing.assert_array_equal(x, kept)
    bound(), bound()
    np.testing.assert_array_equal(x, kept + 1 + 1)


def test_several_results_and_kernels_with_memory_between_them():
    x = normal(300, 40)
    text = "m = sum(x); return cumsum(x - m, axis=0), m"
    out = np.empty_like(x)
    bound = fd.kernel(text).bind(x, out=(out, None))
    first, second = bound()
    assert first is out
    again = fd.kernel(text)(x)
    np.testing.assert_array_equal(first, again[0])
    np.testing.assert_array_equal(second, again[1])


def test_what_cannot_be_repeated_as_it_is_prepared_is_right_all_the_same():
    x = normal(6, 4)
    kernel = fd.kernel("x + x[::-1]")  # with out=x: read elsewhere, so that a temporary is needed
    bound = kernel.bind(x, out=x)
    expected = x + x[::-1]
    bound()
    np.testing.assert_array_equal(x, expected)
    empty = fd.kernel("sum(x, axis=-1)").bind(np.empty((3, 0), np.float32))
    np.testing.assert_array_equal(empty(), np.zeros(3, np.float32))


def test_errors_come_when_it_is_bound():
    x = np.zeros(4, np.int8)
    kernel = fd.kernel("x + c")
    with pytest.raises(fd.DTypeError):
        kernel.bind(x, 300)
    with pytest.raises(fd.ArgumentError):
        kernel.bind(x)
    with pytest.raises(fd.ArgumentError):
        kernel.bind(x, 3, out=np.zeros(5, np.int8))


def test_numbers_keep_their_value_and_arrays_stay_alive():
    bound = fd.kernel("x * c").bind(normal(1000), 3)
    np.testing.assert_array_equal(bound(), normal(1000) * np.float32(3))


def test_what_a_bound_call_holds_is_freed_with_it():
    x = normal(1000)
    bound = fd.kernel("cumsum(x - sum(x), axis=0)").bind(x)
    bound()
    alive = weakref.ref(bound.result)
    del bound
    assert alive() is None


def test_threads_share_a_bound_call():
    x = normal(200_000)
    bound = fd.kernel("exp(x)").bind(x)
    expected = bound().copy()
    threads = [threading.Thread(target=lambda: [bound() for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(bound.result, expected)


def test_torch_is_told_that_its_tensor_changed():
    torch = pytest.importorskip("torch")
    x, out = torch.randn(10), torch.empty(10)
    bound = fd.kernel("x + 1").bind(x, out=out)
    version = out._version
    assert bound() is out and torch.equal(out, x + 1)
    assert out._version == version + 1


def test_it_costs_less_than_a_call():
    x, out = normal(16), np.empty(16, np.float32)
    kernel = fd.kernel("a * b + c")
    bound = kernel.bind(x, x, x, out=out)
    bound(), kernel(x, x, x, out=out)
    fixed = min(timeit.repeat(bound, number=2000, repeat=5))
    called = min(timeit.repeat(lambda: kernel(x, x, x, out=out), number=2000, repeat=5))
    assert fixed < 0.6 * called
    print(f"bound {fixed * 500:.2f} us, called {called * 500:.2f} us")


def test_a_misspelt_out_is_told():
    x = normal(5)
    with pytest.raises(fd.ArgumentError, match="did you mean out"):
        fd.kernel("x + 1").bind(x, ouut=x)
