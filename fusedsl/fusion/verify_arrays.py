"""The arrays of a program that is verified, by kind and index: their types, and which of them scalars may read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..ir.graph import Type
from ..ir.places import IndexRules
from ..ir.types import DType

Key = tuple[str, int]


@dataclass(frozen=True)
class Arrays:
    """Arguments, temporaries and results; those that are `readable`, and the temporaries that hold their own dtype, to
    which they are `rounded`. `numbers` are the arguments that are no arrays."""

    types: Mapping[Key, Type]
    readable: Collection[Key]
    rounded: Collection[int]
    numbers: Mapping[int, DType]
    places: IndexRules
