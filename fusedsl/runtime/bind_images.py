"""Binds products of windows as products of two matrices: the rows are places in an image, which TMA walks by itself.

All other arrays of the kernel have one axis for these rows. Where windows are read as strides of an array, the pixel of
an image axis is the greatest common divisor of the steps between places and between taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd, prod

from ..kernel_ir.image_rows import MOST_STEP, ImageAxis, ImageLayout, is_loaded_by_im2col
from ..kernel_ir.kernel import KernelIR, Operand
from ..kernel_ir.matmul_k_axes import k_axes
from ..kernel_ir.matmul_operands import MatmulOperands, matmul_operands
from ..kernel_ir.memory_access import stride_kinds
from .bound_kernel import BoundKernel, PaddedImage, PixelAxis

MOST_IMAGE_AXES = 3
CHANNELS = 64  # of a tap, whose multiples are worth an axis of their own beside the taps


def with_image_rows(bound: BoundKernel) -> BoundKernel | None:
    """The same product over one axis of rows; None if it has one already, or arrays lie otherwise."""
    kernel = bound.kernel
    operands = matmul_operands(kernel) if isinstance(kernel, KernelIR) else None
    if operands is None or len(operands.axes.rows) < 2 or operands.axes.batch or len(operands.axes.columns) != 1:
        return None
    if any(len(line) != kernel.axes for line in bound.strides) or 0 in bound.extents:
        return None
    rows = operands.axes.rows
    others = [line for k, line in enumerate(bound.strides) if k not in operands.left]
    placed = any(p.axis in rows for p in kernel.positions)
    if placed or not all(_is_one_axis(line, rows, bound.extents) for line in others):
        return None
    inner = k_axes(kernel, operands, bound.extents).inner
    if any(kernel.operands[k].near != inner for k in operands.left):
        return None
    pixels = {bound.strides[k][rows[-1]] for k in operands.left}
    if len(pixels) == 1 and _holds_taps(bound.extents[inner], *pixels):
        bound, inner = _with_taps_apart(bound, inner, *pixels), inner + 1
        kernel = bound.kernel
    taps, padded = tuple(a for a in range(kernel.row_axes, kernel.axes) if a != inner), dict(bound.padded)
    if not padded.keys() <= set(operands.left):
        return None
    windows_by_operand = dict[int, Windows]()
    for k in operands.left:
        windows = (
            _padded_windows(padded[k], bound.extents, rows, inner)
            if k in padded
            else _windows(bound.strides[k], bound.extents, rows, taps, inner)
        )
        if windows is None or not windows.fit(bound.extents):
            return None
        windows_by_operand[k] = windows
    offsets = tuple(padded[k].offset if k in padded else offset for k, offset in enumerate(bound.offsets))
    return _flattened(replace(bound, offsets=offsets, padded=()), operands, inner, windows_by_operand)


def _is_one_axis(line: Sequence[int], axes: Sequence[int], extents: Sequence[int]) -> bool:
    """Whether an array's elements along these axes, in their order, are as along one axis."""
    return all(line[a] == line[b] * extents[b] for a, b in pairwise(axes))


def _holds_taps(line: int, pixel: int) -> bool:
    """Whether several taps lie in one line of channels, each of whole K-slices."""
    return pixel > 0 and pixel % CHANNELS == 0 == line % pixel and line > pixel


def _with_taps_apart(bound: BoundKernel, axis: int, pixel: int) -> BoundKernel:
    """The same kernel where taps beside each other, whose channels lie in one line, are an axis before channels."""
    kernel, extents = bound.kernel, bound.extents
    extents = (*extents[:axis], extents[axis] // pixel, pixel, *extents[axis + 1 :])
    strides = tuple((*line[:axis], line[axis] * pixel, *line[axis:]) for line in bound.strides)
    operands = tuple(
        replace(o, strides=stride_kinds(extents, line), near=o.near + (o.near >= axis))
        for o, line in zip(kernel.operands, strides)
    )
    flat = replace(kernel, column_axes=kernel.column_axes + 1, operands=operands)
    return replace(bound, kernel=flat, extents=extents, strides=strides)


@dataclass(frozen=True)
class Windows:
    """Windows of one array: image axes from the innermost outwards, the array in memory, and its taps along each."""

    axes: tuple[ImageAxis, ...]
    layout: ImageLayout

    def fit(self, extents: Sequence[int]) -> bool:
        """Whether a tensor map describes them."""
        taps = [extents[a.tap_axis] if a.tap_axis >= 0 else 1 for a in self.axes]
        return 1 <= len(self.axes) <= MOST_IMAGE_AXES and is_loaded_by_im2col(self.axes, self.layout, taps)


def _padded_windows(image: PaddedImage, extents: Sequence[int], rows: Sequence[int], inner: int) -> Windows | None:
    """Windows of an array with zeros around it; None if its axes are not those of channels, pixels and samples."""
    by_row, channels = dict[int, PixelAxis](), list[PixelAxis]()
    for axis in image.axes:
        along = [a for a, _ in axis.steps if a in rows]
        if (axis.steps, axis.first, axis.stride) == (((inner, 1),), 0, 1):
            channels.append(axis)
        elif not axis.steps and axis.first == 0:  # a single sample
            continue
        elif len(along) != 1 or len(axis.steps) > 2 or any(step < 1 for _, step in axis.steps):
            return None
        else:
            by_row[along[0]] = axis
    if len(channels) != 1 or set(by_row) != set(rows):
        return None
    far = by_row[rows[0]]
    sample = far if (far.steps, far.first) == (((rows[0], 1),), 0) else None
    spatial = [r for r in reversed(rows) if by_row[r] is not sample]
    axes = []
    for r in spatial:
        taps = [(a, step) for a, step in by_row[r].steps if a != r]
        tap_axis, tap_step = taps[0] if taps else (-1, 1)
        axes.append(ImageAxis(dict(by_row[r].steps)[r], -by_row[r].first, tap_axis, tap_step))
    pixels = [by_row[r] for r in spatial]
    samples = (sample.extent, sample.stride) if sample else (1, pixels[-1].extent * pixels[-1].stride)
    sizes, strides = zip(*((axis.extent, axis.stride) for axis in pixels))
    layout = ImageLayout(
        (channels[0].extent, *sizes, samples[0]), (*strides, samples[1]), tuple(extents[r] for r in spatial)
    )
    return Windows(tuple(axes), layout)


def _windows(
    line: Sequence[int], extents: Sequence[int], rows: Sequence[int], taps: Sequence[int], inner: int
) -> Windows | None:
    """Windows as an array's strides lie; None if taps do not follow axes of the rows, or no tensor map holds them."""
    if any(line[t] <= 0 for t in taps) or any(line[r] <= 0 for r in rows):
        return None
    tap_of = _taps_along(line, rows, taps)
    if tap_of is None:
        return None
    sample = rows[0] if rows[0] not in tap_of else None
    spatial = [r for r in reversed(rows) if r != sample]
    axes, sizes, units = [], [], []
    for r in spatial:
        t = tap_of.get(r, -1)
        unit = line[r] if t < 0 else gcd(line[r], line[t])
        reach = 0 if t < 0 else (extents[t] - 1) * (line[t] // unit)
        axes.append(ImageAxis(line[r] // unit, 0, t, 1 if t < 0 else line[t] // unit))
        sizes.append((extents[r] - 1) * axes[-1].step + 1 + reach)
        units.append(unit)
    samples = (1, units[-1] * sizes[-1]) if sample is None else (extents[sample], line[sample])
    places = tuple(extents[r] for r in spatial)
    layout = ImageLayout((extents[inner], *sizes, samples[0]), (*units, samples[1]), places)
    return Windows(tuple(axes), layout)


def _taps_along(line: Sequence[int], rows: Sequence[int], taps: Sequence[int]) -> dict[int, int] | None:
    """The taps that follow each axis of the rows: those with the largest common pixel, the innermost of several."""
    tap_of: dict[int, int] = {}
    for t in sorted(taps, key=lambda t: line[t]):
        near = [r for r in reversed(rows) if r not in tap_of and line[r] // gcd(line[r], line[t]) <= MOST_STEP]
        if not near:
            return None
        tap_of[max(near, key=lambda r: gcd(line[r], line[t]))] = t
    return tap_of


def _flattened(bound: BoundKernel, operands: MatmulOperands, inner: int, windows: dict[int, Windows]) -> BoundKernel:
    """The kernel over rows, columns, taps, and channels as the last axis."""
    kernel, rows, (column,) = bound.kernel, operands.axes.rows, operands.axes.columns
    taps = [a for a in range(kernel.row_axes, kernel.axes) if a != inner]
    order = [rows[-1], column, *taps, inner]
    number = {a: n for n, a in enumerate(order)}
    extents = (prod(bound.extents[r] for r in rows), *(bound.extents[a] for a in order[1:]))
    strides = tuple(tuple(line[a] for a in order) for line in bound.strides)

    def renumbered(k: int, operand: Operand) -> Operand:
        axes = windows[k].axes if k in windows else ()
        image = tuple(replace(axis, tap_axis=number.get(axis.tap_axis, -1)) for axis in axes)
        kinds = stride_kinds(extents, strides[k])
        return replace(operand, strides=kinds, near=number.get(operand.near, -1), image=image)

    phases = kernel.phases
    if phases[0].panel_folds is not None:
        panels = replace(phases[0].panel_folds, axis=number[phases[0].panel_folds.axis])
        phases = (replace(phases[0], panel_folds=panels),)
    flat = replace(
        kernel,
        row_axes=2,
        column_axes=len(taps) + 1,
        operands=tuple(renumbered(k, operand) for k, operand in enumerate(kernel.operands)),
        positions=tuple(replace(p, axis=number[p.axis]) for p in kernel.positions),
        phases=phases,
    )
    images = tuple(windows[k].layout if k in windows else None for k in range(len(kernel.operands)))
    return replace(bound, kernel=flat, extents=extents, strides=strides, images=images, looped=None, transposed=None)
