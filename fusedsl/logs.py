"""The logger `fusedsl`: compilations, and first calls that take long; and Numba's loggers, silent while it compiles.

`logging` is imported when the first line is logged.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

LONG_SECONDS = 1.0  # of planning and compiling, from which a line is logged
NUMBA_LOGGERS = ("numba", "numba_cuda")  # they write thousands of lines per kernel at level DEBUG

_lock = threading.Lock()
_silencing = 0  # blocks of `silenced` that threads are in
_levels: dict[str, int] = {}  # of these loggers, outside of them


@cache
def logger() -> logging.Logger:
    """The package's logger, which is silent unless the program has handlers."""
    import logging

    log = logging.getLogger("fusedsl")
    log.addHandler(logging.NullHandler())
    return log


def compiling(kernel: str, target: str) -> None:
    """Log that a kernel is being compiled: INFO."""
    logger().info("compiling %s for %s", kernel, named(target))


def compiled(kernel: str, target: str, seconds: float) -> None:
    """Log how long it took to compile a kernel: INFO."""
    logger().info("compiled %s for %s in %.2f s", kernel, named(target), seconds)


def named(target: str) -> str:
    """A target in words."""
    return "the CPU" if target == "cpu" else target


def first_call(title: str, seconds: float) -> None:
    """Log how long a program took to trace, plan and compile: a WARNING if that is long."""
    if seconds > LONG_SECONDS:
        logger().warning("first call of %s: planned and compiled in %.1f s", title, seconds)


@contextmanager
def silenced() -> Iterator[None]:
    """Numba's loggers are silent below WARNING inside the block."""
    import logging

    global _silencing
    with _lock:
        _silencing += 1
        if _silencing == 1:
            for name in NUMBA_LOGGERS:
                _levels[name] = logging.getLogger(name).level
                logging.getLogger(name).setLevel(max(_levels[name], logging.WARNING))
    try:
        yield
    finally:
        with _lock:
            _silencing -= 1
            if not _silencing:
                for name in NUMBA_LOGGERS:
                    logging.getLogger(name).setLevel(_levels[name])
