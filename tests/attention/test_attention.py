"""fd.attention and attention(...) in a text: masks, scores, lengths, ragged sequences, pages, and what they refuse."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.program.call_steps import extents_of
from fusedsl.program.first_call import run_interpreter
from fusedsl.runtime.arrays import describe_all

RANDOM = np.random.default_rng(11)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


Q, K, V = normal(2, 4, 70, 16), normal(2, 2, 90, 16), normal(2, 2, 90, 8)
ROWS, COLUMNS = np.arange(70)[:, None], np.arange(90)
BIAS, SLOPE, DOCUMENT = normal(4, 70, 90), normal(4), np.sort(RANDOM.integers(0, 4, 90)).astype(np.int32)


def reference(q, k, v, mask=None, score=lambda s: s, scale=None):
    """(result, log-sum-exp) in float64, head by head."""
    shared = q.shape[1] // k.shape[1]
    q, k, v = (x.astype(np.float64) for x in (q, np.repeat(k, shared, 1), np.repeat(v, shared, 1)))
    s = score(q @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -0.5))
    s = s if mask is None else np.where(mask, s, -np.inf)
    largest = s.max(-1, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0)
    e = np.exp(s - largest)
    total = e.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return e @ v / np.where(total == 0, 1, total), (largest + np.log(total))[..., 0]


def close(found, expected, bound=2e-5):
    np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=bound, atol=bound)


# keywords, and (mask, score) of the reference
CALLS = {
    "causal": ({"mask": "j <= i"}, (ROWS >= COLUMNS, lambda s: s)),
    "slopes": (
        {"score": "where(j <= i, score + slope[h]*(j - i), -inf)", "slope": SLOPE},
        (ROWS >= COLUMNS, lambda s: s + SLOPE[:, None, None] * (COLUMNS - ROWS)),
    ),
    "bias and softcap": (
        {"score": "5 * tanh((score + bias[h, i, j]) / 5)", "bias": BIAS},
        (None, lambda s: 5 * np.tanh((s + BIAS) / 5)),
    ),
    "documents": ({"mask": "doc[i] == doc[j]", "doc": DOCUMENT}, (DOCUMENT[ROWS] == DOCUMENT[COLUMNS], lambda s: s)),
}


@pytest.mark.parametrize("name", CALLS)
def test_scores_and_masks(name):
    given, (mask, score) = CALLS[name]
    out, lse = fd.attention(Q, K, V, **given, return_lse=True, fallback=False)
    expected = reference(Q, K, V, mask, score)
    assert (out.dtype, lse.dtype, lse.shape) == (np.float32, np.float32, (2, 4, 70))
    close(out, expected[0])
    close(lse, expected[1])


def test_lengths_scale_and_out():
    out = np.empty((2, 4, 70, 8), np.float32)
    lengths = np.array([5, 90])
    assert fd.attention(Q, K, V, lengths=lengths, scale=0.3, out=out) is out
    close(out, reference(Q, K, V, lengths[:, None, None, None] > COLUMNS, scale=0.3)[0])
    out, lse = fd.attention(Q, K, V, lengths=np.array([0, 1]), scale=0.3, return_lse=True)
    assert (out[0] == 0).all() and (lse[0] == -np.inf).all()
    close(out[1], np.repeat(V[1, :, :1], 2, 0).repeat(70, 1))
    out, lse = fd.attention(Q, K[:, :, :0], V[:, :, :0], return_lse=True)
    assert (out == 0).all() and (lse == -np.inf).all()


def test_ragged_sequences():
    ends, others = np.array([0, 10, 10, 45, 70]), np.array([0, 20, 25, 60, 90])
    q, k, v = normal(70, 4, 16), normal(90, 2, 16), normal(90, 2, 8)
    out, lse = fd.attention(q, k, v, offsets=(ends, others), mask="j <= i + 10", return_lse=True)
    for s in (0, 2, 3):
        mine, theirs = slice(ends[s], ends[s + 1]), slice(others[s], others[s + 1])
        one = [x[None].swapaxes(1, 2) for x in (q[mine], k[theirs], v[theirs])]
        mask = np.arange(one[1].shape[2]) <= np.arange(one[0].shape[2])[:, None] + 10
        expected = reference(*one, mask)
        close(out[mine], expected[0][0].swapaxes(0, 1))
        close(lse[:, mine], expected[1][0])


def test_pages_are_read_where_they_are():
    k, v = normal(7, 16, 2, 16), normal(7, 16, 2, 8)
    pages, lengths = np.array([[3, 1, 0], [6, 2, 5]], np.int32), np.array([20, 48])
    dense = [x[pages].reshape(2, 48, 2, -1).swapaxes(1, 2) for x in (k, v)]
    expected = reference(Q, *dense, np.arange(48) < lengths[:, None, None, None])[0]
    k[1, 4:], v[1, 4:] = np.nan, np.nan  # beyond the first sequence's end
    close(fd.attention(Q, k, v, pages=pages, lengths=lengths), expected)


def test_in_a_text_it_is_a_value_among_others():
    text = "o, lse = attention(q, k, v, mask='j <= i', return_lse=True)\nrelu(o), exp(lse), attention(q, k, v)"
    found = fd.evaluate(text, q=Q, k=K, v=V)
    expected = reference(Q, K, V, ROWS >= COLUMNS)
    close(found[0], np.maximum(expected[0], 0))
    close(found[1], np.exp(expected[1]), 1e-4)
    close(found[2], reference(Q, K, V)[0])


def test_the_interpreter_says_the_same():
    kernel = fd.kernel("attention(q, k, v, mask='j <= i - 3')")
    found = kernel(Q, K, V)
    (expected,) = run_interpreter(kernel._program.plans, describe_all(kernel.params, [Q, K, V]))
    close(found, expected, 1e-6)
    assert (found[:, :, :3] == 0).all()


def test_it_is_the_kernel_that_plain_text_gives():
    def shape(text):
        kernel = fd.kernel(text)
        facts = list(describe_all(kernel.params, [Q, K[:, :1], V[:, :1]]).values())
        plan = kernel._program.plans.plan(facts, extents_of(facts))
        return [
            (k.attention is not None, len(k.attention.scores), len(k.attention.weighted_sums)) for k in plan.kernels
        ]

    assert shape("attention(q, k, v)") == shape("softmax(q @ k.mT * 0.25) @ v") == [(True, 1, 1)]


@pytest.mark.parametrize("dtype, bound", [(np.float16, 4e-3), ("bfloat16", 3e-2), (np.float64, 1e-12)])
def test_dtypes(dtype, bound):
    import ml_dtypes

    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    q, k, v = (x.astype(dtype) for x in (Q, K, V))
    out = fd.attention(q, k, v, mask="j <= i")
    assert out.dtype == dtype
    close(out, reference(q, k, v, ROWS >= COLUMNS)[0], bound)


REFUSED = {
    "score + x[i]": (fd.UnknownNameError, "name.value", 9),
    "softmax(score)": (fd.ArgumentError, "argument.attention", 1),
    "score + sum(q)": (fd.ArgumentError, "argument.attention", 13),
    "score +": (fd.ParseError, "parse.end", 8),
    "score + bias[:, :3]": (fd.ShapeError, "shape.attention", 9),
    "score + bias[0, :, :3]": (fd.ShapeError, "shape.broadcast", 7),
}


@pytest.mark.parametrize("score", REFUSED)
def test_faults_are_drawn_in_the_score(score):
    kind, code, column = REFUSED[score]
    arrays = {"bias": BIAS} if "bias" in score else {}
    with pytest.raises(kind) as caught:
        fd.attention(Q, K, V, score=score, **arrays)
    assert (caught.value.code, caught.value.text, caught.value.column) == (code, score, column)


@pytest.mark.parametrize(
    "call, code, column, told",
    [
        ("attention(q, k, v, mask=j <= i)", "name.value", 25, "a mask is quoted: mask='j <= i'"),
        ("attention(q, k, v, score=score + x)", "name.value", 26, "a score is quoted: score='score + x'"),
        ("attention(q, k, v, mask=q > 0)", "argument.attention", 25, "quote it, e.g. mask='j <= i'"),
    ],
)
def test_a_score_or_mask_that_is_not_quoted_in_a_text(call, code, column, told):
    with pytest.raises(fd.FusedslError, match=re.escape(told)) as caught:
        fd.evaluate(call, q=Q, k=K, v=V)
    assert (caught.value.code, caught.value.column) == (code, column)


def test_operands_that_do_not_go_together():
    for operands, code in (
        ((Q[:, :3], K, V), "shape.attention"),
        ((Q, K, V[:, :1]), "shape.attention"),
        ((Q, K[..., :8], V), "shape.attention"),
        ((Q[0], K, V), "shape.attention"),
        ((Q, K, V.astype(np.float16)), "dtype.attention"),
    ):
        with pytest.raises((fd.ShapeError, fd.DTypeError)) as caught:
            fd.attention(*operands)
        assert caught.value.code == code
    with pytest.raises(fd.ArgumentError, match="mask is an expression in quotes, not an ndarray"):
        fd.attention(Q, K, V, mask=np.tri(70, 90, dtype=bool))
    with pytest.raises(fd.DTypeError, match="mask is a condition"):
        fd.attention(Q, K, V, mask="j - i")
    with pytest.raises(fd.ArgumentError, match="neither score nor mask reads 'slope'"):
        fd.attention(Q, K, V, score="score", slope=SLOPE)
    with pytest.raises(fd.ArgumentError, match=r"attention has no keyword causal\n.*write mask='j <= i'"):
        fd.attention(Q, K, V, causal=True)
    with pytest.raises(fd.ArgumentError, match="means something else"):
        fd.attention(Q, K, V, score="score * b[i]", b=SLOPE)


@pytest.mark.parametrize("width", [3, 8, 24])
def test_float64_takes_its_default_scale_in_float64(width):
    q, k, v = (np.sin(np.arange(2 * 6 * width) * c).reshape(1, 2, 6, width) for c in (1.0, 2.0, 3.0))
    wanted, lse = reference(q, k, v)
    ends = np.array([0, 6])
    as_pages = [x.transpose(0, 2, 1, 3).copy() for x in (k, v)]
    ragged = [x[0].transpose(1, 0, 2).copy() for x in (q, k, v)]
    for found in (
        fd.attention(q, k, v),
        fd.attention(q, k, v, score="score + 0 * i"),
        fd.attention(q, k, v, lengths=np.array([6])),
        fd.attention(q, *as_pages, pages=np.array([[0]])),
        fd.attention(*ragged, offsets=(ends, ends)).transpose(1, 0, 2)[None],
        fd.evaluate("attention(q, k, v)", q=q, k=k, v=v),
        fd.fuse(lambda q, k, v: fd.attention(q, k, v))(q, k, v),
    ):
        assert np.abs(found - wanted).max() < 1e-15
    assert np.abs(fd.attention(q, k, v, return_lse=True)[1] - lse).max() < 1e-15
    masked, _ = reference(q, k, v, np.tri(6, dtype=bool))
    assert np.abs(fd.attention(q, k, v, mask="j <= i") - masked).max() < 1e-15


def test_torchs_attention_takes_its_default_scale_in_float64():
    torch = pytest.importorskip("torch")
    attend = torch.nn.functional.scaled_dot_product_attention
    q, k, v = (torch.sin(torch.arange(96, dtype=torch.float64) * c).reshape(1, 2, 6, 8) for c in (1.0, 2.0, 3.0))
    for causal in (False, True):
        made = fd.fuse(lambda q, k, v, causal: attend(q, k, v, is_causal=causal))(q, k, v, causal)
        assert (made - attend(q, k, v, is_causal=causal)).abs().max() < 1e-15
