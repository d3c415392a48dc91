"""The binaries that are for few shapes each, by the family that shares them: so many, and those that came first."""

from __future__ import annotations

import threading

_own: dict[str, set[str]] = {}  # family -> keys
_lock = threading.Lock()


def has_own(family: str, key: str, most: int, claim: bool = True) -> bool:
    """Whether the binary of this key is one of the family's own; the first `most` are, where they are claimed."""
    with _lock:
        own = _own.get(family, set())
        if key not in own and len(own) >= most:
            return False
        if claim:
            _own[family] = own | {key}
        return True


def forget() -> None:
    """As if the process had called nothing yet; what was compiled stays."""
    with _lock:
        _own.clear()
