"""Warm calls: the generated lines repeat the call that they were made from, and pass all others on."""

from __future__ import annotations

import numpy as np
import pytest
from threads import at_once

import fusedsl as fd
from fusedsl.runtime import native_entry
from fusedsl.runtime import warm_call as module


def normal(*shape, dtype=np.float32):
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


def warmed(text, *args, **more):
    """A kernel that was called with these arguments until its warm call was there."""
    kernel = fd.kernel(text)
    for _ in range(3):
        kernel(*args, **more)
    return kernel


def is_warm(kernel, *args, out=None):
    return kernel._program.warm_call(args, out) is not None


def test_arguments_of_the_same_layout_are_warm():
    kernel = warmed("a * b + c", normal(5, 6), normal(6), 2.5)
    for args in [(normal(5, 6) + 1, normal(6), -1.0), (np.ones((5, 6), np.float32), normal(6) * 2, np.inf)]:
        assert is_warm(kernel, *args)
        np.testing.assert_array_equal(kernel(*args), fd.evaluate("a*b+c", a=args[0], b=args[1], c=args[2]))


def test_calls_of_several_kinds_in_turn_are_all_warm(monkeypatch):
    kernel = fd.kernel("x * 2 + y")
    arguments = [(normal(n, 8), y) for n in (3, 5, 7) for y in (normal(8),)] + [(normal(4), 2.5)]
    for _ in range(3):
        for args in arguments:
            kernel(*args)
    monkeypatch.setattr(kernel._program, "_run_prepared", None)
    for args in arguments:
        np.testing.assert_array_equal(kernel(*args), args[0] * 2 + np.float32(args[1]))
        np.testing.assert_array_equal(kernel(y=args[1], x=args[0]), args[0] * 2 + np.float32(args[1]))


def odd(x):
    """The same elements, four bytes off a multiple of 16."""
    room = np.empty(x.size + 5, x.dtype)
    start = -room.ctypes.data % 16 // x.itemsize + 1
    room[start : start + x.size] = x.ravel()
    return room[start : start + x.size].reshape(x.shape)


OTHERS = {
    "dtype": lambda x: x.astype(np.float64),
    "shape": lambda x: x[:3],
    "rank": lambda x: x[0],
    "strides": lambda x: np.asfortranarray(x),
    "reversed": lambda x: x[:, ::-1],
    "address": odd,
    "number": lambda x: 3.0,
    "scalar": lambda x: np.float32(3),
    "rank 0": lambda x: np.array(3.0, np.float32),
    "class": lambda x: x.view(np.memmap),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_differs_takes_the_general_path(name):
    x, y = normal(5, 8), normal(8)
    other = OTHERS[name](x)
    kernel = warmed("x * 2 + y", x, y)
    assert is_warm(kernel, x, y) and not is_warm(kernel, other, y)
    np.testing.assert_array_equal(kernel(other, y), other * np.float32(2) + y)
    np.testing.assert_array_equal(kernel(x, y), x * 2 + y)  # back again


@pytest.mark.parametrize(
    "value, others", [(2, (True, 2.0, np.int64(2))), (2.5, (2, np.float32(2.5))), (True, (1, 0.0))]
)
def test_numbers_are_told_apart_by_their_type(value, others):
    x = np.arange(6, dtype=np.int32)
    kernel = warmed("x + s", x, value)
    assert is_warm(kernel, x, type(value)(0))
    for other in others:
        assert not is_warm(kernel, x, other)
        expected = fd.kernel("x + s")(x, other)
        found = kernel(x, other)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_a_number_that_does_not_fit_is_refused_before_anything_is_written():
    x, out = np.arange(6, dtype=np.int8), np.zeros(6, np.int8)
    kernel = warmed("x + s", x, 3, out=out)
    before = out.copy()
    with pytest.raises(fd.DTypeError):
        kernel(x, 300, out=out)
    np.testing.assert_array_equal(out, before)


def test_outputs_are_checked_as_in_the_first_call():
    x = normal(8, 8)
    room = normal(20, 8)
    out = np.empty_like(x)
    kernel = warmed("x + x", x, out=out)
    assert is_warm(kernel, x, out=out) and is_warm(kernel, x, out=x) and is_warm(kernel, room[:8], out=room[8:16])
    locked = np.empty_like(x)
    locked.flags.writeable = False
    wrong = [locked, room[4:12], np.empty((8, 7), np.float32), np.empty((8, 8)), [[0.0]]]
    for bad in wrong:
        given = room[:8] if bad is wrong[1] else x
        kept = np.array(bad)
        assert not is_warm(kernel, given, out=bad)
        with pytest.raises((fd.ArgumentError, fd.ShapeError, fd.DTypeError)):
            kernel(given, out=bad)
        np.testing.assert_array_equal(bad, kept)
    interleaved = np.empty((8, 16), np.float32)
    np.testing.assert_array_equal(kernel(x, out=interleaved[:, ::2]), x + x)


def test_some_outputs_given_and_some_not():
    x = normal(9)
    first, second = np.empty_like(x), np.empty_like(x)
    kernel = warmed("return x + 1, x * 2", x, out=(first, None))
    for out in [(None, second), (first, second), None, (first, None)]:
        found = kernel(x, out=out)
        np.testing.assert_array_equal(found[0], x + 1)
        np.testing.assert_array_equal(found[1], x * 2)
        for given, one in zip(out or (), found):
            assert given is None or given is one
    with pytest.raises(fd.ArgumentError):
        kernel(x, out=(first,))


def test_results_are_new_each_time_with_memory_between_kernels():
    x = normal(400, 30)
    kernel = warmed("cumsum(x - sum(x), axis=0)", x)
    first, second = kernel(x), kernel(x + 1)
    assert first is not second
    np.testing.assert_array_equal(first, fd.kernel(kernel.text)(x))
    np.testing.assert_array_equal(second, fd.kernel(kernel.text)(x + 1))


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    kernel = warmed("x * y", x, y)
    assert is_warm(kernel, x + 1, y)
    leaf = torch.randn(4, 6, requires_grad=True)
    strided, negative = torch.randn(6, 4).T, torch.randn(4, 6, dtype=torch.complex64).conj().imag
    assert negative.is_neg()
    for other in (
        strided,
        torch.nn.Parameter(x, requires_grad=False),
        negative,
        x[:, :3].expand(4, 3),
        x.half(),
        x.numpy(),
    ):
        assert not is_warm(kernel, other, y)
    assert not is_warm(kernel, leaf, y)
    assert kernel(leaf, y).requires_grad
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(kernel(leaf, y), leaf * y)
        assert is_warm(kernel, leaf, y)
    assert not is_warm(kernel, leaf, y)
    assert kernel(leaf, y).requires_grad
    for _ in range(3):
        assert torch.equal(kernel(x, torch.tensor(2.0)), 2 * x)
    out = torch.empty(4, 6)
    kernel = warmed("x * y", x, y, out=out)
    version = out._version
    assert kernel(x, y, out=out) is out and out._version == version + 1


def test_a_torch_without_its_check_of_several_tensors(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(module, "tensor_guards", lambda: None)
    x, y, out = torch.randn(4, 6), torch.randn(6), torch.empty(4, 6)
    kernel, line = warmed("x * y", x, y, out=out), warmed("y + 1", y)
    assert is_warm(kernel, x + 1, y, out=out) and is_warm(line, y) and torch.equal(line(y), y + 1)
    negative = torch.randn(4, 6, dtype=torch.complex64).conj().imag
    for other in (torch.randn(6, 4).T, negative, x.half(), x[:3], torch.randn(4, 6, requires_grad=True), x.numpy()):
        assert not is_warm(kernel, other, y, out=out)


def test_a_fused_function_is_warm():
    @fd.fuse
    def scaled(x, factor):
        return np.tanh(x) * factor

    x = normal(50)
    for factor in (2.0, 3.0, 4.0):
        np.testing.assert_allclose(scaled(x, factor), np.tanh(x) * np.float32(factor), 1e-6)


def test_kernels_without_arguments_are_warm():
    kernel = warmed("arange(5) * 2")
    assert is_warm(kernel)
    np.testing.assert_array_equal(kernel(), np.arange(5) * 2)


def test_threads_share_a_kernel_from_its_first_call_on():
    kernel, wrong = fd.kernel("exp(x) * y + s"), []

    def work(seed):
        draw = np.random.default_rng(seed)
        for n in range(60):
            x, y = draw.standard_normal((2, 20 + n % 3, 9)).astype(np.float32)
            s, out = float(n % 2 * seed), np.empty_like(x)
            right = np.exp(x) * y + np.float32(s)
            for found in (kernel(x, y, s), kernel(x, y, s, out=out), kernel(x=x, y=y, s=s)):
                if not np.allclose(found, right, 1e-5, 1e-6):
                    wrong.append((seed, n))

    at_once(work, range(6))
    assert not wrong


def test_zeros_of_both_signs_are_two_numbers():
    x = np.array([0.0, 1.0], np.float32)
    kernel = warmed("copysign(x, s)", x, 0.0)
    for s in (0.0, -0.0, 0.0, 2.0, -0.0, float("nan"), -2.0):
        np.testing.assert_array_equal(np.signbit(kernel(x, s)), np.signbit(np.copysign(x, np.float32(s))))


def test_addresses_are_judged_alike_by_machine_code_and_by_python():
    draw = np.random.default_rng(5)
    answers = []
    for _ in range(200):
        count = int(draw.integers(1, 5))
        base = [int(draw.integers(0, 1 << 46)) for _ in range(count)]
        pairs = []
        for _ in range(int(draw.integers(0, 4))):
            first, second = (int(k) for k in draw.integers(0, count, 2))
            spans = [int(x) for x in draw.integers(-60, 1, 2)], [int(x) for x in draw.integers(1, 60, 2)]
            allowed = tuple(int(x) for x in draw.choice([0, 8, -8, 16], int(draw.integers(0, 4)), replace=False))
            pairs.append(native_entry.Pair(first, second, spans[0][0], spans[1][0], spans[0][1], spans[1][1], allowed))
        watch = native_entry.Watch({k: a & 15 for k, a in enumerate(base)}, pairs)
        at = [base[0] + int(draw.choice([0, 8, -8, 16, 64, 1 << 20])) for _ in base] if draw.random() < 0.7 else base
        answers.append(watch.violated(*at))
        assert bool(native_entry.watcher(watch)(*at)) == answers[-1]
        order = [int(k) for k in draw.permutation(count)]
        moved = watch.at({k: place for place, k in enumerate(order)})
        assert moved.violated(*[at[k] for k in order]) == answers[-1]
    assert 20 < sum(answers) < 180
