"""Predicted and real registers over random programs, without a GPU: python benchmarks/registers.py [--count N].

Prints a line for each kernel whose prediction was too low, that spilled as first asked, or spills as it is launched;
then how predictions are distributed. `--json FILE` keeps every row.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if ROOT not in map(Path, sys.path):
    sys.path.append(str(ROOT))

import fusedsl as fd  # noqa: E402
from fusedsl.bench.record import machine, now, versions  # noqa: E402
from fusedsl.report.explain import resolved_call  # noqa: E402
from fusedsl.report.kernel_report import report_launch  # noqa: E402
from random_graphs import draw  # noqa: E402


@dataclass(frozen=True)
class Row:
    """One kernel of one random program: registers as predicted and as compiled, and whether the plan had to shrink."""

    seed: int
    kernel: str
    schedule: str
    predicted: int
    real: int
    spill_bytes: int
    shrunk: bool

    @property
    def ratio(self) -> float:
        return self.predicted / self.real


def study(seeds: Sequence[int], cc: int = 90) -> Iterator[Row]:
    """The kernels of the programs of these seeds."""
    for seed in seeds:
        drawn = draw(seed)
        made = fd.kernel(drawn.text)
        case = resolved_call(made._program, drawn.values(made.params), "cuda", cc)
        for members in case.launches:
            built = case.built(members)
            told = report_launch(case, members, built)
            assert told.figures is not None and told.predicted_registers is not None
            shrunk = 0 < built.blocks < built.schedule.blocks
            figures = (told.predicted_registers, told.figures.registers, told.figures.spill_bytes)
            yield Row(seed, told.name, told.schedule, *figures, shrunk)


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def summary(rows: Sequence[Row]) -> list[str]:
    """What to know of a study."""
    ratios = [row.ratio for row in rows]
    spread = ", ".join(f"{name} {quantile(ratios, q):.2f}" for name, q in (("median", 0.5), ("90 %", 0.9), ("most", 1)))
    return [
        f"{len(rows)} kernels; predicted over real: {spread}",
        f"{sum(row.predicted < row.real for row in rows)} predicted too low, "
        f"{sum(row.spill_bytes > 0 for row in rows)} spill, {sum(row.shrunk for row in rows)} plans had to shrink",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="random programs (500)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first (0)")
    parser.add_argument("--cc", type=int, default=90, help="compute capability (90)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the rows go")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for row in study(range(chosen.first, chosen.first + chosen.count), chosen.cc):
        rows.append(row)
        if row.shrunk or row.spill_bytes or row.predicted < row.real:
            print(f"  {row.seed} {row.kernel}: {row.predicted} predicted, {row.real} real, {row.spill_bytes} B spilled")
    print("\n".join(summary(rows)))
    if chosen.json:
        head = {"machine": machine(), "versions": versions(), "date": now(), "compute_capability": chosen.cc}
        told = json.dumps({**head, "rows": []}, indent=1)[: -len("]\n}")]
        lines = ",\n  ".join(json.dumps(asdict(row)) for row in rows)
        chosen.json.write_text(f"{told}\n  {lines}\n ]\n}}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
