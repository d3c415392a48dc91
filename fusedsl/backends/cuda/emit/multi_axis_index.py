"""Index arithmetic over several axes: vectors are numbered; each number gives an offset in every operand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....kernel_ir.kernel import Load, Position
from ....kernel_ir.phase import Store
from .source_text import SourceBuilder, access_kind, indented, total


@dataclass
class MultiAxisIndex:
    """Vectors of `width` elements along the last of `axes`, numbered from 0; `first` and `count` name variables."""

    scope: SourceBuilder
    axes: tuple[int, ...]
    width: int
    first: str
    count: str
    bases: dict[int, str] = field(default_factory=dict)  # where an operand's line begins, if not at its pointer
    operands: Sequence[int] = ()
    position_axes: list[int] = field(default_factory=list)  # axes whose positions are read

    @property
    def index(self) -> str:
        return self.scope.kernel.index

    def define(self, operands: Sequence[int], vectors: int, step: str) -> None:
        """Write the function that places a vector, and count the vectors; `step` says how a thread's are apart."""
        self.operands = operands
        self.position_axes = [p.axis for p in self.scope.kernel.positions if p.axis in self.axes]
        if self.operands or self.position_axes:
            self._define_place(vectors, step)
        self._count()

    def _define_place(self, vectors: int, step: str) -> None:
        scope, index, operands = self.scope, self.index, self.operands
        scope.top.append(f'steps = Tile(width=1, vectors={vectors}, {step}, checks="{"." * vectors}")')
        scope.top.append("numbers = steps.vectors_from()")
        arguments, lines = self._coordinates()
        offsets = [self._offset(k) for k in operands]
        arguments += [name for _, names in offsets for name in names]
        lines += [f"{self.offset(k)} = {expression}" for k, (expression, _) in zip(operands, offsets)]
        results = [f"c{axis}" for axis in self.position_axes] + [self.offset(k) for k in operands]
        kinds = ", ".join(["int64" if name.startswith("m") and name[1:].isdigit() else index for name in arguments])
        decorator = f'@steps.elementwise("{kinds} -> {", ".join([index] * len(results))}")'
        body = ['"""The offset in each operand of the vector of this number."""', *lines]
        scope.functions += ["", "", decorator, f"def place({', '.join(arguments)}):"]
        scope.functions += indented([*body, f"return {', '.join(results)}"])
        self.arguments = arguments[1:]

    def _count(self) -> None:
        """The number of vectors along the last axis, and of all."""
        scope, index, shift = self.scope, self.index, self.width.bit_length() - 1
        extent = scope.names.extent(self.axes[-1])
        lines = f"{index}({index}({extent} + {self.width - 1}) >> {shift})" if shift else f"{index}({extent})"
        scope.code.append(f"lines = {lines}  # vectors along the last axis")
        product = "lines"
        for axis in self.axes[:-1]:
            product = f"{index}({product} * {index}({scope.names.extent(axis)}))"
        scope.code.append(f"{self.count} = {product}")

    def _coordinates(self) -> tuple[list[str], list[str]]:
        """Arguments and lines that split a vector's number into positions c0, c1 …"""
        index, names, last = self.index, self.scope.names, self.axes[-1]
        arguments, lines, rest = ["vector"], [], "vector"
        for axis in reversed(self.axes[1:]):
            size = "lines" if axis == last else names.extent(axis)
            arguments += [size, names.magic(axis)]
            lines.append(f"q{axis} = divide({rest}, {size}, {names.magic(axis)})")
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
        strides, terms, taken = self.scope.kernel.operands[k].strides, [], []
        for axis in self.axes:
            if strides[axis] == "1":
                terms.append(f"c{axis}")
            elif strides[axis] == "s":
                name = self.scope.names.stride(k, axis)
                taken.append(name)
                terms.append(f"{self.index}(c{axis} * {name})")
        return total(self.index, terms), taken

    def emit_offsets(self) -> None:
        """Find the offsets of a thread's vectors."""
        results = [f"place_{axis}" for axis in self.position_axes] + [self.offset(k) for k in self.operands]
        if results:
            given = ", ".join(f"{self.index}({a})" if "stride" in a or a[0] == "n" else a for a in self.arguments)
            numbers = f"numbers({self.first}, {self.count})"
            self.scope.code.append(f"{', '.join(results)} = place({numbers}{', ' if given else ''}{given})")

    def offset(self, k: int) -> str:
        return f"{self.scope.names.operand(k)}_offset"

    def base(self, k: int) -> str:
        return self.bases.get(k, self.scope.names.pointer(k))

    def _stride(self, k: int, letter: str) -> str:
        if letter == "u":
            return ", 1"
        return f", {self.scope.names.stride(k, self.axes[-1])}" if letter == "s" else ""

    def load(self, load: Load) -> None:
        scope, name, k = self.scope, load.value.name, load.operand
        operand = scope.kernel.operands[k]
        letter = access_kind(operand, self.width)
        scope.stored[name] = operand.dtype
        define = f'load_{name} = tile.load("{operand.dtype.name}", "{"s" if letter == "u" else letter}")'
        if define not in scope.top:
            scope.top.append(define)
        stride = self._stride(k, letter)
        scope.code.append(f"{name} = load_{name}({self.base(k)}, {self.offset(k)}, {self.count}{stride})")

    def position(self, position: Position) -> None:
        name, along = position.value.name, position.axis == self.axes[-1]
        define = f'at_{name} = tile.positions("{position.value.dtype.name}", along={along})'
        if define not in self.scope.top:
            self.scope.top.append(define)
        self.scope.code.append(f"{name} = at_{name}(place_{position.axis})")

    def store(self, name: str, store: Store) -> None:
        scope, k = self.scope, store.operand
        operand, letter = scope.kernel.operands[k], access_kind(scope.kernel.operands[k], self.width)
        value = scope.element(store.value)
        scope.top.append(f'{name} = tile.store("{operand.dtype.name}", "{"s" if letter == "u" else letter}")')
        stride = self._stride(k, letter)
        place = f"{self.base(k)}, {self.offset(k)}"
        scope.code.append(f"{name}({place}, {value}, {self.first}, {self.count}{stride})")
