"""Products over several axes of K, by warps: convolutions, and sums whose axes are no single one in memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from test_cuda_emulated import check_twice, normal

import fusedsl as fd

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

BRAIN = ml_dtypes.bfloat16
CASES = {  # text, shapes, whether 16-bit elements are multiplied on tensor cores
    "channels last": ("conv(x, w, layout='NHWC')", {"x": (2, 8, 9, 24), "w": (20, 3, 3, 24)}, True),
    "channels first": ("conv(x, w)", {"x": (2, 24, 8, 9), "w": (20, 24, 3, 3)}, True),
    "strided": ("conv(x, w, stride=2, layout='NHWC')", {"x": (2, 9, 9, 24), "w": (20, 3, 3, 24)}, True),
    "dilated": ("conv(x, w, dilation=2, layout='NHWC')", {"x": (2, 9, 9, 24), "w": (20, 3, 3, 24)}, True),
    "groups": ("conv(x, w, groups=2, layout='NHWC')", {"x": (1, 6, 9, 48), "w": (16, 3, 3, 24)}, True),
    "three axes": ("conv(x, w, layout='NDHWC')", {"x": (1, 5, 5, 6, 24), "w": (20, 3, 2, 3, 24)}, True),
    "few channels": ("conv(x, w)", {"x": (1, 3, 8, 9), "w": (20, 3, 3, 3)}, False),
    "an epilogue": (
        "silu(conv(x, w, layout='NHWC') + b) + r",
        {"x": (2, 8, 9, 24), "w": (24, 3, 3, 24), "b": (24,), "r": (2, 6, 7, 24)},
        True,
    ),
    "taps along a long axis, in parts": ("conv(x, w, layout='NWC')", {"x": (1, 20, 160), "w": (20, 9, 160)}, True),
    "axes in another order": ("einsum('abk,ckb->ac', x, w)", {"x": (20, 3, 40), "w": (24, 40, 3)}, True),
}


@pytest.mark.parametrize("dtype", [BRAIN, np.float32])
@pytest.mark.parametrize("case", CASES)
def test_values(case, dtype):
    text, shapes, _ = CASES[case]
    with emulated_gpu(cc=(8, 0)) as gpu:
        check_twice(gpu, text, {name: normal(*shape, dtype=dtype) for name, shape in shapes.items()})


@pytest.mark.parametrize("case", CASES)
def test_16_bits_are_on_tensor_cores(case):
    text, shapes, tensor = CASES[case]
    specs = [fd.spec(shape, "bfloat16") for shape in shapes.values()]
    source = fd.kernel(text).source(*specs, device="cuda", cc=80)
    assert ("MmaTile(" in source) == tensor


@pytest.mark.parametrize("cc, how", [(80, "on tensor cores"), (90, "im2col")])
def test_windows_are_read_where_they_are(cc, how):
    """One kernel at sizes of use: nothing is stored between."""
    kernel = fd.kernel("silu(conv(x, w, layout='NHWC') + b)", max_kernels=1)
    given = fd.spec((32, 58, 58, 256), "bfloat16"), fd.spec((256, 3, 3, 256), "bfloat16"), fd.spec(256, "bfloat16")
    (one,) = kernel.explain(*given, device="cuda", cc=cc).to_dict()["kernels"]
    assert how in one["schedule"]
