"""Tile: the elements that a thread holds, with loads, stores and elementwise functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.types import BOOL, INT64, UINT64, DType, dtype
from ..compiler.numba_backend import I8, I32, I64, Emitter, emitted, intrinsic, ir, numba_type, types
from ..math import convert, philox
from .element import narrowed_value, pair, paired, stored_elements, unpaired
from .element_registers import is_packed, stored_type
from .memory import (
    ACCESS_BYTES,
    copy,
    ld_shared,
    load_predicated,
    load_unaligned,
    load_vector,
    store_vector,
)
from .scalar_functions import scalar_function, scalar_types
from .smem_address import thread_vector_at
from .valid_elements import ValidElements
from .vector_layout import VectorLayout


@dataclass(frozen=True)
class Tile(VectorLayout):
    """Loads, stores and elementwise functions on all elements of a thread."""

    def load(self, name: str, stride_kind: str = "1", displacement: int = 0, alignment: int = 0) -> Callable:
        """`load(address, start, limit[, stride])`: elements start … of a line, whose element 0 is at `address`.

        `start` may be a tuple: at edges (see Vectors) of the index of each vector in the line, else of its offset, in
        elements, unchecked. `stride_kind` is that of neighbours: "1", "0" (one element for a vector) or "s", read
        `displacement` bytes further (each there a multiple of `alignment` bytes, if it is more than an element's), or
        "m" for vectors that are not aligned. With "c" vectors lie across a column:
        `start` and `limit` count vectors, `stride` of start's type parts them; beyond is the last, with "o" the first.
        """
        kind, further = dtype(name), I64(displacement)
        result = stored_type(kind, self.count, self.width)

        @emitted(result, 4 if stride_kind in "sco" else 3)
        def emit(e, address, start, limit, stride=None, *, kinds):
            elements = []
            if stride_kind in "co":
                for begin in self.column_addresses(e, kind, address, start, stride, limit, stride_kind == "o"):
                    elements += load_vector(e, kind, self.width, begin, None)
                return e.pack(result, elements)
            for number in range(self.vectors):
                room = self.valid(e, kinds[1], start, limit, number)
                if stride_kind == "m":
                    first = 0 if self.step else number
                    base = self.addresses(e, kind, stride_kind, address, self.begin(e, kinds[1], start, first), None)[0]
                    elements += load_unaligned(e, kind, self.width, base, number * self.step * kind.itemsize, room)
                    continue
                addresses = self.addresses(
                    e, kind, stride_kind, address, self.begin(e, kinds[1], start, number), stride
                )
                if alignment and room is None and stride_kind == "0":
                    elements += self.load_aligned(e, kind, addresses[0], displacement, alignment)
                    continue
                addresses = [e.builder.add(at, further) for at in addresses] if displacement else addresses
                elements += self.load_vector(e, kind, stride_kind, addresses, room)
            return e.pack(result, elements)

        return emit

    def copy_async(self, name: str, threads: int, offset: int) -> Callable:
        """`copy_async(address, start, limit, at)`: start to copy a tile to `at` + `offset` in shared memory.

        Vectors of the block's `threads` lie side by side; of more, those of one group, the same for all groups.
        Elements that do not exist become 0.
        """
        kind = dtype(name)

        @emitted(types.void)
        def emit(e, address, start, limit, at, *, kinds):
            size = self.width * kind.itemsize
            for number in range(self.vectors):
                room = self.valid(e, kinds[1], start, limit, number)
                source = self.addresses(e, kind, "1", address, self.begin(e, kinds[1], start, number), None)[0]
                target = thread_vector_at(e, at, offset + number * threads * size, size, threads)
                copy(e, target, source, size, room, kind)

        return emit

    @emitted(lambda self, name: stored_type(dtype(name), self.count, self.width))
    def load_shared(self, e, at, *, name: str, threads: int, offset: int):
        """`load_shared(at)`: the tile that `copy_async` left there, as `load` gives it."""
        kind = dtype(name)
        elements, size = [], self.width * kind.itemsize
        for number in range(self.vectors):
            where = thread_vector_at(e, at, offset + number * threads * size, size, threads)
            elements += ld_shared(e, kind, self.width, where)
        return elements

    def store(self, name: str, stride_kind: str = "1") -> Callable:
        """`store(address, begins, values, start, limit[, stride])`: the inverse of load.

        `begins` is `start`, or a tuple with the offset of each vector.
        """
        kind = dtype(name)

        def rule(address, begins, values, start, limit, *stride):
            def emit(e, at, offsets, tile, first, last, step=None):
                elements = self.narrowed(e, kind, tile, values)
                per_vector = len(elements) // self.vectors
                across = self.column_addresses(e, kind, at, first, step) if stride_kind == "c" else []
                for number in range(self.vectors):
                    room = self.valid(e, start, first, last, number)
                    part = elements[number * per_vector : (number + 1) * per_vector]
                    if stride_kind == "c":
                        store_vector(e, kind, self.width, across[number], part, room)
                        continue
                    addresses = self.addresses(e, kind, stride_kind, at, self.begin(e, begins, offsets, number), step)
                    self.store_vector(e, kind, stride_kind, addresses, part, room)

            return types.void, emit

        return intrinsic(6 if stride_kind in "sc" else 5)(rule)

    def elementwise(self, signature: str) -> Callable[[Callable], Callable]:
        """Decorator: a scalar function over tiles and, alike for all vectors, single vectors, or for all elements,
        scalars.

        The function is typed and lowered once; a result is a tile, or a tuple of them.
        """

        def wrap(function: Callable) -> Callable:
            body = scalar_function(signature, function)
            arguments, _ = scalar_types(signature)
            tiles = [types.UniTuple(kind, self.count) for kind in body.results]
            result = tiles[0] if len(tiles) == 1 else types.Tuple.from_types(tiles)

            @emitted(result, len(arguments))
            def emit(e, *values, kinds):
                columns = [
                    self.widened(e, d, value, kind, want)
                    for d, value, kind, want in zip(arguments, values, kinds, body.arguments)
                ]
                rows = [body.emit(e, [column[k] for column in columns]) for k in range(self.count)]
                packed = [e.pack(tile, [row[n] for row in rows]) for n, tile in enumerate(tiles)]
                return packed[0] if len(packed) == 1 else e.pack(result, packed)

            return emit

        return wrap

    @emitted(lambda self, name: types.UniTuple(numba_type(name), self.count))
    def positions(self, e, start, *, kinds, name: str, along: bool = True):
        """`positions(start)`: where each element of a tile stands on an axis, as values of this type.

        `start` may be a tuple with the position of each vector; its elements follow `along` the axis or share it.
        """
        whole = kinds[0].dtype if isinstance(kinds[0], types.UniTuple) else kinds[0]
        begins = [e.cast(b, whole, numba_type(name)) for b in self.starts(e, kinds[0], start)]
        return [e.builder.add(b, b.type(k * along)) for b in begins for k in range(self.width)]

    @emitted(lambda self, name: stored_type(dtype(name), self.count, self.width))
    def gather(self, e, addresses, wanted, *, kinds, name: str, run: int = 1):
        """`gather(addresses, wanted)`: an element from each address where it is wanted, else 0.

        A vector whose elements turn out to be neighbours, aligned and all wanted, is read as one. So are runs of
        elements that have one address.
        """
        kind, width = dtype(name), self.width // run
        element_addresses = self.widened(e, INT64, addresses, kinds[0], types.int64)[::run]
        flags = self.widened(e, BOOL, wanted, kinds[1], types.boolean)[::run]
        elements: list[ir.Value] = []
        for first in range(0, len(element_addresses), width):
            part = slice(first, first + width)
            elements += self._gather_vector(e, kind, element_addresses[part], flags[part])
        if run == 1:
            return elements
        return paired(e, kind, [v for v in unpaired(e, kind, elements, width) for _ in range(run)])

    @emitted(lambda self, name: stored_type(dtype(name), self.count, self.width))
    def gather_alike(self, e, addresses, wanted, *, kinds, name: str):
        """`gather_alike(addresses, wanted)`: likewise, where all elements of a vector have one address."""
        kind = dtype(name)
        places = self.widened(e, INT64, addresses, kinds[0], types.int64)[:: self.width]
        flags = self.widened(e, BOOL, wanted, kinds[1], types.boolean)[:: self.width]
        elements: list[ir.Value] = []
        for place, flag in zip(places, flags):
            elements += paired(e, kind, [load_predicated(e, kind, place, flag)] * self.width)
        return elements

    @emitted(lambda self: types.UniTuple(types.uint64, self.count), 3)
    def random(self, e, *operands, kinds, name: str):
        """`random(positions, seed, stream)`: random bits by the operation of this name, of each element's position.

        The elements of a vector are mostly neighbours, which share what one counter gives.
        """
        positions, seeds, streams = (self.widened(e, UINT64, v, k, types.uint64) for v, k in zip(operands, kinds))
        numbers: list[ir.Value] = []
        for first in range(0, self.count, self.width):
            part = positions[first : first + self.width]
            numbers += philox.neighbours(e, name, part, seeds[first], streams[first])
        return numbers

    def _gather_vector(
        self, e: Emitter, kind: DType, addresses: list[ir.Value], wanted: list[ir.Value]
    ) -> list[ir.Value]:
        b, width = e.builder, len(addresses)
        if width == 1:
            return paired(e, kind, [load_predicated(e, kind, addresses[0], wanted[0])])
        bytes = min(ACCESS_BYTES, kind.itemsize * width)
        whole = b.icmp_unsigned("==", b.and_(addresses[0], I64(bytes - 1)), I64(0))
        for k, (address, valid) in enumerate(zip(addresses, wanted)):
            neighbour = b.icmp_unsigned("==", b.sub(address, addresses[0]), I64(k * kind.itemsize))
            whole = b.and_(whole, b.and_(valid, neighbour))

        def single() -> list[ir.Value]:
            return paired(
                e, kind, [load_predicated(e, kind, address, valid) for address, valid in zip(addresses, wanted)]
            )

        def at_once() -> list[ir.Value]:
            return load_vector(e, kind, width, addresses[0], ValidElements(b.zext(whole, I32)))

        return e.if_else(whole, at_once, single)

    @emitted(lambda self, vectors, kinds: types.UniTuple(kinds[0].dtype, vectors * (len(kinds[0]) // self.vectors)))
    def slice(self, e, values, *, kinds, first: int, vectors: int, rematerialize: bool = False):
        """`part(values)`: those of some of the vectors, held as they were.

        If `rematerialize`, the compiler does not see that they are the same: what it computed from them, it computes
        again instead of holding it in registers.
        """
        kind, size = kinds[0], len(kinds[0]) // self.vectors
        elements = e.unpack(values, len(kind))[first * size : (first + vectors) * size]
        if rematerialize and kind.dtype == types.uint32:
            elements = [e.asm(I32, "mov.b32 $0, $1;", "=r,r", [v], side_effect=True) for v in elements]
        return elements

    @emitted(lambda self, kinds: types.UniTuple(kinds[0], self.vectors))
    def vectors_from(self, e, first, limit):
        """`numbers(first, limit)`: the numbers of a thread's vectors, `step` apart, clamped below `limit`."""
        b, last = e.builder, e.builder.sub(limit, limit.type(1))
        numbers = [b.add(first, self.offset_of(e, k, first.type)) for k in range(self.vectors)]
        return [b.select(b.icmp_signed("<", n, last), n, last) for n in numbers]

    def widened(self, e: Emitter, kind: DType, value, source: types.Type, target: types.Type) -> list[ir.Value]:
        """One value per element, as a body computes with them."""
        if not isinstance(source, types.BaseTuple):
            return [e.cast(value, source, target)] * self.count
        elements = e.unpack(value, len(source))
        if kind.kind == "b" and source.dtype != types.boolean:
            elements = [e.builder.icmp_unsigned("!=", element, I8(0)) for element in elements]
        elif kind.storage:
            elements = convert.widen_bytes(e, elements, kind.name)
        elif kind is not kind.compute:
            elements = [convert.widen(e, half, kind.name) for half in unpaired(e, kind, elements, self.width)]
        return elements * (self.count // len(elements))  # one vector may stand for all

    def narrowed(self, e: Emitter, kind: DType, value, source: types.Type) -> list[ir.Value]:
        """Elements as `stored_type` holds them."""
        if isinstance(source, types.BaseTuple):
            elements, source = e.unpack(value, len(source)), source.dtype
        else:
            elements = [value]
        elements = elements * (self.count // len(elements))  # one vector may stand for all
        elements = [narrowed_value(e, kind, element, source) for element in elements]
        if is_packed(kind, self.width):
            return [pair(e, kind, *elements[k : k + 2]) for k in range(0, len(elements), 2)]
        return stored_elements(e, kind, elements)
