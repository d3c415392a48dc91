"""Emits a transpose: a block computes a square tile of two axes; transposed arrays go through shared memory."""

from __future__ import annotations

from ....kernel_ir.kernel import KernelIR, Load, Position
from ..emit.source_builder import SourceBuilder, header
from ..peephole import rewritten
from ..tile import Tile, barrier, divide, load_value
from . import SmemTransposeIntrinsics, TransposeTile, shared_bytes
from .transpose_schedule import TransposeSchedule

LOADS = ("load", "store_smem", "load_smem")  # of an array that lies across a tile
STORES = ("store_results", "store")


def emit_transpose(kernel: KernelIR, schedule: TransposeSchedule) -> str:
    """The generated file of a map over arrays of two orientations."""
    writer = TransposeEmitter(kernel, schedule)
    writer.find_tile()
    writer.load()
    writer.compute()
    writer.store()
    edge = schedule.edge
    opening = header(kernel, f"a map with a transpose; each block computes a tile of {edge} × {edge} elements", "")
    return writer.src.text(opening, "Load a tile, transpose it through shared memory, compute, store.")


class TransposeEmitter:
    """Emitter of one transpose: locates the tile of a block, then loads, computes and stores it."""

    def __init__(self, kernel: KernelIR, schedule: TransposeSchedule):
        self.kernel, self.schedule = kernel, schedule
        self.src = SourceBuilder(kernel)
        self.last = kernel.axes - 1
        tile = TransposeTile(edge=schedule.edge, width=schedule.width, threads=schedule.threads)
        self.tile = self.src.bind("transpose_tile", tile)
        shape = {"width": schedule.width, "vectors": schedule.vectors, "step": 1}
        self.src.bind("tile", Tile(**shape, checks="." * schedule.vectors))
        self.src.read_scalars()
        self.origin: dict[int, str] = {}  # where the block stands on each axis

    # -- where a block stands

    def find_tile(self) -> None:
        """Split the block's number along the axes, and count what is there of its tile."""
        schedule, names, assign = self.schedule, self.src.names, self.src.assign
        grid_axes, shift = schedule.grid_axes(self.kernel.axes), schedule.edge.bit_length() - 1
        rest = self.src.block
        for index in range(len(grid_axes) - 1, 0, -1):
            axis = grid_axes[index]
            size = names.extent(axis)
            if axis in (schedule.axis, self.last):
                size = f"int32(int64({size} + {schedule.edge - 1}) >> {shift})"
            else:
                size = f"int32({size})"
            assign(f"count{axis}", size)
            assign(f"quotient{axis}", divide(rest, f"count{axis}", names.magic(index)))
            assign(f"tile{axis}", f"int64(int32({rest} - int32(quotient{axis} * count{axis})))")
            rest = f"quotient{axis}"
        assign(f"tile{grid_axes[0]}", f"int64({rest})")
        for axis in grid_axes:
            self.origin[axis] = f"tile{axis}"
        for name, axis in (("row", schedule.axis), ("column", self.last)):
            assign(name, f"int64(tile{axis} * {schedule.edge})")
            left = f"int64({names.extent(axis)} - {name})"
            assign(f"{name}s", f"int32(minimum({left}, int64({schedule.edge})))")
            self.origin[axis] = name
        for k in self._used():
            self._find_base(k)

    def _used(self) -> list[int]:
        loads = {load.operand for load in self.kernel.loads}
        return sorted(loads | {store.operand for store in self.kernel.phases[0].stores})

    def _find_base(self, k: int) -> None:
        """The address of the tile's first element in an operand."""
        operand, pointer = self.kernel.operands[k], self.src.names.pointer(k)
        terms = []
        for axis, stride_kind in enumerate(operand.strides):
            if stride_kind == "1" or (k in self.schedule.transposed and axis == self.schedule.axis):
                terms.append(self.origin[axis])
            elif stride_kind == "s":
                terms.append(f"{self.origin[axis]} * {self.src.names.stride(k, axis)}")
        offset = " + ".join(terms)
        size = f" * {operand.dtype.itemsize}" if operand.dtype.itemsize > 1 else ""
        moved = f" + ({offset}){size}" if terms else ""
        self.src.assign(self._base(k), f"int64({pointer}{moved})")

    def _base(self, k: int) -> str:
        return f"{self.src.names.operand(k)}_tile"

    def _strides(self, k: int) -> list[str]:
        """The strides of an operand along the rows' axis and the columns'."""
        strides = []
        for axis in (self.schedule.axis, self.last):
            kind = self.kernel.operands[k].strides[axis]
            strides.append(self.src.names.stride(k, axis) if kind == "s" else f"int64({kind})")
        return strides

    def _column_stride(self, k: int) -> str:
        return self.src.names.stride(k, self.last)

    # -- the phases of a tile

    def load(self) -> None:
        """All loads first; then those across are turned."""
        src, across = self.src, [x for x in self.kernel.loads if x.operand in self.schedule.transposed]
        through_smem_calls = []
        for load in across:
            name, k = load.value.name, load.operand
            turn = self._bind_transpose(name, k)
            read, *through_smem = (src.bind(f"{name}_{part}", getattr(turn, part)()) for part in LOADS)
            through_smem_calls.append(through_smem)
            self._allocate(name, k)
            src.assign(f"{name}_registers", read(self._base(k), self._column_stride(k), "rows", "columns"))
        for load in self.kernel.loads:
            if load.operand not in self.schedule.transposed:
                self._load_along(load)
        for load, (store_smem, _) in zip(across, through_smem_calls):
            src.emit(store_smem(f"{load.value.name}_smem", f"{load.value.name}_registers"))
        for position in self.kernel.positions:
            self._position(position)
        if across:
            src.emit(barrier())
        for load, (_, load_smem) in zip(across, through_smem_calls):
            src.stored[load.value.name] = self.kernel.operands[load.operand].dtype
            src.assign(load.value.name, load_smem(f"{load.value.name}_smem"))

    def _bind_transpose(self, name: str, k: int) -> SmemTransposeIntrinsics:
        """The accesses of an array that lies across the tile."""
        vectorized = self.schedule.vectorized[self.schedule.transposed.index(k)]
        return self.src.bind(f"{name}_transpose", self.tile.via_smem(self.kernel.operands[k].dtype.name, vectorized))

    def _allocate(self, name: str, k: int) -> None:
        """Emit the allocation of its shared memory."""
        size = self.schedule.edge**2 * self.kernel.operands[k].dtype.itemsize
        self.src.assign(f"{name}_smem", self.src.bind(f"{name}_allocate", shared_bytes(size))())

    def _load_along(self, load: Load) -> None:
        src, name, k = self.src, load.value.name, load.operand
        operand = self.kernel.operands[k]
        if set(operand.strides[self.schedule.axis] + operand.strides[-1]) == {"0"}:
            src.assign(name, src.bind(f"load_{name}", load_value(operand.dtype.name))(self._base(k)))
            return
        src.stored[name] = operand.dtype
        read = src.bind(f"load_{name}", self.tile.load(operand.dtype.name, src.access(k, self.schedule.width)[0]))
        src.assign(name, read(self._base(k), *self._strides(k), "rows", "columns"))

    def _position(self, position: Position) -> None:
        name, kind, axis = position.value.name, position.value.dtype.name, position.axis
        if axis in (self.schedule.axis, self.last):
            read = self.src.bind(f"at_{name}", self.tile.positions(kind, along=axis == self.last))
            self.src.assign(name, read(self.origin[axis]))
        else:
            self.src.assign(name, f"{kind}({self.origin[axis]})")

    def compute(self) -> None:
        """The body, over the tile."""
        self.src.fill_tables(self.schedule.threads)
        self.src.map_body("body", rewritten(self.kernel, self.kernel.phases[0]))

    def store(self) -> None:
        """Along the tile at once, across it by way of shared memory."""
        src, across = self.src, []
        for number, store in enumerate(self.kernel.phases[0].stores):
            k, value, name = store.operand, src.element(store.value), f"store_{number}"
            if k in self.schedule.transposed:
                turn = self._bind_transpose(name, k)
                store_results, write = (src.bind(f"{name}_{part}", getattr(turn, part)()) for part in STORES)
                self._allocate(name, k)
                src.emit(store_results(f"{name}_smem", value))
                base = self._base(k), self._column_stride(k)
                across.append(write(f"{name}_smem", *base, "rows", "columns"))
                continue
            kind, _ = src.access(k, self.schedule.width)
            write = src.bind(name, self.tile.store(self.kernel.operands[k].dtype.name, kind))
            src.emit(write(self._base(k), *self._strides(k), "rows", "columns", value))
        if across:
            src.emit(barrier(), *across)
