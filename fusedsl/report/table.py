"""Rows of cells as aligned text, or as an HTML table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Columns two blanks apart; the first is flush left, the others right.

    >>> print(text_table(["what", "ms"], [["softmax", "1.5"], ["gelu", "12"]]))
    what      ms
    softmax  1.5
    gelu      12
    """
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:]))]
        lines.append(indent + "  ".join(cells).rstrip())
    return "\n".join(lines)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """`text_table` as HTML."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
