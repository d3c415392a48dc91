"""Tables of measured numbers: python benchmarks/table.py benchmarks/results/*.json [--readme F] [--full F].

The overview has a line a suite; `--readme README.md` puts it between the two markers there. The full tables have a line
a case; `--full benchmarks/RESULTS.md` writes them. Without either, both are printed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if ROOT not in map(Path, sys.path):
    sys.path.append(str(ROOT))

from fusedsl.bench.ratios import FLOOR, OURS, by_case, ratio, share  # noqa: E402
from fusedsl.bench.record import Row  # noqa: E402

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
TITLES = {
    "map": "Elementwise",
    "rows": "Rows: softmax and the norms",
    "wide": "Rows of 256 to 262,144 columns",
    "reductions": "Full, column and other reductions",
    "backward": "Gradients of layer norm and RMS norm",
    "expressions": "The list of examples/expressions.py",
    "attention": "Attention, bfloat16",
    "products": "Products of matrices and what surrounds them",
    "launch": "Warm calls: host time, the floor being the driver's launch",
    "cpu": "On the CPU ({threads} threads)",
}
NOTABLE = ("torch.compile", "torch", "cupy", "numpy", "numexpr", "triton", "liger", "quack", "jax")
NOTABLE += ("cudnn", "flash-attention-2", "flex", "jax cudnn", "cublas")


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
    """A line a suite: how near the floor, and how many times faster than the peers, as geometric means."""
    found = suites(rows)
    named = [peer for peer in NOTABLE if any(_ratios(cases, peer) for cases in found.values())]
    head = ["suite", "cases", "of floor", *(f"vs {peer}" for peer in named)]
    lines = [_row(head), _row(["---"] * len(head))]
    for suite, cases in found.items():
        shares = sorted(part for peers in cases.values() if (part := share(peers[OURS])))
        near = f"{shares[len(shares) // 2]:.2f} (least {shares[0]:.2f})" if shares else ""
        cells = [_mean(_ratios(cases, peer)) for peer in named]
        lines.append(_row([TITLES[suite].format(**_where(machines[suite])), str(len(cases)), near, *cells]))
    cards = dict.fromkeys(_where(m)["gpu"] for suite, m in machines.items() if suite in found and "gpu" in m)
    dates = sorted(m["date"] for suite, m in machines.items() if suite in found)
    where = f"Measured on {' and '.join(cards) or 'this machine'}, {dates[-1]}; geometric means, the least in brackets."
    return "\n".join([*lines, "", where])


def _ratios(cases: dict[tuple, dict[str, Row]], peer: str) -> list[float]:
    return [r for peers in cases.values() if (r := ratio(peers, peer))]


def _mean(ratios: Iterable[float]) -> str:
    found = sorted(ratios)
    if not found:
        return "–"
    return f"{math.exp(sum(map(math.log, found)) / len(found)):.2f}× ({found[0]:.2f})"


# -- the full tables


def markdown(machines: dict[str, dict], rows: Sequence[Row]) -> str:
    """One table a suite; the columns of peers say how many times faster fusedsl is."""
    parts = []
    for suite, cases in suites(rows).items():
        where = _where(machines[suite])
        place = "" if suite == "cpu" else f", on {where['gpu']}"
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
    return [*case[1:], time, f"{part:.2f}" if part else "", *ratios]


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
