"""Arrays that stay alive until the work that reads them is done, where their own library does not know of it.

CuPy and torch reuse memory in the order of their streams, and our launches are on these. An array that is known through
DLPack or `__cuda_array_interface__` alone belongs to a library that would reuse it as soon as Python drops it, such as
JAX; its owner is held until an event behind the launches has passed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from ctypes import byref, c_uint, c_void_p
from typing import Any

from .driver import driver

_held: deque[tuple[c_void_p, int, Any]] = deque()  # (event, device, owners), oldest first
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING


def keep_alive(owners: Sequence[Any], stream: int, device: int) -> None:
    """Keep `owners` until what is queued on the stream now is done; those of earlier calls that are done are let go.

    In a capture nothing is held: what a graph reads is its maker's to keep.
    """
    release_finished()
    if driver().is_capturing(stream):
        return
    event = c_void_p()
    with driver().on(device):
        driver().call("cuEventCreate", byref(event), c_uint(_NO_TIMING))
        driver().call("cuEventRecord", event, c_void_p(stream))
    _held.append((event, device, owners))


def release_finished() -> None:
    """Let go of what no launch reads any more."""
    for _ in range(len(_held)):
        try:
            one = _held.popleft()
        except IndexError:  # another thread was faster
            return
        event, device, _ = one
        with driver().on(device):
            if driver().attempt("cuEventQuery", event):  # not ready, or the device is lost
                _held.append(one)
            else:
                driver().attempt("cuEventDestroy_v2", event)
