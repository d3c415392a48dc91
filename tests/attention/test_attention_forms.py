"""Attention as models write it: few kernels, no scores in memory, and right on a CPU and on a card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ptx import emulated_gpu

import fusedsl as fd
from fusedsl.arguments import Arguments
from fusedsl.program.first_call import run_interpreter
from fusedsl.report.explain import explain
from fusedsl.runtime.arrays import describe_all

torch = pytest.importorskip("torch")
F = torch.nn.functional
B, H, KV, N, M, D = 2, 4, 2, 40, 72, 16
INF = float("inf")


@dataclass(frozen=True)
class Form:
    """A function, the shapes or tensors that it takes, and how many kernels it should be on CUDA, and with 16 bits,
    where kernels that round operands may share a launch."""

    function: Any
    arguments: tuple
    kernels: int
    narrow: int


FORMS: dict[str, Form] = {}
Q, K, SHARED = (B, H, N, D), (B, H, M, D), (B, KV, M, D)


def form(*arguments: Any, kernels: int = 1, narrow: int | None = None):
    def put(function):
        FORMS[function.__name__] = Form(function, arguments, kernels, kernels if narrow is None else narrow)
        return function

    return put


def repeat_kv(x, n_rep):
    b, kv, n, d = x.shape
    return x[:, :, None, :, :].expand(b, kv, n_rep, n, d).reshape(b, kv * n_rep, n, d)


def causal(n, m=None):
    return torch.ones(n, m or n, dtype=torch.bool).tril()


# -- heads that share keys, and heads in one axis with others


@form(Q, SHARED, SHARED, (B, 1, N, M))
def eager_with_repeated_heads(q, k, v, mask):
    k, v = repeat_kv(k, 2), repeat_kv(v, 2)
    w = torch.matmul(q, k.transpose(2, 3)) * D**-0.5 + mask[:, :, :, : k.shape[-2]]
    w = F.dropout(F.softmax(w, dim=-1, dtype=torch.float32).to(v.dtype), p=0.0, training=False)
    return torch.matmul(w, v).transpose(1, 2).contiguous().reshape(B, N, -1)


@form(Q, SHARED, SHARED)
def documented_scaled_dot_product_attention(q, k, v):
    n, m = q.size(-2), k.size(-2)
    bias = torch.zeros(n, m, dtype=q.dtype)
    bias.masked_fill_(torch.ones(n, m, dtype=torch.bool).tril(diagonal=0).logical_not(), float("-inf"))
    k = k.repeat_interleave(q.size(-3) // k.size(-3), -3)
    v = v.repeat_interleave(q.size(-3) // v.size(-3), -3)
    w = q @ k.transpose(-2, -1) * D**-0.5
    w += bias
    return torch.dropout(torch.softmax(w, dim=-1), 0.0, train=True) @ v


@form((B, N, 3 * H * D))
def heads_of_one_projection(x):
    b, t, c = x.shape
    q, k, v = (y.view(b, t, H, c // 3 // H).transpose(1, 2) for y in x.split(c // 3, dim=2))
    a = (q @ k.transpose(-2, -1)) * D**-0.5
    a = a.masked_fill(torch.tril(torch.ones(t, t)).view(1, 1, t, t) == 0, float("-inf"))
    return (F.softmax(a, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, c // 3)


@form((B, N, (H + 2 * KV) * D))
def shared_heads_of_one_projection(x):
    q, k, v = x.split([H * D, KV * D, KV * D], -1)
    q, k, v = q.view(B, -1, H, D), k.view(B, -1, KV, D), v.view(B, -1, KV, D)
    q, k, v = q.transpose(1, 2), repeat_kv(k.transpose(1, 2), 2), repeat_kv(v.transpose(1, 2), 2)
    s = (q @ k.mT * 0.25).masked_fill(~causal(x.shape[1]), -INF)
    return (s.softmax(-1) @ v).transpose(1, 2).reshape(B, -1, H * D)


@form((B, N, H * D), (B, M, H * D), (B, M, H * D), (B, 1, N, M))
def batches_and_heads_in_one_axis(q, k, v, mask):
    q, k, v = (x.view(B, -1, H, D).transpose(1, 2).contiguous().view(B * H, -1, D) for x in (q, k, v))
    s = torch.bmm(q, k.transpose(1, 2)).view(B, H, q.shape[1], -1) + mask
    o = torch.bmm(F.softmax(s.view(B * H, q.shape[1], -1), -1), v)
    return o.view(B, H, -1, D).transpose(1, 2).reshape(B, -1, H * D)


@form((4, H, 49, D), (4, H, 49, D), (4, H, 49, D), (2, 49, 49))
def masks_for_each_window(q, k, v, mask):
    s = (q * 0.25) @ k.transpose(-2, -1)
    s = s.view(2, 2, H, 49, 49) + mask.unsqueeze(1).unsqueeze(0)
    return torch.softmax(s.view(-1, H, 49, 49), -1) @ v


@form((B, N, KV, 2, D), (B, M, KV, D), (B, M, KV, D))
def groups_behind_the_sequence(q, k, v):
    s = torch.einsum("bnkgd,bmkd->bkgnm", q, k) * 0.25
    return torch.einsum("bkgnm,bmkd->bnkgd", s.softmax(-1), v)


# -- a column beside the scores


@form(Q, SHARED, SHARED, (B, 1, N, M), (H,))
def sink_beside_the_scores(q, k, v, mask, sinks):
    k, v = repeat_kv(k, 2), repeat_kv(v, 2)
    w = torch.matmul(q, k.transpose(2, 3)) * 0.25 + mask[:, :, :, : k.shape[-2]]
    s = sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[-2], -1)
    w = torch.cat([w, s], dim=-1)
    w = w - w.max(dim=-1, keepdim=True).values
    return torch.matmul(F.softmax(w, dim=-1, dtype=w.dtype)[..., :-1], v).transpose(1, 2).contiguous()


@form(Q, K, K)
def zero_before_the_scores(q, k, v):
    return F.softmax(F.pad(q @ k.mT * 0.25, (1, 0), value=0.0), -1)[..., 1:] @ v


# -- operands that are computed: stored, and never the scores


@form(Q, SHARED, SHARED, (N, D), (N, D), (M, D), (M, D), kernels=2)
def rotary_embeddings(q, k, v, cos, sin, cos_k, sin_k):
    def turned(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    q, k = turned(q, cos, sin), repeat_kv(turned(k, cos_k, sin_k), 2)
    return F.softmax(q @ k.mT * 0.25, -1) @ repeat_kv(v, 2)


@form(Q, K, K, (D,), (D,), kernels=3, narrow=2)
def normalised_queries_and_keys(q, k, v, weight_q, weight_k):
    q = q * torch.rsqrt(q.pow(2).mean(-1, keepdim=True) + 1e-6) * weight_q
    k = k * torch.rsqrt(k.pow(2).mean(-1, keepdim=True) + 1e-6) * weight_k
    return F.softmax(q @ k.mT * 0.25, -1) @ v


@form((B, H, N, 16), (B, H, N, 8), (B, H, M, 16), (B, 1, M, 8), (B, H, M, 16), kernels=2)
def latent_keys_with_rotary_parts(q, q_rotary, k, k_rotary, v):
    k = torch.cat([k, k_rotary.expand(-1, H, -1, -1)], -1)
    return F.softmax(torch.cat([q, q_rotary], -1) @ k.mT * 24**-0.5, -1) @ v


@form(Q, K, K, kernels=2)
def positive_features(q, k, v):
    s = torch.tril((F.elu(q) + 1) @ (F.elu(k) + 1).mT)
    return (s / s.sum(-1, keepdim=True)) @ v


@form(Q, (B, H, 1, D), (B, H, 1, D), K, K, kernels=2)
def token_before_the_keys(q, k_first, v_first, k, v):
    k, v = torch.cat([k_first, k], 2), torch.cat([v_first, v], 2)
    return F.softmax(q @ k.mT * 0.25, -1) @ v


@form(Q, (64, KV, D), (64, KV, D), torch.arange(B * M).reshape(B, M) * 7 % 64)
def keys_by_their_places(q, keys, values, places):
    k, v = (x[places].permute(0, 2, 1, 3).repeat_interleave(2, 1) for x in (keys, values))
    return F.softmax(q @ k.mT * 0.25, -1) @ v


# -- two products of scores


@form(Q, Q, K, K, K, (1,), kernels=2)
def difference_of_two(q, q_other, k, k_other, v, share):
    return (F.softmax(q @ k.mT * 0.25, -1) - share * F.softmax(q_other @ k_other.mT * 0.25, -1)) @ v


# -- rows of which nothing counts


@form(Q, K, K)
def masked_before_and_after(q, k, v):
    mask = causal(N, M).roll(9, 0) & causal(N, M)
    p = F.softmax((q @ k.mT * 0.25).masked_fill(~mask, -INF), -1)
    return p.masked_fill(~mask, 0.0) @ v


@form(Q, K, K, kernels=2)
def rows_without_anything(q, k, v):
    mask = torch.arange(k.shape[2])[None] <= torch.arange(q.shape[2])[:, None] - 10
    p = F.softmax((q @ k.mT * 0.25).masked_fill(~mask, -INF), -1)
    return torch.where(mask.any(-1, keepdim=True), p, 0.0) @ v


# -- masks that are numbers near the end of their dtype


def padded(n, m, dtype):
    """Numbers for what does not count: columns at both ends, and all of some rows."""
    mask = torch.zeros(B, 1, n, m)
    mask[0, :, :, : m // 2] = mask[:, :, :, m - 20 :] = mask[1, :, :5] = torch.finfo(dtype).min
    return mask


@form(Q, K, K, padded(N, M, torch.bfloat16))
def added_numbers_for_masks(q, k, v, mask):
    return F.softmax(q @ k.mT * 0.25 + mask.to(q.dtype), -1) @ v


@form(Q, K, K)
def chosen_numbers_for_masks(q, k, v):
    mask = torch.arange(k.shape[2])[None] <= torch.arange(q.shape[2])[:, None] - 10
    return F.softmax((q @ k.mT * 0.25).masked_fill(~mask, torch.finfo(torch.bfloat16).min), -1) @ v


# -- nothing weighed


@form(Q, K)
def sums_of_exponentials(q, k):
    return torch.logsumexp((q @ k.mT * 0.25).masked_fill(~causal(N, M), -INF), -1)


@form(Q, K)
def entropy_from_logarithms(q, k):
    logs = F.log_softmax(q @ k.mT * 0.25, -1)
    return -(logs.exp() * logs).sum(-1)


@form(Q, K, K)
def largest_weight_beside(q, k, v):
    p = F.softmax(q @ k.mT * 0.25, -1)
    return p @ v + p.max(-1, keepdim=True).values


@form(Q, K, K, kernels=2)
def weights_without_nan(q, k, v):
    mask = torch.arange(k.shape[2])[None] <= torch.arange(q.shape[2])[:, None] - 10
    return torch.nan_to_num(F.softmax((q @ k.mT * 0.25).masked_fill(~mask, -INF), -1)) @ v


# -- what is held


def drawn(given: Any, dtype: Any, generator: Any) -> Any:
    return torch.randn(given, generator=generator).to(dtype) if isinstance(given, tuple) else given


def arguments(name: str, dtype: Any, device: str = "cpu") -> list:
    generator = torch.Generator().manual_seed(len(name))
    return [drawn(x, dtype, generator).to(device) for x in FORMS[name].arguments]


def explained(name: str, dtype: Any):
    call = Arguments(tuple(arguments(name, dtype)), {})
    found = fd.fuse(FORMS[name].function)._trace(call)
    return explain(found.program, [*call.values, *found.traced.captures], device="cuda", compile=False)


def differs(name: str, given: list, found: Any) -> float:
    """The largest error as a share of the largest result; infinite where one is NaN and the other is not."""
    right = FORMS[name].function(*(x.double() if x.is_floating_point() else x for x in given))
    found = found.double()
    assert found.shape == right.shape
    if (found.isnan() != right.isnan()).any():
        return INF
    return float((found - right).nan_to_num().abs().max() / right.nan_to_num().abs().max())


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=("float32", "bfloat16"))
@pytest.mark.parametrize("name", FORMS)
def test_forms_take_few_kernels_and_no_memory_for_scores(name, dtype):
    told = explained(name, dtype)
    assert len(told.kernels) == (FORMS[name].kernels if dtype is torch.float32 else FORMS[name].narrow)
    assert not any(len(t.type.split("[")[1].split(",")) > 3 and f"{N}, {M}" in t.type for t in told.temporaries)


@pytest.mark.parametrize("name", FORMS)
def test_forms_are_right_on_a_cpu(name):
    given = arguments(name, torch.float32)
    assert differs(name, given, fd.fuse(FORMS[name].function)(*given)) < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=("float32", "bfloat16"))
@pytest.mark.parametrize("name", FORMS)
def test_forms_are_right_on_a_card(name, dtype):
    given = arguments(name, dtype, "cuda")
    with torch.device("cuda"):
        found = fd.fuse(FORMS[name].function)(*given)
        assert differs(name, given, found) < (3e-2 if dtype is torch.bfloat16 else 2e-5)


# -- without a card: what the kernels compute, by the interpreter of their PTX

SCORES = "s = q @ k.mT * 0.25; there = iota(s, -1) <= iota(s, -2) - 10; "
COLUMN = "column = broadcast_to(z[None, :, None, None], (1, 2, size(s, -2), 1)); "
TEXTS = {
    "products alone": ("(q @ k.mT) @ v", 1),
    "a chain": ("einsum('bhij,bhkj,bhkl->bhil', q, k, v)", 1),
    "numbers that are added": ("softmax(q @ k.mT * 0.25 + mask) @ v", 1),
    "numbers that are chosen": (SCORES + "softmax(where(there, s, -3e38)) @ v", 1),
    "numbers like 1e10": (SCORES + "softmax(s + where(iota(s, -1) <= iota(s, -2), 0, -1e10)) @ v", 1),
    "masked twice": (SCORES + "where(there, softmax(where(there, s, -inf)), 0) @ v", 1),
    "sums of exponentials": (SCORES + "logsumexp(where(iota(s, -1) <= iota(s, -2), s, -inf), -1)", 1),
    "entropies": ("p = softmax(q @ k.mT * 0.25); -sum(p * log(p), -1)", 1),
    "entropies beside": (SCORES + "p = softmax(where(there, s, -inf)); (p @ v) * -sum(xlogy(p, p), -1)[..., None]", 1),
    "entropies of what counts": (
        SCORES + "p = softmax(where(there, s, -inf)); sum(where(p > 0, p * log2(p), 0), -1)",
        1,
    ),
    "entropies of what is masked": (
        "s = q @ k.mT; l = log_softmax(where((iota(s, -1) < 128) | (iota(s, -3) > 0), s, -inf)); sum(exp(l) * l, -1)",
        1,
    ),
    "divergences": ("s = q @ k.mT; p = softmax(s); r = softmax(s * 0.25); sum(p * (log(p) - log(r)), -1)", 1),
    "largest weights": (SCORES + "p = softmax(where(there, s, -inf)); (p @ v) + max(p, axis=-1)[..., None]", 1),
    "places of the largest": (SCORES + "argmax(softmax(where(there, s, -inf)), axis=-1)", 1),
    "what weighs is a logarithm": ("p = softmax(q @ k.mT * 0.25); (p * log(p)) @ v", 2),
    "a difference": ("(softmax(q @ k.mT * 0.25) - 0.5 * softmax(r @ k.mT * 0.25)) @ v", 2),
    "operands that are computed": ("softmax(gelu(q) @ tanh(k).mT) @ v", 2),
    "heads that are repeated": ("softmax(q @ repeat(k[:, :1], 2, axis=1).mT * 0.25) @ v", 1),
    "a column": (SCORES + COLUMN + "softmax(concat([s, column], -1))[..., :-1] @ v", 1),
}


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_right_as_emulated(name, dtype):
    pytest.importorskip("numba_cuda")
    text, launches = TEXTS[name]
    kernel = fd.kernel(text, device="cuda", fallback=False)
    shapes = {"q": (1, 2, 40, 16), "k": (1, 2, 150, 16), "v": (1, 2, 150, 16), "r": (1, 2, 40, 16), "z": (2,)}
    numbers = np.random.default_rng(3)
    arrays = {n: numbers.standard_normal(shape).astype(ml_dtypes.bfloat16) for n, shape in shapes.items()}
    mask = np.zeros((1, 1, 40, 150), ml_dtypes.bfloat16)
    mask[..., :30] = mask[..., 80:] = mask[:, :, :5] = ml_dtypes.finfo(mask.dtype).min
    arrays["mask"] = mask
    given = [arrays[n].astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float32) for n in kernel.params]
    with emulated_gpu(multiprocessors=4) as gpu:
        found = np.asarray(kernel(*given)).astype(np.float64)
        assert len(gpu.launches) == launches
    wide = [x.astype(np.float64) for x in given]
    with np.errstate(all="ignore"):
        (right,) = run_interpreter(kernel._program.plans, describe_all(kernel.params, wide))
    assert np.array_equal(np.isnan(found), np.isnan(right))
    worst = np.nanmax(np.abs(found - right)) / np.nanmax(np.abs(right))
    assert worst < (1e-2 if dtype == "bfloat16" else 1e-5)
