"""Least-recently-used caches; `clear_all` empties those of the whole process, `resize_all` fits them to new sizes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
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
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
        self.resize()
        return value

    def resize(self) -> None:
        """Drop the values beyond the limit, which may be another one now."""
        gone, most = [], self._most()  # freeing a value may take long: not under the lock
        with self._lock:
            while len(self._values) > most:
                gone.append(self._values.popitem(last=False))

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


class Memo(Generic[V]):
    """Results of a function by its arguments, at most `most()` of them; `call` is the function with its cache.

    The size is asked for by the first call, so that an import does not fail because of an environment variable.
    """

    call: Callable[..., V]

    def __init__(self, function: Callable[..., V], most: Callable[[], int]):
        self._function, self._most = function, most
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.call = self._first_call

    def resize(self) -> None:
        """Begin again with the present size."""
        self.clear()

    def _first_call(self, *args: Any) -> V:
        self.call = lru_cache(self._most())(self._function)
        return self.call(*args)

    def __len__(self) -> int:
        cache_info = getattr(self.call, "cache_info", None)
        return cache_info().currsize if cache_info else 0


_shared: WeakSet[Any] = WeakSet()


def shared(cache: Any) -> Any:
    """Register `cache` (an LRU or a Memo) with `clear_all` and `resize_all`."""
    _shared.add(cache)
    return cache


def clear_all() -> None:
    """Empty the caches that the process shares."""
    for cache in list(_shared):
        cache.clear()


def resize_all() -> None:
    """Drop what the caches that the process shares hold beyond their limits, after those were changed."""
    for cache in list(_shared):
        cache.resize()
