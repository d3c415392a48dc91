"""Cooperative kernels for few, very long rows: blocks share a row; the last one finishes it, or all wait at a grid
barrier."""

import numpy as np
import pytest
from test_column import figures, source
from test_targets import as_torch, check

import fusedsl as fd
from fusedsl.backends.cuda.rows.cooperative import _in_turn, _pays
from fusedsl.hardware import hardware_facts

H200 = hardware_facts((9, 0))
RANDOM = np.random.default_rng(5)

CASES = [
    ("sum(x)", (32768, 32768), "float32"),
    ("mean(x), max(x), argmin(x)", (1 << 26,), "bfloat16"),
    ("sum(x, -1)", (16, 10_000_001), "bfloat16"),
    ("count_nonzero(x), any(x)", (1 << 24,), "bool"),
    ("softmax(x)", (16, 10_000_000), "float32"),
    ("var(x)", (10_000_000,), "float32"),
    ("group_norm(x, 8)", (64, 64, 512, 512), "float32"),
    ("x - mean(x, axis=(0, 2, 3), keepdims=True)", (64, 64, 512, 512), "float16"),
    ("sum(x)", (1 << 32,), "float32"),
]


@pytest.mark.parametrize(("text", "shape", "dtype"), CASES)
def test_shared_rows_compile_without_spills(text, shape, dtype):
    for cc in (80, 90, 100):
        report = figures(text, cc, x=(shape, dtype))
        assert all(kernel.figures.spill_bytes == 0 for kernel in report), (cc, str(report))


def test_the_last_block_finishes_what_is_over_after_the_folds():
    text = source("sum(x)", x=((1 << 26,), "float32"))
    assert "if not is_last_block(semaphores, row_group, blocks_per_row):" in text
    assert "grid_barrier_wait(" not in text


def test_blocks_meet_where_elements_need_the_result():
    text = source("softmax(x)", max_kernels=1, x=((4, 10_000_000), "float32"))
    assert text.count("grid_barrier_wait(semaphores") == 1  # the largest and the sum are one state
    assert "grid_barrier_reset(semaphores" in text
    assert "grid_barrier_wait(" not in source("softmax(x)", x=((4, 10_000_000), "float32"))  # read again by another


def test_a_new_length_compiles_nothing():
    texts = {source("sum(x, -1)", x=((3, n), "float32")) for n in (5_000_000, 5_555_552, 80_000_000)}
    assert len(texts) == 1


def test_rows_that_fill_the_machine_alone_have_a_block_each():
    assert "grid_barrier_wait(" in source("softmax(x)", x=((20, 1_000_000), "float32"))
    assert "grid_barrier_wait(" not in source("softmax(x)", x=((1000, 1_000_000), "float32"))


def test_gangs_are_for_few_rows():
    softmax = 600_000 * 8  # bytes that a row moves
    assert _pays(4, softmax, H200) and _pays(16, 10 * softmax, H200)
    assert not _pays(264, softmax, H200) and not _pays(2048, softmax, H200)
    assert not _pays(512, 2_097_152 * 8, H200)  # group norm
    assert _pays(64, 16_777_216 * 8, H200)  # batch norm


def test_gangs_take_turns_where_single_blocks_come_to_few_waves():
    row = 2_097_152 * 8  # bytes that it moves
    assert _in_turn(896, row, 660, 396, 99, H200) == 24  # group norm: not two waves, of which the second is small
    assert _in_turn(500, row, 660, 396, 99, H200) == 0  # no full wave
    assert _in_turn(896, row // 1000, 660, 396, 99, H200) == 0  # too short for meetings
    text = ("y = group_norm(x, 8, w, b); y * sigmoid(y)", {"w": ((64,), "float32"), "b": ((64,), "float32")})
    texts = {source(text[0], max_kernels=1, x=((n, 64, 512, 512), "float32"), **text[1]) for n in range(110, 120)}
    assert len(texts) <= 3 and all("row_index = int32(row_index + row_groups)" in one for one in texts)


# -- results on a card


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(1, 300_003), (3, 400_000), (17, 70_001)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_long_rows(shape, dtype):
    x = RANDOM.standard_normal(shape).astype(np.float32)
    if dtype == "bfloat16":
        import ml_dtypes

        x = x.astype(ml_dtypes.bfloat16)
    several = "argmax(x, -1), min(x, axis=-1), count_nonzero(x > 0, axis=-1)"
    for text in ("sum(x, -1)", several, "softmax(x)", "var(x, -1)"):
        check(text, {"x": x}, as_torch)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(300_000,), (525, 1031), (64, 64, 101)])
def test_full_reductions(shape):
    x = RANDOM.standard_normal(shape).astype(np.float32)
    texts = ["sum(x)", "mean(x), max(x), argmax(reshape(x, (-1,)))", "x / sqrt(sum(x * x))", "x - mean(x) * var(x)"]
    for text in texts:
        check(text, {"x": x}, as_torch)
    check("sum(x[..., 1:]), max(x[..., ::-1])", {"x": x}, as_torch)


@pytest.mark.gpu
def test_scattered_columns():
    x = RANDOM.standard_normal((24, 6, 90, 80)).astype(np.float32)
    w = RANDOM.standard_normal(6).astype(np.float32)
    for text in ("sum(x, axis=(0, 2, 3))", "max(x, axis=(0, 2, 3)), mean(x, axis=(0, 3))", "group_norm(x, 2)"):
        check(text, {"x": x}, as_torch)
    check("(x - mean(x, axis=(0, 2, 3), keepdims=True)) * w[:, None, None]", {"x": x, "w": w}, as_torch)


@pytest.mark.gpu
def test_nan_ties_and_repeated_calls():
    x = np.zeros(3_000_000, np.float32)
    x[1_234_567] = x[2_000_000] = 7
    check("argmax(x), max(x), sum(x)", {"x": x}, as_torch)
    x[2_999_999] = np.nan
    check("argmax(x), max(x), sum(x)", {"x": x}, as_torch)
    y = as_torch(RANDOM.standard_normal(5_000_000).astype(np.float32))
    for text in ("sum(y)", "y / sqrt(sum(y * y))", "softmax(y)"):
        kernel = fd.kernel(text)
        first = kernel(y)
        assert all((kernel(y) == first).all() for _ in range(20))
