"""The column skeleton: threads side by side on vectors of neighbouring rows, levels of them along what is folded."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ...schedule.column import ColumnSchedule, record_bytes, record_places
from ...schedule.kernel import Body, FoldUse, Kernel, Load, Phase, Position, Value
from ...schedule.registers import row_loads
from ...schedule.split import fold_bytes, state_words
from .rounding import narrow_body
from .shifted import shifted_strips, write_alignment, write_shift
from .text import Names, Scope, function, header, indented, rule, signature, so_far
from .walk import Walk


def column_source(kernel: Kernel, schedule: ColumnSchedule) -> str:
    """The generated file of a column kernel."""
    where = "in registers" if schedule.resident else "that they loop over"
    team = f"{schedule.lanes} threads side by side, {schedule.levels} deep on columns {where}"
    team = "lines of threads on columns that they loop over" if schedule.room else team
    opening = header(kernel, f"a column kernel; {team}", "")
    writer = ColumnWriter(Scope(kernel, Names(kernel)), schedule)
    writer.write()
    return writer.scope.text(opening, "A strip of neighbouring rows for each block, or for each few blocks.")


TILES = 16  # that are measured from what the first of them comes to: as many times its variance is lost in rounding
BATCH_WORDS = 32  # registers of the records that a thread reads at once


@dataclass
class ColumnWriter:
    """Writes one column kernel: where the strip is, then its phases."""

    scope: Scope
    schedule: ColumnSchedule
    begins: dict[int, str] = field(default_factory=dict)  # operand -> variable: where a thread's rows begin in it
    checked: list[str] = field(default_factory=list)  # intrinsics that look at what is there of a tile
    rules: dict[tuple, str] = field(default_factory=dict)  # folds whose functions are written -> their name
    walk: Walk = field(init=False)

    @property
    def kernel(self) -> Kernel:
        return self.scope.kernel

    @property
    def code(self) -> list[str]:
        return self.scope.code

    @property
    def index(self) -> str:
        return self.kernel.index

    def write(self) -> None:
        self._define_tiles()
        self.scope.read_scalars()
        self._find_rows()
        self._find_columns()
        for number, phase in enumerate(self.kernel.phases):
            if self.schedule.resident:
                self._held(number, phase)
            else:
                self._loop(number, phase)
            self._row_work(number, phase)
        if self.schedule.together:
            self.code.append("part_from(tickets, number * 2, parts)")

    # Where a thread stands.

    @property
    def step(self) -> str:
        """How the vectors of a thread are apart."""
        return "deep=True" if self.schedule.room else f"step={self.schedule.levels}"

    def place_in_block(self) -> tuple[str, str]:
        """The lane of a thread, and how many there are."""
        lanes = self.schedule.lanes
        return ("thread()", "side()") if self.schedule.room else (f"int32(thread() & {lanes - 1})", f"int32({lanes})")

    def _levels(self, times: int) -> str:
        """So many times the levels of a block."""
        return f"depth() * {times}" if self.schedule.room else str(self.schedule.levels * times)

    def _define_tiles(self) -> None:
        plan, top = self.schedule, self.scope.top
        size, checks = f"width={plan.width}, vectors={plan.vectors}, {self.step}", "v" * plan.vectors
        whole = "." * plan.whole + checks[plan.whole :] if plan.resident else "." * plan.vectors
        top.append(f'tile = Tile({size}, checks="{whole}")')
        if not plan.resident:
            top.append(f'ends = Tile({size}, checks="{checks}")')
        check = "t" if self.kernel.shifted else "."
        top.append(f'strip = Tile(width={plan.width}, vectors=1, step=1, checks="{check}")  # the rows of a thread')
        place = f"room={plan.room}" if plan.room else f"lanes={plan.lanes}, levels={plan.levels}"
        place += f", width={plan.width}"
        top.append(f"stack = Stack({place}, state={fold_bytes(self.kernel)})")

    def _find_rows(self) -> None:
        """The vector of rows of this thread; lanes beyond the last work on that one, and store nothing."""
        plan, names, kernel, index = self.schedule, self.scope.names, self.kernel, self.index
        if plan.split:
            self.code.append(f"strips = {self._strips()}")
            self.code.append("parts = share(blocks(), int32(strips))")
            self.code.append(f"number = share({self.scope.block}, parts)")
            self.code.append(f"part = int32({self.scope.block} - int32(number * parts))")
        else:
            self.code.append(f"number = {self.scope.block}")
        level = "line()" if plan.room else f"int32(thread() >> {plan.lanes.bit_length() - 1})"
        self.code.append(f"level = {level}")
        self.code.append(f"vectors = {self._vectors()}")
        lane, lanes = self.place_in_block()
        apart = f"({lanes} - 1)" if kernel.shifted else lanes
        self.code.append(f"vector = {index}({index}({index}(number) * {apart}) + {lane})")
        self.code.append("there = vector < vectors")
        self.code.append(f"rest = {index}(select(there, vector, {index}(vectors - 1)))")
        rest, last = "rest", kernel.row_axes - 1
        for axis in range(last, 0, -1):
            size = f"{index}({self._lines() if axis == last else names.extent(axis)})"
            quotient = "row0" if axis == 1 else f"quotient{axis}"
            self.code.append(f"{quotient} = divide({rest}, {size}, {names.magic(axis)})")
            self.code.append(f"row{axis} = {index}({rest} - {index}({quotient} * {size}))")
            rest = quotient
        if last == 0:
            self.code.append("row0 = rest")
        if plan.width > 1:
            self.code.append(f"row{last} = {index}(row{last} * {plan.width})")
        for k, operand in enumerate(kernel.operands):
            self._begin(k, operand)
        if kernel.shifted:
            write_shift(self)

    @property
    def _room(self) -> str:
        """Where the rows of a thread begin and end, as they are loaded and stored."""
        return "int32(0), left" if self.kernel.shifted else "int32(0), int32(1)"

    def _begin(self, k: int, operand) -> None:
        names, terms = self.scope.names, []
        for axis in range(self.kernel.row_axes):
            if operand.strides[axis] == "1":
                terms.append(f"row{axis}")
            elif operand.strides[axis] == "s":
                terms.append(f"row{axis} * {names.stride(k, axis)}")
        self.begins[k] = f"{names.operand(k)}_rows" if terms else names.pointer(k)
        if terms:
            offset, size = " + ".join(terms), operand.dtype.itemsize
            scaled = f"({offset}) * {size}" if size > 1 else offset
            self.code.append(f"{self.begins[k]} = {names.pointer(k)} + int64({scaled})")

    def _lines(self) -> str:
        """Vectors along the last row axis."""
        extent, width = self.scope.names.extent(self.kernel.row_axes - 1), self.schedule.width
        more = " + 1" if self.kernel.shifted else ""
        return f"((({extent} + {width - 1}) >> {width.bit_length() - 1}){more})" if width > 1 else extent

    def _vectors(self) -> str:
        outer = [self.scope.names.extent(axis) for axis in range(self.kernel.row_axes - 1)]
        return f"{self.index}({' * '.join([*outer, self._lines()])})"

    def _strips(self) -> str:
        shift, lanes = self.schedule.lanes.bit_length() - 1, self.schedule.lanes
        if self.kernel.shifted:
            return shifted_strips(self, self._vectors())
        if self.schedule.room:
            return f"{self.index}(share({self.index}({self._vectors()} + side() - 1), side()))"
        return f"{self.index}(({self._vectors()} + {lanes - 1}) >> {shift})"

    def _find_columns(self) -> None:
        plan, kernel = self.schedule, self.kernel
        axes = tuple(range(kernel.row_axes, kernel.axes))
        rows = row_loads(kernel)
        self.walk = Walk(self.scope, axes, 1, "column", "columns", self.begins)
        used = [k for k in range(len(kernel.operands)) if k not in rows and not self._is_plain(k)]
        self.walk.define(used, plan.vectors, self.step)
        start = (
            f"{self.index}({self.index}(part * {self._levels(plan.vectors)}) + level)"
            if plan.split
            else f"{self.index}(level)"
        )
        self.code.append(f"start = {start}")
        if plan.resident:
            self.code.append("column = start")
            self.walk.place()
            return
        beyond = self._levels(plan.vectors - 1)  # from a thread's first vector to its last
        self.code.append(f"whole = {self.index}(columns - {beyond})" if plan.vectors > 1 else "whole = columns")
        if plan.split:
            self.code.append(f"stride = {self.index}({self.index}(parts) * {self._levels(plan.vectors)})")

    def _is_plain(self, k: int) -> bool:
        """Are the elements of this operand found without a walk: vectors across one column axis?"""
        return self.kernel.column_axes == 1 and self._letter(k)[0] == "1"

    def _at_column(self, k: int) -> tuple[str, str, str]:
        """How the tiles of an operand are accessed: letter, place, and stride."""
        letter, stride = self._letter(k)
        if not self._is_plain(k):
            return letter, self.walk.offset(k), stride
        across = "o" if self.kernel.operands[k].access == "shifted" else "c"
        return across, "column", f", {self.index}({self.scope.names.stride(k, self.kernel.axes - 1)})"

    # Phases.

    def _held(self, number: int, phase: Phase) -> None:
        """A phase over the strip in registers."""
        self._element_work(number, phase)
        for use in phase.folds:
            name = self.rule_of(use)
            self.scope.unpack(use, f"join_{name}(fold_{name}({self.scope.lifted(use)}, column, columns))")

    def _loop(self, number: int, phase: Phase) -> None:
        """One pass over the columns; folds collect in the loop and are joined after it."""
        if not (phase.stores or phase.folds):
            return
        outside = self.scope.code
        for value in [value for part in phase.passes for value in part.reads]:  # row values are read once
            self._provide(value, tiles=False)
        for use in phase.folds:
            self.code.append(f"{so_far(use)} = empty_{self.rule_of(use)}()")
        self.scope.code = []
        self._turn_work(number, phase)
        inside = self.scope.code
        if phase.lasting:
            self.scope.code = []
            self._turn_work(number, phase, more=True)
        many, self.scope.code = self.scope.code, outside
        self.code.extend(["column = start", "while column < whole:", *indented(many)])
        if self.schedule.vectors > 1:
            self.code.extend(["while column < columns:", *indented(self._at_the_end(inside))])
        if self.kernel.shifted:
            write_alignment(self, phase)
        if self.schedule.split and phase.folds:
            self._exchange(number, phase)
        for use in phase.folds:
            self.scope.unpack(use, f"join_{self.rule_of(use)}({so_far(use)})")
        self._forget()

    def _turn_work(self, number: int, phase: Phase, more: bool = False) -> None:
        """What a turn of the loop does; `more`: with a few tiles rather than one, which share what their rows need."""
        self._forget()
        self.walk.place()
        if phase.tile:
            self._tile_work(number, phase, more)
            return
        self._element_work(number, phase)
        for use in phase.folds:
            self._collect(use, f"fold_{self.rule_of(use)}({self.scope.lifted(use)}, column, columns)")
        self.code.append(self._next())

    def _next(self) -> str:
        return f"column = {self.index}(column + {'stride' if self.schedule.split else self.schedule.tile})"

    def _tile_work(self, number: int, phase: Phase, more: bool) -> None:
        """A tile worked as if it were a column, phase by phase; what it comes to is merged into the states so far."""
        for k, part in enumerate(phase.tile):
            self._element_work(f"{number}_{k}", part)
            for use in part.folds:
                self.scope.unpack(use, f"fold_{self.rule_of(use)}({self.scope.lifted(use)}, column, columns)")
            if part.row is not None:
                self._row_body(f"tile_{number}_{k}", part.row)
        self.code.append(self._next())
        if more:
            self._more_tiles(number, phase)
        (use,) = phase.folds
        values = ", ".join(value.name for value in use.lifted)
        self._collect(use, f"({values})" if len(use.lifted) > 1 else values)
        for part in phase.tile:
            made = [value for use in part.folds for value in use.state]
            self.scope.ready -= {value.name for value in (*made, *(part.row.results if part.row else ()))}

    def _more_tiles(self, number: int, phase: Phase) -> None:
        """Tiles that are measured from what the one before them came to; their folds merge with its own."""
        outside, self.scope.code = self.scope.code, []
        self._forget()
        self.walk.place()
        for k, part in enumerate(phase.tile):
            self._element_work(f"{number}_{k}", part)
            for use in part.folds:
                names = ", ".join(value.name for value in use.state)
                states = f"({names})" if len(use.state) > 1 else names
                found = f"fold_{self.rule_of(use)}({self.scope.lifted(use)}, column, columns)"
                self.code.append(f"{names} = merge_{self.rule_of(use)}({states}, {found})")
        self.code.extend([self._next(), "tiles = int32(tiles + 1)"])
        inside, self.scope.code = self.scope.code, outside
        self.code.extend(["tiles = int32(1)", f"while (tiles < {TILES}) & (column < whole):", *indented(inside)])

    def _collect(self, use: FoldUse, states: str) -> None:
        self.code.append(f"{so_far(use)} = merge_{self.rule_of(use)}({so_far(use)}, {states})")

    def _at_the_end(self, lines: list[str]) -> list[str]:
        """The same, where some of a thread's vectors are beyond the columns."""
        checked = "|".join(re.escape(name) for name in self.checked)
        return [re.sub(rf"\b(fold_\w+|{checked})\(", r"\1_end(", line) for line in lines]

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
        self.scope.code = [] if self.schedule.room else outside
        self.code.append(f"records = workspace + {first} * parts * {record}")
        for use, place in zip(phase.folds, places):
            rule, state = self.rule_of(use), use.state[0].name
            self.scope.functions.append(f"leave_{state} = stack.leave(rule_{rule}, {place})")
            self.scope.functions.append(f"gather_{state} = stack.gather(rule_{rule}, {place}, {record}, {batch})")
            self.code.append(f"leave_{state}(records + part * {record}, join_{rule}({so_far(use)}))")
        if self.schedule.together:
            self.code.extend([f"met = int32({before + 1} * parts)", "meet(tickets, number * 2, met)"])
        else:
            self.code.extend(["if not last(tickets, number, parts):", *indented(["return"])])
        for use in phase.folds:
            rule, found = self.rule_of(use), so_far(use)
            merged = f"{found} = merge_{rule}({found}, gather_{use.state[0].name}(records, other, parts))"
            self.code.extend([f"{found} = empty_{rule}()", "other = level", "while other < parts:"])
            self.code.extend(indented([merged, f"other = int32(other + {self._levels(batch)})"]))
        if self.schedule.room:
            inside, self.scope.code = self.scope.code, outside
            self.code.extend(["if parts > 1:", *indented(inside)])

    def _forget(self) -> None:
        """What a loop loaded is gone after it."""
        rows, kernel = row_loads(self.kernel), self.kernel
        tiles = {load.value.name for load in kernel.loads if load.operand not in rows}
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
            letter, at, stride = self._at_column(k)
            self._define(name, f'store("{self.kernel.operands[k].dtype.name}", "{letter}")')
            made = self.scope.element(store.value)
            stores.append(f"{name}({self.begins[k]}, {at}, {made}, column, columns{stride})")
        self.code.extend(["if there:", *indented(stores)] if stores else [])

    def _letter(self, k: int) -> tuple[str, str]:
        """How an operand is accessed along the kept axis, and the stride that this takes."""
        operand, along = self.kernel.operands[k], self.kernel.along
        letter = operand.strides[along]
        if letter == "1" and operand.access == "element" and self.schedule.width > 1:
            return "s", ", 1"
        return letter, f", {self.scope.names.stride(k, along)}" if letter == "s" else ""

    def _provide(self, value: Value, tiles: bool = True) -> None:
        """See that an argument of a body has its value."""
        if value.name in self.scope.ready:
            return
        rows = row_loads(self.kernel)
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
            (letter, stride), place = self._letter(k), self._room
        else:
            letter, at, stride = self._at_column(k)
            place = f"{at}, columns"
        self.scope.ready.add(name)
        self.scope.stored[name] = kind
        if of_rows:
            self.scope.top.append(f'load_{name} = strip.load("{kind.name}", "{letter}")')
        else:
            self._define(f"load_{name}", f'load("{kind.name}", "{letter}")')
        self.code.append(f"{name} = load_{name}({self.begins[k]}, {place}{stride})")

    def _position(self, position: Position) -> None:
        name, axis, kind = position.value.name, position.axis, position.value.dtype.name
        self.scope.ready.add(name)
        if axis < self.kernel.along:
            self.code.append(f"{name} = {kind}(row{axis})")
            return
        tile, along = ("strip", True) if axis == self.kernel.along else ("tile", False)
        define = f'at_{name} = {tile}.positions("{kind}", along={along})'
        if define not in self.scope.top:
            self.scope.top.append(define)
        self.code.append(f"{name} = at_{name}({f'row{axis}' if along else f'place_{axis}'})")

    # Folds and the work of rows.

    def rule_of(self, use: FoldUse) -> str:
        """The name of a fold's rule; where it is new, its merge and identity are written, and what is made of them."""
        kinds = ", ".join(value.dtype.name for value in use.state)
        key = (use.name, kinds, use.identity, use.merge)
        if key in self.rules:
            return self.rules[key]
        same = sum(name == use.name for name, *_ in self.rules)
        name = self.rules[key] = f"{use.name}_{same}" if same else use.name
        lines = self.scope.functions
        lines += rule(use, name)
        lines += [f"fold_{name} = stack.fold(tile, rule_{name})", f"join_{name} = stack.join(rule_{name})"]
        if not self.schedule.resident:
            lines.append(f"fold_{name}_end = stack.fold(ends, rule_{name})")
            lines += [f"empty_{name} = stack.empty(rule_{name})", f"merge_{name} = stack.merge(rule_{name})"]
            lines += [f"align_{name} = stack.align(rule_{name})"] * self.kernel.shifted
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
            letter, stride = self._letter(k)
            self.scope.top.append(f'{name} = strip.store("{self.kernel.operands[k].dtype.name}", "{letter}")')
            made = self.scope.widen(store.value, "strip")
            stores.append(f"{name}({self.begins[k]}, int32(0), {made}, {self._room}{stride})")
        wanted = "there & (level == 0)" + (" & (part == 0)" if self.schedule.together else "")
        self.code.extend([f"if {wanted}:", *indented(stores)] if stores else [])

    def _row_body(self, name: str, body: Body) -> None:
        for value in body.args:
            self._provide(value, tiles=False)
        given = {value.name for value in body.args}
        made = [value for value in body.results if value.name not in given]
        if not made:
            return
        kinds = signature((self.scope.argument(v.name, v.dtype) for v in body.args), (v.dtype for v in made))
        self.scope.functions += function(f'@strip.elementwise("{kinds}")', name, body, [v.name for v in made])
        self.code.append(f"{', '.join(v.name for v in made)} = {name}({', '.join(v.name for v in body.args)})")
        self.scope.ready |= {value.name for value in made}
