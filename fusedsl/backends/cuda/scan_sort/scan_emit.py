"""Emits scans of a row kernel: on a resident row, in a loop with a carried state, or by decoupled look-back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernel_ir.phase import Phase, ScanUse
from .scan_schedule import HEADER, max_misalignment, tile_state_bytes

if TYPE_CHECKING:
    from ..rows.emit import RowEmitter


def scans_of(phase: Phase) -> tuple[ScanUse, ...]:
    """The scans of a phase, in order."""
    return tuple(use for step in phase.scans for use in step.scans)


def name_of(use: ScanUse) -> str:
    """What the functions of a scan are called after."""
    return use.accumulators[0].name


def carried_state(use: ScanUse) -> str:
    """The variable with the state of the row's earlier tiles."""
    return f"{name_of(use)}_accumulator"


def emit_scans(writer: RowEmitter, number: int | str, phase: Phase) -> None:
    """The scans of a phase and the bodies after them, once the first body has run."""
    resident = writer.schedule.resident
    for place, step in enumerate(phase.scans):
        for use in step.scans:
            if writer.schedule.decoupled_lookback:
                _write_linked(writer, use)
                continue
            before = carried_state(use)
            if resident:
                define_scan(writer, use)
                before = f"initial_{name_of(use)}()"
            lifted = ", ".join(writer.scope.element(value.name) for value in use.inputs)
            states = ", ".join(value.name for value in use.accumulators)
            after = "_" if resident else carried_state(use)
            column = "start" if resident else "column"
            writer.code.append(f"{states}, {after} = scan_{name_of(use)}({lifted}, {column}, columns, {before})")
            writer.scope.ready |= {value.name for value in use.accumulators}
        for value in step.element.args:
            writer.provide(value)
        writer.scope.map_body(f"phase_{number}_{place}", step.element)


def _write_linked(writer: RowEmitter, use: ScanUse) -> None:
    """A scan whose earlier tiles are other blocks'."""
    name, names = name_of(use), [name_of(other) for other in _all_scans(writer)]
    writer.define_reduce_op(use, name)
    how = ", reverse=True" if use.reverse else ""
    writer.scope.functions.append(f"scan_{name} = scan_with_lookback(tile, thread_group, reduction_{name}{how})")
    lifted = ", ".join(writer.scope.element(value.name) for value in use.inputs)
    offset = f"offset_{names.index(name)}"
    where = f"semaphores, {offset}, {_row(writer)}, turn, tiles, rows_tiles"
    writer.code.append(f"{name} = scan_{name}({lifted}, column, columns, {where})")
    writer.scope.ready.add(name)


def _all_scans(writer: RowEmitter) -> list[ScanUse]:
    return [use for phase in writer.kernel.phases for use in scans_of(phase)]


def _row(writer: RowEmitter) -> str:
    return "int32(row0)" if writer.kernel.row_axes == 1 else "int32(row)"


def begin_lookback(writer: RowEmitter) -> None:
    """The block takes the number of its tile."""
    plan, kernel = writer.schedule, writer.kernel
    extent, shift = writer.scope.names.extent(kernel.axes - 1), plan.tile_elements.bit_length() - 1
    reach = max_misalignment(kernel, plan.width) + plan.tile_elements - 1
    writer.code.append(f"tiles = int32(({extent} + {reach}) >> {shift})")
    writer.code.append("number = take_tile(semaphores)")


def emit_lookback(writer: RowEmitter) -> None:
    """The one phase of a linked kernel: a tile's work, and a note that it is done."""
    (phase,) = writer.kernel.phases
    plan, index = writer.schedule, writer.kernel.index
    row, code = _row(writer), writer.code
    code.append(f"turn = int32(number - {row} * tiles)")
    code.append("rows_tiles = int32(rows * tiles)")
    code.append("groups = int32(rows * ((tiles + 31) >> 5))")
    place = "0"
    for k, use in enumerate(_all_scans(writer)):
        size = tile_state_bytes(use.accumulators[0].dtype.bits)
        code.append(f"offset_{k} = int64({place})")
        place = f"offset_{k} + (int64(rows_tiles) + 2 * int64(groups)) * {size}"
    backwards = any(use.reverse for use in scans_of(phase))
    turn = "(tiles - 1 - turn)" if backwards else "turn"
    code.append(f"column = {index}(start + {index}({turn}) * {plan.tile_elements})")
    writer.emit_elements(0, phase)
    writer.code.append(f"reset_lookback(semaphores, rows_tiles, int64({HEADER}) + {place})")


def define_scan(writer: RowEmitter, use: ScanUse) -> None:
    """The rule of a scan, and the intrinsics made of it."""
    name = name_of(use)
    writer.define_reduce_op(use, name)
    how = f"{', reverse=True' if use.reverse else ''}{', blocked=True' if writer.schedule.blocked_layout else ''}"
    writer.scope.functions.append(f"scan_{name} = scan_tile(tile, thread_group, reduction_{name}{how})")
    writer.scope.functions.append(f"initial_{name} = identity_state(reduction_{name})")


LoopText = tuple[
    list[str], str, list[str], list[str]
]  # of a loop: lines before it, its head, first and last lines inside


def scan_loop(writer: RowEmitter, phase: Phase) -> LoopText:
    """The loop of a phase that scans: a tile's loads are on their way while the tile before it is scanned.

    All threads of a block take as many turns, since they wait for each other in each.
    """
    plan, kernel, scope = writer.schedule, writer.kernel, writer.scope
    index, span = kernel.index, plan.tile_elements
    backwards = any(use.reverse for use in scans_of(phase))
    skew = max_misalignment(kernel, plan.width)
    reach = f"columns + {skew}" if skew else "columns"
    outside, scope.code = scope.code, []
    for use in scans_of(phase):
        define_scan(writer, use)
        scope.code.append(f"{carried_state(use)} = initial_{name_of(use)}()")
    shift = span.bit_length() - 1
    scope.code.append(f"at = {index}((({reach} - 1) >> {shift}) << {shift})" if backwards else f"at = {index}(0)")
    scope.code.append(f"column = {index}(start + at)")
    ahead = [load for load in kernel.element_loads if load.value in phase.reads]
    for load in ahead:
        writer.load(load)
    before, scope.code = scope.code, outside
    if backwards:
        head, following, coming = "while at >= 0:", f"at - {span}", f"select(at >= {span}, column - {span}, columns)"
    else:
        head, following, coming = f"while at < {reach}:", f"at + {span}", f"column + {span}"
    opening = [f"coming = {index}({coming})"]
    opening += [f"{load.value.name}_next = {writer.load_from(load, 'coming')}" for load in ahead]
    closing = [f"{load.value.name} = {load.value.name}_next" for load in ahead]
    return before, head, opening, [*closing, "column = coming", f"at = {index}({following})"]
