"""The binaries that are for few shapes each, by the family that shares them: so many, and those that came first."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

Acquisition = tuple[str, str, int]  # family, key, and how many the family has at most

_specialized: dict[str, set[str]] = {}  # family -> keys
_lock = threading.Lock()


@dataclass
class Recorded:
    """What a call claimed, in order; and whether it was refused something that an earlier call of the process had."""

    claimed: dict[Acquisition, None] = field(default_factory=dict)
    refused: bool = False


_recorder: ContextVar[Recorded | None] = ContextVar("fusedsl_claims", default=None)


def acquire(family: str, key: str, most: int, claim: bool = True) -> bool:
    """Whether the binary of this key is one of the family's own; the first `most` are, where they are claimed."""
    with _lock:
        found = _may_acquire(_specialized, family, key, most)
        if found and claim:
            _specialized[family] = _specialized.get(family, set()) | {key}
    noted = _recorder.get()
    if noted is not None and found and claim:
        noted.claimed[family, key, most] = None
    elif noted is not None and not found and most:
        noted.refused = True
    return found


def is_specialized(family: str, key: str) -> bool:
    """Whether the family has this key already."""
    with _lock:
        return key in _specialized.get(family, ())


def acquire_all(claims: Iterable[Acquisition]) -> bool:
    """Claim all of these, as the call did that made them, or where one of them is refused, none; whether they are."""
    with _lock:
        own: dict[str, set[str]] = {}
        for family, key, most in claims:
            own.setdefault(family, set(_specialized.get(family, ())))
            if not _may_acquire(own, family, key, most):
                return False
            own[family].add(key)
        _specialized.update(own)
        return True


@contextlib.contextmanager
def recording() -> Iterator[Recorded]:
    """What is claimed inside of the block, in this thread or task."""
    noted = Recorded()
    token = _recorder.set(noted)
    try:
        yield noted
    finally:
        _recorder.reset(token)


def forget() -> None:
    """As if the process had called nothing yet; what was compiled stays."""
    with _lock:
        _specialized.clear()


def _may_acquire(own: dict[str, set[str]], family: str, key: str, most: int) -> bool:
    found = own.get(family, set())
    return key in found or len(found) < most
