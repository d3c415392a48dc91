"""Sorts of rows in memory by NumPy's own vectorised sort: a stage of a launch on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.cpu.work import LibrarySort

if TYPE_CHECKING:
    from numpy import ndarray

NARROW = 2  # bytes of integers that NumPy sorts fastest by their digits, which is its stable sort


def sort_stage(sort: LibrarySort, workspace: int) -> Callable[[int, int, int], None]:
    """f(address of a parameter block, first row, end): sorts rows of the operand, or of the workspace in that slot."""
    import numpy as np

    dtype = np.dtype(sort.dtype)
    slot, size = workspace if sort.operand < 0 else sort.operand, sort.columns * dtype.itemsize

    def run(slots: int, begin: int, end: int) -> None:
        address = ctypes.c_int64.from_address(slots + 8 * slot).value + begin * size
        order(np.asarray(_Memory(address, (end - begin, sort.columns), dtype.str)), sort.descending)

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


def _rows_with_negative_zeros(rows: ndarray) -> Sequence[int]:
    """Rows of floats with a -0.0, whose bits are the least integer."""
    import numpy as np

    if rows.dtype.kind != "f":
        return ()
    words = rows.view(f"i{rows.dtype.itemsize}")
    least = np.iinfo(words.dtype).min
    return np.flatnonzero(words.min(axis=-1) == least).tolist() if words.min() == least else ()
