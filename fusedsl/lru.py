"""A mapping that keeps what was used last, and forgets the rest; `clear_all` empties those of the process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

K = TypeVar("K")
V = TypeVar("V")


class LRU(Generic[K, V]):
    """At most `most()` values by key, the least recently used gone first. Thread-safe."""

    def __init__(self, most: Callable[[], int]):
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value of a key, which is now the one that was used last."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> V:
        """Keep a value, and forget those that are beyond the limit."""
        gone = []  # what a value takes along may be long to free: not with the lock held
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most():
                gone.append(self._values.popitem(last=False))
        return value

    def values(self) -> list[V]:
        """What it holds, the least recently used first."""
        with self._lock:
            return list(self._values.values())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            gone, self._values = self._values, OrderedDict()
        gone.clear()

    def __len__(self) -> int:
        return len(self._values)


_shared: WeakSet[Any] = WeakSet()


def shared(cache: Any) -> Any:
    """Make `cache` (an LRU, or a function under lru_cache) one of those that `clear_all` empties."""
    _shared.add(cache)
    return cache


def clear_all() -> None:
    """Empty the caches that the process shares."""
    for cache in list(_shared):
        (cache.clear if hasattr(cache, "clear") else cache.cache_clear)()
