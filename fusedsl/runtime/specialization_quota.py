"""Quota of shape-specialised binaries per group: the first N length classes get one, later ones use generic ones."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ..context_values import inside

Acquisition = tuple[str, str, int]  # group, key, the group's limit

_specialized: dict[str, set[str]] = {}  # group -> keys
_lock = threading.Lock()


@dataclass
class Recorded:
    """The places that one call acquired, in order; `refused` if an earlier call of the process took the last one."""

    acquired: dict[Acquisition, None] = field(default_factory=dict)
    refused: bool = False


_recorder: ContextVar[Recorded | None] = ContextVar("fusedsl_claims", default=None)


def acquire(group: str, key: str, most: int, reserve: bool = True) -> bool:
    """Whether the binary of this key is specialised: the group's first `most` keys are. `reserve` takes the place."""
    with _lock:
        granted = _may_acquire(_specialized, group, key, most)
        if granted and reserve:
            _specialized[group] = _specialized.get(group, set()) | {key}
    recorded = _recorder.get()
    if recorded is not None and granted and reserve:
        recorded.acquired[group, key, most] = None
    elif recorded is not None and not granted and most:
        recorded.refused = True
    return granted


def is_specialized(group: str, key: str) -> bool:
    """Whether the group has reserved this key."""
    with _lock:
        return key in _specialized.get(group, ())


def acquire_all(acquisitions: Iterable[Acquisition]) -> bool:
    """Reserve all of these, as the call did that made them; if one is refused, none is. Whether they are reserved."""
    with _lock:
        tentative: dict[str, set[str]] = {}
        for group, key, most in acquisitions:
            tentative.setdefault(group, set(_specialized.get(group, ())))
            if not _may_acquire(tentative, group, key, most):
                return False
            tentative[group].add(key)
        _specialized.update(tentative)
        return True


def recording() -> AbstractContextManager[Recorded]:
    """Records what is acquired inside the block, in this thread or task."""
    return inside(_recorder, Recorded())


def forget() -> None:
    """Reset the quota to that of a new process; compiled binaries stay."""
    with _lock:
        _specialized.clear()


def _may_acquire(specialized: dict[str, set[str]], group: str, key: str, most: int) -> bool:
    keys = specialized.get(group, set())
    return key in keys or len(keys) < most
