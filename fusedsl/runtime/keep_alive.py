"""Keeps arrays alive until the launches that read them are done, if their own library does not do so.

CuPy and torch reuse memory in stream order, and our launches are on their streams. An array that is known through
DLPack or `__cuda_array_interface__` alone belongs to another library (JAX, for example), which reuses the memory as
soon as Python drops the array. Its owner is held until an event behind the launches has completed.
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
    """Hold `owners` until the work queued on the stream is done; owners of earlier calls that are done are released.

    Under capture nothing is held: whoever captures the graph keeps its arrays alive.
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
    """Release the owners whose launches are done."""
    for _ in range(len(_held)):
        try:
            entry = _held.popleft()
        except IndexError:  # another thread has released it
            return
        event, device, _ = entry
        with driver().on(device):
            if driver().attempt("cuEventQuery", event):  # not ready, or the device is lost
                _held.append(entry)
            else:
                driver().attempt("cuEventDestroy_v2", event)
