"""The rows of a run as one HTML page that needs no other file: charts by size, shares of roofline, the machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from ..report.page.svg import embedded
from ..report.units import bytes_text, seconds_text
from .plots import Point, Series, chart, marker, ratio_axes, share_axes
from .ratios import OURS, by_case, ratio, share, speedups, timed_peers
from .record import Row
from .regressions import busy_warning
from .terminal import title

STYLE = """
:root { color-scheme: light dark; --ink: #16202c; --faint: #5a6878; --paper: #fff; --card: #f4f6f8; --grid: #dbe1e8;
  --lost: #c8102e; --below: #c8102e12; --s0: #0b6bcb; --s1: #9a6700; --s2: #1a7f4b; --s3: #7b3fb8; --s4: #5a6878; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf2; --faint: #9aa8b7; --paper: #10161d; --card: #1a222c;
  --grid: #2c3743; --lost: #ff6b7d; --below: #ff6b7d14; --s0: #58a6ff; --s1: #e3a93c; --s2: #4cc38a; --s3: #c297ff;
  --s4: #9aa8b7; } }
* { box-sizing: border-box; }
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 1.5rem auto;
  max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 0.3rem; } h2 { font-size: 1.2rem; margin: 2rem 0 0.3rem; }
h3 { font-size: 0.95rem; margin: 0 0 0.2rem; } p { margin: 0.3rem 0; } .faint { color: var(--faint); }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr));
  margin: 0.6rem 0; }
figure, .card { background: var(--card); border-radius: 8px; margin: 0; padding: 0.7rem 0.8rem; }
svg { display: block; height: auto; width: 100%; } svg.key { display: inline-block; height: 12px; width: 12px; }
svg text { fill: var(--faint); font: 11px system-ui, sans-serif; } .grid { stroke: var(--grid); }
.one { stroke: var(--ink); stroke-dasharray: 4 3; } .below { fill: var(--below); }
.line { fill: none; stroke-width: 2; }
.legend span { margin-right: 1.1rem; white-space: nowrap; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; } th, td { padding: 0.15rem 0.9rem 0.15rem 0; text-align: right; }
th { color: var(--faint); font-weight: normal; } th:first-child, td:first-child { text-align: left; }
dl { display: grid; gap: 0.1rem 1rem; grid-template-columns: max-content 1fr; margin: 0; } dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; } summary { color: var(--faint); cursor: pointer; }
td.lost { color: var(--lost); } .busy { border-left: 4px solid var(--lost); padding-left: 0.6rem; }
@media (max-width: 30rem) { th, td { font-size: 0.8rem; padding-right: 0.5rem; } dl { grid-template-columns: 1fr; }
  dd { margin-bottom: 0.4rem; } }
"""
COLORS = "".join(f".s{k} {{ stroke: var(--s{k}); }} .mark.s{k} {{ fill: var(--s{k}); }}" for k in range(5))
COLORS += ".mark { stroke: var(--card); } .mark.lost { fill: var(--lost); stroke: var(--lost); }"
METHOD = """Results are compared with float64 before they are timed. Times are medians of calls in turns on random data.
{kernel}. {call}. The roofline time is that of a copy of the same bytes in this run, or that of the matrix
products at the rate of the library's own product where that is longer. Red points, below 1, are slower than the peer.
A share of roofline is far below 1 where arithmetic, not memory, takes the time."""


def page(metadata: dict[str, Any], rows: Sequence[Row]) -> str:
    """The page; `metadata` is the head of the report."""
    machine = str(metadata["machine"].get("gpu") or metadata["machine"]["cpu"]).split(",")[0]
    name = f"fusedsl {metadata['versions'].get('fusedsl', '')} on {machine}, {metadata['date'][:10]}"
    target, suites = metadata["target"], list(dict.fromkeys(row.suite for row in rows))
    names = timed_peers(rows)
    method = METHOD.format(kernel=title("kernel", target), call=title("call", target))
    parts = [
        f"<h1>{escape(name)}</h1>",
        f'<p class="faint">{escape(method)}</p>',
        f'<p class="busy">{escape(warning)}</p>' if (warning := busy_warning(metadata)) else "",
        _overview(rows),
        *(_suite(suite, [r for r in rows if r.suite == suite], names, metadata["unfused"]) for suite in suites),
        _machine(metadata),
    ]
    data = embedded({**metadata, "rows": [asdict(r) for r in rows]}, "results")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(name)}</title>\n<style>{STYLE}{COLORS}</style></head>\n<body>\n"
        + "\n".join(parts)
        + f"\n{data}\n</body></html>\n"
    )


def _overview(rows: Sequence[Row]) -> str:
    body, names = [], timed_peers(rows)
    for measure in ("kernel", "call"):
        means = speedups([r for r in rows if r.measure == measure])
        for name in sorted(means, key=names.index):
            s = means[name]
            mean, least = (f"<td{_lost(x)}>{x:.2f}×</td>" for x in (s.mean, s.least))
            body.append(f"<tr><td>{escape(name)}</td><td>{measure}</td>{mean}{least}<td>{s.cases}</td></tr>")
    head = "".join(f"<th>{cell}</th>" for cell in ("speed-up over", "time", "geometric mean", "min", "cases"))
    return f'<div class="card scroll"><table><tr>{head}</tr>{"".join(body)}</table></div>'


def _lost(reached: float) -> str:
    return ' class="lost"' if reached < 1 else ""


def _suite(suite: str, rows: Sequence[Row], names: Sequence[str], unfused: str) -> str:
    timed = timed_peers(rows)
    labels = [f"over {name}{' (unfused)' if name == unfused else ''}" for name in names]
    keys = [(k, labels[k]) for k, name in enumerate(names) if name in timed]
    figures: list[str] = []
    parts = [f"<h2>{escape(suite.capitalize())}</h2>{_legend(keys)}"]
    for measure in ("kernel", "call"):
        figures += [
            _figure(f"{workload}: speed-up, {measure} time", ratio_series(chosen, names))
            for workload in dict.fromkeys(r.workload for r in rows)
            if (chosen := [r for r in rows if (r.measure, r.workload) == (measure, workload)])
        ]
    if floors := share_series([r for r in rows if r.measure == "kernel"]):
        picture = chart(floors, share_axes(floors), f"{suite}: share of roofline")
        legend = _legend([(s.kind, s.name) for s in floors])
        figures.append(f"<figure><h3>share of roofline</h3>{picture}{legend}</figure>")
    parts.append(f'<div class="charts">{"".join(figures)}</div>')
    parts.append(f"<details><summary>all times</summary>{_table(rows, names)}</details>")
    return "\n".join(parts)


def _legend(keys: Sequence[tuple[int, str]]) -> str:
    """The sign of each series with its name."""
    box = '<svg class="key" viewBox="0 0 12 12" aria-hidden="true">'
    spans = (f"<span>{box}{marker(kind, 6, 6)}</svg> {escape(name)}</span>" for kind, name in keys)
    return f'<p class="legend faint">{" ".join(spans)}</p>'


def _figure(name: str, series: Sequence[Series]) -> str:
    if not series:
        return ""
    return f"<figure><h3>{escape(name)}</h3>{chart(series, ratio_axes(series), name, '×')}</figure>"


def elements(row: Row) -> int:
    """The size of a case: the product of the extents in its shape."""
    return math.prod(map(int, row.shape.split("x")))


def ratio_series(rows: Sequence[Row], names: Sequence[str]) -> list[Series]:
    """A line for each peer: how many times faster ours is, by size."""
    cases = sorted(by_case(rows).values(), key=lambda peers: elements(next(iter(peers.values()))))
    series = []
    for kind, name in enumerate(names):
        points = tuple(
            Point(elements(p[OURS]), r, f"{p[OURS].shape}: {r:.2f}× {name} ({_time(p[OURS])}, {_time(p[name])})", r < 1)
            for p in cases
            if OURS in p and (r := ratio(p, name))
        )
        if points:
            series.append(Series(name, kind, points))
    return series


def share_series(rows: Sequence[Row]) -> list[Series]:
    """A line for each workload: the share of roofline, by size."""
    series = []
    for kind, workload in enumerate(dict.fromkeys(r.workload for r in rows)):
        ours = sorted((r for r in rows if r.workload == workload and r.peer == OURS), key=elements)
        points = tuple(
            Point(elements(r), part, f"{r.shape}: {part:.2f} of roofline ({_time(r)})")
            for r in ours
            if (part := share(r))
        )
        if points:
            series.append(Series(workload, kind % 5, points))
    return series


def _time(row: Row) -> str:
    return seconds_text(1e-6 * row.median_us) if row.median_us else "failed"


def _table(rows: Sequence[Row], names: Sequence[str]) -> str:
    head = ["workload", "shape", "measure", "ours", "p20 to p80", "bytes", "share of roofline", *names]
    body = [
        "".join(_cells(peers, measure, names))
        for measure in ("kernel", "call")
        for peers in by_case([r for r in rows if r.measure == measure]).values()
        if OURS in peers
    ]
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    return f'<div class="scroll"><table><tr>{top}</tr>{"".join(f"<tr>{cells}</tr>" for cells in body)}</table></div>'


def _cells(peers: dict[str, Row], measure: str, names: Sequence[str]) -> Iterator[str]:
    ours = peers[OURS]
    low, high = (seconds_text(1e-6 * t) if t else "" for t in (ours.p20_us, ours.p80_us))
    part = f"{share(ours):.2f}" if share(ours) else ""
    cells = (ours.workload, ours.shape, measure, _time(ours), f"{low} to {high}", bytes_text(ours.bytes), part)
    yield from (f"<td>{escape(cell)}</td>" for cell in cells)
    for name in names:
        reached = ratio(peers, name)
        why = peers[name].error if name in peers else None
        yield f"<td{_lost(reached)}>{reached:.2f}×</td>" if reached else f'<td title="{escape(why or "", True)}">–</td>'


def _machine(metadata: dict[str, Any]) -> str:
    floors = metadata["floors"]
    facts = {
        **metadata["machine"],
        "load before the run": metadata.get("load"),
        "not installed": ", ".join(metadata["absent"]),
    }
    if "copy_gb_s" in floors:
        facts["fastest copy"] = f"{floors['copy_gb_s']:g} GB/s"
    if "matmul_gflop_s" in floors:
        facts["matrix product"] = f"{floors['matmul_gflop_s']:,.0f} GFLOP/s"
    facts["versions"] = ", ".join(f"{name} {version}" for name, version in metadata["versions"].items())
    lines = "".join(f"<dt>{escape(str(k))}</dt><dd>{escape(str(v))}</dd>" for k, v in facts.items() if v)
    return f'<h2>Machine</h2><div class="card"><dl>{lines}</dl></div>'
