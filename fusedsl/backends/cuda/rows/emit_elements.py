"""Emits what a thread holds of a row: loads, stores, indices, element bodies, the reduction of its own elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from ....kernel_ir.kernel import Load, Position
from ....kernel_ir.memory_access import ACCESS_BYTES
from ....kernel_ir.phase import Body, Phase, Reduction, Sort, Store, Value
from ....kernel_ir.register_pressure import stays_packed
from ..emit.phase_emitter import PhaseEmitter, ReductionIntrinsics
from ..emit.source_builder import TILE
from ..peephole import ROW_PEEPHOLES, rewritten
from ..peephole.narrow_compares import CLAMP_TO_INT32, NARROWED, narrow_positions
from ..peephole.packed_absmax import min_max_of, packed_absolute_values, without_values
from ..scan.emit import RowScans
from ..sort.emit import RowSort
from ..tile import (
    ThreadGroup,
    ThreadGroupIntrinsics,
    Tile,
    TileIntrinsics,
    combine_states,
    identity_state,
    load_value,
    reduce_packed,
    reduce_tile,
    store_value,
    uniform,
)
from .emit_chunked_epilogue import ChunkedEpilogue
from .emit_early_gathers import EarlyGathers
from .emit_index import RowIndex
from .emit_unaligned import PeeledElements

FULL = TileIntrinsics("full")  # the tile of a loop iteration whose elements all exist: no bounds checks


@dataclass
class RowElements:
    """The elements of a row that a thread holds, at once or in an iteration of a loop."""

    index: RowIndex
    early: EarlyGathers
    thread_group_kwargs: dict[str, object] = field(default_factory=dict)
    store_predicate: str = "thread_in_row == 0"  # whether a thread stores row values
    prefetch: bool = True  # loops may load their next tile while they work on one
    tile: TileIntrinsics = TILE  # that is worked on: one that is checked, or FULL
    smem_offsets: dict[str, int] = field(default_factory=dict)  # of loads that are in shared memory
    epilogue: ChunkedEpilogue = field(init=False)

    row_function = uniform  # row values are equal in all threads of a row

    def __post_init__(self) -> None:
        self.src, self.kernel, self.schedule = self.index.src, self.index.kernel, self.index.schedule
        self.epilogue = ChunkedEpilogue(self.index, self._load_chunk)
        self.peeled = PeeledElements(self.index) if self.index.peeled_elements else None
        self.scans = RowScans(self.src, self.schedule, self.index.row)
        self.sort = RowSort(self.src, self.schedule, self.index.bases)
        self.take: Callable[[Sort, str], None] = self.sort.emit  # elements that are put in order

    def define(self) -> ThreadGroupIntrinsics:
        """Define the tiles and the thread group."""
        index, s = self.index, self.schedule
        self.src.bind("tile", Tile(**index.shape(s.vectors), checks=index.checks(), **index.exact))
        if self.has_full_tiles:
            self.src.bind("full", Tile(**index.shape(s.vectors), checks="." * s.vectors))
        self.threads = self.src.bind("thread_group", ThreadGroup(**index.thread_group(), **self.thread_group_kwargs))
        return self.threads

    @property
    def has_full_tiles(self) -> bool:
        """True if a loop body is emitted twice: unchecked for full tiles, checked for others."""
        s = self.schedule
        return s.smem or (not s.resident and any(map(self.prefetches, self.kernel.phases)))

    def prefetches(self, phase: Phase) -> bool:
        """True if a loop prefetches its next tile: one column axis, independent iterations."""
        s = self.schedule
        plain = not (phase.scans or phase.sort or phase.ranks or s.decoupled_lookback or s.rows_across_lanes)
        return self.prefetch and self.kernel.column_axes == 1 and plain and bool(self.prefetched(phase))

    def prefetched(self, phase: Phase) -> list[Load]:
        """The loads that the elements of a phase read."""
        read = {value.name for part in phase.passes for value in part.reads}
        read |= {store.value for store in phase.stores}
        return [load for load in self.kernel.element_loads if load.value.name in read]

    @property
    def prefix(self) -> str:
        """The prefix of names that are bound once for each tile: "full_" for the full tile."""
        return "full_" if self.tile == FULL else ""

    # Loads, indices, stores.

    def load_all(self, emitter: PhaseEmitter) -> None:
        """Emit every load before the first use: operands shared by rows come last, while the row is in flight."""
        operands = self.kernel.operands
        for load in sorted(self.kernel.element_loads, key=lambda load: "0" in operands[load.operand].strides):
            emitter.provide(load.value)

    def load_row(self, load: Load) -> None:
        name, k = load.value.name, load.operand
        read = self.src.bind(f"load_{name}", load_value(self.kernel.operands[k].dtype.name))
        self.src.assign(name, read(self.index.bases[k]))

    def load(self, load: Load) -> None:
        name = load.value.name
        if self.index.multi_axis:
            self.index.multi_axis.load(load)
            return
        self.src.stored[name] = self.kernel.operands[load.operand].dtype
        in_smem = name in self.smem_offsets
        self.src.assign(name, f"load_shared_{name}(smem)" if in_smem else self.load_from(load, self.index.column))

    def load_from(self, load: Load, column: str) -> str:
        """The call that loads a tile from a column on."""
        return self._load_call(load, self.tile, f"{self.prefix}load_{load.value.name}", column)

    @contextmanager
    def tiles_ahead(self, phase: Phase, more: str, coming: str, advance: str) -> Iterator[None]:
        """A loop over tiles while `more` holds: a tile is loaded while the one before it is worked on.

        The first one is at `column`, the next one of each at `coming`; `advance` is the next value of tile_offset.
        """
        src, index = self.src, self.index.index
        loads = [load for load in self.kernel.element_loads if load.value in phase.reads]
        for load in loads:
            src.ready.add(load.value.name)
            self.load(load)
        with src.while_(more):
            src.assign("next_column", f"{index}({coming})")
            for load in loads:
                src.assign(f"{load.value.name}_next", self.load_from(load, "next_column"))
            yield
            for load in loads:
                src.assign(load.value.name, f"{load.value.name}_next")
            src.assign("column", "next_column")
            src.assign("tile_offset", f"{index}({advance})")

    def _load_call(self, load: Load, tile: TileIntrinsics, name: str, column: str) -> str:
        """The call of a load that is bound to this name; misaligned vectors are shifted out of aligned ones."""
        operand, width = self.kernel.operands[load.operand], self.schedule.width
        kind, stride = self.src.access(load.operand, width)
        if stride == ["1"] and operand.dtype.itemsize < 4 and operand.dtype.itemsize * width == ACCESS_BYTES:
            kind, stride = "m", []
        read = self.src.bind(name, tile.load(operand.dtype.name, kind))
        return read(self.index.bases[load.operand], column, self.index.limit, *stride)

    def bind_shared(self, load: Load, tile: TileIntrinsics, name: str, first: int = 0) -> None:
        """Bind the load of a tile from shared memory: the vectors of a thread from the first on."""
        s, kind = self.schedule, self.kernel.operands[load.operand].dtype
        offset = self.smem_offsets[load.value.name] + first * s.threads * s.width * kind.itemsize
        self.src.bind(f"load_shared_{name}", tile.load_shared(kind.name, s.threads, offset))

    def _load_chunk(self, load: Load, tile: TileIntrinsics, name: str, first: int, start: str) -> None:
        """Emit the load of a chunk: some vectors of a thread, from the first on, in a tile of their own."""
        if load.value.name in self.smem_offsets:
            self.bind_shared(load, tile, name, first)
            self.src.assign(name, f"load_shared_{name}(smem)")
        else:
            self.src.assign(name, self._load_call(load, tile, f"load_{name}", start))

    def position(self, position: Position) -> None:
        name, kind = position.value.name, position.value.dtype.name
        if position.axis < self.kernel.row_axes:
            self.src.assign(name, f"{kind}(row{position.axis})")
        elif self.index.multi_axis:
            self.index.multi_axis.position(position)
        else:
            self._column_positions(name, kind)

    def _column_positions(self, name: str, kind: str) -> None:
        """Emit a tile's positions along the row, under a name, in a type."""
        self.src.assign(name, self.src.bind(f"at_{name}", TILE.positions(kind))(self.index.column))

    def store(self, name: str, store: Store, value: str) -> str:
        index, k = self.index, store.operand
        if index.multi_axis:
            return index.multi_axis.stored(name, store, value)
        kind, stride = self.src.access(k, self.schedule.width)
        write = self.src.bind(f"{self.prefix}{name}", self.tile.store(self.kernel.operands[k].dtype.name, kind))
        return write(index.bases[k], index.column, value, index.column, index.limit, *stride)

    def store_row(self, name: str, store: Store) -> str:
        write = self.src.bind(name, store_value(self.kernel.operands[store.operand].dtype.name))
        return write(self.index.bases[store.operand], store.value, self.store_predicate)

    # Element bodies.

    def compute(self, emitter: PhaseEmitter, number: int | str, phase: Phase) -> None:
        if self.schedule.epilogue_vectors and phase is self.kernel.phases[-1]:
            self.epilogue.emit(emitter, number, phase)
            if self.peeled:
                self.peeled.load(phase.element.args)
                self.peeled.compute(number, phase)
                lines = [*self.peeled.stores(number, phase)]
                with self.src.if_(emitter.layout.stores):
                    self.src.emit(*lines)
            return
        body = self._provide_arguments(emitter, phase)
        if self.peeled:
            self.peeled.load(phase.element.args)
        if number == 0 and self.schedule.resident:
            self.early.emit(emitter)
        self.src.map_body(f"phase_{number}", body, self.schedule.width)
        if self.peeled:
            self.peeled.compute(number, phase)
        self.scans.emit(emitter, number, phase)
        if phase.sort is not None:
            self.take(phase.sort, self.index.column)
        emitter.store_elements(number, phase, self.peeled.stores(number, phase) if self.peeled else ())

    def _provide_arguments(self, emitter: PhaseEmitter, phase: Phase) -> Body:
        """The element body of a phase as this family computes it, whose arguments have values."""
        body = rewritten(self.kernel, phase, ROW_PEEPHOLES)
        body, positions, values = narrow_positions(self.kernel, without_values(body, self.absolute_values))
        reads = [v for other in self.kernel.phases for part in other.passes for v in part.reads]
        for name in values:  # the int32 form of a row value that column indices are compared with
            emitter.provide(next(v for v in reads if v.name == name))
            self.src.define(CLAMP_TO_INT32)
            self.src.assign(NARROWED.format(name), f"clamp_to_int32({name})")
        for name in positions:
            self._column_positions(NARROWED.format(name), "int32")
        for value in body.args:
            self._keep_packed(value)
            emitter.provide(value)
        return body

    def _keep_packed(self, value: Value) -> None:
        """Keep a live tile of 16-bit floats packed (f16x2, bf16x2), though an earlier phase has unpacked it.

        The phase unpacks it again: `rematerialize` hides from the compiler that the values are already there.
        """
        s = self.schedule
        stored = self.src.stored.get(value.name) if s.resident else None
        if stored is None or value.name not in self.src.ready:
            return
        if stays_packed(self.kernel, stored, s.width, s.vectors):
            repack = self.src.bind("repack", TILE.slice(0, s.vectors, rematerialize=True))
            self.src.assign(value.name, repack(value.name))
            self.src.wide.pop(value.name, None)

    # Reductions.

    def define_reduction(self, use: Reduction, name: str) -> ReductionIntrinsics:
        op, functions = self.src.reduce_op(use, name), self.src.functions
        tiles = {"": TILE} | ({"full_": FULL} if self.has_full_tiles else {})
        reduce = {
            str(tile): self.src.bind(f"{prefix}reduce_{name}", reduce_tile(tile, op), functions)
            for prefix, tile in tiles.items()
        }
        all_reduce = self.src.bind(f"all_reduce_{name}", self.threads.all_reduce(op), functions)
        if self.schedule.resident:
            return ReductionIntrinsics(name, op, reduce, all_reduce)
        initial = self.src.bind(f"initial_{name}", identity_state(op), functions)
        merge = self.src.bind(f"merge_{name}", combine_states(op), functions)
        return ReductionIntrinsics(name, op, reduce, all_reduce, initial, merge)

    def reduce(self, use: Reduction, intrinsics: ReductionIntrinsics) -> str:
        order, where = self._packed_order(use), (self.index.column, self.index.limit)
        if not order:
            state = intrinsics.reduce[self.tile.name](*self.src.lifted(use), *where)
        else:
            lifted = use.inputs[0].name
            source = self.absolute_values.get(lifted, lifted)
            kind, of = self.src.stored[source].name, "" if source == lifted else "_of_abs"
            more = {"absolute": True} if of else {}
            packed = reduce_packed(self.tile, intrinsics.op, order, kind, **more)
            name = f"{self.prefix}{order}{of}_of_{kind}_{intrinsics.name}"
            state = self.src.bind(name, packed, self.src.functions)(source, *where)
        return self.peeled.combine(use, intrinsics, state) if self.peeled else state

    @cached_property
    def absolute_values(self) -> dict[str, str]:
        """Absolute values that the tiles of this schedule reduce packed (f16x2) -> the values that they are of."""
        packed_x2 = self.schedule.width % 2 == 0 and not self.index.peeled and self.kernel.column_axes == 1
        return packed_absolute_values(self.kernel) if packed_x2 else {}

    def _packed_order(self, use: Reduction) -> str:
        """ "max" or "min" if a fold reduces 16-bit floats as they were loaded, packed two to a register; else empty."""
        lifted = use.inputs[0].name
        stored = self.src.stored.get(self.absolute_values.get(lifted, lifted))
        peels_elsewhere = self.index.peeled and not self.peeled
        packed_x2 = stored is not None and stored.kind == "f" and stored.bits == 16 and self.schedule.width % 2 == 0
        return min_max_of(use) if packed_x2 and not peels_elsewhere and not self.index.multi_axis else ""
