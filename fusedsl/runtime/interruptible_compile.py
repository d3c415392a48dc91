"""Interruptible compilation: on a thread of its own, so that Ctrl-C ends the wait for it; the compilation goes on.

An exception that a signal handler raises inside of Numba, or of its import, would leave Numba half initialised, and
every later compilation would fail.
"""

from __future__ import annotations

import atexit
import contextvars
import ctypes
import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.1  # on Windows, Ctrl-C does not end a wait
EXIT_SECONDS = 10.0  # that the end of the process, or a fork, waits for a call into LLVM
_running: dict[Hashable, BackgroundJob[Any]] = {}
_guard = threading.Lock()


class BackgroundJob(Generic[T]):
    """One call on a daemon thread, in the caller's context; its result or exception is kept."""

    def __init__(self, key: Hashable, work: Callable[[], T]):
        self.key = key
        self._work = work
        self._context = contextvars.copy_context()
        self._done = threading.Event()
        self._result: T | None = None
        self._fault: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True, name="fusedsl compiler")

    def _run(self) -> None:
        try:
            self._result = self._context.run(self._work)
        except BaseException as fault:
            self._fault = fault
        finally:
            self.forget()
            self._done.set()

    def forget(self) -> None:
        """Be no work that others wait for."""
        with _guard:
            if _running.get(self.key) is self:
                del _running[self.key]

    def wait(self) -> T:
        """The call's result, or its exception; an exception of a signal handler ends the wait alone."""
        while not self._done.wait(POLL_SECONDS):
            pass
        if self._fault is not None:
            raise self._fault
        return self._result  # type: ignore[return-value]


def run_in_background(key: Hashable, work: Callable[[], T]) -> T:
    """The result of `work`. Signals are handled while it runs; if a handler raises, `work` goes on without a waiter.

    A call with the key of work that still runs waits for that. Only the main thread handles signals: other threads run
    `work` themselves.
    """
    job = _running.get(key)
    if job is not None:
        return job.wait()
    if threading.current_thread() is not threading.main_thread():
        return work()
    job = BackgroundJob(key, work)
    try:
        _running[key] = job
        job.thread.start()
        return job.wait()
    except BaseException:
        if not job.thread.is_alive():  # interrupted before it began, or it raised
            job.forget()
        raise


def _stop() -> None:
    """At exit, end what still runs: LLVM must not run while the process frees its memory."""
    threads = [job.thread for job in list(_running.values())]
    for thread in threads:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
    for thread in threads:
        thread.join(EXIT_SECONDS)


atexit.register(_stop)


def _join() -> None:
    """Before a fork, wait for what still runs: the child would have its locks held by threads that are gone."""
    for job in list(_running.values()):
        if job.thread is not threading.current_thread():
            job.thread.join(EXIT_SECONDS)


def _forget() -> None:
    """In a forked child the threads are gone."""
    global _guard
    _running.clear()
    _guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_join, after_in_child=_forget)
