"""Transpose tiles of two axes: loads and stores along one of them, or along the other through shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.types import DType, dtype
from ..compiler.numba_backend import I32, I64, Emitter, emitted, ir, numba_type, types
from ..tile.element_registers import stored_type
from ..tile.memory import ACCESS_BYTES, ld_shared, load_vector, st_shared, store_vector
from ..tile.tile import Tile
from ..tile.valid_elements import ValidElements
from .transpose_addresses import clamp_row, element_of_word, join_elements, offset_address

SWIZZLED = 8  # chunks of a row of shared memory that change places: 128 bytes, all of its banks
WARP = 32


@dataclass(frozen=True)
class TransposeTile:
    """`edge` × `edge` elements on `threads` threads; each holds vectors of `width` columns, in rows `step` apart.

    `rows` and `columns` of its calls (int32) count what is there of the tile: at least one, at most `edge`. Loads
    beyond read the last element there is; stores beyond write nothing. Strides are int64, in elements.
    """

    edge: int
    width: int
    threads: int

    @property
    def vectors(self) -> int:
        return self.edge * self.edge // (self.width * self.threads)

    @property
    def step(self) -> int:
        return self.threads * self.width // self.edge

    # -- along the columns

    def load(self, name: str, stride_kind: str) -> Callable:
        """`load(base, row_stride, column_stride, rows, columns)`: a tile of these elements.

        `stride_kind` is the stride of neighbouring columns: "1" for aligned vectors, "s", or "0".
        """
        kind = dtype(name)
        result = stored_type(kind, self.width * self.vectors, self.width)
        tile = Tile(self.width, 1, ".")

        @emitted(result)
        def emit(e, base, row_stride, column_stride, rows, columns):
            b = e.builder
            row, column = self._first_vector(e)
            elements = []
            for number in range(self.vectors):
                at = clamp_row(b, b.add(row, I32(number * self.step)), rows, 1)
                line = offset_address(b, base, at, row_stride, kind)
                if stride_kind == "1":
                    starts = [offset_address(b, line, clamp_row(b, column, columns, self.width), I64(1), kind)]
                elif stride_kind == "0":
                    starts = [line]
                else:
                    each = [clamp_row(b, b.add(column, I32(k)), columns, 1) for k in range(self.width)]
                    starts = [offset_address(b, line, at, column_stride, kind) for at in each]
                elements += tile.load_vector(e, kind, stride_kind, starts, None)
            return e.pack(result, elements)

        return emit

    def store(self, name: str, stride_kind: str) -> Callable:
        """`store(base, row_stride, column_stride, rows, columns, values)`: the inverse of load."""
        kind = dtype(name)
        tile = Tile(self.width, self.vectors, ".")

        @emitted(types.void)
        def emit(e, at, row_step, column_step, row_count, column_count, tiles, *, kinds):
            b = e.builder
            row, column = self._first_vector(e)
            elements = tile.narrowed(e, kind, tiles, kinds[5])
            size = len(elements) // self.vectors
            for number in range(self.vectors):
                here = b.add(row, I32(number * self.step))
                there = b.icmp_signed("<", here, row_count)
                room = ValidElements(b.select(there, b.sub(column_count, column), I32(0)), partial=stride_kind != "1")
                line = offset_address(b, at, here, row_step, kind)
                starts = [offset_address(b, line, b.add(column, I32(k)), column_step, kind) for k in range(self.width)]
                part = elements[number * size : (number + 1) * size]
                tile.store_vector(e, kind, stride_kind, starts[:1] if stride_kind == "1" else starts, part, room)

        return emit

    @emitted(lambda self, name: types.UniTuple(numba_type(name), self.width * self.vectors))
    def positions(self, e, origin, *, name: str, along: bool):
        """`positions(origin)`: the column, or the row, of each element."""
        b, (row, column), positions = e.builder, self._first_vector(e), []
        for number in range(self.vectors):
            for k in range(self.width):
                step = b.add(column, I32(k)) if along else b.add(row, I32(number * self.step))
                positions.append(e.cast(b.add(origin, b.sext(step, I64)), types.int64, numba_type(name)))
        return positions

    def _first_vector(self, e: Emitter) -> tuple[ir.Value, ir.Value]:
        """The row of a thread's first vector, and the column where its vectors begin."""
        b, across = e.builder, self.edge // self.width
        thread = e.special_register("tid.x")
        column = b.mul(b.and_(thread, I32(across - 1)), I32(self.width))
        return b.lshr(thread, I32(across.bit_length() - 1)), column

    # -- across them

    def via_smem(self, name: str, vectorized: bool) -> SmemTranspose:
        """Accesses of an array that is contiguous along the rows' axis, if `vectorized` in vectors of 16 bytes."""
        return SmemTranspose(self, dtype(name), vectorized)


@dataclass(frozen=True)
class SmemTranspose:
    """An array whose columns are contiguous. A thread reads or writes `length` elements of `group` columns at once;
    those that are not `vectorized` one by one, by neighbouring threads.

    In shared memory it stands row by row. The chunks of 16 bytes of a row change places by the row's number, so that
    both a warp's words of one column group and its vectors of one row fall into different banks.
    """

    patch: TransposeTile
    kind: DType
    vectorized: bool

    @property
    def size(self) -> int:
        return self.kind.itemsize

    @property
    def group(self) -> int:
        """Columns whose elements of one row are a word of shared memory."""
        return max(1, 4 // self.size)

    @property
    def length(self) -> int:
        if not self.vectorized:
            return 1
        return min(ACCESS_BYTES // self.size, self.patch.edge**2 // (self.patch.threads * self.group))

    @property
    def bits(self) -> DType:
        """The element as an unsigned integer."""
        return dtype(f"uint{8 * self.size}")

    @property
    def word(self) -> DType:
        return dtype("uint64" if self.size == 8 else "uint32")

    @property
    def register_type(self) -> types.UniTuple:
        count = self.patch.edge**2 // (self.patch.threads * self.group)
        return types.UniTuple(getattr(types, self.word.name), count)

    @emitted(lambda self: self.register_type)
    def load(self, e, base, column_stride, rows, columns):
        """`fetch(base, column_stride, rows, columns)`: this thread's share of the tile, as words for shared memory."""
        b, elements = e.builder, []
        for row, column in self._positions(e):
            lines = []
            for k in range(self.group):
                at = clamp_row(b, b.add(column, I32(k)), columns, 1)
                line = offset_address(b, base, at, column_stride, self.kind)
                lines.append(self._read(e, line, row, rows))
            elements += [join_elements(b, self.size, [line[j] for line in lines]) for j in range(self.length)]
        return e.pack(self.register_type, elements)

    @emitted(types.void)
    def store_smem(self, e, shared, packed):
        """`store_smem(shared, packed)`: store the fetched tile to shared memory."""
        words = e.unpack(packed, len(self.register_type))
        for number, (row, column) in enumerate(self._positions(e)):
            for j in range(self.length):
                at = self._shared(e, shared, e.builder.add(row, I32(j)), column)
                st_shared(e, self.word, 1, at, [words[number * self.length + j]])

    @emitted(lambda self: stored_type(self.kind, self.patch.width * self.patch.vectors, self.patch.width))
    def load_smem(self, e, shared):
        """`load_smem(shared)`: load the thread's tile from shared memory."""
        elements: list[ir.Value] = []
        for row, column, width in self._pieces(e):
            elements += ld_shared(e, self.kind, width, self._shared(e, shared, row, column))
        return elements

    @emitted(types.void)
    def store_results(self, e, shared, values, *, kinds):
        """`store_results(shared, values)`: store a tile of results to shared memory."""
        patch, kind = self.patch, self.kind
        tile = Tile(patch.width, patch.vectors, ".")
        elements = tile.narrowed(e, kind, values, kinds[1])
        pieces = self._pieces(e)
        size = len(elements) // len(pieces)
        for number, (row, column, width) in enumerate(pieces):
            part = elements[number * size : (number + 1) * size]
            st_shared(e, kind, width, self._shared(e, shared, row, column), part)

    @emitted(types.void)
    def store(self, e, shared, base, column_stride, rows, columns):
        """`store(shared, base, column_stride, rows, columns)`: store the results from shared memory to the array."""
        b = e.builder
        for row, column in self._positions(e):
            words = []
            for j in range(self.length):
                at = self._shared(e, shared, b.add(row, I32(j)), column)
                words.append(ld_shared(e, self.word, 1, at)[0])
            for k in range(self.group):
                here = b.add(column, I32(k))
                line = offset_address(b, base, here, column_stride, self.kind)
                room = b.select(b.icmp_signed("<", here, columns), b.sub(rows, row), I32(0))
                self._write(e, line, row, [element_of_word(b, self.size, self.group, word, k) for word in words], room)

    def _positions(self, e: Emitter) -> list[tuple[ir.Value, ir.Value]]:
        """(first row, first column) of each piece of `length` rows and `group` columns that a thread moves."""
        b, edge = e.builder, self.patch.edge
        down = min(SWIZZLED if self.vectorized else WARP, edge // self.length)  # lanes of a warp along the rows
        beside = WARP // down
        tall = edge // (self.length * down)  # pieces of a warp along the rows
        thread = e.special_register("tid.x")
        lane, warp = b.and_(thread, I32(WARP - 1)), b.lshr(thread, I32(5))
        pieces = []
        for number in range(edge * edge // (self.length * self.group * self.patch.threads)):
            piece = b.add(warp, I32(number * self.patch.threads // WARP))
            row = b.add(b.mul(b.and_(piece, I32(tall - 1)), I32(down)), b.and_(lane, I32(down - 1)))
            column = b.mul(b.lshr(piece, I32(tall.bit_length() - 1)), I32(beside))
            column = b.add(column, b.lshr(lane, I32(down.bit_length() - 1)))
            pieces.append((b.mul(row, I32(self.length)), b.mul(column, I32(self.group))))
        return pieces

    def _pieces(self, e: Emitter) -> list[tuple[ir.Value, ir.Value, int]]:
        """(row, first column, columns) of each access of a thread's vectors to shared memory, 16 bytes at most."""
        b, patch = e.builder, self.patch
        row, column = patch._first_vector(e)
        width = min(patch.width, ACCESS_BYTES // self.size)
        return [
            (b.add(row, I32(number * patch.step)), b.add(column, I32(begin)), width)
            for number in range(patch.vectors)
            for begin in range(0, patch.width, width)
        ]

    def _shared(self, e: Emitter, shared: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
        """Where an element stands in shared memory."""
        b = e.builder
        line = self.patch.edge * self.size
        byte = b.mul(column, I32(self.size))
        turn = b.and_(b.udiv(row, I32(self.length)), I32(min(SWIZZLED, line // ACCESS_BYTES) - 1))
        offset = b.add(b.mul(row, I32(line)), b.xor(byte, b.mul(turn, I32(ACCESS_BYTES))))
        return b.add(shared, b.zext(offset, I64))

    def _read(self, e: Emitter, line: ir.Value, row: ir.Value, rows: ir.Value) -> list[ir.Value]:
        at = offset_address(e.builder, line, clamp_row(e.builder, row, rows, self.length), I64(1), self.kind)
        return load_vector(e, self.bits, self.length, at, None)

    def _write(self, e: Emitter, line: ir.Value, row: ir.Value, values: list[ir.Value], room: ir.Value) -> None:
        store_vector(
            e,
            self.bits,
            self.length,
            offset_address(e.builder, line, row, I64(1), self.kind),
            values,
            ValidElements(room),
        )
