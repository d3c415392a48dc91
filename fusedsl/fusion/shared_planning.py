"""What the formulations of one call plan alike: they differ in few kernels, and the others are planned once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from ..context_values import inside

T = TypeVar("T")

_planned: ContextVar[dict[Hashable, Any] | None] = ContextVar("planned", default=None)


@contextmanager
def shared_planning() -> Iterator[None]:
    """Inside, what is planned under one key is planned once. All plans are for the extents of one call."""
    known = _planned.get()
    with inside(_planned, {} if known is None else known):
        yield


def planned_once(key: Hashable, make: Callable[[], T]) -> T:
    """What `make` gives, or gave for an equal key; without `shared_planning` always anew."""
    known = _planned.get()
    if known is None:
        return make()
    if key not in known:
        known[key] = make()
    return known[key]
