"""Scalar program as data: stores of elements, each an expression of scalars over named axes.

Every node is a scalar. `load` reads an element of an array at coordinates, `fetch` at a computed address. `position` is
the index on an axis. `fold` reduces its argument over axes, `scan` is a part of the prefix's state along one axis (of a
`pair`: of a recurrence), `sort` sorts along one axis and `sorted` is an element of that sort. `update` merges a
value at an index of the array that its store writes. All other nodes are operations of the table. Axes are bound
variables: two reductions over the same extents of the same rows use the same axes, and so can share a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..ir.dims import Dim
from ..ir.graph import Node, Type
from ..ir.rounded_values import is_rounded
from ..ir.types import DType
from .coordinates import Axis


@dataclass(frozen=True)
class ArraySource:
    """Array that a kernel reads: argument or temporary `index`, seen through host-side `views`.

    A view is ("reshape", shape), ("index", key) or ("windows", axes): for each axis of the array its first index, and
    (extent, step) of the axes of the view that it becomes. A call may add ("padded", widths): see kernel_ir/plan.py.
    """

    kind: Literal["argument", "temporary"]
    index: int
    views: tuple = ()
    rounded: bool = False  # a temporary whose elements were rounded to their dtype

    def stored_dtype(self, d: DType) -> DType:
        """Dtype in memory of elements of dtype `d`; unrounded temporaries hold the compute dtype."""
        return d.compute if self.kind == "temporary" and not self.rounded else d


@dataclass(frozen=True)
class ScalarStore:
    """Store of a scalar to result or temporary `index` along `axes` (None for an extent of 1).

    A scatter merges its `update`s, in the C order of its axes, into an array that another store has written.
    """

    kind: Literal["result", "temporary"]
    index: int
    shape: tuple[Dim, ...]  # of the stored array
    viewed: tuple[Dim, ...]  # shape as the store indexes it: before a final reshape
    axes: tuple[Axis | None, ...]
    value: Node
    type: Type
    offsets: tuple[Dim, ...] = ()  # first index along each axis, if not 0
    rounded: bool = False  # to a temporary of dtype `type`, not of its compute dtype
    merged: bool = False  # a later scatter merges into the array
    ordered: bool = False  # a scatter whose indices do not decrease, but for negative ones before and behind the others

    @property
    def keeps_value(self) -> bool:
        """Whether later kernels find the value in memory: in a temporary that no scatter merges into."""
        return self.kind == "temporary" and not self.merged

    @property
    def is_scatter(self) -> bool:
        """Whether elements are merged at computed indices."""
        return self.value.op == "update"

    @property
    def stored_dtype(self) -> DType:
        """Dtype in memory."""
        return self.type.dtype.compute if self.kind == "temporary" and not self.rounded else self.type.dtype


@dataclass(frozen=True)
class ReadableArrays:
    """Arrays that a segment may read: the arguments, then the temporaries so far.

    Temporaries with an index in `rounded` hold values that were rounded to their dtype.
    """

    arguments: int
    temporaries: tuple[Type, ...] = ()
    rounded: frozenset[int] = frozenset()

    def source(self, number: int, views: tuple = ()) -> ArraySource:
        """Array `number`, seen through views."""
        index = number - self.arguments
        if index < 0:
            return ArraySource("argument", number, views)
        return ArraySource("temporary", index, views, index in self.rounded)

    def rounds(self, n: Node) -> bool:
        """Whether a temporary of an array may hold its own dtype: the array is rounded to it, which is narrower than
        what it is computed in."""
        d = n.type.dtype
        return d.compute is not d and is_rounded(n, lambda p: self.source(p.attr).stored_dtype(d) is d)


@dataclass(frozen=True)
class ScalarProgram:
    """Scalar program of a segment: its stores, and the types of all temporaries so far, its own last."""

    stores: tuple[ScalarStore, ...]
    temporaries: tuple[Type, ...]

    @property
    def written(self) -> frozenset[int]:
        """Indices of the temporaries that the program stores; all others are complete before it runs."""
        return frozenset(r.index for r in self.stores if r.kind == "temporary")


def temporary(value: Node, axes: tuple[Axis, ...], index: int) -> ScalarStore:
    """Store of a value to a temporary along these axes."""
    shape = tuple(a.extent for a in axes)
    type = Type(value.type.dtype, shape)
    return ScalarStore("temporary", index, shape, shape, axes, value, type, rounded=_is_rounded(value))


def _is_rounded(value: Node) -> bool:
    """Whether a scalar has been rounded to its dtype, which is narrower than what it is computed in."""
    d = value.type.dtype
    loaded = value.op in ("load", "fetch") and value.attr[0].stored_dtype(d) is d
    return d.compute is not d and (value.op == "cast" or loaded)
