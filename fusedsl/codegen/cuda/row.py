"""The row skeleton: a team of threads holds a row (or loops over it) and works phase by phase: map, fold, row body."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...schedule.access import ACCESS_BYTES
from ...schedule.kernel import Body, FoldUse, Kernel, Load, Operand, Phase, Value
from ...schedule.pressure import again
from ...schedule.registers import row_loads
from ...schedule.row import LOOP_BLOCK, WARP, RowSchedule
from .ahead import begin_ahead, read_ahead, streamed, write_loop_ahead
from .kept import fetch_row, write_kept_loop
from .pieces import write_in_pieces
from .rank import begin_order, end_order, write_order, write_ranks
from .rounding import narrow_body
from .scan import Turns, begin_linked, turns, write_linked, write_scans
from .summands import summed_exponentials
from .text import Names, Scope, header, indented, letter_of, rule, signature, so_far
from .walk import Walk


def row_source(kernel: Kernel, schedule: RowSchedule) -> str:
    """The generated file of a row kernel."""
    where = "in registers" if schedule.resident else "in shared memory" if schedule.shared else "that they loop over"
    team = f"{schedule.threads} thread{'s' if schedule.threads > 1 else ''}"
    team = "a line of threads" if schedule.room else team
    shared = f"{schedule.rows} rows a block" if schedule.cluster == 1 else f"in each of {schedule.cluster} blocks"
    shared = "each of a block" if schedule.room else shared
    opening = header(kernel, f"a row kernel; {team} to a row {where}, {shared}", "")
    writer = RowWriter(Scope(kernel, Names(kernel)), schedule)
    writer.write()
    return writer.scope.text(opening, "A row for each team of threads.")


@dataclass
class RowWriter:
    """Writes one row kernel: where the row is, then its phases."""

    scope: Scope
    schedule: RowSchedule
    walk: Walk | None = None
    begins: dict[int, str] = field(default_factory=dict)  # operand -> variable: where its row begins
    kept: dict[str, int] = field(default_factory=dict)  # value -> operand: what is in shared memory
    whole: bool = False  # the tile that is worked on needs no checks
    meetings: int = 0  # of a cluster's blocks, so far
    rules: dict[tuple, str] = field(default_factory=dict)  # how folds merge -> the name of the rule
    ahead: dict[int, Body] = field(default_factory=dict)  # phase -> what its row body fetches, whatever its folds are
    rows: dict[int, Body] = field(default_factory=dict)  # … and the rest of it

    @property
    def kernel(self) -> Kernel:
        return self.scope.kernel

    @property
    def tile(self) -> str:
        """The tile that is worked on: one that is checked, or one that is there as a whole."""
        return "whole" if self.whole else "tile"

    @property
    def prefix(self) -> str:
        """Of the names of what depends on that."""
        return "whole_" if self.whole else ""

    @property
    def code(self) -> list[str]:
        return self.scope.code

    def write(self) -> None:
        self._define_tile()
        if self.schedule.cluster > 1:
            self.scope.top.append("enter_cluster = team.enter()")
            self.code.append("enter_cluster()")
        self.scope.read_scalars()
        if self.schedule.linked:
            begin_linked(self)
        self._find_row()
        self._find_columns()
        if self.schedule.linked:
            write_linked(self)
            return
        begin_ahead(self)
        if self.schedule.early:
            self._load_all()
        if self.schedule.shared:
            fetch_row(self)
        for number, phase in enumerate(self.kernel.phases):
            if phase.ranks:
                write_ranks(self, number, phase)
            elif self.schedule.resident:
                self.element_work(number, phase)
                for use in phase.folds:
                    self._fold(use)
            elif self.schedule.shared:
                write_kept_loop(self, number, phase)
            else:
                self._loop(number, phase)
            self._row_work(number, phase)

    # Where a thread stands.

    def _define_tile(self) -> None:
        plan = self.schedule
        split = any(operand.access == "anchor" for operand in self.kernel.operands)
        if not plan.resident:
            checks = ("b" if split else "v") * plan.vectors
        else:
            checks = self.checks()
        top = self.scope.top
        shape = f"width={plan.width}, vectors={plan.vectors}{self.step}"
        top.append(f'tile = Tile({shape}, checks="{checks}"{self.exact})')
        if self.splits:
            top.append(f'whole = Tile({shape}, checks="{"." * plan.vectors}")')
        top.append(f"team = Team({self._team()})")

    @property
    def step(self) -> str:
        """How far the vectors of a thread are apart, if that is compiled."""
        plan = self.schedule
        return "" if plan.room else f", step={plan.threads if self.kernel.column_axes > 1 else plan.step}"

    @property
    def shares(self) -> bool:
        """Whether a block has several rows, so that the last ones may not be there."""
        return self.schedule.rows > 1 or self.schedule.room > 0

    def _team(self) -> str:
        """The threads of a row."""
        plan = self.schedule
        if plan.room:
            return f"threads={WARP // 2 if plan.room <= LOOP_BLOCK else plan.room}, line=True"
        meetings = sum(len(phase.folds) for phase in self.kernel.phases)
        cluster = f", cluster={plan.cluster}, meetings={meetings}" if plan.cluster > 1 else ""
        return f"threads={plan.threads}{f', across={WARP}' if plan.across else cluster}"

    def joined(self, rule_name: str, state: str) -> str:
        """The call that joins the states of a row's threads."""
        number = ""
        if self.schedule.cluster > 1 and not self.meetings:  # by now they have had time to begin
            self.code.extend([f"own = {state}", "await_cluster()"])
            state = "own"
        if self.schedule.cluster > 1:
            number, self.meetings = f"{self.meetings}, ", self.meetings + 1
        return f"join_{rule_name}({number}{state})"

    @property
    def exact(self) -> str:
        """How far rows that are split at their ends are read: 16-bit rows to the end of the last aligned block."""
        split = [operand for operand in self.kernel.operands if operand.access == "anchor"]
        return ", exact=False" if any(operand.dtype.itemsize == 2 for operand in split) else ""

    def checks(self) -> str:
        """What a resident row checks of each vector (see Tile)."""
        plan, split = self.schedule, any(operand.access == "anchor" for operand in self.kernel.operands)
        found = "." * plan.whole + ("t" if split else "v") * (plan.vectors - plan.whole)
        return ("h" if plan.whole else "b") + found[1:] if split else found

    def _find_row(self) -> None:
        """The row of this thread; teams beyond the last row work on that one, and store nothing."""
        plan, names, axes = self.schedule, self.scope.names, self.kernel.row_axes
        rows = " * ".join(names.extent(axis) for axis in range(axes))
        self.code.append(f"rows = {rows}")
        index = self.kernel.index
        team, block = f"(thread() >> {plan.threads.bit_length() - 1})", self.scope.block
        block = "tile_row(number, tiles)" if plan.linked else block
        if plan.across:
            self.code.append(f"number = {block} * {plan.rows} + (thread() & {WARP - 1})")
        elif plan.room:
            self.code.append(f"number = {block} * lines() + line()")
        elif plan.rows > 1:
            self.code.append(f"number = {block} * {plan.rows} + {team}")
        else:
            self.code.append(f"row0 = {self._place()}" if axes == 1 else f"row = {index}({self._place()})")
        if self.shares:
            self.code.append("there = number < rows")
            self.code.append(f"{'row0' if axes == 1 else 'row'} = {index}(select(there, number, rows - 1))")
        rest = "row"
        for axis in range(axes - 1, 0, -1):
            size = f"{index}({names.extent(axis)})"
            quotient = "row0" if axis == 1 else f"quotient{axis}"
            self.code.append(f"{quotient} = divide({rest}, {size}, {names.magic(axis)})")
            self.code.append(f"row{axis} = {rest} - {quotient} * {names.extent(axis)}")
            rest = quotient
        for k, operand in enumerate(self.kernel.operands):
            terms = [f"row{axis} * {names.stride(k, axis)}" for axis in range(axes) if operand.strides[axis] == "s"]
            self.begins[k] = f"{names.operand(k)}_row" if terms else names.pointer(k)
            if terms:
                offset = " + ".join(terms)
                offset = f"({offset})" if len(terms) > 1 and operand.dtype.itemsize > 1 else offset
                size = f" * {operand.dtype.itemsize}" if operand.dtype.itemsize > 1 else ""
                self.code.append(f"{self.begins[k]} = {names.pointer(k)} + {offset}{size}")

    def _place(self) -> str:
        """The number of the row, where a block has one."""
        if self.schedule.linked:
            return "tile_row(number, tiles)"
        cluster = self.schedule.cluster.bit_length() - 1
        return f"{self.scope.block} >> {cluster}" if cluster else self.scope.block

    def _find_columns(self) -> None:
        plan, kernel, names = self.schedule, self.kernel, self.scope.names
        if plan.across:
            lane = f"(thread() >> {WARP.bit_length() - 1})"
        elif plan.rows > 1 and not plan.room:
            lane = f"(thread() & {plan.threads - 1})"
        elif plan.cluster > 1:
            lane = f"(thread() + (block() & {plan.cluster - 1}) * {plan.threads})"
        else:
            lane = "thread()"
        self.code.append(f"lane = int32{lane}" if lane.startswith("(") else f"lane = {lane}")
        if kernel.column_axes > 1:
            self._find_scattered_columns()
            return
        index = kernel.index
        self.code.append(f"columns = {index}({names.extent(kernel.axes - 1)})")
        anchor = next((k for k, o in enumerate(kernel.operands) if o.access == "anchor"), None)
        begin = f"lane * {plan.apart}" if plan.apart > 1 else "lane"
        if anchor is None:
            self.code.append(f"start = {index}({begin})")
            return
        size = kernel.operands[anchor].dtype.itemsize
        position = f"({self.begins[anchor]} >> {size.bit_length() - 1})" if size > 1 else self.begins[anchor]
        self.code.append(f"skew = {position} & {plan.width - 1}  # elements between the row's start and a vector's")
        self.code.append(f"start = {index}({begin} - skew)")

    def _find_scattered_columns(self) -> None:
        """Several column axes: vectors are numbered, and placed as the loop meets them."""
        kernel, rows = self.kernel, row_loads(self.kernel)
        axes = tuple(range(kernel.row_axes, kernel.axes))
        self.walk = Walk(self.scope, axes, self.schedule.width, "column", "columns", self.begins)
        used = [k for k in range(len(kernel.operands)) if k not in rows]
        self.walk.define(used, self.schedule.vectors, self.schedule.threads)
        self.code.append(f"start = {self.walk.index}(lane)")

    # Phases.

    def _load_all(self) -> None:
        """Every load before the first use: what all rows read arrives while the row is on its way."""
        rows = row_loads(self.kernel)
        loads = [load for load in self.kernel.loads if load.operand not in rows]
        for load in sorted(loads, key=lambda load: "0" in self.kernel.operands[load.operand].strides):
            self.provide(load.value)

    def _loop(self, number: int, phase: Phase) -> None:
        """One pass over the columns; folds collect in the loop and are joined after it."""
        if not (phase.stores or phase.folds or phase.select):
            return
        if self._streams(phase):
            write_loop_ahead(self, number, phase)
            return
        read_ahead(self)
        outside = self.scope.code
        for value in [value for part in phase.passes for value in part.reads]:  # row values are read once
            self.provide(value, tiles=False)
        for use in phase.folds:
            self.code.append(f"{so_far(use)} = empty_{self.define_fold(use)}()")
        index, step = self.kernel.index, self.stride()
        plain: Turns = (["column = start"], "while column < columns:", [], [f"column = {index}(column + {step})"])
        if self.backwards(number, phase):
            last = f"column = {index}({self.last()})  # what was read last is still in L2"
            plain = ([last], "while column >= start:", [], [f"column = {index}(column - {step})"])
        begin_order(self, phase)
        first, head, opening, closing = turns(self, phase) if phase.scans or phase.select else plain
        self.scope.code = opening
        if self.walk:
            self.walk.place()
        self.turn_work(number, phase)
        inside, self.scope.code = self.scope.code, outside
        self.code.extend([*first, head, *indented([*inside, *closing])])
        self.join(phase)
        end_order(self, phase)
        self.forget()

    @property
    def splits(self) -> bool:
        """Whether the work of a turn is written twice: for tiles that are there as a whole, and for others."""
        plan = self.schedule
        return plan.shared or (not plan.resident and any(map(self._streams, self.kernel.phases)))

    def _streams(self, phase: Phase) -> bool:
        """Whether a loop loads its next tile ahead: rows of one axis, whose turns need nothing of one another."""
        plain = not (phase.scans or phase.select or phase.ranks or self.schedule.linked or self.schedule.across)
        return self.kernel.column_axes == 1 and plain and bool(streamed(self, phase))

    def stride(self) -> str:
        """From one tile of a loop to the next: elements, or vectors where they are numbered."""
        return str(self.schedule.vectors * self.schedule.threads if self.walk else self.schedule.span)

    def last(self) -> str:
        """Where a thread's last tile begins."""
        return f"start + ((columns - 1 - start) & -{self.stride()})"

    def join(self, phase: Phase) -> None:
        """The states that the threads of a row have collected, as one."""
        for use in phase.folds:
            self.scope.unpack(use, self.joined(self.define_fold(use), so_far(use)))

    def backwards(self, number: int, phase: Phase) -> bool:
        """A pass that only stores, after another pass: the order of its elements is free."""
        return number > 0 and not phase.folds

    def turn_work(self, number: int, phase: Phase) -> None:
        """What a turn of a loop does with its tile."""
        if phase.tile:
            self._tile_work(number, phase)
            return
        self.element_work(number, phase)
        for use in phase.folds:
            self.collect(use, self._folded(use))

    def _folded(self, use: FoldUse) -> str:
        """The state of a tile's elements."""
        column = "start" if self.schedule.resident else "column"
        order, name = self._in_pairs(use), self.define_fold(use)
        if not order:
            return f"{self.prefix}fold_{name}({self.scope.lifted(use)}, {column}, columns)"
        (value,) = use.lifted
        kind = self.scope.stored[value.name].name
        call = f"{self.prefix}{order}_of_{kind}_{name}"
        define = f'{call} = fold_pairs({self.tile}, rule_{name}, "{order}", "{kind}")'
        if define not in self.scope.functions:
            self.scope.functions.append(define)
        return f"{call}({value.name}, {column}, columns)"

    def _in_pairs(self, use: FoldUse) -> str:
        """ "max" or "min" where a fold is that of 16-bit floats as they were loaded, two to a register."""
        stored = self.scope.stored.get(use.lifted[0].name) if len(use.lifted) == 1 else None
        split = any(operand.access == "anchor" for operand in self.kernel.operands)
        halves = stored is not None and stored.kind == "f" and stored.bits == 16 and self.schedule.width % 2 == 0
        if not halves or split or self.walk:
            return ""
        (line, *more), (a, b) = use.merge.lines, use.merge.args
        expression = line.split("#", 1)[0].partition(" = ")[2].strip()
        orders = {f"maximum({a.name}, {b.name})": "max", f"minimum({a.name}, {b.name})": "min"}
        return "" if more else orders.get(expression, "")

    def _tile_work(self, number: int, phase: Phase) -> None:
        """A tile worked as if it were a row, phase by phase; what it comes to is merged into the row's state."""
        for k, part in enumerate(phase.tile):
            self.element_work(f"{number}_{k}", part)
            for use in part.folds:
                self.scope.unpack(use, self._folded(use))
            if part.row is not None:
                self.row_body(f"tile_{number}_{k}", part.row)
        (use,) = phase.folds
        values = ", ".join(value.name for value in use.lifted)
        self.collect(use, f"({values})" if len(use.lifted) > 1 else values)
        for part in phase.tile:
            made = [value for use in part.folds for value in use.state]
            self.scope.ready -= {value.name for value in (*made, *(part.row.results if part.row else ()))}

    def collect(self, use: FoldUse, state: str) -> None:
        self.code.append(f"{so_far(use)} = merge_{self.define_fold(use)}({so_far(use)}, {state})")

    def forget(self) -> None:
        """What a loop loaded is gone after it."""
        rows = row_loads(self.kernel)
        self.scope.ready -= {load.value.name for load in self.kernel.loads if load.operand not in rows}
        self.scope.ready -= {p.value.name for p in self.kernel.positions if p.axis >= self.kernel.row_axes}
        self.scope.wide.clear()

    def element_work(self, number: int | str, phase: Phase) -> None:
        if self.schedule.piece and phase is self.kernel.phases[-1]:
            write_in_pieces(self, number, phase)
            return
        for value in phase.element.args:
            self._take_anew(value)
            self.provide(value)
        if number == 0 and self.schedule.resident:
            read_ahead(self)
        body = narrow_body(self.kernel, phase, summed_exponentials(self.kernel, phase, phase.element))
        self.scope.map_body(f"phase_{number}", body, self.schedule.width)
        write_scans(self, number, phase)
        write_order(self, phase)
        stores = []
        for place, store in enumerate(phase.stores):
            stores.append(self._store(f"store_{number}_{place}", store.operand, self.scope.element(store.value)))
        if stores and self.shares:
            stores = ["if there:", *indented(stores)]
        self.code.extend(stores)

    def _take_anew(self, value: Value) -> None:
        """A held tile of 16-bit floats that an earlier phase computed with: the compiler is to keep it in pairs."""
        stored = self.scope.stored.get(value.name) if self.schedule.resident else None
        plan = self.schedule
        if stored is None or value.name not in self.scope.ready:
            return
        if not again(self.kernel, stored, plan.width, plan.vectors):
            return
        define = f"again = tile.part(0, {plan.vectors}, anew=True)"
        if define not in self.scope.top:
            self.scope.top.append(define)
        self.code.append(f"{value.name} = again({value.name})")
        self.scope.wide.pop(value.name, None)

    def _store(self, name: str, k: int, value: str) -> str:
        operand, column = self.kernel.operands[k], "start" if self.schedule.resident else "column"
        letter = letter_of(operand, self.schedule.width)
        name, kind = f"{self.prefix}{name}", "s" if letter == "u" else letter
        self.scope.top.append(f'{name} = {self.tile}.store("{operand.dtype.name}", "{kind}")')
        stride = self.scope.stride(k, letter)
        place = f"{self.walk.offset(k)}" if self.walk else column
        return f"{name}({self.begins[k]}, {place}, {value}, {column}, columns{stride})"

    def provide(self, value: Value, tiles: bool = True) -> None:
        """See that an argument of a body has its value."""
        if value.name in self.scope.ready:
            return
        for load in self.kernel.loads:
            if load.value.name == value.name:
                if load.operand in row_loads(self.kernel):
                    self._load_row_value(load.value.name, load.operand)
                elif tiles:
                    self.load(load)
        for position in self.kernel.positions:
            if position.value.name == value.name:
                if position.axis < self.kernel.row_axes:
                    self.scope.ready.add(value.name)
                    self.code.append(f"{value.name} = {value.dtype.name}(row{position.axis})")
                elif tiles:
                    self._position(position)

    def _load_row_value(self, name: str, k: int) -> None:
        self.scope.ready.add(name)
        self.scope.top.append(f'load_{name} = load_value("{self.kernel.operands[k].dtype.name}")')
        self.code.append(f"{name} = load_{name}({self.begins[k]})")

    def load(self, load: Load) -> None:
        name, k = load.value.name, load.operand
        operand, column = self.kernel.operands[k], "start" if self.schedule.resident else "column"
        self.scope.ready.add(name)
        if self.walk:
            self.walk.load(load)
            return
        self.scope.stored[name] = operand.dtype
        if name in self.kept:
            self.code.append(f"{name} = kept_{name}(place)")
            return
        self.define_load(load)
        self.code.append(f"{name} = {self.load_from(load, column)}")

    def define_load(self, load: Load) -> None:
        """The intrinsic that loads a tile."""
        operand = self.kernel.operands[load.operand]
        letter = self.load_letter(operand)
        kind = "s" if letter == "u" else letter
        define = f'{self.prefix}load_{load.value.name} = {self.tile}.load("{operand.dtype.name}", "{kind}")'
        if define not in self.scope.top:
            self.scope.top.append(define)

    def load_from(self, load: Load, column: str) -> str:
        """The call that loads a tile from a column on."""
        letter = self.load_letter(self.kernel.operands[load.operand])
        begin, stride = self.begins[load.operand], self.scope.stride(load.operand, letter)
        return f"{self.prefix}load_{load.value.name}({begin}, {column}, columns{stride})"

    def load_letter(self, operand: Operand) -> str:
        """How a tile of this operand is loaded; misaligned vectors are shifted out of aligned ones."""
        letter, width = letter_of(operand, self.schedule.width), self.schedule.width
        short = operand.dtype.itemsize < 4 and operand.dtype.itemsize * width == ACCESS_BYTES
        return "m" if letter == "u" and short else letter

    def _position(self, position) -> None:
        name = position.value.name
        self.scope.ready.add(name)
        if self.walk:
            self.walk.position(position)
            return
        define = f'at_{name} = tile.positions("{position.value.dtype.name}")'
        if define not in self.scope.top:
            self.scope.top.append(define)
        self.code.append(f"{name} = at_{name}({'start' if self.schedule.resident else 'column'})")

    # Folds and the work of a row.

    def define_fold(self, use: FoldUse) -> str:
        """The merge and the identity as scalar functions, and the intrinsics made of them; the rule's name.

        Folds that merge alike share a rule; two of one name that do not (sums of several types) have one each.
        """
        key = (tuple(value.dtype for value in use.state), use.identity, use.merge)
        if key in self.rules:
            return self.rules[key]
        taken = sum(name.rstrip("0123456789") in (use.name, f"{use.name}_") for name in self.rules.values())
        name = self.rules[key] = f"{use.name}_{taken}" if taken else use.name
        self.define_rule(use, name)
        self.scope.functions.append(f"fold_{name} = fold_tile(tile, rule_{name})")
        if self.splits:
            self.scope.functions.append(f"whole_fold_{name} = fold_tile(whole, rule_{name})")
        self.scope.functions.append(f"join_{name} = team.join(rule_{name})")
        if not self.schedule.resident:
            self.scope.functions.append(f"empty_{name} = empty_state(rule_{name})")
            self.scope.functions.append(f"merge_{name} = merge_states(rule_{name})")
        return name

    def define_rule(self, use: FoldUse, name: str) -> None:
        """The merges and the identity as scalar functions, and the rule made of them."""
        self.scope.functions += rule(use, name)

    def _fold(self, use: FoldUse) -> None:
        self.scope.unpack(use, self.joined(self.define_fold(use), self._folded(use)))

    def _row_work(self, number: int, phase: Phase) -> None:
        read_ahead(self)
        if phase.row is not None:
            self.row_body(f"row_{number}", self.rows.get(number, phase.row))
        for place, store in enumerate(phase.row_stores):
            for value in (x.value for group in (self.kernel.loads, self.kernel.positions) for x in group):
                if value.name == store.value:  # it is stored as it was read
                    self.provide(value, tiles=False)
            operand, name = self.kernel.operands[store.operand], f"store_row_{number}_{place}"
            self.scope.top.append(f'{name} = store_value("{operand.dtype.name}")')
            self.code.append(f"{name}({self.begins[store.operand]}, {store.value}, {self._first()})")

    def _first(self) -> str:
        """Whether this thread stores what there is one of in a row."""
        return "(lane == 0) & there" if self.shares else "lane == 0"

    def row_body(self, name: str, body: Body) -> None:
        for value in body.args:
            self.provide(value)
        given = {value.name for value in body.args}
        made = [value for value in body.results if value.name not in given]
        if not made:
            return
        kinds = signature((v.dtype for v in body.args), (v.dtype for v in made))
        head = ["", "", f'@once("{kinds}")', f"def {name}({', '.join(v.name for v in body.args)}):"]
        self.scope.define([*head, *indented([*body.lines, f"return {', '.join(v.name for v in made)}"])])
        self.code.append(f"{', '.join(v.name for v in made)} = {name}({', '.join(v.name for v in body.args)})")
        self.scope.ready |= {value.name for value in made}
