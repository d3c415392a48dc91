"""Progress of first calls that take long, on one line of the terminal that stderr is; erased when they are done."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from .config import shows_progress

PATIENCE = 2.0  # seconds before the line appears
PERIOD = 0.2  # seconds between two states of the line
ERASE = "\r\x1b[K"


class ProgressLine:
    """The line of one first call, which a thread writes."""

    def __init__(self, title: str):
        self.title = title
        self.step = "planning"
        self.kernels = 0  # that are being compiled, or are compiled
        self._start = perf_counter()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="fusedsl progress")
        self._thread.start()

    def _run(self) -> None:
        if self._done.wait(PATIENCE):
            return
        while True:
            sys.stderr.write(ERASE + self.text(shutil.get_terminal_size().columns))
            sys.stderr.flush()
            if self._done.wait(PERIOD):
                break
        sys.stderr.write(ERASE)
        sys.stderr.flush()

    def text(self, columns: int) -> str:
        """The line, no longer than the terminal is wide."""
        count = f"kernel {self.kernels}, " if self.kernels else ""
        return f"fusedsl: {count}{self.step}, {perf_counter() - self._start:.0f} s: {self.title}"[: columns - 1]

    def close(self) -> None:
        """Erase the line."""
        self._done.set()
        self._thread.join()


_line: ProgressLine | None = None


@contextmanager
def watched(title: str) -> Iterator[None]:
    """Show the progress of the block if it takes long; only the outermost block in the main thread does."""
    global _line
    if _line is not None or not _has_watcher() or threading.current_thread() is not threading.main_thread():
        yield
        return
    _line = ProgressLine(title)
    try:
        yield
    finally:
        line, _line = _line, None
        line.close()


def compiling(kernel: str) -> None:
    """Say that a kernel is being compiled."""
    if (line := _line) is not None:
        line.kernels += 1
        line.step = f"compiling {kernel}"


def _has_watcher() -> bool:
    """Whether a terminal shows stderr."""
    try:
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and shows_progress()
    except (AttributeError, ValueError):  # no stderr, or a closed one
        return False
