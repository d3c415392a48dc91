"""Products of windows on sm_90, whose rows TMA finds in images (im2col): convolutions on an emulated GPU."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from test_cuda_emulated import check_twice, normal

import fusedsl as fd
from fusedsl.backends.cuda.matmul.sm90 import schedule as sm90_schedule

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

BRAIN = ml_dtypes.bfloat16
CASES = {  # text, shapes
    "several samples": ("conv(x, w, layout='NHWC')", {"x": (3, 8, 9, 64), "w": (72, 3, 3, 64)}),
    "one sample": ("conv(x, w, layout='NHWC')", {"x": (1, 16, 9, 64), "w": (72, 3, 3, 64)}),
    "channels that are no whole slices": ("conv(x, w, layout='NHWC')", {"x": (2, 8, 9, 72), "w": (24, 3, 3, 72)}),
    "taps and channels in one line": ("conv(x, w, layout='NHWC')", {"x": (2, 8, 9, 32), "w": (72, 3, 3, 32)}),
    "strided": ("conv(x, w, stride=2, layout='NHWC')", {"x": (2, 17, 17, 64), "w": (72, 3, 3, 64)}),
    "dilated": ("conv(x, w, dilation=(2, 3), layout='NHWC')", {"x": (3, 12, 13, 64), "w": (72, 3, 3, 64)}),
    "strided and dilated": (
        "conv(x, w, stride=(1, 2), dilation=2, layout='NHWC')",
        {"x": (2, 9, 14, 64), "w": (40, 3, 2, 64)},
    ),
    "one axis": ("conv(x, w, layout='NWC')", {"x": (3, 70, 64), "w": (72, 5, 64)}),
    "three axes": ("conv(x, w, layout='NDHWC')", {"x": (2, 5, 6, 8, 64), "w": (72, 3, 2, 3, 64)}),
    "taps along one axis of two": ("conv(x, w, layout='NHWC')", {"x": (2, 11, 9, 64), "w": (40, 5, 1, 64)}),
    "one tap, strided": ("conv(x, w, stride=2, layout='NHWC')", {"x": (2, 17, 17, 64), "w": (72, 1, 1, 64)}),
    "an epilogue": (
        "silu(conv(x, w, layout='NHWC') + b) + r",
        {"x": (2, 8, 9, 64), "w": (24, 3, 3, 64), "b": (24,), "r": (2, 6, 7, 24)},
    ),
    "padding": ("conv(x, w, padding=1, layout='NHWC')", {"x": (3, 8, 9, 64), "w": (72, 3, 3, 64)}),
    "padding to the same extent": (
        "conv(x, w, padding='same', layout='NHWC')",
        {"x": (2, 8, 9, 64), "w": (72, 4, 3, 64)},
    ),
    "padding at one end": (
        "conv(x, w, padding=((0, 2), (1, 0)), layout='NHWC')",
        {"x": (2, 8, 9, 64), "w": (72, 3, 3, 64)},
    ),
    "padding of one sample": ("conv(x, w, padding=1, layout='NHWC')", {"x": (1, 8, 9, 64), "w": (72, 3, 3, 64)}),
    "padding, steps": (
        "conv(x, w, padding=2, stride=2, dilation=2, layout='NHWC')",
        {"x": (2, 8, 11, 64), "w": (72, 3, 3, 64)},
    ),
    "padding of three axes": ("conv(x, w, padding=1, layout='NDHWC')", {"x": (2, 4, 5, 6, 64), "w": (40, 3, 3, 3, 64)}),
    "padding of a slice of places": (
        "conv(x, w, padding=1, layout='NHWC')[:, 1:, :-2]",
        {"x": (2, 8, 9, 64), "w": (72, 3, 3, 64)},
    ),
}


def schedules(text, shapes, dtype="bfloat16", **options):
    specs = [fd.spec(shape, dtype) for shape in shapes.values()]
    found = fd.kernel(text, **options).explain(*specs, device="cuda", cc=90).to_dict()["kernels"]
    return [kernel["schedule"] for kernel in found]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_values(case):
    text, shapes = CASES[case]
    assert "im2col" in schedules(text, shapes)[-1]
    with emulated_gpu() as gpu:
        check_twice(gpu, text, {name: normal(*shape, dtype=BRAIN) for name, shape in shapes.items()})


@pytest.mark.parametrize("case", [case for case in CASES if "padding" in case])
def test_zeros_around_an_image_are_not_stored(case):
    assert len(schedules(*CASES[case])) == 1


CHAIN = "y = maximum(conv(x, w, padding=1, layout='NHWC') + b, 0); conv(y, v, padding=1, layout='NHWC') + x"


def test_layers_in_turn_are_a_kernel_each():
    shapes = {"x": (2, 8, 9, 64), "w": (72, 3, 3, 64), "b": (72,), "v": (64, 3, 3, 72)}
    with emulated_gpu() as gpu:
        grids = check_twice(gpu, CHAIN, {name: normal(*shape, dtype=BRAIN) for name, shape in shapes.items()})
    assert len(grids) == 4, "two calls of two kernels"


def test_an_output_that_is_the_padded_argument():
    x, w = normal(2, 8, 9, 64, dtype=BRAIN), normal(64, 3, 3, 64, dtype=BRAIN)
    kernel = fd.kernel("conv(x, w, padding=1, layout='NHWC')")
    with emulated_gpu() as gpu:
        there, weights = gpu.asarray(x), gpu.asarray(w)
        expected = kernel(there, weights).get()
        kernel(there, weights, out=there)
        assert there.get().tobytes() == expected.tobytes()


ONES = "conv(pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=1), w, layout='NHWC')"


def test_what_is_no_zero_is_stored():
    shapes = {"x": (2, 8, 9, 64), "w": (72, 3, 3, 64)}
    assert len(schedules(ONES, shapes)) == 2
    with emulated_gpu() as gpu:
        check_twice(gpu, ONES, {name: normal(*shape, dtype=BRAIN) for name, shape in shapes.items()})


def test_a_padded_copy_that_others_read_stays():
    """One reader is no product: the copy is made for it, and read by all."""
    text = "p = pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))); conv(p, w, layout='NHWC'), cumsum(p, 1)"
    shapes = {"x": (2, 8, 9, 64), "w": (72, 3, 3, 64)}
    with emulated_gpu() as gpu:
        check_twice(gpu, text, {name: normal(*shape, dtype=BRAIN) for name, shape in shapes.items()})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", sm90_schedule.SHAPES)
def test_every_tile_shape_gives_the_same(shape, monkeypatch):
    candidates = sm90_schedule.candidates

    def only(*arguments):
        found = (s for s in candidates(*arguments) if (s.warpgroups, s.pingpong, s.cluster) == shape)
        return (replace(s, multiprocessors=2) for s in found if s.columns == 128)

    monkeypatch.setattr(sm90_schedule, "candidates", only)
    text, shapes = CASES["an epilogue"]
    shapes = shapes | {"x": (3, 9, 11, 64), "w": (136, 3, 3, 64), "b": (136,), "r": (3, 7, 9, 136)}
    with emulated_gpu() as gpu:
        check_twice(gpu, text, {name: normal(*shape, dtype=BRAIN) for name, shape in shapes.items()})


def test_parts_of_a_sum(monkeypatch):
    """The K-slices of a part begin at any tap."""
    monkeypatch.setattr(sm90_schedule, "LEAST_SLICES", 1)
    monkeypatch.setattr(sm90_schedule, "predicted_clocks", lambda s, *_: -s.splits)
    text, shapes = CASES["channels that are no whole slices"]
    assert "parts of each sum" in schedules(text, shapes)[-1]
    with emulated_gpu() as gpu:
        check_twice(gpu, text, {name: normal(*shape, dtype=BRAIN) for name, shape in shapes.items()})


def test_tf32():
    text, shapes = "conv(x, w, layout='NHWC')", {"x": (2, 8, 9, 40), "w": (24, 3, 3, 40)}
    assert "im2col" in schedules(text, shapes, "float32", matmul="tf32")[-1]
    x, w = (np.random.default_rng(2).integers(-8, 8, shape).astype(np.float32) for shape in shapes.values())
    with emulated_gpu() as gpu:
        found = fd.kernel(text, matmul="tf32")(gpu.asarray(x), gpu.asarray(w)).get()
    np.testing.assert_array_equal(found, fd.evaluate(text, x=x, w=w))


REFUSED = {  # which stay products by warps
    "channels first": ("conv(x, w)", {"x": (2, 64, 8, 9), "w": (72, 64, 3, 3)}, {}),
    "groups": ("conv(x, w, groups=2, layout='NHWC')", {"x": (2, 8, 9, 128), "w": (72, 3, 3, 64)}, {}),
    "lines that are not aligned": ("conv(x, w, layout='NHWC')", {"x": (2, 8, 9, 66), "w": (72, 3, 3, 66)}, {}),
    "long steps": ("conv(x, w, stride=9, dilation=7, layout='NHWC')", {"x": (2, 60, 60, 64), "w": (72, 3, 3, 64)}, {}),
    "far taps": ("conv(x, w, dilation=70, layout='NHWC')", {"x": (1, 150, 150, 64), "w": (72, 3, 3, 64)}, {}),
    "positions of places": (
        "conv(x, w, layout='NHWC') * arange(7)[:, None]",
        {"x": (2, 8, 9, 64), "w": (72, 3, 3, 64)},
        {},
    ),
    "3xtf32": ("conv(x, w, layout='NHWC')", {"x": (2, 8, 9, 40), "w": (24, 3, 3, 40)}, {"matmul": "3xtf32"}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_windows_are_read_by_threads(case):
    text, shapes, options = REFUSED[case]
    dtype = "float32" if options else "bfloat16"
    assert not any("im2col" in schedule for schedule in schedules(text, shapes, dtype, **options))
