"""Arrays of a program under verification, by kind and index: types, and which of them may be read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..ir.graph import Type
from ..ir.index_rules import IndexRules
from ..ir.types import DType

Key = tuple[str, int]


@dataclass(frozen=True)
class Arrays:
    """Types of arrays, the `readable` ones, temporaries `rounded` to their dtype, and scalar arguments `numbers`."""

    types: Mapping[Key, Type]
    readable: Collection[Key]
    rounded: Collection[int]
    numbers: Mapping[int, DType]
    index_rules: IndexRules
