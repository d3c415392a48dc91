"""Maps that compute where they read do so in 32 bits where positions and extents have no more."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

MODES = ("constant", "edge", "reflect", "wrap")
WIDTHS = [((0, 0), (1, 1)), ((3, 0), (2, 7)), ((11, 9), (25, 30))]  # the last goes around several times


def emulated(text, **arrays):
    with emulated_gpu(multiprocessors=4, cc=(9, 0)) as gpu:
        kernel = fd.kernel(text, fallback=False)
        given = {name: gpu.asarray(value) for name, value in arrays.items()}
        return to_host(kernel(**given)), kernel.source(**given)


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("mode", MODES)
def test_arrays_are_padded(mode, widths):
    x = np.random.default_rng(0).standard_normal((5, 12), dtype=np.float32)
    found, source = emulated(f"pad(x, {widths}, mode={mode!r})", x=x)
    np.testing.assert_array_equal(found, np.pad(x, widths, mode=mode))
    assert ("word_remainder" in source) == (mode in ("reflect", "wrap"))


@pytest.mark.parametrize("shape", [(1,), (2,), (999,)])
def test_an_element_is_repeated(shape):
    x = np.arange(shape[0], dtype=np.float32)
    found, _ = emulated("pad(x, (3, 4), mode='reflect')", x=x)
    np.testing.assert_array_equal(found, np.pad(x, (3, 4), mode="reflect"))


def test_long_arrays_keep_64_bits():
    source = fd.kernel("pad(x, 9, mode='wrap')").source(fd.spec(((1 << 31) + 4,), "int8"), device="cuda", cc=90)
    assert "word_remainder" not in source and "int64(i_0 - int64(9))" in source


def test_gathers_with_strides():
    rng = np.random.default_rng(1)
    x, i = rng.standard_normal((7, 12), dtype=np.float32)[:, ::-2], rng.integers(0, 7, 9)
    found, _ = emulated("x[i] + roll(x[i], 3, 1)", x=x, i=i)
    np.testing.assert_array_equal(found, x[i] + np.roll(x[i], 3, 1))
    found, _ = emulated("tile(x, (2, 3))", x=x)
    np.testing.assert_array_equal(found, np.tile(x, (2, 3)))


@pytest.mark.parametrize("length", [1, 3, 1009])
def test_quotients_are_exact_far_from_an_array(length):
    x = np.arange(length, dtype=np.int16)
    found, _ = emulated("pad(x, (5000, 30000), mode='wrap')", x=x)
    np.testing.assert_array_equal(found, np.pad(x, (5000, 30000), mode="wrap"))


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("shape", [(4096,), (333,), (5, 24), (3, 7)])
def test_neighbours_that_share_a_byte_read_it_once(bits, shape):
    u = np.random.default_rng(bits).integers(0, 256, shape, np.uint8)
    text = f"unpack(u, bits={bits}, signed=False)"
    found, source = emulated(text, u=u)
    np.testing.assert_array_equal(found, fd.kernel(text)(u))
    assert (f"run={8 // bits}" in source) == (shape in [(4096,), (333,)])


def test_runs_of_other_types_and_of_two_positions():
    rng = np.random.default_rng(5)
    for dtype in ("float16", "float32", "int64"):
        x = (rng.standard_normal(128) * 50).astype(dtype)
        found, _ = emulated("x[arange(256) >> 1] + x[arange(256) & 127]", x=x)
        np.testing.assert_array_equal(found, x[np.arange(256) >> 1] + x[np.arange(256) & 127])
