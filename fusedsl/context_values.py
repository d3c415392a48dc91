"""Values of context variables inside a block: in the thread or task that enters it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
V = TypeVar("V")


@contextmanager
def inside(variable: ContextVar[T | V], value: V) -> Iterator[V]:
    """The variable has this value inside the block, and then its value from before."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
