"""Matmul with packed blocks, register tiles, fused prologue and epilogue (Goto and van de Geijn, TOMS 2008).

A unit of work is a block of the result, large or small by their number; DEPTH elements of the summed axes are packed at
a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.types import INT64
from ...kernel_ir.kernel import KernelIR, Load
from ...kernel_ir.phase import Body
from .matmul_offsets import COLUMN, ROW, STEP, MatmulOffsets
from .reduce import get, put
from .roles import ScratchArray
from .schedule import MATMUL_BLOCK, MATMUL_STEPS, MATMUL_UNITS, SMALL_MATMUL_BLOCK
from .scratch import allocate, free
from .source_text import address, header, indented, load_line, parameters, store_line
from .vector_registers import TILE_PRODUCT, VectorRegisters, tile_shape

DEPTH = MATMUL_STEPS
SERIAL_BLOCKS = 64  # k blocks that are summed serially; then their sum is added to a second accumulator
TWO_LEVELS = f"(step_blocks > {SERIAL_BLOCKS})"


def emit(kernel: KernelIR, stride_kinds: str, vectors: VectorRegisters) -> tuple[str, list[ScratchArray]]:
    """The source of a matmul, and its scratch arrays.

    `stride_kinds` are the strides of each operand along the last row axis, then along the last column axis.
    """
    return CpuMatmulEmitter(kernel, stride_kinds, vectors).emit()


class CpuMatmulEmitter(MatmulOffsets):
    """Emits one matmul."""

    # -- the whole

    def emit(self) -> tuple[str, list[ScratchArray]]:
        kernel, arrays = self.kernel, self.arrays()
        lines = [*parameters(kernel), *self.extents(), *allocate(arrays)]
        lines += ["for unit in range(begin, end):", *indented(self.block()), *free(arrays)]
        head = header(kernel, "products of matrices, in blocks")
        return "\n".join([*head, "", "def kernel(slots, begin, end):", *indented(lines), ""]), arrays

    def extents(self) -> list[str]:
        """Define the numbers of rows, columns and steps, and blocks that are as even as tiles allow."""
        lines = [f"{kind}s = {' * '.join(f'n{a}' for a in self.axes[kind])}" for kind in (ROW, COLUMN, STEP)]
        high, wide = self.tile_shape()
        kinds = ((ROW, high), (COLUMN, wide))
        for (kind, _), most in zip(kinds, MATMUL_BLOCK):
            lines += [f"{kind}_most = {most}", f"{kind}_blocks = ({kind}s + {most - 1}) // {most}"]
        count = " * ".join(["row_blocks", "column_blocks", *(f"n{a}" for a in self.sides.batch)])
        small = [f"{kind}_most = {most}" for (kind, _), most in zip(kinds, SMALL_MATMUL_BLOCK)]
        lines += [f"if {count} < {MATMUL_UNITS}:", *indented(small)]
        for kind, unit in kinds:
            lines += [
                f"{kind}_blocks = ({kind}s + {kind}_most - 1) // {kind}_most",
                f"{kind}_most = (({kind}s + {kind}_blocks - 1) // {kind}_blocks + {unit - 1}) // {unit} * {unit}",
            ]
        return [*lines, f"step_blocks = (steps + {DEPTH - 1}) // {DEPTH}", f"step_most = smaller({DEPTH}, steps)"]

    def tile_shape(self) -> tuple[int, int]:
        """(rows, columns) that block shapes are multiples of."""
        shapes = [tile_shape(use.accumulators[0].dtype, self.vectors) for use in self.folds]
        return shapes[0][0], max(wide for _, wide in shapes)

    def arrays(self) -> list[ScratchArray]:
        """Scratch: packed blocks, sums, and offset tables of merged axes."""
        arrays = [ScratchArray(self.packed(k), body.results[0].dtype, f"{kind}_most * step_most")
                 for k, (kind, body) in enumerate(self.packed_operands)]  # fmt: skip
        for k, use in enumerate(self.folds):
            arrays += [
                ScratchArray(label, use.accumulators[0].dtype, "row_most * column_most")
                for label in self.accumulators(k)
            ]
        for kind in (ROW, COLUMN, STEP):
            arrays += [ScratchArray(label, INT64, f"{kind}_most") for label, _ in self.tables(kind)]
        return arrays

    @staticmethod
    def packed(k: int) -> str:
        return f"packed{k}"

    @staticmethod
    def accumulator(k: int) -> str:
        return f"sums{k}"

    def accumulators(self, k: int) -> tuple[str, str]:
        """The accumulators: of the last k blocks, and of all before these."""
        return self.accumulator(k), f"before{k}"

    # -- a block

    def block(self) -> list[str]:
        """One block of the result: mainloop over k blocks, then the epilogue."""
        kernel, batch = self.kernel, self.sides.batch
        names = {a: f"i{a}" for a in batch}
        lines = ["left = unit"]
        for kind in (COLUMN, ROW):
            lines += [f"{kind}_from = left % {kind}_blocks * {kind}_most", f"left = left // {kind}_blocks"]
            lines += [f"{kind}_count = smaller({kind}_most, {kind}s - {kind}_from)"]
        for a in reversed(batch):
            lines += [f"i{a} = left"] if a == batch[0] else [f"i{a} = left % n{a}", f"left = left // n{a}"]
        everyone = range(len(kernel.operands))
        lines += [address(kernel, k, f"b{k}", f"p{k}", names) for k in everyone]
        lines += [f"{p.value.name} = {p.value.dtype}(i{p.axis})" for p in kernel.positions if p.axis in batch]
        for kind in (ROW, COLUMN):
            lines += [*self.start(everyone, "b", "b", kind), *self.fill_tables(kind)]
        for k, use in enumerate(self.folds):
            zero = [put(label, "index", f"{use.accumulators[0].dtype}(0)") for label in self.accumulators(k)]
            lines += ["for index in range(row_most * column_most):", *indented(zero[:1])]
            lines += [f"if {TWO_LEVELS}:", *indented(["for index in range(row_most * column_most):"])]
            lines += indented(zero[1:], 2)
        depth = [f"step_from = block * {DEPTH}", "step_count = smaller(step_most, steps - step_from)"]
        depth += self.fill_tables(STEP)
        for k, (kind, body) in enumerate(self.packed_operands):
            depth += ["", *self.pack(k, kind, body)]
        depth += [
            "",
            *self.macrokernel(),
            "",
            f"if {TWO_LEVELS} & (block % {SERIAL_BLOCKS} == {SERIAL_BLOCKS - 1}):",
            *indented(self.flush(0)),
        ]
        lines += ["for block in range(step_blocks):", *indented(depth), f"if {TWO_LEVELS}:", *indented(self.flush(1))]
        return [*lines, *self.epilogue()]

    def flush(self, into: int) -> list[str]:
        """Add the sums of the last k blocks to those before (0), or the other way (1)."""
        lines = []
        for k, use in enumerate(self.folds):
            parts, d = self.accumulators(k), use.accumulators[0].dtype
            total = " + ".join(get(label, "index") for label in parts)
            to, rest = (parts[1], parts[0]) if into == 0 else parts
            lines += [put(to, "index", total if d.kind == "f" else f"{d}({total})"), put(rest, "index", f"{d}(0)")]
        return ["for index in range(row_most * column_most):", *indented(lines)]

    def pack(self, k: int, kind: str, body: Body) -> list[str]:
        """Pack one operand for the block, in strips as wide as a tile; the elements of a step are contiguous."""
        width = self.width(kind, body)
        operands = sorted({load.operand for load in self.loads(body)})
        label = self.packed(k)
        start = self.start(operands, "f", "b", STEP)
        fixed = [load_line(load, f"f{load.operand}", "0") for load in self.loads(body) if not self.varies(load)]
        element_index = f"(strip * step_count + step) * {width} + lane"
        lines = [*start, *fixed, f"strips = ({kind}_count + {width - 1}) // {width}", "for strip in range(strips):"]
        if self.is_contiguous_along(STEP, operands, kind):
            inner = self.element(body, label, element_index, kind, STEP)
            outer = [f"{kind} = strip * {width} + lane", *self.advance(operands, "e", "f", kind, kind)]
            loop = [f"for lane in range(smaller({width}, {kind}_count - strip * {width})):",
                    *indented([*outer, "for step in range(step_count):", *indented(inner)])]  # fmt: skip
            return [*lines, *indented(loop)]
        inner = self.element(body, label, element_index, STEP, kind)
        outer = self.advance(operands, "e", "f", STEP, "step")
        if len(self.axes[kind]) == 1:
            outer += self.advance(operands, "e", "e", kind, f"strip * {width}")
        rest = f"{kind}_count - strip * {width}"
        loops = [
            f"if {rest} >= {width}:",
            *indented([f"for lane in range({width}):", *indented(inner)]),
            "else:",
            *indented([f"for lane in range({rest}):", *indented(inner)]),
        ]
        return [*lines, *indented(["for step in range(step_count):", *indented([*outer, *loops])])]

    def width(self, kind: str, body: Body) -> int:
        high, wide = tile_shape(body.results[0].dtype, self.vectors)
        return high if kind == ROW else wide

    def loads(self, body: Body) -> list[Load]:
        names = {v.name for v in body.args}
        return [load for load in self.kernel.loads if load.value.name in names]

    def varies(self, load: Load) -> bool:
        return any(load.operand in self.varying_operands(kind) for kind in (ROW, COLUMN, STEP))

    def is_contiguous_along(self, kind: str, operands: Sequence[int], other: str) -> bool:
        """True if more operands are contiguous along one kind than along the other."""

        def near(which: str) -> int:
            return sum(len(self.axes[which]) == 1 and self.step_of(which, k) == "1" for k in operands)

        return near(kind) > near(other)

    def element(self, body: Body, label: str, element_index: str, outer: str, inner: str) -> list[str]:
        """One element of an operand: loads, prologue, store to the packed block; pointers are at the outer index."""
        names = {v.name for v in body.args}
        index = {STEP: "step", ROW: "strip * W + lane", COLUMN: "strip * W + lane"}
        for kind in (ROW, COLUMN):
            index[kind] = index[kind].replace("W", str(self.width(kind, body)))
        local = dict(index)
        if inner != STEP and len(self.axes[inner]) == 1:
            local[inner] = "lane"  # the pointers are at the strip
        lines = []
        for load in self.loads(body):
            if self.varies(load):
                lines.append(load_line(load, f"e{load.operand}", self.offset(inner, load.operand, local[inner])))
        lines += self.positions((outer, inner), names, index)
        return [*lines, *body.lines, put(label, element_index, body.results[0].name)]

    def macrokernel(self) -> list[str]:
        """The macrokernel: add the products of packed blocks to the sums, tile by tile."""
        lines = []
        for k, (use, pair) in enumerate(zip(self.folds, self.sides.factors)):
            d = use.accumulators[0].dtype
            high, wide = tile_shape(d, self.vectors)
            left, right = (
                self.packed(self.packed_operands.index((kind, body))) for kind, body in zip((ROW, COLUMN), pair)
            )
            a = f"offset({left}_at, row_strip * {high} * step_count * {d.itemsize})"
            b = f"offset({right}_at, column_strip * {wide} * step_count * {d.itemsize})"
            element = f"row_strip * {high} * column_most + column_strip * {wide}"
            c = f"offset({self.accumulator(k)}_at, ({element}) * {d.itemsize})"
            inner = [f"{TILE_PRODUCT}_{d.name}({a}, {b}, {c}, step_count, column_most)"]
            rows = [f"for row_strip in range((row_count + {high - 1}) // {high}):", *indented(inner)]
            lines += [f"for column_strip in range((column_count + {wide - 1}) // {wide}):", *indented(rows)]
        return lines

    # -- epilogue

    def epilogue(self) -> list[str]:
        """The epilogue: row body and stores for each element of the block."""
        phase = self.kernel.phases[0]
        body = phase.row or Body((), (), ())
        names = {v.name for v in body.args} | {store.value for store in phase.row_stores}
        loads = [load for load in self.kernel.loads if load.value.name in names]
        operands = sorted({load.operand for load in loads} | {store.operand for store in phase.row_stores})
        index = {ROW: "row", COLUMN: "column"}
        across = [load for load in loads if load.operand in self.varying_operands(COLUMN)]
        outer = self.advance(operands, "e", "b", ROW, "row")
        outer += [load_line(load, f"e{load.operand}", "0") for load in loads if load not in across]
        outer += self.positions((ROW,), names, index)
        inner = [load_line(load, f"e{load.operand}", self.offset(COLUMN, load.operand, "column")) for load in across]
        inner += self.positions((COLUMN,), names, index)
        inner += [f"{use.accumulators[0].name} = {get(self.accumulator(k), 'row * column_most + column')}"
                  for k, use in enumerate(self.folds)]  # fmt: skip
        inner += body.lines
        inner += [store_line(s, f"e{s.operand}", self.offset(COLUMN, s.operand, "column")) for s in phase.row_stores]
        loop = ["for column in range(column_count):", *indented(inner)]
        return ["", "for row in range(row_count):", *indented([*outer, *loop])]
