"""Rows between offsets (CSR): the number of the segment that each row is in, by ranks in a bit vector.

A bit marks each row that a segment begins with, of those that are not empty. The rank of a row is the number of marks
up to it: those before its word of 64 rows, which are stored, and those in it, which are counted (Jacobson 1989). So
the tables are small beside the rows, and a row needs two reads that its neighbours share. Rows are numbered in 32 bits
where these hold their number.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import gathers, scans_sorts, scatters, shapes
from .builder import GraphBuilder
from .dims import Dim, expression
from .graph import Node
from .index_keys import basic_index
from .scans_sorts import ScanMode
from .scatters import NOWHERE
from .types import INT32, INT64, MOST_INT32, DType

WORD = 64  # rows of a word of marks


@dataclass(frozen=True)
class RaggedRows:
    """Segments from one offset to the next. Offsets do not decrease; those beyond the rows are at their ends."""

    rank_of_row: Node  # among the segments that are not empty; NOWHERE for a row of none
    rank_of_segment: Node  # NOWHERE for an empty one
    lengths: Node
    count: Dim  # of segments


def ragged_rows(b: GraphBuilder, offsets: Node, rows: Dim) -> RaggedRows:
    """The segments of so many rows."""

    def op(name: str, *args: Node) -> Node:
        return b.elementwise(name, *args)

    count = expression("-", offsets.type.shape[0], 1)
    numbers = INT32 if b.fits(rows, MOST_INT32) and b.fits(count, MOST_INT32) else INT64
    inside = op("minimum", op("maximum", gathers.positions(b, offsets), b.literal(0)), b.extent(rows))
    begins, ends = (basic_index(inside, (("slice", start, 1, count),)) for start in (0, 1))
    lengths = op("subtract", ends, begins)
    is_full = op("greater", lengths, b.literal(0))
    passed = b.cast(scans_sorts.scan(b, "sum", b.convert(is_full, INT64), 0), numbers)
    rank_of_segment = op("where", is_full, op("subtract", passed, b.literal(1)), b.literal(NOWHERE))
    last = b.cast(basic_index(inside, (("slice", count, 1, 1),)), numbers)
    ranks = _ranks(b, op("where", is_full, begins, b.literal(NOWHERE)), rows, numbers)
    row = b.convert(b.iota(rows), numbers)
    return RaggedRows(op("where", op("less", row, last), ranks, b.literal(NOWHERE)), rank_of_segment, lengths, count)


def _ranks(b: GraphBuilder, marked: Node, rows: Dim, numbers: DType) -> Node:
    """For each row how many of the marked rows come before it."""

    def op(name: str, *args: Node) -> Node:
        return b.elementwise(name, *args)

    def word_of(row: Node) -> tuple[Node, Node]:
        return op("right_shift", row, b.literal(WORD.bit_length() - 1)), op("bitwise_and", row, b.literal(WORD - 1))

    words = expression("//", expression("+", rows, WORD - 1), WORD)
    none = shapes.broadcast_to(b, b.convert(b.literal(0), INT64), (words,))
    word, bit = word_of(marked)
    bits = op("left_shift", b.convert(b.literal(1), INT64), bit)
    marked_word = op("where", op("less", marked, b.literal(0)), marked, word)
    marks = scatters.merged(b, none, marked_word, bits, "sum", scatters.DROPPED)
    before = b.cast(scans_sorts.scan(b, "sum", op("count_ones", marks), 0, ScanMode(exclusive=True)), numbers)
    word, bit = word_of(b.convert(b.iota(rows), numbers))
    behind = b.convert(op("subtract", b.literal(WORD - 1), bit), INT64)
    up_to = op("left_shift", _read(b, marks, word, rows), behind)
    within = op("subtract", b.cast(op("count_ones", up_to), numbers), b.literal(1))
    return op("add", _read(b, before, word, rows), within)


def _read(b: GraphBuilder, x: Node, word: Node, rows: Dim) -> Node:
    return gathers.gather(x, {0: b.convert(word, INT64)}, [None], (rows,), gathers.INSIDE)
