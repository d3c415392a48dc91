"""The number of threads that CPU kernels run on."""

from __future__ import annotations

from . import config
from .errors import ArgumentError, public_api
from .program import forget_calls
from .runtime import thread_pool


@public_api
def set_num_threads(threads: int) -> None:
    """Run kernels on so many threads of the CPU from now on, the calling one included; results keep their bits.

    Until it is called there are FUSEDSL_NUM_THREADS of them, or as many as the process has processors. What
    `Kernel.bind` has bound to a single thread stays there. Raises ArgumentError for what is no positive integer.

    >>> import fusedsl as fd
    >>> before = fd.get_num_threads()
    >>> fd.set_num_threads(2)
    >>> fd.get_num_threads()
    2
    >>> fd.set_num_threads(before)
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= config.MAX_THREADS:
        help = f"use an integer from 1 to {config.MAX_THREADS}"
        raise ArgumentError(f"{threads!r} is no number of threads", "argument.threads", help=help)
    if threads != config.num_threads():
        thread_pool.set_num_threads(threads)
        forget_calls()


@public_api
def get_num_threads() -> int:
    """How many threads of the CPU kernels run on."""
    return config.num_threads()
