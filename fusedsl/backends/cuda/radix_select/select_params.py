"""Parameters of a radix select, and the layout of its state: digits, prefixes of the wanted ranks, candidates.

The code of an entry is its key without what all keys of its dtype share, above its tag: unsigned and unique. Each
digit filters the candidates to those that share the prefix of a wanted rank's code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..compiler.numba_backend import I1, I32, I64, SHARED, Emitter, ir, numba_type, types
from ..sort.block_radix_rank import add_where, lane_of, sum_before, warp_of
from ..sort.onesweep_lookback import thread
from ..sort.sort_keys import Entry, KeyCodec
from ..tile.loops import repeated
from ..tile.shuffle import WARP, shuffle
from .schedule import BITS, FIRST_BITS, STATE_BYTES

BINS = 1 << BITS
TAG_BITS = 32  # a column and a bit, below 2^30 columns
# where they begin in the state, in words; prefixes are first
RANKS, COUNTS, COUNTERS, TOTALS = 32, 40, 48, 64
CURSOR, OWN, PRECEDING = (
    COUNTERS,
    COUNTERS + 1,
    COUNTERS + 2,
)  # next slot, elements of the block, elements before a prefix


@dataclass(frozen=True)
class Selector:
    """The first `count` of a row in order, or (0) what stands at some `ranks`."""

    order: KeyCodec
    count: int
    ranks: int

    @property
    def key_bits(self) -> int:
        return self.order.kind.bits

    @property
    def first_bits(self) -> int:
        return min(FIRST_BITS, self.key_bits)

    @property
    def code(self) -> ir.IntType:
        return I64 if self.order.words == 1 else ir.IntType(128)

    @property
    def threads(self) -> int:
        return self.order.threads

    @property
    def least(self) -> int:
        """The least key of the dtype: codes begin there."""
        kind, bits = self.order.kind, 64 if self.key_bits == 64 else 32
        if kind.kind == "f" or self.key_bits == bits:
            return 0
        least = (1 << bits - 1) - (1 << self.key_bits - 1) if kind.kind == "i" else 0
        return (1 << bits) - (1 << self.key_bits) - least if self.order.descending else least

    # Digits.

    def code_of(self, e: Emitter, entry: Entry) -> ir.Value:
        b = e.builder
        if self.order.words == 1:
            return b.sub(entry[0], I64(self.least << TAG_BITS))
        key, tag = (b.zext(word, self.code) for word in entry)
        return b.or_(b.shl(key, self.code(TAG_BITS)), tag)

    def first_digit(self, e: Emitter, key: ir.Value) -> ir.Value:
        """The top digit of a key in 64 bits: an int32."""
        b = e.builder
        within = b.lshr(b.sub(key, I64(self.least)), I64(self.key_bits - self.first_bits))
        return b.trunc(within, I32)

    def shifted(self, e: Emitter, code: ir.Value, shift: ir.Value) -> ir.Value:
        """The bits of a code above the lowest `shift`."""
        return e.builder.lshr(code, e.builder.zext(shift, self.code))

    # Shared memory: the state, then the bins, over which the candidates are sorted.

    def word(self, e: Emitter, index: int) -> ir.Value:
        base = e.builder.inttoptr(e.builder.zext(e.dynamic_shared(), I64), I32.as_pointer(SHARED))
        return e.builder.gep(base, [I32(index)])

    def prefix(self, e: Emitter, rank: int) -> ir.Value:
        """Where the prefix of a wanted rank is."""
        return e.builder.bitcast(self.word(e, 4 * rank), self.code.as_pointer(SHARED))

    def bins(self, e: Emitter) -> ir.Value:
        return self.word(e, STATE_BYTES // 4)

    def room(self, e: Emitter) -> ir.Value:
        return e.builder.ptrtoint(self.bins(e), I64)

    def prefixes(self, e: Emitter) -> list[ir.Value]:
        """The prefixes of the wanted ranks."""
        return [e.builder.load(self.prefix(e, k)) for k in range(self.ranks)]

    # Candidates.

    def is_candidate(self, e: Emitter, prefix: ir.Value, prefixes: list[ir.Value]) -> ir.Value:
        """Whether an entry with this prefix is a candidate."""
        b = e.builder
        if self.count:
            return b.icmp_unsigned("<=", prefix, prefixes[0])
        equal = I1(0)
        for wanted in prefixes:
            equal = b.or_(equal, b.icmp_unsigned("==", prefix, wanted))
        return equal

    def candidate_count(self, e: Emitter) -> ir.Value:
        """The number of candidates: an int32."""
        b, counts = e.builder, [e.builder.load(self.word(e, COUNTS + k)) for k in range(self.ranks)]
        if self.count:
            return b.add(counts[0], b.load(self.word(e, PRECEDING)))
        total = I32(0)
        for count, other in zip(counts, self.has_earlier_prefix(e)):
            total = b.add(total, b.select(other, I32(0), count))
        return total

    def has_earlier_prefix(self, e: Emitter) -> list[ir.Value]:
        """For each rank, whether an earlier one has the same prefix."""
        b, prefixes = e.builder, self.prefixes(e)
        flags = []
        for k, prefix in enumerate(prefixes):
            same = I1(0)
            for earlier in prefixes[:k]:
                same = b.or_(same, b.icmp_unsigned("==", prefix, earlier))
            flags.append(same)
        return flags


def selector(order: KeyCodec, count: int, ranks: int) -> Selector:
    """The selection of elements in this order."""
    return Selector(order, count, ranks)


def elements_of(e: Emitter, chosen: Selector, held: ir.Value, kinds: tuple, first: ir.Value, last: ir.Value):
    """(element, column, whether it is there) of a thread's tile."""
    tile, kind, b = chosen.order.tile, numba_type(chosen.order.kind.name), e.builder
    if isinstance(kinds[0], types.BaseTuple):
        elements = [e.cast(v, kinds[0].dtype, kind) for v in e.unpack(held, tile.count)]
    else:
        elements = [e.cast(held, kinds[0], kind)] * tile.count
    begin = first if first.type == I64 else b.sext(first, I64)
    for number, value in enumerate(elements):
        vector, within = divmod(number, tile.width)
        room = tile.valid(e, kinds[1], first, last, vector)
        there = room.has(b, within) if room is not None else I1(1)
        yield value, b.add(begin, I64(vector * tile.step + within)), there


def next_slot(e: Emitter, flag: ir.Value, lanes: ir.Value, counter: ir.Value) -> ir.Value:
    """A slot for each lane whose flag is set, from a counter in shared (32-bit) or global memory."""
    b, own = e.builder, lane_of(e)
    lower = b.sub(b.shl(I32(1), own), I32(1))
    count = e.call(I32, "llvm.ctpop.i32", [lanes])
    begin = add_where(e, b.icmp_unsigned("==", own, I32(0)), counter, count)
    return b.add(shuffle(e, "idx", begin, 0), e.call(I32, "llvm.ctpop.i32", [b.and_(lanes, lower)]))


@contextmanager
def block_strided(e: Emitter, chosen: Selector, limit: ir.Value) -> Iterator[ir.Value]:
    """A block-stride loop: each number below a limit, in one of the block's threads."""
    b = e.builder
    more = lambda n: b.icmp_unsigned("<", n, limit)  # noqa: E731
    with repeated(e, thread(e), more, lambda n: b.add(n, I32(chosen.threads))) as number:
        yield number


def bins_of_thread(e: Emitter, chosen: Selector, first: ir.Value, count: int) -> Iterator[tuple[ir.Value, ir.Value]]:
    """(number, whether it is below `count`) of a thread's bins: neighbours, one after another."""
    each, b = max(1, count // chosen.threads), e.builder
    for k in range(each):
        number = b.add(b.mul(first, I32(each)), I32(k))
        yield b.and_(number, I32(count - 1)), b.icmp_unsigned("<", number, I32(count))


def block_exclusive_sum(e: Emitter, chosen: Selector, value: ir.Value) -> ir.Value:
    """The exclusive prefix sum of the threads' values; all threads of the block call this together."""
    before = sum_before(e, value, chosen.word(e, TOTALS), warp_of(e), chosen.threads // WARP)
    e.barrier()
    return before
