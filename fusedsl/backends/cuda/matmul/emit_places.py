"""Emits where matmul kernels load and store: addresses of any strides, of elements by row, column and step numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ....ir.types import BOOL
from ....kernel_ir.instruction import Constant, Instruction
from ....kernel_ir.kernel import Position
from ....kernel_ir.phase import Body, Phase, Value
from ..emit.intrinsic import Binding, Function
from ..emit.signature import Names
from ..emit.source_text import TILE, SourceBuilder
from ..tile import TileIntrinsics
from . import udiv64

ROW, COLUMN, STEP = "row", "column", "step"
Kinds = tuple[str, str]
Scatter = Callable[[TileIntrinsics, str], Binding[Function]]


def coordinates(names: Names, number: str, axes: Sequence[int]) -> list[str]:
    """Lines that split a number into coordinates c0, c1 … on axes, the last of which varies fastest."""
    lines = []
    for a in reversed(axes):
        if a == axes[0]:
            lines.append(f"c{a} = {number}")
            continue
        size = names.extent(a)
        lines += [f"q{a} = {udiv64(number, size)}", f"c{a} = {number} - q{a} * {size}"]
        number = f"q{a}"
    return lines


class ElementPlaces:
    """Addresses of a kernel's operands, from numbers along two kinds of axes: rows, columns or steps.

    `axes` are the iteration axes of each kind. In the file, of a kind such as "row", `rows` is the extent, `row_from`
    the number of a tile's first, and `rows_here` are numbers within the tile: a value for each element. `near` are
    the axes along which operands are known to be contiguous, -1 for none.
    """

    def __init__(
        self,
        src: SourceBuilder,
        axes: Mapping[str, Sequence[int]],
        batch: Sequence[int],
        near: Sequence[int] = (),
    ):
        self.src, self.names, self.axes, self.batch = src, src.names, axes, batch
        self.letters = [operand.strides for operand in src.kernel.operands]
        for k, axis in enumerate(near):
            if axis >= 0:
                self.letters[k] = f"{self.letters[k][:axis]}1{self.letters[k][axis + 1 :]}"

    def enter_batch(self, number: str) -> None:
        """Find the first element of each operand, and the positions, in the batch of this number."""
        src, kernel = self.src, self.src.kernel
        src.emit(*coordinates(self.names, number, self.batch))
        for k, operand in enumerate(kernel.operands):
            offset, pointer = self._offset(k, self.batch), self.names.pointer(k)
            src.assign(self.base(k), f"{pointer} + ({offset}) * {operand.dtype.itemsize}" if offset else pointer)
        for p in kernel.positions:
            if p.axis in self.batch:
                src.assign(p.value.name, f"{p.value.dtype.name}(c{p.axis})")

    def base(self, k: int) -> str:
        """The variable with the address of an operand's first element in the batch."""
        return f"{self.names.operand(k)}_base"

    def address(self, k: int) -> str:
        """The variable with the addresses of an operand's elements."""
        return f"{self.names.operand(k)}_address"

    def read(
        self,
        names: set[str],
        kinds: Kinds,
        function: str,
        stored: Collection[int] = (),
        tile: TileIntrinsics = TILE,
    ) -> None:
        """Load values of these names, and find positions; `stored` are operands that need addresses besides."""
        src, kernel = self.src, self.src.kernel
        loads = [load for load in kernel.loads if load.value.name in names]
        axes = {a for kind in kinds for a in self.axes[kind]}
        positions = [p for p in kernel.positions if p.value.name in names and p.axis in axes]
        operands = sorted({load.operand for load in loads} | set(stored))
        self._place(function, kinds, operands, positions, tile)
        for load in loads:
            name, kind = load.value.name, kernel.operands[load.operand].dtype
            src.stored[name] = kind
            gather = src.bind(f"{name}_gather", tile.gather(kind.name))
            src.assign(name, gather(self.address(load.operand), "wanted"))

    def factor(self, kind: str, body: Body, number: int, tile: TileIntrinsics = TILE) -> str:
        """Compute a factor at the places at hand, rows or columns and steps; the name of its elements."""
        dtype = body.results[0].dtype
        self.read({v.name for v in body.args}, (kind, STEP), f"find{number}", tile=tile)
        name = f"factor{number}"
        kept = Instruction(name, "where", ("wanted", body.results[0].name, Constant(dtype, "0")), dtype)
        whole = Body((*body.args, Value("wanted", BOOL)), (Value(name, dtype),), (*body.instructions, kept))
        self.src.apply(tile.elementwise, f"compute{number}", whole)
        return name

    def finish(self, phase: Phase, sums: Sequence[str], scatter: Scatter) -> None:
        """What follows the sums of the places at hand: loads, the body of the results, their stores."""
        src, body = self.src, phase.row or Body((), (), ())
        src.wide.clear()
        names = {v.name for v in body.args} | {s.value for s in phase.row_stores}
        self.read(names, (ROW, COLUMN), "find_element", {store.operand for store in phase.row_stores})
        for use, value in zip(phase.folds, sums):
            src.assign(use.accumulators[0].name, value)
        src.apply(TILE.elementwise, "finish", body)
        for number, store in enumerate(phase.row_stores):
            dtype = src.kernel.operands[store.operand].dtype
            write = src.bind(f"store{number}", scatter(TILE, dtype.name))
            src.emit(write(self.address(store.operand), src.element(store.value), "wanted"))

    def _offset(self, k: int, axes: Iterable[int]) -> str:
        """The offset of an operand at the positions on axes, in elements; "" for none."""
        letters = self.letters[k]
        terms = {"1": "c{0}", "s": "c{0} * {1}"}
        found = [terms[letters[a]].format(a, self.names.stride(k, a)) for a in axes if letters[a] != "0"]
        return " + ".join(found)

    def _strides(self, k: int, axes: Iterable[int]) -> list[str]:
        return [self.names.stride(k, a) for a in axes if self.letters[k][a] == "s"]

    def _place(
        self, name: str, kinds: Kinds, operands: Sequence[int], positions: Sequence[Position], tile: TileIntrinsics
    ) -> None:
        """The addresses and positions of two indices within the square, by a function of these and others."""
        axes = [a for kind in kinds for a in self.axes[kind]]
        several = [self.names.extent(a) for kind in kinds for a in self.axes[kind][1:]]
        taken = [s for k in operands for s in self._strides(k, axes)]
        arguments = [*(f"{kind}_from" for kind in kinds), *(f"{kind}s" for kind in kinds), *several, *taken]
        arguments += [self.base(k) for k in operands]
        arguments = list(dict.fromkeys(arguments))
        lines = [f"{kind}_number = {kind}_from + {kind}" for kind in kinds]
        lines.append("wanted = " + " & ".join(f"({kind}_number < {kind}s)" for kind in kinds))
        for kind in kinds:
            lines += coordinates(self.names, f"{kind}_number", self.axes[kind])
        for k in operands:
            offset, size = self._offset(k, axes), self.src.kernel.operands[k].dtype.itemsize
            lines.append(f"{self.address(k)} = {self.base(k)}" + (f" + ({offset}) * {size}" if offset else ""))
        lines += [f"{p.value.name} = {p.value.dtype.name}(c{p.axis})" for p in positions]
        results = ["wanted", *(self.address(k) for k in operands), *(p.value.name for p in positions)]
        types = ["bool", *("int64" for _ in operands), *(p.value.dtype.name for p in positions)]
        given = [*kinds, *arguments]
        decorator = tile.elementwise(f"{', '.join(['int64'] * len(given))} -> {', '.join(types)}")
        place = self.src.function(decorator, name, given, [*lines, f"return {', '.join(results)}"])
        self.src.assign(", ".join(results), place(*(f"{kind}s_here" for kind in kinds), *arguments))
