"""Products by warps, on CUDA cores and tensor cores: operands that lie anywhere, with everything around them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from test_cuda_emulated import check_twice, normal

import fusedsl as fd
from fusedsl.accuracy.bounds import evaluate
from fusedsl.accuracy.products import TF32
from fusedsl.backends.cuda.matmul import block_shapes, mma_schedule
from fusedsl.backends.cuda.matmul.tile_shapes import BlockShape
from fusedsl.program import operand_copies
from fusedsl.runtime.array_copies import to_host
from fusedsl.runtime.arrays import describe

pytest.importorskip("numba_cuda")
from bounds import agrees
from ptx import emulated_gpu

RANDOM = np.random.default_rng(5)

LAYOUTS = {
    "row-major": ("x @ w", {"x": (40, 50), "w": (50, 70)}),
    "column-major weights, several chains": ("x @ w.mT", {"x": (70, 530), "w": (66, 530)}),
    "column-major rows": ("x.mT @ w", {"x": (64, 40), "w": (64, 72)}),
    "every other row, backwards": ("x[::2, ::-1] @ w", {"x": (80, 24), "w": (24, 36)}),
    "a result that is turned": ("swapaxes(x @ w, 0, 1) + 1", {"x": (40, 64), "w": (64, 72)}),
    "batches that are broadcast": ("x @ w", {"x": (3, 1, 20, 24), "w": (5, 24, 18)}),
    "rows and columns of several axes": ("einsum('bsd,dhe->bhse', x, w)", {"x": (2, 20, 24), "w": (24, 3, 8)}),
    "columns of several odd axes": ("einsum('bsd,dhe->bhse', x, w)", {"x": (2, 20, 24), "w": (24, 3, 9)}),
}
EPILOGUES = {
    "bias, residual": ("gelu(x @ w + b) + r", {"x": (33, 37), "w": (37, 35), "b": (35,), "r": (33, 35)}),
    "a residual that is turned": ("x @ w + r.mT", {"x": (40, 24), "w": (24, 36), "r": (36, 40)}),
    "a value of each row": ("x @ w * c[:, None]", {"x": (40, 24), "w": (24, 36), "c": (40,)}),
    "rows and columns by number": (
        "where(arange(40)[:, None] <= arange(36), x @ w, -inf)",
        {"x": (40, 24), "w": (24, 36)},
    ),
    "several results": ("(bfloat16(x @ w), (x @ w) > 0, int8(clip(x @ w, -9, 9)))", {"x": (40, 24), "w": (24, 36)}),
    "products of one x": ("silu(x @ g) * (x @ u)", {"x": (40, 64), "g": (64, 80), "u": (64, 80)}),
    "products of several": ("x @ x.mT + x @ y", {"x": (40, 40), "y": (40, 40)}),
}
ALIGNED = {
    "row-major": ("x @ w", {"x": (40, 64), "w": (64, 72)}),
    "column-major weights": ("x @ w.mT", {"x": (40, 136), "w": (72, 136)}),
    "column-major rows": ("x.mT @ w", {"x": (64, 40), "w": (64, 72)}),
    "both column-major": ("x.mT @ w.mT", {"x": (64, 40), "w": (72, 64)}),
    "a row-major and a column-major product": (
        "silu(x @ g) * (x @ u.mT)",
        {"x": (40, 64), "g": (64, 80), "u": (80, 64)},
    ),
}
TILES = [
    *(("float32", "FMA_SHAPES", one) for one in block_shapes.FMA_SHAPES),
    *(("bfloat16", "MMA_SHAPES", one) for one in block_shapes.MMA_SHAPES),
    *(("float64", "DOUBLE_SHAPES", one) for one in block_shapes.DOUBLE_SHAPES),
]
BRAIN = ml_dtypes.bfloat16


def tile_id(value):
    return f"{value.rows}x{value.columns} by {value.warps}" if isinstance(value, BlockShape) else str(value)[:8]


def arrays(shapes, dtype=np.float32):
    return {name: normal(*shape, dtype=dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize("case", [*LAYOUTS, *EPILOGUES])
def test_values(case):
    text, shapes = (LAYOUTS | EPILOGUES)[case]
    with emulated_gpu(cc=(8, 0)) as gpu:
        check_twice(gpu, text, arrays(shapes))


@pytest.mark.parametrize("dtype", [BRAIN, np.float16])
@pytest.mark.parametrize("case", [*ALIGNED, *LAYOUTS, *EPILOGUES])
def test_values_on_tensor_cores(case, dtype):
    """Aligned operands by cp.async, others by registers."""
    text, shapes = (ALIGNED | LAYOUTS | EPILOGUES)[case]
    with emulated_gpu(cc=(8, 0)) as gpu:
        check_twice(gpu, text, arrays(shapes, dtype))


@pytest.fixture
def only(monkeypatch):
    """One shape of tiles alone."""

    def choose(name, shape):
        monkeypatch.setattr(block_shapes, name, (shape,))

    return choose


@pytest.mark.parametrize("dtype, name, shape", TILES, ids=tile_id)
def test_every_tile_shape(dtype, name, shape, only):
    only(name, shape)
    with emulated_gpu(cc=(9, 0)) as gpu:
        check_twice(
            gpu, "x @ w", arrays({"x": (140, 72), "w": (72, 168)}, ml_dtypes.bfloat16 if "b" in dtype else dtype)
        )


@pytest.mark.parametrize("cc", [(8, 0), (9, 0)])
@pytest.mark.parametrize("case", [*ALIGNED, "every other row, backwards", "bias, residual"])
def test_float64_on_tensor_cores(case, cc):
    text, shapes = (ALIGNED | LAYOUTS | EPILOGUES)[case]
    with emulated_gpu(cc=cc) as gpu:
        check_twice(gpu, text, arrays(shapes, np.float64))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize(
    "text", ["int32(x) @ int32(w.mT)", "int32(x.mT) @ int32(w) * 2", "float32(int32(x) @ int32(w))"]
)
def test_bytes_on_tensor_cores(text, dtype):
    shape = {"x": (36, 144), "w": (40, 144)} if text.endswith("w.mT)") else {"x": (144, 144), "w": (144, 144)}
    limits = np.iinfo(dtype)
    given = {name: RANDOM.integers(limits.min, limits.max, s, dtype, endpoint=True) for name, s in shape.items()}
    with emulated_gpu(cc=(8, 0)) as gpu:
        check_twice(gpu, text, given)
    source = fd.kernel(text).source(*(fd.spec(x.shape, dtype) for x in given.values()), device="cuda", cc=80)
    assert f'MmaTile("{np.dtype(dtype).name}", "int32"' in source


def run_in(mode, text, given):
    """(the results of float32 products in this mode, their exact values, and the bounds of exact products and of this
    mode)."""
    kernel = fd.kernel(text, matmul=mode)
    values = [given[name] for name in kernel.params]
    graph = kernel._program.plans.graph({name: describe(x, name) for name, x in zip(kernel.params, values)})
    with emulated_gpu(cc=(8, 0)) as gpu:
        found = to_host(kernel(*map(gpu.asarray, values)))
    ((value, exact),), ((_, bound),) = evaluate(graph, values), evaluate(graph, values, TF32[mode])
    agrees(found, value, bound, graph.results[0].type.dtype, text)
    return found, value, exact


@pytest.mark.parametrize("case", [*ALIGNED, "every other row, backwards", "bias, residual"])
def test_tf32(case):
    """Within the bound of factors that are rounded to TF32, and farther off than float32 would be."""
    text, shapes = (ALIGNED | LAYOUTS | EPILOGUES)[case]
    found, value, exact = run_in("tf32", text, arrays(shapes))
    assert (np.abs(found - value) > exact).any()


@pytest.mark.parametrize("case", [*ALIGNED, "every other row, backwards", "bias, residual"])
def test_3xtf32(case):
    text, shapes = (ALIGNED | LAYOUTS | EPILOGUES)[case]
    run_in("3xtf32", text, arrays(shapes))


def test_3xtf32_of_infinities_nan_and_the_largest_numbers():
    """What is left of an infinity is NaN, and some of the largest numbers are infinite in TF32: sums are mended."""
    given = arrays({"x": (40, 64), "w": (64, 72)})
    given["x"][3, 5], given["x"][7, 1], given["x"][8], given["w"][9, 9] = np.inf, np.nan, 0, -np.inf
    given["x"][8, 2], given["w"][2] = np.finfo(np.float32).max, 0.25
    found, value, _ = run_in("3xtf32", "x @ w", given)
    assert np.array_equal(np.isnan(found), np.isnan(value)) and np.isfinite(found[8, 0])


def test_chains_on_tensor_cores(monkeypatch):
    monkeypatch.setattr(mma_schedule, "MMA_CHAIN", 128)
    with emulated_gpu(cc=(9, 0)) as gpu:
        check_twice(gpu, "x @ w", arrays({"x": (40, 300), "w": (300, 72)}, BRAIN))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, BRAIN, np.float64])
@pytest.mark.parametrize("chain", [64, 256])
def test_steps_that_are_split_over_blocks(dtype, chain, monkeypatch):
    """Few tiles of many steps: the same bits, whichever block arrives last."""
    monkeypatch.setattr(mma_schedule, "SPLIT_CLOCKS", 0)
    monkeypatch.setattr(mma_schedule, "LEAST_SPLIT", 64)
    monkeypatch.setattr(mma_schedule, "CHAIN", chain)
    monkeypatch.setattr(mma_schedule, "MMA_CHAIN", chain)
    monkeypatch.setattr(block_shapes, "MMA_SHAPES", block_shapes.MMA_SHAPES[-3:])
    for text in ("x @ w + 1", "silu(x @ w) * (x @ u)"):
        given = arrays({"x": (100, 528), "w": (528, 104), "u": (528, 104)}, dtype)
        kernel = fd.kernel(text)
        source = kernel.source(*(fd.spec(given[n].shape, given[n].dtype) for n in kernel.params), device="cuda", cc=80)
        assert "is_last_block" in source
        with emulated_gpu(cc=(8, 0)) as gpu:
            check_twice(gpu, text, {name: given[name] for name in kernel.params})


@pytest.mark.parametrize("dtype", [np.float32, BRAIN, np.float64])
def test_general_products_serve_many_extents(dtype):
    """Those of ragged arrays share one binary, and arrays of lines at multiples of 16 bytes have their own."""
    kernel, sources = fd.kernel("gelu(x @ w + b)", dynamic=True), set()
    for rows, steps, columns in ((40, 37, 50), (40, 64, 61), (37, 71, 40)):
        given = arrays({"x": (rows, steps), "w": (steps, columns), "b": (columns,)}, dtype)
        with emulated_gpu(cc=(8, 0)) as gpu, fd.options(dynamic=True):
            check_twice(gpu, "gelu(x @ w + b)", given)
        specs = [fd.spec(given[n].shape, given[n].dtype) for n in kernel.params]
        sources.add(kernel.source(*specs, device="cuda", cc=80))
        assert "shape-generic" in kernel.explain(*specs, device="cuda", compile=False).kernels[0].schedule
    assert len(sources) == 1


def test_gathered_rows_are_added():
    given = arrays({"x": (40, 24), "w": (24, 36), "t": (9, 36)}) | {"i": RANDOM.integers(0, 9, 40)}
    with emulated_gpu() as gpu:
        check_twice(gpu, "x @ w + take(t, i, 0)", given)


@pytest.mark.parametrize("cc", [80, 86, 90, 120])
@pytest.mark.parametrize("dtype, name, shape", TILES, ids=tile_id)
def test_nothing_spills(dtype, name, shape, cc, only):
    only(name, shape)
    x = fd.spec((4096, 4096), dtype)
    kernel = fd.kernel("gelu(x @ w.mT + b)")
    assert all(one.figures.spill_bytes == 0 for one in kernel.resources(x, x, fd.spec((4096,), dtype), cc=cc))


@pytest.fixture
def uncopied(monkeypatch):
    """Products multiply arguments as they lie."""
    monkeypatch.setattr(operand_copies, "WORTH", 0.0)


@pytest.mark.parametrize("cc", [80, 90, 120])
def test_ragged_products_do_not_spill(cc, uncopied):
    """Threads hold single elements of both operands between their loads and their stores to shared memory."""
    x, w = fd.spec((4097, 4097), "bfloat16"), fd.spec((4097, 4099), "bfloat16")
    assert all(one.figures.spill_bytes == 0 for one in fd.kernel("x @ w").resources(x, w, cc=cc))


@pytest.mark.parametrize("cc", [80, 90, 120])
@pytest.mark.parametrize("mode", ["tf32", "3xtf32"])
def test_tf32_does_not_spill(mode, cc):
    x = fd.spec((4096, 4096), "float32")
    for text in ("x @ w", "x @ w.mT"):
        assert all(one.figures.spill_bytes == 0 for one in fd.kernel(text, matmul=mode).resources(x, x, cc=cc))


@pytest.mark.parametrize("text", ["x @ w", "x.mT @ w.mT"])
@pytest.mark.parametrize("pitch", [4096, 4095])
def test_16_bits_are_multiplied_on_tensor_cores(text, pitch, uncopied):
    """Whether rows begin at multiples of 16 bytes or not."""
    kernel = fd.kernel(text)
    given = [fd.spec((pitch, pitch), "bfloat16")] * 2
    source = kernel.source(*given, device="cuda", cc=80)
    assert 'MmaTile("bfloat16"' in source and ("through_registers=True" in source) == (pitch == 4095)
