"""Column reductions, over outer and middle axes: vectors across columns, split rows, and results."""

import re

import numpy as np
import pytest
from test_targets import as_torch, check

import fusedsl as fd
from fusedsl.backends.cuda.split_heuristics import choose_blocks_per_row
from fusedsl.hardware import hardware_facts
from fusedsl.ir.types import BFLOAT16, FLOAT32, INT8
from fusedsl.kernel_ir.memory_access import merge_row_axes, prefers_row_axis_vectors, row_axis_access

H200 = hardware_facts((9, 0))
RANDOM = np.random.default_rng(11)


def figures(text, cc=90, **specs):
    """What the compiler says of a text's kernels."""
    given = {name: fd.spec(shape, dtype) for name, (shape, dtype) in specs.items()}
    return fd.kernel(text).resources(**given, cc=cc)


def source(text, max_kernels=None, **specs):
    given = {name: fd.spec(shape, dtype) for name, (shape, dtype) in specs.items()}
    return fd.kernel(text, max_kernels=max_kernels).source(**given, device="cuda")


# -- layouts


def across(rows, columns, strides, dtypes=(FLOAT32,), addresses=None, words=1):
    merged, split = merge_row_axes(rows, columns, strides)
    addresses = addresses or (0,) * len(strides)
    return prefers_row_axis_vectors(merged, split, dtypes), row_axis_access(merged, split, dtypes, addresses, words)


def test_arrays_lie_across_where_a_kept_axis_is_the_nearest():
    assert across((64,), (100,), ((1, 64), (1, 0)), (FLOAT32,) * 2)[0]
    assert not across((64,), (100,), ((100, 1), (1, 0)), (FLOAT32,) * 2)[0]
    assert not across((), (100,), ((1,), (0,)), (FLOAT32,) * 2)[0]


@pytest.mark.parametrize(
    ("extent", "dtype", "address", "words", "width"),
    [
        (64, FLOAT32, 0, 1, 4),
        (64, BFLOAT16, 0, 1, 8),
        (62, FLOAT32, 0, 1, 2),
        (63, FLOAT32, 0, 1, 1),
        (64, FLOAT32, 8, 1, 2),
        (64, INT8, 0, 2, 8),
        (64, BFLOAT16, 0, 3, 4),
    ],
)
def test_vectors_across_are_as_wide_as_alignment_and_states_allow(extent, dtype, address, words, width):
    strides = ((1, extent), (1, 0))
    found, lines, access = across((extent,), (100,), strides, (dtype, FLOAT32), (address, 0), words)[1]
    assert found == width
    assert lines == ("1s", "10")
    assert access[0] == "vector"


def test_few_strips_are_split_so_that_the_last_wave_is_nearly_full():
    assert choose_blocks_per_row(10_000, 50, 528) == 1
    assert choose_blocks_per_row(1, 10_000, 528) == 528
    assert choose_blocks_per_row(1, 3, 528) <= 3
    for items in (2, 100, 300, 530, 600, 1000):
        parts = choose_blocks_per_row(items, 1000, 528)
        waves = -(-items * parts // 528)
        assert items * parts / (waves * 528) > 0.9


def test_strips_with_a_block_each_are_as_wide_as_makes_the_fewest_turns():
    def told(*shape):
        return str(fd.kernel("sum(x, 0)").explain(device="cuda", x=fd.spec(shape, "bfloat16")))

    assert "blocks of 256 × 1 threads, vectors of 8 columns" in told(16, 1 << 24)
    assert "blocks of 256 × 1 threads, vectors of 8 columns" in told(256, 1 << 20)
    assert "blocks of 16 × 16 threads, vectors of 8 columns" in told(16384, 16384)  # several blocks share a strip
    assert "8 a thread in flight (128 bytes); 66 blocks share" in told(1 << 20, 256)  # rather than twice as many


# -- machine code

CASES = [
    ("sum(x, axis=0)", (4096, 4096), "float32"),
    ("sum(x, axis=0)", (4096, 4096), "bfloat16"),
    ("max(x, axis=1)", (128, 4096, 4095), "float32"),
    ("argmin(x, axis=1)", (128, 4096, 4095), "float32"),
    ("sum(x, axis=0), argmax(x, axis=0)", (1_000_000, 64), "float16"),
    ("sum(x, axis=0)", (10_000_000, 3), "float32"),
    ("var(x, axis=0)", (100_000, 4096), "float32"),
    ("sum(x, axis=(0, 2))", (100, 40, 100, 64), "float32"),
    ("sum(x, axis=0), argmin(x, axis=0)", (100_000, 4096), "int8"),
    ("any(x, axis=0), all(x, axis=0)", (100_000, 4096), "bool"),
    ("prod(x, axis=0)", (100_000, 4096), "float64"),
    ("softmax(x, axis=1)", (128, 128, 16384), "float32"),
    ("softmax(x, axis=1)", (128, 128, 16384), "bfloat16"),
    ("softmax(x, axis=0)", (300, 4096), "float32"),
    ("softmax(x, axis=0)", (100_000, 4096), "float32"),
    ("x * rsqrt(mean(x * x, axis=1, keepdims=True) + 1e-6)", (112, 64, 512, 512), "float32"),
    ("sum(x, axis=0)", (1 << 20, 4096), "float32"),
    ("x - mean(x, axis=0)", (1_000_000, 64), "float32"),
    ("softmax(x, axis=0), var(x, axis=0)", (1_000_000, 64), "bfloat16"),
    ("layer_norm(x, axis=0)", (100_000, 640), "float32"),
]


@pytest.mark.parametrize(("text", "shape", "dtype"), CASES)
def test_columns_compile_without_spills(text, shape, dtype):
    for cc in (80, 90, 100):
        report = figures(text, cc, x=(shape, dtype))
        assert all(kernel.figures.spill_bytes == 0 for kernel in report), (cc, str(report))


def test_what_several_tiles_sum_is_what_they_are_above_their_mean_and_that_as_often():
    """Deviations from the first tile's mean are summed anyway: the values need no sum of their own in later tiles."""
    source = fd.kernel("var(x, axis=0), mean(x, axis=0)").source(fd.spec((100_000, 4096), "bfloat16"), device="cuda")
    first, _, after = source.partition("while (tiles <")
    later, found, after = after.partition("= implied_0(")
    assert found and "sum_0, reduce_sum" not in later and "sum_2, reduce_sum" in later
    assert first.count("reduce_sum(") == 4 and re.search(r"return add_\d", source.partition("def implied_0")[2])


def test_strips_that_stay_in_registers_are_read_once():
    text = source("softmax(x, axis=1)", x=((128, 128, 16384), "float32"))
    assert text.count("= load_") == 1
    assert "while" not in text


def test_one_block_of_a_split_strip_finishes_it():
    text = source("sum(x, axis=0)", x=((1_000_000, 64), "float32"))
    assert "if not is_last_block(semaphores, strip_index, splits):" in text
    assert text.count("store_row") == 2
    assert "if splits > 1:" in text  # of a binary that other launches run with a block for each strip


def test_blocks_of_a_strip_meet_where_elements_need_the_result():
    text = source("x - mean(x, axis=0)", x=((1_000_000, 64), "float32"))
    assert text.count("grid_barrier_wait(semaphores, strip_index * 2, arrivals)") == 1
    assert text.count("grid_barrier_reset(semaphores, strip_index * 2, splits)") == 1
    assert "grid_barrier_wait(" not in source("x - mean(x, axis=0)", x=((100_000, 1_000_000), "float32"))


# -- results on a card

SHAPES = [(1, 5), (2, 1), (3, 4), (7, 64), (33, 31), (64, 33), (257, 96), (1000, 3), (5, 4100), (129, 130), (3001, 20)]


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_folds_over_the_first_axis(shape, dtype):
    given = {"x": _random(shape, dtype), "w": _random(shape[:1], dtype), "b": _random(shape[1:], dtype)}
    texts = ["sum(x, axis=0)", "max(x, axis=0), argmin(x, axis=0)", "sum(x * w[:, None], axis=0) + b", "var(x, axis=0)"]
    for text in [*texts, "softmax(x, axis=0)", "(x - mean(x, axis=0)) * b", "sum(x * w[:, None] - b, axis=0)"]:
        check(text, given, as_torch)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 64, 32), (17, 300, 12), (4, 1, 8), (6, 33, 129), (3, 40, 5, 6)])
def test_folds_over_a_middle_axis(shape):
    given = {"x": _random(shape, "float32")}
    texts = ["sum(x, axis=1)", "argmax(x, axis=1), min(x, axis=1)", "softmax(x, axis=1)", "sum(x, axis=(0, 2))"]
    texts += ["prod(x * 0.1 + 1, axis=1), count_nonzero(x > 0, axis=1)", "std(x, axis=1, keepdims=True) * x"]
    for text in texts:
        check(text, given, as_torch)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(50_000, 3), (70_001, 64), (300_000, 1, 5), (4099, 130), (20_000, 17)])
def test_split_strips(shape):
    given = {"x": _random(shape, "float32")}
    for text in ["sum(x, axis=0)", "argmax(x, axis=0), sum(x * x, axis=0), count_nonzero(x > 1, axis=0)"]:
        for _ in range(3):
            check(text, given, as_torch)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(50_000, 3), (30_001, 40), (4, 20_000, 17)])
def test_strips_whose_blocks_meet(shape):
    given = {"x": _random(shape, "float32")}
    for text in ("x - mean(x, axis=-2, keepdims=True)", "softmax(x, axis=-2)", "layer_norm(x, axis=-2)"):
        check(text, given, as_torch)


@pytest.mark.gpu
def test_split_strips_give_the_same_bits_and_leave_their_tickets():
    x = as_torch(_random((200_000, 40), "float32"))
    kernel = fd.kernel("sum(x, axis=0)")
    first = kernel(x)
    for _ in range(20):
        assert (kernel(x) == first).all()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bool", "float16"])
def test_other_dtypes_over_the_first_axis(dtype):
    for shape in ((300, 64), (41, 7), (5000, 16)):
        given = {"x": _random(shape, dtype)}
        for text in ("sum(x, axis=0)", "argmax(x, axis=0), max(x, axis=0)", "any(x, axis=0), all(x, axis=0)"):
            check(text, given, as_torch)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "bool"])
def test_what_a_row_body_reads_is_stored_as_it_was_read(dtype):
    given = {"x": _random((100, 33), "float32"), "b": _random((33,), dtype)}
    check("sum(x, axis=0) + b, b", given, as_torch)


@pytest.mark.gpu
def test_nan_infinities_and_ties_across():
    x = RANDOM.integers(-3, 4, (700, 65)).astype(np.float32)
    x[13, 5], x[400, 5], x[2, 6], x[3, 7], x[9, 8] = np.nan, np.nan, np.inf, -np.inf, np.nan
    x[:, 9] = -np.inf
    for text in ("argmax(x, axis=0), argmin(x, axis=0)", "max(x, axis=0), min(x, axis=0)", "sum(x, axis=0)"):
        check(text, {"x": x}, as_torch)


@pytest.mark.gpu
def test_strided_and_reversed_operands():
    x = _random((300, 130), "float32")
    for part in ("[:, ::2]", "[::-1, ::-1]", "[:, 1:]", "[1:, 3:]"):
        check(f"sum(x{part}, axis=0)", {"x": x}, as_torch)
    check("sum(x * y.T, axis=0)", {"x": x, "y": _random((130, 300), "float32")}, as_torch)
    check("x + iota(x, 0) * 0.5 - sum(x * iota(x, 1), axis=0)", {"x": x}, as_torch)


def _random(shape, dtype):
    if dtype in ("int8", "uint8", "int32", "int64"):
        return RANDOM.integers(0 if dtype == "uint8" else -50, 50, shape).astype(dtype)
    if dtype == "bool":
        return RANDOM.random(shape) > 0.3
    x = RANDOM.standard_normal(shape) * 2
    if dtype == "bfloat16":
        import ml_dtypes

        return x.astype(ml_dtypes.bfloat16)
    return x.astype(dtype)


def test_one_block_sums_a_strip_where_strips_fill_the_card():
    x, w = fd.spec((1, 4096), "bfloat16"), fd.spec((4096, 14336), "bfloat16")
    told = fd.kernel("relu(x @ w)").explain(x, w, cc=(9, 0), compile=False)
    assert "16 a thread in flight (256 bytes)" in str(told) and "share a strip" not in str(told)
    assert told.seconds < 35e-6  # its columns do not wait for each other
