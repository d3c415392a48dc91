"""Float scatters as superaccumulators: one pass over the values, in any order, with the same bits.

Words take many times the memory of the array, so this is for indices that get several values each. Storing and reading
a word is priced as two words for each value, as atomics are many times slower than that: the other way needs two.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir import shapes
from ..ir.builder import GraphBuilder
from ..ir.dims import Dim, expression, product
from ..ir.graph import Node, node
from ..ir.index_keys import basic_index, whole_axis
from ..ir.ops import ROUNDED
from ..ir.scatters import ORDERED, RUNS
from ..ir.superaccumulators import (
    ACCUMULATE,
    ACCUMULATE_MANY,
    ACCUMULATE_RUNS,
    DOWN,
    MOST_BITS,
    SUPERACCUMULATORS,
    Superaccumulator,
)
from ..ir.types import FLOAT64, INT32, INT64

Fits = Callable[[Dim, int], bool]
UNROLLED = 32  # chunks that are read one by one, side by side
MOST_PLACES = 4096  # of sums whose words have more chunks than that
FEW_PLACES = 16384  # whose words a block may have
WORDS_OF_A_VALUE = 2  # words that are stored and read in less time than another pass of atomics over the values
WORDS_BESIDE_RUNS = 4  # values for each word from which on one atomic a value is worth more words
HIGH, LOWERED = 0, 128  # chunks with exponents from the first on are added with exponents that are lowered by so many


def sum_fold(b: GraphBuilder, base: Node, flat_indices: Node, mode: str, fits: Fits) -> str | None:
    """The superaccumulators that add values at indices up; None where the indices are too many for their words."""
    d, size, count = base.type.dtype, product(base.type.shape), product(flat_indices.type.shape)

    def has_room(fold: str, words: int, values: int) -> bool:
        chunks = SUPERACCUMULATORS[fold][d].chunks
        more = expression("-", expression("*", size, words * chunks), expression("*", count, values))
        return (chunks <= UNROLLED or fits(size, MOST_PLACES)) and fits(more, 0)

    most = most_terms(b, flat_indices)
    for bits, fold in (ACCUMULATE if fits(size, FEW_PLACES) else ACCUMULATE_MANY).items():
        if mode != ORDERED and fits(most, 1 << bits):
            runs = mode == RUNS and flat_indices.type.rank == 1  # neighbours in rows have indices of their own
            if has_room(fold, *((WORDS_BESIDE_RUNS, 1) if runs else (1, WORDS_OF_A_VALUE))):
                return fold
            break
    runs = mode in (RUNS, ORDERED) and has_room(ACCUMULATE_RUNS, 1, 1) and fits(most, 1 << MOST_BITS)
    return ACCUMULATE_RUNS if runs else None


def most_terms(b: GraphBuilder, flat_indices: Node) -> Dim:
    """How many values an index gets at most: where rows are written, each has its indices in a column of its own."""
    shape = flat_indices.type.shape
    match flat_indices.op, [x.op for x in flat_indices.args]:
        case "where", [_, "add", _]:
            row, column = flat_indices.args[1].args
            by_rows = row.op == "multiply" and column.op == "iota" and column.type.shape == shape[-1:]
            if by_rows and row.args[1] is b.convert(b.extent(shape[-1]), INT64):
                return product(shape[:-1])
    return product(shape)


def accumulated(b: GraphBuilder, base: Node, flat_indices: Node, values: Node, attr: tuple[str, str]) -> Node:
    """`base` with the sums of values at flat indices in C order, by a fold of superaccumulators, and a mode."""
    d, count = base.type.dtype, product(base.type.shape)
    accumulator = SUPERACCUMULATORS[attr[0]][d]
    group = accumulator.group
    groups = expression("//", expression("+", count, group - 1), group)
    none = b.convert(b.literal(0), INT64)
    zeros = shapes.broadcast_to(b, none, (groups, accumulator.chunks, group))
    words = node("scatter", (zeros, flat_indices, values), attr, zeros.type)
    summed = _unrolled if accumulator.chunks <= UNROLLED else _folded
    total = _with_specials(b, summed(b, accumulator, words), _chunk(words, accumulator.special))
    flat = shapes.reshape(b, total, (expression("*", groups, group),))
    sums = shapes.reshape(b, basic_index(flat, (("slice", 0, 1, count),)), base.type.shape)
    return added_to(b, base, sums)


def added_to(b: GraphBuilder, base: Node, sums: Node) -> Node:
    """`base` with sums of float64, rounded once; a sum of 0 leaves an element as it is, -0.0 too."""
    sums = b.elementwise("where", b.elementwise("equal", sums, b.literal(0.0)), b.literal(-0.0), sums)
    total = b.elementwise("add", b.convert(base, FLOAT64), sums)
    return total if base.type.dtype is FLOAT64 else b.cast(total, base.type.dtype)


def _chunk(words: Node, chunk: int) -> Node:
    """The words of a chunk, of shape (groups, group)."""
    groups, _, width = words.type.shape
    return basic_index(words, (whole_axis(groups), ("int", chunk), whole_axis(width)))


def _unrolled(b: GraphBuilder, accumulator: Superaccumulator, words: Node) -> Node:
    """The sum of all chunks of numbers, the smallest first."""
    low: Node | None = None
    high: Node | None = None
    for chunk in range(accumulator.special):
        exponent = accumulator.unit + accumulator.width * chunk
        is_high = exponent >= HIGH
        unit = b.literal(2.0 ** (exponent - LOWERED if is_high else exponent))
        part = b.elementwise("multiply", b.convert(_chunk(words, chunk), FLOAT64), unit)
        part = node("multiply", part.args, ROUNDED, part.type)
        if is_high:
            high = part if high is None else b.elementwise("add", high, part)
        else:
            low = part if low is None else b.elementwise("add", low, part)
    assert low is not None
    return low if high is None else _with_high(b, low, high)


def _folded(b: GraphBuilder, accumulator: Superaccumulator, words: Node) -> Node:
    """The same as folds along the chunks."""
    chunks = accumulator.chunks
    number = b.convert(b.strong(b.iota(chunks)), INT32)
    exponent = b.elementwise("add", b.elementwise("multiply", number, b.literal(accumulator.width)),
                             b.literal(accumulator.unit))  # fmt: skip
    is_number = b.elementwise("less", number, b.literal(accumulator.special))
    is_high = b.elementwise("greater_equal", exponent, b.literal(HIGH))

    def summed(which: Node, exponent: Node) -> Node:
        which, exponent = (basic_index(x, (whole_axis(chunks), ("new",))) for x in (which, exponent))
        parts = b.elementwise("ldexp", b.convert(words, FLOAT64), exponent)
        return shapes.reduce(b, "sum", b.elementwise("where", which, parts, b.literal(0.0)), 1)

    low = summed(b.elementwise("logical_and", is_number, b.elementwise("logical_not", is_high)), exponent)
    lowered = b.elementwise("subtract", exponent, b.literal(LOWERED))
    return _with_high(b, low, summed(b.elementwise("logical_and", is_number, is_high), lowered))


def _with_high(b: GraphBuilder, low: Node, high: Node) -> Node:
    """The sum of both parts: no part of the high one overflows where the sum does not, as its exponents are lowered."""

    def op(name: str, *args: Node) -> Node:
        return b.elementwise(name, *args)

    both = op("ldexp", op("add", high, op("ldexp", low, b.literal(-LOWERED))), b.literal(LOWERED))
    return op("where", op("equal", high, b.literal(0.0)), low, both)


def _with_specials(b: GraphBuilder, total: Node, counted: Node) -> Node:
    """The total, or the infinity or the NaN that infinities and NaN among the values make of it."""
    return b.elementwise("where", b.elementwise("equal", counted, b.literal(0)), total, sum_of_infinities(b, counted))


def sum_of_infinities(b: GraphBuilder, counted: Node) -> Node:
    """The sum of infinities, of which there are some: UP is counted for each above, DOWN for each below."""

    def op(name: str, *args: Node) -> Node:
        return b.elementwise(name, *args)

    up = op("not_equal", op("bitwise_and", counted, b.literal(DOWN - 1)), b.literal(0))
    down = op("not_equal", op("right_shift", counted, b.literal(32)), b.literal(0))
    nan, inf = b.literal(float("nan")), b.literal(float("inf"))
    return op("where", down, op("where", up, nan, op("negative", inf)), inf)
