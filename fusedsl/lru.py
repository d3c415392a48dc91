"""A least-recently-used cache; `clear_all` empties the shared caches of the process."""

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
        """The value of a key, which becomes the most recently used."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> V:
        """Store a value, and drop those beyond the limit."""
        gone = []  # freeing a value may take long: not under the lock
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most():
                gone.append(self._values.popitem(last=False))
        return value

    def values(self) -> list[V]:
        """The values, least recently used first."""
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
    """Register `cache` (an LRU, or a function under lru_cache) with `clear_all`."""
    _shared.add(cache)
    return cache


def clear_all() -> None:
    """Empty the caches that the process shares."""
    for cache in list(_shared):
        (cache.clear if hasattr(cache, "clear") else cache.cache_clear)()
