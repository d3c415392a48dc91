"""Row across the lanes of a warp: each lane has a few contiguous elements, the last lanes perhaps none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from .....ir.types import dtype
from ...compiler.numba_backend import I32, I64, Emitter, emitted, ir, numba_type, types
from ...mma.fragment_layout import ROWS
from ...tile.element_registers import element_type, stored_type
from ...tile.scalar_functions import elements_of, mapped
from ...tile.shuffle import WARP, shuffle
from ...tile.thread_index import thread_here
from ...tile.tile import Tile
from ...tile.valid_elements import ValidElements


@dataclass(frozen=True)
class WarpRow:
    """The elements of a lane in a row of `elements` elements."""

    elements: int

    @property
    def count(self) -> int:
        """The number of elements of a lane: a power of two."""
        return 1 << (-(-self.elements // WARP) - 1).bit_length()

    @cached_property
    def tile(self) -> Tile:
        check = "." if self.elements == WARP * self.count else "t" if self.elements % self.count else "v"
        return Tile(width=self.count, vectors=1, checks=check)

    @emitted(lambda self: types.UniTuple(types.int64, self.count))
    def places(self, e):
        """`places()`: the int64 indices of a lane's elements in the row."""
        return [e.builder.add(_first(e, self), I64(k)) for k in range(self.count)]

    @emitted(lambda self, name: types.UniTuple(numba_type(dtype(name).compute.name), self.count))
    def load(self, e, address, stride, *, name: str, stride_kind: str):
        """`load(address, stride)`: the elements of a row, widened; 0 beyond its end. `stride_kind` is "1" in
        rows that are aligned for vectors, else "s"."""
        kind = dtype(name)
        stored = stored_type(kind, self.count, self.count)
        addresses, room = self._addresses(e, kind, stride_kind, address, stride)
        loaded = e.pack(stored, self.tile.load_vector(e, kind, stride_kind, addresses, room))
        return self.tile.widened(e, kind, loaded, stored, numba_type(kind.compute.name))

    def store(self, name: str, stride_kind: str) -> Callable:
        """`store(address, values, stride)`: store the elements that exist to a row, as `load` reads it."""
        kind = dtype(name)

        @emitted(types.void)
        def emit(e, address, elements, stride, *, kinds):
            addresses, room = self._addresses(e, kind, stride_kind, address, stride)
            self.tile.store_vector(
                e, kind, stride_kind, addresses, self.tile.narrowed(e, kind, elements, kinds[1]), room
            )

        return emit

    def elementwise(self, signature: str) -> Callable[[Callable], Callable]:
        """Decorator: a scalar function over elements and uniform values; a result is a tuple of elements."""
        return mapped(signature, self.count, partial(elements_of, count=self.count))

    @emitted(lambda name: numba_type(name))
    def product(self, e, x, y, *, kinds, name: str):
        """`product(x, y)`: the sum of all lanes' x * y, in each lane."""
        kind = numba_type(name)
        b, total = e.builder, ir.Constant(element_type(dtype(name)), 0.0)
        for left, right in zip(e.unpack(x, self.count), e.unpack(y, self.count)):
            factors = [e.cast(left, kinds[0].dtype, kind), e.cast(right, kinds[1].dtype, kind)]
            total = e.call(total.type, f"llvm.fma.f{kind.bitwidth}", [*factors, total])
        for power in range(WARP.bit_length() - 1):
            total = b.fadd(total, shuffle(e, "bfly", total, 1 << power))
        return total

    def _addresses(self, e: Emitter, kind, stride_kind, address, stride) -> tuple[list[ir.Value], ValidElements | None]:
        """The addresses of a lane's elements, or of the vector, and which elements exist."""
        first = _first(e, self)
        room = self.tile.valid(e, types.int64, first, I64(self.elements), 0)
        return self.tile.addresses(
            e, kind, stride_kind, address, self.tile.begin(e, types.int64, first, 0), stride
        ), room


def _first(e: Emitter, row: WarpRow) -> ir.Value:
    b = e.builder
    return b.zext(b.mul(b.and_(thread_here(e), I32(WARP - 1)), I32(row.count)), I64)


@emitted(lambda kinds: kinds[0].dtype)
def row_of(e, values, row, *, kinds):
    """The value of one of a warp's 16 rows, from row values of a fragment: uniform in the warp."""
    b, row = e.builder, e.cast(row, kinds[1], types.int32)
    upper, lower = e.unpack(values, ROWS)
    value = b.select(b.icmp_signed("<", row, I32(8)), upper, lower)
    return shuffle(e, "idx", value, b.shl(b.and_(row, I32(7)), I32(2)))
