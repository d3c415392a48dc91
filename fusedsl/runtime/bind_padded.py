"""Arrays that a kernel reads with zeros around them, which are not in memory: where each lies, along which axes."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.dims import Symbol, evaluate
from ..kernel_ir.memory_access import MergedAxes
from ..kernel_ir.plan import ArrayUse, KernelPlan
from .bound_kernel import PaddedImage, PixelAxis
from .layout import ArrayLayout


def is_padded(use: ArrayUse) -> bool:
    """Whether a kernel reads an array with zeros around it."""
    return any(kind == "padded" for kind, _ in use.views)


def padded_images(
    plan: KernelPlan,
    layouts: Mapping[tuple[str, int], ArrayLayout],
    extents: Mapping[Symbol, int],
    merged: MergedAxes,
) -> tuple[tuple[int, PaddedImage], ...]:
    """Each such array of a kernel, by operand; none of the kernel's axes is merged with another one."""
    number = {axis: k for k, (axis,) in enumerate(merged.axes)}
    return tuple(
        (k, _image(use, layouts[use.kind, use.index], extents, number))
        for k, use in enumerate(plan.arrays)
        if is_padded(use)
    )


def _image(use: ArrayUse, layout: ArrayLayout, extents: Mapping[Symbol, int], number: Mapping[int, int]) -> PaddedImage:
    """An array of which a kernel sees windows, or its elements themselves."""
    (_, widths), *windows = use.views
    seen = windows[0][1] if windows else [(0, ((n, 1),)) for n in layout.shape]
    at, axes = iter(use.at), []
    for (start, parts), (before, _), n, stride in zip(seen, widths, layout.shape, layout.strides):
        first, steps = evaluate(start, extents) - evaluate(before, extents), []
        for (_, step), index in zip(parts, at):
            first += step * evaluate(index.start, extents)
            if index.axis is not None:
                steps.append((number[index.axis], step * index.step))
        axes.append(PixelAxis(stride, n, first, tuple(steps)))
    return PaddedImage(layout.offset, tuple(axes))
