"""Code size of attention kernels: expensive values are computed once for masked and full tiles, integers in 32 bits if
they fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from written import instructions

import fusedsl as fd
from fusedsl.ir.types import INT64

pytest.importorskip("numba_cuda")
from fusedsl.backends.cuda.math.half_precision import TANH_DENOMINATOR, TANH_END, TANH_NUMERATOR
from fusedsl.backends.cuda.peephole.narrow_integers import INDICES, narrowed

CAUSAL = "iota(s, -1) <= iota(s, -2)"
LINE = "s = q @ k.mT * 0.125\n"
INTEGER = ("remainder", "floor_divide", "absolute")  # operations whose dtype lines do not say


def narrow(lines, ranges):
    """Lines of a body, with integers that fit in 32 bits."""
    return list(map(str, narrowed(instructions(*lines), ranges)))


def source(text, width=128):
    kernel = fd.kernel(LINE + text)
    arrays = [fd.spec((1, 8, 2048, width), "bfloat16") for _ in kernel.params]
    return kernel.source(*arrays, device="cuda")


def test_dear_values_of_scores_are_computed_before_masks_and_no_others():
    capped = source(f"softmax(where({CAUSAL}, 30 * tanh(s / 30), -inf)) @ v")
    assert capped.count(" = hoisted_0(score_0") == 2  # of the first tile, and in the loop
    assert capped.count("= tanh(") == 3  # there, and twice where rows are summed again
    assert "hoisted_0" not in source(f"softmax(where({CAUSAL}, s, -inf)) @ v")
    assert "hoisted_0" not in source(
        f"softmax(where({CAUSAL}, where(s > 0, tanh(s), s), -inf)) @ v"
    )  # scores are read too


def test_wide_rows_keep_dear_values_where_they_are_used():
    capped = source(f"softmax(where({CAUSAL}, 30 * tanh(s / 30), -inf)) @ v", 256)
    assert "early_" not in capped
    assert 'approx("tanh")' in capped


def test_what_is_the_same_for_all_elements_keeps_no_dear_value_from_standing_before_masks():
    made = source(f"where({CAUSAL}, sigmoid(s - log(1.0 * size(s, -1))), 0) @ v", 64)
    assert made.count(" = hoisted_0(score_0") == 2
    assert made.count("= logistic(") == 2  # there, and where rows are summed again


def test_the_first_tile_of_wide_rows_stands_in_a_kernel_once():
    masked = f"softmax(where({CAUSAL}, s, -inf)) @ v"
    assert [source(masked, width).count(" = partial_1(") for width in (128, 256)] == [3, 2]
    assert source("softmax(s) @ v", 256).count(" = partial_1(") == 3  # no tile has a mask: the first one is as dear


def test_a_value_that_stands_for_the_scores_is_not_computed_again():
    text = f"softmax(where({CAUSAL}, s + slope[:, None, None] * (iota(s, -1) - iota(s, -2)), -inf)) @ v"
    kernel = fd.kernel(LINE + text)
    arrays = [
        fd.spec((8,), "float32") if n == "slope" else fd.spec((1, 8, 2048, 128), "bfloat16") for n in kernel.params
    ]
    made = kernel.source(*arrays, device="cuda")
    assert "def partial_1(where_0, " in made
    assert "def full_1(add_" in made


@pytest.mark.parametrize(
    "text",
    [
        f"softmax(where({CAUSAL}, 30 * tanh(s / 30), -inf)) @ v",
        "softmax(where((iota(s, -2) - iota(s, -1)) % 3 == 0, s, -inf)) @ v",
        f"softmax(where(({CAUSAL}) & ((iota(s, -2) - iota(s, -1)) % 4 == 0), s, -inf)) @ v",
    ],
)
def test_dear_formulas_have_little_more_code_than_a_causal_mask(text):
    from fusedsl.backends.cuda import compile
    from fusedsl.report.explain import resolved_call

    def code(formula):
        kernel = fd.kernel(LINE + formula)
        arrays = [fd.spec((1, 8, 2048, 128), "bfloat16") for _ in kernel.params]
        case = resolved_call(kernel._program, arrays, "cuda", 90)
        (members,) = case.launches
        scheduled, schedule = case.scheduled(*members[0])
        written = compile.generate(scheduled, schedule)
        return compile.compile_source(written, "attend.py", scheduled, schedule, (9, 0))

    found = code(text)
    assert len(found.code) < 1.7 * len(code(f"softmax(where({CAUSAL}, s, -inf)) @ v").code)


def narrowed_lines(lines, ranges):
    """The lines of a body, with integers that fit computed in 32 bits."""
    body = [replace(i, dtype=INT64) if i.op in INTEGER else i for i in instructions(*lines)]
    return [str(i) for i in narrowed(body, ranges)]


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("a = int64(i - j)", "a = int64(int32(i - j))"),
        ("a = int64(i + j)", "a = int64(int32(i + j))"),
        ("a = int64(i * j)", "a = int64(i * j)"),
        ("a = int64(i - int64(1024))  # i - 1024", "a = int64(int32(i - int64(1024)))  # i - 1024"),
        ("a = remainder(i, int64(3))", "a = int64(remainder(uint32(i + 0), uint32(3)))"),
        ("a = remainder(i, n)", "a = remainder(i, n)"),
        ("a = remainder(i, int64(1099511627776))", "a = remainder(i, int64(1099511627776))"),
        ("a = absolute(x)", "a = absolute(x)"),
        ("a = x * y", "a = x * y"),
    ],
)
def test_integers_that_fit_are_computed_in_32_bits(line, made):
    assert narrow([line], {"i": INDICES, "j": INDICES}) == [made]


@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 7, 4096, 10007, 1 << 30])
def test_floored_divisions_of_numbers_below_0_are_those_of_a_number_that_is_not(divisor):
    lines = ["d = int64(i - j)", f"r = remainder(d, int64({divisor}))", f"q = floor_divide(d, int64({divisor}))"]
    assert all("uint32" in line for line in narrow(lines, {"i": INDICES, "j": INDICES})[1:])
    names = {"int64": np.int64, "int32": np.int32, "uint32": lambda x: np.uint32(x & 0xFFFFFFFF)}
    names |= {"remainder": np.remainder, "floor_divide": np.floor_divide}
    for i, j in ((0, INDICES[1]), (INDICES[1], 0), (5, 5), (1, 3), (0, divisor), (7, 8)):
        given = dict(names, i=np.int64(i), j=np.int64(j))
        exec("\n".join(narrow(lines, {"i": INDICES, "j": INDICES})), given)
        assert (given["r"], given["q"]) == ((i - j) % divisor, (i - j) // divisor)


def test_what_is_beyond_32_bits_is_computed_in_64():
    lines = ["r = remainder(i, int64(4294967295))", "s = absolute(r)", "q = floor_divide(r, int64(1))"]
    assert narrow(lines, {"i": INDICES})[1:] == lines[1:]


def test_the_quick_tanh_is_within_its_bound_and_never_above_1():
    x = np.concatenate([np.linspace(0, 12, 200_001), np.geomspace(1e-38, 12, 200_001)]).astype(np.float32)
    least = np.minimum(x, np.float32(TANH_END))
    square = least * least
    above, below = (np.full_like(x, c) for c in (TANH_NUMERATOR[-1], 1))
    for c in TANH_NUMERATOR[-2::-1]:
        above = (above.astype(np.float64) * square + np.float32(c)).astype(np.float32)
    for c in TANH_DENOMINATOR[::-1]:
        below = (below.astype(np.float64) * square + np.float32(c)).astype(np.float32)
    found = above * least * (1 / below.astype(np.float64)).astype(np.float32)
    exact = np.tanh(x.astype(np.float64))
    assert found.max() <= 1
    with np.errstate(invalid="ignore"):
        assert np.nanmax(np.abs(found / exact - 1)) < 2**-20.9
