"""Guards of a trace on Python state: snapshots of globals, closure cells and attributes, compared at each call."""

from __future__ import annotations

import types
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Unsupported
from .array_library import default_device
from .containers import attributes_of, is_user_class

PLAIN = (int, float, str, bytes, type(None))


class Unchanged:
    """A snapshot of an object by identity: equal only to a snapshot of the same object."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unchanged) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def snapshot(value: Any, depth: int = 4) -> Any:
    """A comparable snapshot of a value: plain values, also those in containers and objects, by value; all else by
    identity."""
    if isinstance(value, PLAIN):
        return type(value), repr(value) if isinstance(value, float) else value
    if depth == 0:
        return Unchanged(value)
    if isinstance(value, (tuple, list, deque)):
        return type(value), tuple([snapshot(part, depth - 1) for part in value])
    if isinstance(value, dict):
        return type(value), tuple([(snapshot(k, depth - 1), snapshot(part, depth - 1)) for k, part in value.items()])
    if isinstance(value, (set, frozenset)):
        return type(value), frozenset([snapshot(part, depth - 1) for part in value])
    if type(value) is slice:
        return slice, tuple([snapshot(part, depth - 1) for part in (value.start, value.stop, value.step)])
    if hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, np.generic):
        return Unchanged(value)
    return _object(value, depth)


def _object(value: Any, depth: int) -> Any:
    """A snapshot of an object: by value if it is hashable by value; for other user objects, of their attributes."""
    kind = type(value)
    attributes = attributes_of(value) if is_user_class(kind) else None
    by_value, hashed = kind.__eq__ is not object.__eq__, kind.__hash__ is not None
    if by_value and hashed:
        return kind, value
    if attributes is not None and not isinstance(value, (type, types.FunctionType)):
        return kind if by_value else Unchanged(value), snapshot(attributes, depth - 1)
    return Unchanged(value)


@dataclass(frozen=True)
class Guard:
    """A global, closure cell or module attribute that the function reads, and a snapshot of its value."""

    scope: Any  # the dict of names, the cell, or an AmbientState
    name: str
    expected: Any  # the snapshot
    original: Any = None  # the value itself

    def is_valid(self) -> bool:
        if isinstance(self.scope, AmbientState):
            return self.scope.now() == self.expected
        try:
            now = self.scope.cell_contents if isinstance(self.scope, types.CellType) else self.scope[self.name]
        except (ValueError, KeyError):  # an empty cell; a name that is gone
            return False
        return snapshot(now) == self.expected


class AmbientState:
    """Ambient state that torch's and CuPy's functions depend on: torch's default dtype and autocast, and the default
    device, if no argument has one."""

    def __init__(self, library: str, example: Any, library_discovered: bool):
        self.library, self.library_discovered = library, library_discovered
        self.device = getattr(example.device, "type", "cuda")

    def now(self) -> tuple:
        device = default_device(self.library) if self.library_discovered else None
        if self.library != "torch":
            return device, False
        import torch

        return device, torch.is_autocast_enabled(self.device), torch.get_default_dtype()


def guard_ambient_state(library: str, example: Any, library_discovered: bool) -> Guard:
    """A guard on the library's ambient state; Unsupported under autocast, which changes dtypes implicitly."""
    scope = AmbientState(library, example, library_discovered)
    if scope.now()[1]:
        raise Unsupported(
            "autocast in a traced function is not supported", "unsupported.autocast", help="cast where you mean to"
        )
    return Guard(scope, library, scope.now())
