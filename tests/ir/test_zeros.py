"""Zeros have signs: extremes order them, -0.0 below 0.0, wherever they stand and on every target."""

from __future__ import annotations

import random

import numpy as np
import pytest

import fusedsl as fd


def larger(x, y):
    """The larger of two by the order -0.0 < 0.0; NaN wins."""
    return np.where(np.signbit(x) & (x == y), y, np.where((x > y) | (x == y) | np.isnan(x), x, y))


def smaller(x, y):
    return -larger(-x, -y)


def drawn(r: random.Random, dtype) -> np.ndarray:
    """Zeros of both signs, mostly."""
    shape = tuple(r.choice((1, 2, 3, 7, 16, 33, 65)) for _ in range(2))
    values = r.choice(([-0.0, 0.0], [-0.0], [-0.0, 0.0, -1.0], [-0.0, 0.0, 1.0], [-0.0, 0.0, np.nan, 1.0, -1.0]))
    weights = [r.random() + 0.05 for _ in values]
    return np.array(r.choices(values, weights, k=shape[0] * shape[1])).reshape(shape).astype(dtype)


def folded(pick, x, axis):
    rows = np.moveaxis(x, axis, 0)
    made = [rows[0]]
    for row in rows[1:]:
        made.append(pick(made[-1], row))
    return np.stack(made, axis)


def same(found, wanted):
    found, wanted = np.asarray(found, float), np.asarray(wanted, float)
    there = ~np.isnan(wanted)
    return (np.isnan(found) == ~there).all() and (found == wanted)[there].all() and (
        np.signbit(found) == np.signbit(wanted))[there].all()  # fmt: skip


def check(r: random.Random, dtype, on=np.asarray, back=np.asarray) -> None:
    x, axis = drawn(r, dtype), r.choice((0, 1))
    y = x.copy()
    np.random.default_rng(r.getrandbits(32)).shuffle(y.reshape(-1))
    text = f"max(x, axis={axis}), min(x, axis={axis}), cummax(x, {axis}), cummin(x, {axis}), max(x), min(x), "
    text += f"maximum(x, y), minimum(x, y), max(maximum(x, y), axis={axis}), clip(x, -0.0, 1.0)"
    found = [back(z) for z in fd.evaluate(text, x=on(x), y=on(y))]
    flat = x.reshape(-1)
    wanted = [
        folded(larger, x, axis).take(-1, axis),
        folded(smaller, x, axis).take(-1, axis),
        folded(larger, x, axis),
        folded(smaller, x, axis),
        folded(larger, flat, 0)[-1],
        folded(smaller, flat, 0)[-1],
        larger(x, y),
        smaller(x, y),
        folded(larger, larger(x, y), axis).take(-1, axis),
        smaller(larger(x, np.float64(-0.0)), np.float64(1)),
    ]
    for k, (one, other) in enumerate(zip(found, wanted)):
        assert same(one, other), (k, axis, x, one, other)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("seed", range(12))
def test_extremes_order_zeros(seed, dtype):
    check(random.Random(seed), dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_extremes_order_zeros_on_cuda(dtype):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4) as gpu:
        check(random.Random(5), dtype, gpu.asarray, lambda z: z.get())
