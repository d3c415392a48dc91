"""CUDA kernels of every family, run without a GPU (tests/ptx): right results, no byte out of bounds, no race.

The emulated GPUs are small, so that small arrays get the schedules of large ones.
"""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import pytest
from test_combo import ROPE, rope
from test_rows_and_columns import RMS_NORM, SOFTMAX, given

import fusedsl as fd
from fusedsl.backends.cuda.rows import cluster
from fusedsl.fusion.formulation import ON_CUDA
from fusedsl.program.call_steps import extents_of
from fusedsl.runtime.array_copies import to_host
from fusedsl.runtime.arrays import describe

pytest.importorskip("numba_cuda")
from bounds import agrees, evaluate
from ptx import Fault, emulated_gpu

exact_gpu = functools.partial(emulated_gpu, tails=False)
RANDOM = np.random.default_rng(11)
HALF, BRAIN = np.float16, ml_dtypes.bfloat16


def normal(*shape, dtype=np.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


def whole(low, high, *shape, dtype=np.int64):
    return RANDOM.integers(low, high, shape).astype(dtype)


def check_twice(gpu, text, arrays, skip=0):
    """Results within their bounds, and the same bits when atomics take another order; which launches there were."""
    kernel = fd.kernel(text, fallback=False)
    values = [arrays[name] for name in kernel.params]
    there = [gpu.asarray(v, skip=skip) if isinstance(v, np.ndarray) else v for v in values]
    before = [to_host(v) for v in there]
    made, again = [], []
    for seed, results in ((0, made), (1, again)):
        gpu.library.seed = seed
        found = kernel(*there)
        results += map(to_host, found if isinstance(found, tuple) else (found,))
    graph = kernel._program.plans.graph({n: describe(v, n) for n, v in zip(kernel.params, values)})
    for k, (result, (value, bound)) in enumerate(zip(made, evaluate(graph, values))):
        agrees(result, value, bound, graph.results[k].type.dtype, f"{text!r}, result {k}")
    assert all(a.tobytes() == b.tobytes() for a, b in zip(made, again))
    assert all(to_host(v).tobytes() == old.tobytes() for v, old in zip(there, before) if isinstance(old, np.ndarray))
    return [grid for _, grid in gpu.launches]


BYTES = whole(0, 255, 9, 20).astype(np.uint8)
MAPS = {
    "line": ("x * y + 1, x / y", {"x": normal(13, 37), "y": normal(13, 37)}),
    "reversed": ("x + y[::-1, ::-1]", {"x": normal(13, 37, dtype=HALF), "y": normal(13, 37, dtype=HALF)}),
    "turned": ("x.T + y", {"x": normal(131, 70, dtype=HALF), "y": normal(70, 131, dtype=HALF)}),
    "gathered": ("x[i] * 2", {"x": normal(33, 37), "i": whole(-33, 40, 11)}),
    "joined": ("concat((pad(x, 3, mode='reflect')[3:-3], y), axis=1)", {"x": normal(13, 37), "y": normal(13, 5)}),
    "random": ("normal(3, x) + x, uniform(4, x)", {"x": normal(13, 37)}),
    "integers": ("x ** y, x // y, x % y, x >> y", {"x": whole(-9, 9, 130), "y": whole(-3, 9, 130)}),
    "float8": ("unpack(z) + float32(float8_e4m3fn(x))", {"x": normal(9, 40), "z": BYTES}),
    "float64": ("sin(x * 1e9) + lgamma(x)", {"x": normal(129, dtype=np.float64)}),
    "bundle": (ROPE, rope(33, 5, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", MAPS)
def test_maps(name):
    with exact_gpu(multiprocessors=4) as gpu:
        assert len(check_twice(gpu, *MAPS[name])) == 2  # one launch, twice


def test_a_plan_that_stores_where_to_read():
    """What a call makes of a text whose kernels spill registers: whether an element is read is another kernel's."""
    text = (
        "p = x / sum(x, axis=0); d = diff(concat((p, p, x), 1), axis=0); m = max(d, axis=-1, keepdims=True);"
        "return d == m, sum(d, -1), softmax(d), argmax(d, -1), d * var(d, -1, keepdims=True)"
    )
    kernel, x = fd.kernel(text, fallback=False), normal(2, 3, dtype=np.float64)
    facts = [describe(x, "x")]
    plan = kernel._program.plans.plan(facts, extents_of(facts), ON_CUDA)
    assert kernel._program.plans.replan_after_spill(plan, facts, extents_of(facts))
    with exact_gpu(multiprocessors=4) as gpu:
        made = [to_host(result) for result in kernel(gpu.asarray(x))]
    for found, wanted in zip(made, kernel(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_scores_that_are_stored_beside_columns_that_are_folded_apart():
    x = normal(9, 5, dtype=np.float64)
    with exact_gpu(multiprocessors=4) as gpu:
        check_twice(gpu, "softmax(x @ x.mT) @ x, sum(x, -1), sum(x * x[:, ::-1], 0)", {"x": x})


def test_a_result_is_not_written_over_what_a_later_phase_loads():
    a, b = normal(2, 17, dtype=HALF), normal(2, 17, dtype=HALF)
    kernel = fd.kernel("layer_norm(a) * b, a * 2, min(a, axis=-1, keepdims=True) + b", fallback=False)
    wanted = kernel(a, b)
    with emulated_gpu(multiprocessors=4) as gpu:
        for place in range(3):
            there = gpu.asarray(b)
            made = kernel(gpu.asarray(a), there, out=tuple(there if k == place else None for k in range(3)))
            assert made[place] is there
            for x, value in zip(made, wanted):
                np.testing.assert_allclose(to_host(x).astype(float), value.astype(float), atol=4e-3)


def test_int64_wraps_where_a_comparison_could_take_it_not_to():
    x = np.array([2**63 - 1, -(2**63), 2**62, -1, 5])
    text = "x + 1 > x, x - y < x, fma(x, x, x) > x, ~x + 1 > ~x, x * y // y == x, sum(x) > x, cumsum(x) > x"
    with exact_gpu() as gpu:
        check_twice(gpu, text, {"x": x, "y": np.full(5, 4)})


@pytest.mark.parametrize(("dtype", "skip"), [(np.float32, 4), (HALF, 2), (np.int8, 3)])
def test_maps_of_arrays_that_are_not_aligned(dtype, skip):
    with exact_gpu() as gpu:
        check_twice(
            gpu, "x * y[1:] - x", {"x": whole(-5, 5, 1003, dtype=dtype), "y": whole(-5, 5, 1004, dtype=dtype)}, skip
        )


@pytest.mark.parametrize(
    ("dtype", "columns", "skip"),
    [(np.float32, 37, 0), (np.float32, 1003, 4), (HALF, 4097, 2), (BRAIN, 1000, 0), (np.float64, 515, 8)],
)
def test_rows(dtype, columns, skip):
    with emulated_gpu(tails=np.dtype(dtype).itemsize == 2) as gpu:
        check_twice(gpu, "softmax(x), argmax(x, axis=-1)", {"x": normal(3, columns, dtype=dtype)}, skip)


@pytest.mark.parametrize(
    ("dtype", "rows", "columns"), [(BRAIN, 5, 1000), (BRAIN, 9, 40), (HALF, 3, 4097), (BRAIN, 1, 20000), (HALF, 40, 16)]
)
def test_largest_and_least_magnitudes_of_16_bit_rows(dtype, rows, columns):
    x = normal(rows, columns, dtype=dtype)
    x[0, :3], x[-1, 5], x[-1, 6] = (-0.0, 0, -7), -np.inf, 3
    text = "max(abs(x), axis=-1), x / max(abs(x), axis=-1, keepdims=True), min(abs(x), axis=-1), sum(abs(x), -1)"
    with emulated_gpu() as gpu:
        check_twice(gpu, text, {"x": x})
        check_twice(gpu, "max(abs(x), axis=-1)", {"x": np.where(x == 3, np.nan, x).astype(dtype)})


SCALES = (1, -1, 0.37, -3e-3, 7 / 448, 1e30, 2.0**-120, 1e-39, 0.0, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_quotients_are_the_bytes_that_exact_ones_round_to(name):
    """Ties and what lies beside them, zeros of both signs, divisors that are negative, tiny, huge and no numbers."""
    kind, scales = getattr(ml_dtypes, name), np.float32(SCALES)[:, None]
    known = np.arange(256, dtype=np.uint8).view(kind).astype(np.float32)
    known = np.unique(known[np.isfinite(known)])
    ties = np.concatenate([known, (known[1:] + known[:-1]) / 2, [-0.0, 0.0, 460, 464, 470, 1e9, np.inf, np.nan]])
    with np.errstate(all="ignore"):
        x = ties * np.where(np.isfinite(scales) & (scales != 0), scales, 1)
        x = np.nextafter(x, RANDOM.choice([-9, 0, 9], ties.size))
        x = x.astype(np.float32)
        wanted = (x / scales).astype(kind)
    rows = np.zeros_like(x)
    rows[:, :1] = scales
    kernel = fd.kernel(f"{name}(x / sum(where(x > 1, s, s + 0.0), -1, keepdims=True))", fallback=False)
    assert ("div_for_fp8" in kernel.source(x, rows, device="cuda")) == (name == "float8_e4m3fn")
    with emulated_gpu() as gpu:
        made = to_host(kernel(gpu.asarray(x), gpu.asarray(rows))).view(kind)
    missing = np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(made.astype(np.float32)), missing)
    np.testing.assert_array_equal(made.view(np.uint8)[~missing], wanted.view(np.uint8)[~missing])


def test_random_numbers_of_rows_whose_vectors_begin_before_the_first():
    with exact_gpu() as gpu:
        check_twice(gpu, "sum(uniform(1, x)*x, -1), sort(uniform(1, x) + x)", {"x": normal(2, 3, dtype=np.float64)}, 8)


LINES = (
    *(("sum(x, -1)", (5, 100), np.float32), ("sum(x, -1)", (2, 2052), np.float32), ("sum(x, -1)", (1, 333), BRAIN)),
    *(("max(x, axis=-1)", (3, 1003), BRAIN), ("softmax(x)", (37, 11), BRAIN), ("softmax(x)", (9, 131), BRAIN)),
    *(("softmax(x)", (9, 79), np.float32), ("rms_norm(x, x[0])", (9, 33), np.float32)),
    *(("sum(x * x[:, ::-1], -1)", (2, 131), np.float32), ("reshape(softmax(x).T, (-1,))", (5, 79), np.float32)),
    *(("sum(x[1:])", (3,), BRAIN), ("sum(x[1:])", (3,), np.float32)),  # less than a vector
)


@pytest.mark.parametrize(("text", "shape", "dtype"), LINES)
def test_rows_on_lines_of_as_many_threads_as_they_take(text, shape, dtype):
    """Of rows that are not aligned no byte before or after them is read."""
    assert "dynamic=True" in fd.kernel(text).source(fd.spec(shape, np.dtype(dtype).name), device="cuda")
    with exact_gpu() as gpu:
        grid = check_twice(gpu, text, {"x": normal(*shape, dtype=dtype)})[0]
    assert grid.blocks * grid.lines >= shape[0]


@pytest.mark.parametrize("shape", [(300, 70), (3, 1200, 6)])
def test_columns_on_as_many_lanes_and_levels_as_they_take(shape):
    with exact_gpu(multiprocessors=4) as gpu:
        grid = check_twice(gpu, "sum(x, -2), argmin(x, -2)", {"x": normal(*shape)})[0]
    assert grid.lines > 1 and grid.side >= min(shape[-1], 16) // 4


@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_rows_of_16_bits_with_tiny_infinite_and_missing_results(dtype):
    x = normal(6, 1000) * 20
    x[0, 3], x[1, 5], x[2, 7], x[3] = -np.inf, np.inf, np.nan, -np.inf
    with exact_gpu() as gpu:
        check_twice(gpu, "softmax(x), max(x, axis=-1), min(x, axis=-1), logsumexp(x, axis=-1)", {"x": x.astype(dtype)})


def test_rows_of_16_bits_that_are_not_aligned_read_whole_blocks_alone():
    """The one read beyond an array: the rest of the aligned 16 bytes in which its last row ends."""
    x = normal(3, 1025, dtype=HALF)
    with (
        exact_gpu() as gpu,
        pytest.raises(Fault, match=r"reads 16 bytes at byte 6\d\d\d of an alloc.* 6150"),
    ):
        fd.kernel("softmax(x)")(gpu.asarray(x))


def test_short_rows_of_16_bits_read_whole_blocks_too():
    x, y = whole(-2, 2, 9, 2, dtype=np.int16), whole(-9, 9, 2, 2, dtype=np.uint32)
    with emulated_gpu() as gpu:
        check_twice(gpu, "sum(x, axis=1, keepdims=True), y[x, x]", {"x": x, "y": y})


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("softmax(x)", (3, 70001), np.float32),
        ("layer_norm(x)", (2, 70003), BRAIN),
        ("rms_norm(x, x[0])", (2, 60003), np.float32),
    ],
)
def test_rows_of_a_cluster(text, shape, dtype):
    with exact_gpu(multiprocessors=4) as gpu:
        assert check_twice(gpu, text, {"x": normal(*shape, dtype=dtype)})[0].cluster > 1


def test_rows_of_a_cluster_whose_last_phase_computes_again(monkeypatch):
    monkeypatch.setattr(cluster, "REMAT_FROM", 1 << 15)
    with exact_gpu(multiprocessors=4) as gpu:
        check_twice(gpu, "softmax(x)", {"x": normal(2, 1 << 16, dtype=BRAIN)})
    source = fd.kernel("softmax(x)").source(fd.spec((4096, 1 << 16), "bfloat16"), device="cuda")
    assert "exp_for_sum(" in source and "exp_for_half(" in source and "piece_1 = " in source


def test_rows_of_clusters_that_stay():
    """Teams have unequal numbers of rows; of each next row a part is copied while one is worked on."""
    x, w, b = normal(9, 65532), normal(65532), normal(65532)
    with exact_gpu(multiprocessors=4) as gpu:
        grid = check_twice(gpu, "layer_norm(x, w, b)", {"x": x, "w": w, "b": b})[0]
    assert (grid.blocks, grid.cluster) == (4, 4) and grid.shared > 128 << 10


LOSS = "logsumexp(x, -1) - take_along_axis(x, y[:, None], -1)[:, 0], argmax(x, -1)"


@pytest.mark.parametrize(("dtype", "columns", "skip"), [(BRAIN, 12291, 2), (BRAIN, 12288, 0), (np.float32, 12289, 0)])
def test_rows_that_are_streamed(dtype, columns, skip):
    """A tile is loaded while the one before it is worked on; the label's element is read before the first."""
    with emulated_gpu(tails=np.dtype(dtype).itemsize == 2, multiprocessors=1) as gpu:
        check_twice(gpu, LOSS, {"x": normal(5, columns, dtype=dtype), "y": whole(0, columns, 5)}, skip)


def test_positions_beside_row_values_of_any_size():
    orders = ("==", "!=", "<", "<=", ">", ">=")
    sums = [
        " + ".join(f"where({form.format(o)}, {2**n}, 0)" for n, o in enumerate(orders)) for form in ("p {} k", "k {} p")
    ]
    y = np.array([-(2**63), -(2**40), -1, 0, 3, 69, 70, 2**31 - 1, 2**32 + 3, 2**63 - 1])
    text = f"p = iota(x, -1); k = y[:, None]; m = max(x, axis=-1, keepdims=True); {sums[0]} + m, {sums[1]} - m"
    with exact_gpu() as gpu:
        check_twice(gpu, text, {"x": whole(-9, 9, len(y), 70, dtype=np.float32), "y": y})


def test_long_sums_for_16_bits_of_exponentials_and_logarithms():
    x, y = normal(5, 12288, dtype=BRAIN) * 4 - 6, normal(5, 12288, dtype=BRAIN)
    x[0, 5], x[1, 7], y[1, 7], x[2, 9], y[2, 9] = -100, -95, -95, np.inf, np.nan
    with exact_gpu(multiprocessors=1) as gpu:
        check_twice(gpu, "sum(exp(x)*(x - log(exp(x) + exp(y))), -1), sum(exp(y)*x, -1)", {"x": x, "y": y})


def test_long_rows_that_are_looped_over_forwards_and_backwards():
    with exact_gpu(multiprocessors=1) as gpu:
        grid = check_twice(gpu, "softmax(x[:, ::2])", {"x": normal(3, 280001)})[0]
    assert grid.cluster == 1 and not grid.shared


@pytest.mark.parametrize("text", ["sum(x), argmax(x)", "x / sqrt(sum(x * x))"])
def test_rows_of_many_blocks(text):
    with exact_gpu(multiprocessors=4) as gpu:
        assert check_twice(gpu, text, {"x": normal(301, 401)})[0].blocks > 1


def test_variances_of_columns_whose_first_elements_tell_nothing():
    """Tiles are measured from the mean of others: here of zeros, of one that is far off, of infinity."""
    x = normal(2200, 6) + 3000
    x[:90, 1], x[0, 2], x[0, 3], x[2100, 4], x[:, 5] = 0, 1e6, np.inf, np.nan, 7
    with exact_gpu(multiprocessors=2) as gpu:
        check_twice(gpu, "var(x, axis=0), mean(x, axis=0)", {"x": x})


@pytest.mark.parametrize(
    ("text", "shape", "cooperative"),
    [
        ("sum(x, axis=0), argmin(x, axis=0)", (3000, 33), False),
        ("softmax(x, axis=0)", (400, 35), False),
        ("x - mean(x, axis=0)", (5000, 33), True),
        ("sum(x, axis=(0, 2))", (17, 5, 30), False),
    ],
)
def test_columns(text, shape, cooperative):
    with exact_gpu(multiprocessors=4) as gpu:
        assert check_twice(gpu, text, {"x": normal(*shape)})[0].cooperative == cooperative


def test_what_columns_share_is_stored_in_each_of_their_rows():
    """One vector stood where there is one for each of a thread's rows."""
    with exact_gpu() as gpu:
        check_twice(gpu, "t = broadcast_to(x, (2, 5)); t / (sum(t, 0, keepdims=True) + 9)", {"x": normal(5)})


def test_columns_whose_loops_load_nothing():
    """What a thread has of its column is read before; of a loop's functions its folds alone differ at the end."""
    given = {"a": whole(0, 2, 2, 7, dtype=bool), "e": normal(2, 7), "b": np.ones((1, 1), np.int32)}
    text = (
        "t = sum(float32(a), axis=(-1, -2), keepdims=True); p = softmax(fma(stack((e, float32(a))), 0, 1e-3), axis=0)"
    )
    with exact_gpu() as gpu:
        check_twice(gpu, f"{text}; return softmax(a, axis=-2), (arccosh(abs(p) + 1) >= pi) ^ (e > t / t), b", given)


def test_what_columns_have_once_is_stored_as_it_was_read():
    """It was loaded only where a fold took it."""
    with exact_gpu() as gpu:
        check_twice(gpu, "softmax(x @ x.mT) @ x, +x", {"x": normal(3, 70)})


def test_tiny_numbers_keep_their_bits_where_they_are_rounded_to_bfloat16():
    """A single number's conversion may flush them, as an H200's does."""
    x = whole(1, 1 << 23, 301, dtype=np.uint32).view(np.float32)
    with exact_gpu() as gpu:
        check_twice(gpu, "y = bfloat16(x); y, y * float32(2)", {"x": x})


def test_cooperating_blocks_take_row_after_row_where_single_blocks_come_to_few_waves(monkeypatch):
    text = "d = x - mean(x, (1, 3), keepdims=True); d * rsqrt(mean(d * d, (1, 3), keepdims=True) + 1e-5)"
    monkeypatch.setattr("fusedsl.backends.cuda.rows.cooperative.LEAST_MOVED", 0)
    with exact_gpu(multiprocessors=3, blocks=2, bandwidth=1e6, cc=(8, 0)) as gpu:  # sm_90 has clusters for it
        grids = check_twice(gpu, text, {"x": normal(1, 130, 7, 420)})
    assert grids[0].cooperative and grids[0].blocks == 6  # three for each of two rows, and in the end of one


MANY_COLUMNS = "sum(x, -1), sum(x, 0), argmin(x, axis=0), argmax(x, axis=0), argmin(x * x, axis=0), argmax(-x, axis=0)"


@pytest.mark.parametrize(
    ("text", "rows", "columns"),
    [(SOFTMAX, 37, 257), (RMS_NORM.format(dtype="bfloat16"), 9, 2048), (MANY_COLUMNS, 40, 7)],
)
def test_rows_and_columns_in_one_kernel(text, rows, columns):
    with exact_gpu(multiprocessors=4) as gpu:
        arrays = given(rows, columns, "float32" if columns < 300 else "bfloat16")
        grids = check_twice(gpu, text, {n: arrays[n] for n in fd.kernel(text).params})
        assert grids[0].cooperative and grids[0].blocks == 4


def test_what_rows_have_once_is_stored_as_it_was_read_beside_columns():
    """Values and positions that no element and no body takes were stored without having been read."""
    with exact_gpu(multiprocessors=4) as gpu:
        text = "t = argsort(a); t @ x, sum(x, -1), +a, iota(t, 0)"
        assert len(check_twice(gpu, text, {"x": normal(9, 70), "a": normal(9)})) == 4  # two kernels, twice


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("cumsum(x, 1)", (5, 1003), np.float32),
        ("cumsum(x)", (40003,), np.float32),
        ("cummax(x)", (30003,), np.float64),
        ("cumsum(x, 0)", (300, 21), HALF),
        ("linear_scan(tanh(x), x), linear_scan(0.9, x, reverse=True, initial=2)", (2, 70), np.float32),
        ("linear_scan(tanh(x), x)", (20003,), np.float32),
        ("linear_scan(tanh(x), x, reverse=True, exclusive=True)", (20003,), np.float64),
        ("linear_scan(tanh(x), x, axis=0)", (40, 21), HALF),
        ("logcumsumexp(x, exclusive=True)", (3, 70), np.float32),
        ("sum(sliding_window(x, 5), -1), max(sliding_window(x, 40), axis=-1)", (3, 103), np.float32),
    ],
)
def test_scans(text, shape, dtype):
    with exact_gpu(multiprocessors=4) as gpu:
        check_twice(gpu, text, {"x": normal(*shape, dtype=dtype)})


@pytest.mark.parametrize(
    ("text", "columns", "dtype"),
    [
        ("topk(x, 5)", 100, np.float32),
        ("argsort(x)", 1003, np.float32),
        ("topk(x, 50)", 5001, np.float32),
        ("sort(x)", 5001, np.float32),
        ("argsort(x)", 4096, np.float64),  # whole runs: there is none for what stands before a row
    ],
)
def test_orders(text, columns, dtype):
    with exact_gpu(multiprocessors=4) as gpu:
        check_twice(gpu, text, {"x": normal(2, columns, dtype=dtype).round(2)})


def test_lists_of_arrays():
    xs = [normal(*shape) for shape in ((5, 7), (1,), (300, 3), (33,))]
    with exact_gpu(multiprocessors=4) as gpu:
        made = fd.foreach("x * 2 + 1", [gpu.asarray(x) for x in xs])
        assert len(gpu.launches) < len(xs)
    for found, x in zip(made, xs):
        np.testing.assert_array_equal(found.get(), x * 2 + 1)


@pytest.mark.parametrize("cc", [(7, 5), (8, 0), (10, 0)])
def test_other_architectures(cc):
    with exact_gpu(cc, multiprocessors=4) as gpu:
        check_twice(gpu, "softmax(x)", {"x": normal(3, 1003)}, skip=4)
        check_twice(gpu, "sum(x, axis=0)", {"x": normal(2000, 64, dtype=HALF)})


def test_a_launch_of_more_blocks_than_there_are_is_refused():
    with exact_gpu() as gpu, pytest.raises(fd.LimitError, match="blocks"):
        fd.evaluate("broadcast_to(x, (2**41, 6))", x=gpu.asarray(normal(6)))


def test_arrays_of_the_host_go_there_and_back():
    x = normal(13, 37)
    with exact_gpu() as gpu, fd.options(device="cuda"):
        np.testing.assert_array_equal(fd.evaluate("x.T + 1", x=x), x.T + 1)
        assert gpu.launches
        assert fd.evaluate("2 * pi") == 2 * np.pi and fd.evaluate("x + 1", x=np.float32(1)) == 2  # numbers stay


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("x + 1", "f4"), ("x - sum(x)", "f4"), ("cumsum(x, axis=-1)", "f4"), ("softmax(x @ x.mT) @ x", "f4")]
    + [("softmax(x @ x.mT) @ x", "f2"), ("sum(x)", "f2"), ("x @ x.mT", "f4"), ("sort(x, axis=-1)", "i4")],
)
@pytest.mark.parametrize("home", ["the host", "the device"])
def test_a_thread_that_has_no_context_yet(text, dtype, home):
    """As any has that called neither CuPy nor torch before: nothing is asked of a context that is not there."""
    x = normal(200, 64, dtype=dtype)
    expected = fd.evaluate(text, x=x)
    with exact_gpu() as gpu:
        kernel = fd.kernel(text, device="cuda", fallback=False)
        there = x if home == "the host" else gpu.asarray(x)
        for given in ({}, {}, {"out": kernel(there)}):
            gpu.library.contexts[:] = [0]
            made = kernel(there, **given)
            np.testing.assert_allclose(made if home == "the host" else made.get(), expected, rtol=1e-4, atol=1e-4)


def test_what_a_row_has_fetched_its_elements_read():
    """The element's fetch of the same value took the row's name."""
    a, b, c = whole(0, 9, 2, dtype=np.uint64), whole(0, 9, 2, dtype=np.uint64), np.zeros(1, np.int64)
    text = "t = b[c]; u = cumsum(t[::-1])[::-1]; return all(b, axis=-1, keepdims=True, where=a != 0.5), u * a, t"
    with exact_gpu() as gpu:
        check_twice(gpu, text, {"a": a, "b": b, "c": c})


@pytest.mark.parametrize("text", ["nanmean(p), sum(4 * i), max(p)", "sum(i), mean(p), sum(v), argmin(p)"])
def test_places_of_an_order_that_several_folds_take(text):
    """Two sums had one name, and the rule of the second."""
    with exact_gpu(multiprocessors=4) as gpu:
        check_twice(gpu, f"v, i = topk(a, 7); p = i * b; return p, {text}", {"a": normal(15), "b": normal(1)})


def test_order_statistics():
    x = normal(4, 37)
    x[1, 5], x[2] = np.nan, np.nan
    with exact_gpu(multiprocessors=4) as gpu:
        check_twice(gpu, "median(x, 0), quantile(x, q, -1), nanquantile(x, [0.2, 0.7], axis=1)", {"x": x, "q": 0.3})
