"""Reference evaluation of scalar programs on NumPy, for the verifier: all elements of each store at once.

A value has a dimension for each axis that it depends on. Folds are evaluated separately;
tests/reference_executor.py evaluates online reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ..ir.differential_test import MOST_ELEMENTS, TooLarge
from ..ir.dims import Dim, Extents, evaluate
from ..ir.folds import FOLDS
from ..ir.graph import Node, value_of, walk
from ..ir.interp import cast, stepped, viewed
from ..ir.interp_scans import ACCUMULATE, empty, scan_states, shifted
from ..ir.interp_scatter import merge_at
from ..ir.ops import OPS
from ..ir.types import numpy_dtype
from ..ir.verify import VerifyError
from .coordinates import Axis
from .scalar_program import ArraySource, ScalarStore

UFUNCS = ACCUMULATE | {"any": np.logical_or, "all": np.logical_and}


@dataclass(frozen=True)
class AxisValue:
    """A scalar for all indices of the axes that it depends on, one dimension each."""

    axes: tuple[Axis, ...]
    array: np.ndarray


class ScalarEvaluator:
    """Evaluates scalars over `arrays` (by kind and index) and numbers, at given extents."""

    def __init__(self, extents: Extents, arrays: Mapping[tuple[str, int], np.ndarray], numbers: Sequence):
        self.extents, self.arrays, self.numbers = extents, arrays, numbers
        self.known: dict[Node, AxisValue] = {}
        self.dimension_of: dict[Axis, int] = {}  # the order of dimensions
        self.views: dict[ArraySource, np.ndarray] = {}
        self.elements = 0  # of all values so far

    def values(self, roots: Iterable[Node]) -> list[AxisValue]:
        """Values of scalars; each node is evaluated once."""
        roots = list(roots)
        with np.errstate(all="ignore"):
            for n in walk(roots):
                if n not in self.known and n.op != "sort":
                    self.known[n] = self._evaluate(n)
        return [self.known[r] for r in roots]

    def store(self, root: ScalarStore, computed: Node, into: np.ndarray) -> None:
        """Write the `computed` value of a store to an array of its shape and dtype in memory."""
        if root.is_scatter:
            self._merge(root, computed, into)
            return
        (value,) = self.values([computed])
        axes = tuple(a for a in root.axes if a is not None)
        array = self._over(value, tuple(sorted(axes, key=self._dimension)))
        order = sorted(range(len(axes)), key=lambda k: self._dimension(axes[k]))
        array = array.transpose([order.index(k) for k in range(len(axes))])
        starts = [evaluate(d, self.extents) for d in root.offsets or (0,) * len(root.axes)]
        box = tuple(slice(s, s + (1 if a is None else self.extent(a))) for s, a in zip(starts, root.axes))
        viewed = into.reshape([evaluate(d, self.extents) for d in root.viewed])  # a view: C order
        with np.errstate(all="ignore"):
            viewed[box] = array.reshape(viewed[box].shape)

    def _merge(self, root: ScalarStore, update: Node, into: np.ndarray) -> None:
        """Merge the updates of a scatter, in the order of its axes."""
        axes = tuple(a for a in root.axes if a is not None)
        parts = []
        for value in self.values(update.args):
            array = self._over(value, tuple(sorted(axes, key=self._dimension)))
            order = sorted(range(len(axes)), key=lambda k: self._dimension(axes[k]))
            parts.append(array.transpose([order.index(k) for k in range(len(axes))]))
        with np.errstate(all="ignore"):
            merge_at(update.attr, into, *parts)

    def extent(self, d: Axis | Dim) -> int:
        """Value of an extent."""
        return evaluate(d.extent if isinstance(d, Axis) else d, self.extents)

    # -- dimensions

    def _dimension(self, a: Axis) -> int:
        return self.dimension_of.setdefault(a, len(self.dimension_of))

    def _ordered(self, axes: Iterable[Axis]) -> tuple[Axis, ...]:
        """Axes in the order of dimensions; TooLarge if values over them have too many elements."""
        ordered = tuple(sorted(set(axes), key=self._dimension))
        self.elements += prod(map(self.extent, ordered))
        if self.elements > MOST_ELEMENTS:
            raise TooLarge
        return ordered

    def _spread(self, value: AxisValue, axes: tuple[Axis, ...]) -> np.ndarray:
        """A value with a dimension for each of some axes, of one element where it does not depend on it."""
        return value.array.reshape([self.extent(a) if a in value.axes else 1 for a in axes])

    def _over(self, value: AxisValue, axes: tuple[Axis, ...]) -> np.ndarray:
        """A value at all places of some axes."""
        return np.broadcast_to(self._spread(value, axes), [self.extent(a) for a in axes])

    def _over_axes(self, n: Node, axes: tuple[Axis, ...], array: np.ndarray) -> AxisValue:
        shape = tuple(self.extent(a) for a in axes)
        return AxisValue(axes, np.broadcast_to(array, shape).astype(numpy_dtype(n.type.dtype.compute), copy=False))

    def _line(self, a: Axis, axes: tuple[Axis, ...]) -> np.ndarray:
        """The positions on an axis, along its dimension among some axes."""
        return np.arange(self.extent(a)).reshape([-1 if b == a else 1 for b in axes])

    # -- nodes

    def _evaluate(self, n: Node) -> AxisValue:
        if n.op in OPS or n.op in ("convert", "cast", "fetch"):
            args = [self.known[a] for a in n.args]
            axes = self._ordered(a for x in args for a in x.axes)
            return self._over_axes(n, axes, self._operation(n, [self._spread(x, axes) for x in args]))
        return RULES[n.op](self, n)

    def _operation(self, n: Node, args: list[np.ndarray]) -> np.ndarray:
        if n.op == "fetch":
            return self._fetched(n, *args)
        if n.op in OPS:
            return np.asarray(OPS[n.op].meaning(*args))
        return cast(args[0], n.type.dtype) if n.op == "cast" else args[0]

    def _fetched(self, n: Node, address: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Addresses are numbers of elements, in C order."""
        flat = self._view(n.attr[0]).reshape(-1)
        address, wanted = np.broadcast_arrays(address, wanted)
        if (wanted & ((address < 0) | (address >= flat.size))).any():
            raise VerifyError(f"what is fetched is inside of its array: {n!r}")
        return np.where(wanted, flat[np.where(wanted, address, 0)] if flat.size else 0, 0)

    def _view(self, source: ArraySource) -> np.ndarray:
        """The array behind a source, as its views show it."""
        if source not in self.views:
            x = self.arrays[source.kind, source.index]
            for kind, how in source.views:
                x = viewed(x, kind, how, self.extents)
            self.views[source] = x
        return self.views[source]

    def _load(self, n: Node) -> AxisValue:
        source, at = n.attr
        axes = self._ordered(c.axis for c in at if c.axis is not None)
        x, indices = self._view(source), []
        for c, count in zip(at, x.shape):
            start = self.extent(c.start)
            one = start if c.axis is None else stepped(start, c.step, self._line(c.axis, axes))
            if np.size(one) and (np.min(one) < 0 or np.max(one) >= count):
                raise VerifyError(f"what is loaded is inside of its array: {n!r}")
            indices.append(one)
        return self._over_axes(n, axes, x[tuple(indices)] if indices else x)

    def _position(self, n: Node) -> AxisValue:
        return self._over_axes(n, (n.attr,), np.arange(self.extent(n.attr)))

    def _pointer(self, n: Node) -> AxisValue:
        return self._over_axes(n, (), np.asarray(0))

    def _stride(self, n: Node) -> AxisValue:
        source, axis = n.attr
        return self._over_axes(n, (), np.asarray(prod(self._view(source).shape[axis + 1 :])))

    def _constant(self, n: Node) -> AxisValue:
        return self._over_axes(n, (), np.asarray(value_of(n)))

    def _size(self, n: Node) -> AxisValue:
        return self._over_axes(n, (), np.asarray(self.extent(n.attr)))

    def _scalar(self, n: Node) -> AxisValue:
        return self._over_axes(n, (), np.asarray(self.numbers[n.attr]))

    def _fold(self, n: Node) -> AxisValue:
        name, columns = n.attr
        x = self.known[n.args[0]]
        axes = self._ordered((*x.axes, *columns))
        array, along = self._over(x, axes), tuple(axes.index(a) for a in columns)
        outer = tuple(a for a in axes if a not in columns)
        if FOLDS[name].positional:
            (k,) = along
            return self._over_axes(n, outer, getattr(np, name)(array, axis=k) if array.size else np.asarray(0))
        wide = np.float64 if array.dtype == np.float32 and name in ("sum", "prod") else array.dtype
        (nothing,) = FOLDS[name].identity(n.type.dtype.compute)
        return self._over_axes(n, outer, UFUNCS[name].reduce(array, axis=along, dtype=wide, initial=value_of(nothing)))

    def _pair(self, n: Node) -> AxisValue:
        """The first value; scans read both themselves."""
        return self.known[n.args[0]]

    def _scan(self, n: Node) -> AxisValue:
        """A part of the states; sums of float32 are rounded once, from float64, as in ir/interp.py."""
        name, axis, backwards, exclusive, part = n.attr
        (x,) = n.args
        values = [self.known[a] for a in (x.args if x.op == "pair" else n.args)]
        axes = self._ordered((*(a for x in values for a in x.axes), axis))
        arrays, k = [self._over(x, axes) for x in values], axes.index(axis)
        arrays = [np.flip(x, k) for x in arrays] if backwards else arrays
        prefixes = scan_states(name, arrays, k)[part]
        if name == "sum" and prefixes.dtype == np.float32:
            prefixes = np.where(np.isfinite(prefixes), np.add.accumulate(arrays[0], k, np.float64), prefixes)
        if exclusive:
            prefixes = shifted(prefixes, k, empty(name, prefixes.dtype, part))
        return self._over_axes(n, axes, np.flip(prefixes, k) if backwards else prefixes)

    def _sort(self, n: Node) -> AxisValue:
        """An element of the stable sort along a column, or all of them; a descending sort is that of the reversed
        row."""
        (part, index), (descending, column, _) = n.attr, n.args[0].attr
        x = self.known[n.args[0].args[0]]
        axes = self._ordered((*x.axes, column))
        array, k = self._over(x, axes), axes.index(column)
        order = np.argsort(np.flip(array, k) if descending else array, axis=k, kind="stable")
        order = np.flip(array.shape[k] - 1 - order, k) if descending else order
        sorted_values = order if part == "positions" else np.take_along_axis(array, order, axis=k)
        if index is None:
            rank = self._over(self.known[n.args[1]], tuple(a for a in axes if a != column))
            wanted = np.broadcast_to(np.expand_dims(rank, k), (*array.shape[:k], 1, *array.shape[k + 1 :]))
            picked = np.take_along_axis(sorted_values, wanted, axis=k).squeeze(k)
            return self._over_axes(n, tuple(a for a in axes if a != column), picked)
        if not isinstance(index, Axis):
            return self._over_axes(n, tuple(a for a in axes if a != column), sorted_values.take(index, axis=k))
        own = tuple(index if a == column else a for a in axes)
        sorted_values = sorted_values.take(np.arange(self.extent(index)), axis=k)
        ordered = self._ordered(own)
        return self._over_axes(n, ordered, sorted_values.transpose([own.index(a) for a in ordered]))


RULES: dict[str, Callable[[ScalarEvaluator, Node], AxisValue]] = {
    "load": ScalarEvaluator._load,
    "position": ScalarEvaluator._position,
    "pointer": ScalarEvaluator._pointer,
    "stride": ScalarEvaluator._stride,
    "const": ScalarEvaluator._constant,
    "size": ScalarEvaluator._size,
    "scalar": ScalarEvaluator._scalar,
    "fold": ScalarEvaluator._fold,
    "scan": ScalarEvaluator._scan,
    "pair": ScalarEvaluator._pair,
    "sorted": ScalarEvaluator._sort,
}
