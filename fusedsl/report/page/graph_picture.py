"""Pictures of the graph: the operations before fusion, and the kernels with the arrays between them after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ..units import bytes_text, seconds_text
from .graph_layout import GraphLayout, NodeSize, lay_out
from .svg import COLOURS, colour, cut, drawing, label, tag, title, width_of

MOST_DRAWN = 64  # boxes of a picture
MEMBERS, LONGEST = 4, 44  # lines that a kernel's box shows of what it computes, and their letters
LINE, PAD = 17.0, 9.0  # height of a line, and what is beside it


def before_picture(data: Mapping[str, Any]) -> str:
    """The unfused operations, each in the colours of the kernels that compute it now; empty where there are many."""
    steps, reads, results = data["explanation"]["before"]["steps"], data["reads"], data["results"]
    sources = list(dict.fromkeys(x for read in (*reads, results) for x in read if isinstance(x, str) and x))
    if len(steps) + len(sources) + len(results) > MOST_DRAWN:
        return ""
    number: dict[Any, int] = {k: k for k in range(len(steps))} | {s: len(steps) + k for k, s in enumerate(sources)}
    names = ["result"] if len(results) == 1 else [f"result {k}" for k in range(len(results))]
    texts = [step["operation"] for step in steps] + sources + names
    edges = [(number[x], k) for k, read in enumerate(reads) for x in read]
    first = len(steps) + len(sources)
    edges += [(number[x], first + k) for k, x in enumerate(results) if x != ""]
    layout = lay_out([NodeSize(width_of(text) + 2 * PAD, LINE + PAD) for text in texts], edges)
    parts = [_edge(path) for path in layout.paths.values()]
    for k, step in enumerate(steps):
        about = f"{step['operation']}: {bytes_text(step['bytes'])}"
        about += "" if step["seconds"] is None else f", about {seconds_text(step['seconds'])}"
        parts.append(_operation(layout.centres[k], step["operation"], data["operations"][k]["kernels"], about))
    parts += [_array(layout.centres[len(steps) + k], [text], "array") for k, text in enumerate(sources + names)]
    return _whole(layout, parts, "the operations before fusion")


def after_picture(data: Mapping[str, Any]) -> str:
    """The kernels, and the arrays that they read and write; empty where there are many."""
    kernels = data["explanation"]["kernels"]
    arrays: dict[str, tuple[list[str], str]] = {}
    edges: list[tuple[str, str]] = []
    for k, kernel in enumerate(kernels):
        for access, goes_in in [(a, True) for a in kernel["reads"]] + [(a, False) for a in kernel["writes"]]:
            name = f"{access['kind']} {access['index']}"
            kind = "temporary" if access["kind"] == "temporary" else "array"
            arrays.setdefault(name, ([access["array"], access["type"]], kind))
            edges.append((name, f"kernel {k}") if goes_in else (f"kernel {k}", name))
    if len(arrays) + len(kernels) > MOST_DRAWN:
        return ""
    texts = {f"kernel {k}": _kernel_lines(k, kernel) for k, kernel in enumerate(kernels)}
    number = {name: n for n, name in enumerate([*texts, *arrays])}
    boxes = [_box(lines) for lines in [*texts.values(), *(lines for lines, _ in arrays.values())]]
    layout = lay_out(boxes, [(number[a], number[b]) for a, b in edges])
    parts = [_edge(path) for path in layout.paths.values()]
    parts += [_kernel(layout.centres[k], lines, k) for k, lines in enumerate(texts.values())]
    parts += [_array(layout.centres[number[name]], *arrays[name]) for name in arrays]
    return _whole(layout, parts, "the kernels after fusion")


def _kernel_lines(k: int, kernel: Mapping[str, Any]) -> list[str]:
    """What a kernel's box says: its name, what it computes, and the bytes that it moves."""
    members = [cut(member, LONGEST) for member in kernel["members"]]
    if len(members) > MEMBERS:
        members = [*members[: MEMBERS - 1], f"and {len(members) - MEMBERS + 1} more"]
    facts = [bytes_text(kernel["bytes"])]
    if (time := kernel["measured_seconds"] or kernel["seconds"]) is not None:
        facts.append(f"{'' if kernel['measured_seconds'] else 'about '}{seconds_text(time)}")
    return [cut(f"kernel {k}: {kernel['name']}", LONGEST), *members, " · ".join(facts)]


def _box(lines: Sequence[str]) -> NodeSize:
    return NodeSize(max(map(width_of, lines)) + 2 * PAD, LINE * len(lines) + PAD)


def _operation(centre: tuple[float, float], text: str, kernels: Sequence[int], about: str) -> str:
    """A box in equal parts of the colours of its kernels."""
    box, parts = _box([text]), list(kernels)
    left, top = centre[0] - box.width / 2, centre[1] - box.height / 2
    sides = {"y": top, "height": box.height}
    if len(parts) < 2:
        filled = tag("rect", x=left, width=box.width, rx=4, class_=f"box {colour(parts)}", **sides)
    else:
        each = box.width / len(parts)
        places = ((left + n * each, f"box k{k % COLOURS}") for n, k in enumerate(parts))
        filled = "".join(tag("rect", x=x, width=each, class_=name, **sides) for x, name in places)
    return tag("g", title(about) + filled + label(text, centre[0], centre[1] + 4, text_anchor="middle"))


def _kernel(centre: tuple[float, float], lines: Sequence[str], k: int) -> str:
    box = _box(lines)
    left, top = centre[0] - box.width / 2, centre[1] - box.height / 2
    filled = tag("rect", x=left, y=top, width=box.width, height=box.height, rx=6, class_=f"box k{k % COLOURS}")
    texts = [
        label(text, left + PAD, top + LINE * (n + 1), class_=None if n else "strong") for n, text in enumerate(lines)
    ]
    return tag("g", filled + "".join(texts))


def _array(centre: tuple[float, float], lines: Sequence[str], kind: str) -> str:
    box = _box(lines)
    left, top = centre[0] - box.width / 2, centre[1] - box.height / 2
    filled = tag(
        "rect",
        x=left,
        y=top,
        width=box.width,
        height=box.height,
        rx=box.height / 2 if len(lines) == 1 else 14,
        class_=kind,
    )
    texts = (
        label(text, centre[0], top + LINE * (n + 1), text_anchor="middle", class_="quiet" if n else None)
        for n, text in enumerate(lines)
    )
    return tag("g", filled + "".join(texts))


def _edge(points: Sequence[tuple[float, float]]) -> str:
    """A curve through the points; it leaves and arrives upright. Boxes are drawn over its ends."""
    path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (x, y), (u, v) in pairwise(points):
        path += f"C{x:.1f},{(y + v) / 2:.1f} {u:.1f},{(y + v) / 2:.1f} {u:.1f},{v:.1f}"
    return tag("path", d=path, class_="edge")


def _whole(layout: GraphLayout, parts: Sequence[str], about: str) -> str:
    how = {"class_": "graph", "style": f"--wide:{layout.width:.0f}px"}
    return tag("div", drawing("".join(parts), layout.width, layout.height, about, **how), class_="scroll")
