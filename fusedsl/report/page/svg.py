"""Elements of SVG and HTML as text: tags with escaped attributes, texts as wide as their letters, and data."""

from __future__ import annotations

import json
from html import escape
from typing import Any

LETTER = 7.3  # width of a letter of 12 px, in a monospaced font
COLOURS = 8  # of kernels; further ones begin again


def tag(name: str, content: str = "", /, **attributes: Any) -> str:
    """An element; `_` in attributes is `-` (of `class_`, nothing), and numbers have one digit after the point.

    >>> tag("rect", x=1.25, stroke_width=2, class_="box")
    '<rect x="1.2" stroke-width="2" class="box"></rect>'
    """
    pairs = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    given = "".join(f' {key}="{escape(_number(value))}"' for key, value in pairs)
    return f"<{name}{given}>{content}</{name}>"


def _number(value: Any) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def embedded(data: Any, name: str) -> str:
    """A script element of this name with data as JSON, which no text in it can end."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def label(text: str, x: float, y: float, **attributes: Any) -> str:
    """A text of SVG."""
    return tag("text", escape(text), x=float(x), y=float(y), **attributes)


def title(text: str) -> str:
    """What a browser shows while the pointer is over an element of SVG."""
    return tag("title", escape(text))


def drawing(content: str, width: float, height: float, about: str, **attributes: Any) -> str:
    """A drawing of this size, which says what it is."""
    box = f"0 0 {width:.0f} {height:.0f}"
    return tag(
        "svg",
        content,
        viewBox=box,
        width=float(width),
        height=float(height),
        role="img",
        aria_label=about,
        **attributes,
    )


def width_of(text: str) -> float:
    """How wide a text is."""
    return LETTER * len(text)


def cut(text: str, most: int) -> str:
    """A text, shortened where it is longer than so many letters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def colour(kernels: tuple[int, ...] | list[int]) -> str:
    """The class of the first of these kernels' colours."""
    return f"k{kernels[0] % COLOURS}" if kernels else "none"


def stripes(kernels: tuple[int, ...] | list[int]) -> str | None:
    """The style of a background in the colours of several kernels; None for one."""
    if len(kernels) < 2:
        return None
    steps = (f"var(--s{k % COLOURS}) {8 * n}px {8 * n + 8}px" for n, k in enumerate(kernels))
    return f"background:repeating-linear-gradient(135deg,{','.join(steps)});box-shadow:none"
