"""A labelled argument: its array, and what each of its axes is labelled with."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Label:
    """What an axis carries: `name` is that of the dimension, `index` the labels of its elements.

    `index` is the library's own object; a plain range stands for rows that have no labels.
    """

    index: Sized
    name: Any = None

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True)
class Labelled:
    """One labelled argument; `axes` has a label, or None, for each axis of `array`, `name` is its own name."""

    library: str
    array: Any
    axes: tuple[Label | None, ...]
    name: Any = None
    owner: Any = None


def common_name(arguments: list[Labelled]) -> Any:
    """The name that all arguments which have labels share, as pandas and xarray name results; else None."""
    names = [x.name for x in arguments if x.axes]
    return names[0] if names and all(name == names[0] for name in names) else None
