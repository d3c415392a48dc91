"""Unrolled short rows: a vectorised loop over rows, with the code of every column in its body.

Maps with a short innermost axis are unrolled too. Phases, folds and scans are straight-line code, column by column.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.phase import Reduction
from . import common_arguments, loop_splitting, reduce, scan
from .schedule import CHUNK
from .short_rows_form import ShortRows
from .source_text import address, header, indented, load_line, parameters, store_line, unravel_index
from .statements import code_of, renamed

Column = tuple[int, ...]  # indices along the unrolled axes


def emit(kernel: KernelIR, schedule: str) -> str:
    """The source of a kernel with unrolled rows; `schedule` is the schedule after "short:"."""
    return _ShortRowsEmitter(kernel, ShortRows.read(schedule)).emit()


class _ShortRowsEmitter:
    """Emits one kernel."""

    def __init__(self, kernel: KernelIR, schedule: ShortRows):
        self.kernel, self.unrolled = kernel, schedule
        self.loop_axis = kernel.axes - len(schedule.counts) - 1  # the axis of the loop
        self.column_axes = range(self.loop_axis + 1, kernel.axes)
        self.columns = list(product(*(range(n) for n in schedule.counts)))
        self.loads = [load for load in kernel.loads if self.varies(load.operand)]
        self.column_names = {load.value.name for load in self.loads}  # names that are renamed for each column
        for phase in kernel.phases:
            for body in phase.bodies:
                self.column_names |= body.targets
            self.column_names |= {v.name for use in phase.scan_uses for v in use.accumulators}
        self.column_names |= {position.value.name for position in kernel.positions if position.axis in self.column_axes}

    # -- operands

    def stride(self, operand: int, axis: int) -> str:
        """A stride as text: a literal or a name."""
        stride_kind = self.kernel.operands[operand].strides[axis]
        literal = self.unrolled.strides[operand][axis - self.loop_axis]
        return stride_kind if stride_kind != "s" else f"s{operand}at{axis}" if literal is None else str(literal)

    def varies(self, operand: int) -> bool:
        """True if an operand varies along the columns."""
        return any(self.stride(operand, axis) != "0" for axis in self.column_axes)

    def element_offset(self, operand: int, column: Column | None, row: str = "i") -> str:
        """The offset of an element in a row; without a column, of the row."""
        steps = [(row, self.stride(operand, self.loop_axis))]
        steps += [(str(at), self.stride(operand, axis)) for at, axis in zip(column or (), self.column_axes)]
        terms, number = [], 0
        for index, stride in steps:
            if stride == "0" or index == "0":
                continue
            if index.isdigit() and stride.lstrip("-").isdigit():
                number += int(index) * int(stride)
            else:
                terms.append(index if stride == "1" else f"{index} * {stride}")
        return " + ".join([*terms, *([str(number)] if number or not terms else [])])

    # -- text

    def emit(self) -> str:
        kernel, loop_axis = self.kernel, self.loop_axis
        body = ["outer = unit // chunks", f"first = (unit - outer * chunks) * {CHUNK}"]
        body += [f"count = smaller({CHUNK}, n{loop_axis} - first)", *self.start()]
        body += loop_splitting.loop(kernel, self.row_body(), "i", "count", self.innermost)
        lines = [*parameters(kernel), f"chunks = (n{loop_axis} + {CHUNK - 1}) // {CHUNK}"]
        lines += ["for unit in range(begin, end):", *indented(body)]
        title = header(kernel, f"rows of {' x '.join(map(str, self.unrolled.counts))}")
        return "\n".join([*title, "", "", "def kernel(slots, begin, end):", *indented(lines), ""])

    def innermost(self, lines: list[str], index: str, first: str, end: str) -> list[str]:
        loaded = common_arguments.floats(self.kernel)
        loaded |= {f"{name}_c{k}" for name in loaded for k in range(1, len(self.columns))}
        return common_arguments.loop(lines, loaded, index, first, end)

    def start(self) -> list[str]:
        """Base pointers, indices, and loads that are invariant over rows."""
        kernel, loop_axis = self.kernel, self.loop_axis
        names = {axis: f"i{axis}" for axis in range(loop_axis)}
        lines = unravel_index("outer", range(loop_axis), names) if names else []
        lines += [
            address(kernel, k, f"r{k}", f"p{k}", {**names, loop_axis: "first"}) for k in range(len(kernel.operands))
        ]
        lines += [
            f"{position.value.name} = {position.value.dtype}(i{position.axis})"
            for position in kernel.positions
            if position.axis < loop_axis
        ]
        return lines + self.load(row_invariant=True)

    def load(self, row_invariant: bool) -> list[str]:
        """The row-invariant loads if `row_invariant`, else the rest.

        They precede all stores, because an output may alias an input.
        """
        lines = []
        for load in self.kernel.loads:
            if (self.stride(load.operand, self.loop_axis) == "0") != row_invariant:
                continue
            some = enumerate(self.columns) if load in self.loads else [(None, None)]  # type: ignore[list-item]
            for number, column in some:
                line = load_line(load, f"r{load.operand}", self.element_offset(load.operand, column))
                lines += [line] if number is None else self.for_column([line], number)
        return lines

    def for_column(self, lines: Iterable[str], number: int) -> list[str]:
        """Lines, renamed for a column."""
        if not number:
            return list(lines)
        return _suffixed(map(code_of, lines), self.column_names, f"_c{number}")

    def row_body(self) -> list[str]:
        """The body of one row."""
        kernel = self.kernel
        lines = self.load(row_invariant=False)
        lines += [
            f"{position.value.name} = {position.value.dtype}(first + i)"
            for position in kernel.positions
            if position.axis == self.loop_axis
        ]
        for k, axis in enumerate(self.column_axes):
            for position in (p for p in kernel.positions if p.axis == axis):
                for number, column in enumerate(self.columns):
                    lines += self.for_column([f"{position.value.name} = {position.value.dtype}({column[k]})"], number)
        for phase in kernel.phases:
            lines += scan.init_short_row(phase)
            order = list(enumerate(self.columns))
            for number, column in reversed(order) if scan.is_reverse(phase) else order:
                each = [*phase.element.lines, *scan.element_lines(phase, scan.in_row)]
                each += [store_line(s, f"r{s.operand}", self.element_offset(s.operand, column)) for s in phase.stores]
                lines += self.for_column(each, number)
            for f in phase.folds:
                lines += self.folded(f)
            lines += phase.row.lines if phase.row else []
            lines += [store_line(s, f"r{s.operand}", self.element_offset(s.operand, None)) for s in phase.row_stores]
        return lines

    def folded(self, f: Reduction) -> list[str]:
        """A fold over all columns, in order."""
        before, lines, last = list(f.identity), [], len(self.columns) - 1
        for number in range(len(self.columns)):
            lifted = self.for_column([v.name for v in f.inputs], number)
            after = [name if number == last else f"{name}_with{number}" for name in reduce.state_names(f)]
            merged = reduce.merge(f, before, lifted, after)
            lines += _suffixed(merged, set(reduce.unique_names(f).values()), f"_c{number}")
            before = after
        return lines


def _suffixed(lines: Iterable[str], names: set[str], suffix: str) -> list[str]:
    """Append a suffix to some names in lines."""
    return renamed(lines, {name: name + suffix for name in names})
