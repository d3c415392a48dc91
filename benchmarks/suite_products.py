"""The suite `products`: products of matrices and what surrounds them, beside cuBLAS, its epilogue and compilers.

`--quick` times fusedsl and cuBLAS alone, at the same shapes, ten calls each; `--only "gelu 4096x4096x4096"` one case.
`--limit-s` is for one case: what is not done by then is left out, with that reason. `--random N` adds N random shapes,
`--tuned` torch.compile's max-autotune; with `--own` no library computes a product of fusedsl's.
"""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import exp, log
from typing import Any

import products
from fusedsl.bench.interleaved_timing import Subject, compare
from fusedsl.bench.ratios import FLOOR, OURS, by_case, ratio, share
from fusedsl.bench.record import Report, Row, quantile, times_row
from fusedsl.bench.workloads import selected
from products import COMPILED, CUBLAS, TUNED, Product
from suite_gpu import OVER, Settings, need_gpu
from suite_problems import make_room, worst

QUICK = 10  # timed calls
OWN = ", own"  # behind the names of cases that no library computes
UNASKED = "left out: asked for by --tuned"


def chosen(settings: Settings) -> list[Product]:
    """The cases that the command line lets through."""
    found = [*products.core(), *products.drawn(settings.random, settings.seed)]
    if settings.own:
        found = [replace(c, name=f"{c.name}{OWN}") for c in found]
    return settings.share([c for c in found if selected(settings.only, c.name, c.shape, c.dtype)])


def run(report: Report, settings: Settings) -> None:
    """Measure the suite. Raises RuntimeError where there is no GPU or no torch to time with."""
    need_gpu("products")
    import warm
    from gpu import Card

    picked, end = chosen(settings), settings.compile_until
    if settings.quick:
        settings = replace(settings, repetitions=QUICK)
    elif COMPILED in warm.compile_peers("products", len(picked), settings):
        settings = replace(settings, compile_until=float("inf"))
    if settings.own:
        without_libraries()
    card = Card()
    gc.freeze()  # what is imported is no garbage
    for number, case in enumerate(picked):
        begun = time.monotonic()
        if begun > end and case.name.startswith("random"):  # nothing is said of one beside no compiler
            print(f"  {len(picked) - number} random shapes are left out: the time is over", flush=True)
            picked = picked[:number]
            break
        measure(card, report, settings, case)
        make_room()
        print(f"    {time.monotonic() - begun:.1f} s", flush=True)
    print("\n".join([*means(report.rows), acceptance(picked, report.rows)]), flush=True)


def without_libraries() -> None:
    """From now on no plan of this process has a product that the arrays' library computes."""
    from fusedsl.program import resolve_call

    resolve_call.blas_library = lambda *given: None


def compilers(settings: Settings) -> dict[str, Callable[[Product], None]]:
    """What compiles a case as torch.compile's modes do."""
    return {name: partial(_compile, name) for name in ((COMPILED, TUNED) if settings.tuned else (COMPILED,))}


def _compile(name: str, case: Product) -> None:
    import torch

    from peers_products import Peers

    torch._dynamo.reset()
    if name in case.peers:
        Peers(case).build(name)()


def measure(card: Any, report: Report, settings: Settings, case: Product) -> None:
    """All peers of one case, each checked against float64, and a line that says how it stands."""
    import torch

    from peers_products import Peers

    torch._dynamo.reset()
    peers, end = Peers(case), time.monotonic() + settings.limit_s
    facts, floor = (case.bytes, case.flops), None
    if case.bounded:
        copies = card.copy(case.bytes, "float32", settings.repetitions)
        floor = round(quantile(copies, 0.5), 3)
        report.add(times_row(case.case, FLOOR, copies, facts, floor, None))
    reference = peers.reference()
    told: dict[str, Any] = {}
    prepare = partial(_entrant, card, peers, reference, end, told)
    entrants: dict[str, Any] = {name: partial(prepare, name) for name in peers.names}
    if settings.quick:
        entrants = {name: entrants[name] for name in (OURS, CUBLAS) if name in entrants}
    if not settings.tuned:
        entrants |= dict.fromkeys(entrants.keys() & {TUNED}, UNASKED)
    if time.monotonic() > settings.compile_until:
        entrants |= dict.fromkeys(entrants.keys() & {COMPILED, TUNED}, OVER)
    before = len(report.rows)
    compare(report, Subject(case.case, facts, floor), entrants, settings.repetitions)
    for k in range(before, len(report.rows)):
        if report.rows[k].peer == OURS:
            report.rows[k] = replace(report.rows[k], **told)
    report.write()
    print("  " + line(case, by_case(report.rows)[case.case]), flush=True)


def _entrant(card: Any, peers: Any, reference: tuple, end: float, told: dict[str, Any], name: str):
    """One peer's timer, once its results are checked against float64; of ours the plan and the first call's seconds."""
    from peers_products import as_results

    with limited(end):
        call, begun = peers.build(name), time.monotonic()
        results = as_results(call())
        if name == OURS:
            told["first_s"] = round(time.monotonic() - begun, 2)
            told["plan"] = peers.plan()
        right = peers.reference_of(name, reference)
        error = None if right is None else worst(results, right)

    def times(count: int) -> list[float]:
        with limited(end):
            return card.times(call, count)

    return times, error


@contextmanager
def limited(end: float) -> Iterator[None]:
    """Raises TimeoutError in the body at this time of time.monotonic's clock."""

    def stop(*_: Any) -> None:
        raise TimeoutError("the time for one case is over")

    left = end - time.monotonic()
    if left <= 0:
        stop()
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, left)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# -- what is printed


def line(case: Product, peers: dict[str, Row]) -> str:
    """One case: the time, the rate, how many times faster than each peer, what is wanted, the plan."""
    ours = peers.get(OURS)
    if ours is None or ours.median_us is None:
        return f"{case.name} {case.shape} {case.dtype}: {ours.error if ours else 'no result'}"
    rate = f"{case.flops / ours.median_us / 1e6:.0f} TFLOP/s"
    near = f", {part:.2f} of copy" if (part := share(ours)) else ""
    ratios = "".join(f", {r:.2f}x {name}" for name in peers if name != OURS and (r := ratio(peers, name)))
    missed = misses(case, peers)
    gates = f"MISS {'; '.join(missed)}" if missed else "PASS" if case.wanted else ""
    end = f"\n      {ours.plan}, first call {ours.first_s} s" if ours.plan else ""
    return f"{case.name} {case.shape} {case.dtype}: {ours.median_us:.1f} us, {rate}{near}{ratios}: {gates}{end}"


def misses(case: Product, peers: dict[str, Row]) -> list[str]:
    """What a case misses of what is wanted, in a few words; peers that were not timed are not missed."""
    ours, found = peers[OURS], []
    if ours.error or (ours.max_error or 0) > case.most_error:
        found.append(f"error {ours.max_error}")
    for either in case.wanted:
        known = [(p, least, reached) for p, least in either if (reached := _reached(peers, p))]
        if known and all(reached < least for _, least, reached in known):
            found.append(" and ".join(f"{reached:.3f} of {p} < {least:g}" for p, least, reached in known))
    return found


def _reached(peers: dict[str, Row], peer: str) -> float | None:
    if peer == FLOOR:
        return share(peers[OURS])
    return ratio(peers, peer)


def means(rows: list[Row]) -> list[str]:
    """The geometric means that are wanted: products and GELUs beside cuBLAS, random shapes beside torch.compile."""
    cases, found = by_case(rows), []
    for name, peer, least in (("product", CUBLAS, 1.0), ("gelu", CUBLAS, 1.0), ("random", COMPILED, 1.0)):
        ratios = [
            r
            for (suite, workload, _, dtype), peers in cases.items()
            if suite == "products"
            and workload.removesuffix(OWN).split()[0] == name
            and (dtype == "bfloat16" or name == "random")
            if OURS in peers and (r := ratio(peers, peer))
        ]
        if ratios:
            mean = exp(sum(map(log, ratios)) / len(ratios))
            verdict = "PASS" if mean >= least else "MISS"
            told = f"{len(ratios)} cases, geometric mean {mean:.3f} x {peer}, least {min(ratios):.2f}"
            found.append(f"== {name}: {told}: {verdict}, wanted {least:.2f}")
    return found


def acceptance(picked: list[Product], rows: list[Row]) -> str:
    """How many cases have what is wanted of them, and the names of the others."""
    timed = by_case(rows)
    missed = [c for c in picked if OURS not in timed.get(c.case, {}) or misses(c, timed[c.case])]
    named = ", not: " + "; ".join(f"{c.name} {c.shape} {c.dtype}" for c in missed) if missed else ""
    return f"== {len(picked) - len(missed)} of {len(picked)} cases have what is wanted{named}"
