"""Vector units: their width is measured, that of a BLAS is told, and products go to whoever takes less time."""

import importlib

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cpu import product_time
from fusedsl.backends.cpu.processor import host
from fusedsl.program.library_product import LibraryProduct
from fusedsl.report.explain import resolved_call
from fusedsl.runtime import vector_units
from fusedsl.runtime.blas_launch import numpy_has_blas


@pytest.fixture
def measured():
    """The module as it is loaded, which the fixture of all tests has pinned."""
    spec = importlib.util.find_spec("fusedsl.runtime.vector_units")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def decision(shape, dtype="float32", text="x @ w", **options):
    call = resolved_call(fd.kernel(text, **options)._program, [fd.spec(s, dtype) for s in shape], "cpu", None)
    return call.library_product(*call.launches[0][0])


@pytest.fixture
def narrow_blas(monkeypatch):
    monkeypatch.setattr(vector_units, "vector_unit_bytes", lambda: 64)


def test_the_width_is_that_of_registers_or_half_of_it(measured):
    registers = host().vectors.bytes
    assert measured.vector_unit_bytes() in ((32, 64) if registers == 64 else (registers,))


def test_sixteen_bytes_are_one_operation_as_eight_are(measured):
    """A multiply-add of an SSE register takes no longer than one of its half, on every x86-64 and aarch64."""
    assert measured._is_one_operation(16)


def test_a_vector_wider_than_any_register_is_several_operations(measured):
    assert not measured._is_one_operation(4 * host().vectors.bytes)


def test_a_blas_tells_its_vectors_or_nothing(measured):
    assert measured.blas_vector_bytes() in (None, 32, 64)


def test_rates_favour_our_kernel_where_blas_is_narrower():
    for units, blas in [(16, None), (32, None), (32, 32), (64, None), (64, 64), (32, 64)]:
        rates = product_time.product_rates(units, blas)
        assert rates.own.multiplication > rates.blas.multiplication
    rates = product_time.product_rates(64, 32)
    assert rates.own.multiplication < rates.blas.multiplication


@pytest.mark.skipif(not numpy_has_blas(), reason="this NumPy has no BLAS")
def test_our_kernel_computes_products_where_blas_is_narrower(narrow_blas):
    square = ((256, 256), (256, 256))
    assert "narrower" in decision(square)
    assert "narrower" in decision(square, "float64")
    assert "narrower" in decision(((8, 128, 64), (8, 64, 128)))
    assert isinstance(decision(square, matmul="library"), LibraryProduct)
    assert isinstance(decision(((1024, 4), (4, 1024)), text="x.T @ w.T"), LibraryProduct)  # columns that fill no tile


@pytest.mark.skipif(not numpy_has_blas(), reason="this NumPy has no BLAS")
def test_equal_vectors_leave_products_to_blas():
    assert isinstance(decision(((256, 256), (256, 256))), LibraryProduct)


@pytest.mark.parametrize("sides", [(300, 70, 40), (1300, 300, 20), (96, 2500, 33), (97, 257, 300)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_of_both_sizes_cover_the_result(narrow_blas, sides, dtype):
    rows, columns, terms = sides
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((rows, terms)).astype(dtype), rng.standard_normal((terms, columns)).astype(dtype)
    assert "narrower" in decision((x.shape, w.shape), dtype)
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(fd.evaluate("x @ w", x=x, w=w), x @ w, tolerance, tolerance)
