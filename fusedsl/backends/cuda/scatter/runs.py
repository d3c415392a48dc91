"""Runs: neighbouring elements of one index are merged in registers, and once into memory.

The elements of a warp are neighbours. A segmented scan (Blelloch 1990) merges those of each run, and where a run ends
an atomic merges it into the array. So sorted indices take few atomics, and equal ones do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from ....ir.types import INT64, DType, dtype
from ..compiler.numba_backend import I1, I32, I64, Emitter, emitted, ir, numba_type, types
from ..tile.shuffle import WARP, ballot_bits, shuffle
from ..tile.tile import Tile
from .intrinsics import QUIET_NAN, merge

LANE_MASK = WARP - 1  # bits of a thread's number that are its lane
Combine = Callable[[Emitter, ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class Run:
    """The run that an element is in: its index, negative for none, its partial result, and whether it ends there."""

    index: ir.Value
    total: ir.Value
    ends: ir.Value

    @contextmanager
    def ended(self, e: Emitter) -> Iterator[None]:
        """What is done where the run ends, if it has an index."""
        with e.builder.if_then(e.builder.and_(self.ends, e.builder.icmp_signed(">=", self.index, I32(0)))):
            yield


def merge_equal_places(tile: Tile, name: str, fold: str) -> Callable:
    """`merge(address, indices, values, left)`: merge each element of which so many are left; negative indices none.

    All threads of a warp take part.
    """
    kind = dtype(name)
    ordered = kind.kind == "f" and fold == "max"
    word = ir.IntType(kind.bits)

    @emitted(types.void)
    def emit(e, address, indices, values, left, *, kinds):
        b = e.builder
        own = tile.widened(e, INT64, indices, kinds[1], types.int64)
        given = tile.widened(e, kind, values, kinds[2], numba_type(name))
        number = given[0].type
        if ordered:  # by their bits, of which those of NaN are the largest
            nan = word(QUIET_NAN[kind.bits])
            given = [b.select(b.fcmp_unordered("uno", x, x), nan, b.bitcast(x, word)) for x in given]
        for run in tile_runs(e, tile, own, given, left, combine_of(kind, fold)):
            with run.ended(e):
                total = b.bitcast(run.total, number) if ordered else run.total
                index = b.mul(b.zext(run.index, I64), I64(kind.itemsize))
                merge(e, kind, fold, b.add(address, index), total)

    return emit


def combine_of(kind: DType, fold: str) -> Combine:
    """How two elements are merged; floats of which the larger is wanted by their bits."""

    def combine(e: Emitter, x: ir.Value, y: ir.Value) -> ir.Value:
        b = e.builder
        if fold == "sum":
            return b.fadd(x, y) if kind.kind == "f" else b.add(x, y)
        if kind.kind == "f":  # of two negative numbers, the one of fewer bits is larger
            both = b.icmp_signed("<", b.and_(x, y), x.type(0))
            return b.select(b.xor(b.icmp_signed(">", x, y), both), x, y)
        compare = b.icmp_unsigned if kind.kind == "u" else b.icmp_signed
        return b.select(compare(">" if fold == "max" else "<", x, y), x, y)

    return combine


def thread_runs(
    e: Emitter, tile: Tile, indices: Sequence[ir.Value], values: Sequence[ir.Value], left: ir.Value, combine: Combine
) -> Iterator[Run]:
    """The runs of a thread's own elements, of which so many are left: those of one column, where lanes have columns."""
    b = e.builder
    there = [b.icmp_signed("<", tile.offset_of(e, number, left.type), left) for number in range(len(indices))]
    where = [index_or_none(e, index, valid) for index, valid in zip(indices, there)]
    same = [b.icmp_signed("==", x, y) for x, y in pairwise(where)]
    ends = [*(b.not_(equal) for equal in same), I1(1)]
    yield from (Run(*run) for run in zip(where, _scanned(e, values, same, combine), ends))


def tile_runs(
    e: Emitter, tile: Tile, indices: Sequence[ir.Value], values: Sequence[ir.Value], left: ir.Value, combine: Combine
) -> Iterator[Run]:
    """The runs of a tile's elements, of which so many are left."""
    b = e.builder
    for vector in range(tile.vectors):
        begin = tile.offset_of(e, vector, left.type)
        part = range(vector * tile.width, (vector + 1) * tile.width)
        there = [b.icmp_signed("<", b.add(begin, left.type(k)), left) for k in range(tile.width)]
        where = [index_or_none(e, indices[k], valid) for k, valid in zip(part, there)]
        yield from runs(e, where, [values[k] for k in part], combine)


def index_or_none(e: Emitter, index: ir.Value, valid: ir.Value) -> ir.Value:
    """An index in 32 bits, which hold all of them; -1 for none."""
    b = e.builder
    wanted = b.and_(valid, b.icmp_signed(">=", index, I64(0)))
    return b.select(wanted, b.trunc(index, I32), I32(-1))


def runs(e: Emitter, indices: Sequence[ir.Value], values: Sequence[ir.Value], combine: Combine) -> list[Run]:
    """The runs of a warp's elements, of which each lane has some neighbours, combined in order."""
    b = e.builder
    lane = b.and_(e.special_register("tid.x"), I32(LANE_MASK))
    same = [b.icmp_signed("==", x, y) for x, y in pairwise(indices)]
    continues_run = b.icmp_signed("==", shuffle(e, "up", indices[-1], 1), indices[0])
    continues_run = b.and_(continues_run, b.icmp_signed("!=", lane, I32(0)))
    all_equal = I1(1)
    for equal in same:
        all_equal = b.and_(all_equal, equal)
    tail = _scanned(e, values, same, combine)[-1]
    no_head = b.and_(all_equal, continues_run)
    heads = b.and_(ballot_bits(e, b.not_(no_head)), b.lshr(I32(-1), b.sub(I32(WARP - 1), lane)))
    head_lane = b.sub(I32(WARP - 1), e.call(I32, "llvm.ctlz.i32", [heads, I1(1)]))
    lanes_to_head = b.sub(lane, head_lane)  # lanes back to the one where this lane's last run begins
    for distance in (1, 2, 4, 8, 16):
        further = combine(e, shuffle(e, "up", tail, distance), tail)
        tail = b.select(b.icmp_signed(">=", lanes_to_head, I32(distance)), further, tail)
    before = shuffle(e, "up", tail, 1)
    totals = _scanned(
        e, [b.select(continues_run, combine(e, before, values[0]), values[0]), *values[1:]], same, combine
    )
    next_lane_continues = b.lshr(b.lshr(ballot_bits(e, continues_run), I32(1)), lane)
    ends = [*(b.not_(equal) for equal in same), b.not_(b.trunc(next_lane_continues, I1))]
    return [Run(*run) for run in zip(indices, totals, ends)]


def _scanned(e: Emitter, values: Sequence[ir.Value], same: Sequence[ir.Value], combine: Combine) -> list[ir.Value]:
    """A lane's segmented scan: the partial result of each element's run up to it."""
    totals = [values[0]]
    for value, equal in zip(values[1:], same):
        totals.append(e.builder.select(equal, combine(e, totals[-1], value), value))
    return totals
