"""Emits a row kernel: index arithmetic, then for each phase elements, reductions and row body."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body, Phase, Reduction
from ..emit.source_text import SourceBuilder, accumulator_name, header, indented, reduction_source, signature
from ..peephole.low_precision_stores import narrow_body
from ..peephole.narrow_compares import CLAMPED, SHORT, narrow_positions
from ..peephole.packed_absmax import min_max_of, packed_magnitudes, without_values
from ..peephole.softmax_exp import approximate_summed_exp
from ..scan_sort.scan_emit import LoopText, begin_lookback, emit_lookback, emit_scans, scan_loop
from ..scan_sort.sort_emit import begin_sort, emit_sort, emit_sorted_phase, end_sort
from .emit_chunked_epilogue import emit_chunked_epilogue
from .emit_memory import RowMemoryEmitter
from .emit_prefetch import begin_gathers_early, emit_early_gathers, emit_prefetched_loop
from .emit_smem import emit_smem_copy, emit_smem_loop
from .emit_unaligned import emit_peeled_body, load_peeled, peeled_stores, with_peeled_element
from .recompute import with_recomputed_values
from .schedule import RowSchedule


def emit_rows(kernel: KernelIR, schedule: RowSchedule) -> str:
    """The generated file of a row kernel."""
    where = "in registers" if schedule.resident else "in shared memory" if schedule.smem else "that they loop over"
    team = f"{schedule.threads} thread{'s' if schedule.threads > 1 else ''}"
    team = "a line of threads" if schedule.max_threads else team
    shared = f"{schedule.rows} rows a block" if schedule.cluster == 1 else f"in each of {schedule.cluster} blocks"
    shared = "each of a block" if schedule.max_threads else shared
    opening = header(kernel, f"a row kernel; {team} to a row {where}, {shared}", "")
    held = with_recomputed_values(kernel) if schedule.rematerialize else kernel
    assert held is not None
    writer = RowEmitter(SourceBuilder(held), schedule)
    writer.write()
    return writer.scope.text(opening, "A row for each team of threads.")


@dataclass
class RowEmitter(RowMemoryEmitter):
    """Emitter of one row kernel: locates the row, then emits its phases."""

    meetings: int = 0  # of a cluster's blocks, so far
    rules: dict[tuple, str] = field(default_factory=dict)  # how folds merge -> the name of the rule
    ahead: dict[int, Body] = field(default_factory=dict)  # phase -> what its row body fetches, whatever its folds are
    rows: dict[int, Body] = field(default_factory=dict)  # … and the rest of it

    def write(self) -> None:
        self._define_tile()
        if self.schedule.cluster > 1:
            self.scope.top.append("enter_cluster = thread_group.cluster_init()")
            self.code.append("enter_cluster()")
        self.scope.read_scalars()
        if self.schedule.decoupled_lookback:
            begin_lookback(self)
        self._find_row()
        self._find_columns()
        if self.schedule.decoupled_lookback:
            emit_lookback(self)
            return
        begin_gathers_early(self)
        if self.schedule.load_all_first:
            self._load_all()
        if self.schedule.smem:
            emit_smem_copy(self)
        for number, phase in enumerate(self.kernel.phases):
            if phase.ranks:
                emit_sorted_phase(self, number, phase)
            elif self.schedule.resident:
                self.emit_elements(number, phase)
                for use in phase.folds:
                    self._fold(use)
            elif self.schedule.smem:
                emit_smem_loop(self, number, phase)
            else:
                self._loop(number, phase)
            self._row_work(number, phase)

    def all_reduce_call(self, rule_name: str, state: str) -> str:
        """The call that combines the states of a row's threads."""
        number = ""
        if self.schedule.cluster > 1 and not self.meetings:  # by now they have had time to begin
            self.code.extend([f"own = {state}", "cluster_wait()"])
            state = "own"
        if self.schedule.cluster > 1:
            number, self.meetings = f"{self.meetings}, ", self.meetings + 1
        return f"all_reduce_{rule_name}({number}{state})"

    def _load_all(self) -> None:
        """Emit every load before the first use: operands shared by rows come last, while the row is in flight."""
        loads = self.kernel.element_loads
        for load in sorted(loads, key=lambda load: "0" in self.kernel.operands[load.operand].strides):
            self.provide(load.value)

    def _loop(self, number: int, phase: Phase) -> None:
        """Emit one loop over the columns; reductions accumulate in it and are combined after it."""
        if not (phase.stores or phase.folds or phase.select):
            return
        if self._streams(phase):
            emit_prefetched_loop(self, number, phase)
            return
        emit_early_gathers(self)
        outside = self.scope.code
        for value in [value for part in phase.passes for value in part.reads]:  # row values are read once
            self.provide(value, tiles=False)
        for use in phase.folds:
            self.code.append(f"{accumulator_name(use)} = initial_{self.define_reduction(use)}()")
        index, step = self.kernel.index, self.tile_stride()
        plain: LoopText = (["column = start"], "while column < columns:", [], [f"column = {index}(column + {step})"])
        if self.backwards(number, phase):
            last = f"column = {index}({self.last()})  # what was read last is still in L2"
            plain = ([last], "while column >= start:", [], [f"column = {index}(column - {step})"])
        begin_sort(self, phase)
        first, head, opening, closing = scan_loop(self, phase) if phase.scans or phase.select else plain
        self.scope.code = opening
        if self.multi_axis:
            self.multi_axis.emit_offsets()
        self.emit_tile_work(number, phase)
        inside, self.scope.code = self.scope.code, outside
        self.code.extend([*first, head, *indented([*inside, *closing])])
        self.combine_accumulators(phase)
        end_sort(self, phase)
        self.forget()

    def combine_accumulators(self, phase: Phase) -> None:
        """Combine the accumulators of a row's threads."""
        for use in phase.folds:
            self.scope.unpack(use, self.all_reduce_call(self.define_reduction(use), accumulator_name(use)))

    def backwards(self, number: int, phase: Phase) -> bool:
        """True for a loop that only stores, after another loop: it runs backwards, as the end of the row is in L2."""
        return number > 0 and not phase.folds

    def emit_tile_work(self, number: int, phase: Phase) -> None:
        """Emit the work of one loop iteration on its tile."""
        if phase.tile_phases:
            self._tile_work(number, phase)
            return
        self.emit_elements(number, phase)
        for use in phase.folds:
            self.accumulate(use, self._folded(use))

    def _folded(self, use: Reduction) -> str:
        """The state of a tile's elements."""
        column = "start" if self.schedule.resident else "column"
        order, name = self._in_pairs(use), self.define_reduction(use)
        if not order:
            state = f"{self.prefix}reduce_{name}({self.scope.lifted(use)}, {column}, {self.limit})"
            return with_peeled_element(self, use, name, state) if self.peeled_elements else state
        lifted = use.inputs[0].name
        source = self.magnitudes.get(lifted, lifted)
        kind, of = self.scope.stored[source].name, "" if source == lifted else "_of_magnitudes"
        call = f"{self.prefix}{order}{of}_of_{kind}_{name}"
        more = ", magnitudes=True" if of else ""
        define = f'{call} = reduce_pairs({self.tile}, reduction_{name}, "{order}", "{kind}"{more})'
        if define not in self.scope.functions:
            self.scope.functions.append(define)
        state = f"{call}({source}, {column}, {self.limit})"
        return with_peeled_element(self, use, name, state) if self.peeled_elements else state

    @cached_property
    def magnitudes(self) -> dict[str, str]:
        """What of the kernel's magnitudes the tiles of this schedule fold in pairs."""
        split = any(operand.access == "peeled" for operand in self.kernel.operands)
        return (
            packed_magnitudes(self.kernel) if self.schedule.width % 2 == 0 and not split and not self.multi_axis else {}
        )

    def _in_pairs(self, use: Reduction) -> str:
        """ "max" or "min" where a fold is that of 16-bit floats as they were loaded, two to a register."""
        lifted = use.inputs[0].name
        stored = self.scope.stored.get(self.magnitudes.get(lifted, lifted))
        split = any(operand.access == "peeled" for operand in self.kernel.operands) and not self.peeled_elements
        halves = stored is not None and stored.kind == "f" and stored.bits == 16 and self.schedule.width % 2 == 0
        return min_max_of(use) if halves and not split and not self.multi_axis else ""

    def _tile_work(self, number: int, phase: Phase) -> None:
        """Emit a tile reduced as if it were a row, phase by phase; its state is combined into the row's."""
        for k, part in enumerate(phase.tile_phases):
            self.emit_elements(f"{number}_{k}", part)
            for use in part.folds:
                self.scope.unpack(use, self._folded(use))
            if part.row is not None:
                self.row_body(f"tile_{number}_{k}", part.row)
        (use,) = phase.folds
        values = ", ".join(value.name for value in use.inputs)
        self.accumulate(use, f"({values})" if len(use.inputs) > 1 else values)
        for part in phase.tile_phases:
            made = [value for use in part.folds for value in use.accumulators]
            self.scope.ready -= {value.name for value in (*made, *(part.row.results if part.row else ()))}

    def accumulate(self, use: Reduction, state: str) -> None:
        self.code.append(
            f"{accumulator_name(use)} = merge_{self.define_reduction(use)}({accumulator_name(use)}, {state})"
        )

    def emit_elements(self, number: int | str, phase: Phase) -> None:
        if self.schedule.epilogue_vectors and phase is self.kernel.phases[-1]:
            emit_chunked_epilogue(self, number, phase)
            if self.peeled_elements:
                load_peeled(self, phase.element.args)
                emit_peeled_body(self, number, phase)
                self.code.extend(self.if_in_bounds(peeled_stores(self, number, phase)))
            return
        body = narrow_body(self.kernel, phase, approximate_summed_exp(self.kernel, phase, phase.element))
        body, positions, values = narrow_positions(self.kernel, without_values(body, self.magnitudes))
        for name in values:
            self._shorten(name)
        for name in positions:
            self.emit_positions(SHORT.format(name), "int32")
        for value in body.args:
            self._take_anew(value)
            self.provide(value)
        if self.peeled_elements:
            load_peeled(self, phase.element.args)
        if number == 0 and self.schedule.resident:
            emit_early_gathers(self)
        self.scope.map_body(f"phase_{number}", body, self.schedule.width)
        if self.peeled_elements:
            emit_peeled_body(self, number, phase)
        emit_scans(self, number, phase)
        emit_sort(self, phase)
        stores = []
        for place, store in enumerate(phase.stores):
            stores.append(self._store(f"store_{number}_{place}", store.operand, self.scope.element(store.value)))
        if self.peeled_elements:
            stores += peeled_stores(self, number, phase)
        self.code.extend(self.if_in_bounds(stores))

    def chunks(self) -> list[int]:
        """First vector of each chunk of the last phase, in execution order."""
        return list(range(0, self.schedule.vectors, self.schedule.epilogue_vectors))

    def before_chunk(self, first: int) -> None:
        """Hook: code before a chunk of the last phase."""

    def _shorten(self, name: str) -> None:
        """Define the int32 form of a row value that column indices are compared with."""
        value = next(v for phase in self.kernel.phases for part in phase.passes for v in part.reads if v.name == name)
        self.provide(value)
        self.scope.define(CLAMPED)
        self.code.append(f"{SHORT.format(name)} = short({name})")

    def define_reduction(self, use: Reduction) -> str:
        """Define a reduction's scalar functions and intrinsics; returns its name.

        Reductions that combine alike share one; two of one name that do not (sums of several types) get a number.
        """
        key = (tuple(value.dtype for value in use.accumulators), use.identity, use.combine)
        if key in self.rules:
            return self.rules[key]
        taken = sum(name.rstrip("0123456789") in (use.name, f"{use.name}_") for name in self.rules.values())
        name = self.rules[key] = f"{use.name}_{taken}" if taken else use.name
        self.define_reduce_op(use, name)
        self.scope.functions.append(f"reduce_{name} = reduce_tile(tile, reduction_{name})")
        if self.has_full_tiles:
            self.scope.functions.append(f"whole_reduce_{name} = reduce_tile(whole, reduction_{name})")
        self.scope.functions.append(f"all_reduce_{name} = thread_group.all_reduce(reduction_{name})")
        if not self.schedule.resident:
            self.scope.functions.append(f"initial_{name} = identity_state(reduction_{name})")
            self.scope.functions.append(f"merge_{name} = combine_states(reduction_{name})")
        return name

    def define_reduce_op(self, use: Reduction, name: str) -> None:
        """Define the combine and identity functions, and the ReduceOp made of them."""
        self.scope.functions += reduction_source(use, name)

    def _fold(self, use: Reduction) -> None:
        self.scope.unpack(use, self.all_reduce_call(self.define_reduction(use), self._folded(use)))

    def _row_work(self, number: int, phase: Phase) -> None:
        emit_early_gathers(self)
        if phase.row is not None:
            self.row_body(f"row_{number}", self.rows.get(number, phase.row))
        for place, store in enumerate(phase.row_stores):
            for value in (x.value for group in (self.kernel.loads, self.kernel.positions) for x in group):
                if value.name == store.value:  # it is stored as it was read
                    self.provide(value, tiles=False)
            operand, name = self.kernel.operands[store.operand], f"store_row_{number}_{place}"
            self.scope.top.append(f'{name} = store_value("{operand.dtype.name}")')
            self.code.append(f"{name}({self.bases[store.operand]}, {store.value}, {self._first()})")

    def row_body(self, name: str, body: Body) -> None:
        for value in body.args:
            self.provide(value)
        given = {value.name for value in body.args}
        made = [value for value in body.results if value.name not in given]
        if not made:
            return
        kinds = signature((v.dtype for v in body.args), (v.dtype for v in made))
        head = ["", "", f'@uniform("{kinds}")', f"def {name}({', '.join(v.name for v in body.args)}):"]
        self.scope.define([*head, *indented([*body.lines, f"return {', '.join(v.name for v in made)}"])])
        self.code.append(f"{', '.join(v.name for v in made)} = {name}({', '.join(v.name for v in body.args)})")
        self.scope.ready |= {value.name for value in made}
