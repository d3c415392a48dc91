"""Intrinsics of sums of floats at indices that do not decrease: runs are folded in order, and stored once, without
atomics.

A run between two others of a thread's elements is stored by the thread. The first and the last one may go on outside of
it: a warp folds them, and leaves its own first and last run as records, which a warp folds for its block, and the last
block to finish for all (Merrill and Garland 2016: carry-outs). Positions alone decide the order, so bits are equal
from call to call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ....ir.types import INT64, DType, dtype
from ..compiler.numba_backend import GLOBAL, I1, I32, I64, Emitter, emitted, ir, numba_type, types
from ..tile.grid_sync import ld_relaxed, st_global
from ..tile.loops import looped, when
from ..tile.shuffle import WARP, shuffle
from ..tile.tile import Tile
from .runs import LANE_MASK, Combine, Run, combine_of, runs

RECORD, INDEX = 16, 8  # bytes of a record in global memory; where its index is
AT_ONCE = 8  # records that a thread of the last block loads at once
RECORDS = 2  # of a window, a block or a thread: its first and its last run


@dataclass(frozen=True)
class OrderedRuns:
    """Sums of runs of floats into an array of a dtype, by blocks of so many threads."""

    kind: DType
    threads: int

    @property
    def word(self) -> ir.Type:
        """The LLVM type of a float."""
        return ir.FloatType() if self.kind.bits == 32 else ir.DoubleType()

    @property
    def nothing(self) -> ir.Constant:
        """What changes no sum."""
        return self.word(-0.0)

    @property
    def combine(self) -> Combine:
        return combine_of(self.kind, "sum")

    def store(self, e: Emitter, address: ir.Value, run: Run) -> None:
        """Add a whole run to its element of the array: no other thread writes there."""
        b = e.builder
        at = b.add(address, b.mul(b.zext(run.index, I64), I64(self.kind.itemsize)))
        pointer = b.inttoptr(at, self.word.as_pointer(GLOBAL))
        b.store(self.combine(e, b.load(pointer), run.total), pointer)


def ordered_runs(name: str, threads: int) -> OrderedRuns:
    """The sums of runs into an array of this dtype."""
    return OrderedRuns(dtype(name), threads)


@dataclass(frozen=True)
class SharedRecords:
    """Records of a block in shared memory: indices, and the partial results of their runs."""

    indices: ir.Value
    totals: ir.Value
    count: int

    @classmethod
    def of_block(cls, e: Emitter, rule: OrderedRuns, count: int) -> SharedRecords:
        return cls(e.shared_array(I32, count), e.shared_array(rule.word, count), count)

    def put(self, e: Emitter, number: ir.Value, index: ir.Value, total: ir.Value) -> None:
        e.builder.store(index, e.builder.gep(self.indices, [number]))
        e.builder.store(total, e.builder.gep(self.totals, [number]))

    def of_lane(self, e: Emitter, rule: OrderedRuns) -> tuple[list[ir.Value], list[ir.Value]]:
        """The neighbouring records that each lane of a warp has: indices, and the runs' partial results.

        Lanes beyond the last one add nothing to its run.
        """
        b, each = e.builder, -(-self.count // WARP)
        first = b.mul(b.and_(e.special_register("tid.x"), I32(LANE_MASK)), I32(each))
        indices, totals = [], []
        for k in range(each):
            number = b.add(first, I32(k))
            there = b.icmp_unsigned("<", number, I32(self.count))
            number = b.select(there, number, I32(self.count - 1))
            indices.append(b.load(b.gep(self.indices, [number])))
            totals.append(b.select(there, b.load(b.gep(self.totals, [number])), rule.nothing))
        return indices, totals


StoreRecord = Callable[[int, ir.Value, ir.Value], None]  # 0 for a first run, 1 for a last one; index, total


def _settle(
    e: Emitter, rule: OrderedRuns, address: ir.Value, warp_runs: Sequence[Run], store_record: StoreRecord
) -> None:
    """Store the runs of a warp that are whole; leave its first and its last one as two records."""
    b = e.builder
    first = shuffle(e, "idx", warp_runs[0].index, 0, WARP)
    last = shuffle(e, "idx", warp_runs[-1].index, WARP - 1, WARP)
    for run in warp_runs:
        is_first, is_last = (b.icmp_signed("==", run.index, index) for index in (first, last))
        with run.ended(e), b.if_else(is_first) as (then, otherwise):
            with then:
                store_record(0, run.index, run.total)
                with b.if_then(is_last):
                    store_record(1, run.index, rule.nothing)
            with otherwise, b.if_else(is_last) as (then, otherwise):
                with then:
                    store_record(1, run.index, run.total)
                with otherwise:
                    rule.store(e, address, run)
    lane = b.and_(e.special_register("tid.x"), I32(LANE_MASK))
    for number, index, own in ((0, first, I32(0)), (1, last, I32(WARP - 1))):
        with b.if_then(b.and_(b.icmp_signed("<", index, I32(0)), b.icmp_signed("==", lane, own))):
            store_record(number, index, rule.nothing)


def fold_runs(rule: OrderedRuns, tile: Tile) -> Callable:
    """`fold(address, indices, values, left, records)`: fold as many elements as are left; negative indices are none.

    All threads of a block take part. It leaves two records of `records`. A window has the neighbours that each thread
    of a warp has: all of a tile whose vectors follow one another, else those of one vector.
    """
    kind, warps = rule.kind, rule.threads // WARP
    windows = 1 if tile.step == tile.width else tile.vectors
    each = tile.count // windows

    @emitted(types.void, 5)
    def emit(e, *given, kinds):
        address, indices, values, left, records = given
        b = e.builder
        own = _valid_indices(e, tile, tile.widened(e, INT64, indices, kinds[1], types.int64), left)
        held = tile.widened(e, kind, values, kinds[2], numba_type(kind.name))
        shared = SharedRecords.of_block(e, rule, RECORDS * windows * warps)
        warp = b.lshr(e.special_register("tid.x"), I32(WARP.bit_length() - 1))
        for window in range(windows):
            part = slice(window * each, (window + 1) * each)
            warp_runs = runs(e, *_ends(e, rule, address, own[part], held[part]), rule.combine)
            number = b.mul(b.add(warp, I32(window * warps)), I32(RECORDS))
            _settle(e, rule, address, warp_runs, _into_shared(e, shared, number))
        e.barrier()
        with b.if_then(b.icmp_unsigned("==", warp, I32(0))):
            block = b.zext(b.mul(e.special_register("ctaid.x"), I32(RECORDS)), I64)
            _settle(e, rule, address, runs(e, *shared.of_lane(e, rule), rule.combine), _into_memory(e, records, block))

    return emit


def _valid_indices(e: Emitter, tile: Tile, indices: Sequence[ir.Value], left: ir.Value) -> list[ir.Value]:
    """Indices in 32 bits, negative for none; where fewer elements are left than a tile has, for those beyond it."""
    b = e.builder
    narrow = [b.trunc(index, I32) for index in indices]
    offsets = [
        b.add(tile.offset_of(e, vector, left.type), left.type(k))
        for vector in range(tile.vectors)
        for k in range(tile.width)
    ]

    def some() -> list[ir.Value]:
        return [b.select(b.icmp_signed("<", k, left), index, I32(-1)) for k, index in zip(offsets, narrow)]

    return when(e, b.icmp_signed(">=", offsets[-1], left), narrow, some)


def _ends(
    e: Emitter, rule: OrderedRuns, address: ir.Value, indices: list[ir.Value], values: list[ir.Value]
) -> tuple[list[ir.Value], list[ir.Value]]:
    """(indices, totals) of the first and the last run of a thread's neighbours; the runs between them are stored."""
    b = e.builder
    if len(indices) == 1:
        return indices, values
    same = [b.icmp_signed("==", x, y) for x, y in pairwise(indices)]
    head, totals, alone, between = values[0], [values[0]], I1(1), I1(0)
    for value, continues_run in zip(values[1:], same):
        between = b.or_(between, b.not_(b.or_(continues_run, alone)))
        alone = b.and_(alone, continues_run)
        head = b.select(alone, rule.combine(e, head, value), head)
        totals.append(b.select(continues_run, rule.combine(e, totals[-1], value), value))
    with b.if_then(between):
        for index, total, continues_run in zip(indices[1:-1], totals[1:-1], same[1:]):
            is_whole = b.and_(b.icmp_signed("!=", index, indices[0]), b.not_(continues_run))
            with Run(index, total, is_whole).ended(e):
                rule.store(e, address, Run(index, total, is_whole))
    return [indices[0], indices[-1]], [head, b.select(alone, rule.nothing, totals[-1])]


def _into_shared(e: Emitter, shared: SharedRecords, number: ir.Value) -> StoreRecord:
    return lambda which, index, total: shared.put(e, e.builder.add(number, I32(which)), index, total)


def _into_memory(e: Emitter, records: ir.Value, number: ir.Value) -> StoreRecord:
    def store_record(which: int, index: ir.Value, total: ir.Value) -> None:
        at = _record(e, records, e.builder.add(number, I64(which)))
        st_global(e, at, total)
        st_global(e, e.builder.add(at, I64(INDEX)), index)

    return store_record


def _record(e: Emitter, records: ir.Value, number: ir.Value) -> ir.Value:
    return e.builder.add(records, e.builder.mul(number, I64(RECORD)))


@emitted(types.void)
def finish_runs(e, address, records, blocks, *, rule: OrderedRuns):
    """`finish(address, records, blocks)`: the records of so many blocks are folded, and their runs stored."""
    b, thread = e.builder, e.special_register("tid.x")
    count = b.mul(blocks if blocks.type == I32 else b.trunc(blocks, I32), I32(RECORDS))
    each = b.udiv(b.add(count, I32(rule.threads - 1)), I32(rule.threads))
    first = b.mul(thread, each)
    end = b.add(first, each)
    end = b.select(b.icmp_signed("<", end, count), end, count)
    passed, index, total = _fold_records(e, rule, address, records, first, end)
    shared = SharedRecords.of_block(e, rule, RECORDS * rule.threads)
    number = b.mul(thread, I32(RECORDS))
    several, begun, whole = passed
    shared.put(e, number, b.select(several, begun, index), b.select(several, whole, total))
    shared.put(e, b.add(number, I32(1)), index, b.select(several, total, rule.nothing))
    e.barrier()
    with b.if_then(b.icmp_unsigned("<", thread, I32(WARP))):
        for run in runs(e, *shared.of_lane(e, rule), rule.combine):
            with run.ended(e):
                rule.store(e, address, run)


def _fold_records(
    e: Emitter, rule: OrderedRuns, address: ir.Value, records: ir.Value, first: ir.Value, end: ir.Value
) -> tuple[list[ir.Value], ir.Value, ir.Value]:
    """Fold a thread's records: (whether they are several runs, the index and total of the first), those of the last.

    What lies between the first and the last run is stored.
    """
    b = e.builder
    start = [first, I1(1), I1(0), I32(-1), rule.nothing, I32(-1), rule.nothing]
    with looped(e, start, lambda number, *_: b.icmp_signed("<", number, end)) as (state, next_state):
        number, fresh, several, begun, whole, index, total = state
        loaded = [_load_record(e, rule, records, b.add(number, I32(k)), end) for k in range(AT_ONCE)]
        for valid, next_index, value in loaded:
            same = b.icmp_signed("==", next_index, index)
            breaks = b.and_(b.and_(valid, b.not_(same)), b.not_(fresh))
            with b.if_then(b.and_(b.and_(breaks, several), b.icmp_signed(">=", index, I32(0)))):
                rule.store(e, address, Run(index, total, I1(1)))
            opens = b.and_(breaks, b.not_(several))
            begun, whole = b.select(opens, index, begun), b.select(opens, total, whole)
            combined = b.select(b.or_(fresh, b.not_(same)), value, rule.combine(e, total, value))
            index, total = b.select(valid, next_index, index), b.select(valid, combined, total)
            several, fresh = b.or_(several, breaks), b.and_(fresh, b.not_(valid))
        next_state += [b.add(number, I32(AT_ONCE)), fresh, several, begun, whole, index, total]
    _, _, several, begun, whole, index, total = state
    return [several, begun, whole], index, total


def _load_record(
    e: Emitter, rule: OrderedRuns, records: ir.Value, number: ir.Value, end: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """(whether it is there, index, total) of a record; of the last one, where it is not."""
    b = e.builder
    valid = b.icmp_signed("<", number, end)
    at = _record(e, records, b.zext(b.select(valid, number, b.sub(end, I32(1))), I64))
    return valid, ld_relaxed(e, b.add(at, I64(INDEX)), I32), ld_relaxed(e, at, rule.word)
