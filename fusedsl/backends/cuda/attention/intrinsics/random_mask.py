"""Random masks of a fragment: a lane pair splits two Philox counters and exchanges bits by shfl.bfly.

A counter gives the numbers of four neighbouring columns. A lane has two of them and its neighbour the others, so each
computes the counter of one of their two rows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from ...compiler.numba_backend import I32, I64, Emitter, ScalarFunction, emitted, ir, types
from ...math.philox import neighbours, philox_words
from ...mma.fragment import Fragment, any_of
from ...mma.fragment_layout import ROWS
from ...tile.loops import looped
from ...tile.scalar_functions import scalar_function
from ...tile.shuffle import shuffle

NUMBERS_PER_COUNTER = 4  # and elements of a thread in eight columns
COUNTERS = 4  # that a turn draws from at most: each is a long chain of products, and chains run beside each other
WORD_BITS = 32
LOW_PAIR_MASK, HIGH_PAIR_MASK = 0x33333333, 0xCCCCCCCC  # two bits of each four: the elements of a lane in a counter


def philox_mask(tile: Fragment, counter: Callable, counter_types: str, column: int, signature: str) -> Callable:
    """Decorator: a condition of a random number and other values, as words with a bit for each element of a tile (as
    `Fragment.index_mask` returns them), from the arguments of `counter` and the other values.

    `counter`, of the signature `counter_types`, returns the position, seed and stream of a number. The position
    advances with its argument `column`, the column index; everything else is the same along a row, seed and stream
    everywhere.
    """
    counter_function, count = scalar_function(counter_types, counter), tile.count
    result = types.UniTuple(types.uint32, -(-count // WORD_BITS))

    def wrap(function: Callable) -> Callable:
        body = scalar_function(signature, function)
        wanted = [*counter_function.arguments, *body.arguments[1:]]

        @emitted(result, len(wanted))
        def emit(e, *values, kinds):
            lists = [tile.element_reader(e, v, k, w) for v, k, w in zip(values, kinds, wanted)]
            split = len(counter_function.arguments)
            draw = _Draw(e, counter_function, body, lists[:split], lists[split:])
            first = e.cast(e.unpack(values[column], len(kinds[column]))[0], kinds[column].dtype, types.int32)
            words = e.if_else(
                draw.lanes_share_counters(first), lambda: draw.by_counter(count), lambda: draw.by_element(count)
            )
            return e.pack(result, words)

        return emit

    return wrap


class _Draw:
    """The code of a mask: functions that return the arguments of `counter` and of `body` for an element."""

    def __init__(self, e: Emitter, counter: ScalarFunction, body: ScalarFunction, counter_values: list, others: list):
        self.e, self.counter, self.body, self.counter_values, self.others = e, counter, body, counter_values, others
        self.is_odd_lane = e.builder.icmp_unsigned("!=", e.builder.and_(e.special_register("tid.x"), I32(1)), I32(0))

    def counter_args(self, k: ir.Value) -> list[ir.Value]:
        """Position, seed and stream of an element."""
        return self.counter.emit(self.e, [of(k) for of in self.counter_values])

    def lanes_share_counters(self, first: ir.Value) -> ir.Value:
        """True if all pairs of the warp's threads have the numbers of one counter in a row: their first columns are
        neighbours, and positions begin at a counter's first number."""
        e, b = self.e, self.e.builder
        wanted = b.select(self.is_odd_lane, I64(NUMBERS_PER_COUNTER // 2), I64(0))
        is_neighbour = b.icmp_unsigned("==", shuffle(e, "bfly", first, 1, 32), b.xor(first, I32(2)))
        for row in range(ROWS):
            low = b.and_(self.counter_args(I32(2 * row))[0], I64(NUMBERS_PER_COUNTER - 1))
            is_neighbour = b.and_(is_neighbour, b.icmp_unsigned("==", low, wanted))
        return b.not_(any_of(e, b.not_(is_neighbour)))

    def by_counter(self, count: int) -> list[ir.Value]:
        """Words with the bits of `count` elements. A thread evaluates groups of four columns of one of its rows;
        neighbours exchange the bits of each other's columns."""
        e, b, counters = self.e, self.e.builder, gcd(COUNTERS, count // NUMBERS_PER_COUNTER)
        row = b.select(self.is_odd_lane, I32(2), I32(0))

        def numbers(k: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
            words, elements = [], []
            for n in range(counters):
                element = b.or_(b.add(k, I32(NUMBERS_PER_COUNTER * n)), row)
                position, seed, stream = self.counter_args(element)
                words += philox_words(e, b.lshr(position, I64(2)), seed, stream)
                elements += [element] * NUMBERS_PER_COUNTER
            return [b.zext(word, I64) for word in words], elements

        selected = []
        for word in self._words(count, counters * NUMBERS_PER_COUNTER, numbers):
            other = shuffle(e, "bfly", word, 1, 32)
            low_pairs = b.or_(b.and_(word, I32(LOW_PAIR_MASK)), b.shl(b.and_(other, I32(LOW_PAIR_MASK)), I32(2)))
            high_pairs = b.or_(b.and_(word, I32(HIGH_PAIR_MASK)), b.lshr(b.and_(other, I32(HIGH_PAIR_MASK)), I32(2)))
            selected.append(b.select(self.is_odd_lane, high_pairs, low_pairs))
        return selected

    def by_element(self, count: int) -> list[ir.Value]:
        """The same, one element per iteration."""

        def number(k: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
            position, seed, stream = self.counter_args(k)
            return neighbours(self.e, "philox_word", [position], seed, stream), [k]

        return self._words(count, 1, number)

    def _words(self, count: int, step: int, numbers: Callable) -> list[ir.Value]:
        """Bits from numbers and the elements whose rows they belong to, a few per iteration."""
        e, b = self.e, self.e.builder
        words = [I32(0)] * -(-count // WORD_BITS)
        with looped(e, [I32(0), *words], lambda k, *_: b.icmp_unsigned("<", k, I32(count))) as (state, next_state):
            k, *words = state
            bits = I32(0)
            for n, (number, element) in enumerate(zip(*numbers(k))):
                (condition,) = self.body.emit(e, [number, *(of(element) for of in self.others)])
                bits = b.or_(bits, b.shl(b.zext(condition, I32), I32(n)))
            bits = b.shl(bits, b.and_(k, I32(WORD_BITS - 1)))
            in_word = [b.icmp_unsigned("==", b.lshr(k, I32(5)), I32(n)) for n in range(len(words))]
            words = [b.or_(word, b.select(own, bits, I32(0))) for word, own in zip(words, in_word)]
            next_state += [b.add(k, I32(step)), *words]
        return state[1:]
