"""Maps of arrays that are the same along the outermost axis: blocks that read the same elements follow one another."""

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

IN_TURN = "repeat = int32("
CASES = {
    "tile": ("tile(x, 3)", (2052,)),
    "tile of two axes": ("tile(x, (2, 3))", (37, 60)),
    "stack": ("stack([x, x * 2])", (2052,)),
    "stack of rows": ("stack([x, x + 1, -x])", (41, 36)),
    "broadcast": ("broadcast_to(x, (5, 40, 60)) + 1", (40, 60)),
}


@pytest.mark.parametrize("name", CASES)
def test_each_repetition_is_written_once(name):
    text, shape = CASES[name]
    x = np.random.default_rng(4).integers(-9, 9, shape).astype(np.float32)
    with emulated_gpu(multiprocessors=4, l2=4096) as gpu:
        kernel = fd.kernel(text, fallback=False)
        there = gpu.asarray(x)
        assert IN_TURN in kernel.source(there)
        np.testing.assert_array_equal(to_host(kernel(there)), fd.evaluate(text, x=x, device="cpu"))


@pytest.mark.parametrize("text", ["tile(x, 3)", "x[None] + y[:, None]", "x * 2"])
def test_arrays_that_the_l2_holds_or_that_vary_are_read_in_order(text):
    kernel = fd.kernel(text)
    small, varying = fd.spec((1 << 16,)), fd.spec((3, 1 << 24))
    specs = {"x": small} | ({"y": small} if "y" in kernel.params else {})
    assert IN_TURN not in kernel.source(**specs, device="cuda")
    assert IN_TURN not in fd.kernel("x * 2 + 1").source(x=varying, device="cuda")
