"""Random pairs: neighbouring elements share a random number; it, and functions of it, are evaluated once."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import UINT64, dtype
from ..compiler.numba_backend import Emitter, emitted, ir, types
from ..math import philox
from .scalar_functions import elements_of, scalar_function, scalar_types
from .tile import Tile


@emitted(lambda tile: types.UniTuple(types.uint64, tile.count), 3)
def random_pairs(e, *operands, kinds, tile: Tile, name: str):
    """`random(positions, seed, stream)`: as `Tile.random`, at positions that pairs of elements mostly share; seed and
    stream are uniform."""
    draw_one = philox.shared_philox(name).rule(*[types.uint64] * 3)[1]
    per_element = (tile.widened(e, UINT64, v, kind, types.uint64) for v, kind in zip(operands, kinds))
    positions, seeds, streams = per_element
    firsts: list[list[ir.Value]] = []
    for begin in range(0, tile.count, tile.width):
        part = positions[begin : begin + tile.width : 2]
        firsts += [[number] for number in philox.neighbours(e, name, part, seeds[begin], streams[begin])]

    def second() -> list[list[ir.Value]]:
        return [[draw_one(e, position, seeds[0], streams[0])] for position in positions[1::2]]

    return [number for (number,) in _reuse_equal_pairs(e, [positions], firsts, second)]


def in_pairs(tile: Tile, signature: str) -> Callable[[Callable], Callable]:
    """Decorator: as `Tile.elementwise`, of integers. It evaluates once per pair where neighbours are equal, else in a
    cold branch."""

    def wrap(function: Callable) -> Callable:
        body = scalar_function(signature, function)
        count, own = tile.count, scalar_types(signature)[0]
        assert all(kind.kind in "iu" and dtype(kind.name) is kind for kind in own)
        tuples = [types.UniTuple(kind, count) for kind in body.results]
        result = tuples[0] if len(tuples) == 1 else types.Tuple.from_types(tuples)

        @emitted(result, len(body.arguments))
        def emit(e, *values, kinds):
            per_element = [elements_of(e, v, kind, want, count) for v, kind, want in zip(values, kinds, body.arguments)]
            several = [column for column, kind in zip(per_element, kinds) if isinstance(kind, types.BaseTuple)]

            def rows(first: int) -> list[list[ir.Value]]:
                return [body.emit(e, [column[k] for column in per_element]) for k in range(first, count, 2)]

            pairs = _reuse_equal_pairs(e, several, rows(0), lambda: rows(1))
            packed = [e.pack(t, [row[n] for row in pairs]) for n, t in enumerate(tuples)]
            return packed[0] if len(packed) == 1 else e.pack(result, packed)

        return emit

    return wrap


def _reuse_equal_pairs(
    e: Emitter, columns: list[list[ir.Value]], firsts: list[list[ir.Value]], second: Callable[[], list[list[ir.Value]]]
) -> list[list[ir.Value]]:
    """What each element has, given what the first one of each pair has: the same for the second one where all pairs
    have equal values in these columns, and else what `second` computes."""
    b, all_equal = e.builder, ir.Constant(ir.IntType(1), 1)
    for column in columns:
        for one, other in zip(column[::2], column[1::2]):
            all_equal = b.and_(all_equal, b.icmp_unsigned("==", one, other))
    flat = e.unlikely(
        b.not_(all_equal), [x for row in firsts for x in row], lambda: [x for row in second() for x in row]
    )
    rest = iter(flat)
    return [row for first in firsts for row in (first, [next(rest) for _ in first])]
