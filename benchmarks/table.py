"""Print the README's table of measured numbers from result files: python benchmarks/table.py benchmarks/results/*.json.

With `--write README.md` the table replaces what stands between the two markers there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from record import Row
from summary import by_case, ratio, share

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PEERS = {
    "map": ("cupy", "cupy.fuse", "cupy.ElementwiseKernel", "torch", "torch.compile"),
    "rows": ("cupy", "torch", "torch.compile", "triton"),
    "cpu": ("numpy", "numexpr", "torch"),
}
TITLES = {"map": "Elementwise, on {gpu}", "rows": "Rows, on {gpu}", "cpu": "On the CPU ({cpu}, {threads} threads)"}


def read(paths: Sequence[Path]) -> tuple[dict[str, dict], list[Row]]:
    """(each suite's machine, all rows). A later file replaces the cases that an earlier one holds too."""
    machines: dict[str, dict] = {}
    rows: dict[tuple, Row] = {}
    for path in paths:
        data = json.loads(path.read_text())
        for item in data["rows"]:
            row = Row(**item)
            rows[(*row.case, row.peer)] = row
            machines[row.suite] = {**data["machine"], "date": data["date"][:10]}
    return machines, list(rows.values())


def markdown(machines: dict[str, dict], rows: Sequence[Row]) -> str:
    """One table a suite; the columns of peers say how many times faster fusedsl is."""
    parts = []
    cases = by_case(rows)
    for suite, title in TITLES.items():
        chosen = {case: peers for case, peers in cases.items() if case[0] == suite and "fusedsl" in peers}
        if not chosen:
            continue
        where = {"gpu": "a GPU", **machines[suite]}
        where["gpu"] = str(where["gpu"]).split(",")[0]
        head = ["workload", "shape", "dtype", "µs", "of floor", *(f"vs {p}" for p in PEERS[suite])]
        lines = [f"**{title.format(**where)}, {where['date']}**", "", _row(head), _row(["---"] * len(head))]
        lines += [_row(_cells(case, peers, PEERS[suite])) for case, peers in chosen.items()]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _cells(case: tuple, peers: dict[str, Row], names: Sequence[str]) -> list[str]:
    ours = peers["fusedsl"]
    if ours.median_us is None:
        return [*case[1:], "failed", "", *("" for _ in names)]
    part = share(ours)
    ratios = [f"{r:.2f}×" if (r := ratio(peers, name)) else "–" for name in names]
    return [*case[1:], f"{ours.median_us:,.0f}", f"{part:.2f}" if part else "", *ratios]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--write", type=Path, metavar="README.md")
    chosen = parser.parse_args()
    text = markdown(*read(chosen.files))
    if chosen.write is None:
        print(text)
        return 0
    before, _, rest = chosen.write.read_text().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        print(f"{chosen.write} lacks the lines {BEGIN} and {END}", file=sys.stderr)
        return 1
    chosen.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
