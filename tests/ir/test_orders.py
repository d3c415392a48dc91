"""Sorting and the best k: NumPy's meaning on the interpreter, every target the same, one kernel where one is enough."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from oracle import call
from oracle import evaluate as interpreted
from test_targets import TARGETS, check

import fusedsl as fd

RANDOM = np.random.default_rng(12)
ROUTER = "p = softmax(z); v, i = topk(p, 4); return v / sum(v, -1, keepdims=True), int32(i)"
MASK = "p = softmax(z); v, i = topk(p, 4); where(p >= v[:, -1:], p, 0)"
PLAIN = ["topk(x, 3)", "sort(x)", "argsort(x)", "sort(x, descending=True), argsort(x, descending=True)", "topk(x, 1)"]
FUSED = [ROUTER, MASK, "v, i = topk(z, 3); max(v, axis=-1) - min(v, axis=-1), sum(i, axis=-1)", "sort(z * 2 + 1)"]
CUT = [
    "v, i = topk(z, 4); v * z[:, :4] + exp(v), i",
    "sort(z)[:, 0] + sort(z)[:, -1]",
    "a, b = topk(z, 3); c, d = topk(-z, 3); a - c",
    "cumsum(sort(z), -1)",
    "sum(sort(z) * 2, -1), sort(z)",
    "sort(z.T).T",
    "sort(x)[:, ::-1]",
    "sort(cumsum(z, -1))",
    "m = z - mean(z, -1, keepdims=True); m * rsqrt(sum(m * m, -1, keepdims=True)), topk(z + 1, 2)[1]",
]


def arrays(rows: int, columns: int, dtype: str = "float32") -> dict:
    """`x` with many ties and, in floats, NaN, -0.0 and infinities; `z` without."""
    z = RANDOM.standard_normal((rows, columns)).astype(np.float32)
    if np.dtype(dtype).kind == "f":
        x = (np.round(z * 4) / 2).astype(dtype)
        for value, share in ((np.nan, 0.05), (-0.0, 0.1), (np.inf, 0.03), (-np.inf, 0.03)):
            x[RANDOM.random(x.shape) < share] = value
    elif dtype == "bool":
        x = z > 0
    else:
        info = np.iinfo(dtype)
        x = np.where(z > 0, RANDOM.integers(info.min, info.max, z.shape, dtype, True), np.abs(z * 3)).astype(dtype)
    return {"x": x, "z": z}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", (*PLAIN, *FUSED, *CUT))
def test_orders_agree_with_the_interpreter(text, target):
    check(text, arrays(6, 37), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ("float16", "float64", "int8", "uint16", "int64", "uint64", "bool"))
def test_orders_of_any_dtype_are_exact(dtype, target):
    for text in PLAIN[:4]:
        check(text, arrays(4, 90, dtype), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(3, 4), (40, 5), (2, 128), (1, 1000), (3, 5001)])
def test_rows_of_any_length_are_ordered(shape, target):
    for text in (*PLAIN[:4], ROUTER, MASK):
        check(text, arrays(*shape), target)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ("float32", "float64", "int16"))
@pytest.mark.parametrize("shape", [(3, 20011), (2, 4097), (5, 4096), (1, 300000)])
def test_long_rows_are_ordered_on_a_gpu(shape, dtype):
    for text in (*PLAIN[:4], "topk(x, 50)", "topk(x, 700)", "topk(x, 3000)", MASK):
        check(text, arrays(*shape, dtype), TARGETS[-1].values[0])


@pytest.mark.gpu
@pytest.mark.parametrize("make", [np.sort, lambda x: -np.sort(-x), np.zeros_like, lambda x: np.full_like(x, np.nan)])
def test_rows_that_are_in_order_already_are_ordered_on_a_gpu(make):
    x = make(RANDOM.standard_normal((2, 30000)).astype(np.float32))
    for text in ("topk(x, 5)", "topk(x, 256)", "argsort(x)"):
        check(text, {"x": x}, TARGETS[-1].values[0])


ELEMENTS = st.one_of(st.floats(-3, 3, width=16), st.sampled_from([np.nan, 0.0, -0.0, np.inf, -np.inf]))


@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=8), elements=ELEMENTS))
@settings(max_examples=80, deadline=None)
def test_the_interpreter_sorts_as_numpy(x):
    order = np.argsort(x, axis=-1, kind="stable")
    np.testing.assert_array_equal(interpreted("argsort(x)", x=x), order)
    np.testing.assert_array_equal(interpreted("sort(x)", x=x), np.take_along_axis(x, order, -1))
    down, places = interpreted("sort(x, descending=True)", x=x), interpreted("argsort(x, descending=True)", x=x)
    np.testing.assert_array_equal(down, np.take_along_axis(x, places, -1))
    keys = np.where(np.isnan(x), np.inf, x), np.isnan(x)  # NaN above infinity
    for row, place in zip(np.stack(keys, -1).reshape(-1, x.shape[-1], 2), places.reshape(-1, x.shape[-1])):
        wanted = sorted(range(len(row)), key=lambda k, row=row: (-row[k][1], -row[k][0], k))
        assert list(place) == wanted
    k = (x.shape[-1] + 1) // 2
    values, indices = interpreted(f"topk(x, {k})", x=x)
    np.testing.assert_array_equal(indices, places[..., :k])
    np.testing.assert_array_equal(values, down[..., :k])


def test_a_router_and_a_mask_are_one_kernel():
    given = arrays(8, 64)
    for text in (ROUTER, MASK, "topk(x, 5)", "sort(x), argsort(x)", FUSED[2]):
        kernel = fd.kernel(text, max_kernels=1)
        kernel(**{name: given[name] for name in kernel.params})


def test_an_order_of_nothing_is_empty():
    x = np.zeros((0, 4), np.float32)
    assert fd.evaluate("topk(x, 2)", x=x)[1].shape == (0, 2)
    assert fd.evaluate("sort(x)", x=x.T).shape == (4, 0)
    with pytest.raises(fd.ShapeError, match="topk of 2"):
        fd.evaluate("topk(x, 2)", x=x.T)


def test_numpys_sorts_are_traced():
    x = RANDOM.standard_normal((3, 5)).astype(np.float32)
    for function in (
        np.sort,
        np.argsort,
        lambda x: np.sort(x, axis=None),
        lambda x: np.sort(x, 1),
        lambda x: np.argsort(x, axis=-1, kind="stable"),
        lambda x: x.argsort(),
    ):
        np.testing.assert_array_equal(call(function, x)[0], function(x))


def test_an_array_is_sorted_in_place():
    x = RANDOM.standard_normal((3, 5)).astype(np.float32)
    wanted = np.sort(x) * 2

    def function(x):
        x.sort()
        return x * 2

    result, (after,) = call(function, x)
    np.testing.assert_array_equal(result, wanted)
    np.testing.assert_array_equal(after * 2, wanted)


def test_out_may_be_what_is_sorted():
    x = arrays(5, 33)["z"]
    wanted = np.sort(x)
    kernel = fd.kernel("sort(x)")
    assert kernel(x, out=x) is x
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("cc", (80, 90))
@pytest.mark.parametrize(
    "text, shape, dtype",
    [
        ("p = softmax(x); v, i = topk(p, 8); return v / sum(v, -1, keepdims=True), int32(i)", (8192, 256), "float32"),
        ("p = softmax(x); v, i = topk(p, 50); where(p >= v[:, -1:], p, 0)", (256, 128256), "float32"),
        ("sort(x), argsort(x)", (100, 3001), "int8"),
        ("argsort(x, descending=True)", (3, 100001), "float64"),
        ("topk(x, 5)", (100, 37), "bfloat16"),
    ],
)
def test_orders_compile_for_cuda_and_spill_nothing(text, shape, dtype, cc):
    pytest.importorskip("numba_cuda")
    (kernel,) = fd.kernel(text).resources(fd.spec(shape, dtype), cc=cc)
    assert kernel.figures.spill_bytes == 0
    assert kernel.figures.blocks_per_sm >= 1


@pytest.mark.parametrize("dtype", ("int8", "bool", "bfloat16", "float32", "float64"))
@pytest.mark.parametrize("columns", (5, 31, 32, 100, 1000, 1025, 3001, 4096, 5000, 100_001))
def test_every_element_of_a_row_has_a_place_in_its_schedule(columns, dtype):
    from fusedsl.backends.cuda.sort.onesweep_schedule import RadixSortSchedule
    from fusedsl.report.explain import resolved_call

    for text in ("sort(x)", "topk(x, 3)", "argsort(x), sort(x)"):
        case = resolved_call(fd.kernel(text)._program, [fd.spec((7, columns), dtype)], "cuda", 90)
        for plan, bound in case.kernels:
            _, schedule = case.scheduled(plan, bound)
            if isinstance(schedule, RadixSortSchedule):
                assert text != "topk(x, 3)" and columns > 8192 and schedule.grid * schedule.tile >= columns
                continue
            rank = schedule.sort_method
            assert schedule.vectors >= 1
            if rank.method in ("digits", "merge"):
                assert schedule.tile_elements == rank.size
            if rank.method in ("digits", "network"):
                assert rank.size >= columns and schedule.tile_elements >= columns
            if rank.method == "rounds":
                assert schedule.tile_elements >= columns and rank.per_thread * schedule.threads >= 3
