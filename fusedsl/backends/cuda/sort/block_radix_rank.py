"""Block radix rank: digits of sort keys, and their stable ranks in a block by counts of each warp.

Each warp counts its digits in counters of its own, whose offsets are found for all bins at once. The slot of an
element is then its warp's next one for its digit: warps take elements in order, and votes tell the lanes of one digit
(Merrill and Grimshaw 2011; CUB: early counts).
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.types import BFLOAT16, DType
from ..compiler.numba_backend import F32, F64, I1, I16, I32, I64, VOID, Emitter, ir
from ..tile.element_registers import element_type
from ..tile.shuffle import WARP, shuffle

BINS, DIGIT_BITS = 256, 8
VOTE = """and.b32 bit, $1, {};
setp.ne.b32 set, bit, 0;
vote.sync.ballot.b32 lanes, set, 0xffffffff;
@!set not.b32 lanes, lanes;
and.b32 same, same, lanes;
"""
VOTES = "".join(VOTE.format(1 << bit) for bit in range(DIGIT_BITS))
MATCH = "{\n.reg .pred set;\n.reg .b32 bit, lanes, same;\nmov.b32 same, -1;\n" + VOTES + "mov.b32 $0, same;\n}"
ADD_WHERE = "{\n.reg .pred p;\nsetp.ne.s32 p, $3, 0;\nmov.b32 $0, 0;\n@p atom.SPACE.add.u32 $0, [$1], $2;\n}"


def lane_of(e: Emitter) -> ir.Value:
    return e.builder.and_(e.special_register("tid.x"), I32(WARP - 1))


def warp_of(e: Emitter) -> ir.Value:
    return e.builder.lshr(e.special_register("tid.x"), I32(5))


def same_digit(e: Emitter, digit: ir.Value) -> ir.Value:
    """The lanes whose digit is this lane's, as bits: of the votes on each bit those that agree."""
    return e.asm(I32, MATCH, "=r,r", [digit], side_effect=True)


def add_where(e: Emitter, leads: ir.Value, counter: ir.Value, count: ir.Value) -> ir.Value:
    """What a counter in shared (32-bit) or global memory was before a lane that leads adds to it; 0 in other lanes."""
    space, letter = ("shared", "r") if counter.type == I32 else ("global", "l")
    given = [counter, count, e.builder.zext(leads, I32)]
    return e.asm(I32, ADD_WHERE.replace("SPACE", space), f"=r,{letter},r,r,~{{memory}}", given, side_effect=True)


def inclusive_sum(e: Emitter, value: ir.Value) -> ir.Value:
    """The sum of what the lanes of the warp up to this one have."""
    b, lane, sums = e.builder, lane_of(e), value
    for distance in (1, 2, 4, 8, 16):
        other = shuffle(e, "up", sums, distance, WARP)
        sums = b.select(b.icmp_unsigned(">=", lane, I32(distance)), b.add(sums, other), sums)
    return sums


def sum_before(
    e: Emitter, value: ir.Value, totals: ir.Value, warp: ir.Value, warps: int, repeats: bool = False
) -> ir.Value:
    """The sum of what the threads before this one have, in the first `warps` warps of a block.

    Each warp leaves its total in shared memory, as that of number `warp`; all threads call this together. If it
    `repeats`, later warps have what the first ones have, and leave nothing.
    """
    b, sums = e.builder, inclusive_sum(e, value)
    before = b.sub(sums, value)
    if warps == 1:
        return before
    last = b.icmp_unsigned("==", lane_of(e), I32(WARP - 1))
    with b.if_then(b.and_(last, b.icmp_unsigned("==", warp, warp_of(e))) if repeats else last):
        b.store(sums, b.gep(totals, [warp]))
    e.barrier()
    for other in range(warps - 1):
        total = b.load(b.gep(totals, [I32(other)]))
        before = b.add(before, b.select(b.icmp_unsigned("<", I32(other), warp), total, I32(0)))
    return before


def opaque(e: Emitter, word: ir.Value) -> ir.Value:
    """The word, of which what was computed before is computed anew rather than kept in registers."""
    kind, letter = ("b64", "l") if word.type == I64 else ("b32", "r")
    return e.asm(word.type, f"mov.{kind} $0, $1;", f"={letter},{letter}", [word], side_effect=True)


@dataclass(frozen=True)
class DigitKeys:
    """Elements of a dtype as words in an order: as unsigned numbers, but that -0.0 has the digits of 0.0.

    All NaN have the last digits; descending, all bits are the other ones. Floats of 16 bits are in registers as
    float32: their words have the 16 bits of a key.
    """

    kind: DType
    descending: bool

    @property
    def word(self) -> ir.IntType:
        return I64 if self.kind.bits == 64 else I32

    @property
    def passes(self) -> int:
        return -(-self.kind.bits // DIGIT_BITS)

    @property
    def missing(self) -> ir.Constant:
        """A word with the last of all digits."""
        return self.word(-1)

    @property
    def sign(self) -> int:
        return 1 << (self.kind.bits - 1)

    def word_of(self, e: Emitter, value: ir.Value) -> ir.Value:
        """The word of an element."""
        b, size = e.builder, self.word
        if self.kind.kind == "f" and self.kind.bits == 16:
            raw = self._half_bits(e, value)
            key = b.xor(raw, b.or_(b.ashr(raw, I16(15)), I16(self.sign)))
            key = b.select(b.fcmp_unordered("uno", value, value), I16(-1), key)
            return b.zext(b.not_(key) if self.descending else key, size)
        if self.kind.kind == "f":
            raw = b.bitcast(value, size)
            word = b.xor(raw, b.or_(b.ashr(raw, size(size.width - 1)), size(self.sign)))
            word = b.select(b.fcmp_unordered("uno", value, value), size(-1), word)
        else:
            word = b.zext(value, size) if value.type.width < size.width else value
            word = b.xor(word, size(self.sign)) if self.kind.kind == "i" else word
        return b.not_(word) if self.descending else word

    def element(self, e: Emitter, word: ir.Value) -> ir.Value:
        """The inverse."""
        b, size = e.builder, self.word
        word = b.not_(word) if self.descending else word
        if self.kind.kind == "f" and self.kind.bits == 16:
            key = b.trunc(word, I16)
            negative = b.icmp_signed(">=", key, I16(0))
            return self._of_half_bits(e, b.xor(key, b.select(negative, I16(-1), I16(self.sign))))
        if self.kind.kind == "f":
            negative = b.icmp_signed(">=", word, size(0))
            raw = b.xor(word, b.select(negative, size(-1), size(self.sign)))
            return b.bitcast(raw, F64 if size.width == 64 else F32)
        word = b.xor(word, size(self.sign)) if self.kind.kind == "i" else word
        kind = element_type(self.kind) if self.kind.kind != "b" else I1
        return b.trunc(word, kind) if kind.width < size.width else word

    def _half_bits(self, e: Emitter, value: ir.Value) -> ir.Value:
        """A float of 16 bits as it is in memory."""
        b = e.builder
        if self.kind is BFLOAT16:
            return b.trunc(b.lshr(b.bitcast(value, I32), I32(16)), I16)
        return b.bitcast(b.fptrunc(value, ir.HalfType()), I16)

    def _of_half_bits(self, e: Emitter, raw: ir.Value) -> ir.Value:
        """The inverse."""
        b = e.builder
        if self.kind is BFLOAT16:
            return b.bitcast(b.shl(b.zext(raw, I32), I32(16)), F32)
        return b.fpext(b.bitcast(raw, ir.HalfType()), F32)

    def digit(self, e: Emitter, word: ir.Value, shift: ir.Value) -> ir.Value:
        """The digit of a word's key from a bit on: an int32."""
        b, size = e.builder, self.word
        if self.kind.kind == "f":
            zero = size(self.sign if self.descending else self.sign - 1)  # that of -0.0
            step = b.zext(b.icmp_unsigned("==", word, zero), size)
            word = b.sub(word, step) if self.descending else b.add(word, step)
        part = b.lshr(word, shift if size == I32 else b.zext(shift, I64))
        return b.and_(part if size == I32 else b.trunc(part, I32), I32(BINS - 1))


@dataclass
class DigitRanks:
    """Counters of 8-bit digits for each warp of a block; `counters` has 256 for each, `totals` a word for each."""

    e: Emitter
    threads: int
    counters: ir.Value  # int32 in shared memory, 16-byte aligned
    totals: ir.Value

    def __post_init__(self) -> None:
        b = self.e.builder
        self.own = b.gep(self.counters, [b.mul(warp_of(self.e), I32(BINS))])

    @property
    def warps(self) -> int:
        return self.threads // WARP

    @property
    def bins(self) -> int:
        """Bins whose offsets a thread finds; of more threads than bins, several find the same."""
        return max(1, BINS // self.threads)

    def first_bin(self) -> ir.Value:
        b, thread = self.e.builder, self.e.special_register("tid.x")
        return b.mul(thread, I32(self.bins)) if self.bins > 1 else b.and_(thread, I32(BINS - 1))

    def wait(self) -> None:
        """The block's threads see what each other has written."""
        if self.threads > WARP:
            self.e.barrier()
        else:
            self.e.call(VOID, "llvm.nvvm.bar.warp.sync", [I32(-1)])

    def count(self, digits: list[ir.Value]) -> None:
        """Count the digits of each warp; the threads have to wait before the offsets are found."""
        b, lane = self.e.builder, lane_of(self.e)
        four = ir.VectorType(I32, 4)
        for first in range(0, BINS, 4 * WARP):
            pointer = b.gep(self.own, [b.add(b.shl(lane, I32(2)), I32(first))])
            b.store(ir.Constant(four, [0] * 4), b.bitcast(pointer, four.as_pointer(3)), align=16)
        self.e.call(VOID, "llvm.nvvm.bar.warp.sync", [I32(-1)])
        for digit in digits:
            b.atomic_rmw("add", b.gep(self.own, [digit]), I32(1), "monotonic")

    def offsets(self) -> tuple[list[ir.Value], list[ir.Value]]:
        """(begins, totals) of the thread's bins; counters become offsets. Then the threads have to wait."""
        b, first = self.e.builder, self.first_bin()
        pointers = [b.gep(self.counters, [b.add(first, I32(warp * BINS))]) for warp in range(self.warps)]
        totals = [I32(0)] * self.bins
        for pointer in pointers:
            totals = [b.add(total, count) for total, count in zip(totals, self._load(pointer))]
        begins = [self.before(self._sum(totals))]
        for total in totals[:-1]:
            begins.append(b.add(begins[-1], total))
        with b.if_then(b.icmp_unsigned("<", self.e.special_register("tid.x"), I32(BINS))):
            self._replace(pointers, begins)
        return begins, totals

    def _replace(self, pointers: list[ir.Value], offsets: list[ir.Value]) -> None:
        """Counts become offsets; they are read again rather than kept in registers."""
        b = self.e.builder
        for pointer in pointers:
            counts = self._load(pointer)
            self._store(pointer, offsets)
            offsets = [b.add(offset, count) for offset, count in zip(offsets, counts)]

    def slots(self, digits: list[ir.Value]) -> list[ir.Value]:
        """The slots of a thread's digits, which come one after another; each warp's lanes before its next ones."""
        e, b, lane = self.e, self.e.builder, lane_of(self.e)
        lower = b.sub(b.shl(I32(1), lane), I32(1))
        masks = [same_digit(e, digit) for digit in digits]
        leaders, begins, before = [], [], []
        for digit, mask in zip(digits, masks):
            before.append(e.call(I32, "llvm.ctpop.i32", [b.and_(mask, lower)]))
            leaders.append(b.sub(I32(WARP - 1), e.call(I32, "llvm.ctlz.i32", [mask, ir.Constant(I1, 0)])))
            count = b.add(before[-1], I32(1))  # of all, where the leader is: the last of them
            address = b.ptrtoint(b.gep(self.own, [digit]), I32)
            begins.append(add_where(e, b.icmp_unsigned("==", leaders[-1], lane), address, count))
        from_leaders = [shuffle(e, "idx", begin, leader) for begin, leader in zip(begins, leaders)]
        return [b.add(begin, count) for begin, count in zip(from_leaders, before)]

    def before(self, value: ir.Value) -> ir.Value:
        """The sum of what the threads before this one have, as far as they have bins of their own."""
        warps = min(self.warps, BINS // WARP)
        warp = self.e.builder.and_(warp_of(self.e), I32(warps - 1))
        return sum_before(self.e, value, self.totals, warp, warps, self.warps > warps)

    def _sum(self, values: list[ir.Value]) -> ir.Value:
        total = values[0]
        for value in values[1:]:
            total = self.e.builder.add(total, value)
        return total

    def _load(self, pointer: ir.Value) -> list[ir.Value]:
        b, size, values = self.e.builder, min(self.bins, 4), []
        kind = ir.VectorType(I32, size)
        for first in range(0, self.bins, size):
            if size == 1:
                return [b.load(pointer)]
            word = b.load(b.bitcast(b.gep(pointer, [I32(first)]), kind.as_pointer(3)), align=4 * size)
            values += [b.extract_element(word, I32(k)) for k in range(size)]
        return values

    def _store(self, pointer: ir.Value, values: list[ir.Value]) -> None:
        b, size = self.e.builder, min(self.bins, 4)
        kind = ir.VectorType(I32, size)
        for first in range(0, self.bins, size):
            if size == 1:
                b.store(values[0], pointer)
                return
            word = ir.Constant(kind, ir.Undefined)
            for k in range(size):
                word = b.insert_element(word, values[first + k], I32(k))
            b.store(word, b.bitcast(b.gep(pointer, [I32(first)]), kind.as_pointer(3)), align=4 * size)
