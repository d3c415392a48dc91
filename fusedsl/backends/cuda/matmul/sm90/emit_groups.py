"""Emits what finishes groups of a tile's columns, as a normalisation: phases that fold a group and store its elements.

The values of a group's elements stay in registers from one phase to the next, panel by panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .....kernel_ir.held_values import held_values
from .....kernel_ir.kernel import Load
from .....kernel_ir.phase import Body, Reduction, Value
from ...peephole.epilogue_approximations import functions_of_stores
from ...peephole.softmax_exp import summed_exponentials
from .emit_epilogue import PanelEpilogue


class GroupEpilogue:
    """Emits the phases of all groups of a tile, panel by panel."""

    def __init__(self, epilogue: PanelEpilogue, registers: int):
        """`registers` of a thread are for what is loaded of a panel, beside those of the epilogue."""
        phase = epilogue.kernel.phases[0]
        assert phase.groups is not None
        self.epilogue, self.src, self.registers = epilogue, epilogue.src, registers
        self.phase, self.groups = phase, phase.groups

    def hold(self, first: int) -> None:
        """Emit that what the panel from column `first` on has computed is held for the first phase."""
        self._hold(0, first)

    def _hold(self, number: int, first: int) -> None:
        """Emit that values which phase `number` or a later one reads are held."""
        for name in sorted(held_values(self.phase, number)):
            self.src.assign(f"{name}_{first}", name)

    def finish(self, columns: int) -> None:
        """Emit the phases of the groups of a tile that has so many columns."""
        size, panel = self.groups.size, self.epilogue.panel
        for start in range(0, columns, size):
            for number in range(len(self.groups.phases)):
                self._run(number, range(start, start + size, panel))

    def _run(self, number: int, panels: Sequence[int]) -> None:
        """Emit a phase of a group, which consists of these panels."""
        src, epilogue, phase = self.src, self.epilogue, self.groups.phases[number]
        loads = epilogue.column_loads(replace(self.groups, phases=(phase,)).names_read)
        ahead = self._loaded_ahead(loads)
        body = self._body(number)
        for place, first in enumerate(panels):
            if place == 0:
                self._load(ahead, first)
            for load in ahead:
                src.assign(load.value.name, f"{load.value.name}_ahead")
            if first != panels[-1]:
                self._load(ahead, panels[place + 1])
            epilogue.set_panel(first)
            for load in loads:
                if load not in ahead:
                    epilogue.load_columns(load, load.value.name)
            for name in sorted(held_values(self.phase, number)):
                src.assign(name, f"{name}_{first}")
            src.apply(epilogue.fragment.elementwise, f"group_{number}", body)
            for use in phase.folds:
                self._fold(use, first == panels[0])
            elements = held_values(self.phase, number) | {v.name for v in body.results}
            for store in phase.stores:
                epilogue.store(store, elements)
            self._hold(number + 1, first)
        for use in phase.folds:
            epilogue.fold_quad(use, _label(use))
        if phase.row is not None:
            src.apply(epilogue.fragment.rowwise, f"group_row_{number}", phase.row)

    def _body(self, number: int) -> Body:
        """The element body of a phase, with the approximations that its use allows."""
        phase = self.groups.phases[number]
        alone = replace(self.epilogue.kernel, phases=self.groups.phases)
        if phase.folds or {v.name for v in phase.element.results} & held_values(self.phase, number + 1):
            return summed_exponentials(alone, phase, phase.element)
        return functions_of_stores(alone, phase.element, phase.stores)

    def _loaded_ahead(self, loads: Sequence[Load]) -> list[Load]:
        """The loads that are issued a panel ahead: all of them, if there are registers for two panels of them."""
        needed = 2 * sum(map(self.epilogue.loaded_registers, loads))
        return list(loads) if needed <= self.registers else []

    def _load(self, loads: Sequence[Load], first: int) -> None:
        """Emit loads of the panel from column `first` on, ahead of it."""
        if loads:
            self.epilogue.set_panel(first)
        for load in loads:
            self.epilogue.load_columns(load, f"{load.value.name}_ahead")

    def _fold(self, use: Reduction, is_first: bool) -> None:
        """Emit a fold over what a thread has of a panel, after its state of the panels before."""
        label = _label(use)
        if is_first:
            self.epilogue.fold_own(use, label)
            return
        parts = tuple(Value(f"{v.name}_part", v.dtype) for v in use.accumulators)
        self.epilogue.fold_own(replace(use, accumulators=parts), f"{label}_part")
        names = [v.name for v in (*use.accumulators, *parts)]
        at = dict(zip((v.name for v in use.combine.args), names))
        at |= dict(zip((v.name for v in use.combine.results), names))
        self.src.apply(self.epilogue.fragment.rowwise, f"combine_{label}", use.combine, at)


def _label(use: Reduction) -> str:
    return f"{use.name}_{use.accumulators[0].name}"
