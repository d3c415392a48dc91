"""The row skeleton: a team of threads holds a row (or loops over it) and works phase by phase: map, fold, row body."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.liveness import row_loads
from ....kernel_ir.phase import Body, Phase, Reduction
from ..emit.source_text import Names, Scope, header, indented, rule, signature, so_far
from ..peephole.low_precision_stores import narrow_body
from ..peephole.narrow_compares import CLAMPED, SHORT, short_positions
from ..peephole.packed_absmax import magnitudes, order_of, without
from ..peephole.softmax_exp import summed_exponentials
from ..scan_sort.scan_emit import Turns, begin_linked, turns, write_linked, write_scans
from ..scan_sort.sort_emit import begin_order, end_order, write_order, write_ranks
from .emit_chunked_epilogue import write_in_pieces
from .emit_memory import Tiles
from .emit_prefetch import begin_ahead, read_ahead, write_loop_ahead
from .emit_smem import fetch_row, write_kept_loop
from .emit_unaligned import edge_body, edge_stores, provide_edges, with_edge
from .recompute import recomputed
from .schedule import RowSchedule


def row_source(kernel: KernelIR, schedule: RowSchedule) -> str:
    """The generated file of a row kernel."""
    where = "in registers" if schedule.resident else "in shared memory" if schedule.shared else "that they loop over"
    team = f"{schedule.threads} thread{'s' if schedule.threads > 1 else ''}"
    team = "a line of threads" if schedule.room else team
    shared = f"{schedule.rows} rows a block" if schedule.cluster == 1 else f"in each of {schedule.cluster} blocks"
    shared = "each of a block" if schedule.room else shared
    opening = header(kernel, f"a row kernel; {team} to a row {where}, {shared}", "")
    held = recomputed(kernel) if schedule.anew else kernel
    assert held is not None
    writer = RowWriter(Scope(held, Names(held)), schedule)
    writer.write()
    return writer.scope.text(opening, "A row for each team of threads.")


@dataclass
class RowWriter(Tiles):
    """Writes one row kernel: where the row is, then its phases."""

    meetings: int = 0  # of a cluster's blocks, so far
    rules: dict[tuple, str] = field(default_factory=dict)  # how folds merge -> the name of the rule
    ahead: dict[int, Body] = field(default_factory=dict)  # phase -> what its row body fetches, whatever its folds are
    rows: dict[int, Body] = field(default_factory=dict)  # … and the rest of it

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

    def joined(self, rule_name: str, state: str) -> str:
        """The call that joins the states of a row's threads."""
        number = ""
        if self.schedule.cluster > 1 and not self.meetings:  # by now they have had time to begin
            self.code.extend([f"own = {state}", "await_cluster()"])
            state = "own"
        if self.schedule.cluster > 1:
            number, self.meetings = f"{self.meetings}, ", self.meetings + 1
        return f"join_{rule_name}({number}{state})"

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

    def join(self, phase: Phase) -> None:
        """The states that the threads of a row have collected, as one."""
        for use in phase.folds:
            self.scope.unpack(use, self.joined(self.define_fold(use), so_far(use)))

    def backwards(self, number: int, phase: Phase) -> bool:
        """A pass that only stores, after another pass: the order of its elements is free."""
        return number > 0 and not phase.folds

    def turn_work(self, number: int, phase: Phase) -> None:
        """What a turn of a loop does with its tile."""
        if phase.tile_phases:
            self._tile_work(number, phase)
            return
        self.element_work(number, phase)
        for use in phase.folds:
            self.collect(use, self._folded(use))

    def _folded(self, use: Reduction) -> str:
        """The state of a tile's elements."""
        column = "start" if self.schedule.resident else "column"
        order, name = self._in_pairs(use), self.define_fold(use)
        if not order:
            state = f"{self.prefix}fold_{name}({self.scope.lifted(use)}, {column}, {self.limit})"
            return with_edge(self, use, name, state) if self.edges else state
        lifted = use.inputs[0].name
        source = self.magnitudes.get(lifted, lifted)
        kind, of = self.scope.stored[source].name, "" if source == lifted else "_of_magnitudes"
        call = f"{self.prefix}{order}{of}_of_{kind}_{name}"
        more = ", magnitudes=True" if of else ""
        define = f'{call} = fold_pairs({self.tile}, rule_{name}, "{order}", "{kind}"{more})'
        if define not in self.scope.functions:
            self.scope.functions.append(define)
        state = f"{call}({source}, {column}, {self.limit})"
        return with_edge(self, use, name, state) if self.edges else state

    @cached_property
    def magnitudes(self) -> dict[str, str]:
        """What of the kernel's magnitudes the tiles of this schedule fold in pairs."""
        split = any(operand.access == "anchor" for operand in self.kernel.operands)
        return magnitudes(self.kernel) if self.schedule.width % 2 == 0 and not split and not self.walk else {}

    def _in_pairs(self, use: Reduction) -> str:
        """ "max" or "min" where a fold is that of 16-bit floats as they were loaded, two to a register."""
        lifted = use.inputs[0].name
        stored = self.scope.stored.get(self.magnitudes.get(lifted, lifted))
        split = any(operand.access == "anchor" for operand in self.kernel.operands) and not self.edges
        halves = stored is not None and stored.kind == "f" and stored.bits == 16 and self.schedule.width % 2 == 0
        return order_of(use) if halves and not split and not self.walk else ""

    def _tile_work(self, number: int, phase: Phase) -> None:
        """A tile worked as if it were a row, phase by phase; what it comes to is merged into the row's state."""
        for k, part in enumerate(phase.tile_phases):
            self.element_work(f"{number}_{k}", part)
            for use in part.folds:
                self.scope.unpack(use, self._folded(use))
            if part.row is not None:
                self.row_body(f"tile_{number}_{k}", part.row)
        (use,) = phase.folds
        values = ", ".join(value.name for value in use.inputs)
        self.collect(use, f"({values})" if len(use.inputs) > 1 else values)
        for part in phase.tile_phases:
            made = [value for use in part.folds for value in use.accumulators]
            self.scope.ready -= {value.name for value in (*made, *(part.row.results if part.row else ()))}

    def collect(self, use: Reduction, state: str) -> None:
        self.code.append(f"{so_far(use)} = merge_{self.define_fold(use)}({so_far(use)}, {state})")

    def element_work(self, number: int | str, phase: Phase) -> None:
        if self.schedule.piece and phase is self.kernel.phases[-1]:
            write_in_pieces(self, number, phase)
            if self.edges:
                provide_edges(self, phase.element.args)
                edge_body(self, number, phase)
                self.code.extend(self.where_there(edge_stores(self, number, phase)))
            return
        body = narrow_body(self.kernel, phase, summed_exponentials(self.kernel, phase, phase.element))
        body, positions, values = short_positions(self.kernel, without(body, self.magnitudes))
        for name in values:
            self._shorten(name)
        for name in positions:
            self.place(SHORT.format(name), "int32")
        for value in body.args:
            self._take_anew(value)
            self.provide(value)
        if self.edges:
            provide_edges(self, phase.element.args)
        if number == 0 and self.schedule.resident:
            read_ahead(self)
        self.scope.map_body(f"phase_{number}", body, self.schedule.width)
        if self.edges:
            edge_body(self, number, phase)
        write_scans(self, number, phase)
        write_order(self, phase)
        stores = []
        for place, store in enumerate(phase.stores):
            stores.append(self._store(f"store_{number}_{place}", store.operand, self.scope.element(store.value)))
        if self.edges:
            stores += edge_stores(self, number, phase)
        self.code.extend(self.where_there(stores))

    def pieces(self) -> list[int]:
        """Where the pieces of the last phase begin, in the order in which they are worked on."""
        return list(range(0, self.schedule.vectors, self.schedule.piece))

    def before_piece(self, first: int) -> None:
        """What is done before a piece of the last phase."""

    def _shorten(self, name: str) -> None:
        """The 32-bit form of a row value that positions are compared with."""
        value = next(v for phase in self.kernel.phases for part in phase.passes for v in part.reads if v.name == name)
        self.provide(value)
        self.scope.define(CLAMPED)
        self.code.append(f"{SHORT.format(name)} = short({name})")

    def define_fold(self, use: Reduction) -> str:
        """The merge and the identity as scalar functions, and the intrinsics made of them; the rule's name.

        Folds that merge alike share a rule; two of one name that do not (sums of several types) have one each.
        """
        key = (tuple(value.dtype for value in use.accumulators), use.identity, use.combine)
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

    def define_rule(self, use: Reduction, name: str) -> None:
        """The merges and the identity as scalar functions, and the rule made of them."""
        self.scope.functions += rule(use, name)

    def _fold(self, use: Reduction) -> None:
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

    def row_body(self, name: str, body: Body) -> None:
        for value in body.args:
            self.provide(value)
        given = {value.name for value in body.args}
        made = [value for value in body.results if value.name not in given]
        if not made:
            return
        kinds = signature((v.dtype for v in body.args), (v.dtype for v in made))
        head = ["", "", f'@once("{kinds}")', f"def {name}({', '.join(v.name for v in body.args)}):"]
        self.scope.define([*head, *indented([*body.instructions, f"return {', '.join(v.name for v in made)}"])])
        self.code.append(f"{', '.join(v.name for v in made)} = {name}({', '.join(v.name for v in body.args)})")
        self.scope.ready |= {value.name for value in made}
