"""Emits the epilogue of products: what follows the accumulators, panel by panel, and the stores of its results.

A warpgroup has 64 rows from `row_from` on, and the tile's columns from `column_from` on. Accumulators, loads and
results are fragments; values of a row or a column alone are loaded once for each row or column of a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .....kernel_ir.kernel import Load, TmaBox
from .....kernel_ir.matmul_axes import MatmulAxes
from .....kernel_ir.phase import Body, PanelFolds, Reduction, Store
from ...emit.intrinsic import Function
from ...emit.source_text import SourceBuilder
from ...mma import Fragment, FragmentIntrinsics, quad_all_reduce, row_positions, store_row_values
from ...mma.tile_sizes import ROWS, WARP_ROWS
from ...peephole.product_epilogues import epilogue_functions
from ...peephole.softmax_exp import summed_exponentials
from ...tile import (
    fence_proxy_async,
    thread_idx,
    tma_store,
    tma_store_commit,
    tma_store_wait,
    tma_store_wait_read,
    uniform,
)
from .. import load_column_values, load_panel, store_panel
from .schedule import PANEL, STAGING

ROW_BYTES = 2 * PANEL  # of a panel in shared memory
STAGED_BYTES = ROWS * ROW_BYTES


class PanelEpilogue:
    """The epilogue of a warpgroup's tile."""

    def __init__(self, src: SourceBuilder, axes: MatmulAxes, panel: int, even: bool):
        """For panels of so many columns; whether the columns of the result are `even` in number."""
        self.src, self.kernel, self.axes, self.panel, self.even = src, src.kernel, axes, panel, even
        (self.row_axis,), (self.column_axis,) = axes.rows, axes.columns
        phase = src.kernel.phases[0]
        self.body = epilogue_functions(src.kernel, phase.row or Body((), (), ()))
        self.stores = phase.row_stores
        self.names = {v.name for v in self.body.args} | {s.value for s in self.stores}
        self.names |= phase.panel_folds.names_read if phase.panel_folds else set()
        self.fragment: FragmentIntrinsics = src.bind("panel", Fragment(panel))
        self.rows_from = src.bind("rows_from", row_positions("int32"))
        self.maps: dict[int, Function] = {}
        self.boxes: dict[int, TmaBox] = {}
        self.staged = 0  # panels of a tile so far

    def store_by_tma(
        self, operands: Sequence[int], maps: Sequence[Function], boxes: Sequence[TmaBox], panels: int
    ) -> None:
        """Outputs that are stored through shared memory, with their tensor maps, for tiles of so many panels."""
        self.begins_alike = panels * len(operands) % STAGING == 0  # each tile's first panel has the first buffer
        self.maps = dict(zip(operands, maps))
        self.boxes = {box.operand: box for box in boxes if box.operand in self.maps}

    # -- rows

    def begin(self) -> None:
        """Emit what all panels of a tile share: rows, batch positions, and values that do not depend on columns."""
        src = self.src
        src.wide.clear()
        for p in self.kernel.positions:
            if p.axis in self.axes.batch:
                src.assign(p.value.name, f"{p.value.dtype.name}(c{p.axis})")
        src.assign("rows", self.rows_from("row_from"))
        self._define("rows_in_bounds", self.fragment.rowwise, "int32, int32 -> bool", "row, n", "row < n")
        src.assign("valid_rows", f"rows_in_bounds(rows, int32({src.names.extent(self.row_axis)}))")
        for load in self._loads():
            if not self._varies(load.operand, self.column_axis):
                self._load_row_value(load)
        for p in self._positions(self.row_axis):
            self._convert(p.value.name, self.fragment.rowwise, p.value.dtype.name, "rows")

    def _loads(self) -> list[Load]:
        return [load for load in self.kernel.loads if load.value.name in self.names]

    def _positions(self, axis: int) -> list:
        return [p for p in self.kernel.positions if p.axis == axis and p.value.name in self.names]

    def _varies(self, k: int, axis: int) -> bool:
        return self.kernel.operands[k].strides[axis] != "0"

    def _convert(self, name: str, domain: object, dtype: str, value: str) -> None:
        self._define(f"index_{name}", domain, f"int32 -> {dtype}", "index", f"{dtype}(index)")
        self.src.assign(name, f"index_{name}({value})")

    def _define(self, name: str, domain, types: str, parameters: str, value: str) -> Function:
        decorator = uniform(types) if domain is None else domain(types)
        return self.src.function(decorator, name, parameters.split(", "), [f"return {value}"])

    def _load_row_value(self, load: Load) -> None:
        """Emit a value of each row, or of the whole batch element."""
        src, k, dtype = self.src, load.operand, self.kernel.operands[load.operand].dtype
        name = load.value.name
        if self._varies(k, self.row_axis):
            read = self._define(
                *(f"read_{name}", self.fragment.rowwise, f"int64, int32, int64, bool -> {load.value.dtype.name}"),
                *("base, row, step, in_bounds", f"fetch_{dtype.name}(base + row * step, in_bounds)"),
            )
            src.assign(name, read(self._base(k), "rows", self._step(k, self.row_axis), "valid_rows"))
        else:
            read = self._define(
                *(f"read_{name}", None, f"int64 -> {load.value.dtype.name}", "base"),
                f"fetch_{dtype.name}(base, True)",
            )
            src.assign(name, read(self._base(k)))

    # -- addresses

    def _base(self, k: int) -> str:
        """The address of an operand's first row and column in this batch element."""
        terms = [
            f"int64(c{a}) * {self._step(k, a)}" for a in self.axes.batch if self.kernel.operands[k].strides[a] != "0"
        ]
        return " + ".join([self.src.names.pointer(k), *terms])

    def _step(self, k: int, axis: int) -> str:
        """Bytes between neighbours along an axis."""
        operand = self.kernel.operands[k]
        size = operand.dtype.itemsize
        if operand.near == axis or operand.strides[axis] == "1":
            return f"int64({size})"
        return f"{self.src.names.stride(k, axis)} * {size}"

    def _row_addresses(self, k: int) -> str:
        """The addresses of the panel's first column in both rows of a thread."""
        return self._addresses_from(f"{self._base(k)} + panel_from * {self._step(k, self.column_axis)}", k)

    def _addresses_from(self, first: str, k: int) -> str:
        """The addresses in both rows of a thread, of which row 0 is at `first`."""
        step = self._step(k, self.row_axis) if self._varies(k, self.row_axis) else "int64(0)"
        self._define(
            *("row_addresses", self.fragment.rowwise, "int64, int32, int64 -> int64"),
            *("base, row, step", "base + row * step"),
        )
        return f"row_addresses({first}, rows, {step})"

    def _width(self, k: int) -> int:
        """Neighbours that are accessed together: pairs where columns are contiguous, all lines aligned, and no column
        without a neighbour, beside which there may be what is not ours."""
        operand = self.kernel.operands[k]
        return 2 if self.even and operand.near == self.column_axis and operand.near_access == "vector" else 1

    # -- panels

    def finish(self, first: int, accumulators: Mapping[str, str]) -> None:
        """Emit the epilogue of the panel from column `first` of the tile on; `accumulators` are its accumulators."""
        src = self.src
        src.assign("panel_from", f"int32(column_from + {first})")
        src.assign("valid_columns", f"int32({src.names.extent(self.column_axis)} - panel_from)")
        for load in self._loads():
            if self._varies(load.operand, self.column_axis):
                self._load_columns(load)
        if self._positions(self.column_axis):
            indices = src.bind("column_indices", self.fragment.column_index("int32"))
            src.assign("columns", indices("panel_from"))
            for p in self._positions(self.column_axis):
                self._convert(p.value.name, self.fragment.columnwise, p.value.dtype.name, "columns")
        for name, value in accumulators.items():
            src.assign(name, value)
        src.apply(self.fragment.elementwise, "epilogue", self.body)
        for store in self.stores:
            if store.operand in self.maps:
                self._store_tma(store)
            else:
                self._store(store)
        if self.kernel.phases[0].panel_folds is not None:  # beside the stores by TMA
            self._fold_panel(self.kernel.phases[0].panel_folds)

    def _load_columns(self, load: Load) -> None:
        """Emit the loads of an operand with a value for each column, or for each element."""
        src, k = self.src, load.operand
        dtype, width, step = self.kernel.operands[k].dtype.name, self._width(k), self._step(k, self.column_axis)
        if self._varies(k, self.row_axis):
            read = src.bind(f"load_{load.value.name}", load_panel(self.panel, dtype, width))
            src.assign(load.value.name, read(self._row_addresses(k), "valid_rows", "valid_columns", step))
        else:
            read = src.bind(f"load_{load.value.name}", load_column_values(self.panel, dtype, width))
            src.assign(load.value.name, read(f"{self._base(k)} + panel_from * {step}", "valid_columns", step))

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
            src.emit(write(addresses, value, "rows", src.names.extent(self.row_axis)))

    def _fold(self, use: Reduction, label: str) -> None:
        """Emit a fold over the columns of the panel that exist."""
        src, op = self.src, self.src.reduce_op(use, label)
        lifted = [f"{value.name}_lifted" for value in use.inputs]
        for name, value in zip(lifted, use.inputs):
            src.assign(name, self._spread(value.name, value.dtype.name, self.fragment.elementwise, "element"))
        with src.if_(f"valid_columns < {self.panel}"):
            src.assign("in_bounds", src.bind("bounds", self.fragment.in_bounds())("int32(0)", "valid_columns"))
            for name, value, nothing in zip(lifted, use.inputs, use.identity):
                d = value.dtype.name
                keep = self._define(
                    *(f"keep_{name}", self.fragment.elementwise, f"bool, {d} -> {d}", "valid, value"),
                    f"select(valid, value, {nothing})",
                )
                src.assign(name, keep("in_bounds", name))
        fold = src.bind(f"fold_{label}", self.fragment.fold(op), src.functions)
        over_quad = src.bind(f"quad_{label}", quad_all_reduce(op), src.functions)
        src.unpack(use, fold(*lifted))
        src.unpack(use, over_quad(*(value.name for value in use.accumulators)))

    def _spread(self, name: str, dtype: str, domain, kind: str) -> str:
        """A value for each element, or each row, also where it varies along fewer axes."""
        spread = self._define(f"spread_{kind}_{name}", domain, f"{dtype} -> {dtype}", "value", "value")
        return spread(name)

    # -- stores

    def _store(self, store: Store) -> None:
        """Emit the store of a panel from registers."""
        src, k = self.src, store.operand
        dtype, name = self.kernel.operands[k].dtype.name, src.names.operand(k)
        write = src.bind(f"store_{name}", store_panel(self.panel, dtype, self._width(k)))
        step = self._step(k, self.column_axis)
        src.emit(write(self._row_addresses(k), self._value(store), "valid_rows", "valid_columns", step))

    def _value(self, store: Store) -> str:
        """The elements that are stored, one for each column and row, also where the value varies along fewer axes."""
        elements = {v.name for v in self.body.results} - {v.name for v in self.body.args}
        elements |= {use.accumulators[0].name for use in self.kernel.phases[0].folds}
        if store.value in elements:
            return store.value
        dtype = self.kernel.operands[store.operand].dtype.compute.name
        spread = self._define(
            f"spread_{store.value}", self.fragment.elementwise, f"{dtype} -> {dtype}", "value", "value"
        )
        return spread(store.value)

    def _store_tma(self, store: Store) -> None:
        """Emit the store of a panel by TMA: a warp writes its 16 rows to swizzled shared memory, and one of its threads
        stores them, while the warp goes on to the next panel."""
        src, k = self.src, store.operand
        box, name = self.boxes[k], src.names.operand(k)
        stage = src.bind(f"stage_{name}", self.fragment.store_smem(self.kernel.operands[k].dtype.name, ROWS))
        write = src.bind(f"tma_store_{name}", tma_store(len(box.axes)))
        left = STAGING - 1 if self.staged or self.begins_alike else 0
        wait = src.bind(f"wait_staged_{left}", tma_store_wait_read(left))
        at = f"int32(staging_at + warpgroup * {STAGING * STAGED_BYTES} + {self.staged % STAGING * STAGED_BYTES})"
        self.staged += 1
        warp = f"({thread_idx()} >> 5 & {ROWS // WARP_ROWS - 1})"
        corner = {self.column_axis: "panel_from", self.row_axis: f"row_from + {warp} * {WARP_ROWS}"}
        coordinates = [f"int32({corner.get(a, f'c{a}')})" for a in box.axes]
        src.emit(wait(), stage(at, self._value(store)), fence_proxy_async())
        with src.if_(f"{thread_idx()} & 31 == 0"):
            src.emit(write(f"int32({at} + {warp} * {WARP_ROWS * ROW_BYTES})", self.maps[k](), *coordinates))
            src.emit(tma_store_commit())

    def end(self) -> None:
        """Emit the wait for the last stores."""
        if self.maps:
            self.src.emit(tma_store_wait())
