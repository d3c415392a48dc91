"""Tables of measurements for the pages on migration: one library's peers, a table for each machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markdown import table
from performance_page import OURS, RESULTS, SUITES, Suite, card, mean, read, red, suites


def from_library(suite_name: str, peer: str) -> str:
    """Every case of benchmarks/migration.py of one library: times, and how many times faster."""
    (suite,) = [s for s in read(RESULTS / "migration_cpu.json") if s.name == suite_name]
    rows = []
    for (workload, shape, _), peers in suite.cases.items():
        ours, theirs, numpy = (peers[p]["median_us"] for p in (OURS, peer, "numpy"))
        times = [f"{t / 1e3:,.1f} ms" for t in (ours, theirs, numpy)]
        rows.append([workload, shape, *times, red(theirs / ours), red(numpy / ours)])
    head = ("example", "shape", "fusedsl", peer, "NumPy", f"vs {peer}", "vs NumPy")
    where = f"{suite.machine['cpu']}, {suite.machine['threads']} threads, float64, {suite.date}"
    versions = f"{peer} {suite.versions[peer]}, NumPy {suite.versions['numpy']}"
    how = "Medians; the libraries took turns, each on all threads, with priority over other programs"
    return f"{table(head, rows)}\n\n{how}. {where}; {versions}.\n"


def of_peers(*peers: str, skip: Sequence[str] = ("launch", "first_call")) -> str:
    """Geometric mean, minimum and cases in comparison with these peers, a table for each card."""
    cards: dict[str, list[Sequence[str]]] = {}
    dates: dict[str, set[str]] = {}
    for suite in suites():
        rows = list(_rows(suite, peers)) if suite.name not in skip and suite.name != "cpu" else []
        if rows:
            cards.setdefault(card(suite), []).extend(rows)
            dates.setdefault(card(suite), set()).add(suite.date)
    parts = []
    for name, rows in cards.items():
        between = " to ".join(dict.fromkeys((min(dates[name]), max(dates[name]))))
        parts += [f"{name}, {between}:", table(("suite", "peer", "times faster", "minimum", "cases"), rows)]
    return "\n\n".join(parts) + "\n"


def _rows(suite: Suite, peers: Sequence[str]) -> Iterable[Sequence[str]]:
    for peer in peers:
        if ratios := list(suite.ratios(peer).values()):
            yield SUITES[suite.name], peer, red(mean(ratios)), red(min(ratios)), str(len(ratios))


def cases_of(suite_name: str, peer: str) -> str:
    """Every case of a suite with this peer."""
    parts = []
    for suite in suites():
        ratios = suite.ratios(peer) if suite.name == suite_name else {}
        if ratios:
            rows = [[*case, f"{suite.cases[case][OURS]['median_us']:,.0f}", red(r)] for case, r in ratios.items()]
            parts += [f"{card(suite)}, {suite.date}:", table(("formula", "shape", "dtype", "µs", f"vs {peer}"), rows)]
    return "\n\n".join(parts) + "\n"


PARTS = {
    "from_numexpr.inc": lambda: from_library("from numexpr", "numexpr"),
    "from_numba.inc": lambda: from_library("from numba", "numba"),
    "from_keops.inc": lambda: from_library("from keops", "pykeops"),
    "from_cupy.inc": lambda: of_peers("cupy", "cupy.fuse", "cupy.ElementwiseKernel"),
    "from_torch_compile.inc": lambda: of_peers("torch.compile", "torch"),
    "from_triton.inc": lambda: of_peers("triton"),
    "from_flex.inc": lambda: cases_of("attention", "flex"),
}
