"""Rows in shared memory: copied there first, then passed over a tile a turn by the phases of a kernel that streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernel_ir.phase import Phase
from ..emit.source_text import either, indented
from .emit_prefetch import read_ahead
from .smem import kept_operands

if TYPE_CHECKING:
    from .emit import RowWriter

FORMS = (("whole_", "whole"), ("", "tile"))  # of what depends on whether all of a tile is there: prefix, tile


def fetch_row(writer: RowWriter) -> None:
    """Copy what the phases read again to shared memory; each thread waits for what it will read itself."""
    plan, kernel, scope, offset = writer.schedule, writer.kernel, writer.scope, 0
    calls = []
    for k in kept_operands(kernel):
        name, load = kernel.operands[k].dtype.name, next(x for x in kernel.loads if x.operand == k)
        writer.kept[load.value.name] = k
        where = f'("{name}", {plan.threads}, {offset})'
        scope.top += [f"{of}fetch_{load.value.name} = {tile}.fetch{where}" for of, tile in FORMS]
        scope.top.append(f"kept_{load.value.name} = tile.kept{where}")
        calls.append(f"fetch_{load.value.name}({writer.begins[k]}, column, columns, place)")
        offset += plan.vectors * plan.width * plan.threads * kernel.operands[k].dtype.itemsize
    whole, checked = ([f"{of}{call}" for call in calls] for of, _ in FORMS)
    scope.code.extend(_turns(writer, whole, checked))
    read_ahead(writer)
    scope.code.append("await_fetched()")


def write_kept_loop(writer: RowWriter, number: int, phase: Phase) -> None:
    """One pass over the columns; folds collect in the loop and are joined after it."""
    if not (phase.stores or phase.folds):
        return
    scope = writer.scope
    for value in [value for part in phase.passes for value in part.reads]:  # row values are read once
        writer.provide(value, tiles=False)
    for use in phase.folds:
        scope.code.append(f"{use.accumulators[0].name}_so_far = empty_{writer.define_fold(use)}()")
    outside, works = scope.code, []
    ready, stored, wide = scope.ready, scope.stored, scope.wide
    for whole in (True, False):  # the work of a turn, for tiles that are there as a whole and for those that may not be
        writer.whole, scope.code = whole, []
        scope.ready, scope.stored, scope.wide = set(ready), dict(stored), dict(wide)
        writer.turn_work(number, phase)
        works.append(scope.code)
    scope.code = outside
    scope.code.extend(_turns(writer, *works))
    writer.join(phase)
    writer.forget()


def _turns(writer: RowWriter, whole: list[str], checked: list[str]) -> list[str]:
    """A loop over the columns; `place` is where a turn's tiles are in shared memory."""
    plan, kernel = writer.schedule, writer.kernel
    index = kernel.index
    there = f"column + {(plan.vectors - 1) * plan.step + plan.width} <= columns"
    if any(operand.access == "anchor" for operand in kernel.operands):
        there = f"(column >= 0) & ({there})"
    each = sum(kernel.operands[k].dtype.itemsize for k in kept_operands(kernel))
    inside = either(there, whole, checked)
    inside.append(f"column = {index}(column + {plan.span})")
    inside.append(f"place = int32(place + {plan.vectors * plan.width * plan.threads * each})")
    return ["column = start", "place = shared_place()", "while column < columns:", *indented(inside)]
