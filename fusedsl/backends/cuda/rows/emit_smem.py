"""Emits rows in shared memory: one cp.async copy, then loops of the phases over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernel_ir.phase import Phase
from ..emit.source_text import either, indented
from .emit_prefetch import emit_early_gathers
from .smem import smem_copied_operands

if TYPE_CHECKING:
    from .emit import RowEmitter

FORMS = (("whole_", "whole"), ("", "tile"))  # of what depends on whether all of a tile is there: prefix, tile


def emit_smem_copy(writer: RowEmitter) -> None:
    """Emit the copy of reread operands to shared memory; each thread waits only for its own elements."""
    plan, kernel, scope, offset = writer.schedule, writer.kernel, writer.scope, 0
    calls = []
    for k in smem_copied_operands(kernel):
        name, load = kernel.operands[k].dtype.name, next(x for x in kernel.loads if x.operand == k)
        writer.in_smem[load.value.name] = k
        where = f'("{name}", {plan.threads}, {offset})'
        scope.top += [f"{of}copy_async_{load.value.name} = {tile}.copy_async{where}" for of, tile in FORMS]
        scope.top.append(f"load_shared_{load.value.name} = tile.load_shared{where}")
        calls.append(f"copy_async_{load.value.name}({writer.bases[k]}, column, columns, smem)")
        offset += plan.vectors * plan.width * plan.threads * kernel.operands[k].dtype.itemsize
    whole, checked = ([f"{of}{call}" for call in calls] for of, _ in FORMS)
    scope.code.extend(_turns(writer, whole, checked))
    emit_early_gathers(writer)
    scope.code.append("cp_async_wait_all()")


def emit_smem_loop(writer: RowEmitter, number: int, phase: Phase) -> None:
    """Emit one loop over the columns; reductions accumulate in it and are combined after it."""
    if not (phase.stores or phase.folds):
        return
    scope = writer.scope
    for value in [value for part in phase.passes for value in part.reads]:  # row values are read once
        writer.provide(value, tiles=False)
    for use in phase.folds:
        scope.code.append(f"{use.accumulators[0].name}_accumulator = initial_{writer.define_reduction(use)}()")
    outside, works = scope.code, []
    ready, stored, wide = scope.ready, scope.stored, scope.wide
    for whole in (True, False):  # the work of a turn, for tiles that are there as a whole and for those that may not be
        writer.full, scope.code = whole, []
        scope.ready, scope.stored, scope.wide = set(ready), dict(stored), dict(wide)
        writer.emit_tile_work(number, phase)
        works.append(scope.code)
    scope.code = outside
    scope.code.extend(_turns(writer, *works))
    writer.combine_accumulators(phase)
    writer.forget()


def _turns(writer: RowEmitter, whole: list[str], checked: list[str]) -> list[str]:
    """A loop over the columns; `place` is where a turn's tiles are in shared memory."""
    plan, kernel = writer.schedule, writer.kernel
    index = kernel.index
    there = f"column + {(plan.vectors - 1) * plan.vector_stride + plan.width} <= columns"
    if any(operand.access == "peeled" for operand in kernel.operands):
        there = f"(column >= 0) & ({there})"
    each = sum(kernel.operands[k].dtype.itemsize for k in smem_copied_operands(kernel))
    inside = either(there, whole, checked)
    inside.append(f"column = {index}(column + {plan.tile_elements})")
    inside.append(f"smem = int32(smem + {plan.vectors * plan.width * plan.threads * each})")
    return ["column = start", "smem = smem_base()", "while column < columns:", *indented(inside)]
