"""Split-K reduction: partial sums of a tile in global memory, which the last-arriving CTA adds in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ....ir.types import DType, dtype
from ..compiler.numba_backend import I32, I64, Emitter, emitted, ir, types
from ..tile.loops import looped
from ..tile.memory import ACCESS_BYTES, ld_shared, load_vector, st_shared, store_vector
from ..tile.valid_elements import ValidElements

i32, i64 = types.int32, types.int64


def store_accumulators(name: str, shape: tuple[int, int], pitch: int, threads: int) -> Callable:
    """`store(address, at)`: store the accumulators of a block to an address in global memory.

    They are a matrix of this shape, at `at` in shared memory with `pitch` elements from row to row.
    """
    kind = dtype(name)

    @emitted(types.void)
    def emit(e, address, at, *, kinds):
        width = ACCESS_BYTES // kind.itemsize
        with _vectors(e, kind, shape, pitch, threads) as (offset, part_offset):
            values = ld_shared(e, kind, width, e.builder.add(e.cast(at, kinds[1], i32), offset))
            store_vector(e, kind, width, e.builder.add(address, part_offset), values, None)

    return emit


def add_split_accumulators(name: str, shape: tuple[int, int], pitch: int, threads: int, splits: int) -> Callable:
    """`add(at, address)`: add the accumulators of `splits` blocks in order, and store the result to shared memory.

    They follow each other from the address on.
    """
    kind = dtype(name)

    @emitted(types.void)
    def emit(e, at, address, *, kinds):
        b, width, bytes = e.builder, ACCESS_BYTES // kind.itemsize, shape[0] * shape[1] * kind.itemsize
        with _vectors(e, kind, shape, pitch, threads) as (offset, part_offset):
            parts = [_load(e, kind, b.add(address, b.add(part_offset, I64(k * bytes)))) for k in range(splits)]
            add, total = b.fadd if kind.kind == "f" else b.add, parts[0]
            for part in parts[1:]:
                total = [add(x, y) for x, y in zip(total, part)]
            st_shared(e, kind, width, b.add(e.cast(at, kinds[0], i32), offset), total)

    return emit


def _load(e: Emitter, kind: DType, address: ir.Value) -> list[ir.Value]:
    """16 bytes that another block has written, of what is read once: behind the fence of its arrival."""
    return load_vector(e, kind, ACCESS_BYTES // kind.itemsize, address, ValidElements(I32(1)))


@contextmanager
def _vectors(
    e: Emitter, kind: DType, shape: tuple[int, int], pitch: int, threads: int
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """A loop over a thread's vectors of 16 bytes: offsets in shared memory (int32), and where rows have no gaps."""
    b, across = e.builder, shape[1] * kind.itemsize // ACCESS_BYTES
    end = I32(shape[0] * across)
    with looped(e, [e.special_register("tid.x")], lambda k: b.icmp_unsigned("<", k, end)) as ((k,), next_state):
        row, vector = b.udiv(k, I32(across)), b.urem(k, I32(across))
        offset = b.add(b.mul(row, I32(pitch * kind.itemsize)), b.mul(vector, I32(ACCESS_BYTES)))
        yield offset, b.zext(b.mul(k, I32(ACCESS_BYTES)), I64)
        next_state.append(b.add(k, I32(threads)))
