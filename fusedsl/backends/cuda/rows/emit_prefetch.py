"""Emits loops that prefetch their next tile, and gathers that start before the reductions they precede."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernel_ir.instruction import needed
from ....kernel_ir.kernel import KernelIR, Load
from ....kernel_ir.phase import Body, Phase, Value
from ..emit.source_text import either, indented
from ..peephole.gathers import slice_of

if TYPE_CHECKING:
    from .emit import RowEmitter


def emit_prefetched_loop(writer: RowEmitter, number: int, phase: Phase) -> None:
    """Emit a loop over the columns: each iteration loads the next tile, then processes its own."""
    scope, index = writer.scope, writer.kernel.index
    backwards = writer.backwards(number, phase)
    stride = writer.tile_stride()
    for value in [value for part in phase.passes for value in part.reads]:  # row values are read once
        writer.provide(value, tiles=False)
    for use in phase.folds:
        scope.code.append(f"{use.accumulators[0].name}_accumulator = initial_{writer.define_reduction(use)}()")
    loads = prefetched_of(writer.kernel, phase)
    last = f"column = {index}({writer.last()})  # what was read last is still in L2"
    scope.code.append(last if backwards else "column = start")
    for load in loads:
        writer.define_load(load)
        scope.stored[load.value.name] = writer.kernel.operands[load.operand].dtype
        scope.code.append(f"{load.value.name}_next = {writer.load_from(load, 'column')}")
    emit_early_gathers(writer)
    inside = [f"{load.value.name} = {load.value.name}_next" for load in loads]
    if backwards:  # before the first tile there is nothing: as beyond the last
        inside.append(f"following = {index}(select(column >= start + {stride}, column - {stride}, columns))")
    else:
        inside.append(f"following = {index}(column + {stride})")
    inside += [f"{load.value.name}_next = {writer.load_from(load, 'following')}" for load in loads]
    whole, checked = _works(writer, number, phase, loads)
    inside += [*either(_there(writer), whole, checked), "column = following"]
    scope.code += ["while column < columns:", *indented(inside)]
    writer.combine_accumulators(phase)
    writer.forget()


def prefetched_of(kernel: KernelIR, phase: Phase) -> list[Load]:
    """What the elements of a phase load."""
    read = {value.name for part in phase.passes for value in part.reads}
    read |= {store.value for store in phase.stores}
    return [load for load in kernel.element_loads if load.value.name in read]


def _works(writer: RowEmitter, number: int, phase: Phase, loads: list[Load]) -> list[list[str]]:
    """The work on a tile: one that is there as a whole, and one of which a part may be missing."""
    scope, outside, works = writer.scope, writer.scope.code, []
    ready, stored, wide = scope.ready, scope.stored, scope.wide
    for whole in (True, False):
        writer.full, scope.code = whole, []
        scope.ready, scope.stored, scope.wide = ready | {x.value.name for x in loads}, dict(stored), dict(wide)
        writer.emit_tile_work(number, phase)
        works.append(scope.code)
    scope.code, scope.ready = outside, ready
    return works


def _there(writer: RowEmitter) -> str:
    """Whether all of this thread's tile exists."""
    plan = writer.schedule
    there = f"column + {(plan.vectors - 1) * plan.vector_stride + plan.width} <= columns"
    split = any(operand.access == "peeled" for operand in writer.kernel.operands)
    return f"(column >= 0) & ({there})" if split else there


def begin_gathers_early(writer: RowEmitter) -> None:
    """Load the row values that addresses depend on: with the row's first elements."""
    kernel = writer.kernel
    known = {x.value.name for group in (kernel.loads, kernel.positions, kernel.pointers) for x in group}
    known |= {value.name for value in kernel.scalars}
    for number, phase in enumerate(kernel.phases):
        if phase.row is not None:
            early, writer.rows[number] = split_row_body(phase.row, {v.name for v in phase.row.args} - known)
            if early is not None:
                writer.ahead[number] = early
                for value in early.args:
                    writer.provide(value, tiles=False)


def emit_early_gathers(writer: RowEmitter) -> None:
    """Emit the gathers of row bodies, once the first loads are in flight."""
    for number, early in writer.ahead.items():
        writer.row_body(f"ahead_{number}", early)
        writer.scope.fetched |= {value.name: value for value in early.results}
    writer.ahead.clear()


def split_row_body(body: Body, late: set[str]) -> tuple[Body | None, Body]:
    """(what a row's body fetches and can, before any of the values `late` is known; the rest of the body).

    A read at an address that was read itself takes twice the time of a tile: it is under way during the folds.
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
