"""Attention by warps: mma.sync from sm_80 on, fused multiply-adds for everything else."""

from __future__ import annotations

import bounds
import numpy as np
import pytest
from devices import Emulated
from oracle import graph_of
from test_cuda_attention import BRAIN, CAUSAL, FORMULAS, SCORES, agrees, given

import fusedsl as fd
from fusedsl import hardware
from fusedsl.backends.cuda.attention import schedule
from fusedsl.backends.cuda.attention.mma_schedule import schedule_mma
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

MASKED = SCORES + f"softmax(where({CAUSAL}, s, -inf)) @ v"


@pytest.fixture
def warps_alone(monkeypatch):
    """Hopper's own kernel is not there: warps work on sm_90 as well."""
    monkeypatch.setattr(schedule, "SCHEDULERS", (schedule_mma,))


def check(kernel, arrays, found):
    """Products that round nothing keep to the bound derived of the formula: it grows with the scores of a row, since a
    weight is as far off as its exponent is."""
    if arrays["v"].dtype not in (np.float32, np.float64):
        agrees(kernel, arrays, found)
        return
    graph, values = graph_of(kernel.text, {name: arrays[name] for name in kernel.params})
    for value, node, (expected, bound) in zip(found, graph.results, bounds.evaluate(graph, values)):
        bounds.agrees(value, expected, bound, node.type.dtype, kernel.text)


def listed(found):
    return list(found) if isinstance(found, tuple) else [found]


# formula, dtype, compute capability, sizes: together every way to bring tiles and to multiply them
EMULATED = {
    "tensor cores, widths that are no powers of two": ("causal", BRAIN, (8, 0), {"width": 24, "out": 72}),
    "tensor cores, tiles of classes kept in memory": ("documents", np.float16, (8, 9), {"width": 16, "out": 16}),
    "odd widths, element by element": ("softcap, bias, residual", np.float32, (8, 0), {"width": 21, "out": 9}),
    "16 bits without tensor cores that know them": ("shared heads", BRAIN, (7, 5), {}),
    "float64": ("causal", np.float64, (8, 0), {"out": 18}),
}


@pytest.mark.parametrize("case", EMULATED)
def test_values_on_an_emulated_gpu(case):
    name, dtype, cc, sizes = EMULATED[case]
    arrays, kernel = given(38, 90, dtype=dtype, **sizes), fd.kernel(FORMULAS[name])
    with emulated_gpu(cc=cc) as gpu:
        found = [to_host(x) for x in listed(kernel(*(gpu.asarray(arrays[name]) for name in kernel.params)))]
        assert len(gpu.launches) == 1
    check(kernel, arrays, found)


def test_scaled_queries_are_scores_like_any_other():
    kernel = fd.kernel("softmax((q / 8) @ (k * ks).mT) @ v")
    given = [fd.spec((1, 4, 64, 1 if name == "ks" else 64), "bfloat16") for name in kernel.params]
    assert str(kernel.explain(*given, device="cuda", compile=False)).startswith("1 kernel ")


def test_operands_may_lie_anywhere():
    arrays = {name: x[:, :1] for name, x in given(20, 40, dtype=np.float16).items() if name in "qkv"}
    arrays["k"] = np.asfortranarray(arrays["k"][0, 0])[None, None]
    kernel = fd.kernel(MASKED)
    with emulated_gpu(cc=(8, 0)) as gpu:
        placed = [gpu.asarray(arrays[name], skip=2 * (name == "v")) for name in kernel.params]
        found = [to_host(kernel(*placed))]
        assert len(gpu.launches) == 1
    agrees(kernel, arrays | {"r": arrays["v"]}, found)


def test_what_is_masked_adds_nothing_whatever_it_is():
    arrays = {name: x[:, :1] for name, x in given(20, 40, dtype=np.float32).items() if name in "qkv"}
    arrays["v"][0, 0, 12:] = np.nan
    arrays["k"][0, 0, 12:] = np.inf
    kernel = fd.kernel(MASKED)
    with emulated_gpu() as gpu:
        found = to_host(kernel(*(gpu.asarray(arrays[name]) for name in kernel.params)))
    expected = kernel(*(arrays[name][:, :, :12] for name in kernel.params))
    np.testing.assert_allclose(found[:, :, :12], expected, rtol=4e-6, atol=4e-6)


def specs(kernel, width, dtype, length=4096):
    shape = (1, 16, length, width)
    of = {"bias": ((length, length), "float32"), "doc": ((length,), "int32"), "sink": ((16, 1, 1), "float32")}
    return [fd.spec(*of.get(name, (shape, dtype))) for name in kernel.params]


@pytest.mark.parametrize(
    ("name", "dtype", "width", "cc"),
    [
        ("causal", "bfloat16", 128, (12, 0)),
        ("documents", "float16", 256, (8, 0)),
        ("softcap, bias, residual", "bfloat16", 192, (10, 0)),
        ("causal", "float32", 128, (9, 0)),
        ("softcap, bias, residual", "float32", 256, (8, 0)),
    ],
)
def test_compiled_nothing_spills(name, dtype, width, cc):
    kernel = fd.kernel(FORMULAS[name])
    (found,) = kernel.resources(*specs(kernel, width, dtype), cc=cc)
    assert found.figures.spill_bytes == 0


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("cc", [known.cc for known in hardware._KNOWN], ids=str)
def test_every_architecture_links(cc, dtype, warps_alone):
    kernel = fd.kernel(MASKED)
    (found,) = kernel.resources(*specs(kernel, 64, dtype, 1000), cc=cc)
    assert found.figures.registers <= found.predicted_registers


def test_explain_says_how_it_multiplies_and_what_registers_a_thread_may_take():
    kernel = fd.kernel(MASKED)
    told = str(kernel.explain(*specs(kernel, 64, "float32"), device="cuda", compile=False))
    assert "4 warps of 16 rows, products are summed in float32" in told
    assert told.splitlines()[0].endswith("at most 255 registers")
    q, k = (fd.spec((1, 4, length, 64), "float16") for length in (1, 1000))
    told = str(fd.kernel("attention(q, k, v)").explain(q, k, k, cc=80, compile=False))
    assert told.splitlines()[0].endswith("at most 255 registers")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float16, BRAIN, np.float32])
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_on_a_card(name, dtype, warps_alone):
    on_a_card(name, dtype, 32, 16)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("width, out", [(64, 64), (80, 48), (128, 128), (192, 128), (256, 256), (37, 50)])
def test_widths_on_a_card(dtype, width, out, warps_alone):
    on_a_card("causal", dtype, width, out)


def on_a_card(name, dtype, width, out):
    cupy = pytest.importorskip("cupy")
    for n, m in ((16, 16), (333, 1000), (1024, 1024)):
        arrays, kernel = given(n, m, width=width, out=out, dtype=dtype), fd.kernel(FORMULAS[name])
        found = listed(kernel(*(cupy.asarray(arrays[name]) for name in kernel.params)))
        check(kernel, arrays, [cupy.asnumpy(x) for x in found])


@pytest.mark.parametrize("repeated", ["k", "v"])
def test_rows_that_are_all_the_same_are_no_boxes_of_tma(repeated):
    """Arrays with a stride of 0 along keys: warps compute on Hopper, too."""
    arrays = {name: np.random.default_rng(3).standard_normal((128, 64)).astype(np.float16) for name in "qkv"}
    arrays[repeated] = np.broadcast_to(arrays[repeated][:1], (128, 64))
    kernel, memory = fd.kernel("softmax(q @ k.mT / 8) @ v"), Emulated()
    with emulated_gpu(cc=(9, 0)):
        values = [memory.there(arrays[name]) for name in kernel.params]
        found = to_host(kernel(*values))
        assert "tma_load" not in kernel.source(*values)
    q, k, v = (arrays[name].astype(float) for name in "qkv")
    weights = np.exp(q @ k.T / 8)
    np.testing.assert_allclose(found, weights / weights.sum(-1, keepdims=True) @ v, 2e-3, 2e-3)
