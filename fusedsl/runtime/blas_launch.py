"""Launches of GEMMs by NumPy's BLAS: views of the arrays at their addresses, and the loop over pieces of the work."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product as indices
from threading import current_thread
from typing import TYPE_CHECKING, Any

from ..ir.types import numpy_dtype
from ..kernel_ir.gemm import Gemm, GemmAxis
from . import thread_pool
from .argument_keys import numpy_data_offset
from .gemm_launch import GemmLaunch
from .interruptible_calls import is_abandoned
from .parameter_packing import BlockLayout

if TYPE_CHECKING:
    from numpy import ndarray

    Compute = Callable[[ndarray, ndarray, ndarray], Any]

SERIAL = 1 << 18  # multiply-adds of a product up to which BLAS uses one thread: the pool shares a batch of them
LONG = 1 << 28  # multiply-adds from which on the caller waits for a thread, and Ctrl-C ends the wait: 10 ms or more
PIECE = 1 << 33  # multiply-adds of a piece of the work, some tenths of a second on a core
GRAIN = 1 << 22  # multiply-adds of the least piece that a thread takes of a batch

# measured: EPYC 9004, NumPy 2.4: np.dot takes 0.5 µs for small matrices, np.matmul 1.0, and both take 0.5 more
# without warnings of NaN; setting the addresses of three views takes 0.15, making them 1.8.


@cache
def numpy_has_blas() -> bool:
    """Whether this NumPy was built with a BLAS; its own loops are slower than a kernel."""
    import numpy as np

    try:
        return bool(np.show_config(mode="dicts")["Build Dependencies"]["blas"]["found"])  # type: ignore[index]
    except (KeyError, TypeError):
        return False


class BlasLaunch(GemmLaunch):
    """One GEMM on the CPU by NumPy's BLAS: `run(addresses of left, right, out)` returns when it is done.

    Many threads may run it at once.
    """

    on_device = False
    library = "numpy"

    def __init__(self, product: Gemm, layout: BlockLayout) -> None:
        super().__init__(product, layout)
        self.compute = _pieces(product)
        self.is_long = product.multiply_adds > LONG
        self._free: list[_Views] = []

    def run(self, left: int, right: int, out: int) -> None:  # type: ignore[override]
        """Compute the product of the arrays at these addresses."""
        try:
            views = self._free.pop()
        except IndexError:
            views = _Views(self.product)
        views.move(left, right, out)
        try:
            self.compute(*views.arrays)
        finally:
            self._free.append(views)

    def fire(self, payloads: Sequence[Any], stream: int = 0) -> None:
        """Run to completion: payloads are, by argument, an address or a Python number."""
        self.run(*self.layout.pointers(payloads))


class _Views:
    """The arrays of one run: left [batch, rows, terms], right [batch, terms, columns], out [batch, rows, columns]."""

    def __init__(self, product: Gemm) -> None:
        rows, columns, terms = product.rows, product.columns, product.terms
        self.dtype = numpy_dtype(product.factor_dtype)
        self.forms = [
            self._form(product, "left", (rows, terms)),
            self._form(product, "right", (terms, columns)),
            self._form(product, "out", (rows, columns)),
        ]
        self.head = numpy_data_offset()
        self.cells: list[ctypes.c_uint64] = []
        self._at([0, 0, 0])

    def _form(self, product: Gemm, array: str, axes: Sequence[GemmAxis]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(shape, strides in bytes) of one array."""
        whole = (*product.batch, *axes)
        return tuple(a.extent for a in whole), tuple(getattr(a, array) * self.dtype.itemsize for a in whole)

    def _at(self, addresses: Sequence[int]) -> None:
        """Make the arrays, and the cells that hold their addresses."""
        import numpy as np

        self.arrays = [
            np.ndarray(shape, self.dtype, _memory(address or ctypes.addressof(_anywhere), shape, strides), 0, strides)
            for address, (shape, strides) in zip(addresses, self.forms)
        ]
        if self.head is not None:
            self.cells = [ctypes.c_uint64.from_address(id(array) + self.head) for array in self.arrays]

    def move(self, left: int, right: int, out: int) -> None:
        """Let the arrays lie at these addresses."""
        if self.cells:
            a, b, c = self.cells
            a.value, b.value, c.value = left, right, out
        else:
            self._at([left, right, out])


_anywhere = (ctypes.c_uint64 * 2)()


def _memory(address: int, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """The memory at an address that an array of this shape and these strides takes."""
    reach = 1 + sum((n - 1) * step for n, step in zip(shape, strides)) if 0 not in shape else 0
    return (ctypes.c_char * (reach + 7)).from_address(address)


def _pieces(product: Gemm) -> Compute:
    """f(left, right, out) that computes the product in pieces, each short enough for an interrupt to wait for."""
    if product.multiply_adds > PIECE:
        return _panels(product)
    if product.batch:
        return _shared_batch(product) if product.multiply_adds <= SERIAL else _batch_in_turn(product)
    rows, columns = product.rows, product.columns
    if columns.out == 1 and rows.out == columns.extent:
        return _silent("dot")
    if rows.out == 1 and columns.out == rows.extent:
        dot = _silent("dot")
        return lambda left, right, out: dot(right.T, left.T, out.T)
    return _silent("matmul")


def _panels(product: Gemm) -> Compute:
    """f(left, right, out) that computes some rows after the other."""
    matmul, panel = _silent("matmul"), max(1, PIECE // (product.columns.extent * product.terms.extent))

    def run(left: ndarray, right: ndarray, out: ndarray) -> None:
        for at in indices(*(range(axis.extent) for axis in product.batch)):
            for begin in range(0, product.rows.extent, panel):
                if is_abandoned(current_thread()):
                    return
                rows = slice(begin, begin + panel)
                matmul(left[at][rows], right[at], out[at][rows])

    return run


def _batch_in_turn(product: Gemm) -> Compute:
    """f(left, right, out) that computes some products after the others, each on the threads of the BLAS."""
    matmul, count = _silent("matmul"), product.batch[0].extent
    step = max(1, PIECE * count // (product.multiply_adds * product.batch_count))

    def run(left: ndarray, right: ndarray, out: ndarray) -> None:
        for begin in range(0, count, step):
            if is_abandoned(current_thread()):
                return
            some = slice(begin, begin + step)
            matmul(left[some], right[some], out[some])

    return run


def _shared_batch(product: Gemm) -> Compute:
    """f(left, right, out) for a batch of small products, which the threads of the pool share."""
    matmul, count = _silent("matmul"), product.batch[0].extent
    grain = max(1, GRAIN * count // (product.multiply_adds * product.batch_count))

    def run(left: ndarray, right: ndarray, out: ndarray) -> None:
        def piece(_: int, begin: int, end: int) -> None:
            matmul(left[begin:end], right[begin:end], out[begin:end])

        thread_pool.run(piece, 0, count, grain)

    return run


@cache
def _silent(name: str) -> Callable[..., Any]:
    """NumPy's function of this name without warnings of NaN and infinities."""
    import numpy as np

    return np.errstate(all="ignore")(getattr(np, name))
