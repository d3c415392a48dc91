"""Emits persistent clusters: operands shared by rows in shared memory, the next row prefetched there."""

from __future__ import annotations

from dataclasses import dataclass

from ....kernel_ir.kernel import KernelIR, Load
from ..emit.source_text import SourceBuilder, header, indented
from .emit import RowEmitter
from .emit_prefetch import begin_gathers_early
from .persistent_cluster import PersistentClusterSchedule, prefetched_loads, smem_operands


def emit_persistent(kernel: KernelIR, schedule: PersistentClusterSchedule) -> str:
    """The generated file of a row kernel whose clusters stay."""
    team = f"{schedule.threads} threads in each of {schedule.cluster} blocks"
    told = f"a row kernel; {team} to a row in registers, one after the other, {schedule.rows} rows at once"
    writer = PersistentEmitter(SourceBuilder(kernel), schedule)
    writer.write()
    return writer.scope.text(header(kernel, told, ""), "Rows for each team of threads, until all are done.")


@dataclass
class PersistentEmitter(RowEmitter):
    """Emitter of a row kernel whose thread groups loop over rows."""

    schedule: PersistentClusterSchedule

    def write(self) -> None:
        plan, index, cluster = self.schedule, self.kernel.index, self.schedule.cluster.bit_length() - 1
        self._define_tile()
        self.scope.top.append("enter_cluster = thread_group.cluster_init()")
        self.code.append("enter_cluster()")
        self.scope.read_scalars()
        self.code.append(f"rows = {' * '.join(self.scope.names.extent(axis) for axis in range(self.kernel.row_axes))}")
        team = f"(thread_idx() >> {plan.threads.bit_length() - 1})"
        self.code.append(f"number = {index}((block_idx() >> {cluster}) * {plan.rows} + {team})")
        self.code.append(f"further = {index}((grid_dim() >> {cluster}) * {plan.rows})")
        self._find_columns()
        self.code.append("smem = smem_base()")
        loads = prefetched_loads(self.kernel)
        held, offset = self._hold()
        self._define_arrival(loads, offset)
        self._begin_arrival(loads, "number")
        self.code.extend(held)
        if self.schedule.prefetch_rest:
            self._load_late("number")
        self.code.extend(["cp_async_wait_all()", "barrier()", "cluster_wait()", "turn = int32(0)"])
        outside, self.scope.code = self.scope.code, []
        self._work(loads)
        inside = [*self.scope.code, "number = following", "turn = int32(turn + 1)"]
        self.scope.code = [*outside, "while number < rows:", *indented(inside)]

    def chunks(self) -> list[int]:
        """Where the pieces of the last phase begin: those of the rest come first, if the next row's takes its place."""
        order = super().chunks()
        return (
            sorted(order, key=lambda first: first < self.schedule.prefetch_vectors)
            if self.schedule.prefetch_rest
            else order
        )

    def before_chunk(self, first: int) -> None:
        """Once the rest is worked on, the next row's may come."""
        if self.schedule.prefetch_rest and first == 0:
            self._load_late("following")

    def _load_late(self, number: str) -> None:
        """Load the rest of the row of this number, or, where there is none, of the last one."""
        loads, index = prefetched_loads(self.kernel), self.kernel.index
        row = "row0_late" if self.kernel.row_axes == 1 else "row_late"
        self.code.append(f"{row} = {index}(select({number} < rows, {number}, rows - 1))")
        self._load_rest(loads, self.emit_row_bases([load.operand for load in loads], "_late"))

    def _load_rest(self, loads: list[Load], begins: dict[int, str]) -> None:
        """Load what does not come ahead of a row."""
        self.code.append(
            f"rest = {self.kernel.index}(start + {self.schedule.prefetch_vectors * self.schedule.vector_stride})"
        )
        for load in loads:
            name = load.value.name
            self.code.append(f"{name}_rest = load_{name}({begins[load.operand]}, rest, columns)")

    def _work(self, loads: list[Load]) -> None:
        """All that is done with a row."""
        row = "row0" if self.kernel.row_axes == 1 else "row"
        self.code.append(f"{row} = number")
        self.bases |= self.emit_row_bases(range(len(self.kernel.operands)))
        begin_gathers_early(self)
        self._arrive(loads)
        self.code.append(f"following = {self.kernel.index}(number + further)")
        self._begin_arrival(loads, "following")
        for number, phase in enumerate(self.kernel.phases):
            self.emit_elements(number, phase)
            for use in phase.folds:
                self._fold(use)
            self._row_work(number, phase)
            for name in self.in_smem:  # from shared memory to each phase anew, instead of in registers
                self.scope.ready.discard(name)
                self.scope.wide.pop(name, None)

    def _team(self) -> str:
        """The threads of a row."""
        return f"{super()._team()}, groups={self.schedule.rows}, persistent=True"

    def all_reduce_call(self, rule_name: str, state: str) -> str:
        """The call that joins the states of a row's threads."""
        self.meetings += 1
        return f"all_reduce_{rule_name}({self.meetings - 1}, turn, {state})"

    def if_in_bounds(self, lines: list[str]) -> list[str]:
        """Teams without a row run nothing."""
        return lines

    def _first(self) -> str:
        return "thread_in_row == 0"

    def _hold(self) -> tuple[list[str], int]:
        """Lines that copy what all rows read to shared memory, once for all teams of a block, and the bytes there."""
        plan, calls, offset = self.schedule, [], 0
        for k in smem_operands(self.kernel):
            kind, load = self.kernel.operands[k].dtype, next(x for x in self.kernel.loads if x.operand == k)
            name = load.value.name
            self.in_smem[name], self.smem_offsets[name] = k, offset
            self.scope.top.append(f'copy_async_{name} = tile.copy_async("{kind.name}", {plan.threads}, {offset})')
            self.scope.top.append(f"load_shared_{name} = {self.load_shared_call(load, 'tile', 0)}")
            calls.append(f"copy_async_{name}({self.scope.names.pointer(k)}, start, columns, smem)")
            offset += plan.vectors * plan.width * plan.threads * kind.itemsize
        return [f"if thread_idx() < {plan.threads}:", *indented(calls)] if calls else [], offset

    def _define_arrival(self, loads: list[Load], offset: int) -> None:
        """The tiles of what comes ahead, and of the rest of a row."""
        plan, checks, top = self.schedule, self.checks(), self.scope.top
        parts = [("early", 0, plan.prefetch_vectors), ("late", plan.prefetch_vectors, plan.vectors)]
        for name, first, end in parts[: 1 + (plan.prefetch_vectors < plan.vectors)]:
            shape = f"width={plan.width}, vectors={end - first}, step={plan.vector_stride}"
            top.append(f'{name} = Tile({shape}, checks="{checks[first:end]}")')
        for load in loads:
            kind, name = self.kernel.operands[load.operand].dtype, load.value.name
            where = f'("{kind.name}", {plan.block_threads}, {offset})'
            top += [f"copy_async_{name} = early.copy_async{where}", f"prefetched_{name} = early.load_shared{where}"]
            if plan.prefetch_vectors < plan.vectors:
                top.append(f'load_{name} = late.load("{kind.name}", "1")')
            offset += plan.prefetch_vectors * plan.width * plan.block_threads * kind.itemsize

    def _begin_arrival(self, loads: list[Load], number: str) -> None:
        """Copy the first vectors of the row of this number, if there is one."""
        outside, self.scope.code = self.scope.code, []
        self.code.append(f"{'row0' if self.kernel.row_axes == 1 else 'row'}_next = {number}")
        begins = self.emit_row_bases([load.operand for load in loads], "_next")
        self.code.extend([f"copy_async_{x.value.name}({begins[x.operand]}, start, columns, smem)" for x in loads])
        self.scope.code = [*outside, f"if {number} < rows:", *indented(self.scope.code)]

    def _arrive(self, loads: list[Load]) -> None:
        """The row itself: what has come, and the rest."""
        rest = self.schedule.prefetch_vectors < self.schedule.vectors
        if rest and not self.schedule.prefetch_rest:
            self._load_rest(loads, self.bases)
        self.code.append("cp_async_wait_all()")
        for load in loads:
            name = load.value.name
            arrived = f"prefetched_{name}(smem)"
            self.code.append(f"{name} = concat_tiles({arrived}, {name}_rest)" if rest else f"{name} = {arrived}")
            self.scope.stored[name] = self.kernel.operands[load.operand].dtype
            self.scope.ready.add(name)
