"""float8 as a storage type: ml_dtypes is the oracle for every byte, on every target and architecture."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from oracle import evaluate

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

KINDS = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
BYTES = np.arange(256, dtype=np.uint8)


def on_torch(x):
    torch = pytest.importorskip("torch")
    name = str(x.dtype)
    made = torch.from_numpy(np.ascontiguousarray(x.view(np.uint8) if name in KINDS else x))
    return made.view(getattr(torch, name)) if name in KINDS else made


TARGETS = [
    pytest.param(lambda x: x, id="numpy"),
    pytest.param(on_torch, id="torch"),
    pytest.param(lambda x: on_torch(x).cuda(), id="cuda", marks=pytest.mark.gpu),
]


def run(text, target, **arrays):
    kernel = fd.kernel(text, fallback=False)
    made = kernel(*(target(arrays[n]) for n in kernel.params))
    return tuple(map(to_host, made)) if isinstance(made, tuple) else to_host(made)


def hard(kind) -> np.ndarray:
    """Every value, the ties between neighbours and what lies beside them, subnormals, overflow, NaN and infinity."""
    known = BYTES.view(kind).astype(np.float32)
    known = np.unique(known[np.isfinite(known)])
    ties = (known[1:] + known[:-1]) / 2
    near = [np.nextafter(ties, np.float32(s * np.inf)) for s in (-1, 1)]
    top = known[-1] * np.array([1.01, 1.0357, 1.0358, 1.0714, 1.0715, 1.125, 2, 1e30], np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-38], np.float32)
    random = np.random.default_rng(0).integers(0, 2**32, 4000, np.uint32).view(np.float32)
    return np.concatenate([known, ties, *near, top, -top, special, random])


def same(made, wanted):
    """Equal byte for byte but for the NaN that stands for a NaN."""
    assert made.dtype == wanted.dtype
    missing = np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(made.astype(np.float32)), missing)
    np.testing.assert_array_equal(made.view(np.uint8)[~missing], wanted.view(np.uint8)[~missing])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KINDS)
def test_every_byte_is_read_and_every_rounding_is_right(name, target):
    kind = KINDS[name]
    x = hard(kind)
    with np.errstate(all="ignore"):
        wanted = x.astype(kind)
    same(run(f"{name}(x)", target, x=x), wanted)
    same(run(f"astype(x[::-1], {name})[::-1]", target, x=x), wanted)
    np.testing.assert_array_equal(run("float32(q)", target, q=BYTES.view(kind)), BYTES.view(kind).astype(np.float32))
    np.testing.assert_array_equal(run(f"float32({name}(x))", target, x=x), wanted.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KINDS)
def test_float8_arrays_are_moved_chosen_and_joined(name, target):
    q = np.random.default_rng(1).integers(0, 100, (7, 33), np.uint8).view(KINDS[name])
    same(run("q.T", target, q=q), np.ascontiguousarray(q.T))
    same(run("q[i]", target, q=q, i=np.array([3, -1])), q[[3, -1]])
    same(run("concat([q[:, 20:], q], 1)", target, q=q), np.concatenate([q[:, 20:], q], 1))
    same(run("where(float32(q) > 1, q, q[::-1])", target, q=q), np.where(q.astype(np.float32) > 1, q, q[::-1]))
    wanted = q.astype(np.float32) * 0.5
    np.testing.assert_array_equal(run("float32(q) * 0.5", target, q=q), wanted)
    np.testing.assert_allclose(run("sum(float32(q), -1)", target, q=q), q.astype(np.float32).sum(-1), rtol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_other_types_are_cast_by_way_of_float32(name):
    for other in (np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8, np.bool_):
        x = np.array([0, 1, 3, 100, 17, 120], other)
        same(fd.evaluate(f"{name}(x)", x=x), x.astype(np.float32).astype(KINDS[name]))
    q = BYTES.view(KINDS[name])
    for text, wanted in (("int32(q)", np.int32), ("float64(q)", np.float64), ("float16(q)", np.float16)):
        made = fd.evaluate(text, q=q)
        np.testing.assert_array_equal(made, evaluate(text, q=q))
        assert made.dtype == wanted


def test_verify_compares_float8():
    x = np.linspace(-3, 3, 50, dtype=np.float32)
    fd.evaluate("float8_e4m3fn(x * 2)", x=x, verify=True)


@pytest.mark.gpu
def test_cupy_takes_the_bytes():
    cupy = pytest.importorskip("cupy")
    x = np.linspace(-3, 3, 50, dtype=np.float32)
    made = fd.evaluate("float8_e4m3fn(x)", x=cupy.asarray(x))
    assert made.dtype == np.uint8
    same(made.get().view(KINDS["float8_e4m3fn"]), x.astype(KINDS["float8_e4m3fn"]))
    out = cupy.zeros(50, np.uint8)
    fd.evaluate("float8_e4m3fn(x)", {"x": cupy.asarray(x)}, out=out)
    assert (out == made).all()


@pytest.mark.parametrize("cc", [80, 90])
@pytest.mark.parametrize("name", KINDS)
def test_it_compiles_for_gpus_with_and_without_conversions(name, cc):
    pytest.importorskip("numba_cuda")
    with fd.options(fallback=False):
        kernel = fd.kernel(f"{name}(float32(q) * s)")
        q, s = fd.spec((64, 4096), name), fd.spec((64, 1), "float32")
        assert "0 B" in str(kernel.resources(q, s, cc=cc))
        assert fd.kernel(f"s = max(abs(x), axis=-1, keepdims=True) / 448; {name}(x / s), s").resources(
            fd.spec((64, 4096), "bfloat16"), cc=cc
        )


@pytest.mark.parametrize("name", KINDS)
def test_what_the_gpu_converts_together_is_as_if_alone(name):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    kind, x = KINDS[name], hard(KINDS[name])
    with emulated_gpu() as gpu, np.errstate(all="ignore"):
        same(to_host(fd.evaluate(f"{name}(x)", x=gpu.asarray(x))).view(kind), x.astype(kind))
        made = to_host(fd.evaluate("float32(q)", q=gpu.asarray(BYTES.view(kind))))
        np.testing.assert_array_equal(made, BYTES.view(kind).astype(np.float32))


def test_a_scan_that_rounds_before_and_after_compiles():
    """ptxas failed, or did not end, where each of many elements had a way of its own beyond the range."""
    pytest.importorskip("numba_cuda")
    fd.kernel("cumsum(float8_e5m2(x), axis=0)", fallback=False).compile(fd.spec((32,), "float32"), device="cuda", cc=90)
