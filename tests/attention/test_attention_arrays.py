"""How score and mask read arrays: at b, h, i and j, or aligned with [i, j]; and what has another meaning, or none."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from test_attention_calls import KEEP, TOKENS, K, Q, V, normal, refused

import fusedsl as fd

# -- arrays that are read without their indices, and scores that are moved

UNINDEXED = {
    "score + m": ((2, 1, 16, 24), 9, "m[b, 0, i, j]"),
    "score + 2 * m": ((4, 16, 24), 13, "m[h, i, j]"),
    "where(j <= i, score, m)": ((2, 16, 24), 22, "m[b, i, j]"),
    "score * m": ((4, 1, 1), 9, "m[h, 0, 0]"),
    "score + m[b, 0, i]": ((2, 1, 16, 24), 9, "m[b, 0, i, j]"),
    "score + m[i]": ((16, 24), 9, "m[i, j]"),
    "score + m[:, None, None]": ((4,), 9, "m[h]"),
    "n = m * 2; score + n": ((2, 1, 1, 24), 20, "n[b, 0, 0, j]"),
    "f(x) = x + score; f(m)": ((2, 4, 1, 24), 21, "m[b, h, 0, j]"),
    "m": ((1, 4, 16, 24), 1, "m[0, h, i, j]"),
    "score - m": ((1, 2, 2, 16, 24), 9, "reshape it to (batch, heads, n, m), and index it: m[b, h, i, j]"),
}


@pytest.mark.parametrize("score", UNINDEXED)
def test_an_array_of_more_axes_than_i_and_j_is_read_at_its_indices(score):
    shape, column, told = UNINDEXED[score]
    found = refused(fd.attention, Q, K, V, score=score, m=normal(*shape))
    assert found[:4] == (fd.ShapeError, "shape.attention", score, column)
    assert found[4].endswith(told)


def test_masks_are_read_at_their_indices_too():
    found = refused(fd.attention, Q, K, V, mask="(j <= i) & m", m=np.ones((2, 1, 16, 24), bool))
    assert found == (fd.ShapeError, "shape.attention", "(j <= i) & m", 12, "index it: m[b, 0, i, j]")


@pytest.mark.parametrize(("shape", "told"), [
    ((2, 16), "index it: m[b, i]"), ((16, 2), "index it: m[i, b]"),
    ((3, 16), "with b, h, i and j: b runs to 2, h runs to 4, i runs to 16, j runs to 24"),
])  # fmt: skip
def test_a_subscript_that_leaves_out_an_index_keeps_those_that_it_has(shape, told):
    found = refused(fd.attention, Q, K, V, mask="m[i] > 0", m=normal(*shape))
    assert found[:4] == (fd.ShapeError, "shape.attention", "m[i] > 0", 1) and found[4].endswith(told)


@pytest.mark.parametrize(
    "mask, read",
    [("m", "m[i, j]"), ("m[0]", "m[0, j]"), ("m[:, :1]", "m[i, 0]"), ("m[:, 1:2] & m[2]", "m[i, 1] & m[2, j]")],
)
def test_rows_and_matrices_align_with_j_and_i_and_j(mask, read):
    found, expected = (fd.attention(Q, K, V, mask=text, m=KEEP) for text in (mask, read))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


# name: the score or mask that reads m, the shape of m, n, where the caret is, and what to write
SEVERAL_MEANINGS = {
    "of heads or keys": ("score + m * (j - i)", (4,), 16, 9, "m[h] or m[j]"),
    "of rows or keys": ("m & (j <= i)", (24,), 24, 1, "m[i] or m[j]"),
    "of sequences or keys": ("m", (2,), 16, 1, "m[b] or m[j]"),
    "of a function": ("f(x) = x + score; f(m)", (24,), 24, 21, "m[i] or m[j]"),
    "before j": ("n = m * j; score + n", (24,), 24, 20, "n[i] or n[j]"),
    "of heads or rows": ("m", (4, 24), 4, 1, "m[h, j] or m[i, j]"),
    "of sequences or rows": ("score + m", (2, 24), 2, 9, "m[b, j] or m[i, j]"),
}


@pytest.mark.parametrize("name", SEVERAL_MEANINGS)
def test_an_array_without_an_index_that_fits_several_is_refused(name):
    text, shape, n, column, told = SEVERAL_MEANINGS[name]
    m = shape[-1]
    q, k, m = normal(2, 4, n, 8), normal(2, 2, m, 8), normal(*shape)
    given = {"score": text, "m": m} if "score" in text else {"mask": text, "m": m > 0}
    found = refused(fd.attention, q, k, k, **given)
    assert found == (fd.ShapeError, "shape.attention", text, column, f"write {told}")


def test_rows_beside_as_many_keys_are_one_meaning():
    q, k = normal(2, 4, 24, 8), normal(2, 4, 24, 8)
    for shape in ((24, 24), (1, 24), (24, 1), (1,), ()):
        assert fd.attention(q, k, k, score="score + m", m=np.ones(shape, np.float32)).shape == q.shape
    again = fd.kernel("attention(q, k, k, score='score + m', m=m)")  # one plan: a call tests the meanings
    assert again(Q, normal(2, 4, 24, 8), normal(24)).shape == (2, 4, 16, 8)
    assert refused(again, q, k, normal(24))[1] == "shape.attention"


def test_arrays_of_all_tokens_of_ragged_sequences_have_no_index():
    tokens, ends, m = normal(24, 2, 8), np.array([0, 10, 24]), normal(24)
    found = fd.attention(tokens, tokens, tokens, offsets=(ends, ends), score="score + m", m=m)
    for begin, end in pairwise(ends):
        one = tokens[begin:end].swapaxes(0, 1)[None]
        expected = fd.attention(one, one, one, score="score + m[j]", m=m[begin:end])
        np.testing.assert_allclose(found[begin:end], expected[0].swapaxes(0, 1), rtol=1e-5, atol=1e-5)
    assert (
        refused(fd.attention, *TOKENS, offsets=(ends, ends), score="score + m[h]", m=normal(3))[1] == "shape.attention"
    )


SHORT = {
    "score + m[i, j, h]": ((4, 16, 24), 11, "write m[h, i, j]"),
    "score + m[i]": ((4,), 11, "write m[h]"),
    "score + m[h, i, j]": ((1, 16, 24), 11, "write m[0, i, j]"),
    "score + m[b, h, i, j]": ((2, 4, 1, 24), 17, "write m[b, h, 0, j]"),
    "score + m[i, j]": ((16, 23), 14, "give it 24 elements, or say what holds beyond: where(j < 23, ..., 0)"),
    "n = 2 * m; score + n[j]": ((16,), 22, "write n[i]"),
}


@pytest.mark.parametrize("score", SHORT)
def test_an_axis_is_as_long_as_its_place_runs(score):
    shape, column, told = SHORT[score]
    found = refused(fd.attention, Q, K, V, score=score, m=normal(*shape))
    assert found == (fd.ShapeError, "shape.attention", score, column, told)


def test_what_is_short_is_said_in_numbers():
    with pytest.raises(fd.ShapeError, match="m has 4 elements along axis 0, and i runs to 16"):
        fd.attention(Q, K, V, score="score + m[i]", m=normal(4))


def test_places_that_are_ended_may_run_beyond_an_array():
    near = normal(9)
    expected = fd.attention(Q, K, V, score="where(j < 9, score + near[clip(j, 0, 8)], score)", near=near)
    found = fd.attention(Q, K, V, score="where(j < 9, score + near[j], score)", near=near)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert not np.isnan(fd.attention(Q, K, V, score="score + near[j]", near=near, lengths=np.array([5, 9]))).any()
    assert not np.isnan(fd.attention(Q, K, V, score="score + far[j]", far=normal(99))).any()


UNPAIRED = {
    "score + m": ((16, 23), "add float32[2, 4, 16, 24] and float32[16, 23]", "m needs 24 elements there, or 1"),
    "score + m * (j - i)": ((4,), "multiply float32[4] and int64[16, 24]", "write m[h]"),
    "m": ((2, 24), "broadcast float32[2, 24] to [2, 4, 16, 24]", "write m[b, j]"),
    "score - m[:, :3]": ((16, 24), "subtract float32[16, 3] from float32[2, 4, 16, 24]", "needs 24 elements there"),
}


@pytest.mark.parametrize("score", UNPAIRED)
def test_shapes_are_shown_with_heads_as_one_axis(score):
    shape, shown, told = UNPAIRED[score]
    with pytest.raises(fd.ShapeError, match=re.escape(f"cannot {shown}")) as caught:
        fd.attention(Q, K, V, score=score, m=normal(*shape))
    assert told in caught.value.help
    with pytest.raises(fd.DTypeError, match=re.escape("float32[2, 4, 16, 24] and a Python int")):
        fd.attention(Q, K, V, score="score & 1")


MOVED = {
    "swapaxes(score, 0, 1)": 1,
    "1 + score[..., ::-1]": 10,
    "score.T": 7,
    "reshape(score, -1)": 1,
    "score - roll(score, 1)": 9,
    "concat([score, score])": 1,
    "score[None]": 6,
    "take_along_axis(2 * score, iota(score, -1), -1)": 1,
    "score - max(score, axis=-1, keepdims=True)": 9,
    "cumsum(score, axis=-1)": 1,
    "where(i[:, None] >= j[None], score, -inf)": 8,
    "score + (h.T - j)": 12,
    "score - flip(i - j, -1)": 9,
}


@pytest.mark.parametrize("score", MOVED)
def test_a_score_is_that_of_its_own_pair(score):
    found = refused(fd.attention, Q, K, V, score=score)
    assert found[:4] == (fd.ArgumentError, "argument.attention", score, MOVED[score])


def test_random_numbers_count_by_positions_and_move_none():
    text = "attention(x, x, x, score='where(uniform(7, score) < 0.5, score, -inf)')"
    assert fd.evaluate(text, x=Q).shape == Q.shape


def test_what_only_has_the_shape_of_scores_is_none_of_their_moves():
    for score in ("where(uniform(7, score) < 0.5, score, -inf)", "tril(score) + zeros_like(score)", "float16(score)"):
        assert fd.attention(Q, K, V, score=score).shape == (2, 4, 16, 8)
    assert fd.attention(Q, K, V, score="score + t[h, ids]", t=normal(4, 9), ids=np.ones((16, 24), int)).ndim == 4


@pytest.mark.parametrize(
    ("read", "axis", "shape"),
    [("m[..., j]", 0, (3,)), ("m[None, j]", 0, (3,)), ("m[i, ..., j]", 1, (16, 3)), ("m[..., j, 0]", 0, (3, 1))],
)
def test_subscripts_with_none_or_an_ellipsis_are_checked_as_others(read, axis, shape):
    q, k = np.zeros((1, 1, 16, 8), np.float32), np.zeros((1, 1, 6, 8), np.float32)
    with pytest.raises(fd.ShapeError, match=f"m has 3 elements along axis {axis}, and j runs to 6"):
        fd.attention(q, k, k, score=f"score + {read}", m=np.zeros(shape, np.float32))
