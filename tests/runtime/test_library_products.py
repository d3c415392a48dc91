"""Products by the BLAS of NumPy: the right values for every layout, dtype and batch, and ours elsewhere."""

import itertools
import threading

import numpy as np
import pytest
from product_layouts import SHAPES, layouts

import fusedsl as fd
from fusedsl.program.library_product import LibraryProduct
from fusedsl.report.explain import resolved_call
from fusedsl.runtime import stored_calls
from fusedsl.runtime.blas_launch import BlasLaunch, numpy_has_blas

pytestmark = pytest.mark.skipif(not numpy_has_blas(), reason="this NumPy has no BLAS")
PRODUCT = fd.kernel("x @ w", matmul="library")


def decision(text, *values, **options):
    """The library product of the only launch of a text, or the reason why it is ours."""
    case = resolved_call(fd.kernel(text, **options)._program, values, "cpu", None)
    ((plan, bound),) = case.launches[0]
    return case.library_product(plan, bound)


def outputs(shape, dtype):
    """Places for a result of this shape."""
    yield np.empty(shape, dtype)
    yield np.empty((*shape[:-2], shape[-1], shape[-2]), dtype).swapaxes(-1, -2)
    yield np.empty((*shape[:-1], shape[-1] + 2), dtype)[..., 1:-1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_every_layout_that_blas_takes_is_right(left, right, dtype):
    rng, tolerance = np.random.default_rng(1), 1e-4 if dtype == "float32" else 1e-12
    taken = 0
    for x, w in itertools.product(layouts(left, dtype, rng), layouts(right, dtype, rng)):
        expected = x.astype("f8") @ w.astype("f8")
        for out in outputs(expected.shape, dtype):
            case = resolved_call(PRODUCT._program, [x, w], "cpu", None)
            if not case.is_by_library(case.launches[0]):
                continue
            out[...] = np.nan
            assert PRODUCT(x, w, out=out) is out
            np.testing.assert_allclose(out, expected, tolerance, tolerance)
            taken += 1
    assert taken >= 40 or 1 in left + right  # a vector's product is a fold of rows


def test_a_warm_call_has_the_bits_of_numpy():
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((64, 320)).astype("f4"), rng.standard_normal((320, 48)).astype("f4")
    product, out = fd.kernel("x @ w"), np.empty((64, 48), "f4")
    for _ in range(4):
        assert np.array_equal(product(x, w), x @ w)
        assert np.array_equal(product(x, w, out=out), x @ w)
        x = x + 1


def test_nan_and_infinity_are_those_of_numpy_without_a_warning(recwarn):
    x, w = np.ones((64, 64), "f4"), np.ones((64, 64), "f4")
    x[3, 4], x[5, 6], w[7, 8], w[6, 9] = np.nan, np.inf, -np.inf, 0
    for _ in range(3):
        result = PRODUCT(x, w)
        stacked = PRODUCT(np.stack([x, x]), w)
    assert not recwarn.list
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(result, x @ w)
        np.testing.assert_array_equal(stacked[1], x @ w)


def test_threads_compute_at_once():
    rng = np.random.default_rng(3)
    product = fd.kernel("x @ w")
    pairs = [(rng.standard_normal((80, 80)), rng.standard_normal((80, 80))) for _ in range(4)]
    product(*pairs[0])
    wrong = []

    def work(x, w):
        expected = x @ w
        wrong.extend(k for k in range(300) if not np.array_equal(product(x, w), expected))

    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_a_batch_of_small_products_has_the_same_bits_on_any_number_of_threads():
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((999, 20, 30)).astype("f4"), rng.standard_normal((999, 30, 20)).astype("f4")
    before, results = fd.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            fd.set_num_threads(threads)
            results.append(PRODUCT(x, w))
    finally:
        fd.set_num_threads(before)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
    assert np.array_equal(results[0], x @ w)


def test_pieces_of_a_long_product_cover_it(monkeypatch):
    from fusedsl.runtime import blas_launch

    monkeypatch.setattr(blas_launch, "PIECE", 3000)
    monkeypatch.setattr(blas_launch, "SERIAL", 500)
    rng = np.random.default_rng(5)
    for left, right in [((40, 20), (20, 30)), ((7, 10, 10), (10, 10)), ((7, 5, 5), (5, 5)), ((2, 3, 40, 20), (20, 30))]:
        x, w = rng.standard_normal(left), rng.standard_normal(right)
        case = resolved_call(PRODUCT._program, [x, w], "cpu", None)
        product = case.library_product(*case.launches[0][0]).gemm
        views = (*x.shape[:-2], 1)[:-1] if product.batch else ()
        out = np.empty((*views, product.rows.extent, product.columns.extent))
        a = x.reshape(*views, -1, x.shape[-1])
        blas_launch._pieces(product)(a, np.broadcast_to(w, (*views, *w.shape[-2:])), out)
        np.testing.assert_allclose(out.reshape(-1), (x @ w).reshape(-1))


def test_arrays_between_kernels_are_factors_and_results():
    rng = np.random.default_rng(6)
    x = rng.standard_normal((3, 64, 64))
    result = fd.kernel("x[::2] @ x[1].mT", matmul="library")(x)
    np.testing.assert_allclose(result, x[::2] @ x[1].T)
    both = fd.kernel("return x @ y, y @ x", matmul="library")(x[0], x[1])
    np.testing.assert_allclose(both[1], x[1] @ x[0])
    symmetric = fd.kernel("x @ x.mT", matmul="library")(x[0])
    np.testing.assert_array_equal(symmetric, symmetric.T)


def test_bound_calls_and_lists_use_the_library():
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((64, 64)), rng.standard_normal((64, 64))
    bound = fd.kernel("x @ w").bind(x, w)
    assert np.array_equal(bound(), x @ w)
    x += 1
    assert np.array_equal(bound(), x @ w)
    for result, one in zip(fd.foreach("x @ w", [x, w], w), [x, w]):
        assert np.array_equal(result, one @ w)


def test_the_decision_has_a_reason():
    s, large = fd.spec, (fd.spec((512, 512)), fd.spec((512, 512)))
    assert isinstance(decision("x @ w", *large), LibraryProduct)
    assert "BLAS of NumPy" in str(fd.kernel("x @ w").explain(*large, device="cpu"))
    assert "numpy.matmul(x, w, out=result)" in fd.kernel("x @ w").source(*large, device="cpu")
    refused = {
        "so small": decision("x @ w", s((8, 8)), s((8, 8))),
        "other rows": decision("x @ w", *large, deterministic="batch"),
        "dtypes": decision("x @ w", s((512, 512), "float16"), s((512, 512), "float16")),
        "before it stores": decision("2 * (x @ w)", *large, max_kernels=1),
        "not one product": decision("x + w", *large),
    }
    for part, reason in refused.items():
        assert isinstance(reason, str), part
        assert part in reason
    assert isinstance(decision("x @ w", s((8, 8)), s((8, 8)), matmul="library"), LibraryProduct)


def test_another_process_loads_the_call(tmp_path, monkeypatch):
    monkeypatch.setenv("FUSEDSL_CACHE_DIR", str(tmp_path))
    x, w = np.ones((70, 80)), np.ones((80, 90))
    first = fd.kernel("(x @ w)", matmul="library")
    first(x, w)
    (call,) = first._program._calls.values()
    facts = stored_calls._launch_facts(call.records[0])
    loaded = stored_calls._loaded(facts, ("x", "w"), ("cpu", 0))
    assert isinstance(loaded, BlasLaunch)
    assert loaded.product == call.records[0].product
    assert loaded.layout.pointer_slots == call.records[0].layout.pointer_slots


def test_saved_files_have_kernels_of_ours(tmp_path):
    x, w = np.ones((70, 80), "f4"), np.ones((80, 90), "f4")
    fd.kernel("x @ w").save(tmp_path / "product.fused", x, w, cc="cpu")
    saved = fd.load(tmp_path / "product.fused")
    np.testing.assert_allclose(saved(x, w), x @ w)
    (call,) = saved._program._calls.values()
    assert not any(isinstance(record, BlasLaunch) for record in call.records)
