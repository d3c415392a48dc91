"""Rows over several axes in registers: of a block, of a cluster, with weights that vary along some of these axes."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cuda.rows.schedule import LoopedRowSchedule, ResidentRowSchedule

pytest.importorskip("numba_cuda")
from one_kernel import emulated, scheduled
from oracle import evaluate

GROUP_NORM = "group_norm(x, 2, w, b)"
BATCH_NORM = (
    "(x - mean(x, (0, 2, 3), keepdims=True)) * rsqrt(var(x, (0, 2, 3), keepdims=True) + 1e-5) * w[:, None, None]"
    " + b[:, None, None]"
)
AFFINE = [
    ((3, 8, 8, 4), "float32"),
    ((2, 8, 5, 5), "float32"),  # vectors of one element
    ((2, 4, 8, 16), "float16"),  # the last phase in pieces
    ((2, 4, 7, 7), "float16"),
]
OTHERS = [
    "x - max(x * iota(x, 1), axis=(1, 2, 3), keepdims=True)",  # positions
    "x - max(x, axis=(1, 3), keepdims=True) * x[:, ::-1]",  # another array with other strides
    "y = x[:, :, :3]\nsoftmax(y, (1, 2, 3)) * sum(y, (1, 2, 3), keepdims=True)",
    "y = x[:, :, ::2]\ny - sum(y * t[i][:, None, None], axis=(1, 2, 3), keepdims=True) * y",  # a gather
]


def images(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    weights = (rng.standard_normal(shape[1]).astype(dtype) for _ in "wb")
    return {"x": (rng.standard_normal(shape) + 1).astype(dtype), **dict(zip("wb", weights))}


@pytest.mark.parametrize("text", [GROUP_NORM, BATCH_NORM])
def test_long_rows_are_read_once_by_a_cluster(text):
    channels = fd.spec((128,))
    kernel, schedule = scheduled(text.replace("2, w", "4, w"), fd.spec((32, 128, 64, 64)), channels, channels)
    assert kernel.column_axes == 2 and isinstance(schedule, ResidentRowSchedule)
    assert schedule.cluster > 1 and schedule.blocks > 1


def test_rows_that_are_only_reduced_are_streamed():
    schedule = scheduled("sum(x, (0, 2, 3))", fd.spec((320, 1280, 10, 10)))[1]
    assert isinstance(schedule, LoopedRowSchedule)


def test_arrays_that_are_placed_alike_share_offsets():
    channels = fd.spec((128,))
    x, w, _, out = scheduled(GROUP_NORM, fd.spec((32, 128, 64, 64)), channels, channels)[0].operands
    assert x.one_line and out.one_line and not w.one_line  # no offsets at all
    x, out = (scheduled(BATCH_NORM, fd.spec((32, 128, 64, 64)), channels, channels)[0].operands[k] for k in (0, -1))
    assert not x.one_line and out.strided_as == 0


@pytest.mark.parametrize("shape, dtype", AFFINE)
@pytest.mark.parametrize("text", [GROUP_NORM, BATCH_NORM])
def test_norms_of_images(text, shape, dtype):
    arrays = images(shape, dtype)
    found, schedule = emulated(text, 4, **arrays)
    assert "in registers" in schedule
    wide = {name: value.astype("float64") for name, value in arrays.items()}
    rtol = 2e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(found, evaluate(text, **wide), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("shape, dtype", [((2, 8, 80, 64), "float32"), ((2, 8, 160, 48), "float16")])
def test_clusters_hold_rows(shape, dtype):
    arrays = images(shape, dtype)
    found, schedule = emulated(GROUP_NORM, 8, **arrays)
    assert "a cluster of" in schedule
    wide = {name: value.astype("float64") for name, value in arrays.items()}
    rtol = 2e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(found, evaluate(GROUP_NORM, **wide), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("text", OTHERS)
def test_other_rows_of_several_axes(text):
    rng = np.random.default_rng(1)
    arrays = {"x": rng.standard_normal((6, 5, 4, 8)).astype("float32")}
    if "t[i]" in text:
        arrays |= {"t": rng.standard_normal(9).astype("float32"), "i": np.array([0, 3, 4, 8, 1])}
    found, schedule = emulated(text, 4, **arrays)
    assert "in registers" in schedule
    np.testing.assert_allclose(found, evaluate(text, **arrays), rtol=1e-5, atol=1e-4)
