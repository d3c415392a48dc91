"""Rows of a block's finished tile: each thread has vectors of neighbouring columns, for wide loads and stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.types import DType, dtype
from ..compiler.numba_backend import I32, I64, Emitter, emitted, ir, numba_type, types
from ..tile.element import narrowed_value, pair, paired, stored_elements
from ..tile.element_registers import stored_type
from ..tile.memory import ACCESS_BYTES, ld_shared, load_vector, store_vector
from ..tile.valid_elements import ValidElements
from .tile_shapes import RowVectorShape

i32, i64 = types.int32, types.int64


@dataclass(frozen=True)
class RowVectors(RowVectorShape):
    """A thread's vectors: `vectors` of the same `width` columns, in different rows."""

    @property
    def count(self) -> int:
        """Elements of a thread."""
        return self.width * self.vectors

    def first_row(self) -> Callable:
        """`first_row()`: the first row of a thread."""
        return emitted(i32)(lambda e: e.builder.udiv(e.special_register("tid.x"), I32(self.threads_per_row)))

    @emitted(i64)
    def first_column(self, e):
        """`first_column()`: the first column of a thread's vectors."""
        b = e.builder
        return b.zext(b.mul(b.urem(e.special_register("tid.x"), I32(self.threads_per_row)), I32(self.width)), I64)

    @emitted(lambda self: types.UniTuple(i64, self.vectors))
    def rows_from(self, e, row, *, kinds):
        """`rows_from(row)`: the rows of a thread's vectors."""
        first = e.cast(row, kinds[0], i64)
        return [e.builder.add(first, I64(k * self.row_stride)) for k in range(self.vectors)]

    def load(self, name: str, stride_kind: str = "1") -> Callable:
        """`load(addresses, in_bounds, valid[, step])`: elements of an operand, as they are stored; 0 out of bounds.

        `addresses` are those of each vector's first element, `in_bounds` whether its row exists, `valid` the columns
        that exist from there on. `stride_kind` is the stride of columns: "1", "s" for `step` bytes, "0" for one element
        for each row.
        """
        kind = dtype(name)
        result = stored_type(kind, self.count, self.width)

        @emitted(result, 4 if stride_kind == "s" else 3)
        def emit(e, addresses, in_bounds, valid, step=None, *, kinds):
            elements: list[ir.Value] = []
            for address, predicate in self._valid_elements(e, (addresses, in_bounds, valid), kinds):
                if stride_kind == "1":
                    elements += load_vector(e, kind, self.width, address, predicate)
                elif stride_kind == "0":
                    elements += paired(
                        e, kind, load_vector(e, kind, 1, address, self._single(e, predicate, 0)) * self.width
                    )
                else:
                    element_addresses = self._strided(e, address, e.cast(step, kinds[3], i64))
                    one = [
                        load_vector(e, kind, 1, at, self._single(e, predicate, k))[0]
                        for k, at in enumerate(element_addresses)
                    ]
                    elements += paired(e, kind, one)
            return e.pack(result, elements)

        return emit

    @emitted(types.void, lambda stride_kind: 5 if stride_kind == "s" else 4)
    def store(self, e, *args, kinds, name: str, stride_kind: str = "1"):
        """`store(addresses, values, in_bounds, valid[, step])`: the inverse of load."""
        kind = dtype(name)
        addresses, values, in_bounds, valid, *step = args
        elements = self._narrowed(e, kind, values, kinds[1])
        valid_elements = self._valid_elements(e, (addresses, in_bounds, valid), (kinds[0], *kinds[2:]))
        for number, (address, predicate) in enumerate(valid_elements):
            vector = elements[number * self.width : (number + 1) * self.width]
            if stride_kind == "1":
                store_vector(e, kind, self.width, address, _stored(e, kind, vector), predicate)
                continue
            targets = self._strided(e, address, e.cast(step[0], kinds[4], i64)) if stride_kind == "s" else [address]
            for k, (at, one) in enumerate(zip(targets, stored_elements(e, kind, vector))):
                store_vector(e, kind, 1, at, [one], self._single(e, predicate, k))

    def _valid_elements(self, e: Emitter, args: tuple, kinds: tuple) -> list[tuple[ir.Value, ValidElements]]:
        """(the address of each vector, its valid elements)."""
        addresses, in_bounds, valid = args
        count = e.cast(valid, kinds[2], i32)
        pairs = zip(self._each(e, addresses, kinds[0]), self._each(e, in_bounds, kinds[1]))
        select = e.builder.select
        return [(at, ValidElements(select(flag, count, I32(0)), None, self.partial)) for at, flag in pairs]

    def _each(self, e: Emitter, value: ir.Value, arg_type: types.Type) -> list[ir.Value]:
        """A value for each vector."""
        return e.unpack(value, self.vectors) if isinstance(arg_type, types.BaseTuple) else [value] * self.vectors

    def _single(self, e: Emitter, predicate: ValidElements, k: int) -> ValidElements:
        return ValidElements(e.builder.zext(predicate.has(e.builder, k), I32))

    def _strided(self, e: Emitter, address: ir.Value, step: ir.Value) -> list[ir.Value]:
        return [e.builder.add(address, e.builder.mul(step, I64(k))) for k in range(self.width)]

    def _narrowed(self, e: Emitter, kind: DType, values: ir.Value, arg_type: types.Type) -> list[ir.Value]:
        """An element's value for each of a thread's elements, in the compute type of an array's elements."""
        several = isinstance(arg_type, types.BaseTuple)
        elements = e.unpack(values, len(arg_type)) if several else [values]
        source = arg_type.dtype if several else arg_type
        return [narrowed_value(e, kind, v, source) for v in elements * (self.count // len(elements))]

    # -- values of rows, columns and accumulators

    @emitted(lambda self, name: types.UniTuple(numba_type(name), self.count))
    def broadcast_rows(self, e, values, *, kinds, name: str):
        """`broadcast_rows(values)`: the values of a thread's rows, by element."""
        rows = [e.cast(v, kinds[0].dtype, numba_type(name)) for v in e.unpack(values, self.vectors)]
        return [row for row in rows for _ in range(self.width)]

    @emitted(lambda self, name: types.UniTuple(numba_type(name), self.count))
    def column_positions(self, e, first, *, kinds, name: str):
        """`column_positions(first)`: the indices of a vector's columns, by element."""
        columns = [e.builder.add(e.cast(first, kinds[0], i64), I64(k)) for k in range(self.width)]
        return [e.cast(c, i64, numba_type(name)) for c in columns] * self.vectors

    @emitted(lambda self, name: types.UniTuple(numba_type(name), self.count))
    def load_accumulators(self, e, tile, row, *, kinds, name: str, pitch: int):
        """`load_accumulators(tile, row)`: a thread's accumulators of a tile in shared memory."""
        kind = dtype(name)
        b, size = e.builder, kind.itemsize
        column = b.mul(b.urem(e.special_register("tid.x"), I32(self.threads_per_row)), I32(self.width))
        index = b.add(b.mul(e.cast(row, kinds[1], i32), I32(pitch)), column)
        start = b.add(e.cast(tile, kinds[0], i32), b.mul(index, I32(size)))
        width, accumulators = min(self.width, ACCESS_BYTES // size), list[ir.Value]()
        for number in range(self.vectors):
            for k in range(0, self.width, width):
                offset = (number * self.row_stride * pitch + k) * size
                accumulators += ld_shared(e, kind, width, b.add(start, I32(offset)))
        return accumulators


def _stored(e: Emitter, kind: DType, values: list[ir.Value]) -> list[ir.Value]:
    """A vector's values as `store_vector` takes them."""
    if kind.kind == "f" and kind.bits == 16 and len(values) % 2 == 0:
        return [pair(e, kind, *values[k : k + 2]) for k in range(0, len(values), 2)]
    return stored_elements(e, kind, values)
