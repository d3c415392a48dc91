"""Emits a transpose: a block computes a square tile of two axes; transposed arrays go through shared memory."""

from __future__ import annotations

from ....kernel_ir.kernel import KernelIR, Load
from ..emit.source_text import SourceBuilder, access_kind, header
from ..peephole.low_precision_stores import narrow_body
from .transpose_schedule import TransposeSchedule


def emit_transpose(kernel: KernelIR, schedule: TransposeSchedule) -> str:
    """The generated file of a map over arrays of two orientations."""
    writer = TransposeEmitter(kernel, schedule)
    writer.find_patch()
    writer.load()
    writer.compute()
    writer.store()
    edge = schedule.edge
    opening = header(kernel, f"a map; each block computes a patch of {edge} × {edge} elements", "")
    return writer.scope.text(opening, "Load a patch, turn what lies across it, compute, store.")


class TransposeEmitter:
    def __init__(self, kernel: KernelIR, schedule: TransposeSchedule):
        self.kernel, self.schedule = kernel, schedule
        self.scope = SourceBuilder(kernel)
        self.last = kernel.axes - 1
        edge, width, threads = schedule.edge, schedule.width, schedule.threads
        self.scope.top += [
            f"transpose_tile = TransposeTile(edge={edge}, width={width}, threads={threads})",
            f'tile = Tile(width={width}, vectors={schedule.vectors}, step=1, checks="{"." * schedule.vectors}")',
        ]
        self.scope.read_scalars()
        self.origin: dict[int, str] = {}  # where the block stands on each axis

    # -- where a block stands

    def find_patch(self) -> None:
        """Split the block's number along the axes, and count what is there of its patch."""
        schedule, names, code = self.schedule, self.scope.names, self.scope.code
        digits, shift = schedule.digits(self.kernel.axes), schedule.edge.bit_length() - 1
        rest = self.scope.block
        for place in range(len(digits) - 1, 0, -1):
            axis = digits[place]
            size = names.extent(axis)
            if axis in (schedule.axis, self.last):
                size = f"int32(int64({size} + {schedule.edge - 1}) >> {shift})"
            else:
                size = f"int32({size})"
            code.append(f"count{axis} = {size}")
            code.append(f"rest{axis} = divide({rest}, count{axis}, {names.magic(place)})")
            code.append(f"place{axis} = int64(int32({rest} - int32(rest{axis} * count{axis})))")
            rest = f"rest{axis}"
        code.append(f"place{digits[0]} = int64({rest})")
        for axis in digits:
            self.origin[axis] = f"place{axis}"
        for name, axis in (("row", schedule.axis), ("column", self.last)):
            code.append(f"{name} = int64(place{axis} * {schedule.edge})")
            left = f"int64({names.extent(axis)} - {name})"
            code.append(f"{name}s = int32(minimum({left}, int64({schedule.edge})))")
            self.origin[axis] = name
        for k in self._used():
            self._find_base(k)

    def _used(self) -> list[int]:
        loads = {load.operand for load in self.kernel.loads}
        return sorted(loads | {store.operand for store in self.kernel.phases[0].stores})

    def _find_base(self, k: int) -> None:
        """The address of the patch's first element in an operand."""
        operand, pointer = self.kernel.operands[k], self.scope.names.pointer(k)
        terms = []
        for axis, letter in enumerate(operand.strides):
            if letter == "1" or (k in self.schedule.transposed and axis == self.schedule.axis):
                terms.append(self.origin[axis])
            elif letter == "s":
                terms.append(f"{self.origin[axis]} * {self.scope.names.stride(k, axis)}")
        offset = " + ".join(terms)
        size = f" * {operand.dtype.itemsize}" if operand.dtype.itemsize > 1 else ""
        moved = f" + ({offset}){size}" if terms else ""
        self.scope.code.append(f"{self._base(k)} = int64({pointer}{moved})")

    def _base(self, k: int) -> str:
        return f"{self.scope.names.operand(k)}_patch"

    def _strides(self, k: int) -> str:
        """The strides of an operand along the rows' axis and the columns'."""
        found = []
        for axis in (self.schedule.axis, self.last):
            letter = self.kernel.operands[k].strides[axis]
            found.append(self.scope.names.stride(k, axis) if letter == "s" else f"int64({letter})")
        return ", ".join(found)

    def _column_stride(self, k: int) -> str:
        return self.scope.names.stride(k, self.last)

    # -- the phases of a patch

    def load(self) -> None:
        """All loads first; then those across are turned."""
        code, across = self.scope.code, [x for x in self.kernel.loads if x.operand in self.schedule.transposed]
        for load in across:
            name, k = load.value.name, load.operand
            self._define_across(name, k)
            code.append(f"{name}_registers = {name}_load({self._base(k)}, {self._column_stride(k)}, rows, columns)")
        for load in self.kernel.loads:
            if load.operand not in self.schedule.transposed:
                self._load_along(load)
        for load in across:
            code.append(f"{load.value.name}_store_smem({load.value.name}_smem, {load.value.name}_registers)")
        for position in self.kernel.positions:
            self._position(position.value.name, position.value.dtype.name, position.axis)
        if across:
            code.append("barrier()")
        for load in across:
            self.scope.stored[load.value.name] = self.kernel.operands[load.operand].dtype
            code.append(f"{load.value.name} = {load.value.name}_load_smem({load.value.name}_smem)")

    def _define_across(self, name: str, k: int) -> None:
        """The accesses of an array that lies across the patch, and its shared memory."""
        operand, schedule = self.kernel.operands[k], self.schedule
        vectorized = schedule.vectorized[schedule.transposed.index(k)]
        size = schedule.edge**2 * operand.dtype.itemsize
        parts = ("load", "store_smem", "load_smem") if k < self.kernel.inputs else ("store_results", "store")
        access = f'"{operand.dtype.name}", vectorized={vectorized}'
        self.scope.top.append(f"{name}_transpose = transpose_tile.via_smem({access})")
        self.scope.top += [f"{name}_{part} = {name}_transpose.{part}()" for part in parts]
        self.scope.top.append(f"{name}_allocate = shared_bytes({size})")
        self.scope.code.append(f"{name}_smem = {name}_allocate()")

    def _letter(self, k: int) -> str:
        letter = access_kind(self.kernel.operands[k], self.schedule.width)
        return "s" if letter == "u" else letter

    def _load_along(self, load: Load) -> None:
        scope, name, k = self.scope, load.value.name, load.operand
        operand = self.kernel.operands[k]
        if set(operand.strides[self.schedule.axis] + operand.strides[-1]) == {"0"}:
            scope.top.append(f'load_{name} = load_value("{operand.dtype.name}")')
            scope.code.append(f"{name} = load_{name}({self._base(k)})")
            return
        scope.stored[name] = operand.dtype
        scope.top.append(f'load_{name} = transpose_tile.load("{operand.dtype.name}", "{self._letter(k)}")')
        scope.code.append(f"{name} = load_{name}({self._base(k)}, {self._strides(k)}, rows, columns)")

    def _position(self, name: str, kind: str, axis: int) -> None:
        if axis not in (self.schedule.axis, self.last):
            self.scope.code.append(f"{name} = {kind}({self.origin[axis]})")
            return
        self.scope.top.append(f'at_{name} = transpose_tile.positions("{kind}", along={axis == self.last})')
        self.scope.code.append(f"{name} = at_{name}({self.origin[axis]})")

    def compute(self) -> None:
        """The body, over the patch."""
        self.scope.map_body("body", narrow_body(self.kernel, self.kernel.phases[0]))

    def store(self) -> None:
        """Along the patch at once, across it by way of shared memory."""
        code, across = self.scope.code, []
        for number, store in enumerate(self.kernel.phases[0].stores):
            k, value = store.operand, self.scope.element(store.value)
            if k in self.schedule.transposed:
                across.append((f"store_{number}", k))
                self._define_across(*across[-1])
                code.append(f"store_{number}_store_results(store_{number}_smem, {value})")
                continue
            operand = self.kernel.operands[k]
            self.scope.top.append(f'store_{number} = transpose_tile.store("{operand.dtype.name}", "{self._letter(k)}")')
            code.append(f"store_{number}({self._base(k)}, {self._strides(k)}, rows, columns, {value})")
        if across:
            code.append("barrier()")
        for name, k in across:
            where = f"{self._base(k)}, {self._column_stride(k)}, rows, columns"
            code.append(f"{name}_store({name}_smem, {where})")
