"""sm_90 attention kernels, linked without a GPU: the linker's registers and spills."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import fusedsl as fd
from fusedsl.lru import LRU
from fusedsl.report.explain import resolved_call
from fusedsl.runtime import cache, compile
from fusedsl.runtime.compile import cuda_key

pytest.importorskip("numba_cuda")
from fusedsl.backends.cuda.compiler import numba_backend

CAUSAL = "iota(s, -1) <= iota(s, -2)"
LINES = "s = q @ k.mT * 0.2\n"
# name: (text, width, width of values, dtype)
VARIANTS = {
    "whole": (LINES + "softmax(s) @ v", 80, 80, "bfloat16"),
    "products alone": ("(q @ k.mT) @ v", 128, 128, "bfloat16"),
    "whole, narrow": (LINES + "softmax(s) @ v", 64, 64, "float16"),
    "whole, wide": (LINES + "softmax(s) @ v", 256, 256, "bfloat16"),
    "window": (
        LINES + f"softmax(where(({CAUSAL}) & (iota(s, -1) > iota(s, -2) - 1024), s, -inf)) @ v", 128, 128, "bfloat16",
    ),
    "documents": ("attention(q, k, v, mask='(j <= i) & (doc[i] == doc[j])', doc=doc)", 192, 128, "float16"),
    "slopes": ("attention(q, k, v, score='score + slope[h] * (j - i)', slope=slope)", 96, 96, "bfloat16"),
    "softcap": (LINES + f"softmax(where({CAUSAL}, 30 * tanh(s / 30), -inf)) @ v", 128, 128, "bfloat16"),
    "bias": (LINES + "softmax(s + bias) @ v", 128, 128, "bfloat16"),
    "sink": (
        LINES + f"s = where({CAUSAL}, s, -inf)\nm = maximum(max(s, axis=-1, keepdims=True), 1.5); e = exp(s - m)\n"
        "(e @ v) / (sum(e, -1, keepdims=True) + exp(1.5 - m)), logsumexp(s, -1)", 128, 128, "bfloat16",
    ),
    "dropout": (
        LINES + "softmax(s) * (uniform(7, (size(s, 0), size(s, 1), size(s, 2), size(s, 3))) < 0.8) @ v",
        64, 64, "float16",
    ),
    "dropout and mask": (
        LINES + f"where(uniform(7, s) < 0.8, softmax(where({CAUSAL}, s, -inf)), 0) @ v", 128, 128, "float16",
    ),
    "dropout and mask, narrow": (
        LINES + f"p = softmax(where({CAUSAL}, s, -inf)); where(uniform(7, p) < scale, p, 0) / scale @ v",
        64, 64, "bfloat16",
    ),
    "dropout and documents, wide": (
        LINES + f"p = softmax(where(({CAUSAL}) & (doc[:, None] == doc[None, :]), s, -inf))\n"
        "where(uniform(7, p) < 0.9, p, 0) @ v", 256, 256, "bfloat16",
    ),
    "relative positions": (
        "attention(q, k, v, score='score + table[h, i - j + 4096]', table=table)", 64, 64, "bfloat16",
    ),
    "relative positions of wide heads": (
        "attention(q, k, v, score='score + table[h, clip(i - j, -64, 64) + 64]', mask='j <= i', table=table)",
        256, 256, "bfloat16",
    ),
    "bias of each head, shared keys": (
        "attention(q, k[:, :2], v[:, :2], score='score + biases[h, i, j]', biases=biases)", 128, 128, "bfloat16",
    ),
    "mask over a cache, narrow": (
        "attention(q, k, v, mask='(j <= i + size(k, -2) - size(q, -2)) & (j > i + size(k, -2) - size(q, -2) - 256)')",
        64, 64, "bfloat16",
    ),
    "documents of each batch, narrow": (
        "attention(q, k, v, mask='(j <= i) & (docs[b, i] == docs[b, j])', docs=docs)", 64, 64, "float16",
    ),
    "root of an extent, narrow": ("softmax(q @ k.mT * size(q, -1) ** -0.5) @ v", 64, 64, "float16"),
    "bias and mask": (
        "attention(q, k, v, score='score + bias[i, j]', mask='j <= i', bias=bias)", 128, 128, "bfloat16",
    ),
    "softcap, narrow": ("attention(q, k, v, score='30 * tanh(score / 30)', mask='j <= i')", 64, 64, "float16"),
    "slopes and mask": (
        "attention(q, k, v, score='score + slope[h] * (j - i)', mask='j <= i', slope=slope)", 64, 64, "float16",
    ),
    "sink of a head": (
        LINES + f"s = where({CAUSAL}, s, -inf); m = maximum(max(s, axis=-1, keepdims=True), sink)\n"
        "e = exp(s - m)\n(e @ v) / (sum(e, -1, keepdims=True) + exp(sink - m))", 64, 64, "float16",
    ),
    "entropies": (LINES + "p = softmax(s); p @ v, -sum(p * log(p), -1)", 128, 128, "bfloat16"),
    "entropies, narrow": (LINES + "p = softmax(s); p @ v, sum(where(p > 0, p * log2(p), 0), -1)", 64, 64, "float16"),
    "entropies of what counts": (
        LINES + f"p = softmax(where({CAUSAL}, s, -inf)); p @ v, sum(xlogy(p, p), -1)", 128, 128, "bfloat16",
    ),
    "entropies of what counts, narrow": (
        LINES + f"p = softmax(where({CAUSAL}, s, -inf)); p @ v, sum(xlogy(p, p), -1)", 64, 64, "float16",
    ),
    "largest weights": (
        LINES + f"p = softmax(where({CAUSAL}, s, -inf)); p @ v, max(p, axis=-1)", 128, 128, "bfloat16",
    ),
    "slopes, narrow": (
        LINES + f"softmax(where({CAUSAL}, s + slope[:, None, None] * (iota(s, -1) - iota(s, -2)), -inf)) @ v",
        64, 64, "bfloat16",
    ),
    "documents, narrow": (
        LINES + f"softmax(where(({CAUSAL}) & (doc[:, None] == doc[None, :]), s, -inf)) @ v", 64, 64, "float16",
    ),
    "documents alone, narrow": (
        LINES + "softmax(where(doc[:, None] == doc[None, :], s, -inf)) @ v", 64, 64, "bfloat16",
    ),
    "sink, narrow": (
        LINES + f"s = where({CAUSAL}, s, -inf); m = maximum(max(s, axis=-1, keepdims=True), sink)\n"
        "e = exp(s - m)\n(e @ v) / (sum(e, -1, keepdims=True) + exp(sink - m))", 64, 64, "bfloat16",
    ),
    "sigmoid, narrow": (
        LINES.replace("0.2", "0.125") + f"where({CAUSAL}, sigmoid(s - log(1.0 * size(s, -1))), 0) @ v",
        64, 64, "float16",
    ),
    "sigmoid, whole": (LINES + "sigmoid(s - log(1.0 * size(s, -1))) @ v", 64, 64, "bfloat16"),
    "softcap, wide": (LINES + f"softmax(where({CAUSAL}, 30 * tanh(s / 30), -inf)) @ v", 256, 256, "bfloat16"),
    "dropout and mask, wide": (
        LINES + f"where(uniform(7, s) < 0.8, softmax(where({CAUSAL}, s, -inf)), 0) @ v", 256, 256, "bfloat16",
    ),
    "log-sum-exp, narrow": (
        LINES + f"t = where({CAUSAL}, s, -inf)\nsoftmax(t) @ v, logsumexp(t, -1)", 64, 64, "float16",
    ),
    "softcap of one sequence, narrow": (
        LINES.replace("q @ k", "q[0] @ k[0]") + f"softmax(where({CAUSAL}, 30 * tanh(s / 30), -inf)) @ v[0]",
        64, 64, "bfloat16",
    ),
    "softcap, causal, narrow": (
        LINES.replace("0.2", "0.125") + f"softmax(where({CAUSAL}, 30 * tanh(s / 30), -inf)) @ v", 64, 64, "float16",
    ),
    "dilated, narrow": (
        LINES + f"softmax(where(({CAUSAL}) & ((iota(s, -2) - iota(s, -1)) % 4 == 0), s, -inf)) @ v", 64, 64, "bfloat16",
    ),
    "dilated by three, narrow": ("attention(q, k, v, mask='(j <= i) & ((i - j) % 3 == 0)')", 64, 64, "float16"),
    "dilated by five, narrow": (
        LINES + f"softmax(where(({CAUSAL}) & ((iota(s, -2) - iota(s, -1)) % 5 == 1), s, -inf)) @ v", 64, 64, "bfloat16",
    ),
    "dilated, not causal, narrow": ("attention(q, k, v, mask='(i - j) % 4 == 0')", 64, 64, "float16"),
    "dilated by three, not causal, narrow": ("attention(q, k, v, mask='(i - j) % 3 == 0')", 64, 64, "bfloat16"),
    "dilated window, narrow": (
        LINES + f"d = iota(s, -2) - iota(s, -1); softmax(where(({CAUSAL}) & (d < 1024) & (d % 2 == 0), s, -inf)) @ v",
        64, 64, "bfloat16",
    ),
    "window of blocks, narrow": ("attention(q, k, v, mask='(j // 48 <= i // 48) & (j > i - 1024)')", 64, 64, "float16"),
    "blocks, narrow": ("attention(q, k, v, mask='j // 64 <= i // 64')", 64, 64, "bfloat16"),
    "every 128th place and a window, narrow": (
        "attention(q, k, v, mask='(j <= i) & ((j % 128 < 8) | (j > i - 1024))')", 64, 64, "bfloat16",
    ),
    "dilated by three ends of each row, narrow": (
        "attention(q, k, v, mask='(j <= i + far[i]) & ((i - j) % 3 == 0)', far=far)", 64, 64, "bfloat16",
    ),
    "ends of each row, narrow": ("attention(q, k, v, mask='(j <= i + far[i])', far=far)", 64, 64, "bfloat16"),
    "ranges of each row, narrow": (
        "attention(q, k, v, mask='(j >= near[i]) & (j < far[i])', near=near, far=far)", 64, 64, "bfloat16",
    ),
    "dilated ends of each row, narrow": (
        "attention(q, k, v, mask='(j <= i + far[i]) & (j > i - 1024) & ((i - j) % 4 == 0)', far=far)",
        64, 64, "float16",
    ),
    "dilated": (
        LINES + f"softmax(where(({CAUSAL}) & ((iota(s, -2) - iota(s, -1)) % 4 == 0), s, -inf)) @ v",
        128, 128, "bfloat16",
    ),
    "dilated, wide": (
        LINES + f"softmax(where(({CAUSAL}) & ((iota(s, -2) - iota(s, -1)) % 4 == 0), s, -inf)) @ v",
        256, 256, "bfloat16",
    ),
    "lengths": ("attention(q, k[:, :2], v[:, :2], lengths=lengths)", 128, 64, "bfloat16"),
}  # fmt: skip


def specs(params, n, m, width, out, dtype):
    of = {"q": ((2, 8, n, width), dtype), "k": ((2, 8, m, width), dtype), "v": ((2, 8, m, out), dtype)}
    of |= {"bias": ((n, m), dtype), "doc": ((m,), "int32"), "slope": ((8,), "float32"), "lengths": ((2,), "int32")}
    of |= {"near": ((n,), "int32"), "far": ((n,), "int32"), "keep": ((n, m), "bool"), "sink": ((8, 1, 1), dtype)}
    of |= {"table": ((8, n + m), "float32"), "biases": ((8, n, m), dtype), "docs": ((2, max(n, m)), "int32")}
    return [0.25 if name == "scale" else fd.spec(*of[name]) for name in params]


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """Numba's own frontend is not asked, and NVVM finds no fault of a module."""

    def refused(*arguments):
        raise AssertionError("a form of the generated file was left to Numba")

    monkeypatch.setattr(numba_backend, "lower", refused)
    monkeypatch.setattr(numba_backend, "VERIFIES", True)


SPILLED = {
    "clipped": "attention(q, k, v, score='score + table[h, minimum(i - j, 127)]', mask='j <= i', table=table)",
    "dropped": LINES + f"p = where({CAUSAL}, sigmoid(s), 0); where(uniform(7, p) < 0.9, p, 0) @ v",
}


@pytest.mark.parametrize("name", SPILLED)
def test_what_spills_takes_fewer_columns(name, monkeypatch, tmp_path):
    """Which number of columns spills is the compiler's: here it says so of the first."""
    own, compiled = cache.Cache(tmp_path), compile.compile_source

    def spilling(kernel, schedule, *where):
        built = compiled(kernel, schedule, *where)
        return built if schedule.after_spill else replace(built, spill_bytes=built.spill_bytes + 8)

    for what, stand_in in (
        ("compile_source", spilling),
        ("disk", lambda: own),
        ("_compiled_kernels", LRU(lambda: 1000)),
    ):
        monkeypatch.setattr(compile, what, stand_in)
    kernel = fd.kernel(SPILLED[name], fallback=False)
    arrays = specs(kernel.params, 4096, 4096, 64, 64, "float16")
    (found,) = kernel.resources(*arrays, cc=90)
    assert found.figures.spill_bytes == 0
    (told,) = kernel.explain(*arrays, device="cuda", cc=90).kernels
    assert "spilled" in told.schedule and found.figures == told.figures


@pytest.mark.parametrize("name", VARIANTS)
def test_nothing_spills_no_product_waits_and_numba_is_not_asked(name, alone):
    text, *sizes = VARIANTS[name]
    kernel = fd.kernel(text)
    case = resolved_call(kernel._program, specs(kernel.params, 4096, 4096, *sizes), "cuda", 90)
    (members,) = case.launches
    scheduled, schedule = case.scheduled(*members[0])
    from fusedsl.backends.cuda import compile as generate

    assert type(schedule).__name__ == "Sm90AttentionSchedule"
    found = generate.compile_source(generate.generate(scheduled, schedule), "attend.py", scheduled, schedule, (9, 0))
    assert found.spill_bytes == 0
    assert "C75" not in found.log  # ptxas on products that it serialises


def binaries(text, lengths):
    kernel, found = fd.kernel(text), set()
    for n, m in lengths:
        case = resolved_call(kernel._program, specs(kernel.params, n, m, 64, 64, "bfloat16"), "cuda", 90)
        for plan, bound in case.kernels:
            found.add(cuda_key(*case.scheduled(plan, bound), plan.digest, (9, 0)))
    return found


@pytest.mark.parametrize(
    "text",
    [
        "attention(q, k, v, mask='j <= i', scale=scale)",
        "attention(q, k, v, mask='keep[i, j]', keep=keep)",
        "attention(q, k, v, score='score + bias[i, j]', bias=bias, lengths=lengths)",
    ],
)
def test_lengths_scales_and_arrays_share_a_binary(text):
    draw = random.Random(0)
    sizes = [[int(65 * 300 ** draw.random()) for _ in range(2)] for _ in range(40)]
    assert len(binaries(text, sizes)) <= 2  # arrays whose lines are multiples of 16 bytes, and others
    assert len(binaries(text, [(1 + n % 64, m) for n, m in sizes])) <= 12


def test_a_quarter_of_a_million_tokens_are_not_too_many():
    kernel = fd.kernel("attention(q, k, v, mask='j <= i')")
    arrays = specs(kernel.params, 1 << 18, 1 << 18, 128, 128, "bfloat16")
    assert str(kernel.explain(*arrays, device="cuda", compile=False)).startswith("1 kernel ")
