"""Emits gathers of row bodies that start before the reductions they precede."""

from __future__ import annotations

from dataclasses import replace

from ....kernel_ir.instruction import needed
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body, Value
from ..emit.phase_emitter import PhaseEmitter
from ..peephole.gathers import slice_of


class EarlyGathers:
    """What row bodies gather, whatever the reductions are: in flight while the row is reduced."""

    def __init__(self, bodies: dict[int, Body]):
        self.pending = dict(bodies)

    def begin(self, emitter: PhaseEmitter) -> None:
        """Load the row values that addresses depend on: with the row's first elements."""
        for body in self.pending.values():
            for value in body.args:
                emitter.provide(value, tiles=False)

    def emit(self, emitter: PhaseEmitter) -> None:
        """Emit the gathers, once the first loads are in flight."""
        for number, body in self.pending.items():
            emitter.row_body(f"ahead_{number}", body)
            emitter.src.fetched |= {value.name: value for value in body.results}
        self.pending.clear()


def hoist_gathers(kernel: KernelIR) -> tuple[KernelIR, dict[int, Body]]:
    """The kernel without the gathers of its row bodies that depend on no reduction, and these by phase."""
    known = {x.value.name for group in (kernel.loads, kernel.positions, kernel.pointers) for x in group}
    known |= {value.name for value in kernel.scalars}
    phases, early = list(kernel.phases), {}
    for number, phase in enumerate(phases):
        if phase.row is not None:
            gathers, rest = split_row_body(phase.row, {v.name for v in phase.row.args} - known)
            if gathers is not None:
                early[number], phases[number] = gathers, replace(phase, row=rest)
    return (replace(kernel, phases=tuple(phases)) if early else kernel), early


def split_row_body(body: Body, late: set[str]) -> tuple[Body | None, Body]:
    """(what a row's body fetches and can, before any of the values `late` is known; the rest of the body).

    A read at an address that was read itself takes twice the time of a tile: it is in flight during the folds.
    """
    fetches = [
        i
        for i in body.instructions
        if i.op == "fetch" and i.reads_names_only and late.isdisjoint(needed(body.instructions, {i.target}))
    ]
    if not fetches:
        return None, body
    fetched = {i.target: Value(i.target, i.dtype.compute) for i in fetches}
    given = {value.name: value for value in body.args}
    early = slice_of(body.instructions, given, tuple(fetched.values()))
    others = [i for i in body.instructions if i.target not in fetched]
    return early, slice_of(others, given | fetched, body.results)
