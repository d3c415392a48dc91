"""Intrinsics of scatters to few indices: bins of a block in shared memory, and their merge into the array.

Privatization (Gómez-Luna et al. 2013; CUB: DeviceHistogram): a block merges its elements into bins of its own, of which
neighbouring threads have copies in neighbouring banks, and then every bin once into memory. Shared memory has native
atomics of 32 bits alone: a 64-bit sum has a word for each half, with the carry added to the upper one, or one word that
counts how often the same value was added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ....ir.types import INT64, UINT32, DType, dtype
from ..compiler.numba_backend import F32, I32, I64, VOID, Emitter, emitted, ir, numba_type, types
from ..tile.loops import repeated
from ..tile.shuffle import WARP, shuffle
from ..tile.tile import Tile
from .intrinsics import CTA_SHARED, merge

WORD = 4  # bytes
IDENTITIES = {
    ("sum", "i"): 0,
    ("sum", "u"): 0,
    ("max", "i"): -(1 << 31),
    ("max", "u"): 0,
    ("min", "i"): (1 << 31) - 1,
    ("min", "u"): (1 << 32) - 1,
    ("max", "f"): 0xFF800000,  # of -inf
}


@dataclass(frozen=True)
class PrivateBins:
    """Bins of a block: `copies` of each, in words beside each other. With a `unit` they count how often it is added."""

    kind: DType
    fold: str
    bins: int
    copies: int
    threads: int
    unit: int

    @property
    def halves(self) -> int:
        """Words of a copy: two for the halves of a 64-bit sum."""
        return 2 if self.kind.bits == 64 and not self.unit else 1

    @property
    def words(self) -> int:
        return self.bins * self.copies * self.halves

    @property
    def identity(self) -> ir.Constant:
        return I32(IDENTITIES[self.fold, self.kind.kind])

    def address(self, e: Emitter, room: ir.Value, index: ir.Value, copy: ir.Value) -> ir.Value:
        """The 32-bit address of a copy's first word."""
        b = e.builder
        return b.add(room, b.mul(b.add(b.mul(index, I32(self.copies)), copy), I32(WORD)))

    def own_copy(self, e: Emitter) -> ir.Value:
        """Which copy a thread merges into."""
        return e.builder.and_(e.special_register("tid.x"), I32(self.copies - 1))


def private_bins(name: str, fold: str, bins: int, copies: int, threads: int, unit: int) -> PrivateBins:
    """The bins of a block for a fold of this dtype."""
    return PrivateBins(dtype(name), fold, bins, copies, threads, unit)


@emitted(types.void)
def clear_bins(e, *, bins: PrivateBins):
    """`clear()`: the identity in every word."""
    b, room = e.builder, e.dynamic_shared()
    more = lambda n: b.icmp_unsigned("<", n, I32(bins.words))  # noqa: E731
    with repeated(e, e.special_register("tid.x"), more, lambda n: b.add(n, I32(bins.threads))) as number:
        store_word(e, b.add(room, b.mul(number, I32(WORD))), bins.identity)
    e.barrier()


def merge_into_bins(bins: PrivateBins, tile: Tile) -> Callable:
    """`merge(indices, values, left)`: merge each element of which so many are left; negative indices none."""

    @emitted(types.void)
    def emit(e, indices, values, left, *, kinds):
        b, room, copy = e.builder, e.dynamic_shared(), bins.own_copy(e)
        own = tile.widened(e, INT64, indices, kinds[0], types.int64)
        given = tile.widened(e, bins.kind, values, kinds[1], numba_type(bins.kind.name))
        for number, (index, value) in enumerate(zip(own, given)):
            there = b.icmp_signed("<", tile.offset_of(e, number, left.type), left)
            with b.if_then(b.and_(there, b.icmp_signed(">=", index, I64(0)))):
                merge_bin(e, bins, bins.address(e, room, b.trunc(index, I32), copy), value)

    return emit


def merge_bin(e: Emitter, bins: PrivateBins, address: ir.Value, value: ir.Value) -> None:
    """One element into a copy of its bin."""
    if bins.unit:
        merge(e, UINT32, "sum", address, I32(1), CTA_SHARED)
    elif bins.halves == 2:
        _add_halves(e, bins, address, value)
    else:
        merge(e, bins.kind, bins.fold, address, value, CTA_SHARED)


def _add_halves(e: Emitter, bins: PrivateBins, address: ir.Value, value: ir.Value) -> None:
    """A 64-bit sum by 32-bit atomics: what the lower half overflows by goes to the upper one."""
    b = e.builder
    low, high = b.trunc(value, I32), b.trunc(b.lshr(value, I64(32)), I32)
    text = "atom.relaxed.cta.shared.add.u32 $0, [$1], $2;"
    old = e.asm(I32, text, "=r,r,r,~{memory}", [address, low], side_effect=True)
    carry = b.zext(b.icmp_unsigned("<", b.add(old, low), low), I32)
    high = b.add(high, carry)
    with b.if_then(b.icmp_unsigned("!=", high, I32(0))):
        merge(e, UINT32, "sum", b.add(address, I32(WORD * bins.bins * bins.copies)), high, CTA_SHARED)


@emitted(types.void)
def flush_bins(e, address, *, bins: PrivateBins):
    """`flush(address)`: merge the copies of each bin, by neighbouring threads, and what they hold into the array."""
    b, size = e.builder, bins.kind.itemsize
    e.barrier()
    with bin_of_copies(e, bins) as (index, held, wanted), b.if_then(wanted):
        total = b.mul(held, held.type(bins.unit)) if bins.unit else held
        total = b.bitcast(total, F32) if bins.kind.kind == "f" else total
        at = b.add(address, b.mul(b.zext(index, I64), I64(size)))
        merge(e, bins.kind, bins.fold, at, total)


@contextmanager
def bin_of_copies(e: Emitter, bins: PrivateBins) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """For each bin in turn (its number, what its copies hold together, whether this thread is to merge that)."""
    b, room, own = e.builder, e.dynamic_shared(), e.special_register("tid.x")
    shift = bins.copies.bit_length() - 1
    more = lambda n: b.icmp_unsigned("<", n, I32(bins.bins * bins.copies))  # noqa: E731
    with repeated(e, own, more, lambda n: b.add(n, I32(bins.threads))) as number:
        held = _held(e, bins, b.add(room, b.mul(number, I32(WORD))))
        for distance in range(shift):
            held = _joined(e, bins, held, shuffle(e, "bfly", held, 1 << distance, WARP))
        first = b.icmp_unsigned("==", b.and_(number, I32(bins.copies - 1)), I32(0))
        none = I64(0) if bins.kind.bits == 64 else bins.identity
        yield b.lshr(number, I32(shift)), held, b.and_(first, b.icmp_unsigned("!=", held, none))


def _held(e: Emitter, bins: PrivateBins, address: ir.Value) -> ir.Value:
    """What a copy of a bin holds, as wide as an element."""
    b, word = e.builder, load_word(e, address)
    if bins.kind.bits == 32:
        return word
    if bins.halves == 1:
        return b.zext(word, I64)
    upper = load_word(e, b.add(address, I32(WORD * bins.bins * bins.copies)))
    return b.or_(b.zext(word, I64), b.shl(b.zext(upper, I64), I64(32)))


def _joined(e: Emitter, bins: PrivateBins, x: ir.Value, y: ir.Value) -> ir.Value:
    """Two copies as one."""
    b = e.builder
    if bins.fold == "sum":
        return b.add(x, y)
    if bins.kind.kind == "f":  # of two negative numbers, the one of fewer bits is larger
        both = b.icmp_signed("<", b.and_(x, y), I32(0))
        return b.select(b.xor(b.icmp_signed(">", x, y), both), x, y)
    compare = b.icmp_unsigned if bins.kind.kind == "u" else b.icmp_signed
    return b.select(compare(">" if bins.fold == "max" else "<", x, y), x, y)


def store_word(e: Emitter, address: ir.Value, word: ir.Value) -> None:
    """A word into shared memory."""
    e.asm(VOID, "st.shared.b32 [$0], $1;", "r,r,~{memory}", [address, word], side_effect=True)


def load_word(e: Emitter, address: ir.Value) -> ir.Value:
    """A word of shared memory."""
    return e.asm(I32, "ld.shared.b32 $0, [$1];", "=r,r,~{memory}", [address], side_effect=True)
