"""Tables of measured numbers: python benchmarks/table.py benchmarks/results/*.json [--readme F] [--full F].

The overview has a line a suite; `--readme README.md` puts it between the two markers there. The full tables have a line
a case; `--full benchmarks/RESULTS.md` writes them. Without either, both are printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean

ROOT = Path(__file__).resolve().parent.parent
if ROOT not in map(Path, sys.path):
    sys.path.append(str(ROOT))

from fusedsl.bench.ratios import FLOOR, OURS, by_case, ratio, share, shortfall  # noqa: E402
from fusedsl.bench.record import Row  # noqa: E402

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
TITLES = {
    "map": "Elementwise",
    "rows": "Softmax and norms",
    "wide": "Rows of 256 to 262,144 columns",
    "reductions": "Reductions: full, by columns, over other axes",
    "backward": "Gradients of layer norm and RMS norm",
    "expressions": "Common expressions (examples/expressions.py)",
    "attention": "Attention, bfloat16",
    "products": "Products of matrices and what surrounds them",
    "language": "Every function of the language",
    "launch": "Warm calls: host time; the roofline is the driver's launch",
    "cpu": "On the CPU ({threads} threads)",
    "language_cpu": "Every function of the language on the CPU ({threads} threads)",
}
WHOLE = ("language", "language_cpu")  # suites of all functions, whose workloads are texts
UNFUSED = {"cpu": "numpy", "language_cpu": "numpy", "attention": "cupy", "launch": None}  # of other suites torch
# A peer that computes only a part of the work, or another function of its own, is no comparison.
PARTIAL = ("alone", "a*b", "cupy float16", "(with forward)", "fused norm", "cublas joined", "cublas, then")


def read(paths: Sequence[Path]) -> tuple[dict[str, dict], list[Row]]:
    """(each suite's machine, all rows). A later file replaces the cases that an earlier one holds too.

    Files of other measurements, such as errors in ulps, have no rows with a peer.
    """
    machines: dict[str, dict] = {}
    rows: dict[tuple, Row] = {}
    for path in paths:
        data = json.loads(path.read_text())
        for row in (Row(**item) for item in data.get("rows", ()) if "peer" in item):
            rows[(*row.case, row.peer)] = row
            machines[row.suite] = {**data["machine"], "date": data["date"][:10]}
    return machines, list(rows.values())


def suites(rows: Sequence[Row]) -> dict[str, dict[tuple, dict[str, Row]]]:
    """The cases of each suite that fusedsl was measured in, in the order of the titles."""
    cases = by_case(rows)
    found = {}
    for suite in TITLES:
        chosen = {c: p for c, p in cases.items() if c[0] == suite and OURS in p and p[OURS].median_us}
        if chosen:
            found[suite] = chosen
    return found


def _where(machine: dict) -> dict:
    return {"threads": "some", **machine, "gpu": str(machine.get("gpu", "a GPU")).split(",")[0]}


# -- the overview


def overview(machines: dict[str, dict], rows: Sequence[Row]) -> str:
    """A line a suite: the share of the roofline, and the speed-ups, as geometric means with their minima."""
    head = ["suite", "cases", "share of roofline", "over unfused", "over torch.compile", "over the fastest other"]
    lines = [_row(head), _row(["---"] * len(head))]
    found = suites(rows)
    for suite, cases in found.items():
        shares = [part for peers in cases.values() if (part := share(peers[OURS]))]
        reached = [speedups(cases, unfused(suite)), speedups(cases, "torch.compile"), over_fastest(cases)]
        cells = [_mean(shares, ""), *(_mean(list(r.values()), "×") for r in reached)]
        lines.append(_row([TITLES[suite].format(**_where(machines[suite])), str(len(cases)), *cells]))
    used = [m for suite, m in machines.items() if suite in found]
    where = " and ".join(dict.fromkeys(_where(m)["gpu"] if "gpu" in m else m["cpu"] for m in used))
    dates = sorted({m["date"] for m in used})
    where = f"Measured on {where}, {' to '.join(dates[:: max(1, len(dates) - 1)])}."
    return "\n".join([*lines, "", f"Geometric means, with the minimum in brackets. {where}"])


def unfused(suite: str) -> str | None:
    """The peer of a suite that computes each operation by itself."""
    return UNFUSED.get(suite, "torch")


def speedups(cases: dict[tuple, dict[str, Row]], peer: str | None) -> dict[tuple, float]:
    """How many times faster than a peer, by case."""
    return {case: r for case, peers in cases.items() if peer and (r := ratio(peers, peer))}


def over_fastest(cases: dict[tuple, dict[str, Row]]) -> dict[tuple, float]:
    """How many times faster than the fastest of all peers that compute the same, by case."""
    found = {}
    for case, peers in cases.items():
        others = [name for name in peers if name not in (OURS, FLOOR) and not any(part in name for part in PARTIAL)]
        reached = [r for name in others if (r := ratio(peers, name))]
        if reached:
            found[case] = min(reached)
    return found


def _mean(values: Sequence[float], unit: str) -> str:
    return f"{geometric_mean(values):.2f}{unit} ({min(values):.2f})" if values else "–"


# -- the full tables


def markdown(machines: dict[str, dict], rows: Sequence[Row]) -> str:
    """One table a suite; the columns of peers say how many times faster fusedsl is."""
    parts = []
    for suite, cases in suites(rows).items():
        if suite in WHOLE:
            cases = dict(sorted(cases.items(), key=lambda item: shortfall(item[1])))
        where = _where(machines[suite])
        place = "" if suite.endswith("cpu") else f", on {where['gpu']}"
        place += ", the worst first" if suite in WHOLE else ""
        names = dict.fromkeys(peer for peers in cases.values() for peer in peers if peer not in (OURS, FLOOR))
        head = ["workload", "shape", "dtype", "µs", "of floor", *(f"vs {p}" for p in names)]
        lines = [f"## {TITLES[suite].format(**where)}{place}, {where['date']}", "", _row(head)]
        lines += [_row(["---"] * len(head)), *(_row(_cells(case, peers, list(names))) for case, peers in cases.items())]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _cells(case: tuple, peers: dict[str, Row], names: Sequence[str]) -> list[str]:
    ours = peers[OURS]
    part = share(ours)
    ratios = [f"{r:.2f}×" if (r := ratio(peers, name)) else "–" for name in names]
    time = f"{ours.median_us:,.0f}" if ours.median_us > 50 else f"{ours.median_us:.2f}"
    name = f"`{case[1]}`" if case[0] in WHOLE else case[1]
    return [name, *case[2:], time, f"{part:.2f}" if part else "", *ratios]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


FULL = """# Measured

Every case of `benchmarks/run.py`, from the files in results/: our median in µs, the floor over it, and how many times
faster it is than each peer of the same run. Made by `benchmarks/table.py`; the README says what the floor is.

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--readme", type=Path, metavar="F")
    parser.add_argument("--full", type=Path, metavar="F")
    chosen = parser.parse_args()
    told = read(chosen.files)
    if chosen.full:
        chosen.full.write_text(FULL + markdown(*told) + "\n")
    if chosen.readme:
        before, _, rest = chosen.readme.read_text().partition(BEGIN)
        _, mark, after = rest.partition(END)
        if not mark:
            print(f"{chosen.readme} lacks the lines {BEGIN} and {END}", file=sys.stderr)
            return 1
        chosen.readme.write_text(f"{before}{BEGIN}\n{overview(*told)}\n{END}{after}")
    if not (chosen.full or chosen.readme):
        print(f"{overview(*told)}\n\n{markdown(*told)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
