"""Emits what the epilogue of products on sm_90 reads: values of rows, of columns and of elements, and their addresses.

A warpgroup has 64 rows from `row_from` on, and the tile's columns from `column_from` on. Values of a row or a column
alone are loaded once for each row or column of a thread.
"""

from __future__ import annotations

from collections.abc import Collection

from .....kernel_ir.kernel import Load
from .....kernel_ir.matmul_axes import MatmulAxes
from .....kernel_ir.phase import Body
from ...emit.intrinsic import Function
from ...emit.source_builder import SourceBuilder
from ...mma import Fragment, FragmentIntrinsics, row_positions
from ...peephole.epilogue_approximations import epilogue_functions
from ...tile import uniform
from .. import load_column_values, load_panel, load_row_pairs, paired_row_positions


class PanelLoads:
    """The loads of a warpgroup's tile, panel by panel."""

    def __init__(self, src: SourceBuilder, axes: MatmulAxes, panel: int, multiple: int, registers: int):
        """For panels of so many columns; what divides the number of columns of the result; the registers of a
        thread that loads of panels may take."""
        self.src, self.kernel, self.axes, self.panel, self.multiple = src, src.kernel, axes, panel, multiple
        (self.row_axis,), (self.column_axis,) = axes.rows, axes.columns
        phase = src.kernel.phases[0]
        self.body = epilogue_functions(src.kernel, phase.row or Body((), (), ()))
        self.stores = phase.row_stores
        self.names = {v.name for v in self.body.args} | {s.value for s in self.stores}
        self.names |= phase.panel_folds.names_read if phase.panel_folds else set()
        self.groups = phase.groups
        self.fragment: FragmentIntrinsics = src.bind("panel", Fragment(panel))
        self.rows_from = src.bind("rows_from", row_positions("int32"))
        self.is_whole = multiple % panel == 0  # panels end where the columns do
        self.first = 0  # column of the panel in its tile
        self.ahead, self.even_rows = self._loaded_ahead(registers), False

    def pair_rows(self, itemsize: int, even: bool) -> None:
        """The rows of a thread are neighbours, as operands of this size come to registers; whether rows are `even` in
        number."""
        self.rows_from, self.even_rows = self.src.bind("paired_rows", paired_row_positions(itemsize)), even

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
        names = self.names | (self.groups.names_read if self.groups else set())
        for load in self.loads_of(names):
            if not self.varies(load.operand, self.column_axis):
                self._load_row_value(load)
        for p in self._positions(self.row_axis, names):
            self._convert(p.value.name, self.fragment.rowwise, p.value.dtype.name, "rows")

    def loads_of(self, names: Collection[str]) -> list[Load]:
        return [load for load in self.kernel.loads if load.value.name in names]

    def column_loads(self, names: Collection[str]) -> list[Load]:
        """The loads of these values, a value for each column or each element."""
        return [load for load in self.loads_of(names) if self.varies(load.operand, self.column_axis)]

    def _positions(self, axis: int, names: Collection[str]) -> list:
        return [p for p in self.kernel.positions if p.axis == axis and p.value.name in names]

    def varies(self, k: int, axis: int) -> bool:
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
        if self.varies(k, self.row_axis):
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

    def _row_addresses(self, k: int, first: str = "panel_from") -> str:
        """The addresses of the panel's first column in both rows of a thread."""
        return self._addresses_from(f"{self._base(k)} + {first} * {self._step(k, self.column_axis)}", k)

    def _addresses_from(self, first: str, k: int) -> str:
        """The addresses in both rows of a thread, of which row 0 is at `first`."""
        step = self._step(k, self.row_axis) if self.varies(k, self.row_axis) else "int64(0)"
        self._define(
            *("row_addresses", self.fragment.rowwise, "int64, int32, int64 -> int64"),
            *("base, row, step", "base + row * step"),
        )
        return f"row_addresses({first}, rows, {step})"

    def _first_column(self, k: int) -> str:
        """The first column that is loaded for a panel: of a group, if an operand is the same for each group; and the
        last whole panel's, if panels are whole and this one is beyond them."""
        if self.groups is not None and k in self.groups.periodic:
            return f"int64({self.first % self.groups.size})"
        return "loaded_from" if self.is_whole else "panel_from"

    def _width(self, k: int) -> int:
        """Neighbours that are accessed together: pairs where columns are contiguous, all lines aligned, and no column
        without a neighbour, beside which there may be what is not ours."""
        operand = self.kernel.operands[k]
        return 2 if self.multiple > 1 and operand.near == self.column_axis and operand.near_access == "vector" else 1

    def _has_row_pairs(self, k: int) -> bool:
        """Whether both rows of a thread are accessed together: they are neighbours in memory, and none is without."""
        operand = self.kernel.operands[k]
        return self.even_rows and operand.near == self.row_axis and operand.near_access == "vector"

    # -- panels

    def _loaded_ahead(self, registers: int) -> list[Load]:
        """The loads of a panel that are issued before the panel before it is finished: as registers allow, beside those
        of all loads of one panel."""
        loads = self.column_loads(self.names)
        registers -= sum(map(self.loaded_registers, loads))
        ahead = []
        for load in loads:
            if registers >= self.loaded_registers(load):
                registers -= self.loaded_registers(load)
                ahead.append(load)
        return ahead

    def loaded_registers(self, load: Load) -> int:
        """Registers of a thread for what it loads of a panel, packed where neighbours are loaded together."""
        elements = self.panel // (2 if self.varies(load.operand, self.row_axis) else 4)
        size = self.kernel.operands[load.operand].dtype.itemsize if self._width(load.operand) == 2 else 4
        return elements * size // 4

    def load_ahead(self, first: int) -> None:
        """Emit loads of the panel from column `first` of the tile on, which `finish` awaits."""
        if self.ahead:
            self.set_panel(first)
        for load in self.ahead:
            self.load_columns(load, f"{load.value.name}_ahead")

    def set_panel(self, first: int) -> None:
        self.first = first
        self.src.assign("panel_from", f"int32(column_from + {first})")
        columns = self.src.names.extent(self.column_axis)
        self.src.assign("valid_columns", f"int32({columns} - panel_from)")
        if self.is_whole:
            self.src.assign("loaded_from", f"int32(minimum(panel_from, {columns} - {self.panel}))")

    def load_columns(self, load: Load, to: str) -> None:
        """Emit the loads of an operand with a value for each column, or for each element."""
        src, k = self.src, load.operand
        dtype, width, step = self.kernel.operands[k].dtype.name, self._width(k), self._step(k, self.column_axis)
        first, valid = self._first_column(k), f"int32({self.panel})" if self.is_whole else "valid_columns"
        if self.varies(k, self.row_axis):
            pairs = self._has_row_pairs(k)
            form = load_row_pairs(self.panel, dtype) if pairs else load_panel(self.panel, dtype, width)
            read = src.bind(f"load_{load.value.name}", form)
            src.assign(to, read(self._row_addresses(k, first), "valid_rows", valid, step))
        else:
            read = src.bind(f"load_{load.value.name}", load_column_values(self.panel, dtype, width))
            src.assign(to, read(f"{self._base(k)} + {first} * {step}", valid, step))
