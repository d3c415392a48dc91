"""Kernels that reduce rows and columns in one reading: which programs they serve, their schedules, their results."""

import re
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from test_targets import TARGETS, as_torch, check, make

import fusedsl as fd
from fusedsl.errors import FusionError
from fusedsl.lru import LRU
from fusedsl.runtime import cache, compile

needs_compiler = pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")

LAYER_NORM = """
    xh = (x - mu) * rs
    wg = g * w
    dx = rs * (wg - mean(wg, -1, keepdims=True) - xh * mean(wg * xh, -1, keepdims=True))
    return astype(dx, {dtype}), sum(g * xh, 0), sum(g, 0)
"""
RECOMPUTED = """
    mu = mean(x, -1, keepdims=True)
    rs = rsqrt(mean((x - mu) ** 2, -1, keepdims=True) + 1e-5)
"""
RMS_NORM = """
    rs = rsqrt(mean(x * x, -1, keepdims=True) + 1e-6)
    xh = x * rs
    wg = g * w
    return astype(rs * (wg - xh * mean(wg * xh, -1, keepdims=True)), {dtype}), sum(g * xh, 0)
"""
SOFTMAX = "d = x * (g - sum(x * g, -1, keepdims=True)); return d, sum(d, 0)"
ONE_KERNEL = {
    "layer norm": LAYER_NORM.format(dtype="float32"),
    "layer norm, statistics computed": RECOMPUTED + LAYER_NORM.format(dtype="float32"),
    "layer norm, columns first": LAYER_NORM.replace("return astype(dx, {dtype}), ", "return ").rstrip() + ", dx",
    "rms norm": RMS_NORM.format(dtype="float32"),
    "softmax and bias": SOFTMAX,
    "beside a store": "p = softmax(x); return p, sum(p, 0), mean(p, 0)",
    "many kinds": "max(x, axis=-1), sum(x, 0), max(x, axis=0), argmin(x, axis=0), any(x > 2, axis=0), prod(sign(x), 0)",
    "finished in the kernel": "p = softmax(x); return max(p, axis=-1), sqrt(mean(p * p, 0)) * w + iota(w, 0)",
    "rows that are counted": "s = sum(x, -1, keepdims=True); return argmax(x * s, axis=0), sum(x * iota(x, 0), 0), s",
}


def given(rows, columns, dtype="float32"):
    """The arrays of all texts; statistics are float32."""
    shape = (rows, columns) if isinstance(rows, int) else (*rows, columns)
    x = make(shape, dtype)
    wide = x.astype(np.float32)
    mu = wide.mean(-1, keepdims=True)
    rs = 1 / np.sqrt(wide.var(-1, keepdims=True) + 1e-3)
    return {"x": x, "g": make(shape, dtype), "w": make((columns,), dtype), "mu": mu, "rs": rs.astype(np.float32)}


def specs(text, rows, columns, dtype="float32"):
    shape = (rows, columns) if isinstance(rows, int) else (*rows, columns)
    arrays = {"x": fd.spec(shape, dtype), "g": fd.spec(shape, dtype), "w": fd.spec(columns, dtype)}
    arrays |= {name: fd.spec((*shape[:-1], 1), "float32") for name in ("mu", "rs")}
    return {name: arrays[name] for name in fd.kernel(text).params}


def explained(text, rows, columns, dtype="float32", **more):
    return fd.kernel(text).explain(**specs(text, rows, columns, dtype), **{"compile": False, **more})


# -- which programs


@pytest.mark.parametrize("text", ONE_KERNEL.values(), ids=ONE_KERNEL)
@pytest.mark.parametrize("where", [{"device": "cpu"}, {"cc": 90}], ids=["cpu", "cuda"])
def test_one_kernel_reads_its_inputs_once(text, where):
    told = explained(text, 4096, 1024, **where)
    (kernel,) = told.kernels
    assert all(access.passes == 1 for access in kernel.reads)
    assert not told.temporaries


def test_the_reasons_say_what_joined():
    told = explained(ONE_KERNEL["layer norm"], 4096, 1024, cc=90)
    assert "sum_4 over all rows of g" in told.kernels[0].members
    assert "loop over the rows" in told.kernels[0].schedule


@pytest.mark.parametrize(
    ("text", "kernels"),
    [
        ("p = softmax(x, 0); return p, sum(x, 1)", 2),  # elements need the fold over rows
        ("x - mean(x, 0) - mean(x, 1, keepdims=True)", 2),
        ("s = sum(softmax(x), 0); return s / sum(s)", 2),  # a fold of what the columns come to
        ("sum(x, -1), sum(x, 0), sum(x)", 2),
    ],
)
def test_what_needs_the_columns_first_is_another_kernel(text, kernels):
    assert len(explained(text, 64, 100, device="cpu").kernels) == kernels


def test_rows_too_long_for_a_multiprocessor_are_folded_apart():
    text = ONE_KERNEL["layer norm"]
    told = explained(text, 4096, 32768, cc=90)
    assert len(told.kernels) == 2
    assert any("do not stay on the chip beside the column states" in refusal.reason for refusal in told.refused)
    kernel = fd.kernel(text, max_kernels=1)
    assert len(kernel.explain(**specs(text, 4096, 4096), cc=90, compile=False).kernels) == 1
    with pytest.raises(FusionError):
        kernel.explain(**specs(text, 4096, 32768), cc=90, compile=False)


@pytest.mark.parametrize("turned", ["x", "g", "both"])
def test_columns_that_are_no_neighbours_are_folded_apart(turned):
    arrays = given(64, 96)
    for name in ("x", "g") if turned == "both" else (turned,):
        arrays[name] = np.asfortranarray(arrays[name])
    kernel = fd.kernel(ONE_KERNEL["layer norm"])
    values = [arrays[name] for name in kernel.params]
    assert len(kernel.explain(*values, cc=90, compile=False).kernels) == 2
    assert len(kernel.explain(*values, compile=False).kernels) == 1  # on this CPU


# -- what they compute


SHAPES = [(1, 64), (2, 1), (37, 100), (300, 1000), (5000, 7), (3, 4097), (1100, 33)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_results_agree_with_the_interpreter(rows, columns, target):
    arrays = given(rows, columns)
    for text in ONE_KERNEL.values():
        check(text, arrays, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize(("rows", "columns"), [(70, 256), (9, 101)])
def test_other_dtypes(dtype, rows, columns, target):
    arrays = given(rows, columns, dtype)
    for text in (LAYER_NORM, RMS_NORM, SOFTMAX):
        check(text.format(dtype=dtype), arrays, target)


@pytest.mark.parametrize("target", TARGETS)
def test_leading_axes_are_reduced_together(target):
    text = ONE_KERNEL["layer norm"].replace(", 0)", ", (0, 1))")
    for shape in (((3, 5), 40), ((1, 7), 64), ((4, 1), 33)):
        check(text, given(*shape), target)
    with fd.options(dynamic=False):  # whatever was called before
        assert len(explained(text, (4, 512), 768, cc=90).kernels) == 1


@pytest.mark.parametrize("target", TARGETS)
def test_layouts(target):
    arrays = given(40, 64)
    for change in (
        np.asfortranarray,
        lambda x: x[::-1, ::-1],
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: np.concatenate([x.ravel()[:1], x.ravel()])[1:].reshape(x.shape),
    ):
        check(ONE_KERNEL["layer norm"], arrays | {"x": change(arrays["x"])}, target)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_to_fold(target):
    for rows, columns in ((0, 5), (4, 0)):
        check("sum(x, -1), sum(x, 0), any(x > 0, axis=0)", {"x": make((rows, columns))}, target)


def test_a_store_rounds_and_nothing_before_it():
    x = fd.spec((64, 1024), "bfloat16")
    alone = fd.kernel("astype(x * astype(2, float32), bfloat16)")
    assert "bfloat16_round" not in alone.source(x, cc=90)
    read_again = fd.kernel("y = astype(x * astype(2, float32), bfloat16); return y, sum(y, -1)")
    assert "bfloat16_round" in read_again.source(x, cc=90)


def test_results_may_be_written_over_inputs():
    arrays = given(50, 60)
    kernel = fd.kernel(ONE_KERNEL["layer norm"])
    expected = kernel(**{name: arrays[name] for name in kernel.params})
    dx = kernel(**{name: arrays[name] for name in kernel.params}, out=(arrays["x"], None, arrays["w"]))
    assert dx[0] is arrays["x"]
    for made, wanted in zip(dx, expected):
        np.testing.assert_array_equal(made, wanted)


def test_long_columns_do_not_drift():
    x = np.full((200_000, 3), 0.1, np.float32)
    _, total = fd.evaluate("max(x, axis=-1), sum(x, 0)", x=x)
    np.testing.assert_allclose(total, x.astype(np.float64).sum(0), rtol=1e-6)


# -- how they run on CUDA


@needs_compiler
@pytest.mark.parametrize("cc", [75, 80, 86, 90, 100, 120])
def test_every_architecture_compiles_without_spills(cc):
    for dtype, columns in (("bfloat16", 1024), ("float32", 768)):
        text = LAYER_NORM.format(dtype=dtype)
        (kernel,) = explained(text, 4096, columns, dtype, cc=cc, compile=True).kernels
        assert kernel.figures.spill_bytes == 0


@needs_compiler
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("columns", [64, 1000, 2048, 4096, 8192, 4097])
@pytest.mark.parametrize("text", [LAYER_NORM, RECOMPUTED + LAYER_NORM, RMS_NORM], ids=["given", "recomputed", "rms"])
def test_no_spills_at_any_length(text, columns, dtype):
    (kernel,) = explained(text.format(dtype=dtype), 8192, columns, dtype, cc=90, compile=True).kernels
    assert kernel.figures.spill_bytes == 0
    assert kernel.figures.blocks_per_sm >= 1  # all blocks are resident, or the barrier would wait for ever


@needs_compiler
def test_what_spills_keeps_no_row_of_weights(monkeypatch, tmp_path):
    """Which kernel spills is the compiler's: here it says so of what keeps one."""
    own, compiled = cache.Cache(tmp_path), compile.compile_source

    def spilling(kernel, schedule, *where):
        return replace(compiled(kernel, schedule, *where), spill_bytes=20 if schedule.hoisted else 0)

    for what, stand_in in (
        ("compile_source", spilling),
        ("disk", lambda: own),
        ("_compiled_kernels", LRU(lambda: 1000)),
    ):
        monkeypatch.setattr(compile, what, stand_in)
    text = (RECOMPUTED + LAYER_NORM).format(dtype="bfloat16")
    for _ in range(2):  # compiled, and from the cache
        (kernel,) = explained(text, 8192, 4096, "bfloat16", cc=90, compile=True).kernels
        assert kernel.figures.spill_bytes == 0
        compile._compiled_kernels.clear()


def test_a_block_on_each_multiprocessor_and_rows_ahead_of_their_use():
    text = LAYER_NORM.format(dtype="bfloat16")
    source = fd.kernel(text).source(**specs(text, 8192, 4096, "bfloat16"), cc=90)
    assert len(re.findall(r"= CpAsyncRing\(tile", source)) == 2
    assert "grid_barrier(semaphores, grid_dim())" in source
    assert "Ring" not in fd.kernel(text).source(**specs(text, 8192, 4096, "bfloat16"), cc=75)
    (kernel,) = explained(text, 8192, 4096, "bfloat16", cc=90).kernels
    assert kernel.blocks == 132
    (kernel,) = explained(text, 20, 4096, "bfloat16", cc=90).kernels
    assert kernel.blocks == 20


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 4096), (131, 8192), (1000, 4097), (4001, 1024), (515, 2050)])
def test_large_rows_on_a_gpu_and_the_same_bits_each_time(rows, columns, dtype):
    arrays = given(rows, columns, dtype)
    for text in (LAYER_NORM, RECOMPUTED + LAYER_NORM, RMS_NORM):
        check(text.format(dtype=dtype), arrays, as_torch)
    kernel = fd.kernel(LAYER_NORM.format(dtype=dtype))
    values = [as_torch(arrays[name]) for name in kernel.params]
    first = kernel(*values)
    for _ in range(3):
        assert all(bool((a == b).all()) for a, b in zip(first, kernel(*values)))
