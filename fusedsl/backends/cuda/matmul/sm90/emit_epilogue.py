"""Emits the epilogue of products: what follows the accumulators, panel by panel, and the stores of its results.

A warpgroup has 64 rows from `row_from` on, and the tile's columns from `column_from` on. Accumulators, loads and
results are fragments; values of a row or a column alone are loaded once for each row or column of a thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from .....kernel_ir.kernel import TmaBox
from .....kernel_ir.matmul_axes import MatmulAxes
from .....kernel_ir.phase import PanelFolds, Reduction, Store
from ...emit.intrinsic import Function
from ...emit.source_builder import SourceBuilder
from ...mma import quad_all_reduce, store_row_values, store_wide_box
from ...mma.tile_sizes import ROWS, SWIZZLE_BYTES, WARP_ROWS
from ...peephole.softmax_exp import summed_exponentials
from ...tile import (
    fence_proxy_async,
    thread_idx,
    tma_store,
    tma_store_commit,
    tma_store_wait,
    tma_store_wait_read,
)
from .. import store_panel, store_row_pairs, store_staged_rows
from .emit_panel_loads import PanelLoads
from .layout import PANEL, STAGING

ROW_BYTES = 2 * PANEL  # of a panel in shared memory
STAGED_BYTES = ROWS * ROW_BYTES


class PanelEpilogue(PanelLoads):
    """The epilogue of a warpgroup's tile."""

    def __init__(self, src: SourceBuilder, axes: MatmulAxes, panel: int, multiple: int, registers: int):
        super().__init__(src, axes, panel, multiple, registers)
        self.maps: dict[int, Function] = {}
        self.boxes: dict[int, TmaBox] = {}
        self.staged = 0  # panels of a tile so far
        self.staged_rows: tuple[int, ...] = ()  # outputs that threads store through shared memory

    def store_by_tma(
        self, operands: Sequence[int], maps: Sequence[Function], boxes: Sequence[TmaBox], panels: int
    ) -> None:
        """Outputs that are stored through shared memory, with their tensor maps, for tiles of so many panels."""
        stored = panels * sum(len(self._parts(k)) for k in operands)
        self.begins_alike = stored % STAGING == 0  # each tile's first panel has the first buffer
        self.maps = dict(zip(operands, maps))
        self.boxes = {box.operand: box for box in boxes if box.operand in self.maps}

    def finish(self, first: int, accumulators: Mapping[str, str], following: int | None) -> None:
        """Emit the epilogue of the panel from column `first` of the tile on; `accumulators` are its accumulators,
        `following` is the first column of the next panel."""
        src = self.src
        for load in self.ahead:
            src.assign(load.value.name, f"{load.value.name}_ahead")
        if following is not None:
            self.load_ahead(following)
        self.set_panel(first)
        for load in self.column_loads(self.names):
            if load not in self.ahead:
                self.load_columns(load, load.value.name)
        positions = self._positions(self.column_axis, self.names)
        if positions:
            indices = src.bind("column_indices", self.fragment.column_index("int32"))
            src.assign("columns", indices("panel_from"))
            for p in positions:
                self._convert(p.value.name, self.fragment.columnwise, p.value.dtype.name, "columns")
        for name, value in accumulators.items():
            src.assign(name, value)
        src.apply(self.fragment.elementwise, "epilogue", self.body)
        for store in self.stores:
            self.store(store, self._elements())
        if self.kernel.phases[0].panel_folds is not None:  # beside the stores by TMA
            self._fold_panel(self.kernel.phases[0].panel_folds)

    # -- folds

    def _fold_panel(self, panels: PanelFolds) -> None:
        """Emit the phases of a panel, and the stores of its states, each by one thread of a row's quad."""
        src = self.src
        alone = replace(self.kernel, phases=panels.phases)
        for number, phase in enumerate(panels.phases):
            body = summed_exponentials(alone, phase, phase.element)
            src.apply(self.fragment.elementwise, f"panel_{number}", body)
            for use in phase.folds:
                self._fold(use, f"{use.name}_{use.accumulators[0].name}")
            if phase.row is not None:
                src.apply(self.fragment.rowwise, f"panel_row_{number}", phase.row)
        for store in panels.stores:
            k = store.operand
            dtype, name = self.kernel.operands[k].dtype, src.names.operand(k)
            write = src.bind(f"store_{name}", store_row_values(dtype.name))
            value = self._spread(store.value, dtype.compute.name, self.fragment.rowwise, "row")
            first = f"{self._base(k)} + int64(panel_from >> {PANEL.bit_length() - 1}) * {dtype.itemsize}"
            addresses = self._addresses_from(first, k)
            # a tile may have panels beyond the columns, whose states would be those of the next row
            limit = f"select(valid_columns > 0, int32({src.names.extent(self.row_axis)}), int32(0))"
            src.emit(write(addresses, value, "rows", limit))

    def _fold(self, use: Reduction, label: str) -> None:
        """Emit a fold over the columns of the panel that exist."""
        self.fold_own(use, label)
        self.fold_quad(use, label)

    def fold_own(self, use: Reduction, label: str) -> None:
        """Emit a fold over the columns of the panel that a thread has."""
        src, op = self.src, self.src.reduce_op(use, label)
        lifted = [f"{value.name}_lifted" for value in use.inputs]
        for name, value in zip(lifted, use.inputs):
            src.assign(name, self._spread(value.name, value.dtype.name, self.fragment.elementwise, "element"))
        if self.multiple % self.panel:
            self._mask(use, lifted)
        fold = src.bind(f"fold_{label}", self.fragment.fold(op, ordered=True), src.functions)
        src.unpack(use, fold(*lifted))

    def fold_quad(self, use: Reduction, label: str) -> None:
        """Emit a fold over the states of the threads that share a row."""
        src = self.src
        over_quad = src.bind(f"quad_{label}", quad_all_reduce(src.reduce_op(use, label)), src.functions)
        src.unpack(use, over_quad(*(value.name for value in use.accumulators)))

    def _mask(self, use: Reduction, lifted: Sequence[str]) -> None:
        """Emit that the states of columns that do not exist are identities."""
        src = self.src
        with src.if_(f"valid_columns < {self.panel}"):
            src.assign("in_bounds", src.bind("bounds", self.fragment.in_bounds())("int32(0)", "valid_columns"))
            for name, value, nothing in zip(lifted, use.inputs, use.identity):
                d = value.dtype.name
                keep = self._define(
                    *(f"keep_{name}", self.fragment.elementwise, f"bool, {d} -> {d}", "valid, value"),
                    f"select(valid, value, {nothing})",
                )
                src.assign(name, keep("in_bounds", name))

    def _spread(self, name: str, dtype: str, domain, kind: str) -> str:
        """A value for each element, or each row, also where it varies along fewer axes."""
        spread = self._define(f"spread_{kind}_{name}", domain, f"{dtype} -> {dtype}", "value", "value")
        return spread(name)

    # -- stores

    def store(self, store: Store, elements: Collection[str]) -> None:
        """Emit the store of a panel; values that are not among its `elements` are those of rows, or of columns."""
        value = store.value if store.value in elements else self._spread_store(store)
        if store.operand in self.maps:
            self._store_tma(store, value)
        elif store.operand in self.staged_rows:
            self._store_staged(store, value)
        else:
            self._store(store, value)

    def _store(self, store: Store, value: str) -> None:
        """Emit the store of a panel from registers."""
        src, k = self.src, store.operand
        dtype, name = self.kernel.operands[k].dtype.name, src.names.operand(k)
        pairs = self._has_row_pairs(k)
        form = store_row_pairs(self.panel, dtype) if pairs else store_panel(self.panel, dtype, self._width(k))
        write = src.bind(f"store_{name}", form)
        step = self._step(k, self.column_axis)
        src.emit(write(self._row_addresses(k), value, "valid_rows", "valid_columns", step))

    def _store_staged(self, store: Store, value: str) -> None:
        """Emit the store of a panel through shared memory, row by row."""
        src, k = self.src, store.operand
        dtype, name = self.kernel.operands[k].dtype.name, src.names.operand(k)
        stage = src.bind(f"stage_{name}", self.fragment.store_smem(dtype, ROWS))
        write = src.bind(f"store_{name}", store_staged_rows())
        at = f"int32(staging_at + warpgroup * {STAGED_BYTES})"
        src.emit(stage(at, value), write(at, self._row_addresses(k), "valid_rows", "valid_columns"))

    def _elements(self) -> set[str]:
        """Values of the panel that its epilogue computes, one for each column and row."""
        elements = {v.name for v in self.body.results} - {v.name for v in self.body.args}
        elements |= {use.accumulators[0].name for use in self.kernel.phases[0].folds}
        return elements

    def _spread_store(self, store: Store) -> str:
        """The elements that are stored of a value that varies along fewer axes."""
        dtype = self.kernel.operands[store.operand].dtype.compute.name
        spread = self._define(
            f"spread_{store.value}", self.fragment.elementwise, f"{dtype} -> {dtype}", "value", "value"
        )
        return spread(store.value)

    def _parts(self, k: int) -> range:
        """The first columns of the parts of a panel that fit a buffer: rows of 128 bytes."""
        return range(0, self.panel, SWIZZLE_BYTES // self.kernel.operands[k].dtype.itemsize)

    def _store_tma(self, store: Store, value: str) -> None:
        """Emit the store of a panel by TMA: a warp writes its 16 rows to swizzled shared memory, and one of its threads
        stores them, while the warp goes on to the next panel."""
        src, k = self.src, store.operand
        box, name = self.boxes[k], src.names.operand(k)
        write = src.bind(f"tma_store_{name}", tma_store(len(box.axes)))
        for first in self._parts(k):
            left = STAGING - 1 if self.staged or self.begins_alike else 0
            wait = src.bind(f"wait_staged_{left}", tma_store_wait_read(left))
            at = f"int32(staging_at + warpgroup * {STAGING * STAGED_BYTES} + {self.staged % STAGING * STAGED_BYTES})"
            self.staged += 1
            if self.kernel.operands[k].dtype.itemsize == 2:
                stage = src.bind(f"stage_{name}", self.fragment.store_smem(self.kernel.operands[k].dtype.name, ROWS))
            else:
                stage = src.bind(f"stage_{name}_{first}", store_wide_box(first))
            warp = f"({thread_idx()} >> 5 & {ROWS // WARP_ROWS - 1})"
            column = f"panel_from + {first}" if first else "panel_from"
            corner = {self.column_axis: column, self.row_axis: f"row_from + {warp} * {WARP_ROWS}"}
            coordinates = [f"int32({corner.get(a, f'c{a}')})" for a in box.axes]
            src.emit(wait(), stage(at, value), fence_proxy_async())
            with src.if_(f"{thread_idx()} & 31 == 0"):
                src.emit(write(f"int32({at} + {warp} * {WARP_ROWS * ROW_BYTES})", self.maps[k](), *coordinates))
                src.emit(tma_store_commit())

    def end(self) -> None:
        """Emit the wait for the last stores."""
        if self.maps:
            self.src.emit(tma_store_wait())
