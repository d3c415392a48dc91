"""The page of measured times, from benchmarks/results: a section for each card, losses in red, nothing mixed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markdown import table

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
OURS, COPY = "fusedsl", "copy"
LOSS = 0.98  # of a peer's speed, or of the floor's; nearer 1 than that is noise of the medians
SUITES = {
    "cpu": "CPU",
    "map": "Elementwise",
    "rows": "Softmax and norms",
    "wide": "Rows of 256 to 262,144 columns",
    "reductions": "Full, column and other reductions",
    "backward": "Gradients of layer norm and RMS norm",
    "expressions": "Common expressions",
    "attention": "Attention",
    "products": "Matrix products and what surrounds them",
    "first_call": "First calls: planning and compilation",
    "launch": "Warm calls: host time",
}
# A peer that computes only a part of the work, or another function of its own, is no comparison.
PARTIAL = ("alone", "a*b", "cupy float16", "(with forward)", "fused norm", "cublas joined", "cublas, then")
FILES = ("*.json", "h100/attention.json", "h100/first_call.json")
HEAD = """# Performance

Medians of at least 12 calls with cold caches and random data. Every result was checked against float64 before its time
was taken. All peers of a table were measured in one run on one machine. No table mixes two machines.

- **Share of roofline** is the floor divided by our time. The floor is the time of a plain copy of the same bytes, or
  the time to issue the instructions where that is longer. For attention it is the time of its matrix products at the
  best rate of cuBLAS. 1.00 is the limit of the machine. More than 1 means that the copy was not quite at its best.
- **vs a peer** is the peer's time divided by ours: more than 1 means that fusedsl is faster.
- <span class="loss">Red</span> marks less than {loss} of a peer's speed, or of the roofline.

![Speed-ups of the cases, on NVIDIA H100 and H200 GPUs and on a CPU](../static/speedups.svg)

`python -m fusedsl bench` measures on your machine, with the peers that are installed. The raw numbers, with the 20 %
and 80 % quantiles, are JSON files in [benchmarks/results](../../benchmarks/results). Each case has a row in
[RESULTS.md](../../benchmarks/RESULTS.md).
"""


@dataclass
class Suite:
    """The rows of one suite on one machine: times in µs by case and peer."""

    name: str
    machine: dict
    date: str
    versions: dict
    cases: dict[tuple[str, str, str], dict[str, dict]] = field(default_factory=dict)

    @property
    def peers(self) -> list[str]:
        """The peers in the order of the file, those that compute the same work."""
        named = dict.fromkeys(peer for rows in self.cases.values() for peer in rows)
        return [p for p in named if p not in (OURS, COPY) and not any(part in p for part in PARTIAL)]

    def ratios(self, peer: str) -> dict[tuple[str, str, str], float]:
        """How many times faster than a peer, by case."""
        both = {case: rows for case, rows in self.cases.items() if _median(rows, OURS) and _median(rows, peer)}
        return {case: rows[peer]["median_us"] / rows[OURS]["median_us"] for case, rows in both.items()}

    @property
    def shares(self) -> list[float]:
        """Floor over time of each case that has a floor, ascending."""
        ours = [rows[OURS] for rows in self.cases.values() if _median(rows, OURS)]
        return sorted(row["floor_us"] / row["median_us"] for row in ours if row["floor_us"])


def _median(rows: dict[str, dict], peer: str) -> float | None:
    return rows[peer]["median_us"] if peer in rows else None


def suites() -> list[Suite]:
    """The suites of all files; one of two files of the same machine is two."""
    paths = sorted(path for pattern in FILES for path in RESULTS.glob(pattern))
    found = [suite for path in paths for suite in read(path) if suite.name in SUITES]
    return sorted(found, key=lambda suite: list(SUITES).index(suite.name))


def read(path: Path) -> list[Suite]:
    """The suites of a file."""
    data = json.loads(path.read_text())
    parts: dict[str, Suite] = {}
    for row in data.get("rows", ()):
        if row.get("peer"):
            name = row["suite"]
            suite = parts.setdefault(name, Suite(name, data["machine"], data["date"][:10], data["versions"]))
            suite.cases.setdefault((row["workload"], row["shape"], row["dtype"]), {})[row["peer"]] = row
    return list(parts.values())


def page() -> str:
    """The whole page."""
    cards: dict[str, list[Suite]] = {}
    for suite in suites():
        cards.setdefault(card(suite), []).append(suite)
    parts = [HEAD.format(loss=LOSS).rstrip()]
    for name in sorted(cards, key=lambda name: (name.startswith("CPU"), name)):
        parts += _section(name, cards[name])
    return "\n\n".join(parts) + "\n"


def card(suite: Suite) -> str:
    """The GPU or the CPU that a suite was measured on."""
    if suite.name != "cpu" and "gpu" in suite.machine:
        return suite.machine["gpu"].split(",")[0]
    return f"CPU: {suite.machine['cpu']}, {suite.machine['threads']} threads"


def _section(name: str, found: Sequence[Suite]) -> Iterable[str]:
    dates = sorted({suite.date for suite in found})
    yield f"## {name}"
    yield f"Measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))}."
    for suite in found:
        yield f"### {SUITES[suite.name]}"
        yield f"{len(suite.cases)} cases, {suite.date}; {_software(suite)}."
        yield table(("", "geometric mean", "minimum", "cases"), _overview(suite))
        yield _losses(suite)


def _software(suite: Suite) -> str:
    named = ("torch", "triton", "cupy", "jax", "numexpr", "numpy", "numba")
    return ", ".join(f"{name} {suite.versions[name]}" for name in named if suite.versions.get(name))


def _overview(suite: Suite) -> Iterable[Sequence[str]]:
    if shares := suite.shares:
        yield "share of roofline", f"{mean(shares):.2f}", red(shares[0], LOSS, ""), str(len(shares))
    for peer in suite.peers:
        if ratios := list(suite.ratios(peer).values()):
            cells = red(mean(ratios), LOSS), red(min(ratios), LOSS)
            yield f"vs {peer}", *cells, str(len(ratios))


def _losses(suite: Suite) -> str:
    """A table of the cases that are slower than some peer; a sentence if there is none."""
    lost = {case for peer in suite.peers for case, ratio in suite.ratios(peer).items() if is_loss(ratio)}
    if not lost:
        return f"No case is slower than {LOSS} of a peer's speed." if suite.peers else ""
    named = [peer for peer in suite.peers if any(is_loss(suite.ratios(peer).get(case, 1)) for case in lost)]
    rows = []
    for case in sorted(lost):
        ratios = [suite.ratios(peer).get(case) for peer in named]
        ours = suite.cases[case][OURS]["median_us"]
        rows.append([*case, f"{ours:,.1f}", *("–" if r is None else red(r, LOSS) for r in ratios)])
    title = f"Slower than a peer: {len(lost)} of {len(suite.cases)} cases."
    return title + "\n\n" + table(("workload", "shape", "dtype", "µs", *(f"vs {p}" for p in named)), rows)


def is_loss(ratio: float) -> bool:
    """Whether a ratio, as it is printed, is a loss."""
    return round(ratio, 2) < LOSS


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def red(value: float, limit: float = LOSS, unit: str = "×") -> str:
    """A ratio, in red if it is a loss."""
    text = f"{value:.2f}{unit}"
    return f'<span class="loss">{text}</span>' if round(value, 2) < limit else text
