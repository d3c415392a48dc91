"""Emits persistent clusters: operands shared by rows in shared memory, the next row prefetched there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Phase
from ..emit.phase_emitter import PhaseEmitter, ReductionIntrinsics
from ..emit.source_builder import TILE, SourceBuilder, header
from ..rows_and_columns import grid_dim
from ..tile import Tile, barrier, block_idx, cluster_wait, concat_tiles, cp_async_wait_all, smem_base, thread_idx
from .emit_early_gathers import EarlyGathers, hoist_gathers
from .emit_elements import RowElements
from .emit_index import RowIndex
from .persistent_cluster import PersistentClusterSchedule, prefetched_loads, smem_operands


def emit_persistent(kernel: KernelIR, schedule: PersistentClusterSchedule) -> str:
    """The generated file of a row kernel whose clusters stay."""
    group = f"{schedule.threads} threads in each of {schedule.cluster} blocks"
    description = f"a row kernel; {group} to a row in registers, one after the other, {schedule.rows} rows at once"
    hoisted, gathers = hoist_gathers(kernel)
    src = SourceBuilder(hoisted)
    PhaseEmitter(src, PersistentRows(src, schedule, EarlyGathers(gathers))).emit()
    return src.text(header(kernel, description, ""), "Persistent blocks: each thread group loops over rows.")


class PersistentRows:
    """Layout of thread groups that loop over rows, which they hold in registers."""

    stores = stores_row = ""  # groups without a row run nothing

    def __init__(self, src: SourceBuilder, schedule: PersistentClusterSchedule, early: EarlyGathers):
        self.src, self.schedule, self.index = src, schedule, RowIndex(src, schedule)
        self.elements = RowElements(self.index, early, {"groups": schedule.rows, "persistent": True})
        self.loads = prefetched_loads(src.kernel)
        self.has_rest = schedule.prefetch_vectors < schedule.vectors
        self.cluster_reductions = 0  # so far
        if schedule.prefetch_rest:  # once the rest is worked on, the next row's takes its place
            self.elements.epilogue.rest_first = schedule.prefetch_vectors
            self.elements.epilogue.before = lambda first: None if first else self._load_rest_of("next_row")

    @contextmanager
    def rows(self, emitter: PhaseEmitter) -> Iterator[None]:
        src, s, index = self.src, self.schedule, self.index.index
        cluster = s.cluster.bit_length() - 1
        threads = self.elements.define()
        src.emit(src.bind("enter_cluster", threads.cluster_init())())
        src.read_scalars()
        src.assign("rows", self.index.count_rows())
        group = f"({thread_idx()} >> {s.threads.bit_length() - 1})"
        src.assign("row_index", f"{index}(({block_idx()} >> {cluster}) * {s.rows} + {group})")
        src.assign("row_stride", f"{index}(({grid_dim()} >> {cluster}) * {s.rows})")
        self.index.find_columns()
        src.assign("smem", smem_base())
        with src.collected() as copies:
            offset = self._copy_shared_operands()
        self._define_prefetch(offset)
        self._prefetch("row_index")
        src.emit(*copies)
        if s.prefetch_rest:
            self._load_rest_of("row_index")
        src.emit(cp_async_wait_all(), barrier(), cluster_wait())
        src.assign("iteration", "int32(0)")
        with src.while_("row_index < rows"):
            self.index.begin_row("row_index")
            self.elements.early.begin(emitter)
            self._take_row()
            src.assign("next_row", f"{index}(row_index + row_stride)")
            self._prefetch("next_row")
            yield
            src.assign("row_index", "next_row")
            src.assign("iteration", "int32(iteration + 1)")

    def run_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        for name in self.elements.smem_offsets:  # from shared memory to each phase anew, instead of in registers
            self.src.ready.discard(name)
            self.src.wide.pop(name, None)
        emitter.straight(number, phase, self._all_reduce)
        self.elements.early.emit(emitter)

    def _all_reduce(self, intrinsics: ReductionIntrinsics, state: str) -> str:
        """The call that combines the states of a row's threads."""
        self.cluster_reductions += 1
        return intrinsics.all_reduce(self.cluster_reductions - 1, "iteration", state)

    def _copy_shared_operands(self) -> int:
        """Copy what all rows read to shared memory, once for all groups of a block; the bytes there."""
        src, s, offset = self.src, self.schedule, 0
        with src.if_(f"{thread_idx()} < {s.threads}"):
            for k in smem_operands(src.kernel):
                kind, load = src.kernel.operands[k].dtype, next(x for x in src.kernel.loads if x.operand == k)
                name = load.value.name
                self.elements.smem_offsets[name] = offset
                copy = src.bind(f"copy_async_{name}", TILE.copy_async(kind.name, s.threads, offset))
                self.elements.bind_shared(load, TILE, name)
                src.emit(copy(src.names.pointer(k), "start", "columns", "smem"))
                offset += s.vectors * s.width * s.threads * kind.itemsize
        return offset

    def _define_prefetch(self, offset: int) -> None:
        """The tiles of what is prefetched, and of the rest of a row."""
        src, s, checks = self.src, self.schedule, self.index.checks()
        ahead = s.prefetch_vectors
        early = src.bind("early", Tile(**self.index.shape(ahead), checks=checks[:ahead]))
        if self.has_rest:
            late = src.bind("late", Tile(**self.index.shape(s.vectors - ahead), checks=checks[ahead:]))
        for load in self.loads:
            kind, name = src.kernel.operands[load.operand].dtype, load.value.name
            src.bind(f"copy_async_{name}", early.copy_async(kind.name, s.block_threads, offset))
            src.bind(f"prefetched_{name}", early.load_shared(kind.name, s.block_threads, offset))
            if self.has_rest:
                src.bind(f"load_{name}", late.load(kind.name, "1"))
            offset += ahead * s.width * s.block_threads * kind.itemsize

    def _prefetch(self, number: str) -> None:
        """Copy the first vectors of the row of this number, if there is one."""
        with self.src.if_(f"{number} < rows"):
            self.src.assign(f"{self.index.row}_next", number)
            bases = self.index.emit_bases([load.operand for load in self.loads], "_next")
            for load in self.loads:
                self.src.emit(f"copy_async_{load.value.name}({bases[load.operand]}, start, columns, smem)")

    def _load_rest_of(self, number: str) -> None:
        """Load the rest of the row of this number, or, where there is none, of the last one."""
        clamped = f"{self.index.index}(select({number} < rows, {number}, rows - 1))"
        self.src.assign(f"{self.index.row}_late", clamped)
        self._load_rest(self.index.emit_bases([load.operand for load in self.loads], "_late"))

    def _load_rest(self, bases: dict[int, str]) -> None:
        """Load what is not prefetched of a row."""
        ahead = self.schedule.prefetch_vectors * self.schedule.vector_stride
        self.src.assign("rest", f"{self.index.index}(start + {ahead})")
        for load in self.loads:
            name = load.value.name
            self.src.assign(f"{name}_rest", f"load_{name}({bases[load.operand]}, rest, columns)")

    def _take_row(self) -> None:
        """The row itself: what was prefetched, and the rest."""
        if self.has_rest and not self.schedule.prefetch_rest:
            self._load_rest(self.index.bases)
        self.src.emit(cp_async_wait_all())
        for load in self.loads:
            name = load.value.name
            prefetched = f"prefetched_{name}(smem)"
            self.src.assign(name, concat_tiles(prefetched, f"{name}_rest") if self.has_rest else prefetched)
            self.src.stored[name] = self.src.kernel.operands[load.operand].dtype
            self.src.ready.add(name)
