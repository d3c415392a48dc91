"""Emits peeled elements of unaligned rows: those before the first aligned vector and after the last."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ....kernel_ir.phase import Phase, Reduction, Value
from ..emit.phase_emitter import ReductionIntrinsics
from ..peephole import ROW_PEEPHOLES, rewritten
from ..tile import TileIntrinsics, combine_states, reduce_tile
from .emit_index import RowIndex

EDGE = TileIntrinsics("edge_tile")


@dataclass
class PeeledElements:
    """The few elements at the ends of a row that a thread takes one by one, beside its aligned vectors."""

    index: RowIndex
    variables: dict[str, str] = field(default_factory=dict)  # by name, of what has a value at the ends

    def __post_init__(self) -> None:
        self.src, self.kernel = self.index.src, self.index.kernel

    def load(self, values: Collection[Value]) -> None:
        """See that the arguments of a body have their values at the ends."""
        src, kernel, rows = self.src, self.kernel, self.kernel.row_operands
        for load in kernel.loads:
            name, k = load.value.name, load.operand
            if load.value not in values or name in self.variables or k in rows:
                continue
            kind, stride = src.access(k, 1)
            src.stored.setdefault(name, kernel.operands[k].dtype)
            read = src.bind(f"edge_load_{name}", EDGE.load(kernel.operands[k].dtype.name, kind))
            src.assign(self._define(name), read(self.index.bases[k], "edge", "columns", *stride))
        for position in kernel.positions:
            name = position.value.name
            if position.value in values and position.axis >= kernel.row_axes and name not in self.variables:
                read = src.bind(f"edge_at_{name}", EDGE.positions(position.value.dtype.name))
                src.assign(self._define(name), read("edge"))

    def compute(self, number: int | str, phase: Phase) -> None:
        """The element body of a phase at the ends."""
        body = rewritten(self.kernel, phase, ROW_PEEPHOLES)
        given = {value.name for value in body.args}
        before = dict(self.variables)
        results = {v.name: f"{v.name}_edge" for v in body.results if v.name not in given}
        self.src.apply(EDGE.elementwise, f"edge_phase_{number}", body, before | results)
        self.variables |= results

    def stores(self, number: int | str, phase: Phase) -> Iterator[str]:
        """Calls that store a phase's results at the ends."""
        for k, store in enumerate(phase.stores):
            kind, stride = self.src.access(store.operand, 1)
            dtype = self.kernel.operands[store.operand].dtype.name
            write = self.src.bind(f"edge_store_{number}_{k}", EDGE.store(dtype, kind))
            value, base = self._widened(store.value), self.index.bases[store.operand]
            yield write(base, "edge", value, "edge", "columns", *stride)

    def combine(self, use: Reduction, intrinsics: ReductionIntrinsics, state: str) -> str:
        """The call that merges this thread's elements at the ends into the state of its whole vectors."""
        src, name, op = self.src, intrinsics.name, intrinsics.op
        reduce = src.bind(f"edge_reduce_{name}", reduce_tile(EDGE, op), src.functions)
        merge = src.bind(f"merge_{name}", combine_states(op), src.functions)
        lifted = [self._widened(value.name) for value in use.inputs]
        return merge(state, reduce(*lifted, "edge", "columns"))

    def _define(self, name: str) -> str:
        return self.variables.setdefault(name, f"{name}_edge")

    def _widened(self, name: str) -> str:
        """A value at the ends as a body computes with it."""
        variable = self.variables.get(name, name)
        wide = f"{variable}_wide"
        text = self.src.widen(name, EDGE, variable) if name in self.variables else variable
        if text == variable:
            return variable
        if wide not in self.src.ready:
            self.src.ready.add(wide)
            self.src.assign(wide, text)
        return wide
