"""Radix sort of a row as text: a histogram of all digits, then a stable scatter for each, from the lowest up (LSD).

Rows are in two halves of scratch memory: a pass reads the elements from `source` on, and writes those from `target` on.
A digit that all elements share needs no pass.
"""

from __future__ import annotations

from ...ir.types import DType
from ...kernel_ir.phase import Sort
from . import reduce
from .source_text import indented

DIGIT_BITS = 8  # of a digit: 256 bins fit the first-level cache and the TLB
BINS = 1 << DIGIT_BITS
MOST_MOVES = 4  # of an element, on average, as its row is mended


def bins(d: DType) -> int:
    """The bins of all digits of an element."""
    return digits(d) * BINS


def digits(d: DType) -> int:
    return -(-d.bits // DIGIT_BITS)


def number_columns(sort: Sort) -> list[str]:
    """The columns of a row in its own order."""
    if not sort.has_positions:
        return []
    return ["for spot in range(columns):", *indented([reduce.put("position", "spot", "spot")])]


def sort_long_row(sort: Sort, insert: list[str]) -> list[str]:
    """Sort the row from `source` on; `source` and `target` change places with each pass.

    Passes begin at the digit from which on there are more keys than elements, as far as the largest bins tell. What
    they leave out of order is inserted (`insert`). If that moves many elements, all digits have a pass: elements with
    equal keys have kept their order.
    """
    count = digits(sort.key.dtype)
    digit_pass = ["first = digit * 256", "shift = digit * 8"]
    digit_pass += [f"bin = first + {_digit(sort, reduce.get('order', 'source'), 'shift')}"]
    scatter = [*starts(), "for spot in range(source, source + columns):", *indented(_scatter(sort))]
    scatter += ["source = columns - source", "target = columns - target"]
    digit_pass += [f"if {reduce.get('tally', 'bin')} < columns:", *indented(scatter)]
    passes = [f"for digit in range(begin, {count}):", *indented(digit_pass)]
    if count < 4:
        return ["begin = 0", *histogram(sort, count), *passes]
    insertion_pass = ["moves = 0", "spot = source + 1", "high = source + columns"]
    insertion_pass += [
        f"while (spot < high) & (moves < {MOST_MOVES} * columns):",
        *indented([*insert, "spot = spot + 1"]),
    ]
    insertion_pass += [f"if moves >= {MOST_MOVES} * columns:", *indented(["wanted = 0", "unsorted = True"])]
    opening = [*histogram(sort, count), f"begin = {count}", "spread = 1.0", *choose_first_digit()]
    again = [*opening, *passes, "unsorted = False", "if begin > 0:", *indented(insertion_pass)]
    return ["unsorted = True", "wanted = 4 * columns", "while unsorted:", *indented(again)]


def starts() -> list[str]:
    """The counts of a digit's bins become where each begins."""
    each = ["high = low + " + reduce.get("tally", "bin"), reduce.put("tally", "bin", "low"), "low = high"]
    return ["low = 0", "for bin in range(first, first + 256):", *indented(each)]


def choose_first_digit() -> list[str]:
    """The first digit of the LSD passes: the highest one from which upwards the product over digits of n / (largest
    bin), an estimate of the number of distinct prefixes (`spread`), exceeds `wanted`; 0 if none does, or `wanted` is 0.
    """
    largest = [f"low = {reduce.get('tally', 'bin')}", "if low > high:", *indented(["high = low"])]
    each = ["begin = begin - 1", "high = 1", "for bin in range(begin * 256, begin * 256 + 256):", *indented(largest)]
    each += ["spread = spread * (float64(columns) / float64(high))"]
    each += ["if wanted == 0:", *indented(["spread = 0.0"])]
    return ["while (begin > 0) & (spread <= float64(wanted)):", *indented(each)]


def histogram(sort: Sort, count: int) -> list[str]:
    """How many elements each bin of each digit has."""
    lines = [f"for bin in range({count * BINS}):", *indented([reduce.put("tally", "bin", "0")])]
    each = [f"new = {reduce.get('order', 'spot')}"]
    for digit in range(count):
        each.append(f"bin = {_digit(sort, 'new', str(digit * DIGIT_BITS))} + {digit * BINS}")
        each.append(reduce.put("tally", "bin", f"{reduce.get('tally', 'bin')} + 1"))
    return [*lines, "for spot in range(source, source + columns):", *indented(each)]


def _scatter(sort: Sort) -> list[str]:
    """Element `spot` goes to the next place of its bin."""
    lines = [f"new = {reduce.get('order', 'spot')}", f"bin = first + {_digit(sort, 'new', 'shift')}"]
    lines += [f"place = {reduce.get('tally', 'bin')}", reduce.put("tally", "bin", "place + 1")]
    lines += [reduce.put("order", "target + place", "new")]
    if sort.has_positions:
        lines.append(reduce.put("position", "target + place", reduce.get("position", "spot")))
    return lines


def _digit(sort: Sort, element: str, shift: str) -> str:
    return f"{'descending' if sort.descending else 'ascending'}_digit({element}, {shift})"
