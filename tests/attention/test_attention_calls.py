"""What calls of attention refuse, each with its class, its place and the form to use."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.lang.foreign_names import ATTENTION

RANDOM = np.random.default_rng(5)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


Q, K, V = normal(2, 4, 16, 8), normal(2, 2, 24, 8), normal(2, 2, 24, 8)
LENGTHS, KEEP = np.array([5, 24]), RANDOM.random((16, 24)) < 0.5
TOKENS = [x[0].swapaxes(0, 1) for x in (Q, K, V)]


def refused(call, *args, **named):
    with pytest.raises(fd.FusedslError) as caught:
        call(*args, **named)
    error = caught.value
    return type(error), error.code, error.text, error.column, error.help


# -- keywords


@pytest.mark.parametrize(
    ("keyword", "told"),
    [
        ("causal=True", "write mask='j <= i'"),
        ("is_causal=1", "write mask='j <= i'"),
        ("window=5", "j > i - w"),
        ("window=(5, 0)", "j > i - w"),
        ("dropout=0.5", "where(uniform(seed, p) < keep, p / keep, 0) @ v"),
        ("softmax_scale=0.5", "write scale=..."),
        ("scal=0.5", "did you mean scale?"),
        ("lenghts=k", "did you mean lengths?"),
        ("msk='j <= i'", "did you mean mask?"),
        ("score_mod=k", "write score='...'"),
        ("window_size=(5, 0)", "mask='(j >= i - left) & (j <= i + right)'"),
        ("enable_gqa=True", "leave it out"),
        ("block_mask=k", "leave it out: tiles"),
        ("cu_seqlens_q=k", "write offsets=(cu_seqlens_q, cu_seqlens_k)"),
        ("cache_seqlens=k", "write lengths=..."),
        ("block_table=k", "write pages=..."),
        ("sinks=k", "z = sink[:, None, None]"),
        ("banana=k", "they read no names"),
    ],
)
def test_a_keyword_that_neither_score_nor_mask_reads_is_unknown(keyword, told):
    text, name = f"attention(q, k, v, {keyword})", keyword.partition("=")[0]
    lead = f"attention has no keyword {name}" if name != "banana" else "neither score nor mask reads 'banana'"
    with pytest.raises(fd.UnknownNameError, match=lead):
        fd.evaluate(text, q=Q, k=K, v=V)
    kind, code, drawn, column, help = refused(fd.evaluate, text, q=Q, k=K, v=V)
    assert (kind, code, drawn, column) == (fd.UnknownNameError, "name.keyword", text, 20)
    assert told in help
    with pytest.raises(fd.ArgumentError, match=lead):
        fd.attention(Q, K, V, **{name: K})
    kind, code, _, column, other = refused(fd.attention, Q, K, V, **{name: K})
    assert (kind, code, column, other) == (fd.ArgumentError, "argument.unused", None, help)


def test_options_are_guessed_too():
    assert refused(fd.attention, Q, K, V, fastmat=True)[4] == "did you mean fastmath?"


def test_an_array_that_a_text_calls_is_read_in_square_brackets():
    text = "attention(q, k, v, mask='doc(i) == doc(j)', doc=d)"
    found = refused(fd.evaluate, text, q=Q, k=K, v=V, d=np.arange(24))
    assert found == (fd.UnknownNameError, "name.function", "doc(i) == doc(j)", 1, "write doc[i]")
    assert refused(fd.attention, Q, K, V, mask="doc(i) == doc(j)", doc=np.arange(24)) == found


def test_names_that_a_text_reads_are_meant_too():
    text = "attention(q, k, v, score='score + slope[h]', slop=x)"
    assert refused(fd.evaluate, text, q=Q, k=K, v=V, x=K)[4] == "did you mean slope?"


@pytest.mark.parametrize(
    ("mask", "read", "meant"),
    [
        ("j <= i & i - j < 8", "j <= (i & (i - j)) < 8", "(j <= i) & (i - j < 8)"),
        ("i < j < 9 | j == i", "i < j < (9 | j) == i", "(i < j < 9) | (j == i)"),
    ],
)
def test_a_chain_around_bits_says_how_it_would_be_read(mask, read, meant):
    with pytest.raises(fd.ParseError) as caught:
        fd.attention(Q, K, V, mask=mask)
    assert caught.value.code == "parse.chain"
    assert read in caught.value.message and meant in caught.value.help
    fd.attention(Q, K, V, mask=read)
    fd.attention(Q, K, V, mask=meant)


@pytest.mark.parametrize("name", ["dropout", "sinks"])
def test_what_is_to_be_said_as_text_is_one(name):
    text = ATTENTION[name].removeprefix("write it as an expression: ")
    given = {"scale": 0.3, "seed": 7, "keep": 0.9, "sink": normal(4)}
    kernel = fd.kernel(text)
    arrays = {"q": Q, "k": normal(2, 4, 24, 8), "v": normal(2, 4, 24, 8), **given}
    assert kernel(*(arrays[n] for n in kernel.params)).shape == (2, 4, 16, 8)


@pytest.mark.parametrize("name", ["mask", "scale", "lengths", "offsets", "pages", "return_lse", "device", "mask_"])
def test_arrays_may_be_called_as_keywords_are(name):
    expected = fd.attention(Q, K, V, mask="m[i, j]", m=KEEP, scale=0.3, lengths=LENGTHS)
    named = {"mask": f"{name}[i, j]", "scale": 0.3, "lengths": LENGTHS}
    np.testing.assert_array_equal(fd.attention(Q, K, V, arrays={name: KEEP}, **named), expected)


def test_a_name_and_the_same_with_a_line_behind_are_two():
    given = {"mask": KEEP, "mask_": ~KEEP}
    assert (fd.attention(Q, K, V, mask="mask[i, j] & mask_[i, j]", arrays=given) == 0).all()


def test_a_name_in_arrays_is_a_string_and_no_keyword_besides():
    found = refused(fd.attention, Q, K, V, mask="x[i, j]", arrays={"x": KEEP}, x=~KEEP)
    assert found[:2] == (fd.ArgumentError, "argument.twice")
    with pytest.raises(fd.ArgumentError, match="arrays names an array 1, which is no string"):
        fd.attention(Q, K, V, arrays={1: KEEP})


def test_arrays_is_a_mapping_of_names_that_texts_may_give_another_meaning():
    assert refused(fd.attention, Q, K, V, arrays=[KEEP])[:2] == (fd.ArgumentError, "argument.mapping")
    assert refused(fd.attention, Q, K, V, mask="k[i, j]", arrays={"k": KEEP})[:2] == (
        fd.ArgumentError,
        "argument.attention",
    )
    assert refused(fd.attention, Q, K, V, mask="out[i, j]", arrays={"out": KEEP})[:2] == (
        fd.ArgumentError,
        "argument.name",
    )


# -- kinds of operands


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        ({"scale": normal(4, 1, 1)}, fd.ShapeError, "score='score * scales[h]'"),
        ({"scale": normal(1)}, fd.ShapeError, "score='score * scales[h]'"),
        ({"scale": True}, fd.DTypeError, "cast to float32"),
        ({"lengths": LENGTHS / 2}, fd.DTypeError, "cast to int32"),
        ({"lengths": LENGTHS > 9}, fd.DTypeError, "mask='keep[b, j]'"),
        ({"lengths": LENGTHS[None]}, fd.ShapeError, "one for each sequence"),
        ({"lengths": 5}, fd.ShapeError, "one for each sequence"),
        ({"pages": normal(2, 3)}, fd.DTypeError, "cast to int32"),
        ({"pages": LENGTHS}, fd.ShapeError, "one row for each sequence"),
    ],
)
def test_numbers_beside_the_operands(given, kind, told):
    found = refused(fd.attention, Q, K, V, **given)
    (name,) = given
    assert found[0] is kind and found[2].endswith(f"{name}={name})") and found[3] == len(f"attention(q, k, v, {name}=*")
    assert told in found[4]


def test_offsets():
    found = refused(fd.attention, *TOKENS, offsets=(LENGTHS, LENGTHS / 2))
    assert found[0] is fd.DTypeError and found[2][found[3] - 1 :] == "offsets_of_k))"
    assert "where each sequence begins" in refused(fd.attention, *TOKENS, offsets=(LENGTHS, 5))[4]
    found = refused(fd.attention, *TOKENS, offsets=(np.array([0, 16]), np.array([0, 3, 24])))
    assert "an element more than there are sequences" in found[4]


@pytest.mark.parametrize(
    ("operands", "told"),
    [
        ((Q, K, V[:, :1]), "pairs of heads"),
        ((Q[:, :3], K, V), "multiple"),
        ((Q, K, V[:, :, :5]), "pass lengths="),
        ((Q[..., :4], K, V), "pad the other with zeros"),
        ((Q, K[[0, 1, 1]], V), "or 1 for all of it"),
    ],
)
def test_extents_that_differ_are_told_what_fits_them(operands, told):
    assert told in refused(fd.attention, *operands)[4]


def test_offsets_are_arrays_of_elements():
    ends = np.array([0, 16])
    for offsets, place in (((ends[:0], ends), "q"), ((ends, ends[:0]), "k")):
        found = refused(fd.attention, *TOKENS, offsets=offsets)
        assert found[:2] == (fd.ShapeError, "shape.attention") and found[2][found[3] - 1 :].startswith(
            f"offsets_of_{place}"
        )
    with pytest.raises(fd.ArgumentError, match=re.escape("offsets[1] is None")):
        fd.attention(*TOKENS, offsets=(ends, None))
    wanted = fd.attention(*TOKENS, offsets=(ends, np.array([0, 24])))
    assert np.array_equal(fd.attention(*TOKENS, offsets=([0, 16], [0, 24])), wanted)
    assert "offsets=(cu_seqlens_q, cu_seqlens_k)" in refused(fd.attention, *TOKENS, offsets=[ends, ends])[4]
    text = "attention(q, k, v, offsets=q)"
    assert refused(fd.evaluate, text, q=Q, k=K, v=V)[4] == "offsets=(cu_seqlens_q, cu_seqlens_k)"
    found = refused(fd.attention, *TOKENS, offsets=(ends, ends), pages=ends[None])
    assert found[:2] == (fd.Unsupported, "unsupported.attention")


PAGES = np.zeros((2, 3), np.int32)


@pytest.mark.parametrize(
    ("k", "pages", "message", "told"),
    [
        ((5, 8, 3, 8), PAGES, "4 heads of q cannot share 3 of k", "(pages, page, kv_heads, d)"),
        ((5, 2, 8, 8), PAGES, "4 heads of q cannot share 8 of k", "write k.swapaxes(1, 2)"),
        (
            (5, 8, 2, 8),
            PAGES[[0, 0, 1]],
            "one batch of q and pages, or 1 in pages: float32[2, 4, 16, 8] and",
            "a row for",
        ),
    ],
)
def test_keys_in_pages_are_told_as_they_were_passed(k, pages, message, told):
    with pytest.raises(fd.ShapeError, match=re.escape(message)) as caught:
        fd.attention(Q, normal(*k), normal(*k), pages=pages)
    assert told in caught.value.help and "24" not in str(caught.value)


def test_axes_that_stand_elsewhere():
    q, k = normal(2, 17, 4, 8), normal(2, 24, 2, 8)
    with pytest.raises(fd.ShapeError, match="17 heads of q cannot share 24 of k") as caught:
        fd.attention(q, k, k)
    assert "is it (batch, n, heads, d)?" in caught.value.help and "q.swapaxes(1, 2)" in caught.value.help
    assert "goes with offsets=" in refused(fd.attention, *TOKENS)[4]
    ends = np.array([0, 16])
    assert "offsets= cuts (tokens, heads, d)" in refused(fd.attention, Q, K, V, offsets=(ends, ends))[4]


def test_no_heads_at_all_are_an_empty_result():
    out, lse = fd.attention(Q[:, :0], K[:, :0], V[:, :0], mask="j <= i", return_lse=True)
    assert out.shape == (2, 0, 16, 8) and lse.shape == (2, 0, 16)
    assert refused(fd.attention, Q, K[:, :0], V[:, :0])[1] == "shape.attention"


# -- texts and what they read


def test_a_score_that_is_a_condition_is_a_mask():
    found = refused(fd.attention, Q, K, V, score="j <= i")
    assert found == (fd.DTypeError, "dtype.attention", "j <= i", 1, "a condition is a mask: mask='j <= i'")


@pytest.mark.parametrize(
    ("mask", "told"),
    [
        ("m[i, j]", "write m[i, j] != 0, or score='score + m[i, j]'"),
        ("j - i", "write j - i != 0"),
        ("n = m[i, j]; n", "compare it, e.g. doc[i] == doc[j]"),
    ],
)
def test_a_mask_that_is_a_number_is_compared(mask, told):
    given = {"m": normal(16, 24)} if "m[" in mask else {}
    assert refused(fd.attention, Q, K, V, mask=mask, **given)[4] == told


@pytest.mark.parametrize(
    ("given", "kind", "column"),
    [
        ({"score": "score + 10**400"}, fd.LimitError, 11),
        ({"mask": "j < (1 << 2000)"}, fd.LimitError, 8),
        ({"mask": "x[i] + 99999999 > 3", "x": np.ones(16, np.int8)}, fd.DTypeError, 8),
        ({"score": "score & 1"}, fd.DTypeError, 7),
    ],
)
def test_faults_of_numbers_are_drawn_in_their_text(given, kind, column):
    found = refused(fd.attention, Q, K, V, **given)
    assert (found[0], found[2], found[3]) == (kind, next(iter(given.values())), column)


@pytest.mark.parametrize(
    ("mask", "told"),
    [
        ("kv_idx <= i", "write j"),
        ("j <= q_idx", "write i"),
        ("j < pages[b, 0]", "again, by another name"),
        ("j < w", "give it to attention by name: w=..."),
    ],
)
def test_names_that_nobody_gives(mask, told):
    found = refused(fd.attention, Q, K, V, mask=mask, lengths=LENGTHS)
    assert found[:2] == (fd.UnknownNameError, "name.value") and told in found[4]


def test_score_and_mask_read_the_lengths():
    given = {"lengths": LENGTHS}
    wanted = fd.attention(Q, K, V, mask="j < m[b] - 2", score="score * (j - m[b])", m=LENGTHS, **given)
    found = fd.attention(Q, K, V, mask="j < lengths[b] - 2", score="score * (j - lengths[b])", **given)
    assert np.array_equal(found, wanted)
    text = "attention(q, k, v, mask='j < lengths[b] - 2', score='score * (j - lengths[b])', lengths=n)"
    assert np.array_equal(fd.evaluate(text, q=Q, k=K, v=V, n=LENGTHS), wanted)
    assert refused(fd.attention, Q, K, V, mask="j < lengths[b]")[4] == "pass lengths=..., which score and mask may read"


def test_what_a_quoted_text_reads_is_given_inside_the_call():
    text, told = "attention(q, k, v, mask='j < w')", "the mask reads it: write w=w inside attention(...)"
    assert refused(fd.evaluate, text, q=Q, k=K, v=V, w=3)[4] == told
    assert refused(fd.kernel(text), Q, K, V, w=3)[4] == told


def test_functions_are_to_be_quoted():
    with pytest.raises(fd.ArgumentError, match=re.escape("as an expression of b, h, i and j, e.g. mask='j <= i'")):
        fd.attention(Q, K, V, mask=lambda b, h, i, j: j <= i)
    with pytest.raises(fd.ArgumentError, match=re.escape("e.g. score='score + slope[h] * (j - i)'")):
        fd.attention(Q, K, V, score=lambda score, b, h, i, j: score)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"mask": KEEP}, "write mask='m[i, j]', m=..."),
        ({"mask": KEEP[0]}, "write mask='m[j]', m=..."),
        ({"mask": KEEP[None, None]}, "write mask='m[0, 0, i, j]', m=..."),
        ({"mask": KEEP[[0, 1]][:, None, None]}, "write mask='m[b, 0, 0, j]', m=..."),
        ({"score": normal(4, 16, 24)}, "or m[b, i, j] where its first axis is of sequences"),
        ({"mask": True}, "quote it, e.g. mask='j <= i'"),
        ({"score": 1.0}, "quote it, e.g. score='score + slope[h] * (j - i)'"),
    ],
)
def test_arrays_for_texts_are_told_how_they_are_read(given, told):
    found = refused(fd.attention, Q, K, V, **given)
    assert found[:2] == (fd.ArgumentError, "argument.text") and told in found[4]


def test_an_array_for_a_mask_in_a_text():
    found = refused(fd.evaluate, "attention(q, k, v, mask=m)", q=Q, k=K, v=V, m=KEEP)
    assert found[1] == "argument.attention" and found[4] == "write mask='m[i, j]', m=..."


def test_what_a_text_leaves_unquoted_is_told_to_any_call_of_it():
    kernel = fd.kernel("attention(q, k, v, mask=j<=i)")
    assert refused(kernel, Q, K, V)[4] == "a mask is quoted: mask='j<=i'"
    assert refused(fd.evaluate, "atention(q, k, v)", q=Q, k=K, v=V)[4] == "did you mean attention?"


# -- the call itself


@pytest.mark.parametrize("flag", ["yes", 1, None])
def test_return_lse_is_a_bool(flag):
    assert refused(fd.attention, Q, K, V, return_lse=flag)[:2] == (fd.ArgumentError, "argument.attention")
    text = f"attention(q, k, v, return_lse={flag!r})"
    assert refused(fd.evaluate, text, q=Q, k=K, v=V)[:4] == (fd.ArgumentError, "argument.attention", text, 31)


def test_scale_is_real():
    with pytest.raises(fd.DTypeError, match="scale is a real number, not 1j"):
        fd.attention(Q, K, V, scale=1j)


@pytest.mark.parametrize(
    ("fourth", "told"),
    [
        (KEEP, "write mask='m[i, j]', m=..."),
        ("j <= i", "write mask='j <= i'"),
        (0.5, "scale and all others go by name"),
    ],
)
def test_a_fourth_argument_goes_by_name(fourth, told):
    found = refused(fd.attention, Q, K, V, fourth)
    assert found[:2] == (fd.ArgumentError, "argument.surplus") and told in found[4]
