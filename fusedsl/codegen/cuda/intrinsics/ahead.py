"""Rows that are on their way while others are worked on: asynchronous copies into shared memory, a ring of stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.types import dtype
from ..backend import I8, I32, I64, SHARED, VOID, Emitter, intrinsic, ir, types
from .memory import read_shared, stored_type
from .tile import Tile


def dynamic_shared(e: Emitter) -> ir.Value:
    """The address of the launch's dynamic shared memory."""
    module, name = e.builder.module, "dynamic_shared"
    array = module.globals.get(name)
    if array is None:
        array = ir.GlobalVariable(module, ir.ArrayType(I8, 0), name, addrspace=SHARED)
        array.linkage, array.align = "external", 16
    return e.builder.gep(array, [I32(0), I32(0)])


@dataclass(frozen=True)
class Ring:
    """The tiles of one operand in `stages` stages of shared memory, `begin` bytes into it, for a block's `threads`.

    A thread reads what it fetched itself, so that nobody waits for anybody else.
    """

    tile: Tile
    name: str
    begin: int
    stages: int
    threads: int

    @property
    def bytes(self) -> int:
        """Of a vector."""
        return self.tile.width * dtype(self.name).itemsize

    @property
    def size(self) -> int:
        """Bytes of all stages."""
        return self.bytes * self.tile.vectors * self.threads * self.stages

    def _places(self, e: Emitter, stage: ir.Value) -> list[ir.Value]:
        """Where the vectors of this thread stand in shared memory, in bytes from its beginning."""
        b, vectors = e.builder, self.tile.vectors
        line = b.mul(stage, I32(vectors * self.threads * self.bytes))
        own = b.add(line, b.mul(e.special_register("tid.x"), I32(self.bytes)))
        return [b.add(own, I32(self.begin + k * self.threads * self.bytes)) for k in range(vectors)]

    def fetch(self) -> Callable:
        """`fetch(address, start, limit, stage)`: begin to copy a tile of a line of elements; zeros where none is."""
        kind, moved = dtype(self.name), "cg" if self.bytes == 16 else "ca"

        def rule(address, start, limit, stage):
            def emit(e, at, first, last, where):
                b, base = e.builder, dynamic_shared(e)
                begin = first if first.type == I64 else b.sext(first, I64)
                source = b.add(at, b.mul(begin, I64(kind.itemsize)))
                rooms = self.tile.room_of(e, start, first, last)
                for k, (room, place) in enumerate(zip(rooms, self._places(e, where))):
                    values = [b.gep(base, [place]), b.add(source, I64(k * self.tile.step * kind.itemsize))]
                    text = f"cp.async.{moved}.shared.global [$0], [$1], {self.bytes};"
                    constraints = "r,l,~{memory}"
                    if room is not None:
                        there = b.select(b.icmp_signed(">", room.room, I32(0)), I32(self.bytes), I32(0))
                        values[1] = b.select(b.icmp_signed(">", room.room, I32(0)), values[1], at)
                        values.append(there)
                        text, constraints = text[:-1] + ", $2;", "r,l,r,~{memory}"
                    values[0] = b.ptrtoint(values[0], I32)
                    e.asm(VOID, text, constraints, values, effect=True)

            return types.void, emit

        return intrinsic(4)(rule)

    def take(self) -> Callable:
        """`take(stage)`: the tile as `Tile.load` holds it."""
        kind = dtype(self.name)
        result = stored_type(kind, self.tile.count, self.tile.width)

        def rule(stage):
            def emit(e, where):
                found = []
                for place in self._places(e, where):
                    at = e.builder.ptrtoint(e.builder.gep(dynamic_shared(e), [place]), I64)
                    found += read_shared(e, kind, self.tile.width, at)
                return e.pack(result, found)

            return result, emit

        return intrinsic(1)(rule)


@intrinsic(0)
def send():
    """The fetches since the last `send` are one group."""

    def emit(e):
        e.asm(VOID, "cp.async.commit_group;", "~{memory}", [], effect=True)

    return types.void, emit


def arrived(groups: int) -> Callable:
    """`arrived()`: wait until all but the last so many groups have come."""

    def rule():
        def emit(e):
            e.asm(VOID, f"cp.async.wait_group {groups};", "~{memory}", [], effect=True)

        return types.void, emit

    return intrinsic(0)(rule)
