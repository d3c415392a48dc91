"""Where the pieces of a shared object stand, in the file and in memory: three parts, each with its own permissions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

PAGE = 1 << 16  # the largest of Linux on either architecture
READ_ONLY, CODE, DATA = range(3)
PERMISSIONS = (4, 5, 6)  # p_flags of each part: read; read and execute; read and write
LINE = 64  # bytes, at a multiple of which each part begins


class Piece(NamedTuple):
    """Bytes that stand together, before they have a place."""

    part: int
    key: str | int
    size: int
    align: int


class Place(NamedTuple):
    """Where a piece stands."""

    part: int
    offset: int  # in the file

    @property
    def address(self) -> int:
        """In memory, relative to where the object is loaded: parts are further apart than in the file, so that no page
        is of two of them."""
        return self.offset + self.part * PAGE


@dataclass(frozen=True)
class Layout:
    """The places of pieces by their keys, and the offset and size of each part of the file."""

    places: Mapping[str | int, Place]
    parts: tuple[tuple[int, int], ...]

    def __getitem__(self, key: str | int) -> Place:
        return self.places[key]

    def __contains__(self, key: str | int) -> bool:
        return key in self.places

    @property
    def size(self) -> int:
        """Of the file, in bytes."""
        return sum(self.parts[-1])


def lay_out(pieces: Iterable[Piece]) -> Layout:
    """Pieces one after another; those of one part stand together, and every part has some."""
    places: dict[str | int, Place] = {}
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for piece in pieces:
        if piece.part == len(starts):
            at = _aligned(at, LINE)
            starts.append(at)
            ends.append(at)
        at = _aligned(at, piece.align)
        places[piece.key] = Place(piece.part, at)
        at += piece.size
        ends[piece.part] = at
    return Layout(places, tuple((start, end - start) for start, end in zip(starts, ends)))


def _aligned(at: int, align: int) -> int:
    return -(-at // align) * align
