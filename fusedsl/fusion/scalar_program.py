"""The scalar program as data: which elements are stored where, as expressions over named axes.

Every node is a scalar. `load` reads one element of a source at coordinates, `fetch` at an address that is computed,
`position` is the index on an axis, `fold` reduces its argument over its column axes, `scan` folds what is up to its
place on one, `select` orders what is along one and `ranked` is a place in that order; the rest are the operations of
the table. Axes are bound variables: two reductions over the same extents of the same rows meet on the same axes, which
is what lets them fuse.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.dims import Dim
from ..ir.graph import Node, Type
from ..ir.types import DType
from .coordinates import Axis


@dataclass(frozen=True)
class ArraySource:
    """An array that a kernel reads: argument or temporary `index`, seen through host-side `views`, each ("reshape",
    shape) or ("index", key)."""

    kind: str  # "argument" | "temporary"
    index: int
    views: tuple = ()
    rounded: bool = False  # a temporary whose elements were rounded to their dtype

    def stored_dtype(self, d: DType) -> DType:
        """What memory holds for elements of this dtype: of a temporary, what they are computed in."""
        return d.compute if self.kind == "temporary" and not self.rounded else d


@dataclass(frozen=True)
class ScalarStore:
    """A value to store: into result or temporary `index`, whose axes are `axes` (None for an extent of 1)."""

    kind: str  # "result" | "temporary"
    index: int
    shape: tuple[Dim, ...]  # of the array that is stored to
    viewed: tuple[Dim, ...]  # the shape that the store sees (a reshaped result is stored before its reshape)
    axes: tuple[Axis | None, ...]
    value: Node
    type: Type
    offsets: tuple[Dim, ...] = ()  # where along each axis the store begins, if not at 0
    rounded: bool = False  # to a temporary that holds `type`, and not what its elements are computed in

    @property
    def stored_dtype(self) -> DType:
        """What memory holds."""
        return self.type.dtype.compute if self.kind == "temporary" and not self.rounded else self.type.dtype


@dataclass(frozen=True)
class ReadableArrays:
    """The arrays that a segment may read: arguments, then the temporaries of a program so far, of which those at some
    places are `rounded` to their dtype."""

    arguments: int
    temporaries: tuple[Type, ...] = ()
    rounded: frozenset[int] = frozenset()

    def source(self, place: int, views: tuple = ()) -> ArraySource:
        """The array at a place, seen through views."""
        index = place - self.arguments
        if index < 0:
            return ArraySource("argument", place, views)
        return ArraySource("temporary", index, views, index in self.rounded)


@dataclass(frozen=True)
class ScalarProgram:
    """The scalar program of a segment: what to store where, and all temporaries so far, its own at the end."""

    stores: tuple[ScalarStore, ...]
    temporaries: tuple[Type, ...]

    @property
    def written(self) -> frozenset[int]:
        """The temporaries that the program stores; others stand in memory before it runs."""
        return frozenset(r.index for r in self.stores if r.kind == "temporary")
