"""Index arithmetic over several axes: vectors are numbered; each number gives an offset in every operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....kernel_ir.kernel import Load, Position
from ....kernel_ir.phase import Store
from ..tile import Tile, TileIntrinsics, divide, thread_idx
from .source_builder import TILE, SourceBuilder, total

LINE = TileIntrinsics("line_tile")  # of operands whose elements are one line
VECTORS = TileIntrinsics("vector_tile")  # with one element for each vector


@dataclass
class MultiAxisIndex:
    """Vectors of `width` elements along the last of `axes`, numbered from 0; `first` and `count` name variables."""

    src: SourceBuilder
    axes: tuple[int, ...]
    width: int
    first: str
    count: str
    bases: dict[int, str] = field(default_factory=dict)  # where an operand's line begins, if not at its pointer
    operands: Sequence[int] = ()  # that a vector has an offset in; where one line holds the elements it needs none
    position_axes: list[int] = field(default_factory=list)  # axes whose positions are read
    whole: TileIntrinsics = TILE
    line: TileIntrinsics = LINE
    step: int = 0  # vectors between two of a thread
    suffix: str = ""  # of the names of a piece's offsets

    @property
    def index(self) -> str:
        return self.src.kernel.index

    @property
    def has_lines(self) -> bool:
        return any(operand.one_line for operand in self.src.kernel.operands)

    def define(self, operands: Sequence[int], vectors: int, step: Mapping[str, Any]) -> None:
        """Emit the function of a vector's offsets, and the count of vectors; a thread's are apart as `step` says."""
        self.operands = sorted({self._placed_as(k) for k in operands if not self.src.kernel.operands[k].one_line})
        self.position_axes = [p.axis for p in self.src.kernel.positions if p.axis in self.axes]
        if self.operands or self.position_axes:
            self._define_vector_offsets(vectors, step)
        self._count()

    def define_line(self, vectors: int, step: int, checks: str) -> None:
        """Define the tile of operands whose elements are one line: there offsets follow from numbers."""
        src, width, self.step = self.src, self.width, step
        src.bind("line_tile", Tile(width=width, vectors=vectors, step=step * width, checks=checks))
        src.assign("elements", f"{self.index}({self.count} * {width})" if width > 1 else self.count)

    def begin_tiles(self, vectors: int, threads: int, operands: Sequence[int]) -> None:
        """Define the tile of a thread, whose vectors are `threads` apart, and find the first one of its block."""
        src, step = self.src, {"step": threads}
        src.bind("tile", Tile(width=self.width, vectors=vectors, **step, checks="v" * vectors))
        self.define(operands, vectors, step)
        begin = f"{self.index}({self.index}({src.block}) * {threads * vectors})"
        src.assign(self.first, f"{self.index}({begin} + {thread_idx()})")

    def load_tile(self) -> None:
        """Emit the offsets of the vectors from the first one on, and the loads of operands there."""
        self.emit_offsets()
        for load in self.src.kernel.loads:
            self.load(load)
        for position in self.src.kernel.positions:
            self.position(position)

    def _define_vector_offsets(self, vectors: int, step: Mapping[str, Any]) -> None:
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
        self.offsets_of = src.function(decorator, "vector_offsets", arguments, [*body, f"return {', '.join(results)}"])
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
        self._find_element()
        results = [f"place_{axis}" for axis in self.position_axes] + [self.offset(k) for k in self.operands]
        if results:
            given = (f"{self.index}({a})" if "stride" in a or a[0] == "n" else a for a in self.arguments)
            self.src.assign(", ".join(results), self.offsets_of(self.numbers(self.first, self.count), *given))

    def _find_element(self) -> None:
        """The first element of a thread's vectors where one line holds all."""
        if self.has_lines:
            first = f"{self.index}({self.first} * {self.width})" if self.width > 1 else self.first
            self.src.assign(f"element{self.suffix}", first)

    def piece(self, number: int, tile: TileIntrinsics, first: int, checks: str) -> MultiAxisIndex:
        """The index of a tile of some of the vectors, from `first` on, that begins at start_`number`."""
        suffix, step = f"_{number}", self.step
        if self.operands:
            take = self.src.bind(f"take_offsets{suffix}", VECTORS.slice(first, len(checks)))
            for k in self.operands:
                self.src.assign(f"{self.offset(k)}{suffix}", take(self.offset(k)))
        line = LINE
        if self.has_lines:
            shape = Tile(width=self.width, vectors=len(checks), step=step * self.width, checks=checks)
            line = self.src.bind(f"line_tile{suffix}", shape)
        part = replace(self, first=f"start{suffix}", whole=tile, line=line, suffix=suffix)
        part._find_element()
        return part

    def _placed_as(self, k: int) -> int:
        """The operand whose vectors have the offsets of this one's."""
        base = self.src.kernel.operands[k].strided_as
        return k if base < 0 else base

    def offset(self, k: int) -> str:
        return f"{self.src.names.operand(self._placed_as(k))}_offset{self.suffix}"

    def tile(self, k: int) -> TileIntrinsics:
        return self.line if self.src.kernel.operands[k].one_line else self.whole

    def vector_start(self, k: int) -> tuple[str, str]:
        """Where a thread's vectors of an operand begin, and where these end."""
        of_line = self.src.kernel.operands[k].one_line
        return (f"element{self.suffix}", "elements") if of_line else (self.offset(k), self.count)

    def base(self, k: int) -> str:
        return self.bases.get(k, self.src.names.pointer(k))

    def load(self, load: Load) -> None:
        src, name, k = self.src, f"{load.value.name}{self.suffix}", load.operand
        kind, stride = src.access(k, self.width)
        src.stored[load.value.name] = src.kernel.operands[k].dtype
        read = src.bind(f"load_{name}", self.tile(k).load(src.stored[load.value.name].name, kind))
        src.assign(name, read(self.base(k), *self.vector_start(k), *stride))

    def position(self, position: Position) -> None:
        name, along = position.value.name, position.axis == self.axes[-1]
        read = self.src.bind(f"at_{name}", TILE.positions(position.value.dtype.name, along=along))
        self.src.assign(name, read(f"place_{position.axis}"))

    def store(self, name: str, store: Store) -> None:
        self.src.emit(self.stored(name, store, self.src.element(store.value)))

    def stored(self, name: str, store: Store, value: str) -> str:
        """The call that stores a value."""
        src, k = self.src, store.operand
        kind, stride = src.access(k, self.width)
        write = src.bind(name, self.tile(k).store(src.kernel.operands[k].dtype.name, kind))
        begin, end = self.vector_start(k)
        first = begin if src.kernel.operands[k].one_line else self.first
        return write(self.base(k), begin, value, first, end, *stride)
