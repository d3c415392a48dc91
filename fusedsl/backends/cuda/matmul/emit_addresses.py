"""Emits where matmul kernels load and store: addresses of any strides, of elements by row, column and step numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ....ir.types import BOOL
from ....kernel_ir.instruction import Constant, Instruction
from ....kernel_ir.kernel import Position
from ....kernel_ir.phase import Body, Phase, Value
from ..emit.intrinsic import Binding, Function
from ..emit.source_builder import TILE, SourceBuilder
from ..tile import TileIntrinsics
from .emit_coordinates import OperandCoordinates, coordinates

ROW, COLUMN, K = "row", "column", "step"
Kinds = tuple[str, str]
Scatter = Callable[[TileIntrinsics, str], Binding[Function]]


class ElementAddresses(OperandCoordinates):
    """Addresses of a kernel's operands, from numbers along two kinds of axes: rows, columns or steps.

    `axes` are the iteration axes of each kind. In the file, of a kind such as "row", `rows` is the extent, `row_from`
    the number of a tile's first, and `rows_in_tile` are numbers within the tile: a value for each element. `near` are
    the axes along which operands are known to be contiguous, -1 for none.
    """

    def __init__(
        self,
        src: SourceBuilder,
        axes: Mapping[str, Sequence[int]],
        batch: Sequence[int],
        near: Sequence[int] = (),
    ):
        super().__init__(src, batch, near)
        self.axes = axes

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
        self._addresses(function, kinds, operands, positions, tile)
        for load in loads:
            name, kind = load.value.name, kernel.operands[load.operand].dtype
            src.stored[name] = kind
            gather = src.bind(f"{name}_gather", tile.gather(kind.name))
            src.assign(name, gather(self.address(load.operand), "in_bounds"))

    def factor(self, kind: str, body: Body, number: int, tile: TileIntrinsics = TILE) -> str:
        """Compute a factor at these rows or columns and steps; the name of its elements."""
        dtype = body.results[0].dtype
        self.read({v.name for v in body.args}, (kind, K), f"factor_addresses{number}", tile=tile)
        name = f"factor{number}"
        masked = Instruction(name, "where", ("in_bounds", body.results[0].name, Constant(dtype, "0")), dtype)
        whole = Body((*body.args, Value("in_bounds", BOOL)), (Value(name, dtype),), (*body.instructions, masked))
        self.src.apply(tile.elementwise, f"compute_factor{number}", whole)
        return name

    def finish(self, phase: Phase, accumulators: Sequence[str], scatter: Scatter) -> None:
        """What follows the accumulators at these rows and columns: loads, the body of the results, their stores."""
        src, body = self.src, phase.row or Body((), (), ())
        src.wide.clear()
        names = {v.name for v in body.args} | {s.value for s in phase.row_stores}
        self.read(names, (ROW, COLUMN), "element_addresses", {store.operand for store in phase.row_stores})
        for use, value in zip(phase.folds, accumulators):
            src.assign(use.accumulators[0].name, value)
        src.apply(TILE.elementwise, "epilogue", body)
        for number, store in enumerate(phase.row_stores):
            dtype = src.kernel.operands[store.operand].dtype
            write = src.bind(f"store{number}", scatter(TILE, dtype.name))
            src.emit(write(self.address(store.operand), src.element(store.value), "in_bounds"))

    def _addresses(
        self, name: str, kinds: Kinds, operands: Sequence[int], positions: Sequence[Position], tile: TileIntrinsics
    ) -> None:
        """The addresses and positions of two indices within the tile, by a function of these and others."""
        axes = [a for kind in kinds for a in self.axes[kind]]
        several = [self.names.extent(a) for kind in kinds for a in self.axes[kind][1:]]
        strides = self.strides(operands, axes)
        arguments = [*(f"{kind}_from" for kind in kinds), *(f"{kind}s" for kind in kinds), *several, *strides]
        arguments += [self.base(k) for k in operands]
        arguments = list(dict.fromkeys(arguments))
        lines = [f"{kind}_index = {kind}_from + {kind}" for kind in kinds]
        lines.append("in_bounds = " + " & ".join(f"({kind}_index < {kind}s)" for kind in kinds))
        for kind in kinds:
            lines += coordinates(self.names, f"{kind}_index", self.axes[kind])
        for k in operands:
            offset, size = self.offset(k, axes), self.src.kernel.operands[k].dtype.itemsize
            lines.append(f"{self.address(k)} = {self.base(k)}" + (f" + ({offset}) * {size}" if offset else ""))
        lines += [f"{p.value.name} = {p.value.dtype.name}(c{p.axis})" for p in positions]
        results = ["in_bounds", *(self.address(k) for k in operands), *(p.value.name for p in positions)]
        types = ["bool", *("int64" for _ in operands), *(p.value.dtype.name for p in positions)]
        given = [*kinds, *arguments]
        decorator = tile.elementwise(f"{', '.join(['int64'] * len(given))} -> {', '.join(types)}")
        find = self.src.function(decorator, name, given, [*lines, f"return {', '.join(results)}"])
        self.src.assign(", ".join(results), find(*(f"{kind}s_in_tile" for kind in kinds), *arguments))
