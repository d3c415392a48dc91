"""Emits a mixed reduction: a loop over rows, column states in registers, then their combination over blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....kernel_ir.kernel import ColumnEpilogue, Load, MixedReductionKernel
from ....kernel_ir.phase import Body, Phase, Reduction, Value
from ..emit.source_text import KernelEmitter, SourceBuilder, access_kind, header, indented, signature
from ..peephole.low_precision_stores import narrow_body
from .schedule import LINE, MixedReductionSchedule, smem_row_layout, state_layout

NEXT_ROW = "_next"  # suffix of what belongs to the row after this one
PREFETCH_ROW = "_far"  # … and to the row whose copies are begun


def emit_rows_and_columns(kernel: MixedReductionKernel, schedule: MixedReductionSchedule) -> str:
    """The generated file of a kernel that folds rows and columns."""
    what = f"rows and columns; {schedule.threads} threads to a row, {schedule.row_groups} rows at a time in a block"
    writer = MixedReductionEmitter(SourceBuilder(kernel), schedule, kernel.column_epilogue)
    writer.write()
    return writer.scope.text(header(kernel, what, ""), "Walk over the rows, then join what the columns came to.")


@dataclass
class MixedReductionEmitter(KernelEmitter):
    """Emitter of one mixed reduction: indices, the loop over rows, then the column epilogue."""

    schedule: MixedReductionSchedule
    epilogue: ColumnEpilogue
    bases: dict[int, str] = field(default_factory=dict)  # operand -> variable: where its line begins
    fixed: frozenset[str] = frozenset()

    def write(self) -> None:
        self._sort_loads()
        self._define()
        self.scope.read_scalars()
        self.fixed = frozenset(self.scope.ready)  # the same for all rows and columns
        self._stand()
        for load in self.once:
            self._load(load, "")
        for use in self.kernel.column_reductions:
            self.code.append(f"{', '.join(_so_far(use))} = no_{_key(use)}()")
        self._set_out()
        outside, self.scope.code = self.scope.code, []
        self._row()
        inside, self.scope.code = self.scope.code, outside
        self.code.extend(["while row < rows:", *indented(inside)])
        self._leave_states()
        self._finish()

    # What is loaded when.

    def _sort_loads(self) -> None:
        """Loads of the rows' phases: `once` for all rows, `ahead` through shared memory, `carried` from the row before
        in registers, and `anew` in each phase."""
        read = {v.name for phase in self.kernel.phases for v in phase.element.args}
        read |= {v.name for phase in self.kernel.phases if phase.row for v in phase.row.args}
        read |= {store.value for phase in self.kernel.phases for store in phase.row_stores}
        plan, rows = self.schedule, self.kernel.row_operands
        self.once: list[Load] = []
        self.ahead: list[Load] = []
        self.carried: list[Load] = []
        self.anew: list[Load] = []
        for load in self.kernel.loads:
            if load.value.name not in read:
                continue
            still = set(self.kernel.operands[load.operand].strides[: self.kernel.row_axes]) <= {"0"}
            if load.operand in plan.prefetched:
                self.ahead.append(load)
            elif still and (load.operand in plan.hoisted or load.operand in rows):
                self.once.append(load)
            else:
                (self.anew if still else self.carried).append(load)

    def _define(self) -> None:
        """Tiles, teams, copies and folds."""
        plan, top = self.schedule, self.scope.top
        checks = "." * plan.full_vectors + "v" * (plan.vectors - plan.full_vectors)
        shape = f"width={plan.width}, vectors={plan.vectors}, step={plan.vector_stride}"
        top.append(f'tile = Tile({shape}, checks="{checks}")')
        top.append(f'lines = Tile({shape}, checks="{"v" * plan.vectors}")  # of states, padded to whole vectors')
        top.append(f"row_groups = RowGroups(threads={plan.threads}, groups={plan.row_groups})")
        places, self.size = smem_row_layout(plan, self.kernel)
        for k, begin in zip(plan.prefetched, places):
            name, d = self.scope.names.operand(k), self.kernel.operands[k].dtype.name
            top.append(f'ring_{name} = CpAsyncRing(tile, "{d}", begin={begin}, threads={plan.block_threads})')
            top += [f"copy_async_{name} = ring_{name}.copy_async()", f"load_{name} = ring_{name}.load()"]
        if plan.prefetched:
            top.append(f"wait_for_row = wait_group({plan.stages - 2})")
        for number, phase in enumerate(self.kernel.phases):
            for use in phase.folds:
                self._define_fold(use)
                self.scope.functions.append(f"reduce_{_key(use)} = reduce_tile(tile, reduction_{_key(use)})")
            if phase.folds:
                rules = ", ".join(f"reduction_{_key(use)}" for use in phase.folds)
                self.scope.functions.append(f"all_reduce_{number} = row_groups.all_reduce({rules})")
            for use in phase.column_reductions:
                self._define_cross(use)
        rules = ", ".join(f"reduction_{_key(use)}" for use in self.kernel.column_reductions)
        self.scope.functions.append(f"all_blocks = row_groups.reduce_blocks({rules}, at_once={plan.loads_in_flight})")

    def _define_fold(self, use: Reduction) -> None:
        """The merge and the identity as scalar functions, and the rule made of them."""
        functions, merge, key = self.scope.functions, use.combine, _key(use)
        kinds = ", ".join(value.dtype.name for value in use.accumulators)
        lines = [*merge.lines, f"return {', '.join(v.name for v in merge.results)}"]
        functions += ["", "", f"def combine_{key}({', '.join(v.name for v in merge.args)}):", *indented(lines)]
        functions += ["", "", f"def identity_{key}():", *indented([f"return {', '.join(use.identity)}"])]
        functions += ["", "", f'reduction_{key} = reduction("{kinds}", combine_{key}, identity_{key})']

    def _define_cross(self, use: Reduction) -> None:
        """A state for each column of a tile: none, one row more, and those of a block together."""
        self._define_fold(use)
        key, types = _key(use), [value.dtype for value in use.accumulators]
        self.scope.functions += [
            f'no_{key} = tile.elementwise("{signature((), types)}")(identity_{key})',
            f'accumulate_{key} = tile.elementwise("{signature(types + types, types)}")(combine_{key})',
            f"reduce_block_{key} = row_groups.reduce_block(tile, reduction_{key})",
        ]
        for value in use.accumulators:
            self.scope.functions.append(f'store_partial_{value.name} = lines.store("{value.dtype.name}")')

    # Where a thread stands.

    def _stand(self) -> None:
        plan, names, kernel = self.schedule, self.scope.names, self.kernel
        rows = " * ".join(names.extent(axis) for axis in range(kernel.row_axes))
        team = f"udiv(thread_idx(), {plan.threads})" if plan.row_groups > 1 else "int32(0)"
        self.code.extend(
            [
                f"rows = {self.index}({rows})",
                f"columns = {self.index}({names.extent(kernel.axes - 1)})",
                f"row_group = {team}",
                f"thread_in_row = int32(thread_idx() - row_group * {plan.threads})",
                f"start = {self.index}(thread_in_row * {plan.width})"
                if plan.width > 1
                else f"start = {self.index}(thread_in_row)",
                f"stride = {self.index}(grid_dim() * {plan.row_groups})",
                f"row = {self.index}(row_group * grid_dim() + block_idx())",
            ]
        )
        for k, operand in enumerate(kernel.operands):
            if set(operand.strides[: kernel.row_axes]) <= {"0"}:
                self.bases[k] = names.pointer(k)

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
                self.bases[k] = f"{names.operand(k)}_row"
                lines.append(f"{names.operand(k)}_row{suffix} = {names.pointer(k)} + ({offset}){size}")
        return lines

    # The walk.

    def _set_out(self) -> None:
        """Begin the copies of the first rows, and load what the first row has in registers."""
        plan, code = self.schedule, self.code
        if plan.prefetched:
            code.append("first_stage = dynamic_smem_base()")
            for stage in range(plan.stages - 1):
                code.append(f"far = {self.index}(row + {stage} * stride)" if stage else "far = row")
                self._fetch(f"int32(first_stage + {stage * self.size})" if stage else "first_stage")
            code += ["stage = first_stage", f"free = int32(first_stage + {(plan.stages - 1) * self.size})"]
        if self.carried:
            code.append(f"next_row = {self.index}(select(row < rows, row, 0))")
            self._carry()
        if any(phase.folds for phase in self.kernel.phases):
            code.append("turn = int32(0)")

    def _fetch(self, stage: str) -> None:
        """Begin the copies of row `far` into a stage, and send them off."""
        operands = list(dict.fromkeys(load.operand for load in self.ahead))
        lines = self._find_row("far", PREFETCH_ROW, operands)
        for k in operands:
            name = self.scope.names.operand(k)
            lines.append(f"copy_async_{name}({self._begin(k, PREFETCH_ROW)}, start, columns, {stage})")
        self.code.extend(["if far < rows:", *indented(lines), "commit_group()"])

    def _carry(self) -> None:
        """Load what row `next_row` has in registers."""
        self.code.extend(self._find_row("next_row", NEXT_ROW, [load.operand for load in self.carried]))
        for load in self.carried:
            self._load(load, NEXT_ROW)

    def _begin(self, k: int, suffix: str) -> str:
        found = self.bases[k]
        return found if found == self.scope.names.pointer(k) else found + suffix

    def _row(self) -> None:
        """The work on one row."""
        plan, code = self.schedule, self.code
        if plan.prefetched:
            code += ["wait_for_row()", f"far = {self.index}(row + {plan.stages - 1} * stride)"]
            self._fetch("free")
        stores = [s.operand for phase in self.kernel.phases for s in phase.stores + phase.row_stores]
        code += self._find_row("row", "", list(dict.fromkeys(stores)))
        code.append(f"after = {self.index}(row + stride)")
        if self.carried:
            code += [f"{load.value.name} = {load.value.name}{NEXT_ROW}" for load in self.carried]
            code.append(f"next_row = {self.index}(select(after < rows, after, row))")
            self._carry()
        for number, phase in enumerate(self.kernel.phases):
            self._forget()
            self._phase(number, phase)
        if any(phase.folds for phase in self.kernel.phases):
            code.append("turn = int32(1 - turn)")
        if plan.prefetched:
            last = f"first_stage + {(plan.stages - 1) * self.size}"
            code += ["free = stage", f"stage = int32(select(stage == {last}, first_stage, stage + {self.size}))"]
        code.append("row = after")

    def _forget(self) -> None:
        """What stands in shared memory is read again in each phase rather than held in registers."""
        for load in self.ahead + self.anew:
            self.scope.ready.discard(load.value.name)
            self.scope.wide.pop(load.value.name, None)

    def _phase(self, number: int, phase: Phase) -> None:
        """Map, collect what columns come to while the team is waiting for its folds, fold, store."""
        code = self.code
        for value in phase.element.args:
            self._provide(value)
        self.scope.map_body(f"phase_{number}", narrow_body(self.kernel, phase))
        for use in phase.column_reductions:
            so_far = ", ".join(_so_far(use))
            code.append(f"{so_far} = accumulate_{_key(use)}({so_far}, {self.scope.lifted(use)})")
        if phase.folds:
            states = [f"reduce_{_key(use)}({self.scope.lifted(use)}, start, columns)" for use in phase.folds]
            names = [value.name for use in phase.folds for value in use.accumulators]
            code.append(f"{', '.join(names)} = all_reduce_{number}(turn, {', '.join(states)})")
            self.scope.ready |= set(names)
        for place, store in enumerate(phase.stores):
            operand, name = self.kernel.operands[store.operand], f"store_{number}_{place}"
            letter = access_kind(operand, self.schedule.width)
            self.scope.top.append(f'{name} = tile.store("{operand.dtype.name}", "{"s" if letter == "u" else letter}")')
            elements, stride = self.scope.element(store.value), self.scope.stride(store.operand, letter)
            code.append(f"{name}({self._begin(store.operand, '')}, start, {elements}, start, columns{stride})")
        if phase.row is not None:
            self._body(f"row_{number}", phase.row)
        for place, store in enumerate(phase.row_stores):
            for position in self.kernel.positions:
                if position.value.name == store.value:
                    self._provide(position.value)
            name = f"store_row_{number}_{place}"
            self.scope.top.append(f'{name} = store_value("{self.kernel.operands[store.operand].dtype.name}")')
            code.append(f"{name}({self._begin(store.operand, '')}, {store.value}, thread_in_row == 0)")

    def _provide(self, value: Value) -> None:
        """See that an argument of a body has its value."""
        if value.name in self.scope.ready:
            return
        for load in self.ahead:
            if load.value.name == value.name:
                self.scope.ready.add(value.name)
                self.scope.stored[value.name] = self.kernel.operands[load.operand].dtype
                self.code.append(f"{value.name} = load_{self.scope.names.operand(load.operand)}(stage)")
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
        if k in self.kernel.row_operands:
            define, code = f'load_value("{operand.dtype.name}")', f"load_{name}({self._begin(k, suffix)})"
        else:
            self.scope.stored[name] = operand.dtype
            letter = access_kind(operand, self.schedule.width)
            define = f'tile.load("{operand.dtype.name}", "{"s" if letter == "u" else letter}")'
            code = f"load_{name}({self._begin(k, suffix)}, start, columns{self.scope.stride(k, letter)})"
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
            functions += ["", "", f'@uniform("{kinds}")', f"def {name}({arguments}):"]
            functions += indented([*body.lines, f"return {', '.join(v.name for v in made)}"])
            self.code.append(f"{', '.join(v.name for v in made)} = {name}({arguments})")
        self.scope.ready |= {value.name for value in made}

    # What the columns came to.

    def _leave_states(self) -> None:
        """A line of states from each block, in the workspace; then wait for all blocks."""
        code = self.code
        for use in self.kernel.column_reductions:
            so_far = ", ".join(_so_far(use))
            code.append(f"{so_far} = reduce_block_{_key(use)}({so_far})")
        code.append(f"line = int64((columns + {LINE - 1}) // {LINE} * {LINE})")
        lines, offset = [], 0
        for name, dtype in state_layout(self.kernel):
            place = f" + int64(grid_dim()) * line * {offset}" if offset else ""
            code.append(f"{name}_lines = workspace{place}")
            own = f"{name}_lines + int64(block_idx()) * line * {dtype.itemsize}"
            lines.append(f"store_partial_{name}({own}, start, {name}_accumulator, start, {self.index}(line))")
            offset += dtype.itemsize
        code += ["if row_group == 0:", *indented(lines), "grid_barrier(semaphores, grid_dim())"]

    def _finish(self) -> None:
        """Each block takes strips of columns, merges what all blocks left, and stores the results."""
        states = [value.name for use in self.kernel.column_reductions for value in use.accumulators]
        outside, self.scope.code = self.scope.code, []
        lines = ", ".join(f"{name}_lines" for name in states)
        self.code.append(f"{', '.join(states)} = all_blocks({lines}, int32(strip), line, grid_dim())")
        self.code.append(f"in_bounds = (thread_idx() < {LINE}) & (strip + thread_idx() < columns)")
        self.code.append(f"column = {self.index}(select(in_bounds, strip + thread_idx(), 0))")
        self.scope.ready = {*self.fixed, *states}
        self._finish_columns()
        self.code.append(f"strip = {self.index}(strip + grid_dim() * {LINE})")
        inside, self.scope.code = self.scope.code, outside
        self.code.extend([f"strip = {self.index}(block_idx() * {LINE})", "while strip < columns:", *indented(inside)])
        self.code.append("grid_barrier_exit(semaphores, grid_dim())")

    def _finish_columns(self) -> None:
        """The results of a column from its states."""
        finish = self.epilogue
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
            self.code.append(f"{name}({self._column(store.operand)}, {store.value}, in_bounds)")

    def _column(self, k: int) -> str:
        """The address of a column's element."""
        operand, pointer = self.kernel.operands[k], self.scope.names.pointer(k)
        letter = operand.strides[-1]
        stride = f" * {self.scope.names.stride(k, self.kernel.axes - 1)}" if letter == "s" else ""
        return pointer if letter == "0" else f"{pointer} + int64(column){stride} * {operand.dtype.itemsize}"


def _key(use: Reduction) -> str:
    """What tells a fold from the others of its kernel."""
    return use.accumulators[0].name


def _so_far(use: Reduction) -> list[str]:
    """The variables that collect a fold over rows: a tile for each part of its state."""
    return [f"{value.name}_accumulator" for value in use.accumulators]
