"""The layout of an array in memory: strides through views, along the axes of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.dims import Symbol, evaluate
from ..kernel_ir.plan import ArrayUse
from .array_protocols import packed_strides

ALIGNMENT = 16


class NeedsCopy(Exception):
    """These strides cannot express the view: the array must be made contiguous first."""


@dataclass(frozen=True)
class ArrayLayout:
    """An array's shape, strides and first element (in elements), and its address modulo ALIGNMENT."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    address: int = 0  # of element 0, modulo ALIGNMENT


def contiguous(shape: tuple[int, ...]) -> ArrayLayout:
    """A C-contiguous array at an aligned address."""
    return ArrayLayout(shape, packed_strides(shape))


def view(layout: ArrayLayout, views: tuple, extents: Mapping[Symbol, int]) -> ArrayLayout:
    """The layout after host-side views; NeedsCopy if the strides do not allow one."""
    for kind, how in views:
        if kind == "index":
            layout = _index(layout, how, extents)
        elif kind == "windows":
            layout = _windows(layout, how, extents)
        elif kind == "padded":
            layout = _padded(layout, how, extents)
        else:
            layout = _reshape(layout, tuple(evaluate(d, extents) for d in how))
    return layout


def _index(layout: ArrayLayout, key: tuple, extents: Mapping[Symbol, int]) -> ArrayLayout:
    """The layout after a basic index."""
    shape, strides, offset = [], [], layout.offset
    axes = iter(layout.strides)
    for entry in key:
        stride = 0 if entry[0] == "new" else next(axes)
        offset += 0 if entry[0] == "new" else evaluate(entry[1], extents) * stride
        if entry[0] != "int":
            shape.append(1 if entry[0] == "new" else evaluate(entry[3], extents))
            strides.append(stride if entry[0] == "new" else entry[2] * stride)
    return ArrayLayout(tuple(shape), tuple(strides), offset, layout.address)


def _windows(layout: ArrayLayout, axes: tuple, extents: Mapping[Symbol, int]) -> ArrayLayout:
    """The layout of windows: an axis becomes several, whose steps add up."""
    shape, strides, offset = [], [], layout.offset
    for (start, parts), stride in zip(axes, layout.strides):
        offset += evaluate(start, extents) * stride
        shape += [evaluate(count, extents) for count, _ in parts]
        strides += [step * stride for _, step in parts]
    return ArrayLayout(tuple(shape), tuple(strides), offset, layout.address)


def _padded(layout: ArrayLayout, widths: tuple, extents: Mapping[Symbol, int]) -> ArrayLayout:
    """The layout of an array with zeros around it, which are not in memory: only TMA reads them."""
    zeros = [tuple(evaluate(d, extents) for d in pair) for pair in widths]
    shape = tuple(before + n + after for n, (before, after) in zip(layout.shape, zeros))
    offset = layout.offset - sum(before * stride for (before, _), stride in zip(zeros, layout.strides))
    return ArrayLayout(shape, layout.strides, offset, layout.address)


def _reshape(layout: ArrayLayout, shape: tuple[int, ...]) -> ArrayLayout:
    """The same elements under another shape, by matching runs of axes that multiply to the same extent."""
    if 0 in shape:
        return ArrayLayout(shape, contiguous(shape).strides, layout.offset, layout.address)
    old = [(n, s) for n, s in zip(layout.shape, layout.strides) if n != 1]
    strides = [0] * len(shape)
    i, axis = 0, 0
    while axis < len(shape):
        if shape[axis] == 1:
            axis += 1
            continue
        begin, wanted = axis, shape[axis]
        first, have = i, old[i][0] if i < len(old) else 1
        i += 1
        while have != wanted:
            if have < wanted:
                if old[i - 1][1] != old[i][1] * old[i][0]:
                    raise NeedsCopy
                have *= old[i][0]
                i += 1
            else:
                axis += 1
                wanted *= shape[axis]
        assert first < i
        step = old[i - 1][1]
        for a in range(axis, begin - 1, -1):
            strides[a] = step
            step *= shape[a]
        axis += 1
    return ArrayLayout(shape, tuple(strides), layout.offset, layout.address)


def bound_strides(use: ArrayUse, layouts, extents, axes: int) -> tuple[tuple[int, ...], int]:
    """(stride along each iteration axis, offset of the first element) of one array.

    A result's stride along an axis of 1 element is never 0: all elements would be stored to one address.
    """
    layout = view(layouts[use.kind, use.index], use.views, extents)
    strides, offset = [0] * axes, layout.offset
    for c, stride in zip(use.at, layout.strides):
        offset += evaluate(c.start, extents) * stride
        if c.axis is not None:
            strides[c.axis] += c.step * (stride or int(use.kind == "result"))
    return tuple(strides), offset if all(layout.shape) else 0


def byte_strides(use: ArrayUse, layouts, extents) -> tuple[int, ...]:
    """Byte strides along each axis of an array whose addresses a kernel computes; () for others."""
    if use.gathered is None:
        return ()
    return tuple(s * use.dtype.itemsize for s in view(layouts[use.kind, use.index], use.views, extents).strides)
