"""Intrinsics of float sums at few indices: a block has the words of a few chunks in shared memory, and merges them.

Most values fall in a few chunks of a superaccumulator. A block has those beside the largest value that it meets first,
for all indices; what falls in others is added in memory. Integers are added, so that neither this choice nor any order
changes a bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.superaccumulators import SUPERACCUMULATORS, Superaccumulator
from ....ir.types import INT64, dtype
from ..compiler.numba_backend import I32, I64, Emitter, emitted, ir, numba_type, types
from ..tile.loops import repeated, when
from ..tile.shuffle import WARP, shuffle
from ..tile.tile import Tile
from .intrinsics import merge
from .private_bin_intrinsics import WORD, PrivateBins, bin_of_copies, load_word, merge_bin, store_word
from .runs import index_or_none
from .superaccumulator import terms, word_address

NONE = -1  # the first chunk of a block that has not met a value
FAR = 1 << 16  # instead of it: no chunk is beside this one


@dataclass(frozen=True)
class PrivateWords:
    """`chunks` neighbouring chunks of each of `bins` indices, as bins of a 64-bit sum."""

    accumulator: Superaccumulator
    chunks: int
    indices: int
    table: PrivateBins

    def first_chunk(self, e: Emitter) -> ir.Value:
        """The address of the number of a block's first chunk, behind the table."""
        return e.builder.add(e.dynamic_shared(), I32(WORD * self.table.words))


def private_words(name: str, fold: str, chunks: int, indices: int, copies: int, threads: int) -> PrivateWords:
    """The words of a block for sums of floats of this dtype."""
    table = PrivateBins(INT64, "sum", chunks * indices, copies, threads, 0)
    return PrivateWords(SUPERACCUMULATORS[fold][dtype(name)], chunks, indices, table)


@emitted(types.void)
def clear_words(e, *, words: PrivateWords):
    """`clear()`: 0 in every word, and no first chunk."""
    b, room, table, thread = e.builder, e.dynamic_shared(), words.table, e.special_register("tid.x")
    more = lambda n: b.icmp_unsigned("<", n, I32(table.words))  # noqa: E731
    with repeated(e, thread, more, lambda n: b.add(n, I32(table.threads))) as number:
        store_word(e, b.add(room, b.mul(number, I32(WORD))), table.identity)
    with b.if_then(b.icmp_signed("==", thread, I32(0))):
        store_word(e, words.first_chunk(e), I32(NONE))
    e.barrier()


def merge_into_words(words: PrivateWords, tile: Tile) -> Callable:
    """`merge(address, indices, values, left)`: add each element of which so many are left; negative indices none.

    All threads of a warp take part.
    """
    accumulator, table = words.accumulator, words.table

    @emitted(types.void)
    def emit(e, address, indices, values, left, *, kinds):
        b, room, copy = e.builder, e.dynamic_shared(), table.own_copy(e)
        own = tile.widened(e, INT64, indices, kinds[1], types.int64)
        given = tile.widened(e, accumulator.dtype, values, kinds[2], numba_type(accumulator.dtype.name))
        there = [b.icmp_signed("<", tile.offset_of(e, k, left.type), left) for k in range(tile.vectors)]
        where = [index_or_none(e, index, valid) for index, valid in zip(own, there)]
        added = [terms(e, accumulator, value) for value in given]
        first = _first_chunk(e, words, where, [parts[0][0] for parts in added])
        for index, parts in zip(where, added):
            with b.if_then(b.icmp_signed(">=", index, I32(0))):
                for chunk, word in parts:
                    with b.if_then(b.icmp_unsigned("!=", word, I64(0))):
                        near = b.sub(chunk, first)
                        with b.if_else(b.icmp_unsigned("<", near, I32(words.chunks))) as (inside, outside):
                            with inside:
                                bin_ = b.add(b.mul(near, I32(words.indices)), index)
                                merge_bin(e, table, table.address(e, room, bin_, copy), word)
                            with outside:
                                merge(e, INT64, "sum", word_address(e, accumulator, address, index, chunk), word)

    return emit


def _first_chunk(e: Emitter, words: PrivateWords, indices: list[ir.Value], chunks: list[ir.Value]) -> ir.Value:
    """The first chunk of a block: the first warp that has a value decides. Its largest is in the last chunk but one, if
    there are several.
    """
    b, at = e.builder, words.first_chunk(e)
    known = shuffle(e, "idx", load_word(e, at), 0, WARP)  # one answer for all lanes

    def chosen() -> list[ir.Value]:
        largest = I32(NONE)
        for index, chunk in zip(indices, chunks):
            wanted = b.and_(b.icmp_signed(">=", index, I32(0)), b.icmp_signed(">", chunk, largest))
            largest = b.select(wanted, chunk, largest)
        for distance in (16, 8, 4, 2, 1):
            other = shuffle(e, "bfly", largest, distance, WARP)
            largest = b.select(b.icmp_signed(">", other, largest), other, largest)
        first = b.sub(largest, I32(max(0, words.chunks - 2)))
        first = b.select(b.icmp_signed("<", first, I32(0)), I32(0), first)
        first = b.select(b.icmp_signed("<", largest, I32(0)), I32(NONE), first)
        text = f"atom.relaxed.cta.shared.cas.b32 $0, [$1], {NONE}, $2;"
        before = e.asm(I32, text, "=r,r,r,~{memory}", [at, first], side_effect=True)
        return [b.select(b.icmp_signed("==", before, I32(NONE)), first, before)]

    (first_chunk,) = when(e, b.icmp_signed("==", known, I32(NONE)), [known], chosen)
    return b.select(b.icmp_signed("==", first_chunk, I32(NONE)), I32(FAR), first_chunk)


@emitted(types.void)
def flush_words(e, address, *, words: PrivateWords):
    """`flush(address)`: add up the copies of each word, by neighbouring threads, and add that in memory."""
    table = words.table
    b = e.builder
    e.barrier()
    first = load_word(e, words.first_chunk(e))
    with bin_of_copies(e, table) as (bin_, total, wanted), b.if_then(wanted):
        chunk = b.udiv(bin_, I32(words.indices))
        index = b.sub(bin_, b.mul(chunk, I32(words.indices)))
        at = word_address(e, words.accumulator, address, index, b.add(first, chunk))
        merge(e, INT64, "sum", at, total)
