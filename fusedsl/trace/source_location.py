"""Source location of an operation in the user's function: the running line, and the column span in it."""

from __future__ import annotations

import linecache
from itertools import islice
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

from ..ir.graph import Site

PACKAGE = str(Path(__file__).parent.parent)


def _is_internal(frame: Any) -> bool:
    """True for a frame of this package, NumPy or contextlib."""
    file = frame.f_code.co_filename
    if file.startswith((PACKAGE, "<__array_function__")):
        return True
    return frame.f_globals.get("__name__", "").split(".")[0] in ("numpy", "contextlib")


def innermost(traceback: Any) -> Any:
    """The deepest traceback entry outside this package."""
    deepest = None
    while traceback is not None:
        if not _is_internal(traceback.tb_frame):
            deepest = traceback
        traceback = traceback.tb_next
    return deepest


def site_of(origin: Any) -> tuple[Site, str | None]:
    """(source line and columns, note) of a frame, or of a traceback entry, outside this package."""
    if isinstance(origin, TracebackType):
        frame, line, instruction = origin.tb_frame, origin.tb_lineno, origin.tb_lasti
    else:
        while origin is not None and _is_internal(origin):
            origin = origin.f_back
        if origin is None:
            return Site(), None
        frame, line, instruction = origin, origin.f_lineno, origin.f_lasti
    source = linecache.getline(frame.f_code.co_filename, line)
    if not source.strip():
        return Site(), None
    note = f"{Path(frame.f_code.co_filename).name}, line {line}"
    return Site(source.strip(), *_columns(frame.f_code, instruction, source)), note


def _columns(code: CodeType, instruction: int, source: str) -> tuple[tuple[int, int], int]:
    """(span, start) of an instruction in its line without indentation; the whole line before Python 3.11."""
    indent = len(source) - len(source.lstrip())
    whole = (0, len(source.strip())), 0
    if not hasattr(code, "co_positions"):
        return whole
    start_line, end_line, start, end = next(islice(code.co_positions(), instruction // 2, None))
    if None in (start, end) or start_line != end_line or start < indent:  # type: ignore[operator]
        return whole
    return (start - indent, end - indent), start - indent  # type: ignore[operator]
