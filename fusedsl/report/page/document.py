"""A report page: one self-contained HTML file, whose data is in it as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from ...atomic_files import named_file
from ...program import Program
from ..units import bytes_text, plural, seconds_text
from . import sections
from .data import page_data
from .svg import embedded, tag

Section = tuple[str, Callable[[Mapping[str, Any]], str], bool]
SECTIONS: tuple[Section, ...] = (  # (title, its HTML, whether it is open at first)
    ("Program", sections.program, True),
    ("Before and after", sections.before_and_after, True),
    ("Roofline", sections.roofline, True),
    ("Kernels", sections.kernels, True),
    ("Tiles of the mask", sections.tiles, True),
    ("Resources by architecture", sections.cards, True),
    ("Why not fewer kernels, and notes", sections.notes, True),
    ("Generated files, PTX and SASS", sections.listings, False),
    ("The program after each pass", sections.passes, False),
)


POLICY = "default-src 'none'; img-src data:; script-src 'unsafe-inline'; style-src 'unsafe-inline'"  # no request at all


def document(data: Mapping[str, Any]) -> str:
    """The page of this data (see data.py)."""
    title = headline(data["explanation"])
    parts = [tag("h1", escape(title)), tag("p", escape(times(data["explanation"])), class_="faint")]
    for k, (name, section, is_open) in enumerate(SECTIONS):
        if name == "Tiles of the mask" and not data["tiles"]:
            continue
        if body := section(data):
            opened = ' open=""' if is_open else ""
            parts.append(f'<details id="section-{k}"{opened}><summary>{name}</summary>{body}</details>')
    here = files(__package__)
    style, script = ((here / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style></head>\n<body>\n"
        + "\n".join(parts)
        + f"\n{embedded(data, 'data')}\n<script>\n{script}</script>\n"
        "</body></html>\n"
    )


def headline(explained: Mapping[str, Any]) -> str:
    """`1 kernel instead of 7 · 134 MB instead of 896 MB`."""
    before = explained["before"]
    kernels = f"{plural(len(explained['kernels']), 'kernel')} instead of {before['kernels']}"
    return f"{kernels} · {bytes_text(explained['bytes'])} instead of {bytes_text(before['bytes'])}"


def times(explained: Mapping[str, Any]) -> str:
    """The target, and the times that are known of the call."""
    parts = [explained["target"]]
    if explained["measured_seconds"] is not None:
        parts.append(f"{seconds_text(explained['measured_seconds'])} measured")
    if explained["seconds"] is not None and explained["before"]["seconds"] is not None:
        by_model = f"{seconds_text(explained['seconds'])} instead of {seconds_text(explained['before']['seconds'])}"
        parts.append(f"about {by_model}, by the time model")
    return " · ".join(parts)


def write_page(path: Any, program: Program, values: Sequence[Any], **options: Any) -> None:
    """Write the page of a call with these arguments or specs to a file; the options are those of `page_data`."""
    file = named_file(path)
    file.write_text(document(page_data(program, values, **options)), encoding="utf-8")
