"""Random products of matrices with what surrounds them keep the laws of every program on each target; long sums stay
within the derived bound, and near what their roundings typically add up to."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from bounds import agrees, evaluate
from draw_matmul import draw_matmul
from laws import Case, hold
from test_targets import TARGETS

import fusedsl as fd
from fusedsl.accuracy.products import TF32
from fusedsl.runtime.array_copies import to_host
from fusedsl.runtime.arrays import describe_all

CHUNK = 5  # programs of a test


def some(count: int, first: int = 0) -> list:
    return list(range(first, first + count, CHUNK))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", some(25))
def test_random_products_on_the_cpu(first):
    for seed in range(first, first + CHUNK):
        hold(Case(draw_matmul(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("first", some(275, 25))
def test_more_random_products_on_the_cpu(first):
    test_random_products_on_the_cpu(first)


@pytest.mark.slow
@pytest.mark.parametrize("first", some(100))
def test_random_products_of_large_extents_on_the_cpu(first):
    for seed in range(first, first + CHUNK):
        hold(Case(draw_matmul(seed, large=True)))


@pytest.mark.gpu
@pytest.mark.parametrize("first", some(300))
def test_random_products_on_a_card(first):
    """Small extents, and large ones that fill tiles."""
    import devices

    for seed in range(first, first + CHUNK):
        hold(Case(draw_matmul(seed, large=seed % 2 == 1)), devices.card)


def emulated(first: int, cc: tuple[int, int]) -> None:
    pytest.importorskip("numba_cuda")
    import devices
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4, cc=cc):
        for seed in range(first, first + CHUNK):
            hold(Case(draw_matmul(seed)), devices.on(devices.Emulated()))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", some(10))
def test_random_products_by_the_interpreter_of_ptx(first):
    emulated(first, (9, 0))


@pytest.mark.slow
@pytest.mark.parametrize("cc", [(8, 0), (9, 0)])
@pytest.mark.parametrize("first", some(190, 10))
def test_more_random_products_by_the_interpreter_of_ptx(first, cc):
    emulated(first, cc)


@pytest.mark.slow
@pytest.mark.parametrize("first", some(200))
def test_random_products_compile_without_spills(first):
    pytest.importorskip("numba_cuda")
    for seed in range(first, first + CHUNK):
        case = Case(draw_matmul(seed, large=True))
        for cc in (80, 90):
            told = case.kernel.explain(*case.arguments, device="cuda", cc=cc)
            spilled = {k.name: k.figures.spill_bytes for k in told.kernels if k.figures and k.figures.spill_bytes}
            assert not spilled, (seed, cc, spilled)


# -- long sums


def operands(dtype, k: int, signs: bool) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(k)
    x, w = draw.standard_normal((24, k)), draw.standard_normal((k, 40))
    if not signs:  # every rounding may point the same way
        x, w = np.abs(x), np.abs(w)
    return {"x": x.astype(dtype), "w": w.astype(dtype)}


TEXT = "float32(x) @ float32(w)"  # exact products of 16 bits, and no rounding of the result


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("signs", [True, False], ids=["of both signs", "positive"])
@pytest.mark.parametrize("k", [64, 1000, 4096, 20_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16, np.float16])
def test_long_sums_are_within_their_bound(dtype, k, signs, target):
    arrays = operands(dtype, k, signs)
    text = TEXT if np.dtype(dtype).itemsize == 2 else "x @ w"
    kernel = fd.kernel(text, fallback=False)
    made = to_host(kernel(*(target(a) for a in arrays.values())))
    graph = kernel._program.plans.graph(describe_all(kernel.params, list(arrays.values())))
    ((exact, bound),) = evaluate(graph, list(arrays.values()))
    agrees(made, exact, bound, graph.results[0].type.dtype, f"{np.dtype(dtype)}, k = {k}")
    if np.dtype(dtype).itemsize == 8:
        return
    size = np.abs(arrays["x"].astype(np.float64)) @ np.abs(arrays["w"].astype(np.float64))
    off = made - arrays["x"].astype(np.float64) @ arrays["w"].astype(np.float64)
    assert rms(off) <= typical(k, signs) * rms(size)


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def typical(k: int, signs: bool) -> float:
    """What roundings of float32 add up to, as a share of the sum of magnitudes: where terms have both signs, partial
    sums walk, and are cut off towards 0; else they grow steadily, and so does what tensor cores cut off, 8 products and
    their sum at a time."""
    return 2.0**-24 * (2 + (0.25 * k**0.5 if signs else k / 8 * 2.5))


@pytest.mark.parametrize("signs", [True, False])
def test_sums_of_tf32_are_not_taken_for_those_of_float32(signs):
    """Factors of 10 bits are outside what is typical of float32, and inside the bound of TF32."""
    for k in (64, 1000, 4096):
        x, w = (a.astype(np.float32) for a in operands(np.float32, k, signs).values())
        cut = [(a.view(np.uint32) & 0xFFFFE000).view(np.float32).astype(np.float64) for a in (x, w)]
        right, size = x.astype(np.float64) @ w, np.abs(x).astype(np.float64) @ np.abs(w)
        off = cut[0] @ cut[1] - right
        assert rms(off) > 4 * typical(k, signs) * rms(size)
        kernel = fd.kernel("x @ w")
        graph = kernel._program.plans.graph(describe_all(kernel.params, [x, w]))
        ((exact, bound),) = evaluate(graph, [x, w], TF32["tf32"])
        assert (np.abs(cut[0] @ cut[1] - exact) <= bound).all()


def test_a_factor_that_tf32_rounds_to_infinity_is_not_judged():
    largest = np.finfo(np.float32).max
    x, w = np.array([[largest, 0]] * 2, np.float32), np.array([[0.25] * 2, [0] * 2], np.float32)
    kernel = fd.kernel("x @ w")
    graph = kernel._program.plans.graph(describe_all(kernel.params, [x, w]))
    assert np.isinf(evaluate(graph, [x, w], TF32["tf32"])[0][1]).all()
    assert np.isfinite(evaluate(graph, [x, w])[0][1]).all()


@pytest.mark.parametrize("signs", [True, False])
@pytest.mark.parametrize(("step", "kept"), [(8, 24), (16, 25)], ids=["sm_80", "sm_90"])
@pytest.mark.parametrize("k", [16, 64, 1024, 20_000])
def test_what_tensor_cores_cut_off_is_within_the_bound(step, kept, k, signs):
    """Their sums as the model of accuracy/products.py has them: terms aligned to the largest, cut off, the sum cut."""
    arrays = operands(ml_dtypes.bfloat16, k, signs)
    x, w = (a.astype(np.float64) for a in arrays.values())
    total = np.zeros((len(x), w.shape[1]))
    for first in range(0, k, step):
        terms = x[:, None, first : first + step] * w.T[None, :, first : first + step]
        terms = np.concatenate([terms, total[..., None]], axis=2)
        unit = 2.0 ** (np.frexp(np.abs(terms).max(axis=2, keepdims=True))[1] - 1 - kept)
        total = cut(np.sum(np.trunc(terms / unit) * unit, axis=2), 24)
    kernel = fd.kernel(TEXT)
    graph = kernel._program.plans.graph(describe_all(kernel.params, list(arrays.values())))
    ((exact, bound),) = evaluate(graph, list(arrays.values()))
    agrees(total.astype(np.float32), exact, bound, graph.results[0].type.dtype, f"k = {k}")
    size = np.abs(x) @ np.abs(w)
    assert rms(total - exact) <= typical(k, signs) * rms(size)


def cut(x: np.ndarray, bits: int) -> np.ndarray:
    """The value without what lies beyond so many significant bits."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.trunc(np.ldexp(fraction, bits)), exponent - bits)


@pytest.mark.parametrize("target", TARGETS)
def test_outputs_of_other_alignments_and_orders_are_written_by_other_code(target):
    check_outputs(target)


def test_outputs_of_other_alignments_and_orders_by_the_interpreter_of_ptx():
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4) as gpu:
        check_outputs(gpu.asarray)


def check_outputs(target) -> None:
    """One kernel's calls, the first with the outputs that allow the widest stores."""
    draw = np.random.default_rng(3)
    x, w = (target(draw.standard_normal(shape).astype(np.float32)) for shape in ((64, 40), (40, 64)))
    kernel = fd.kernel("float16(x @ w * 0.25)", fallback=False)
    right = np.asarray(to_host(kernel(x, w)))
    base = target(np.zeros(64 * 72 + 8, np.float16))
    for start in (0, 1, 2, 4):
        for out in (base[start : start + 4096].reshape(64, 64), base[start : start + 64 * 72].reshape(64, 72)[:, :64]):
            kernel(x, w, out=out)
            assert np.array_equal(to_host(out), right)
    out = base[:4096].reshape(64, 64).T
    kernel(x, w, out=out)
    assert np.array_equal(to_host(out), right)
