"""Kernels whose rows are a few elements: a loop over rows, in vector lanes, with the work of every column in its body.

So are maps whose last axis is that short. Phases, folds and scans are straight-line code, one column after another.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.phase import Reduction
from . import common_arguments, loop_splitting, reduce, scan
from .schedule import CHUNK, Short
from .source_text import address, decode, header, indented, load_line, parameters, renamed, store_line

Column = tuple[int, ...]  # its position along each of the short axes


def emit(kernel: KernelIR, given: str) -> str:
    """The source of a kernel of short rows; `given` is what `variant.choose` says of them."""
    return _Short(kernel, Short.read(given)).emit()


class _Short:
    """The text of one kernel."""

    def __init__(self, kernel: KernelIR, given: Short):
        self.kernel, self.given = kernel, given
        self.along = kernel.axes - len(given.counts) - 1  # the axis of the loop
        self.inner = range(self.along + 1, kernel.axes)
        self.columns = list(product(*(range(n) for n in given.counts)))
        self.loads = [load for load in kernel.loads if self.varies(load.operand)]
        self.each = {load.value.name for load in self.loads}  # the names that every column has its own of
        for phase in kernel.phases:
            for body in phase.bodies:
                self.each |= {line.partition(" = ")[0] for line in body.instructions}
            self.each |= {v.name for use in scan.uses(phase) for v in use.accumulators}
        self.each |= {p.value.name for p in kernel.positions if p.axis in self.inner}

    # -- operands

    def stride(self, operand: int, axis: int) -> str:
        """As text: a number, or the name of one."""
        letter = self.kernel.operands[operand].strides[axis]
        known = self.given.strides[operand][axis - self.along]
        return letter if letter != "s" else f"s{operand}at{axis}" if known is None else str(known)

    def varies(self, operand: int) -> bool:
        """Whether columns differ."""
        return any(self.stride(operand, axis) != "0" for axis in self.inner)

    def place(self, operand: int, column: Column | None, row: str = "i") -> str:
        """The offset of an element in a row; of no column, that of the row."""
        steps = [(row, self.stride(operand, self.along))]
        steps += [(str(at), self.stride(operand, axis)) for at, axis in zip(column or (), self.inner)]
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
        kernel, along = self.kernel, self.along
        body = ["outer = unit // chunks", f"first = (unit - outer * chunks) * {CHUNK}"]
        body += [f"count = smaller({CHUNK}, n{along} - first)", *self.start()]
        body += loop_splitting.loop(kernel, self.row(), "i", "count", self.innermost)
        lines = [*parameters(kernel), f"chunks = (n{along} + {CHUNK - 1}) // {CHUNK}"]
        lines += ["for unit in range(begin, end):", *indented(body)]
        title = header(kernel, f"rows of {' x '.join(map(str, self.given.counts))}")
        return "\n".join([*title, "", "", "def kernel(slots, begin, end):", *indented(lines), ""])

    def innermost(self, lines: list[str], index: str, first: str, end: str) -> list[str]:
        values = [load.value for load in self.kernel.loads] + list(self.kernel.scalars)
        loaded = {v.name for v in values if v.dtype.kind == "f"}
        loaded |= {f"{name}_c{k}" for name in loaded for k in range(1, len(self.columns))}
        return common_arguments.loop(lines, loaded, index, first, end)

    def start(self) -> list[str]:
        """Addresses, positions, and what is the same in all rows."""
        kernel, along = self.kernel, self.along
        names = {axis: f"i{axis}" for axis in range(along)}
        lines = decode("outer", range(along), names) if names else []
        lines += [address(kernel, k, f"r{k}", f"p{k}", {**names, along: "first"}) for k in range(len(kernel.operands))]
        lines += [f"{p.value.name} = {p.value.dtype}(i{p.axis})" for p in kernel.positions if p.axis < along]
        return lines + self.read(fixed=True)

    def read(self, fixed: bool) -> list[str]:
        """The loads that are the same in all rows, or the others: before anything is stored, as an output may be an
        input."""
        lines = []
        for load in self.kernel.loads:
            if (self.stride(load.operand, self.along) == "0") != fixed:
                continue
            some = enumerate(self.columns) if load in self.loads else [(None, None)]  # type: ignore[list-item]
            for number, column in some:
                line = load_line(load, f"r{load.operand}", self.place(load.operand, column))
                lines += [line] if number is None else self.named([line], number)
        return lines

    def named(self, lines: Iterable[str], number: int) -> list[str]:
        """Lines with the names of a column."""
        if not number:
            return list(lines)
        code = [line.partition("#")[0].rstrip() for line in lines]
        return _suffixed(code, self.each, f"_c{number}")

    def row(self) -> list[str]:
        """All of the work of one row."""
        kernel = self.kernel
        lines = self.read(fixed=False)
        lines += [f"{p.value.name} = {p.value.dtype}(first + i)" for p in kernel.positions if p.axis == self.along]
        for k, axis in enumerate(self.inner):
            for p in (p for p in kernel.positions if p.axis == axis):
                for number, column in enumerate(self.columns):
                    lines += self.named([f"{p.value.name} = {p.value.dtype}({column[k]})"], number)
        for phase in kernel.phases:
            lines += scan.short_starts(phase)
            order = list(enumerate(self.columns))
            for number, column in reversed(order) if scan.is_reverse(phase) else order:
                each = [*phase.element.instructions, *scan.lines(phase, scan.in_row)]
                each += [store_line(s, f"r{s.operand}", self.place(s.operand, column)) for s in phase.stores]
                lines += self.named(each, number)
            for f in phase.folds:
                lines += self.folded(f)
            lines += phase.row.instructions if phase.row else []
            lines += [store_line(s, f"r{s.operand}", self.place(s.operand, None)) for s in phase.row_stores]
        return lines

    def folded(self, f: Reduction) -> list[str]:
        """The state of all columns: each joins those before it."""
        before, lines, last = list(f.identity), [], len(self.columns) - 1
        for number in range(len(self.columns)):
            own = self.named([v.name for v in f.inputs], number)
            after = [name if number == last else f"{name}_with{number}" for name in reduce.states(f)]
            merged = reduce.merged(f, before, own, after)
            made = {line.partition(" = ")[0] for line in merged} - set(after)
            lines += _suffixed(merged, made, f"_c{number}")
            before = after
        return lines


def _suffixed(lines: Iterable[str], names: set[str], suffix: str) -> list[str]:
    """Lines in which some names end otherwise."""
    return renamed(lines, {name: name + suffix for name in names})
