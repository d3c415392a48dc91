"""Sorts of rows in memory by NumPy's own vectorised sort: a stage of a launch on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.cpu.launch_stages import LibrarySort

if TYPE_CHECKING:
    from numpy import ndarray

FIRST_PIECE = 16  # elements for each of the best that are sorted first
NARROW = 2  # bytes of integers that NumPy sorts fastest by their digits, which is its stable sort


def sort_stage(sort: LibrarySort, workspace: int) -> Callable[[int, int, int], None]:
    """f(address of a parameter block, first row, end): sorts rows of the operand, or of the workspace in that slot."""
    import numpy as np

    dtype = np.dtype(sort.dtype)
    slot, size = workspace if sort.operand < 0 else sort.operand, sort.columns * dtype.itemsize

    def run(slots: int, begin: int, end: int) -> None:
        address = ctypes.c_int64.from_address(slots + 8 * slot).value + begin * size
        rows = np.asarray(_Memory(address, (end - begin, sort.columns), dtype.str))
        if not sort.count:
            order(rows, sort.descending)
            return
        memory, shape = address - begin * size, (end - begin, sort.count)
        best = np.asarray(_Memory(memory + sort.best + begin * sort.count * dtype.itemsize, shape, dtype.str))
        positions = np.asarray(_Memory(memory + sort.positions + begin * sort.count * 8, shape, "<i8"))
        for k, row in enumerate(rows):
            positions[k] = select(row, sort.count, sort.descending)
            best[k] = row[positions[k]]

    return run


class _Memory:
    """Memory at an address as an array of this shape: it has a lifetime of its own."""

    def __init__(self, address: int, shape: tuple[int, ...], kind: str) -> None:
        self.__array_interface__: dict[str, Any] = {"data": (address, False), "shape": shape, "typestr": kind}
        self.__array_interface__["version"] = 3


def order(rows: ndarray, descending: bool) -> None:
    """Sort rows in place: NaN is larger than every number, zeros of both signs keep their order."""
    import numpy as np

    zeros = [(k, rows[k][rows[k] == 0]) for k in _rows_with_negative_zeros(rows)]
    rows.sort(axis=-1, kind="stable" if rows.dtype.itemsize <= NARROW else None)
    for k, before in zeros:
        first = int(np.searchsorted(rows[k], 0.0))
        rows[k][first : first + len(before)] = before[::-1] if descending else before
    if descending:
        rows[...] = rows[:, ::-1].copy()


def select(row: ndarray, count: int, descending: bool) -> ndarray:
    """The positions of the first elements in stable order: what precedes the last of the best so far is gathered from
    longer and longer pieces of the row, and the best of it taken."""
    import numpy as np

    columns = np.arange(min(len(row), FIRST_PIECE * count))
    begin = len(columns)
    while True:
        gathered = row[columns]
        rank = len(columns) - count if descending else count - 1
        last = np.partition(gathered, rank)[rank]
        before = _preceding(gathered, last, descending)
        same = np.flatnonzero(gathered != gathered if last != last else gathered == last)
        selected = np.concatenate((np.flatnonzero(before), same[: count - np.count_nonzero(before)]))
        columns = columns[np.sort(selected)]
        if begin >= len(row):
            return columns[_stable_order(row[columns], descending)]
        piece = row[begin : 2 * begin]
        columns = np.concatenate((columns, begin + np.flatnonzero(_preceding(piece, last, descending))))
        begin += len(piece)


def _preceding(x: ndarray, last: Any, descending: bool) -> ndarray:
    """Which elements come before this one in order."""
    if last != last:  # NaN: the largest
        return (x == x) & (not descending)
    return ~(x <= last) if descending else x < last


def _stable_order(x: ndarray, descending: bool) -> ndarray:
    """The positions of elements in order, NaN as the largest number, the lower ones first among equals."""
    if not descending:
        return x.argsort(kind="stable")
    return len(x) - 1 - x[::-1].argsort(kind="stable")[::-1]


def _rows_with_negative_zeros(rows: ndarray) -> Sequence[int]:
    """Rows of floats with a -0.0, whose bits are the least integer."""
    import numpy as np

    if rows.dtype.kind != "f":
        return ()
    words = rows.view(f"i{rows.dtype.itemsize}")
    least = np.iinfo(words.dtype).min
    return np.flatnonzero(words.min(axis=-1) == least).tolist() if words.min() == least else ()
