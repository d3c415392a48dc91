"""Interruptible calls: long CPU calls on a thread of their own; Ctrl-C ends the wait, and the rest is discarded.

A piece of work (a row to sort, a block of a product, a call of BLAS) cannot be stopped. The thread ends after the piece
that it is at, and keeps the memory of the call until then. No one else reads what it still writes: results are copied
to arrays of the caller's only when they are complete.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any

from ..errors import is_package_file

LONG_PIECE = 0.02  # seconds, by the estimate of a schedule; measured: a thread takes 0.1 ms
POLL_SECONDS = 0.1  # on Windows, Ctrl-C does not end a wait


class LongCall(threading.Thread):
    """A thread that makes one call, and keeps what it reads and writes."""

    def __init__(self, work: Callable[[], Any], owners: Any):
        super().__init__(daemon=True, name="fusedsl long call")
        self.abandoned = False  # no one waits for the result any more
        self.owners = owners  # an abandoned call still reads and writes it
        self.fault: BaseException | None = None
        self._work = work
        self._context = contextvars.copy_context()
        self._ended = threading.Event()

    def run(self) -> None:
        """Make the call, and keep its exception."""
        try:
            self._context.run(self._work)
        except BaseException as fault:
            self.fault = fault
        finally:
            del self._work
            self._ended.set()

    def wait(self) -> None:
        """Return after the call; the exception of a signal handler ends the wait alone."""
        while not self._ended.wait(POLL_SECONDS):
            pass


def run_interruptibly(work: Callable[[], Any]) -> None:
    """Do `work` while this thread handles signals. If a handler raises, no further piece starts.

    Only the main thread handles signals: other threads do `work` themselves.
    """
    if threading.current_thread() is not threading.main_thread():
        work()
        return
    call = LongCall(work, _locals_of_the_package())
    try:
        call.start()
        call.wait()
    except BaseException:
        call.abandoned = True
        raise
    if call.fault is not None:
        raise call.fault


def is_abandoned(thread: threading.Thread) -> bool:
    """Whether a thread makes a long call for which no one waits any more."""
    return isinstance(thread, LongCall) and thread.abandoned


def _locals_of_the_package() -> list[dict[str, Any]]:
    """The variables of this package's frames that wait for the call, its arrays among them: frames lose them as they
    end."""
    names, frame = [], sys._getframe(2)
    while frame is not None and is_package_file(frame.f_code.co_filename):
        names.append(dict(frame.f_locals))
        frame = frame.f_back  # type: ignore[assignment]
    return names
