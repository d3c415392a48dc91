"""Tensor maps of images, for copies in im2col mode: pixels of windows, one after another, at the offset of a tap.

PTX ISA, "im2col mode"; CUDA driver API, cuTensorMapEncodeIm2col.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from .syntax import Unsupported

IMAGE = struct.Struct("<Q4sIII5II5Q3i3iII5B")
MAGIC = b"im2c"
CORNERS = {3: (-(1 << 15), (1 << 15) - 1), 4: (-(1 << 7), (1 << 7) - 1), 5: (-(1 << 4), (1 << 4) - 1)}  # by rank
OFFSETS = {3: 1 << 16, 4: 1 << 8, 5: 1 << 5}
assert IMAGE.size <= 128


def swizzled(address: np.ndarray, width: int) -> np.ndarray:
    """Chunks of 16 bytes change places within rows of so many bytes, by bits of the shared address."""
    bits = {16: 0, 32: 1, 64: 3, 128: 7}[width]
    return address ^ (address >> 7 & bits) << 4


@dataclass(frozen=True)
class ImageMap:
    """What cuTensorMapEncodeIm2col was told; axes are channels, image axes from the innermost outwards, samples.

    Along an image axis pixels are visited from `lower` on, `steps` apart, as long as they are before the last pixel
    plus `upper`.
    """

    size: int
    swizzle: int
    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]
    channels: int
    pixels: int
    rounds: bool = False

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of what one copy brings."""
        return self.channels * self.size

    def encode(self) -> bytes:
        least, most = CORNERS[len(self.shape)]
        if not all(least <= corner <= most for corner in (*self.lower, *self.upper)):
            raise Unsupported(f"corners of an image map of {len(self.shape)} axes: {self.lower}, {self.upper}")
        if self.channels > 256 or self.pixels > 1024 or max(self.steps) > 8 or any(s % 16 for s in self.strides[1:]):
            raise Unsupported(
                "an image map of more channels, pixels, or longer steps, or of strides that are not aligned"
            )
        fill = lambda values, count=5: (*values, *[0] * (count - len(values)))  # noqa: E731
        numbers = (self.base, MAGIC, len(self.shape), self.size, self.swizzle, *fill(self.shape), int(self.rounds))
        corners = (*fill(self.lower, 3), *fill(self.upper, 3), self.channels, self.pixels)
        return IMAGE.pack(*numbers, *fill(self.strides), *corners, *fill(self.steps)).ljust(128, b"\0")

    @classmethod
    def decode(cls, data: bytes) -> ImageMap:
        base, magic, rank, size, swizzle, *rest = IMAGE.unpack(data[: IMAGE.size])
        if magic != MAGIC:
            raise Unsupported("a tensor map that cuTensorMapEncodeIm2col did not make")
        shape, rounds, strides = rest[:rank], bool(rest[5]), rest[6 : 6 + rank]
        lower, upper, steps = rest[11 : 9 + rank], rest[14 : 12 + rank], rest[19 : 19 + rank]
        parts = (tuple(part) for part in (shape, strides, lower, upper, steps))
        return cls(size, swizzle, base, *parts, rest[17], rest[18], rounds)

    def elements(self, given: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(whether each element is in the array, its address, its byte in an unswizzled box).

        `given` are the first channel, the first pixel and its sample, then offsets along the image axes.
        """
        rank = len(self.shape)
        channel, *at = given[:rank]
        offsets = given[rank:]
        if not all(0 <= offset < OFFSETS[rank] for offset in offsets) or len(offsets) != rank - 2:
            raise ValueError(f"offsets {offsets} of an image of {rank} axes")
        ends = [n + more for n, more in zip(self.shape[1:-1], self.upper)]
        if not all(low <= pixel < end for low, pixel, end in zip(self.lower, at, ends)):
            raise ValueError(f"a first pixel {at} outside of {self.lower} to {ends}")
        visited = np.array(list(self._walk(at, ends))) + np.array([*offsets, 0])
        pixels = np.repeat(visited, self.channels, axis=0).T
        every = np.stack([channel + np.tile(np.arange(self.channels), self.pixels), *pixels])
        inside = ((every >= 0) & (every < np.array(self.shape)[:, None])).all(axis=0)
        return inside, self.base + np.array(self.strides) @ every, np.arange(every.shape[1]) * self.size

    def _walk(self, at: list[int], ends: list[int]):
        """The pixel and sample of each row."""
        at = list(at)
        for _ in range(self.pixels):
            yield tuple(at)
            for axis, (low, end) in enumerate(zip(self.lower, ends)):
                at[axis] += self.steps[axis + 1]
                if at[axis] < end:
                    break
                at[axis] = low
            else:
                at[-1] += 1

    def swizzled(self, address: np.ndarray) -> np.ndarray:
        """Where chunks of 16 bytes lie."""
        return swizzled(address, self.swizzle)
