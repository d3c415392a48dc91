"""Charts as inline SVG: series of points on logarithmic axes, or a share on a linear one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 12, 34
SHAPES = ("circle", "square", "diamond", "triangle")


@dataclass(frozen=True)
class Point:
    """A size, a value and what a pointer is told of it."""

    x: float
    y: float
    label: str
    lost: bool = False  # drawn in red


@dataclass(frozen=True)
class Series:
    """A line: `kind` is the index of its colour."""

    name: str
    kind: int
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Axes:
    """The values at the ends of both axes; x is logarithmic, y where `log` says so."""

    x: tuple[float, float]
    y: tuple[float, float]
    log: bool = True

    def across(self, x: float) -> float:
        """Pixels from the left."""
        low, high = self.x
        share = math.log(x / low) / math.log(high / low) if high > low else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def down(self, y: float) -> float:
        """Pixels from the top."""
        low, high = self.y
        share = math.log(y / low) / math.log(high / low) if self.log else (y - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def ratio_axes(series: Sequence[Series]) -> Axes:
    """Axes of ratios: 1 is always on them, with room beyond the first and last values."""
    x, y = _extent(p.x for s in series for p in s.points), _extent(p.y for s in series for p in s.points)
    return Axes(_wider(x, 1.25), (min(y[0] / 1.15, 0.8), max(y[1] * 1.15, 2.0)))


def share_axes(series: Sequence[Series]) -> Axes:
    """Axes of shares, from 0 to at least 1.1."""
    x, y = _extent(p.x for s in series for p in s.points), _extent(p.y for s in series for p in s.points)
    return Axes(_wider(x, 1.25), (0.0, max(1.1, 1.1 * y[1])), log=False)


def chart(series: Sequence[Series], axes: Axes, label: str, unit: str = "") -> str:
    """The picture; a value of 1 has a line of its own, and what is below it a shade."""
    one = axes.down(1.0)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">']
    if axes.log and axes.y[0] < 1:
        parts.append(_rectangle("below", LEFT, one, WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM - one))
    parts += _grid(axes, unit)
    parts.append(f'<line class="one" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{one:.1f}" y2="{one:.1f}"/>')
    for one_series in series:
        parts += _line(one_series, axes)
    return "".join([*parts, "</svg>"])


def marker(kind: int, x: float, y: float, lost: bool = False, label: str = "") -> str:
    """A point's sign: its shape and colour say which series it is of, red that it is lost."""
    name = f"mark s{kind}{' lost' if lost else ''}"
    title = f"<title>{escape(label)}</title>" if label else ""
    match SHAPES[kind % len(SHAPES)]:
        case "circle":
            return f'<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="4">{title}</circle>'
        case "square":
            return f'<rect class="{name}" x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7">{title}</rect>'
        case "diamond":
            corners = f"{x:.1f},{y - 5:.1f} {x + 5:.1f},{y:.1f} {x:.1f},{y + 5:.1f} {x - 5:.1f},{y:.1f}"
        case _:
            corners = f"{x:.1f},{y - 5:.1f} {x + 4.5:.1f},{y + 3.5:.1f} {x - 4.5:.1f},{y + 3.5:.1f}"
    return f'<polygon class="{name}" points="{corners}">{title}</polygon>'


def _line(series: Series, axes: Axes) -> Iterator[str]:
    pixels = [(axes.across(p.x), axes.down(p.y)) for p in series.points]
    if len(pixels) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
        yield f'<polyline class="line s{series.kind}" points="{path}"/>'
    for (x, y), point in zip(pixels, series.points):
        yield marker(series.kind, x, y, point.lost, point.label)


def _grid(axes: Axes, unit: str) -> Iterator[str]:
    for y, label in _ticks(axes, unit):
        height = axes.down(y)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>'
        yield f'<text x="{LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{label}</text>'
    low, high = (math.log2(x) for x in axes.x)
    step = max(1, math.ceil((high - low) / 5))
    for power in range(math.ceil(low), math.floor(high) + 1, step):
        across = axes.across(2.0**power)
        yield f'<line class="grid" x1="{across:.1f}" x2="{across:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        yield f'<text x="{across:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{_count(2**power)}</text>'
    yield f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">elements</text>'


def _ticks(axes: Axes, unit: str) -> list[tuple[float, str]]:
    low, high = axes.y
    if not axes.log:
        step = 0.5 if high < 2.5 else math.ceil(high / 4)
        return [(k * step, f"{k * step:g}{unit}") for k in range(int(high / step) + 1)]
    known = [digit * 10.0**power for power in range(-3, 6) for digit in (1, 2, 5)]
    ticks = [t for t in known if low <= t <= high]
    if len(ticks) > 6:
        ticks = [t for t in ticks if f"{t:e}"[0] == "1"]
    return [(t, f"{t / 1000:g}k{unit}" if t >= 1000 else f"{t:g}{unit}") for t in ticks]


def _count(n: int) -> str:
    for unit, size in (("G", 1 << 30), ("M", 1 << 20), ("k", 1 << 10)):
        if n >= size:
            return f"{n // size}{unit}"
    return str(n)


def _extent(values: Iterator[float]) -> tuple[float, float]:
    ordered = list(values)
    return min(ordered), max(ordered)


def _wider(ends: tuple[float, float], factor: float) -> tuple[float, float]:
    return ends[0] / factor, ends[1] * factor


def _rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0):.1f}"/>'
