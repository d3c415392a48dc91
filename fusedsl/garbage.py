"""Planning and compiling without searches for cyclic garbage, which find none and cost a fifth of the time."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.RLock()
_inside: list[int] = []  # threads, once for each block that they are in
_was_enabled = False


@contextmanager
def no_collection() -> Iterator[None]:
    """Inside the block nobody searches for cyclic garbage: a plan's or a module's hundred thousand objects make Python
    search again and again, and all of them are in use. The last thread that leaves such a block restores the state."""
    thread = threading.get_ident()
    _enter(thread)
    try:
        yield
    finally:
        _exit(thread)


def _enter(thread: int) -> None:
    global _was_enabled
    with _lock:
        if not _inside:
            _was_enabled = gc.isenabled()
            gc.disable()
        _inside.append(thread)


def _exit(thread: int) -> None:
    with _lock:
        _inside.remove(thread)
        _restore()


def _restore() -> None:
    if not _inside and _was_enabled:
        gc.enable()


def _forget() -> None:
    """In a forked child the other threads are gone, and leave no block."""
    global _lock
    _lock, gone = threading.RLock(), [t for t in _inside if t != threading.get_ident()]
    if gone:
        _inside[:] = [t for t in _inside if t not in gone]
        _restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
