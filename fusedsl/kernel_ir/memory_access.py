"""Merged iteration axes, and the widest access that each operand allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from ..ir.types import DType

Access = Literal["vector", "peeled", "shifted", "flat", "element"]
"""What an operand's innermost axis allows.

"vector": accesses of 16 bytes, aligned in every row; "peeled": unaligned by the same number of elements in every row as
every other "peeled" operand; "shifted": vectors across columns, of which every so many are unaligned by the same number
of elements; "flat": vectors of all elements of a map in order, which cross the ends of its rows; "element": single
elements.
"""

ACCESS_BYTES = 16
LONGEST = 1 << 29  # axis of a pass over scores, whose places are added up in 32 bits
# Offsets and counts from here on need 64 bits. Below, a last tile may reach past the end, and the next of a block, by
# the tiles of all blocks that share a row.
INDEX64_FROM = (1 << 31) - (1 << 26)
SHORT_ROW = 1 << 15  # columns, up to which a single row takes no longer where its ends are checked
STATE_WORDS = 16  # registers of the states of one vector across columns, at most
PLACED, PLACED_WORDS = 3, 24  # words of a (value, index) state; registers of such states at most (1.2 ms, or 1.9)
RUN_WIDTH = 4  # elements of a thread beside each other, at least, where runs of one place are summed
SHIFTED_FROM = 256  # elements folded, and kept, from which on vectors are worth shifting


@dataclass(frozen=True)
class MergedAxes:
    """Merged axes: extents, strides (in elements) per operand, and which original axes each axis is made of."""

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    axes: tuple[tuple[int, ...], ...]

    @property
    def index64(self) -> bool:
        """True if counts or offsets need 64 bits."""
        return prod(self.extents) >= INDEX64_FROM or any(
            max_offset(self.extents, line) >= INDEX64_FROM for line in self.strides
        )


def max_offset(extents: Sequence[int], strides: Sequence[int]) -> int:
    """Distance between the first and the last element, in elements."""
    return sum(abs(s) * (n - 1) for s, n in zip(strides, extents))


def merge_axes(
    extents: Sequence[int],
    strides: Sequence[Sequence[int]],
    outputs: Sequence[int] = (),
    keep: Sequence[int] = (),
    stay: Sequence[int] = (),
) -> MergedAxes:
    """Order axes from far to near strides, drop unit axes, merge neighbours where all operands allow it.

    `outputs` are the operands whose order counts first; axes in `keep` (whose position is read) stay by themselves,
    those in `stay` are not dropped. At least one axis is left.
    """
    order = [*outputs, *(k for k in range(len(strides)) if k not in outputs)]
    live = [a for a in range(len(extents)) if extents[a] != 1 or a in keep or a in stay]
    live.sort(key=lambda a: tuple(-abs(strides[k][a]) for k in order))
    return _merged(live, extents, strides, keep)


def merge_axes_in_order(
    extents: Sequence[int], strides: Sequence[Sequence[int]], keep: Sequence[int] = (), stay: Sequence[int] = ()
) -> MergedAxes:
    """`merge_axes` for a kernel whose elements have an order: the axes stay in theirs."""
    live = [a for a in range(len(extents)) if extents[a] != 1 or a in keep or a in stay]
    return _merged(live, extents, strides, keep)


def _merged(
    live: Sequence[int], extents: Sequence[int], strides: Sequence[Sequence[int]], keep: Sequence[int]
) -> MergedAxes:
    """The axes with each neighbour merged that every operand's strides allow."""
    groups: list[list[int]] = []
    for axis in live:
        if groups and _merges(groups[-1][-1], axis, extents, strides, keep):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    groups = groups or [[]]
    merged = tuple(prod(extents[axis] for axis in group) for group in groups)
    lines = tuple(tuple(line[g[-1]] if g else 0 for g in groups) for line in strides)
    return MergedAxes(merged, lines, tuple(map(tuple, groups)))


def _merges(outer: int, inner: int, extents, strides, keep) -> bool:
    if outer in keep or inner in keep:
        return False
    return all(line[outer] == line[inner] * extents[inner] for line in strides)


def merge_row_axes(
    row_extents: Sequence[int],
    column_extents: Sequence[int],
    strides: Sequence[Sequence[int]],
    outputs: Sequence[int] = (),
    keep: Sequence[int] = (),
    stay: Sequence[int] = (),
) -> tuple[MergedAxes, int]:
    """The same for a row kernel: row axes among themselves, column axes among themselves; and the row axes left."""
    split = len(row_extents)
    of_rows = [[a for a in axes if a < split] for axes in (keep, stay)]
    of_columns = [[a - split for a in axes if a >= split] for axes in (keep, stay)]
    rows = merge_axes(row_extents, [line[:split] for line in strides], outputs, *of_rows)
    columns = merge_axes(column_extents, [line[split:] for line in strides], (), *of_columns)
    lines = tuple(a + b for a, b in zip(rows.strides, columns.strides))
    axes = rows.axes + tuple(tuple(a + split for a in group) for group in columns.axes)
    return MergedAxes(rows.extents + columns.extents, lines, axes), len(rows.extents)


def stride_kinds(extents: Sequence[int], strides: Sequence[int]) -> str:
    """A stride kind per axis: "0" broadcast, "1" contiguous (the last axis only), "s" a run-time stride."""
    last = len(extents) - 1
    return "".join(
        "0" if s == 0 else "1" if a == last and (s == 1 or extents[a] == 1) else "s" for a, s in enumerate(strides)
    )


def rank_stride_kind(strides: Sequence[int]) -> str:
    """How an array is strided along the ranks of a sort; "" if it does not vary there."""
    return "".join("1" if s == 1 else "s" for s in strides)


def is_one_line(extents: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether an array of these extents is contiguous along all of its axes together."""
    return tuple(strides) == tuple(prod(extents[a + 1 :]) for a in range(len(extents)))


def vector_width(dtypes: Sequence[DType], strides: Sequence[str]) -> int:
    """Elements of a vector: 16 bytes of the widest array that is contiguous along the last axis.

    Arrays that are read again and again (some stride is 0) count only where there is no other.
    """
    near = [(d, s) for d, s in zip(dtypes, strides) if s.endswith("1")]
    sizes = [d.itemsize for d, s in near if "0" not in s] or [d.itemsize for d, s in near]
    return ACCESS_BYTES // max(sizes) if sizes else 1


def contiguous_axis_access(
    merged: MergedAxes, dtypes: Sequence[DType], addresses: Sequence[int]
) -> list[tuple[int, Access]]:
    """For each operand of a matrix product (its contiguous axis, or -1; "vector" if every line along it begins at a
    multiple of 16 bytes and no stride is negative, else "element")."""
    choices: list[tuple[int, Access]] = []
    for d, line, address in zip(dtypes, merged.strides, addresses):
        axis = next((a for a in reversed(range(len(line))) if line[a] == 1), -1)
        others = [step for a, step in enumerate(line) if a != axis]
        whole = address % ACCESS_BYTES == 0 and all(s >= 0 and s * d.itemsize % ACCESS_BYTES == 0 for s in others)
        choices.append((axis, "vector" if axis >= 0 and whole else "element"))
    return choices


def row_access(
    collapsed: MergedAxes, row_axes: int, dtypes: Sequence[DType], addresses: Sequence[int], steady: bool = False
) -> tuple[Access, ...]:
    """The access of each operand of a row kernel; "vector" only where a row is a whole number of vectors.

    A short single row is split at its ends whether it has to be or not, unless it is to be `steady`.
    """
    extents = collapsed.extents
    lines = [stride_kinds(extents, line) for line in collapsed.strides]
    width = vector_width(dtypes, lines)
    everyone = range(len(dtypes))
    near = [k for k in everyone if lines[k].endswith("1")]
    if width == 1 or not near:
        return tuple("element" for _ in dtypes)
    whole, single = extents[-1] % width == 0, max(extents[:row_axes], default=1) == 1 and not steady
    vector = [k for k in near if whole and is_aligned(dtypes[k], lines[k], collapsed.strides[k], addresses[k], width)]
    seen = lines if not single else [line[row_axes:] for line in lines]  # of a single row nothing is read again
    anchor: list[int] = []
    if len(extents) == row_axes + 1:
        starts = {k: (addresses[k] // dtypes[k].itemsize, *collapsed.strides[k][:row_axes]) for k in near}
        anchor = max(_congruent(starts, width), key=lambda group: _bytes(group, seen, dtypes))
    most, anchored = _bytes(vector, seen, dtypes), _bytes(anchor, seen, dtypes)
    if most > anchored or (most == anchored and not (single and extents[-1] <= SHORT_ROW)):
        return tuple("vector" if k in vector else "element" for k in everyone)
    return tuple("peeled" if k in anchor else "element" for k in everyone)


def is_aligned(dtype: DType, line: str, strides: Sequence[int], address: int, width: int) -> bool:
    """Do vectors of this operand begin at multiples of their size (16 bytes at most)?"""
    size = min(ACCESS_BYTES, width * dtype.itemsize)
    others = zip(line[:-1], strides[:-1])
    return line[-1] == "1" and address % size == 0 and all(s * dtype.itemsize % size == 0 for _, s in others)


def _congruent(starts: Mapping[int, Sequence[int]], width: int) -> list[list[int]]:
    """Sets of operands that are off alignment by the same number of elements in every row; `starts` are the first
    element of each operand, and its strides along the row axes."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for k, offsets in starts.items():
        groups.setdefault(tuple(o % width for o in offsets), []).append(k)
    return list(groups.values())


def _bytes(group: Sequence[int], lines: Sequence[str], dtypes: Sequence[DType]) -> int:
    """Bytes an element of the arrays that are read or written in full."""
    return sum(dtypes[k].itemsize for k in group if "0" not in lines[k])


# -- vectors along a kept axis


def prefers_row_axis_vectors(collapsed: MergedAxes, row_axes: int, dtypes: Sequence[DType]) -> bool:
    """Do the arrays that are read or written in full lie along the last row axis rather than the last column axis?

    Decided by the bytes of an element on either side.
    """
    if not row_axes or collapsed.extents[row_axes - 1] == 1:
        return False
    side = 0
    for dtype, line in zip(dtypes, collapsed.strides):
        kept, folded = abs(line[row_axes - 1]), [abs(s) for s in line[row_axes:] if s]
        if folded and kept:
            side += dtype.itemsize if kept < min(folded) else -dtype.itemsize
    return side > 0


def row_axis_access(
    collapsed: MergedAxes,
    row_axes: int,
    dtypes: Sequence[DType],
    addresses: Sequence[int],
    words: int = 1,
    alone: int = -1,
) -> tuple[int, tuple[str, ...], tuple[Access, ...]]:
    """(elements of a vector along the last row axis, stride kinds and an access per operand).

    Vectors are at most 16 bytes. They are the widest in which most bytes of the arrays that lie along the axis can be
    accessed, if a thread can hold their states (`words` registers an element). The operand `alone` is the only array
    that element bodies read, in a kernel that stores nothing but reduced states; its vectors may be "shifted".
    """
    along, extent = row_axes - 1, collapsed.extents[row_axes - 1]
    lines = [
        "".join("0" if s == 0 else "1" if a == along and s == 1 else "s" for a, s in enumerate(line))
        for line in collapsed.strides
    ]
    near = [k for k, line in enumerate(lines) if line[along] == "1"]
    full = [k for k in near if set(lines[k][row_axes:]) != {"0"}]
    width = longest = ACCESS_BYTES // max((dtypes[k].itemsize for k in full), default=ACCESS_BYTES)
    while width > 1 and width * words > STATE_WORDS:
        width //= 2
    widest = width
    few = longest * words <= (PLACED_WORDS if words == PLACED else STATE_WORDS)
    while True:
        whole = [k for k in near if extent % width == 0 and _fits(k, along, width, collapsed, dtypes, addresses)]
        reached = sum(dtypes[k].itemsize for k in full if k in whole)
        if width < widest and few and _may_shift(full, alone, row_axes, longest, collapsed, dtypes):
            return longest, tuple(lines), tuple("shifted" if k == alone else "element" for k in range(len(dtypes)))
        if width == 1 or 2 * reached > sum(dtypes[k].itemsize for k in full):
            return width, tuple(lines), tuple("vector" if k in whole else "element" for k in range(len(dtypes)))
        width //= 2


def _may_shift(full: list[int], alone: int, row_axes: int, width: int, collapsed: MergedAxes, dtypes) -> bool:
    """Are the rows of the only array that varies long enough, and as far from 16 bytes in every so many columns?"""
    short = min(collapsed.extents[row_axes - 1 :]) < SHIFTED_FROM
    whole = width * dtypes[alone].itemsize == ACCESS_BYTES
    return full == [alone] and whole and len(collapsed.extents) == row_axes + 1 and not short


def _fits(k: int, along: int, width: int, collapsed: MergedAxes, dtypes, addresses) -> bool:
    """Do vectors of this operand along an axis begin at multiples of their size?"""
    size = min(ACCESS_BYTES, width * dtypes[k].itemsize)
    others = [s for a, s in enumerate(collapsed.strides[k]) if a != along]
    return addresses[k] % size == 0 and all(s * dtypes[k].itemsize % size == 0 for s in others)
