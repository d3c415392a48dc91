"""Rows of a product that are places of windows in an image, as TMA loads them in im2col mode (convolutions)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_STEP = 8  # pixels between neighbouring places (CUDA driver API, cuTensorMapEncodeIm2col: elementStrides)
# by the number of image axes: pixels from a place to its last tap, and zeros beside the image or pixels left out there
# (PTX ISA, "im2col mode"; CUDA driver API, cuTensorMapEncodeIm2col: pixelBoxLowerCorner, pixelBoxUpperCorner)
MOST_OFFSET = {1: 65535, 2: 255, 3: 31}
MOST_CORNER = {1: 32767, 2: 127, 3: 15}


@dataclass(frozen=True)
class ImageAxis:
    """An axis of an image along which windows move: pixels between neighbouring places, and zeros before the image.

    `tap_axis` is the K axis of a window's taps along it, `tap_step` pixels apart; -1: windows have one tap.
    """

    step: int
    before: int = 0
    tap_axis: int = -1
    tap_step: int = 1


@dataclass(frozen=True)
class ImageBox:
    """What TMA loads of an image operand at a time: some channels of so many pixels, one for each row of a product.

    With `tf32` it rounds float32 to TF32 on the way.
    """

    operand: int
    channels: int
    rows: int
    tf32: bool = False


@dataclass(frozen=True)
class ImageLayout:
    """An image in memory: channels and pixels, from the innermost axis outwards, then samples.

    `strides` are those of all axes but the channels', in elements; `places` are the windows along each image axis.
    """

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    places: tuple[int, ...]

    def lower_corner(self, axes: Sequence[ImageAxis]) -> tuple[int, ...]:
        """The first place along each image axis."""
        return tuple(-axis.before for axis in axes)

    def upper_corner(self, axes: Sequence[ImageAxis]) -> tuple[int, ...]:
        """How far the last place along each image axis is from the last pixel."""
        return tuple(
            (count - 1) * axis.step + 1 - axis.before - extent
            for axis, count, extent in zip(axes, self.places, self.extents[1:])
        )


def is_loaded_by_im2col(axes: Sequence[ImageAxis], layout: ImageLayout, taps: Sequence[int]) -> bool:
    """Whether a tensor map describes these windows, with so many taps along each image axis."""
    corners = (*layout.lower_corner(axes), *layout.upper_corner(axes))
    most = MOST_CORNER.get(len(axes), -1)
    return (
        all(axis.step <= MOST_STEP for axis in axes)
        and all(-most <= corner <= most for corner in corners)
        and all((count - 1) * axis.tap_step <= MOST_OFFSET[len(axes)] for axis, count in zip(axes, taps))
    )
