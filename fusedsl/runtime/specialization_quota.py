"""The binaries that are for few shapes each, by the family that shares them: so many, and those that came first."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

Claim = tuple[str, str, int]  # family, key, and how many the family has at most

_own: dict[str, set[str]] = {}  # family -> keys
_lock = threading.Lock()


@dataclass
class Noted:
    """What a call claimed, in order; and whether it was refused something that an earlier call of the process had."""

    claimed: dict[Claim, None] = field(default_factory=dict)
    refused: bool = False


_noting: ContextVar[Noted | None] = ContextVar("fusedsl_claims", default=None)


def has_own(family: str, key: str, most: int, claim: bool = True) -> bool:
    """Whether the binary of this key is one of the family's own; the first `most` are, where they are claimed."""
    with _lock:
        found = _may_have(_own, family, key, most)
        if found and claim:
            _own[family] = _own.get(family, set()) | {key}
    noted = _noting.get()
    if noted is not None and found and claim:
        noted.claimed[family, key, most] = None
    elif noted is not None and not found and most:
        noted.refused = True
    return found


def claimed(family: str, key: str) -> bool:
    """Whether the family has this key already."""
    with _lock:
        return key in _own.get(family, ())


def claim_all(claims: Iterable[Claim]) -> bool:
    """Claim all of these, as the call did that made them, or where one of them is refused, none; whether they are."""
    with _lock:
        own: dict[str, set[str]] = {}
        for family, key, most in claims:
            own.setdefault(family, set(_own.get(family, ())))
            if not _may_have(own, family, key, most):
                return False
            own[family].add(key)
        _own.update(own)
        return True


@contextlib.contextmanager
def noting() -> Iterator[Noted]:
    """What is claimed inside of the block, in this thread or task."""
    noted = Noted()
    token = _noting.set(noted)
    try:
        yield noted
    finally:
        _noting.reset(token)


def forget() -> None:
    """As if the process had called nothing yet; what was compiled stays."""
    with _lock:
        _own.clear()


def _may_have(own: dict[str, set[str]], family: str, key: str, most: int) -> bool:
    found = own.get(family, set())
    return key in found or len(found) < most
