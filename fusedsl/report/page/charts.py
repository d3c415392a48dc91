"""Charts of a report page: bytes as bars, kernels and operations on a roofline, and the tiles of a mask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

from ..units import bytes_text, seconds_text
from .svg import colour, drawing, label, tag, title, width_of

WIDTH, BAR = 400.0, 26.0  # of the bars' picture, and of a bar
LEFT, RIGHT, TOP, BOTTOM = 54.0, 10.0, 10.0, 42.0  # margins of the roofline
WIDE, HIGH = 400.0, 310.0  # of the roofline
PREFIXES = {0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
# where a dot's name may be: widths of the name to the right, then distances to the right and down
NEAR = [
    (0, 11, 0),
    (-1, -11, 0),
    *((-0.5, 0, d) for d in (-16, 16)),
    *((s, o, d) for d in (-16, 16, -30, 30, -44, 44, -58, 58) for s, o in ((0, 6), (-1, -6))),
]
Point = Mapping[str, float]
Rectangle = tuple[float, float, float, float]  # left, top, right, bottom
DIGITS = dict(zip("012", ("skipped", "masked", "whole")))


def bytes_picture(data: Mapping[str, Any]) -> str:
    """Two bars as long as the bytes that move: each unfused operation, and each kernel."""
    explained = data["explanation"]
    most = max(explained["before"]["bytes"], explained["bytes"], 1)
    steps = [(s["operation"], s["bytes"], "old") for s in explained["before"]["steps"]]
    kernels = [(k["name"], k["bytes"], f"box k{n % 8}") for n, k in enumerate(explained["kernels"])]
    before, after = bytes_text(explained["before"]["bytes"]), bytes_text(explained["bytes"])
    parts = [*_bar(steps, most, 0, f"unfused: {before}"), *_bar(kernels, most, BAR + 30, f"fused: {after}")]
    return drawing("".join(parts), WIDTH, 2 * BAR + 56, "bytes that move, unfused and fused", class_="wide")


def _bar(parts: Sequence[tuple[str, int, str]], most: int, top: float, text: str) -> Iterator[str]:
    """A bar of parts as wide as their bytes, below its text."""
    yield label(text, 0, top + 14, class_="quiet")
    left = 0.0
    for name, size, kind in parts:
        width = WIDTH * size / most
        about = title(f"{name}: {bytes_text(size)}")
        if width >= 0.5:
            shown = tag(
                "rect", about, x=left, y=top + 20, width=max(width - 1, 0.5), height=BAR, class_=kind, data_bytes=size
            )
            yield shown
        if width_of(name) < width - 10:
            yield label(name, left + 5, top + 24 + BAR / 2, pointer_events="none")
        left += width


# -- the roofline


def roofline_picture(data: Mapping[str, Any]) -> str:
    """Kernels as dots, unfused operations as circles joined to the kernels that compute them, below the card's roof."""
    roofline, card = data["roofline"], data["hardware"]
    kernels, operations = roofline["kernels"], roofline["operations"]
    points = [p for p in (*kernels, *operations) if p is not None]
    if not points:
        return ""
    ridge = card["instructions_per_second"] / card["bytes_per_second"]
    across = _decades([p["instructions_per_byte"] for p in points] + [ridge])
    roofs = [card["instructions_per_second"]]
    tensor = card["tensor_multiply_adds_per_second"]
    roofs += [tensor] if roofline["has_products"] and tensor > roofs[0] else []
    up = _decades([p["instructions_per_second"] for p in points] + roofs)
    scale = _Scale(across, up)
    parts = [*_axes(scale), *(_roof(scale, card, rate) for rate in roofs)]
    for point, about in zip(operations, data["operations"]):
        ends = [] if point is None else [k for k in about["kernels"] if kernels[k] is not None]
        parts += [_join(scale, point, kernels[k], k) for k in ends]
    steps, launched = data["explanation"]["before"]["steps"], data["explanation"]["kernels"]
    for point, about, step in zip(operations, data["operations"], steps):
        if point is not None:
            label = f"{step['operation']}, unfused: {bytes_text(step['bytes'])}, about {seconds_text(point['seconds'])}"
            parts.append(_dot(scale, point, 4.5, f"hollow {colour(about['kernels'])}", label))
    for k, (point, kernel) in enumerate(zip(kernels, launched)):
        if point is not None:
            label = f"kernel {k}: {bytes_text(kernel['bytes'])}, {seconds_text(point['seconds'])}"
            parts.append(_dot(scale, point, 7.0, f"solid {colour([k])}", label))
    parts += _names(scale, kernels, operations)
    return drawing("".join(parts), WIDE, HIGH, "kernels and unfused operations on a roofline", class_="chart")


class _Scale:
    """Places of values on two logarithmic axes."""

    def __init__(self, across: tuple[int, int], up: tuple[int, int]):
        self.across, self.up = across, up

    def x(self, value: float) -> float:
        low, high = self.across
        return LEFT + (WIDE - LEFT - RIGHT) * (log10(value) - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.up
        return HIGH - BOTTOM - (HIGH - TOP - BOTTOM) * (log10(value) - low) / (high - low)

    def of(self, point: Point) -> tuple[float, float]:
        return self.x(point["instructions_per_byte"]), self.y(point["instructions_per_second"])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around some values, at least two apart."""
    low, high = floor(log10(min(values)) - 0.1), ceil(log10(max(values)) + 0.1)
    return low, max(high, low + 2)


def _axes(scale: _Scale) -> Iterator[str]:
    for k in range(scale.across[0], scale.across[1] + 1):
        x = scale.x(10.0**k)
        yield tag("line", x1=x, x2=x, y1=TOP, y2=HIGH - BOTTOM, class_="grid")
        yield label(_power(k), x, HIGH - BOTTOM + 16, text_anchor="middle", class_="quiet small")
    for k in range(scale.up[0], scale.up[1] + 1):
        y = scale.y(10.0**k)
        yield tag("line", x1=LEFT, x2=WIDE - RIGHT, y1=y, y2=y, class_="grid")
        yield label(_power(k), LEFT - 6, y + 4, text_anchor="end", class_="quiet small")
    yield label("instructions a byte", (LEFT + WIDE - RIGHT) / 2, HIGH - 8, text_anchor="middle", class_="small")
    middle = (TOP + HIGH - BOTTOM) / 2
    rotated = {"text_anchor": "middle", "class_": "small", "transform": f"rotate(-90 12 {middle:.0f})"}
    yield label("instructions a second", 12, middle, **rotated)


def _power(k: int) -> str:
    """A power of ten: 0.01, 10, 1G, 100T."""
    if k < 0:
        return f"{10.0**k:.{-k}f}"
    unit = min(k - k % 3, max(PREFIXES))
    return f"{10 ** (k - unit)}{PREFIXES[unit]}"


def _roof(scale: _Scale, card: Mapping[str, Any], rate: float) -> str:
    """What memory allows, up to a rate of the card; that of its tensor cores is dashed."""
    tensor = rate != card["instructions_per_second"]
    low, high = 10.0 ** scale.across[0], 10.0 ** scale.across[1]
    ridge = min(max(low, rate / card["bytes_per_second"]), high)
    start = max(low, 10.0 ** scale.up[0] / card["bytes_per_second"])
    if tensor:
        start = max(start, card["instructions_per_second"] / card["bytes_per_second"])
    corners = [(start, start * card["bytes_per_second"]), (ridge, ridge * card["bytes_per_second"])]
    corners.append((high, min(rate, high * card["bytes_per_second"])))
    line = " ".join(f"{scale.x(a):.1f},{scale.y(b):.1f}" for a, b in corners)
    label = f"{bytes_text(card['bytes_per_second'])}/s, {rate / 1e12:.3g}T instructions/s"
    return tag("polyline", title(f"{card['card']}: {label}"), points=line, class_="roof dashed" if tensor else "roof")


def _dot(scale: _Scale, point: Point, size: float, kind: str, about: str) -> str:
    x, y = scale.of(point)
    given = {"data_x": repr(point["instructions_per_byte"]), "data_y": repr(point["instructions_per_second"])}
    return tag("circle", title(about), cx=x, cy=y, r=size, class_=kind, **given)


def _join(scale: _Scale, start: Point, end: Point, k: int) -> str:
    (a, b), (c, d) = scale.of(start), scale.of(end)
    return tag("line", x1=a, y1=b, x2=c, y2=d, class_=f"join {colour([k])}")


def _names(scale: _Scale, kernels: Sequence[Point | None], operations: Sequence[Point | None]) -> Iterator[str]:
    """The kernels' numbers beside their dots, where no dot and no other number is."""
    dots = [scale.of(p) for p in (*kernels, *operations) if p is not None]
    boxes = [(x - 8, y - 8, x + 8, y + 8) for x, y in dots]
    for k, point in enumerate(kernels):
        if point is not None:
            x, y = scale.of(point)
            text = f"kernel {k}"
            wide = width_of(text)
            places = [(x + a * wide + b, y + c - 7, x + a * wide + b + wide, y + c + 7) for a, b, c in NEAR]
            free = (box for box in places if _is_inside(box) and not any(_overlap(box, other) for other in boxes))
            box = next(free, places[0])
            boxes.append(box)
            yield label(text, box[0], box[3] - 3, class_="small halo")


def _is_inside(box: Rectangle) -> bool:
    return box[0] > LEFT and box[1] > TOP and box[2] < WIDE - 2 and box[3] < HIGH - BOTTOM


def _overlap(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


# -- the tiles of a mask


def tile_picture(tiles: Mapping[str, Any]) -> str:
    """A square of each cell: skipped, masked, or whole; queries downwards, keys to the right."""
    cells: Sequence[str] = tiles["cells"]
    side = min(16.0, 320.0 / max(len(cells), len(cells[0])))
    width, height = side * len(cells[0]), side * len(cells)
    parts = [tag("rect", x=24, y=20, width=width, height=height, class_="skipped")]
    for r, row in enumerate(cells):
        for c, length, state in _runs(row):
            size = {"width": side * length - 0.6, "height": side - 0.6}
            if state != "0":
                parts.append(tag("rect", x=24 + c * side, y=20 + r * side, class_=DIGITS[state], **size))
    parts.append(tag("rect", x=24, y=20, width=width, height=height, class_="outline none"))
    queries, keys = tiles["extents"]
    parts.append(label(f"{keys:,} keys", 24, 13, class_="quiet small"))
    middle = 20 + height / 2
    rotated = {"text_anchor": "middle", "transform": f"rotate(-90 14 {middle:.0f})", "class_": "quiet small"}
    parts.append(label(f"{queries:,} queries", 14, middle, **rotated))
    return tag("div", drawing("".join(parts), width + 26, height + 22, "tiles of the mask"), class_="scroll")


def _runs(row: str) -> Iterator[tuple[int, int, str]]:
    """(start, length, digit) of equal neighbours."""
    start = 0
    for k in range(1, len(row) + 1):
        if k == len(row) or row[k] != row[start]:
            yield start, k - start, row[start]
            start = k
