"""A labelled argument: its array, and the labels of its axes."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Label:
    """The labels of one axis."""

    index: Sized  # the library's index object; a range for rows without labels
    name: Any = None  # the dimension's name

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True)
class Labelled:
    """One labelled argument."""

    library: str
    array: Any
    axes: tuple[Label | None, ...]  # one for each axis of `array`
    name: Any = None  # the object's own name
    owner: Any = None  # the object itself, for xarray


def common_name(arguments: list[Labelled]) -> Any:
    """The name that all labelled arguments share, which pandas and xarray give the result; else None."""
    names = [x.name for x in arguments if x.axes]
    return names[0] if names and all(name == names[0] for name in names) else None
