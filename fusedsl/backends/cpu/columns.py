"""Column reductions: if rows, not columns, are contiguous, strips of rows are in vector lanes, a column at a time.

Row values are arrays over the strip, except those that are uniform in it. Columns of a block are merged serially, then
blocks in a pairwise tree. A strip is as wide as its states fit in the L1 cache: wide strips read memory best.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.ops import OPS
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.phase import Body, Reduction, Value
from . import common_arguments, extrema, loop_splitting, reduce, scan
from .roles import ScratchArray, ValueRoles, is_float_extremum
from .rows import extents
from .schedule import MIN_STRIP, strip_multiple
from .scratch import allocate, free
from .source_text import address, header, indented, load_line, parameters, store_line, times, unravel_index
from .statements import renamed, target_of

BLOCK = 64  # columns that are merged serially
STATE_BYTES = 1 << 14  # bytes at most of the states of a strip: a third of a current L1 cache
PAIR_BYTES = 1 << 15  # bytes at most of the states and the rows of a strip of pairs: a current L1 cache
UNROLLED_COLUMNS = 8  # columns that are merged into a state in registers
MAX_UNROLLED_LINES = 8  # lines at most of an element body that is unrolled


def emit(kernel: KernelIR, stride_kinds: str) -> tuple[str, list[ScratchArray]]:
    """The source of a strip kernel, and its scratch arrays; `stride_kinds` are the row strides of the operands."""
    return StripEmitter(kernel, stride_kinds).emit()


class StripEmitter:
    """Emits one strip kernel."""

    def __init__(self, kernel: KernelIR, stride_kinds: str):
        self.kernel, self.roles = kernel, ValueRoles(kernel)
        self.steps = stride_kinds
        self.axis = kernel.row_axes - 1  # the axis of the strip
        self.multiple = strip_multiple(kernel)
        self.lane_indices = {q.value.name for q in self.roles.row_positions if q.axis == self.axis}
        self.uniform = {load.value.name for load in self.roles.row_loads if self.step(load.operand) == "0"}
        self.uniform |= {q.value.name for q in self.roles.row_positions} - self.lane_indices

    def emit(self) -> tuple[str, list[ScratchArray]]:
        kernel, arrays = self.kernel, self.arrays()
        body = self.start()
        for p in range(len(kernel.phases)):
            body += ["", f"# phase {p}", *self.columns(p), *self.row_part(p)]
        body.append(f"unit = unit + (width + {self.multiple - 1}) // {self.multiple}")
        lines = [*parameters(kernel), *extents(kernel), *self.sizes(), *allocate(arrays), "unit = begin"]
        lines += ["while unit < end:", *indented(body), *free(arrays)]
        return "\n".join(
            [*header(kernel, "strips"), "", "def kernel(slots, begin, end):", *indented(lines), ""]
        ), arrays

    def sizes(self) -> list[str]:
        """Define the maximum width of a strip, the number of strips of minimum width, and the levels of the tree."""
        lines = [
            f"granules = (n{self.axis} + {self.multiple - 1}) // {self.multiple}",
            f"widest = smaller({self.max_width()}, smaller(granules, end - begin) * {self.multiple})",
            f"blocks = (columns + {BLOCK - 1}) // {BLOCK}",
        ]
        if any(phase.folds or phase.scans for phase in self.kernel.phases):
            lines += ["levels = 1", "while (blocks >> levels) != 0:", "    levels = levels + 1"]
        return lines

    def max_width(self) -> int:
        """The maximum number of rows of a strip."""
        if self.roles.scratch_values:
            return MIN_STRIP
        uses = [(*phase.folds, *phase.scan_uses) for phase in self.kernel.phases]
        size = max(sum(v.dtype.itemsize for use in some for v in use.accumulators) for some in uses)
        if self.kernel.is_pairwise:  # every column reads the rows again
            rows = sum(v.dtype.itemsize for v in self.row_arrays(0))
            return max(self.multiple, PAIR_BYTES // (size + rows) // self.multiple * self.multiple)
        return max(MIN_STRIP, STATE_BYTES // max(size, 1) // self.multiple * self.multiple)

    def arrays(self) -> list[ScratchArray]:
        """Scratch of a strip: row values, states, trees, per-element values."""
        arrays = [ScratchArray(f"{v.name}_row", v.dtype, "widest") for v in self.row_arrays(len(self.kernel.phases))]
        for phase in self.kernel.phases:
            arrays += reduce.state_arrays(phase.folds, "lane", "widest")
            arrays += reduce.state_arrays(phase.folds, "tree", "widest * levels")
            arrays += scan.strip_arrays(phase, "widest", "levels")
        return arrays + [ScratchArray(v.name, v.dtype, "columns * widest") for _, v in self.roles.scratch_values]

    def row_arrays(self, p: int) -> list[Value]:
        """The row values that are arrays at the start of a phase."""
        return [v for v in self.roles.row_values_before(p) if v.name not in self.uniform | self.lane_indices]

    def step(self, operand: int) -> str:
        """The stride from row to row, as text."""
        return f"s{operand}at{self.axis}" if self.steps[operand] == "s" else self.steps[operand]

    def start(self) -> list[str]:
        """The first row of the strip, base pointers, and row loads."""
        kernel, axis = self.kernel, self.axis
        names = {a: f"i{a}" for a in range(axis)}
        lines = [
            "outer = unit // granules",
            f"first = (unit - outer * granules) * {self.multiple}",
            f"width = smaller(smaller(widest, (end - unit) * {self.multiple}), n{axis} - first)",
        ]
        lines += unravel_index("outer", range(axis), names) if names else []
        lines += [address(kernel, k, f"r{k}", f"p{k}", {**names, axis: "first"}) for k in range(len(kernel.operands))]
        lines += [f"{q.value.name} = {q.value.dtype}(i{q.axis})" for q in self.roles.row_positions if q.axis != axis]
        lines += [load_line(x, f"r{x.operand}", "0") for x in self.roles.row_loads if x.value.name in self.uniform]
        inner = [
            load_line(load, f"r{load.operand}", times("lane", self.step(load.operand)))
            for load in self.roles.row_loads
            if load.value.name not in self.uniform
        ]
        return lines + self.lanes([*inner, *(reduce.put(f"{v.name}_row", "lane", v.name) for v in self.row_arrays(0))])

    def lanes(self, inner: Sequence[str]) -> list[str]:
        return ["for lane in range(width):", *indented(inner)] if inner else []

    def reads(self, names: set[str], p: int) -> list[str]:
        """Load the row values among `names` that are defined before phase p."""
        lines = [
            f"{q.value.name} = {q.value.dtype}(first + lane)"
            for q in self.roles.row_positions
            if q.axis == self.axis and q.value.name in names
        ]
        return lines + [
            f"{v.name} = {reduce.get(f'{v.name}_row', 'lane')}" for v in self.row_arrays(p) if v.name in names
        ]

    # -- columns

    def columns(self, p: int) -> list[str]:
        """The element loop of a phase, in blocks of columns."""
        phase = self.kernel.phases[p]
        if not (phase.stores or phase.folds or self.roles.scratch_of(p)):
            return []
        lines = [f"low = block * {BLOCK}", f"high = smaller(low + {BLOCK}, columns)"]
        if self.is_light(p):
            some = [*self.unrolled_columns(p), f"column = column + {UNROLLED_COLUMNS}"]
            column_lines = [*self.column_start(p), *self.column(p), "column = column + 1"]
            loop = ["column = low", f"while column + {UNROLLED_COLUMNS} <= high:", *indented(some)]
            loop += ["while column < high:", *indented(column_lines)]
        elif scan.is_reverse(phase):
            each = ["column = columns - 1 - number", *self.column_start(p), *self.column(p)]
            loop = ["for number in range(low, high):", *indented(each)]
        else:
            loop = ["for column in range(low, high):", *indented([*self.column_start(p), *self.column(p)])]
        tree = self.push(phase.folds, "lane") if phase.folds else []
        reset = reduce.reset_lanes(phase.folds, "width") if phase.folds else []
        lines = [
            *self.lanes(scan.init_strip(phase)),
            "for block in range(blocks):",
            *indented([*reset, *lines, *loop, *self.scanned(p), *tree]),
        ]
        return lines + (self.join(phase.folds, "lane", "row", "blocks") if phase.folds else [])

    def is_light(self, p: int) -> bool:
        """True if loads and stores of states dominate the element body, so that several columns are merged at once."""
        phase = self.kernel.phases[p]
        reads = [load for load in self.roles.loads_of(p) if self.step(load.operand) != "0"]
        instructions = phase.element.instructions
        few = len(instructions) + len(reads) <= MAX_UNROLLED_LINES and not self.kernel.pointers
        few = few and not any(i.op in OPS and OPS[i.op].special for i in instructions)
        return few and bool(phase.folds) and not (phase.stores or phase.scans or self.roles.scratch_of(p))

    def column(self, p: int) -> list[str]:
        """The loop over the rows of the strip, for one column."""
        after = [line for f in self.kernel.phases[p].folds for line in reduce.accumulate(f, "lane", "lane")]
        # in one version: strips begin where threads share the work, and no column may choose for its neighbours
        return loop_splitting.loop(self.kernel, self.element(p), "lane", "width", common_arguments.counted_loop, after)

    def unrolled_columns(self, p: int) -> list[str]:
        """The loop over the rows of the strip, for several columns, which are merged in order."""
        folds, starts, inner = self.kernel.phases[p].folds, [], []
        first, each = self.column_start(p), self.element(p)
        defined = set(filter(None, map(target_of, first)))
        for f in folds:
            inner += [
                f"{name}_next = {text}"
                for name, text in zip(reduce.state_names(f), reduce.get_state(f, "lane", "lane"))
            ]
        for number in range(UNROLLED_COLUMNS):
            names = {name: f"{name}_c{number}" for name in defined}
            unrolled = {**names, "column": f"(column + {number})"}
            starts += renamed(first, unrolled)
            inner += renamed(each, unrolled)
            for f in folds:
                values = [names.get(v.name, v.name) for v in f.inputs]
                if is_float_extremum(f):
                    inner += extrema.accumulate(f, values[0]) if number else extrema.start(f, values[0])
                else:
                    inner += self.merge_next(f, values)
        for f in filter(is_float_extremum, folds):
            inner += [*extrema.finish(f), *self.merge_next(f, reduce.state_names(f))]
        for f in folds:
            inner += reduce.put_state(f, "lane", "lane", [f"{name}_next" for name in reduce.state_names(f)])
        return [*starts, *self.lanes(inner)]

    @staticmethod
    def merge_next(fold: Reduction, values: list[str]) -> list[str]:
        """Merge values into the state that a lane has in registers."""
        fresh = [f"{name}_next" for name in reduce.state_names(fold)]
        return reduce.merge(fold, fresh, values, fresh)

    def column_start(self, p: int) -> list[str]:
        """Base pointers of a column, and loads that are uniform in the strip."""
        kernel, axes = self.kernel, range(self.kernel.row_axes, self.kernel.axes)
        names = {a: f"i{a}" for a in axes}
        read, written = self.roles.loads_of(p), kernel.phases[p].stores
        touched = [load.operand for load in read] + [store.operand for store in written]
        lines = ["left = column", *unravel_index("left", axes, names)]
        lines += [address(kernel, k, f"c{k}", f"r{k}", names) for k in dict.fromkeys(touched)]
        lines += [load_line(x, f"c{x.operand}", "0") for x in self.roles.loads_of(p) if self.step(x.operand) == "0"]
        used = self.roles.used(kernel.phases[p])
        return lines + [
            f"{q.value.name} = {q.value.dtype}(i{q.axis})" for q in self.roles.column_positions if q.value.name in used
        ]

    def element(self, p: int) -> list[str]:
        """One element: loads, row values, scratch values, body, stores."""
        phase, used = self.kernel.phases[p], self.roles.used(self.kernel.phases[p])
        lines = []
        for load in self.roles.loads_of(p):
            if (stride := self.step(load.operand)) != "0":
                lines.append(load_line(load, f"c{load.operand}", times("lane", stride)))
        lines += self.reads(used, p)
        index = "column * widest + lane"
        lines += [f"{name} = {reduce.get(name, index)}" for name in self.roles.scratch_before(p) if name in used]
        lines += [*phase.element.lines, *scan.element_lines(phase, scan.in_strip)]
        lines += [store_line(x, f"c{x.operand}", times("lane", self.step(x.operand))) for x in phase.stores]
        return lines + [reduce.put(v.name, index, v.name) for v in self.roles.scratch_of(p)]

    # -- the tree of blocks

    def push(self, folds: tuple[Reduction, ...], part: str) -> list[str]:
        """Push the states of a block to the tree of every row."""
        keep = []
        for f in folds:
            keep += reduce.put_state(f, "tree", "level * widest + lane", reduce.get_state(f, part, "lane"))
        loop = [*self.lanes(self.from_tree(folds, part)), "level = level + 1", "rest = rest >> 1"]
        return ["level = 0", "rest = block", "while (rest & 1) != 0:", *indented(loop), *self.lanes(keep)]

    def join(self, folds: tuple[Reduction, ...], part: str, into: str, count: str) -> list[str]:
        """Reduce the tree of every row after the last block."""
        nothing = [line for f in folds for line in reduce.put_state(f, part, "lane", list(f.identity))]
        keep = [line for f in folds for line in reduce.put_state(f, into, "lane", reduce.get_state(f, part, "lane"))]
        some = ["if (rest & 1) != 0:", *indented(self.lanes(self.from_tree(folds, part)))]
        loop = ["while rest != 0:", *indented([*some, "level = level + 1", "rest = rest >> 1"])]
        return [*self.lanes(nothing), "level = 0", f"rest = {count}", *loop, *self.lanes(keep)]

    def from_tree(self, folds: tuple[Reduction, ...], part: str) -> list[str]:
        """Merge the tree's states at a level into a partial state."""
        merges = []
        for f in folds:
            fresh = reduce.part_names(f, "next")
            merges += reduce.merge(
                f, reduce.get_state(f, "tree", "level * widest + lane"), reduce.get_state(f, part, "lane"), fresh
            )
            merges += reduce.put_state(f, part, "lane", fresh)
        return merges

    def scanned(self, p: int) -> list[str]:
        """Push the aggregate of a block to the tree; the tree's total is the prefix of the next block."""
        scans = self.kernel.phases[p].scan_uses
        if not scans:
            return []
        starts = self.lanes(scan.init_strip_block(self.kernel.phases[p]))
        return [*self.push(scans, "part"), *self.join(scans, "part", "before", "block + 1"), *starts]

    # -- rows

    def row_part(self, p: int) -> list[str]:
        """The row body of a phase and its stores, for all rows of the strip."""
        phase = self.kernel.phases[p]
        body = phase.row or Body((), (), ())
        defined = body.targets  # a result may be a state itself
        states = {v.name for v in self.roles.row_results(p)} - defined
        lines = self.reads(self.roles.used_by_row(phase), p)
        lines += [
            f"{name} = {reduce.get(f'{name}_row', 'lane')}" for name in sorted(states & self.roles.used_by_row(phase))
        ]
        lines += [
            *body.lines,
            *(reduce.put(f"{v.name}_row", "lane", v.name) for v in body.results if v.name in defined),
        ]
        lines += [store_line(x, f"r{x.operand}", times("lane", self.step(x.operand))) for x in phase.row_stores]
        return self.lanes(lines) if body.instructions or phase.row_stores else []
