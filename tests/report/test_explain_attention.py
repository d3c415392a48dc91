"""explain() of attention: its baseline, its formulas, and why scores are stored if they are."""

import re
from dataclasses import replace

import pytest

import fusedsl as fd
from fusedsl.report import explain

Q = fd.spec((2, 16, 4096, 128), "bfloat16")
KEYS = fd.spec((4, 1024, 64), "bfloat16")


def told(text, *args):
    return fd.kernel(text).explain(*args, compile=False, cc=90)


def test_masked_attention_is_two_products_of_matrices_without_fusion():
    """What is weighed with a mask was counted as a product with five axes that is stored: 1.13 TB."""
    masked, full = told("attention(q, k, v, mask='j <= i')", Q, Q, Q), told("attention(q, k, v)", Q, Q, Q)
    scores = 4 * 2 * 16 * 4096 * 4096
    assert masked.before.operations.count("matmul") == full.before.operations.count("matmul") == 2
    assert masked.before.bytes - full.before.bytes == 2 * scores  # where(mask, score, -inf) alone
    assert full.before.seconds < masked.before.seconds < 1.3 * full.before.seconds


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("left, right", [((4, 1024, 64),) * 2, ((4096, 4096),) * 2, ((16, 4096), (4096, 4096))])
def test_products_of_matrices_cost_the_same_with_and_without_fusion(left, right, dtype):
    e = told("q @ k.mT", fd.spec(left, dtype), fd.spec(right, dtype))
    assert 0.8 * e.before.seconds < e.seconds < 1.25 * e.before.seconds


def test_scores_that_are_stored_take_less_than_one_operation_after_another():
    wide = fd.spec((4, 1024, 512), "bfloat16")
    for text, *arguments in (
        ("softmax(q @ k.mT) @ v", KEYS, KEYS, wide),
        ("softmax(q @ k.mT + q @ w.mT) @ v", *[KEYS] * 4),
    ):
        e = told(text, *arguments)
        assert e.seconds < e.before.seconds
        assert not any("would take less" in note for note in e.notes)


def test_what_would_take_less_without_fusion_is_said():
    e = told("sort(softmax(q @ k.mT)) @ v", Q, Q, Q)
    assert e.seconds < e.before.seconds  # plans are chosen so that it is: the note is asked for other times
    about, less = (replace(e.before, seconds=e.seconds / share) for share in (1.04, 1.06))
    assert not explain._slower_than_unfused(e.kernels, about)
    assert explain._slower_than_unfused(e.kernels, less) == [
        "by the time model, one operation after another would take less"
    ]
    (note,) = explain._slower_than_unfused((*e.kernels, e.kernels[0]), less)
    assert note.endswith(f"; kernel 0 and kernel {len(e.kernels)} compute the same")


def test_formulas_of_attention():
    scores = "where(doc[i] == doc[j] and j <= i, score, -inf)"
    (k,) = told(
        "attention(q, k, v, mask='doc[i] == doc[j] and j <= i', doc=doc)", Q, Q, Q, fd.spec(4096, "int32")
    ).kernels
    assert k.members == (
        "score = sum of q * k",
        f"max of {scores}",
        f"sum of exp(({scores} - max) * rsqrt(128))",
        f"weighted = sum of exp(({scores} - max) * rsqrt(128)) * v",
        "result = where(max == -inf, 0, weighted) / where(sum == 0, 1, sum)",
    )
    (k,) = told("softmax(q @ k.mT) @ v", KEYS, KEYS, KEYS).kernels
    assert k.members[2:] == (
        "sum of exp(score - max)",
        "weighted = sum of exp(score - max) * v",
        "result = weighted / sum",
    )
    (k,) = told("attention(q, k, v, score='50 * tanh(score / 50)')", Q, Q, Q).kernels
    assert k.members[2] == "sum of exp((tanh(score * rsqrt(128) / 50) - max) * 50)"


@pytest.mark.parametrize(
    "text, shapes, dtype, reason",
    [
        ("softmax(q @ k.mT) @ v", [64, 64, 512], "bfloat16", "v is 512 wide, and registers hold rows of results of at"),
        ("softmax(q @ k.mT) @ v", [128] * 3, "float64", "rows of results of at most 64 in float64"),
        ("softmax(q @ k.mT + q @ w.mT) @ v", [64] * 4, "bfloat16", "its scores are sums of 2 products"),
    ],
)
def test_the_limit_that_stores_scores_has_a_name(text, shapes, dtype, reason):
    e = told(text, *[fd.spec((4, 1024, n), dtype) for n in shapes])
    stored = [r.reason for r in e.refused if "it is stored, because" in r.reason]
    assert len(stored) == (2 if "+" in text else 1) and all(reason in line for line in stored)


def test_a_single_row_is_no_tile():
    e = told("softmax(q @ k.mT) @ v", fd.spec((1, 64)), fd.spec((100, 64)), fd.spec((100, 64)))
    assert any("its scores are those of a single row" in r.reason for r in e.refused)


def test_what_passes_and_what_is_found_before_them_are_for():
    e = told("softmax(q @ k.mT) @ v - softmax(q @ w.mT) @ v", KEYS, KEYS, KEYS, KEYS)
    assert [r.reason for r in e.refused] == [
        "kernel 0 and kernel 1 weigh by scores of their own: a sum or difference of such results is several passes"
    ]
    tokens, ends = fd.spec((8192, 16, 64), "bfloat16"), fd.spec(9, "int32")
    e = told("attention(q, k, v, mask='j <= i', offsets=(o, p))", tokens, tokens, tokens, ends, ends)
    (reason,) = [r.reason for r in e.refused]
    assert reason == "kernel 0 finds each token's sequence, once a token, which kernel 1 would find for every score"


def test_refusals_name_axes_and_say_what_their_times_are():
    e = told("sort(softmax(q @ k.mT)) @ v", KEYS, KEYS, KEYS)
    lines = str(e).partition("not merged")[2].splitlines()
    assert "'" not in "".join(lines)
    assert any(
        re.search(r"the sort of exp\(.*\) / sum.* along axis 1 of k: .*\(together would save about [\d.]+ µs\)", x)
        for x in lines
    )
    lines = str(told("softmax(q @ k.mT) @ v", KEYS, KEYS, fd.spec((4, 1024, 512), "bfloat16")))
    assert re.search(r"is faster than recomputing it for every tile \(saves about [\d.]+ µs\)", lines)


@pytest.mark.parametrize("text", ["s = x.T @ v; s / max(s)", "relu(x @ w) @ w", "norm(x @ w, axis=1)"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_programs_without_a_softmax_are_not_told_of_attention(text, device):
    kernel = fd.kernel(text)
    shapes = [fd.spec(128) if name == "v" else fd.spec((128, 128)) for name in kernel.params]
    told = kernel.explain(*shapes, device=device, compile=False)
    assert len(told.kernels) == 1 or told.refused
    assert not any(word in r.reason for r in told.refused for word in ("score", "attention"))
