"""The line of a program that an error is about, with its part underlined and a caret at the fault."""

from __future__ import annotations

MAX_COLUMNS = 100  # of a quoted line; longer lines are cropped around the caret


def line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Where an offset is, both counted from 1."""
    return text.count("\n", 0, offset) + 1, offset - line_start(text, offset) + 1


def underlined(text: str, span: tuple[int, int], caret: int, note: str | None) -> list[str]:
    """The line with the caret, and the underline: `~` below the span's part of that line, `^` below the caret."""
    start = line_start(text, caret)
    end = text.find("\n", caret)
    end = len(text) if end < 0 else end
    left, right = _window(end - start, caret - start)
    ellipsis, more = "..." if left else "", "..." if right < end - start else ""
    shown = ellipsis + printable(text[start + left : start + right].rstrip("\r")) + more
    mark = caret - start - left
    first = min(max(span[0] - start - left, 0), mark)
    last = max(min(span[1] - start, right) - left, mark + 1)
    underline = " " * (len(ellipsis) + first) + "~" * (mark - first) + "^" + "~" * (last - mark - 1)
    number = str(line_and_column(text, caret)[0])
    return [f"  {number} | {shown}".rstrip(), f"  {' ' * len(number)} | {underline}" + (f"  {note}" if note else "")]


def _window(length: int, mark: int) -> tuple[int, int]:
    if length <= MAX_COLUMNS:
        return 0, length
    left = min(max(mark - MAX_COLUMNS // 2, 0), max(length - MAX_COLUMNS, 0))
    return left, min(left + MAX_COLUMNS, length)


def printable(text: str) -> str:
    """One column a character: tabs become blanks, anything unprintable a question mark."""
    return "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in text)
