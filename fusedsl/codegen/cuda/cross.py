"""The cross skeleton: teams walk over rows and fold them; a thread keeps what its columns come to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ...schedule.cross import LINE, CrossSchedule, row_places, state_parts
from ...schedule.kernel import Body, FoldUse, Kernel, Load, Phase, Value
from ...schedule.registers import row_loads
from .rounding import stored_quotients
from .text import Names, Scope, header, indented, letter_of, signature

NEXT = "_next"  # suffix of what belongs to the row after this one
FAR = "_far"  # … and to the row whose copies are begun
ASSIGNED = re.compile(r"\s*(\w+(?:, \w+)*) = ")
WORD = re.compile(r"\b[A-Za-z_]\w*\b")


def cross_source(kernel: Kernel, schedule: CrossSchedule) -> str:
    """The generated file of a kernel that folds rows and columns."""
    rows = schedule.teams * schedule.abreast
    what = f"rows and columns; {schedule.threads} threads to a row, {rows} rows at a time in a block"
    writer = CrossWriter(Scope(kernel, Names(kernel)), schedule)
    writer.write()
    return writer.scope.text(header(kernel, what, ""), "Walk over the rows, then join what the columns came to.")


@dataclass(frozen=True)
class _Step:
    """The lines of a phase for one row: what comes `before` its folds are `joined` from `folded`, and `after`; what is
    `collected` in the columns' states, and what is `kept` in memory, only if the row is there."""

    before: list[str]
    collected: list[str]
    joined: list[str]
    folded: list[str]
    after: list[str]
    kept: list[str]

    def until_joined(self, own: set[str], slot: int) -> list[str]:
        return [*_renamed(self.before, own, slot), *_if_there(self.collected, own, slot)]

    def once_joined(self, own: set[str], slot: int) -> list[str]:
        return [*_renamed(self.after, own, slot), *_if_there(self.kept, own, slot)]

    def alone(self, own: set[str], slot: int) -> list[str]:
        """All of it, where there is nothing to join."""
        lines = [*self.before, *self.after]
        return [*_renamed(lines, own, slot), *_if_there([*self.collected, *self.kept], own, slot)]


@dataclass
class CrossWriter:
    """Writes one kernel: where a thread stands, the walk over its rows, then the columns' states to their results."""

    scope: Scope
    schedule: CrossSchedule
    begins: dict[int, str] = field(default_factory=dict)  # operand -> variable: where its line begins
    fixed: frozenset[str] = frozenset()

    @property
    def kernel(self) -> Kernel:
        return self.scope.kernel

    @property
    def code(self) -> list[str]:
        return self.scope.code

    @property
    def index(self) -> str:
        return "int64" if self.kernel.wide else "int32"

    def write(self) -> None:
        self._sort_loads()
        self._define()
        self.scope.read_scalars()
        self.fixed = frozenset(self.scope.ready)  # the same for all rows and columns
        self._stand()
        for load in self.once:
            self._load(load, "")
        for use in self.kernel.cross:
            self.code.append(f"{', '.join(_so_far(use))} = none_{_key(use)}()")
        self._set_out()
        self.code.extend(["while row < rows:", *indented(self._round())])
        self._leave_states()
        self._finish()

    # What is loaded when.

    def _sort_loads(self) -> None:
        """Loads of the rows' phases: `once` for all rows, `ahead` through shared memory, `carried` from the row before
        in registers, and `anew` in each phase."""
        read = {v.name for phase in self.kernel.phases for v in phase.element.args}
        read |= {v.name for phase in self.kernel.phases if phase.row for v in phase.row.args}
        plan, rows = self.schedule, row_loads(self.kernel)
        self.once: list[Load] = []
        self.ahead: list[Load] = []
        self.carried: list[Load] = []
        self.anew: list[Load] = []
        for load in self.kernel.loads:
            if load.value.name not in read:
                continue
            still = set(self.kernel.operands[load.operand].strides[: self.kernel.row_axes]) <= {"0"}
            if load.operand in plan.ahead:
                self.ahead.append(load)
            elif still and (load.operand in plan.kept or load.operand in rows):
                self.once.append(load)
            else:
                (self.anew if still else self.carried).append(load)

    def _define(self) -> None:
        """Tiles, teams, copies and folds."""
        plan, top = self.schedule, self.scope.top
        checks = "." * plan.whole + "v" * (plan.vectors - plan.whole)
        shape = f"width={plan.width}, vectors={plan.vectors}, step={plan.step}"
        top.append(f'tile = Tile({shape}, checks="{checks}")')
        top.append(f'lines = Tile({shape}, checks="{"v" * plan.vectors}")  # of states, padded to whole vectors')
        top.append(f"crew = Crew(threads={plan.threads}, teams={plan.teams})")
        places, self.size = row_places(plan, self.kernel)
        for k, begin in zip(plan.ahead, places):
            name, d = self.scope.names.operand(k), self.kernel.operands[k].dtype.name
            top.append(f'ring_{name} = Ring(tile, "{d}", begin={begin}, threads={plan.block})')
            top += [f"fetch_{name} = ring_{name}.fetch()", f"take_{name} = ring_{name}.take()"]
        if plan.ahead:
            top.append(f"come = arrived({plan.stages - 2})")
        for number, phase in enumerate(self.kernel.phases):
            for use in phase.folds:
                self._define_fold(use)
                self.scope.functions.append(f"fold_{_key(use)} = fold_tile(tile, rule_{_key(use)})")
            if phase.folds:
                rules = ", ".join(f"rule_{_key(use)}" for _ in range(plan.abreast) for use in phase.folds)
                self.scope.functions.append(f"join_{number} = crew.join({rules})")
            for use in phase.cross:
                self._define_cross(use)
        rules = ", ".join(f"rule_{_key(use)}" for use in self.kernel.cross)
        self.scope.functions.append(f"all_blocks = crew.finish({rules}, at_once={plan.at_once})")

    def _define_fold(self, use: FoldUse) -> None:
        """The merge and the identity as scalar functions, and the rule made of them."""
        functions, merge, key = self.scope.functions, use.merge, _key(use)
        kinds = ", ".join(value.dtype.name for value in use.state)
        lines = [*merge.lines, f"return {', '.join(v.name for v in merge.results)}"]
        functions += ["", "", f"def merging_{key}({', '.join(v.name for v in merge.args)}):", *indented(lines)]
        functions += ["", "", f"def nothing_{key}():", *indented([f"return {', '.join(use.identity)}"])]
        functions += ["", "", f'rule_{key} = fold("{kinds}", merging_{key}, nothing_{key})']

    def _define_cross(self, use: FoldUse) -> None:
        """A state for each column of a tile: none, one row more, and those of a block together."""
        self._define_fold(use)
        key, types = _key(use), [value.dtype for value in use.state]
        self.scope.functions += [
            f'none_{key} = tile.elementwise("{signature((), types)}")(nothing_{key})',
            f'collect_{key} = tile.elementwise("{signature(types + types, types)}")(merging_{key})',
            f"gather_{key} = crew.gather(tile, rule_{key})",
        ]
        for value in use.state:
            self.scope.functions.append(f'leave_{value.name} = lines.store("{value.dtype.name}")')

    # Where a thread stands.

    def _stand(self) -> None:
        plan, names, kernel = self.schedule, self.scope.names, self.kernel
        shift = plan.threads.bit_length() - 1
        rows = " * ".join(names.extent(axis) for axis in range(kernel.row_axes))
        team = f"int32(thread() >> {shift})" if plan.teams > 1 else "int32(0)"
        self.code.extend(
            [
                f"rows = {self.index}({rows})",
                f"columns = {self.index}({names.extent(kernel.axes - 1)})",
                f"team = {team}",
                f"lane = int32(thread() & {plan.threads - 1})",
                f"start = {self.index}(lane * {plan.width})" if plan.width > 1 else f"start = {self.index}(lane)",
                f"stride = {self.index}(blocks() * {plan.teams})",
                f"row = {self.index}(team * blocks() + block())",
            ]
        )
        for k, operand in enumerate(kernel.operands):
            if set(operand.strides[: kernel.row_axes]) <= {"0"}:
                self.begins[k] = names.pointer(k)

    def _find_row(self, row: str, suffix: str, operands: list[int]) -> list[str]:
        """Lines that place a row: its index on each axis, and where it begins in the operands."""
        names, axes, lines = self.scope.names, self.kernel.row_axes, []
        rest = row
        for axis in range(axes - 1, 0, -1):
            size = f"{self.index}({names.extent(axis)})"
            quotient = f"row0{suffix}" if axis == 1 else f"quotient{axis}{suffix}"
            lines.append(f"{quotient} = divide({rest}, {size}, {names.magic(axis)})")
            lines.append(f"row{axis}{suffix} = {rest} - {quotient} * {size}")
            rest = quotient
        if axes == 1:
            lines.append(f"row0{suffix} = {row}")
        for k in operands:
            operand = self.kernel.operands[k]
            terms = [
                f"row{axis}{suffix} * {names.stride(k, axis)}" for axis in range(axes) if operand.strides[axis] == "s"
            ]
            if terms:
                offset = " + ".join(terms)
                size = f" * {operand.dtype.itemsize}" if operand.dtype.itemsize > 1 else ""
                self.begins[k] = f"{names.operand(k)}_row"
                lines.append(f"{names.operand(k)}_row{suffix} = {names.pointer(k)} + ({offset}){size}")
        return lines

    # The walk.

    def _set_out(self) -> None:
        """Begin the copies of the first rows, and load what the first rows have in registers."""
        plan, code = self.schedule, self.code
        if plan.ahead:
            code.append("first_stage = shared_start()")
            for stage in range(plan.stages - 1):
                code.extend(
                    self._fetch(f"row + {stage * plan.abreast} * stride", f"first_stage + {stage * self.stage}")
                )
            code += ["stage = first_stage", f"free = int32(first_stage + {(plan.stages - 1) * self.stage})"]
        if self.carried:
            code.extend(line for slot in range(plan.abreast) for line in self._carry("row", "0", slot))
        if any(phase.folds for phase in self.kernel.phases):
            code.append("turn = int32(0)")

    @property
    def stage(self) -> int:
        """Bytes of the rows that a block works on at a time."""
        return self.size * self.schedule.abreast

    def _fetch(self, first: str, stage: str) -> list[str]:
        """Begin the copies of the rows from `first` on into a stage, and send them off."""
        operands, lines = list(dict.fromkeys(load.operand for load in self.ahead)), []
        for slot in range(self.schedule.abreast):
            row = f"{first} + {slot} * stride" if slot else first
            inside = self._find_row("far", FAR, operands)
            inside.append(f"place = int32({stage}{f' + {slot * self.size}' if slot else ''})")
            for k in operands:
                name = self.scope.names.operand(k)
                inside.append(f"fetch_{name}({self._begin(k, FAR)}, start, columns, place)")
            lines += [f"far = {self.index}({row})", "if far < rows:", *indented(inside)]
        return [*lines, "send()"]

    def _carry(self, first: str, instead: str, slot: int) -> list[str]:
        """Load what the row of a slot has in registers, of the rows from `first` on; of row `instead` past the end."""
        row = f"{self.index}({first} + {slot} * stride)" if slot else first
        outside, self.scope.code = self.scope.code, []
        self.code.extend(self._find_row("next_row", NEXT, [load.operand for load in self.carried]))
        for load in self.carried:
            self._load(load, NEXT)
        lines, self.scope.code = self.scope.code, outside
        lines.insert(0, f"next_row = {self.index}(select({row} < rows, {row}, {instead}))")
        return _renamed(lines, _targets(lines), slot)

    def _begin(self, k: int, suffix: str) -> str:
        found = self.begins[k]
        return found if found == self.scope.names.pointer(k) else found + suffix

    def _round(self) -> list[str]:
        """The work on the rows that a team takes at a time, step by step for all of them: what they wait for overlaps."""
        plan, kernel, slots = self.schedule, self.kernel, range(self.schedule.abreast)
        lines = []
        if plan.ahead:
            lines = ["come()", *self._fetch(f"row + {(plan.stages - 1) * plan.abreast} * stride", "free")]
        lines.append(f"after = {self.index}(row + {plan.abreast} * stride)")
        outside, self.scope.code = self.scope.code, []
        self.code.extend(f"{load.value.name} = {load.value.name}{NEXT}" for load in self.carried)
        stores = [s.operand for phase in kernel.phases for s in phase.stores + phase.row_stores]
        self.code.extend(self._find_row("here", "", list(dict.fromkeys(stores))))
        self.code.extend(["place = stage"] if plan.ahead else [])
        opening, self.scope.code = self.scope.code, []
        steps = [self._phase(number, phase) for number, phase in enumerate(kernel.phases)]
        self.scope.code = outside
        own = {"here"}.union(
            *(_targets(part) for step in steps for part in (step.before, step.after)), _targets(opening)
        )
        own = own.union(*(step.joined for step in steps), (f"{load.value.name}{NEXT}" for load in self.carried))
        for slot in slots:
            row = f"{self.index}(row + {slot} * stride)"
            here = f"here = {self.index}(select({row} < rows, {row}, row))" if slot else "here = row"
            mine = [here, *opening]
            if slot:
                mine = [f"there = {row} < rows", *mine]
                own.add("there")
            if slot and plan.ahead:
                mine[mine.index("place = stage")] = f"place = int32(stage + {slot * self.size})"
            lines += _renamed(mine, own, slot)
        if self.carried:
            lines += [line for slot in slots for line in self._carry("after", "row", slot)]
        for number, step in enumerate(steps):
            if not step.joined:
                lines += [line for slot in slots for line in step.alone(own, slot)]
                continue
            lines += [line for slot in slots for line in step.until_joined(own, slot)]
            names = [name for slot in slots for name in _renamed(step.joined, own, slot)]
            states = [state for slot in slots for state in _renamed(step.folded, own, slot)]
            lines.append(f"{', '.join(names)} = join_{number}(turn, {', '.join(states)})")
            lines += [line for slot in slots for line in step.once_joined(own, slot)]
        if any(phase.folds for phase in kernel.phases):
            lines.append("turn = int32(1 - turn)")
        if plan.ahead:
            last = f"first_stage + {(plan.stages - 1) * self.stage}"
            lines += ["free = stage", f"stage = int32(select(stage == {last}, first_stage, stage + {self.stage}))"]
        return [*lines, "row = after"]

    def _forget(self) -> None:
        """What stands in shared memory is read again in each phase rather than held in registers."""
        for load in self.ahead + self.anew:
            self.scope.ready.discard(load.value.name)
            self.scope.wide.pop(load.value.name, None)

    def _phase(self, number: int, phase: Phase) -> _Step:
        """The lines of a phase for one row."""
        self._forget()
        self.scope.code = []
        for value in phase.element.args:
            self._provide(value)
        self.scope.map_body(f"phase_{number}", stored_quotients(self.kernel, phase))
        folded = [f"fold_{_key(use)}({self._lifted(use)}, start, columns)" for use in phase.folds]
        kept, collected = [], []
        for use in phase.cross:
            so_far = ", ".join(_so_far(use))
            collected.append(f"{so_far} = collect_{_key(use)}({so_far}, {self._lifted(use)})")
        for place, store in enumerate(phase.stores):
            operand, name = self.kernel.operands[store.operand], f"store_{number}_{place}"
            letter = letter_of(operand, self.schedule.width)
            self.scope.top.append(f'{name} = tile.store("{operand.dtype.name}", "{"s" if letter == "u" else letter}")')
            elements, stride = self.scope.element(store.value), self._stride(store.operand, letter)
            kept.append(f"{name}({self._begin(store.operand, '')}, start, {elements}, start, columns{stride})")
        before, self.scope.code = self.scope.code, []
        joined = [value.name for use in phase.folds for value in use.state]
        self.scope.ready |= set(joined)
        if phase.row is not None:
            self._body(f"row_{number}", phase.row)
        after, self.scope.code = self.scope.code, []
        for place, store in enumerate(phase.row_stores):
            name = f"store_row_{number}_{place}"
            self.scope.top.append(f'{name} = store_value("{self.kernel.operands[store.operand].dtype.name}")')
            kept.append(f"{name}({self._begin(store.operand, '')}, {store.value}, lane == 0)")
        return _Step(before, collected, joined, folded, after, kept)

    def _lifted(self, use: FoldUse) -> str:
        return ", ".join(self.scope.element(value.name) for value in use.lifted)

    def _stride(self, k: int, letter: str) -> str:
        if letter == "u":
            return ", 1"
        return f", {self.scope.names.stride(k, self.kernel.axes - 1)}" if letter == "s" else ""

    def _provide(self, value: Value) -> None:
        """See that an argument of a body has its value."""
        if value.name in self.scope.ready:
            return
        for load in self.ahead:
            if load.value.name == value.name:
                self.scope.ready.add(value.name)
                self.scope.stored[value.name] = self.kernel.operands[load.operand].dtype
                self.code.append(f"{value.name} = take_{self.scope.names.operand(load.operand)}(place)")
        for load in self.anew:
            if load.value.name == value.name:
                self._load(load, "")
        for position in self.kernel.positions:
            if position.value.name == value.name:
                self.scope.ready.add(value.name)
                kind = value.dtype.name
                if position.axis < self.kernel.row_axes:
                    self.code.append(f"{value.name} = {kind}(row{position.axis})")
                else:
                    self.scope.top.append(f'at_{value.name} = tile.positions("{kind}")')
                    self.code.append(f"{value.name} = at_{value.name}(start)")

    def _load(self, load: Load, suffix: str) -> None:
        """A tile, or one value of a row, into registers."""
        name, k = load.value.name, load.operand
        operand = self.kernel.operands[k]
        self.scope.ready.add(name)
        if k in row_loads(self.kernel):
            define, code = f'load_value("{operand.dtype.name}")', f"load_{name}({self._begin(k, suffix)})"
        else:
            self.scope.stored[name] = operand.dtype
            letter = letter_of(operand, self.schedule.width)
            define = f'tile.load("{operand.dtype.name}", "{"s" if letter == "u" else letter}")'
            code = f"load_{name}({self._begin(k, suffix)}, start, columns{self._stride(k, letter)})"
        if f"load_{name} = {define}" not in self.scope.top:
            self.scope.top.append(f"load_{name} = {define}")
        self.code.append(f"{name}{suffix} = {code}")

    def _body(self, name: str, body: Body) -> None:
        """A body that is computed once a row or once a column."""
        for value in body.args:
            self._provide(value)
        given = {value.name for value in body.args}
        made = [value for value in body.results if value.name not in given]
        if made:
            kinds = signature((v.dtype for v in body.args), (v.dtype for v in made))
            functions, arguments = self.scope.functions, ", ".join(v.name for v in body.args)
            functions += ["", "", f'@once("{kinds}")', f"def {name}({arguments}):"]
            functions += indented([*body.lines, f"return {', '.join(v.name for v in made)}"])
            self.code.append(f"{', '.join(v.name for v in made)} = {name}({arguments})")
        self.scope.ready |= {value.name for value in made}

    # What the columns came to.

    def _leave_states(self) -> None:
        """A line of states from each block, in the workspace; then wait for all blocks."""
        code = self.code
        for use in self.kernel.cross:
            so_far = ", ".join(_so_far(use))
            code.append(f"{so_far} = gather_{_key(use)}({so_far})")
        code.append(f"line = int64((columns + {LINE - 1}) // {LINE} * {LINE})")
        lines, offset = [], 0
        for name, dtype in state_parts(self.kernel):
            place = f" + int64(blocks()) * line * {offset}" if offset else ""
            code.append(f"{name}_lines = workspace{place}")
            own = f"{name}_lines + int64(block()) * line * {dtype.itemsize}"
            lines.append(f"leave_{name}({own}, start, {name}_so_far, start, {self.index}(line))")
            offset += dtype.itemsize
        code += ["if team == 0:", *indented(lines), "everyone(tickets, blocks())"]

    def _finish(self) -> None:
        """Each block takes strips of columns, merges what all blocks left, and stores the results."""
        states = [value.name for use in self.kernel.cross for value in use.state]
        outside, self.scope.code = self.scope.code, []
        lines = ", ".join(f"{name}_lines" for name in states)
        self.code.append(f"{', '.join(states)} = all_blocks({lines}, int32(strip), line, blocks())")
        self.code.append(f"there = (thread() < {LINE}) & (strip + thread() < columns)")
        self.code.append(f"column = {self.index}(select(there, strip + thread(), 0))")
        self.scope.ready = {*self.fixed, *states}
        self._finish_columns()
        self.code.append(f"strip = {self.index}(strip + blocks() * {LINE})")
        inside, self.scope.code = self.scope.code, outside
        self.code.extend([f"strip = {self.index}(block() * {LINE})", "while strip < columns:", *indented(inside)])

    def _finish_columns(self) -> None:
        """The results of a column from its states."""
        finish = self.kernel.finish
        assert finish is not None
        for value in finish.body.args if finish.body else ():
            load = next((x for x in self.kernel.loads if x.value.name == value.name), None)
            if load is not None:
                self.scope.ready.add(value.name)
                dtype = self.kernel.operands[load.operand].dtype
                self.scope.top.append(f'read_{value.name} = load_value("{dtype.name}")')
                self.code.append(f"{value.name} = read_{value.name}({self._column(load.operand)})")
            elif any(p.value.name == value.name for p in self.kernel.positions):
                self.scope.ready.add(value.name)
                self.code.append(f"{value.name} = {value.dtype.name}(column)")
        if finish.body:
            self._body("finish", finish.body)
        for place, store in enumerate(finish.stores):
            name = f"store_column_{place}"
            self.scope.top.append(f'{name} = store_value("{self.kernel.operands[store.operand].dtype.name}")')
            self.code.append(f"{name}({self._column(store.operand)}, {store.value}, there)")

    def _column(self, k: int) -> str:
        """The address of a column's element."""
        operand, pointer = self.kernel.operands[k], self.scope.names.pointer(k)
        letter = operand.strides[-1]
        stride = f" * {self.scope.names.stride(k, self.kernel.axes - 1)}" if letter == "s" else ""
        return pointer if letter == "0" else f"{pointer} + int64(column){stride} * {operand.dtype.itemsize}"


def _targets(lines: list[str]) -> set[str]:
    """The variables that these lines assign."""
    return {name for line in lines if (found := ASSIGNED.match(line)) for name in found[1].split(", ")}


def _renamed(lines: list[str], names: set[str], slot: int) -> list[str]:
    """The same for another of the rows that are worked on at a time: variables of a row's own get its number."""
    if not slot:
        return lines
    return [WORD.sub(lambda m: f"{m[0]}_row{slot}" if m[0] in names else m[0], line) for line in lines]


def _if_there(lines: list[str], names: set[str], slot: int) -> list[str]:
    found = _renamed(lines, names, slot)
    return [*_renamed(["if there:"], names, slot), *indented(found)] if slot and found else found


def _key(use: FoldUse) -> str:
    """What tells a fold from the others of its kernel."""
    return use.state[0].name


def _so_far(use: FoldUse) -> list[str]:
    """The variables that collect a fold over rows: a tile for each part of its state."""
    return [f"{value.name}_so_far" for value in use.state]
