"""Emits a column kernel: threads across rows, thread levels along the reduced axes, states per column."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ....kernel_ir.kernel import KernelIR, Load, Position
from ....kernel_ir.phase import Body, Phase, Reduction, Value
from ..emit.source_text import (
    SourceBuilder,
    accumulator_name,
    function,
    header,
    indented,
    reduction_source,
    signature,
)
from ..peephole.low_precision_stores import narrow_body
from ..split_heuristics import state_words
from .emit_index import ColumnIndexEmitter
from .emit_unaligned import emit_alignment
from .schedule import ColumnSchedule, record_bytes, record_places


def emit_columns(kernel: KernelIR, schedule: ColumnSchedule) -> str:
    """The generated file of a column kernel."""
    where = "in registers" if schedule.resident else "that they loop over"
    team = f"{schedule.threads_x} threads side by side, {schedule.threads_y} deep on columns {where}"
    team = "lines of threads on columns that they loop over" if schedule.max_threads else team
    opening = header(kernel, f"a column kernel; {team}", "")
    writer = ColumnEmitter(SourceBuilder(kernel), schedule)
    writer.write()
    return writer.scope.text(opening, "A strip of neighbouring rows for each block, or for each few blocks.")


TILES = 16  # that are measured from what the first of them comes to: as many times its variance is lost in rounding
BATCH_WORDS = 32  # registers of the records that a thread reads at once


@dataclass
class ColumnEmitter(ColumnIndexEmitter):
    """Emitter of one column kernel: locates the strip, then emits its phases."""

    checked: list[str] = field(default_factory=list)  # intrinsics that look at what is there of a tile
    rules: dict[tuple, str] = field(default_factory=dict)  # folds whose functions are written -> their name

    def write(self) -> None:
        self.define_tiles()
        self.scope.read_scalars()
        self.find_rows()
        self.find_columns()
        for number, phase in enumerate(self.kernel.phases):
            if self.schedule.resident:
                self._held(number, phase)
            else:
                self._loop(number, phase)
            self._row_work(number, phase)
        if self.schedule.grid_sync:
            self.code.append("grid_barrier_reset(semaphores, number * 2, parts)")

    def _held(self, number: int, phase: Phase) -> None:
        """A phase over the strip in registers."""
        self._element_work(number, phase)
        for use in phase.folds:
            name = self.define_reduction(use)
            self.scope.unpack(use, f"all_reduce_{name}(reduce_{name}({self.scope.lifted(use)}, column, columns))")

    def _loop(self, number: int, phase: Phase) -> None:
        """One pass over the columns; folds collect in the loop and are joined after it."""
        if not (phase.stores or phase.folds):
            return
        outside = self.scope.code
        for value in [value for part in phase.passes for value in part.reads]:  # row values are read once
            self._provide(value, tiles=False)
        for use in phase.folds:
            self.code.append(f"{accumulator_name(use)} = initial_{self.define_reduction(use)}()")
        self.scope.code = []
        self._turn_work(number, phase)
        inside = self.scope.code
        if phase.reuses_reference:
            self.scope.code = []
            self._turn_work(number, phase, more=True)
        many, self.scope.code = self.scope.code, outside
        self.code.extend(["column = start", "while column < whole:", *indented(many)])
        if self.schedule.vectors > 1:
            self.code.extend(["while column < columns:", *indented(self._at_the_end(inside))])
        if self.kernel.shifted:
            emit_alignment(self, phase)
        if self.schedule.is_split and phase.folds:
            self._exchange(number, phase)
        for use in phase.folds:
            self.scope.unpack(use, f"all_reduce_{self.define_reduction(use)}({accumulator_name(use)})")
        self._forget()

    def _turn_work(self, number: int, phase: Phase, more: bool = False) -> None:
        """What a turn of the loop does; `more`: with a few tiles rather than one, which share what their rows need."""
        self._forget()
        self.multi_axis.emit_offsets()
        if phase.tile_phases:
            self._tile_work(number, phase, more)
            return
        self._element_work(number, phase)
        for use in phase.folds:
            self._collect(use, f"reduce_{self.define_reduction(use)}({self.scope.lifted(use)}, column, columns)")
        self.code.append(self._next())

    def _next(self) -> str:
        return f"column = {self.index}(column + {'stride' if self.schedule.is_split else self.schedule.tile_columns})"

    def _tile_work(self, number: int, phase: Phase, more: bool) -> None:
        """A tile worked as if it were a column, phase by phase; what it comes to is merged into the states so far."""
        for k, part in enumerate(phase.tile_phases):
            self._element_work(f"{number}_{k}", part)
            for use in part.folds:
                self.scope.unpack(
                    use, f"reduce_{self.define_reduction(use)}({self.scope.lifted(use)}, column, columns)"
                )
            if part.row is not None:
                self._row_body(f"tile_{number}_{k}", part.row)
        self.code.append(self._next())
        if more:
            self._more_tiles(number, phase)
        (use,) = phase.folds
        values = ", ".join(value.name for value in use.inputs)
        self._collect(use, f"({values})" if len(use.inputs) > 1 else values)
        for part in phase.tile_phases:
            made = [value for use in part.folds for value in use.accumulators]
            self.scope.ready -= {value.name for value in (*made, *(part.row.results if part.row else ()))}

    def _more_tiles(self, number: int, phase: Phase) -> None:
        """Tiles that are measured from what the one before them came to; their folds merge with its own."""
        outside, self.scope.code = self.scope.code, []
        self._forget()
        self.multi_axis.emit_offsets()
        follow = {value.name for value in phase.derived.accumulators} if phase.derived else set()
        for k, part in enumerate(phase.tile_phases):
            self._element_work(f"{number}_{k}", part)
            for use in (use for use in part.folds if use.accumulators[0].name not in follow):
                names = ", ".join(value.name for value in use.accumulators)
                states = f"({names})" if len(use.accumulators) > 1 else names
                found = f"reduce_{self.define_reduction(use)}({self.scope.lifted(use)}, column, columns)"
                self.code.append(f"{names} = merge_{self.define_reduction(use)}({states}, {found})")
        self.code.extend([self._next(), "tiles = int32(tiles + 1)"])
        inside, self.scope.code = self.scope.code, outside
        self.code.extend(["tiles = int32(1)", f"while (tiles < {TILES}) & (column < whole):", *indented(inside)])
        if phase.derived is not None:
            self._strip_body(
                f"implied_{number}", phase.derived.body, [value.name for value in phase.derived.accumulators]
            )

    def _collect(self, use: Reduction, states: str) -> None:
        self.code.append(
            f"{accumulator_name(use)} = merge_{self.define_reduction(use)}({accumulator_name(use)}, {states})"
        )

    def _at_the_end(self, lines: list[str]) -> list[str]:
        """The same, where some of a thread's vectors are beyond the columns."""
        names = "|".join([r"reduce_\w+", *map(re.escape, self.checked)])
        return [re.sub(rf"\b({names})\(", r"\1_end(", line) for line in lines]

    def _define(self, name: str, made: str) -> None:
        """An intrinsic of the tile; in a loop also of the tiles that are not whole."""
        if name in self.checked:
            return
        self.checked.append(name)
        self.scope.top.append(f"{name} = tile.{made}")
        if not self.schedule.resident:
            self.scope.top.append(f"{name}_end = ends.{made}")

    def _exchange(self, number: int, phase: Phase) -> None:
        """Leave the states of this block; whoever goes on merges all of the strip, in the order of the parts."""
        batch = max(1, BATCH_WORDS // (self.schedule.width * state_words([phase])))
        before = sum(bool(earlier.folds) for earlier in self.kernel.phases[:number])
        record, places = record_bytes(self.schedule, self.kernel), record_places(self.schedule, phase)
        first = f"({before} * int64(strips) + int64(number))" if before else "int64(number)"
        outside = self.scope.code
        self.scope.code = [] if self.schedule.max_threads else outside
        self.code.append(f"records = workspace + {first} * parts * {record}")
        for use, place in zip(phase.folds, places):
            rule, state = self.define_reduction(use), use.accumulators[0].name
            self.scope.functions.append(f"store_partial_{state} = reducer.store_partial(reduction_{rule}, {place})")
            self.scope.functions.append(
                f"load_partials_{state} = reducer.load_partials(reduction_{rule}, {place}, {record}, {batch})"
            )
            self.code.append(
                f"store_partial_{state}(records + part * {record}, all_reduce_{rule}({accumulator_name(use)}))"
            )
        if self.schedule.grid_sync:
            self.code.extend([f"met = int32({before + 1} * parts)", "grid_barrier_wait(semaphores, number * 2, met)"])
        else:
            self.code.extend(["if not is_last_block(semaphores, number, parts):", *indented(["return"])])
        for use in phase.folds:
            rule, found = self.define_reduction(use), accumulator_name(use)
            merged = f"{found} = merge_{rule}({found}, load_partials_{use.accumulators[0].name}(records, other, parts))"
            self.code.extend([f"{found} = initial_{rule}()", "other = level", "while other < parts:"])
            self.code.extend(indented([merged, f"other = int32(other + {self.threads_y_times(batch)})"]))
        if self.schedule.max_threads:
            inside, self.scope.code = self.scope.code, outside
            self.code.extend(["if parts > 1:", *indented(inside)])

    def _forget(self) -> None:
        """What a loop loaded is gone after it."""
        kernel = self.kernel
        tiles = {load.value.name for load in kernel.element_loads}
        tiles |= {p.value.name for p in kernel.positions if p.axis >= kernel.row_axes}
        self.scope.ready -= tiles
        self.scope.wide.clear()

    def _element_work(self, number: int | str, phase: Phase) -> None:
        for value in phase.element.args:
            self._provide(value)
        self.scope.map_body(f"phase_{number}", narrow_body(self.kernel, phase))
        stores = []
        for place, store in enumerate(phase.stores):
            name, k = f"store_{number}_{place}", store.operand
            letter, at, stride = self.at_column(k)
            self._define(name, f'store("{self.kernel.operands[k].dtype.name}", "{letter}")')
            made = self.scope.element(store.value)
            stores.append(f"{name}({self.bases[k]}, {at}, {made}, column, columns{stride})")
        self.code.extend(["if in_bounds:", *indented(stores)] if stores else [])

    def _provide(self, value: Value, tiles: bool = True) -> None:
        """See that an argument of a body has its value."""
        if value.name in self.scope.ready:
            return
        rows = self.kernel.row_operands
        for load in self.kernel.loads:
            if load.value.name == value.name and (tiles or load.operand in rows):
                self._load(load, load.operand in rows)
        for position in self.kernel.positions:
            if position.value.name == value.name and (tiles or position.axis < self.kernel.row_axes):
                self._position(position)

    def _load(self, load: Load, of_rows: bool) -> None:
        """A tile of elements, or one vector with a value for each row."""
        name, k = load.value.name, load.operand
        kind = self.kernel.operands[k].dtype
        if of_rows:
            (letter, stride), place = self.letter(k), self.row_bounds
        else:
            letter, at, stride = self.at_column(k)
            place = f"{at}, columns"
        self.scope.ready.add(name)
        self.scope.stored[name] = kind
        if of_rows:
            self.scope.top.append(f'load_{name} = strip.load("{kind.name}", "{letter}")')
        else:
            self._define(f"load_{name}", f'load("{kind.name}", "{letter}")')
        self.code.append(f"{name} = load_{name}({self.bases[k]}, {place}{stride})")

    def _position(self, position: Position) -> None:
        name, axis, kind = position.value.name, position.axis, position.value.dtype.name
        self.scope.ready.add(name)
        if axis < self.kernel.vector_axis:
            self.code.append(f"{name} = {kind}(row{axis})")
            return
        tile, along = ("strip", True) if axis == self.kernel.vector_axis else ("tile", False)
        define = f'at_{name} = {tile}.positions("{kind}", along={along})'
        if define not in self.scope.top:
            self.scope.top.append(define)
        self.code.append(f"{name} = at_{name}({f'row{axis}' if along else f'place_{axis}'})")

    # Folds and the work of rows.

    def define_reduction(self, use: Reduction) -> str:
        """The name of a fold's rule; where it is new, its merge and identity are written, and what is made of them."""
        kinds = ", ".join(value.dtype.name for value in use.accumulators)
        key = (use.name, kinds, use.identity, use.combine)
        if key in self.rules:
            return self.rules[key]
        same = sum(name == use.name for name, *_ in self.rules)
        name = self.rules[key] = f"{use.name}_{same}" if same else use.name
        lines = self.scope.functions
        lines += reduction_source(use, name)
        lines += [
            f"reduce_{name} = reducer.reduce_tile(tile, reduction_{name})",
            f"all_reduce_{name} = reducer.all_reduce(reduction_{name})",
        ]
        if not self.schedule.resident:
            lines.append(f"reduce_{name}_end = reducer.reduce_tile(ends, reduction_{name})")
            lines += [
                f"initial_{name} = reducer.identity(reduction_{name})",
                f"merge_{name} = reducer.combine(reduction_{name})",
            ]
            lines += [f"align_{name} = reducer.align(reduction_{name})"] * self.kernel.shifted
        return name

    def _row_work(self, number: int, phase: Phase) -> None:
        if phase.row is not None:
            self._row_body(f"row_{number}", phase.row)
        stores = []
        for place, store in enumerate(phase.row_stores):
            for value in (x.value for group in (self.kernel.loads, self.kernel.positions) for x in group):
                if value.name == store.value:  # it is stored as it was read
                    self._provide(value, tiles=False)
            name, k = f"store_row_{number}_{place}", store.operand
            letter, stride = self.letter(k)
            self.scope.top.append(f'{name} = strip.store("{self.kernel.operands[k].dtype.name}", "{letter}")')
            made = self.scope.widen(store.value, "strip")
            stores.append(f"{name}({self.bases[k]}, int32(0), {made}, {self.row_bounds}{stride})")
        wanted = "in_bounds & (level == 0)" + (" & (part == 0)" if self.schedule.grid_sync else "")
        self.code.extend([f"if {wanted}:", *indented(stores)] if stores else [])

    def _row_body(self, name: str, body: Body) -> None:
        given = {value.name for value in body.args}
        made = [value.name for value in body.results if value.name not in given]
        for value in body.args:
            self._provide(value, tiles=False)
        if made:
            self._strip_body(name, body, made)
            self.scope.ready |= set(made)

    def _strip_body(self, name: str, body: Body, targets: list[str]) -> None:
        """A body for each kept element; `targets` get those of its results that are no arguments."""
        given = {value.name for value in body.args}
        made = [value for value in body.results if value.name not in given]
        kinds = signature((self.scope.argument(v.name, v.dtype) for v in body.args), (v.dtype for v in made))
        self.scope.functions += function(f'@strip.elementwise("{kinds}")', name, body, [v.name for v in made])
        self.code.append(f"{', '.join(targets)} = {name}({', '.join(v.name for v in body.args)})")
