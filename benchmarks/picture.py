"""The README's picture: python benchmarks/picture.py benchmarks/results/*.json --svg docs/static/speedups.svg.

Each case of the suites is a dot: the speed-up over the fastest other library, red below 1; hollow ones are over the
unfused code. A bar is the geometric mean.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from statistics import geometric_mean

import table

WIDTH, LEFT, RIGHT, TOP, ROW = 800, 236, 20, 58, 44
RANGE = (0.25, 120.0)  # of the axis
DOT = 2.3
NAMES = {
    "map": "Elementwise",
    "rows": "Softmax and norms",
    "wide": "Rows to 262,144 columns",
    "reductions": "Reductions",
    "backward": "Gradients of norms",
    "expressions": "Common expressions",
    "attention": "Attention",
    "products": "Matrix products",
    "language": "Every function",
    "launch": "Warm calls, host time",
    "cpu": "CPU, {threads} threads",
    "language_cpu": "Every function, CPU",
}
STYLE = """
text { fill: #16202c; font: 14px system-ui, sans-serif; } .faint { fill: #5a6878; font-size: 12px; }
line { stroke: #dbe1e8; } .one { stroke: #16202c; stroke-dasharray: 4 3; } .mean { stroke: #0b6bcb; stroke-width: 3; }
.ours { fill: #0b6bcb; } .lost { fill: #c8102e; } .unfused { fill: none; stroke: #9aa8b7; }
@media (prefers-color-scheme: dark) { text { fill: #e8edf2; } .faint { fill: #9aa8b7; } line { stroke: #2c3743; }
.one { stroke: #e8edf2; } .mean { stroke: #58a6ff; } .ours { fill: #58a6ff; } .lost { fill: #ff6b7d; }
.unfused { stroke: #5a6878; } }
"""


def picture(machines: Mapping[str, dict], rows: list) -> str:
    """The SVG."""
    found = {suite: cases for suite, cases in table.suites(rows).items() if suite in NAMES}
    height = TOP + ROW * len(found) + 34
    names = (m["gpu"].split(",")[0] for suite, m in machines.items() if suite in found and "gpu" in m)
    card = " and ".join(sorted({" ".join(name.split()[:2]) for name in names}))  # without the memory's size
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">']
    parts.append(f"<title>Speed-ups of the benchmark cases on {escape(card)} and a CPU</title><style>{STYLE}</style>")
    parts += _legend(card)
    for ratio in (0.5, 1, 2, 5, 10, 20, 50, 100):
        x, kind = across(ratio), ' class="one"' if ratio == 1 else ""
        parts.append(f'<line{kind} x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - 28}"/>')
        parts.append(f'<text class="faint" x="{x:.1f}" y="{height - 12}" text-anchor="middle">{ratio:g}×</text>')
    for place, (suite, cases) in enumerate(found.items()):
        middle = TOP + ROW * place + ROW / 2
        name = NAMES[suite].format(threads=machines[suite].get("threads"))
        parts.append(f'<text x="8" y="{middle + 1:.0f}">{escape(name)}</text>')
        parts += _suite(suite, cases, middle)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(card: str) -> Iterator[str]:
    yield f'<text x="8" y="20">Speed-up of each case on {escape(card)}, last row on a CPU</text>'
    keys = (("ours", "over the fastest other library"), ("lost", "slower than it"), ("unfused", "over unfused code"))
    x = 12
    for kind, told in keys:
        yield f'<circle class="{kind}" cx="{x}" cy="37" r="4"/><text class="faint" x="{x + 9}" y="41">{told}</text>'
        x += 30 + 7 * len(told)
    yield f'<line class="mean" x1="{x}" x2="{x}" y1="30" y2="44"/>'
    yield f'<text class="faint" x="{x + 7}" y="41">geometric mean</text>'


def _suite(suite: str, cases: dict, middle: float) -> Iterator[str]:
    fastest = table.over_fastest(cases)
    mean = geometric_mean(fastest.values())
    yield f'<text class="faint" x="8" y="{middle + 16:.0f}">{len(cases)} cases, mean {mean:.2f}×</text>'
    for x, y, _, _ in swarm(table.speedups(cases, table.unfused(suite)), middle):
        yield f'<circle class="unfused" cx="{x:.1f}" cy="{y:.1f}" r="{DOT}"/>'
    for x, y, case, reached in swarm(fastest, middle):
        told = f"{' '.join(case)}: {reached:.2f}×"
        kind = "lost" if reached < 1 else "ours"
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{DOT}"><title>{escape(told)}</title></circle>'
    x = across(mean)
    yield f'<line class="mean" x1="{x:.1f}" x2="{x:.1f}" y1="{middle - 17:.1f}" y2="{middle + 17:.1f}"/>'


def swarm(ratios: Mapping[tuple, float], middle: float) -> Iterator[tuple[float, float, tuple, float]]:
    """(x, y, case, ratio): dots of nearly the same ratio stand above and below each other."""
    stacked: dict[int, int] = {}
    for case, reached in sorted(ratios.items(), key=lambda item: (item[1], item[0])):
        column = round(across(reached) / (2 * DOT))
        level = stacked[column] = stacked.get(column, -1) + 1
        offset = (level + 1) // 2 * (1 if level % 2 else -1) * 1.6 * DOT
        yield column * 2 * DOT, middle + max(-ROW / 2 + 3, min(ROW / 2 - 3, offset)), case, reached


def across(ratio: float) -> float:
    """The place of a ratio on the axis; beyond its ends at the end."""
    low, high = (math.log(end) for end in RANGE)
    return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(max(RANGE[0], min(RANGE[1], ratio))) - low) / (high - low)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--svg", type=Path, required=True, metavar="F")
    chosen = parser.parse_args()
    chosen.svg.write_text(picture(*table.read(chosen.files)), encoding="utf-8")


if __name__ == "__main__":
    main()
