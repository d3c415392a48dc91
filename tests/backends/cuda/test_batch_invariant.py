"""deterministic="batch": a row's bits depend neither on other rows nor on their number, nor on where a row begins."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd

ROWS = 40
PARTS = ((0, 1), (0, 2), (3, 8), (7, ROWS))
ALONG = ("sum(x*x, -1), softmax(x), layer_norm(x, g)", "x @ w", "cumsum(x, -1)", "rms_norm(h, g), logsumexp(h, -1)")
ACROSS = ("sum(y, 0), var(y, 0), softmax(y, axis=0).T",)  # there, rows lie across what is contiguous: two or more
RNG = np.random.default_rng(0)


def arrays(columns: int) -> dict[str, np.ndarray]:
    x = RNG.standard_normal((ROWS, columns)).astype(np.float32)
    w, g = (RNG.standard_normal((columns, n)).astype(np.float32) for n in (8, 1))
    return {"x": x, "w": w, "g": g[:, 0]}


def taken(whole: dict[str, np.ndarray], first: int, last: int) -> dict[str, np.ndarray]:
    """Some of the rows, as arrays of their own."""
    x = whole["x"][first:last].copy()
    return whole | {"x": x, "h": x.astype(np.float16), "y": np.ascontiguousarray(x.T)}


def held(text: str, columns: int, there, back) -> None:
    """Raises AssertionError where rows have other bits alone than among others."""
    kernel, whole = fd.kernel(text, deterministic="batch"), arrays(columns)

    def made(first: int, last: int) -> list[np.ndarray]:
        given = taken(whole, first, last)
        found = kernel(*(there(given[name]) for name in kernel.params))
        return [back(r) for r in (found if isinstance(found, tuple) else (found,))]

    everything = made(0, ROWS)
    for first, last in PARTS:
        if text in ACROSS and last - first == 1:
            continue
        for k, (part, full) in enumerate(zip(made(first, last), everything)):
            assert np.array_equal(part, full[first:last]), f"result {k} of {text}, rows {first}:{last} of {columns}"


@pytest.mark.parametrize("columns", (1001, 300_000))
def test_rows_have_the_same_bits_alone_on_the_cpu(columns):
    for text in (*ALONG[:2], *ACROSS) if columns < 2000 else ("softmax(x)",):
        held(text, columns, np.asarray, np.asarray)


def test_no_element_chooses_the_function_of_its_neighbours_on_the_cpu():
    x = RNG.standard_normal((4, 64)) * 100
    beside = x.copy()
    beside[0] = 1e9  # beyond the common arguments
    for text in (
        "sin(x)",
        "fmod(x, 3)",
        "sum(cos(x), -1)",
        "sin(x) + max(x, axis=-1, keepdims=True)",
        "tan(x[:, ::-1])",
    ):
        fd.kernel(text)(x)  # which has another binary
        kernel = fd.kernel(text, deterministic="batch")
        assert np.array_equal(kernel(x)[1:], kernel(beside)[1:]), text


def test_sums_of_columns_do_not_depend_on_threads():
    x = RNG.standard_normal((50, 5001))
    x[:, ::400] = 1e9
    before, kernel, found = fd.get_num_threads(), fd.kernel("sum(sin(x), 0)"), []
    for threads in (1, 2, 3, 5):
        fd.set_num_threads(threads)
        found += [kernel(x) for _ in range(3)]
    fd.set_num_threads(before)
    assert all(np.array_equal(one, found[0]) for one in found)


@pytest.mark.parametrize("columns", (129, 20_000))
def test_rows_have_the_same_bits_alone_in_cuda_kernels(columns):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4) as gpu:
        for text in (*ALONG[:3], *ACROSS) if columns < 2000 else ALONG[:1]:
            held(text, columns, gpu.asarray, lambda r: r.get())


def test_a_single_wide_row_compiles():
    pytest.importorskip("numba_cuda")
    given = fd.spec((1, 128_256), "float32"), fd.spec((128_256,), "float32")
    (found,) = fd.kernel("layer_norm(softmax(x), g)", deterministic="batch").resources(*given, cc=90)
    assert found.figures.spill_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize("columns", (1001, 16_384, 128_256, 600_000))
def test_rows_have_the_same_bits_alone_on_a_card(columns):
    import cupy

    for text in (*ALONG, *ACROSS):
        held(text, columns, cupy.asarray, cupy.asnumpy)


def attention_held(there, back) -> None:
    q, k, v = (RNG.standard_normal((1, 2, 70, 16)).astype(np.float32) for _ in range(3))
    kernel = fd.kernel("softmax(q @ k.mT / 4) @ v", deterministic="batch")
    full = back(kernel(*map(there, (q, k, v))))
    for first, last in ((5, 8), (3, 70)):
        part = kernel(*map(there, (q[:, :, first:last].copy(), k, v)))
        assert np.array_equal(back(part), full[:, :, first:last])


def test_attention_of_rows_does_not_depend_on_others():
    attention_held(np.asarray, np.asarray)


def test_attention_of_rows_does_not_depend_on_others_in_cuda_kernels():
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4) as gpu:  # rows that are few alone are not taken for products that are stored
        attention_held(gpu.asarray, lambda r: r.get())


def test_nothing_is_tried_where_bits_are_fixed():
    chosen = fd.options(deterministic="batch", autotune=True)
    with chosen as options:
        assert options.batch_invariant and not options.tunes
