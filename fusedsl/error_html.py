"""An error's text as HTML, for notebooks: its name, the caret below the text at fault, and the help stand out."""

from __future__ import annotations

import re
from html import escape

STYLES = (  # (a line's beginning, style), the first that fits; the colours are readable on white and on black
    (r"fusedsl\.", "color:#d9483b;font-weight:600"),
    (r" +\| +[~^]", "color:#d9483b"),
    (r"  help: ", "color:#1f8f5f"),
    (r"  (note|inside|also)\b", "opacity:0.75"),
)


def error_html(text: str) -> str:
    """The lines of `str()` of an error, coloured; they scroll where they are long."""
    lines = []
    for line in text.splitlines():
        style = next((style for begin, style in STYLES if re.match(begin, line)), None)
        lines.append(escape(line) if style is None else f'<span style="{style}">{escape(line)}</span>')
    look = "font:13px/1.5 ui-monospace,monospace;overflow-x:auto;text-align:left;white-space:pre"
    return f'<pre style="{look}">' + "\n".join(lines) + "</pre>"
