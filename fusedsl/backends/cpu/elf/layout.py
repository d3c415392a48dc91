"""Layout of a shared object: three segments, each with its own permissions, in the file and in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

PAGE = 1 << 16  # the largest page size of Linux on either architecture
READ_ONLY, CODE, DATA = range(3)
PERMISSIONS = (4, 5, 6)  # p_flags of each segment: read; read and execute; read and write
SEGMENT_ALIGNMENT = 64  # bytes


class Piece(NamedTuple):
    """A contiguous range of bytes, before layout."""

    segment: int
    key: str | int
    size: int
    align: int


class PieceLocation(NamedTuple):
    """The location of a piece after layout."""

    segment: int
    offset: int  # in the file

    @property
    def address(self) -> int:
        """The address relative to the load address; segments are a page further apart than in the file."""
        return self.offset + self.segment * PAGE


@dataclass(frozen=True)
class ObjectLayout:
    """The layout of an object."""

    places: Mapping[str | int, PieceLocation]
    segments: tuple[tuple[int, int], ...]  # (offset in the file, size)

    def __getitem__(self, key: str | int) -> PieceLocation:
        return self.places[key]

    def __contains__(self, key: str | int) -> bool:
        return key in self.places

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return sum(self.segments[-1])


def lay_out(pieces: Iterable[Piece]) -> ObjectLayout:
    """Lay out pieces in order; they are sorted by segment, and no segment is empty."""
    locations: dict[str | int, PieceLocation] = {}
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for piece in pieces:
        if piece.segment == len(starts):
            at = _aligned(at, SEGMENT_ALIGNMENT)
            starts.append(at)
            ends.append(at)
        at = _aligned(at, piece.align)
        locations[piece.key] = PieceLocation(piece.segment, at)
        at += piece.size
        ends[piece.segment] = at
    return ObjectLayout(locations, tuple((start, end - start) for start, end in zip(starts, ends)))


def _aligned(at: int, align: int) -> int:
    return -(-at // align) * align
