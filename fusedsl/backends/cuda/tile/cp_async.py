"""cp.async: asynchronous copies of rows into a ring of shared-memory stages."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.types import dtype
from ..compiler.numba_backend import I8, I32, I64, SHARED, VOID, Emitter, emitted, ir, types
from .element_registers import stored_type
from .memory import ld_shared
from .tile import Tile


def dynamic_shared(e: Emitter) -> ir.Value:
    """The address of the launch's dynamic shared memory."""
    module, name = e.builder.module, "dynamic_shared"
    array = module.globals.get(name)
    if array is None:
        array = ir.GlobalVariable(module, ir.ArrayType(I8, 0), name, addrspace=SHARED)
        array.linkage, array.align = "external", 16
    return e.builder.gep(array, [I32(0), I32(0)])


@emitted(types.int32)
def dynamic_smem_base(e):
    """The address of dynamic shared memory as an int32 in a register (the compiler would recompute it at each use)."""
    base = e.builder.ptrtoint(dynamic_shared(e), I32)
    return e.asm(I32, "mov.b32 $0, $1;", "=r,r", [base], side_effect=True)


@dataclass(frozen=True)
class CpAsyncRing:
    """The tiles of one operand, `begin` bytes into each row that shared memory holds for a block of `threads`.

    A thread loads only what it copied itself, so that no barrier is needed.
    """

    tile: Tile
    name: str
    begin: int
    threads: int

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector."""
        return self.tile.width * dtype(self.name).itemsize

    def _own(self, e: Emitter, row: ir.Value) -> ir.Value:
        return e.builder.add(row, e.builder.mul(e.special_register("tid.x"), I32(self.vector_bytes)))

    def _offset(self, number: int) -> int:
        return self.begin + number * self.threads * self.vector_bytes

    @emitted(types.void)
    def copy_async(self, e, at, first, last, where, *, kinds):
        """`copy_async(address, start, limit, row)`: start the copy of a tile; zeros for elements out of bounds.

        `row` is the address of the row in shared memory.
        """
        kind, moved = dtype(self.name), "cg" if self.vector_bytes == 16 else "ca"
        b, own = e.builder, self._own(e, where)
        begin = first if first.type == I64 else b.sext(first, I64)
        source = b.add(at, b.mul(begin, I64(kind.itemsize)))
        for k, room in enumerate(self.tile.valid_of(e, kinds[1], first, last)):
            skipped = k * self.tile.step * kind.itemsize
            text = f"cp.async.{moved}.shared.global [$0+{self._offset(k)}], [$1+{skipped}], {self.vector_bytes}"
            values = [own, source]
            if room is not None:
                there = b.icmp_signed(">", room.count, I32(0))
                values = [own, b.select(there, source, b.sub(at, I64(skipped)))]
                size: ir.Value = I32(self.vector_bytes)
                if room.partial:
                    part = b.mul(room.count, I32(kind.itemsize))
                    size = b.select(b.icmp_signed("<", part, size), part, size)
                values.append(b.select(there, size, I32(0)))
            text += ", $2;" if room is not None else ";"
            constraints = "r,l,r,~{memory}" if room is not None else "r,l,~{memory}"
            e.asm(VOID, text, constraints, values, side_effect=True)

    @emitted(lambda self: stored_type(dtype(self.name), self.tile.count, self.tile.width))
    def load(self, e, row):
        """`load(row)`: the tile from shared memory, as `Tile.load` holds it."""
        own, elements = e.builder.zext(self._own(e, row), I64), list[ir.Value]()
        for k in range(self.tile.vectors):
            elements += ld_shared(e, dtype(self.name), self.tile.width, e.builder.add(own, I64(self._offset(k))))
        return elements


@emitted(types.void)
def commit_group(e):
    """cp.async.commit_group: the copies since the last one are a group."""
    e.asm(VOID, "cp.async.commit_group;", "~{memory}", [], side_effect=True)


@emitted(types.void)
def wait_group(e, *, groups: int):
    """`wait_group()`: cp.async.wait_group: wait until at most so many groups are in flight."""
    e.asm(VOID, f"cp.async.wait_group {groups};", "~{memory}", [], side_effect=True)
