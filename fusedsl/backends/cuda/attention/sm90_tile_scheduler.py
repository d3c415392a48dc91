"""Which tiles of rows a block of the attend skeleton takes, one after another, and which tiles of the stream go by.

Items are tiles of rows. They are in sections of so many places on the other axes that what a section's items stream
stays in the L2; in every section the places of one tile of rows are neighbours, and sections go through the tiles of
rows downwards and upwards in turn, so that blocks which take every n-th item have as much to do. Where the last tile of
rows would not be full, the first one is not: of masks that leave what is before a row, it has the least to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..emit.source_text import indented
from .emit_block_mask import direct_classes, item_extremes
from .sm90_schedule import NEAR_BYTES, NOTES

if TYPE_CHECKING:
    from .sm90_emit import AttendWriter


def leave_order(w: AttendWriter) -> list[str]:
    """Lines of one thread that leave in shared memory how items lie: registers are dear in the loops."""
    s, outer = w.schedule, [f"n{a}" for a in w.outer]
    streamed = [w.kernel.operands[k].strides for k in w.operands.multiplied[1:]]
    apart = [f"n{a}" for a in w.outer if any(letters[a] != "0" for letters in streamed)]
    bytes_each = f"n{w.along} * {2 * (s.width + s.out_width)}"
    lines = [
        f"row_tiles = (n{w.lane} + {s.rows - 1}) // {s.rows}",
        f"others = int64({' * '.join(outer) or '1'})",
        f"near = {NEAR_BYTES} // ({bytes_each}) * (others // ({' * '.join(apart) or '1'}))",
        "section = minimum(others, maximum(near, 1))",
        "sections = (others + section - 1) // section",
        "section = (others + sections - 1) // sections",
    ]
    if not w.sieved:  # one place after the other, where all tiles have as much to do
        lines += [f"if row_tiles * {s.rows} == n{w.lane}:", "    section = int64(1)"]
    words = ["row_tiles * others", "row_tiles", "section"]
    words += [f"(n{w.along} + {32 * s.columns - 1}) // {32 * s.columns}"] if w.sieved else []
    return [*lines, *(f"keep_word(order_at + {4 * k}, {word})" for k, word in enumerate(words))]


def place_lines(w: AttendWriter) -> list[str]:
    """Lines that give the rows of an item, from `row_from` to `row_end`, and its place on the other axes."""
    lines = [
        "items, row_tiles, section = kept_word(order_at), kept_word(order_at + 4), kept_word(order_at + 8)",
        "turn = udiv(item, section * row_tiles)",
        "passed = int32(turn * section)",
        "onward = int32(udiv(items, row_tiles) - passed)",
        "near = minimum(section, onward)",
        "inner = int32(item - passed * row_tiles)",
        "rest = udiv(inner, near)",
        "other = int32(passed + inner - rest * near)",
    ]
    if w.sieved:  # the last section begins with the longest
        lines += ["if udiv(onward - 1, section) & 1 == 0:", "    rest = int32(row_tiles - 1 - rest)"]
    n, rows = f"n{w.lane}", w.schedule.rows
    lines.append(f"row_end = int32({n} - (row_tiles - 1 - rest) * {rows})")
    lines.append(f"row_from = maximum(int32(row_end - {rows}), int32(0))")
    return lines + w.place_of_other()


def count_lines(w: AttendWriter) -> list[str]:
    """Lines that count the item's tiles of the stream, and find the one that is worked first.

    Where none counts, the first is worked, all of it masked. Bits of the tiles that count stay in shared memory.
    """
    columns, n = w.schedule.columns, f"n{w.along}"
    if not w.sieved:
        return [f"count = int32(({n} + {columns - 1}) // {columns})", "tile = int32(count - 1)"]
    before: list[str] = []
    if w.schedule.resident:
        before = item_extremes(w, w.schedule) if w.stream.sieve and w.stream.sieve.extremes else []
        asked = direct_classes(w, w.schedule, known=True).format(word="word")
        found = [f"some, whole = {asked}", "if lead:"]
        found += [f"    keep_word({_word(k)}, {word})" for k, word in enumerate(("some", "whole"))]
    else:
        found = [f"some = kept_word({_word(0)})"]
    return [
        *before,
        "count, word, tile = int32(0), int32(0), int32(0)",
        f"while word * {32 * columns} < {n}:",
        *indented(found),
        "    if some != 0:",
        "        tile = int32(word * 32 + highest_bit(some))",
        "    count, word = int32(count + bit_count(some)), int32(word + 1)",
        "count = maximum(count, 1)",
    ]


def _word(part: int) -> str:
    """Where bits of 32 tiles of an item are: whether they count, and whether they count whole."""
    return f"classes_at + ((taken & {NOTES - 1}) * kept_word(order_at + 12) + word) * 8 + {4 * part}"


def rewind_lines(w: AttendWriter) -> list[str]:
    """Lines before the first tile of an item is looked for."""
    return ["word, left, whole = kept_word(order_at + 12), int32(0), int32(0)"] if w.sieved else []


def next_tile(w: AttendWriter) -> list[str]:
    """Lines that find the next tile that counts: the last first, so that it alone may reach beyond the stream."""
    if not w.sieved:
        return ["tile = int32((counted >> 1) - 1 - k)"]
    return [
        "while (left == 0) & (word > 0):",
        "    word = int32(word - 1)",
        f"    left, whole = kept_word({_word(0)}), kept_word({_word(1)})",
        "left = left | int32(left == 0)",
        "bit = highest_bit(left)",
        "tile, left = int32(word * 32 + bit), int32(left ^ (1 << bit))",
    ]
