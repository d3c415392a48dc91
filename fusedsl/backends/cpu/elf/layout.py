"""Where the pieces of a shared object stand, in the file and in memory: three parts, each with its own permissions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

PAGE = 1 << 16  # the largest of Linux on either architecture
READ_ONLY, CODE, DATA = range(3)
PERMISSIONS = (4, 5, 6)  # p_flags of each segment: read; read and execute; read and write
SEGMENT_ALIGNMENT = 64  # bytes, at a multiple of which each segment begins


class Piece(NamedTuple):
    """Bytes that stand together, before they have a place."""

    segment: int
    key: str | int
    size: int
    align: int


class PieceLocation(NamedTuple):
    """Where a piece stands."""

    segment: int
    offset: int  # in the file

    @property
    def address(self) -> int:
        """In memory, relative to where the object is loaded: parts are further apart than in the file, so that no page
        is of two of them."""
        return self.offset + self.segment * PAGE


@dataclass(frozen=True)
class ObjectLayout:
    """The places of pieces by their keys, and the offset and size of each segment of the file."""

    places: Mapping[str | int, PieceLocation]
    segments: tuple[tuple[int, int], ...]

    def __getitem__(self, key: str | int) -> PieceLocation:
        return self.places[key]

    def __contains__(self, key: str | int) -> bool:
        return key in self.places

    @property
    def size(self) -> int:
        """Of the file, in bytes."""
        return sum(self.segments[-1])


def lay_out(pieces: Iterable[Piece]) -> ObjectLayout:
    """Pieces one after another; those of one segment stand together, and every part has some."""
    places: dict[str | int, PieceLocation] = {}
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for piece in pieces:
        if piece.segment == len(starts):
            at = _aligned(at, SEGMENT_ALIGNMENT)
            starts.append(at)
            ends.append(at)
        at = _aligned(at, piece.align)
        places[piece.key] = PieceLocation(piece.segment, at)
        at += piece.size
        ends[piece.segment] = at
    return ObjectLayout(places, tuple((start, end - start) for start, end in zip(starts, ends)))


def _aligned(at: int, align: int) -> int:
    return -(-at // align) * align
