"""Index arithmetic over several axes: vectors are numbered; each number gives an offset in every operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....kernel_ir.kernel import Load, Position
from ....kernel_ir.phase import Store
from ..tile import Tile, divide, thread_idx
from .source_text import TILE, SourceBuilder, total


@dataclass
class MultiAxisIndex:
    """Vectors of `width` elements along the last of `axes`, numbered from 0; `first` and `count` name variables."""

    src: SourceBuilder
    axes: tuple[int, ...]
    width: int
    first: str
    count: str
    bases: dict[int, str] = field(default_factory=dict)  # where an operand's line begins, if not at its pointer
    operands: Sequence[int] = ()
    position_axes: list[int] = field(default_factory=list)  # axes whose positions are read

    @property
    def index(self) -> str:
        return self.src.kernel.index

    def define(self, operands: Sequence[int], vectors: int, step: Mapping[str, Any]) -> None:
        """Write the function that places a vector, and count the vectors; `step` says how a thread's are apart."""
        self.operands = operands
        self.position_axes = [p.axis for p in self.src.kernel.positions if p.axis in self.axes]
        if self.operands or self.position_axes:
            self._define_place(vectors, step)
        self._count()

    def begin_tiles(self, vectors: int, threads: int, operands: Sequence[int]) -> None:
        """Define the tile of a thread, whose vectors are `threads` apart, and find the first one of its block."""
        src, step = self.src, {"step": threads}
        src.bind("tile", Tile(width=self.width, vectors=vectors, **step, checks="v" * vectors))
        self.define(operands, vectors, step)
        begin = f"{self.index}({self.index}({src.block}) * {threads * vectors})"
        src.assign(self.first, f"{self.index}({begin} + {thread_idx()})")

    def load_tile(self) -> None:
        """Find the places of the vectors from the first one on, and load what the kernel reads of them."""
        self.emit_offsets()
        for load in self.src.kernel.loads:
            self.load(load)
        for position in self.src.kernel.positions:
            self.position(position)

    def _define_place(self, vectors: int, step: Mapping[str, Any]) -> None:
        src, index, operands = self.src, self.index, self.operands
        steps = src.bind("vector_tile", Tile(width=1, vectors=vectors, **step, checks="." * vectors))
        self.numbers = src.bind("vector_indices", steps.vectors_from())
        arguments, lines = self._coordinates()
        offsets = [self._offset(k) for k in operands]
        arguments += [name for _, names in offsets for name in names]
        lines += [f"{self.offset(k)} = {expression}" for k, (expression, _) in zip(operands, offsets)]
        results = [f"c{axis}" for axis in self.position_axes] + [self.offset(k) for k in operands]
        kinds = ", ".join(["int64" if name.startswith("m") and name[1:].isdigit() else index for name in arguments])
        decorator = steps.elementwise(f"{kinds} -> {', '.join([index] * len(results))}")
        body = ['"""The element offset of a vector in each operand."""', *lines]
        self.place = src.function(decorator, "vector_offsets", arguments, [*body, f"return {', '.join(results)}"])
        self.arguments = arguments[1:]

    def _count(self) -> None:
        """The number of vectors along the last axis, and of all."""
        src, index, shift = self.src, self.index, self.width.bit_length() - 1
        extent = src.names.extent(self.axes[-1])
        lines = f"{index}({index}({extent} + {self.width - 1}) >> {shift})" if shift else f"{index}({extent})"
        src.code.append(f"row_vectors = {lines}  # vectors along the last axis")
        product = "row_vectors"
        for axis in self.axes[:-1]:
            product = f"{index}({product} * {index}({src.names.extent(axis)}))"
        src.code.append(f"{self.count} = {product}")

    def _coordinates(self) -> tuple[list[str], list[str]]:
        """Arguments and lines that split a vector's number into positions c0, c1 …"""
        index, names, last = self.index, self.src.names, self.axes[-1]
        arguments, lines, rest = ["vector"], [], "vector"
        for axis in reversed(self.axes[1:]):
            size = "row_vectors" if axis == last else names.extent(axis)
            arguments += [size, names.magic(axis)]
            lines.append(f"q{axis} = {divide(rest, size, names.magic(axis))}")
            lines.append(f"c{axis} = {index}({rest} - {index}(q{axis} * {size}))")
            if axis == last and self.width > 1:
                lines[-1] = f"c{axis} = {index}({index}({rest} - {index}(q{axis} * {size})) * {self.width})"
            rest = f"q{axis}"
        lines.append(f"c{self.axes[0]} = {rest}")
        if len(self.axes) == 1 and self.width > 1:
            lines[-1] = f"c{last} = {index}(vector * {self.width})"
        return arguments, lines

    def _offset(self, k: int) -> tuple[str, list[str]]:
        """The offset of a vector in an operand, and the strides that it takes."""
        strides, terms, stride_names = self.src.kernel.operands[k].strides, [], []
        for axis in self.axes:
            if strides[axis] == "1":
                terms.append(f"c{axis}")
            elif strides[axis] == "s":
                name = self.src.names.stride(k, axis)
                stride_names.append(name)
                terms.append(f"{self.index}(c{axis} * {name})")
        return total(self.index, terms), stride_names

    def emit_offsets(self) -> None:
        """Find the offsets of a thread's vectors."""
        results = [f"place_{axis}" for axis in self.position_axes] + [self.offset(k) for k in self.operands]
        if results:
            given = (f"{self.index}({a})" if "stride" in a or a[0] == "n" else a for a in self.arguments)
            self.src.assign(", ".join(results), self.place(self.numbers(self.first, self.count), *given))

    def offset(self, k: int) -> str:
        return f"{self.src.names.operand(k)}_offset"

    def base(self, k: int) -> str:
        return self.bases.get(k, self.src.names.pointer(k))

    def load(self, load: Load) -> None:
        src, name, k = self.src, load.value.name, load.operand
        kind, stride = src.access(k, self.width)
        src.stored[name] = src.kernel.operands[k].dtype
        read = src.bind(f"load_{name}", TILE.load(src.stored[name].name, kind))
        src.assign(name, read(self.base(k), self.offset(k), self.count, *stride))

    def position(self, position: Position) -> None:
        name, along = position.value.name, position.axis == self.axes[-1]
        read = self.src.bind(f"at_{name}", TILE.positions(position.value.dtype.name, along=along))
        self.src.assign(name, read(f"place_{position.axis}"))

    def store(self, name: str, store: Store) -> None:
        src, k = self.src, store.operand
        kind, stride = src.access(k, self.width)
        value = src.element(store.value)
        write = src.bind(name, TILE.store(src.kernel.operands[k].dtype.name, kind))
        src.emit(write(self.base(k), self.offset(k), value, self.first, self.count, *stride))
