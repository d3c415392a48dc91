"""Emits where TMA loads the pixels of a tile's rows on sm_90: the place of its first row, and the offset of a tap."""

from __future__ import annotations

from collections.abc import Sequence

from .....kernel_ir.image_rows import ImageAxis
from ...emit.source_builder import SourceBuilder
from ...tile import udiv


def emit_first_place(src: SourceBuilder) -> None:
    """Emit the place of row `row_from` along each image axis, place0 along the innermost one, and its sample."""
    src.assign("sample", "row_from")
    for number in range(src.kernel.image_axes):
        count = f"int32({src.names.place(number)})"
        src.assign("above", udiv("sample", count))
        src.emit(f"place{number} = int32(sample - above * {count})", "sample = above")


def image_coordinates(axes: Sequence[ImageAxis]) -> list[str]:
    """The first channel, the pixel of the first row and its sample, then the offset of the tap along image axes."""
    pixels = [_sum(f"place{number}", axis.step, -axis.before) for number, axis in enumerate(axes)]
    taps = [_sum(f"c{axis.tap_axis}", axis.tap_step, 0) if axis.tap_axis >= 0 else "int32(0)" for axis in axes]
    return ["slice_from", *pixels, "sample", *taps]


def _sum(number: str, step: int, more: int) -> str:
    """number * step + more."""
    return f"int32({number}{f' * {step}' if step != 1 else ''}{f' - {-more}' if more else ''})"
