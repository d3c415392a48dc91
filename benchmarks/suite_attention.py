"""The suite `attention`: forward passes and texts between softmax and scores beside their peers, single rows over long
keys, and the memory of a call; 16k tokens, heads * d = 2048."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from fusedsl.bench.interleaved_timing import ROUNDS, Subject, compare
from fusedsl.bench.record import Report, failed_row, times_row
from fusedsl.bench.workloads import selected
from suite_gpu import Settings, need_gpu

TOKENS, MODEL = 16_384, 2_048
RATE = 790e6  # FLOP in a µs: what cuBLAS reaches on an H200 in its best product of matrices
BANDWIDTH = 4.4e6  # bytes in a µs: what an H200 reads and does nothing with
MASKED = ("window", "alibi", "softcap", "documents", "bias")
WEIGHED = ("plus one", "sink", "dropout")
DECODED = ((16, 32_768, 4, 1), (16, 8192, 4, 1), (1, 131_072, 4, 1), (16, 8192, 4, 8), (4, 8192, 1, 1))


@dataclass(frozen=True)
class Case:
    """One forward pass: a text's name, the width of a head, the length, and how many heads share keys and values. Of
    the case decode, `keys` is the length of the stream, and `batch` sequences are independent."""

    name: str
    width: int
    length: int
    shared: int = 1
    keys: int = 0
    batch: int = 0

    @property
    def heads(self) -> int:
        return 32 if self.name == "decode" else MODEL // self.width

    @property
    def stream(self) -> int:
        return self.keys or self.length

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.batch or max(1, TOKENS // self.length), self.heads, self.length, self.width)

    @property
    def causal(self) -> bool:
        return self.name not in ("full", "bias", "decode")

    @property
    def flops(self) -> int:
        """Of the pairs that count; of documents, those of this suite's."""
        from peers_attention import DOCUMENTS, WINDOW

        n = self.length
        pairs = n * self.stream // (2 if self.causal else 1)
        if self.name == "window":
            pairs = WINDOW * n - WINDOW * WINDOW // 2
        if self.name == "documents":
            pairs = n * n // (2 * DOCUMENTS)
        return 4 * pairs * math.prod(self.shape) // n

    @property
    def bytes(self) -> int:
        """Of the operands and the result."""
        streamed = self.shape[0] * self.heads // self.shared * self.stream * self.width
        return 2 * 2 * (math.prod(self.shape) + streamed)

    @property
    def floor(self) -> float:
        """µs of the products, or of the bytes where that is more."""
        return round(max(self.flops / RATE, self.bytes / BANDWIDTH if self.name == "decode" else 0), 3)

    @property
    def told(self) -> str:
        shared = f" kv/{self.shared}" if self.shared > 1 else ""
        if self.name == "decode":
            return f"b{self.batch} d{self.width} {self.length}x{self.keys}{shared}"
        return f"d{self.width} n{self.length}{shared}"


def cases(settings: Settings) -> list[Case]:
    """Every case that was asked for."""
    lengths = (512,) if settings.quick else (1024, 4096, 8192, 16_384)
    found = [Case(name, d, n) for d in (64, 128, 256) for n in lengths for name in ("full", "causal")]
    found += [Case(name, 128, lengths[-3 % len(lengths)]) for name in MASKED]
    found += [Case(name, d, lengths[-3 % len(lengths)]) for name in WEIGHED for d in (64, 128)]
    found.append(Case("causal", 64, lengths[-3 % len(lengths)], shared=4))
    for batch, keys, shared, rows in DECODED:
        found.append(Case("decode", 128, rows, shared, keys // 64 if settings.quick else keys, batch))
    return settings.share([c for c in found if selected(settings.only, c.name, c.told, "bfloat16")])


def run(report: Report, settings: Settings) -> None:
    """Measure the suite. Raises RuntimeError where there is no GPU or no torch to time with."""
    need_gpu("attention")
    from gpu import Card

    card = Card()
    for case in cases(settings):
        _measure(report, settings, card, case)
    for length in (512,) if settings.quick else (4096, 16_384, 65_536):
        if selected(settings.only, "memory", f"d128 n{length}", "bfloat16"):
            _memory(report, settings, card, length)


def _measure(report: Report, settings: Settings, card: Any, case: Case) -> None:
    """One case, by all that compute it in turn."""
    from peers_attention import UNFUSED, Peers

    peers, told, facts = Peers(case), ("attention", case.name, case.told, "bfloat16"), (case.bytes, case.flops)
    entrants = {name: partial(_entrant, card, peers, name) for name in peers.names}
    calls = ROUNDS * max(3, settings.repetitions // ROUNDS)
    times = compare(report, Subject(told, facts, case.floor), entrants, calls, once=UNFUSED)
    rate, unit = (case.bytes / 1e3, "GB/s") if case.name == "decode" else (case.flops / 1e6, "TFLOP/s")
    shown = ", ".join(f"{name} {rate / sorted(t)[len(t) // 2]:.0f}" for name, t in times.items())
    print(f"  {case.name} {case.told}: {unit} {shown}", flush=True)
    if set(UNFUSED) & set(times):
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()


def _entrant(card: Any, peers: Any, name: str):
    """One peer's timer, once its results are checked against float64."""
    from peers_attention import OWN_STREAM

    call = peers.build(name)
    error = peers.error(peers.result(name, call))
    return partial(card.wall_times if name in OWN_STREAM else card.times, call), error


def _memory(report: Report, settings: Settings, card: Any, length: int) -> None:
    """What a call takes from torch's memory beside its arrays; more than twice its result is a failure."""
    import torch

    from peers_attention import Peers

    case = Case("causal", 128, length, batch=1)
    peers, told = Peers(case), ("attention", "memory", f"d128 n{length}", "bfloat16")
    call = peers.build("fusedsl")
    error = peers.error(call())
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    taken = torch.cuda.max_memory_allocated() - before
    print(f"  memory d128 n{length}: {taken} bytes beside the arrays, {taken / length:.0f} a token", flush=True)
    facts = (taken, case.flops)
    if taken > 2 * 2 * math.prod(case.shape):
        report.add(failed_row(told, "fusedsl", facts, f"takes {taken} bytes"))
        return
    report.add(
        times_row(told, "fusedsl", card.times(call, max(3, settings.repetitions // 10)), facts, case.floor, error)
    )
