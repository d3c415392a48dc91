"""Loads of one line at several shifts, as the windows of a stencil: neighbours are read once, by aligned vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ....ir.types import dtype
from ..compiler.numba_backend import I64, emitted, ir, types
from ..tile.element_registers import stored_type
from ..tile.memory import ACCESS_BYTES, load_vector
from ..tile.tile import Tile


def load_shifted(tile: Tile, name: str, displacements: Sequence[int]) -> Callable:
    """`load(address, start, limit)`: the tiles that begin so many elements beyond `start`.

    Their dtype has 32 bits or more, vectors from `start` on are aligned, and all of the elements are there.
    """
    kind = dtype(name)
    each = stored_type(kind, tile.count, tile.width)
    result = types.Tuple.from_types([each] * len(displacements))
    needed = {d + k for d in displacements for k in range(tile.width)}

    @emitted(result)
    def emit(e, address, start, limit, *, kinds):
        b = e.builder
        tiles: list[list[ir.Value]] = [[] for _ in displacements]
        for vector in range(tile.vectors):
            vector_begin = tile.begin(e, kinds[1], start, vector)
            (first,) = tile.addresses(e, kind, "1", address, vector_begin, None)
            elements: dict[int, ir.Value] = {}
            for begin, count in aligned_parts(needed, min(tile.width, ACCESS_BYTES // kind.itemsize)):
                at = b.add(first, I64(begin * kind.itemsize))
                elements |= zip(range(begin, begin + count), load_vector(e, kind, count, at, None))
            for values, displacement in zip(tiles, displacements):
                values += [elements[displacement + k] for k in range(tile.width)]
        return e.pack(result, [e.pack(each, values) for values in tiles])

    return emit


def aligned_parts(needed: Iterable[int], widest: int) -> Iterator[tuple[int, int]]:
    """(begin, count) of the vectors that are these elements and no others: each begins at a multiple of its count."""
    left = sorted(needed)
    while left:
        begin, count = left[0], 1
        while count < widest and begin % (2 * count) == 0 and left[: 2 * count] == [*range(begin, begin + 2 * count)]:
            count *= 2
        yield begin, count
        left = left[count:]
