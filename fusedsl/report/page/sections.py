"""The sections of a report page as HTML, each from the page's data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ..render import barrier_text
from ..units import bytes_text, plural, seconds_text
from .charts import bytes_picture, roofline_picture, tile_picture
from .graph_picture import after_picture, before_picture
from .svg import COLOURS, colour, stripes, tag

Data = Mapping[str, Any]


def program(data: Data) -> str:
    """The program, each expression on the colours of the kernels that compute it, and the arguments."""
    report = data["explanation"]
    pieces = "".join(
        tag(
            "span",
            escape(p["text"]),
            class_=colour(p["kernels"]),
            style=stripes(p["kernels"]),
            title=" and ".join(f"kernel {k}" for k in p["kernels"]),
        )
        if p["kernels"]
        else escape(p["text"])
        for p in data["program"]
    )
    keys = "".join(tag("span", escape(f"kernel {k}"), class_=colour([k])) for k in range(len(report["kernels"])))
    given = escape("\n".join(report["arguments"]) or "no arguments")
    return tag("pre", pieces, class_="program") + tag("p", keys, class_="key") + tag("pre", given)


def before_and_after(data: Data) -> str:
    """The bytes that move, and the graphs."""
    before, after = before_picture(data), after_picture(data)
    report = data["explanation"]
    steps, kernels = report["before"]["kernels"], len(report["kernels"])
    left = tag("h3", f"Before: {plural(steps, 'operation')}") + (
        before or _counts(s["operation"] for s in report["before"]["steps"])
    )
    right = tag("h3", f"After: {plural(kernels, 'kernel')}") + (after or _counts(k["name"] for k in report["kernels"]))
    return bytes_picture(data) + tag("div", tag("div", left) + tag("div", right), class_="sides")


def _counts(names: Iterable[str]) -> str:
    """What is too much to draw: each name, and how often it is there."""
    counted = (f"{name} × {n}" if n > 1 else name for name, n in Counter(names).items())
    return tag("p", f"too many to draw: {escape(', '.join(counted))}", class_="faint")


def roofline(data: Data) -> str:
    """The roofline, with what its marks mean."""
    card = data["hardware"]
    measured = any(k["measured_seconds"] is not None for k in data["explanation"]["kernels"])
    words = (
        "A dot is a kernel, a circle the operation that it replaces, if it were launched by itself. "
        f"The line is what {escape(card['card'])} can do: {bytes_text(card['bytes_per_second'])}/s of memory, and "
        f"{card['instructions_per_second'] / 1e12:.3g} · 10¹² instructions/s. {_times_of(card, measured)}"
    )
    if data["roofline"]["has_products"]:
        words += " A multiply-add of a matrix product counts as one"
        words += "." if card["is_cpu"] else "; the dashed line is what tensor cores do in float16."
    return roofline_picture(data) + tag("p", words, class_="faint")


def _times_of(card: Data, measured: bool) -> str:
    """Where the times of a roofline's marks are from."""
    if not card["is_cpu"]:
        return f"Times {'of kernels are measured, the others ' if measured else ''}are those of the time model."
    if measured:
        return "The line and the times of kernels are measured; circles are on the line."
    limit = "whether memory or arithmetic limits each"
    return f"Nothing is measured: the marks are on the line, and show {limit}; measure=True times the kernels."


def kernels(data: Data) -> str:
    """A card for each kernel: formulas, arrays, schedule."""
    cards = "".join(_kernel(k, kernel) for k, kernel in enumerate(data["explanation"]["kernels"]))
    return tag("div", cards, class_="cards kernels")


def _kernel(k: int, kernel: Data) -> str:
    arrays = [("reads", a) for a in kernel["reads"]] + [("writes", a) for a in kernel["writes"]]
    rows = "".join(
        f'<tr><td>{verb}</td><td class="mono">{escape(a["array"])}</td><td class="mono">{escape(a["type"])}</td>'
        f'<td class="number">{bytes_text(a["bytes"])}{_passes(a["passes"])}</td></tr>'
        for verb, a in arrays
    )
    lines = [kernel["iteration"] + _launch(kernel), kernel["schedule"], _registers(kernel), _time(kernel)]
    lines += [f"{t['difference']}: {t['note'] or seconds_text(t['seconds'])}" for t in kernel["tried"]]
    head = tag("h3", f"kernel {k}: {tag('code', escape(kernel['name']))}")
    members = tag("pre", escape("\n".join(kernel["members"])))
    table = tag("div", f"<table>{rows}</table>", class_="scroll")
    facts = tag("p", "<br>".join(escape(line) for line in lines if line))
    return tag("div", head + members + table + facts, class_=f"kernel k{k % COLOURS}")


def _passes(passes: int) -> str:
    return f" in {passes} passes" if passes > 1 else ""


def _launch(kernel: Data) -> str:
    if not kernel["blocks"]:
        return ""
    return f" on {plural(kernel['blocks'], 'block')} of {plural(kernel['threads'] or 0, 'thread')}"


def _registers(kernel: Data) -> str:
    """`24 registers (at most 32 predicted), no spills, …`"""
    f = kernel["figures"]
    if f is None:
        most = kernel["predicted_registers"]
        return "" if most is None else f"at most {most} registers, by prediction"
    spills = f"{f['spill_bytes']} bytes spilled" if f["spill_bytes"] else "no spills"
    shared = f"{bytes_text(f['shared_bytes'])} of shared memory" if f["shared_bytes"] else "no shared memory"
    fits = f"{plural(f['blocks_per_sm'], 'block')} an SM, limited by {f['limiter']}"
    return f"{f['registers']} registers (at most {kernel['predicted_registers']} predicted), {spills}, {shared}, {fits}"


def _time(kernel: Data) -> str:
    about = "" if kernel["seconds"] is None else f"about {seconds_text(kernel['seconds'])} by the time model"
    measured = kernel["measured_seconds"]
    return about if measured is None else f"{seconds_text(measured)} measured" + (f", {about}" if about else "")


def cards(data: Data) -> str:
    """A resource card for each architecture."""
    if not data["cards"]:
        return unavailable(data, "cards")
    return tag("div", "".join(map(_card, data["cards"])), class_="cards")


def _card(card: Data) -> str:
    head = tag("h3", escape(f"sm_{card['cc'].replace('.', '')} · {card['card']}"))
    if card["note"]:
        return tag("div", head + tag("p", escape(card["note"]), class_="faint"))
    return tag("div", head + "".join(_resources(k, kernel) for k, kernel in enumerate(card["kernels"])))


def _resources(k: int, kernel: Data) -> str:
    """A kernel's occupancy as a bar, and its figures."""
    f, name = kernel["figures"], escape(f"kernel {k}")
    if f is None:
        return tag("p", f"{name}: {escape(kernel['schedule'])}")
    time = "" if kernel["seconds"] is None else f", about {seconds_text(kernel['seconds'])}"
    bar = tag("div", f'<i style="width:{f["occupancy"] * 100:.1f}%"></i>', class_=f"bar k{k % COLOURS}")
    alarm = " alarm" if f["spill_bytes"] else ""
    figures = tag("span", escape(_registers(kernel)), class_=f"faint{alarm}")
    return tag("div", f"{name}: {f['occupancy']:.0%} occupancy{time}{bar}{figures}", class_="figures")


def tiles(data: Data) -> str:
    """The tile maps of masks."""
    return tag("div", "".join(map(_tiles, data["tiles"])), class_="cards")


def _tiles(tiles: Data) -> str:
    head = tag("h3", f"kernel {tiles['kernel']}")
    if not tiles["cells"]:
        return tag("div", head + tag("p", escape(tiles["note"]), class_="faint"))
    skipped, masked, full = tiles["counts"]
    (rows, columns), whole = tiles["cell"], tiles["cell"] == tiles["tile"]
    size = f"A square is {'a tile' if whole else 'several tiles'} of {rows} queries × {columns} keys"
    words = f"{size}: {skipped:,} tiles are skipped, {masked:,} are masked element by element, {full:,} need no mask."
    key = f"{_swatch('--l0', 'no mask')}{_swatch('--l2', 'masked')}{_swatch('--paper', 'skipped')}"
    return tag("div", head + tile_picture(tiles) + tag("p", key, class_="key") + tag("p", words, class_="faint"))


def _swatch(variable: str, text: str) -> str:
    square = tag("b", class_="swatch", style=f"background:var({variable})")
    return f'<span class="none">{square} {text}</span>'


def listings(data: Data) -> str:
    """The generated files; the script joins them with PTX and SASS."""
    parts = []
    for n, listing in enumerate(data["listings"]):
        counts = [f"{plural(listing['source'].count(chr(10)) + 1, 'line')}"]
        for name in ("ptx", "sass"):
            lines = len(listing[name]["lines"])
            counts += [f"{lines:,} of {name.upper()}"] if lines else []
        about = f"{tag('code', escape(listing['name']))} {tag('span', ', '.join(counts), class_='faint')}"
        source = tag("div", tag("pre", escape(listing["source"])), class_="panes")
        opened = ' open=""' if n == 0 else ""
        parts.append(f'<details data-listing="{n}"{opened}><summary>{about}</summary>{source}</details>')
    words = "Point at a line, or choose it, to see its instructions; arrow keys go on from there."
    joined = any(listing["ptx"]["text"] for listing in data["listings"])
    return (tag("p", words, class_="faint") if joined else "") + "".join(parts) + unavailable(data, "listings")


def passes(data: Data) -> str:
    """The program after each pass."""
    parts = []
    for output in data["passes"]:
        about = f"{escape(output['name'])} {tag('span', escape(output['about']), class_='faint')}"
        body = tag("pre", escape(output["text"])) if output["text"] else ""
        parts.append(f"<details><summary>{about}</summary>{body}</details>" if body else tag("p", about))
    return "".join(parts)


def notes(data: Data) -> str:
    """Why kernels are not merged, float64 that no input asked for, and notes."""
    report = data["explanation"]
    widened = [f"{w['operation']}: {w['reason']}" if w["reason"] else w["operation"] for w in report["widened"]]
    lists = (
        ("Not merged", [barrier_text(r["reason"], r["seconds"]) for r in report["refused"]]),
        ("In float64, though no input is", widened),
        ("Notes", report["notes"]),
        ("Temporaries", [f"{t['name']}: {t['type']}, {bytes_text(t['bytes'])}" for t in report["temporaries"]]),
    )
    return "".join(tag("h3", name) + _list(lines) for name, lines in lists if lines)


def _list(lines: Sequence[str]) -> str:
    return tag("ul", "".join(tag("li", escape(line)) for line in lines))


def unavailable(data: Data, name: str) -> str:
    """Why a section, or a part of it, is not there."""
    reason = data["absent"].get(name)
    return tag("p", escape(reason), class_="faint") if reason else ""
