"""The suite `attention`: forward passes beside cuDNN, FlashAttention-2 and FlexAttention, and texts between softmax and
scores; 16k tokens, heads * d = 2048."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from record import Report, failed_row, times_row
from suite_gpu import Settings, need_gpu
from workloads import selected

TOKENS, MODEL = 16_384, 2_048
RATE = 790e6  # FLOP in a µs: what cuBLAS reaches on an H200 in its best product of matrices
ROUNDS = 3  # peers take turns: the card's clock falls as it warms
WINDOW, CAP, DOCUMENTS = 1024, 30.0, 8
CAUSAL = "iota(s, -1) <= iota(s, -2)"
TEXTS = {
    "full": "softmax(s) @ v",
    "causal": f"softmax(where({CAUSAL}, s, -inf)) @ v",
    "window": f"softmax(where(({CAUSAL}) & (iota(s, -1) > iota(s, -2) - {WINDOW}), s, -inf)) @ v",
    "alibi": f"softmax(where({CAUSAL}, s + slope[:, None, None] * (iota(s, -1) - iota(s, -2)), -inf)) @ v",
    "softcap": f"softmax(where({CAUSAL}, {CAP} * tanh(s / {CAP}), -inf)) @ v",
    "documents": f"softmax(where(({CAUSAL}) & (doc[:, None] == doc[None, :]), s, -inf)) @ v",
    "bias": "softmax(s + bias) @ v",
}


@dataclass(frozen=True)
class Case:
    """One forward pass: a text's name, the width of a head, the length, and how many heads share keys and values."""

    name: str
    width: int
    length: int
    shared: int = 1

    @property
    def heads(self) -> int:
        return MODEL // self.width

    @property
    def shape(self) -> tuple[int, ...]:
        return (max(1, TOKENS // self.length), self.heads, self.length, self.width)

    @property
    def causal(self) -> bool:
        return self.name not in ("full", "bias")

    @property
    def flops(self) -> int:
        """Of the pairs that count; of documents, those of this suite's."""
        n = self.length
        pairs = n * n // (2 if self.causal else 1)
        if self.name == "window":
            pairs = WINDOW * n - WINDOW * WINDOW // 2
        if self.name == "documents":
            pairs = n * n // (2 * DOCUMENTS)
        return 4 * pairs * math.prod(self.shape) // n

    @property
    def told(self) -> str:
        return f"d{self.width} n{self.length}" + (f" kv/{self.shared}" if self.shared > 1 else "")


def cases(settings: Settings) -> list[Case]:
    """Every case that was asked for."""
    lengths = (512,) if settings.quick else (1024, 4096, 8192, 16_384)
    found = [Case(name, d, n) for d in (64, 128, 256) for n in lengths for name in ("full", "causal")]
    found += [Case(name, 128, lengths[-3 % len(lengths)]) for name in TEXTS if name not in ("full", "causal")]
    found.append(Case("causal", 64, lengths[-3 % len(lengths)], shared=4))
    return settings.share([c for c in found if selected(settings.only, c.name, c.told, "bfloat16")])


class Peers:
    """The arrays of a case, and what computes it."""

    def __init__(self, case: Case):
        import torch

        self.case, self.torch = case, torch
        batch, heads, n, width = case.shape
        small = (batch, heads // case.shared, n, width)
        self.q, self.k, self.v = (self._random(*shape) for shape in (case.shape, small, small))
        self.slope = torch.logspace(-1, -8, heads, base=2.0, device="cuda")
        self.doc = torch.arange(n, device="cuda", dtype=torch.int32) * DOCUMENTS // n
        self.bias = self._random(n, n) if case.name == "bias" else None

    def _random(self, *shape: int) -> Any:
        return self.torch.randn(*shape, device="cuda", dtype=self.torch.bfloat16)

    @cached_property
    def names(self) -> tuple[str, ...]:
        if self.case.name in ("full", "causal") and self.case.shared == 1:
            return ("fusedsl", "cudnn", "flash-attention-2")
        return ("fusedsl", "flex", *(("cudnn",) if self.case.shared > 1 else ()))

    def build(self, name: str) -> Callable[[], Any]:
        """A call that computes the case."""
        if name == "fusedsl":
            return self._fusedsl()
        if name == "flex":
            return self._flex()
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = SDPBackend.CUDNN_ATTENTION if name == "cudnn" else SDPBackend.FLASH_ATTENTION
        attend = self.torch.nn.functional.scaled_dot_product_attention

        def call() -> Any:
            with sdpa_kernel(backend):
                return attend(self.q, self.k, self.v, is_causal=self.case.causal, enable_gqa=self.case.shared > 1)

        return call

    def _fusedsl(self) -> Callable[[], Any]:
        import fusedsl as fd

        if self.case.shared > 1:
            return lambda: fd.attention(self.q, self.k, self.v, mask="j <= i")
        kernel = fd.kernel(f"s = q @ k.mT * {self.case.width**-0.5!r}\n{TEXTS[self.case.name]}")
        given = [getattr(self, name) for name in kernel.params]
        return lambda: kernel(*given)

    def _flex(self) -> Callable[[], Any]:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        torch, case = self.torch, self.case
        masks = {
            "window": lambda b, h, i, j: (j <= i) & (j > i - WINDOW),
            "documents": lambda b, h, i, j: (j <= i) & (self.doc[i] == self.doc[j]),
        }
        scores = {
            "alibi": lambda score, b, h, i, j: score + self.slope[h] * (j - i),
            "softcap": lambda score, b, h, i, j: CAP * torch.tanh(score / CAP),
            "bias": lambda score, b, h, i, j: score + self.bias[i, j],
        }
        block = None
        if case.causal:
            keep = masks.get(case.name, lambda b, h, i, j: j <= i)
            block = create_block_mask(keep, None, None, case.length, case.length)
        compiled = torch.compile(flex_attention, dynamic=False)
        options = {"score_mod": scores.get(case.name), "block_mask": block, "enable_gqa": case.shared > 1}
        return lambda: compiled(self.q, self.k, self.v, **options)

    def error(self, result: Any, rows: int = 256) -> float:
        """The largest error of the last rows of a head, over the largest value there, against float64."""
        torch, n = self.torch, self.case.length
        q, k, v = (x[-1, -1].double() for x in (self.q, self.k, self.v))
        i, j = torch.arange(n - rows, n, device="cuda")[:, None], torch.arange(n, device="cuda")[None]
        s = q[-rows:] @ k.mT * self.case.width**-0.5
        if self.case.name == "alibi":
            s = s + self.slope[-1].double() * (j - i)
        if self.case.name == "softcap":
            s = CAP * torch.tanh(s / CAP)
        if self.bias is not None:
            s = s + self.bias[-rows:].double()
        if self.case.causal:
            keep = j <= i
            keep = keep & (j > i - WINDOW) if self.case.name == "window" else keep
            keep = keep & (self.doc[i] == self.doc[j]) if self.case.name == "documents" else keep
            s = s.masked_fill(~keep, -math.inf)
        expected = torch.softmax(s, -1) @ v
        return float((result[-1, -1, -rows:].double() - expected).abs().max() / expected.abs().max())


def run(report: Report, settings: Settings) -> None:
    """Measure the suite. Raises RuntimeError where there is no GPU or no torch to time with."""
    need_gpu("attention")
    from gpu import Card

    card = Card()
    for case in cases(settings):
        peers, told = Peers(case), ("attention", case.name, case.told, "bfloat16")
        facts = (2 * (2 * peers.q.numel() + peers.k.numel() + peers.v.numel()), case.flops)
        calls, errors = {}, {}
        for name in peers.names:
            try:
                calls[name] = peers.build(name)
                errors[name] = peers.error(calls[name]())
            except Exception as fault:  # a peer's failure is a result, whatever its type
                calls.pop(name, None)
                report.add(failed_row(told, name, facts, fault))
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                times[name] += card.times(call, max(3, settings.repetitions // ROUNDS))
        for name, found in times.items():
            report.add(times_row(told, name, found, facts, round(case.flops / RATE, 3), errors[name]))
        shown = ", ".join(f"{name} {case.flops / 1e6 / sorted(t)[len(t) // 2]:.0f}" for name, t in times.items())
        print(f"  {case.name} {case.told}: TFLOP/s {shown}", flush=True)
