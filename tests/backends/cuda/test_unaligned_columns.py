"""Column reductions of rows that begin anywhere in 16 bytes: vectors of each level are aligned, and states move to
their columns."""

import numpy as np
import pytest
from test_targets import as_torch, check

import fusedsl as fd

RANDOM = np.random.default_rng(17)

LENGTHS = [(300, 261), (257, 258), (1500, 263)]


def random(shape, dtype):
    return RANDOM.standard_normal(shape).astype(dtype)


def test_odd_rows_are_read_in_vectors_of_16_bytes():
    for dtype in ("float32", "bfloat16"):
        text = fd.kernel("sum(x, 1)").source(fd.spec((8, 400, 4095), dtype), device="cuda")
        assert f'load_x_0 = tile.load("{dtype}", "o")' in text
        assert "align_sum(" in text
    assert "align_argmin(" in fd.kernel("argmin(x, 1)").source(fd.spec((8, 400, 4095), "bfloat16"), device="cuda")
    assert "align_" not in fd.kernel("sum(x, 1)").source(fd.spec((8, 400, 4096), "float32"), device="cuda")
    assert "align_" not in fd.kernel("x - mean(x, 0)").source(fd.spec((400, 4095), "float32"), device="cuda")
    assert "align_" not in fd.kernel("sum(x * b, 0)").source(
        fd.spec((400, 4095), "float32"), fd.spec((4095,), "float32"), device="cuda"
    )


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_folds_of_odd_rows(dtype):
    from test_column import _random

    for shape in LENGTHS:
        given = {"x": _random(shape, dtype)}
        check("sum(x, axis=0)", given, as_torch)
        check("argmax(x, axis=0), min(x, axis=0)", given, as_torch)
    given = {"x": _random((3, 270, 259), dtype), "b": _random((259,), dtype)}
    check("max(x, axis=1) + b", given, as_torch)
    check("argmin(x, axis=1)", given, as_torch)


@pytest.mark.gpu
def test_folds_of_parts_of_rows():
    x = random((400, 300), np.float32)
    for part in ("[:, 1:]", "[1:, 3:]", "[::-1, 1:]", "[::2, 2:-1]"):
        check(f"sum(x{part}, axis=0)", {"x": x}, as_torch)
    check("var(x[:, 5:], axis=0)", {"x": x}, as_torch)
