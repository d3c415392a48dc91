"""Emits loads, stores and positions of a row kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....kernel_ir.kernel import Load, Operand
from ....kernel_ir.memory_access import ACCESS_BYTES
from ....kernel_ir.phase import Value
from ....kernel_ir.register_pressure import stays_packed
from ..emit.source_text import access_kind
from .emit_index import RowIndexEmitter


@dataclass
class RowMemoryEmitter(RowIndexEmitter):
    """Emitter of loads and stores, for one row kernel."""

    in_smem: dict[str, int] = field(default_factory=dict)  # value -> operand: what is in shared memory
    smem_offsets: dict[str, int] = field(default_factory=dict)  # value -> where there

    def provide(self, value: Value, tiles: bool = True) -> None:
        """Emit the definition of a body's argument, if it has none yet."""
        if value.name in self.scope.ready:
            return
        for load in self.kernel.loads:
            if load.value.name == value.name:
                if load.operand in self.kernel.row_operands:
                    self._load_row_value(load.value.name, load.operand)
                elif tiles:
                    self.load(load)
        for position in self.kernel.positions:
            if position.value.name == value.name:
                if position.axis < self.kernel.row_axes:
                    self.scope.ready.add(value.name)
                    self.code.append(f"{value.name} = {value.dtype.name}(row{position.axis})")
                elif tiles:
                    self._position(position)

    def _load_row_value(self, name: str, k: int) -> None:
        self.scope.ready.add(name)
        self.scope.top.append(f'load_{name} = load_value("{self.kernel.operands[k].dtype.name}")')
        self.code.append(f"{name} = load_{name}({self.bases[k]})")

    def load(self, load: Load) -> None:
        name, k = load.value.name, load.operand
        operand, column = self.kernel.operands[k], "start" if self.schedule.resident else "column"
        self.scope.ready.add(name)
        if self.multi_axis:
            self.multi_axis.load(load)
            return
        self.scope.stored[name] = operand.dtype
        if name in self.in_smem:
            self.code.append(f"{name} = load_shared_{name}(smem)")
            return
        self.define_load(load)
        self.code.append(f"{name} = {self.load_from(load, column)}")

    def load_shared_call(self, load: Load, tile: str, first: int) -> str:
        """What takes a tile from shared memory: the vectors of a thread from the first on."""
        plan, kind = self.schedule, self.kernel.operands[load.operand].dtype
        offset = self.smem_offsets[load.value.name] + first * plan.threads * plan.width * kind.itemsize
        return f'{tile}.load_shared("{kind.name}", {plan.threads}, {offset})'

    def define_load(self, load: Load) -> None:
        """The intrinsic that loads a tile."""
        operand = self.kernel.operands[load.operand]
        letter = self.load_letter(operand)
        kind = "s" if letter == "u" else letter
        define = f'{self.prefix}load_{load.value.name} = {self.tile}.load("{operand.dtype.name}", "{kind}")'
        if define not in self.scope.top:
            self.scope.top.append(define)

    def load_from(self, load: Load, column: str) -> str:
        """The call that loads a tile from a column on."""
        letter = self.load_letter(self.kernel.operands[load.operand])
        begin, stride = self.bases[load.operand], self.scope.stride(load.operand, letter)
        return f"{self.prefix}load_{load.value.name}({begin}, {column}, {self.limit}{stride})"

    def load_letter(self, operand: Operand) -> str:
        """How a tile of this operand is loaded; misaligned vectors are shifted out of aligned ones."""
        letter, width = access_kind(operand, self.schedule.width), self.schedule.width
        short = operand.dtype.itemsize < 4 and operand.dtype.itemsize * width == ACCESS_BYTES
        return "m" if letter == "u" and short else letter

    def _position(self, position) -> None:
        name = position.value.name
        self.scope.ready.add(name)
        if self.multi_axis:
            self.multi_axis.position(position)
            return
        self.emit_positions(name, position.value.dtype.name)

    def emit_positions(self, name: str, kind: str) -> None:
        """A tile's positions along the row, under a name, in a type."""
        define = f'at_{name} = tile.positions("{kind}")'
        if define not in self.scope.top:
            self.scope.top.append(define)
        self.code.append(f"{name} = at_{name}({'start' if self.schedule.resident else 'column'})")

    def _store(self, name: str, k: int, value: str) -> str:
        operand, column = self.kernel.operands[k], "start" if self.schedule.resident else "column"
        letter = access_kind(operand, self.schedule.width)
        name, kind = f"{self.prefix}{name}", "s" if letter == "u" else letter
        self.scope.top.append(f'{name} = {self.tile}.store("{operand.dtype.name}", "{kind}")')
        stride = self.scope.stride(k, letter)
        place = f"{self.multi_axis.offset(k)}" if self.multi_axis else column
        return f"{name}({self.bases[k]}, {place}, {value}, {column}, {self.limit}{stride})"

    def _take_anew(self, value: Value) -> None:
        """A held tile of 16-bit floats that an earlier phase computed with: the compiler is to keep it in pairs."""
        stored = self.scope.stored.get(value.name) if self.schedule.resident else None
        plan = self.schedule
        if stored is None or value.name not in self.scope.ready:
            return
        if not stays_packed(self.kernel, stored, plan.width, plan.vectors):
            return
        define = f"again = tile.slice(0, {plan.vectors}, rematerialize=True)"
        if define not in self.scope.top:
            self.scope.top.append(define)
        self.code.append(f"{value.name} = again({value.name})")
        self.scope.wide.pop(value.name, None)

    def forget(self) -> None:
        """What a loop loaded is gone after it."""
        self.scope.ready -= {load.value.name for load in self.kernel.element_loads}
        self.scope.ready -= {p.value.name for p in self.kernel.positions if p.axis >= self.kernel.row_axes}
        self.scope.wide.clear()
