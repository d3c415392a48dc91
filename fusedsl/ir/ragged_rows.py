"""Rows between offsets (CSR): the number of the segment that each row is in, by ranks in a bit vector.

A bit marks each row that a segment begins with, of those that are not empty. The rank of a row is the number of marks
up to it: those before its word of 64 rows, which are stored, and those in it, which are counted (Jacobson 1989). So
the tables are small beside the rows, and a row needs two reads that its neighbours share.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import gathers, row_ops, scatters, shapes
from .builder import GraphBuilder
from .dims import Dim, expression
from .graph import Node
from .index_keys import basic_index
from .row_ops import Direction
from .scatters import NOWHERE
from .types import INT64

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
    inside = op("minimum", op("maximum", gathers.positions(b, offsets), b.literal(0)), b.extent(rows))
    begins, ends = (basic_index(inside, (("slice", start, 1, count),)) for start in (0, 1))
    lengths = op("subtract", ends, begins)
    is_full = op("greater", lengths, b.literal(0))
    passed = row_ops.scan(b, "sum", b.convert(is_full, INT64), 0)
    rank_of_segment = op("where", is_full, op("subtract", passed, b.literal(1)), b.literal(NOWHERE))
    last = basic_index(inside, (("slice", count, 1, 1),))
    ranks = _ranks(b, op("where", is_full, begins, b.literal(NOWHERE)), rows)
    row = b.convert(b.iota(rows), INT64)
    return RaggedRows(op("where", op("less", row, last), ranks, b.literal(NOWHERE)), rank_of_segment, lengths, count)


def _ranks(b: GraphBuilder, marked: Node, rows: Dim) -> Node:
    """For each row how many of the marked rows come before it."""

    def op(name: str, *args: Node) -> Node:
        return b.elementwise(name, *args)

    def word_of(row: Node) -> tuple[Node, Node]:
        return op("right_shift", row, b.literal(WORD.bit_length() - 1)), op("bitwise_and", row, b.literal(WORD - 1))

    words = expression("//", expression("+", rows, WORD - 1), WORD)
    none = shapes.broadcast_to(b, b.convert(b.literal(0), INT64), (words,))
    word, bit = word_of(marked)
    bits = op("left_shift", b.convert(b.literal(1), INT64), bit)
    marks = scatters.merged(b, none, op("where", op("less", marked, b.literal(0)), marked, word), bits, "sum",
                            scatters.DROPPED)  # fmt: skip
    before = row_ops.scan(b, "sum", op("count_ones", marks), 0, Direction(exclusive=True))
    word, bit = word_of(b.convert(b.iota(rows), INT64))
    up_to = op("left_shift", _read(marks, word, rows), op("subtract", b.literal(WORD - 1), bit))
    within = op("subtract", op("count_ones", up_to), b.literal(1))
    return op("add", _read(before, word, rows), within)


def _read(x: Node, word: Node, rows: Dim) -> Node:
    return gathers.gather(x, {0: word}, [None], (rows,), gathers.INSIDE)
