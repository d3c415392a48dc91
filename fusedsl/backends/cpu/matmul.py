"""Products of matrices: blocks of both factors are computed once and packed, tiles of sums stay in vector registers,
and what follows the sums is done while a block of them is in the cache (Goto and van de Geijn, TOMS 2008).

A unit of work is a block of the result, at most ROWS x COLUMNS; DEPTH elements of the summed axes are packed at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.types import INT64
from ...kernel_ir.kernel import KernelIR, Load
from ...kernel_ir.matmul_axes import sides
from ...kernel_ir.phase import Body
from .reduce import get, put
from .roles import Array
from .rows import claim, unclaim
from .schedule import PRODUCT_BLOCK
from .source_text import address, header, indented, load_line, parameters, store_line
from .vector_registers import TILE_PRODUCT, Vectors, tile_shape

ROWS, COLUMNS, DEPTH = PRODUCT_BLOCK
SERIAL = 64  # blocks of steps whose sums are added one after another
MANY = f"(step_blocks > {SERIAL})"
ROW, COLUMN, STEP = "row", "column", "step"  # what the three kinds of axes count


def emit(kernel: KernelIR, letters: str, vectors: Vectors) -> tuple[str, list[Array]]:
    """The source of a kernel that sums products, and the working memory that it names.

    `letters` say how each operand goes along the last row axis, then along the last column axis of the tiles.
    """
    return Contract(kernel, letters, vectors).emit()


class Contract:
    """The text of one kernel."""

    def __init__(self, kernel: KernelIR, letters: str, vectors: Vectors):
        found = sides(kernel)
        assert found is not None
        self.kernel, self.sides, self.vectors = kernel, found, vectors
        self.along = {ROW: letters[: len(letters) // 2], COLUMN: letters[len(letters) // 2 :]}
        self.axes = {
            ROW: found.rows, COLUMN: found.columns, STEP: tuple(range(kernel.row_axes, kernel.axes)),
        }  # fmt: skip
        self.folds = kernel.phases[0].folds
        self.packs = list(
            dict.fromkeys((kind, body) for pair in found.factors for kind, body in zip((ROW, COLUMN), pair))
        )

    # -- the whole

    def emit(self) -> tuple[str, list[Array]]:
        kernel, arrays = self.kernel, self.arrays()
        lines = [*parameters(kernel), *self.extents(), *claim(arrays)]
        lines += ["for unit in range(begin, end):", *indented(self.block()), *unclaim(arrays)]
        head = header(kernel, "products of matrices, in blocks")
        return "\n".join([*head, "", "def kernel(slots, begin, end):", *indented(lines), ""]), arrays

    def extents(self) -> list[str]:
        """How many rows, columns and steps there are, and blocks of them as even as tiles allow."""
        lines = [f"{kind}s = {' * '.join(f'n{a}' for a in self.axes[kind])}" for kind in (ROW, COLUMN, STEP)]
        high, wide = self.tile_shape()
        for kind, most, unit in ((ROW, ROWS, high), (COLUMN, COLUMNS, wide)):
            lines += [
                f"{kind}_blocks = ({kind}s + {most - 1}) // {most}",
                f"{kind}_most = (({kind}s + {kind}_blocks - 1) // {kind}_blocks + {unit - 1}) // {unit} * {unit}",
            ]
        return [*lines, f"step_blocks = (steps + {DEPTH - 1}) // {DEPTH}", f"step_most = smaller({DEPTH}, steps)"]

    def tile_shape(self) -> tuple[int, int]:
        """Rows and columns that blocks are a multiple of."""
        shapes = [tile_shape(use.accumulators[0].dtype, self.vectors) for use in self.folds]
        return shapes[0][0], max(wide for _, wide in shapes)

    def arrays(self) -> list[Array]:
        """Packed blocks, sums, and where elements stand along merged axes."""
        found = [Array(self.packed(k), body.results[0].dtype, f"{kind}_most * step_most")
                 for k, (kind, body) in enumerate(self.packs)]  # fmt: skip
        for k, use in enumerate(self.folds):
            found += [Array(label, use.accumulators[0].dtype, "row_most * column_most") for label in self.sums_of(k)]
        for kind in (ROW, COLUMN, STEP):
            found += [Array(label, INT64, f"{kind}_most") for label, _ in self.tables(kind)]
        return found

    @staticmethod
    def packed(k: int) -> str:
        return f"packed{k}"

    @staticmethod
    def sums(k: int) -> str:
        return f"sums{k}"

    def sums_of(self, k: int) -> tuple[str, str]:
        """The sums of some blocks of steps, and of all before these."""
        return self.sums(k), f"before{k}"

    # -- where elements stand

    def touched(self, kind: str) -> list[int]:
        """The operands that go along some axis of a kind."""
        return [k for k, o in enumerate(self.kernel.operands) if any(o.strides[a] != "0" for a in self.axes[kind])]

    def tables(self, kind: str) -> list[tuple[str, str]]:
        """(label, what an entry is) of the tables of a kind of several axes: offsets of operands, positions."""
        axes = self.axes[kind]
        if len(axes) == 1:
            return []
        found = []
        for k in self.touched(kind):
            strides = self.kernel.operands[k].strides
            terms = [f"i{a}" + (f" * s{k}at{a}" if strides[a] == "s" else "") for a in axes if strides[a] != "0"]
            found.append((f"{kind}_of{k}", " + ".join(terms)))
        return found + [(f"{kind}_at{p.axis}", f"i{p.axis}") for p in self.kernel.positions if p.axis in axes]

    def fill_tables(self, kind: str) -> list[str]:
        """Fill a kind's tables for the block at hand."""
        tables = self.tables(kind)
        if not tables:
            return []
        axes = self.axes[kind]
        split: list[str] = []
        for a in reversed(axes):
            split += [f"i{a} = left"] if a == axes[0] else [f"i{a} = left % n{a}", f"left = left // n{a}"]
        inner = [f"left = {kind}_from + {kind}", *split, *(put(label, kind, entry) for label, entry in tables)]
        return [f"for {kind} in range({kind}_count):", *indented(inner)]

    def step_of(self, kind: str, operand: int) -> str:
        """The stride of an operand along a kind's one axis, as text."""
        (axis,) = self.axes[kind]
        letter = self.kernel.operands[operand].strides[axis]
        if kind != STEP and self.along[kind][operand] != "s":
            letter = self.along[kind][operand]
        return f"s{operand}at{axis}" if letter == "s" else letter

    def offset(self, kind: str, operand: int, index: str) -> str:
        """The offset of an operand at an index within the block, as text; "" for none."""
        if operand not in self.touched(kind):
            return ""
        if len(self.axes[kind]) > 1:
            return get(f"{kind}_of{operand}", index)
        stride = self.step_of(kind, operand)
        return "" if stride == "0" else index if stride == "1" else f"{index} * {stride}"

    def moved(self, operands: Sequence[int], pointer: str, base: str, kind: str, index: str) -> list[str]:
        """Pointers `pointer`k: `base`k moved to an index of a kind."""
        lines = []
        for k in operands:
            offset = self.offset(kind, k, index)
            lines.append(f"{pointer}{k} = at{k}({base}{k}, {offset})" if offset else f"{pointer}{k} = {base}{k}")
        return lines

    def start(self, operands: Sequence[int], pointer: str, base: str, kind: str) -> list[str]:
        """Pointers to where the block begins (tables hold offsets from the first element on)."""
        if len(self.axes[kind]) > 1:
            return [f"{pointer}{k} = {base}{k}" for k in operands] if pointer != base else []
        return self.moved(operands, pointer, base, kind, f"{kind}_from")

    def positions(self, kinds: Sequence[str], names: set[str], index: dict[str, str]) -> list[str]:
        """The positions among `names` along axes of these kinds."""
        lines = []
        for p in self.kernel.positions:
            for kind in kinds:
                if p.value.name in names and p.axis in self.axes[kind]:
                    several = len(self.axes[kind]) > 1
                    at = get(f"{kind}_at{p.axis}", index[kind]) if several else f"{kind}_from + {index[kind]}"
                    lines.append(f"{p.value.name} = {p.value.dtype}({at})")
        return lines

    # -- a block

    def block(self) -> list[str]:
        """The sums of one block of the result, and what follows them."""
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
            zero = [put(label, "place", f"{use.accumulators[0].dtype}(0)") for label in self.sums_of(k)]
            lines += ["for place in range(row_most * column_most):", *indented(zero[:1])]
            lines += [f"if {MANY}:", *indented(["for place in range(row_most * column_most):"])]
            lines += indented(zero[1:], 2)
        depth = [f"step_from = block * {DEPTH}", "step_count = smaller(step_most, steps - step_from)"]
        depth += self.fill_tables(STEP)
        for k, (kind, body) in enumerate(self.packs):
            depth += ["", *self.pack(k, kind, body)]
        depth += ["", *self.multiply(), "", f"if {MANY} & (block % {SERIAL} == {SERIAL - 1}):", *indented(self.move(0))]
        lines += ["for block in range(step_blocks):", *indented(depth), f"if {MANY}:", *indented(self.move(1))]
        return [*lines, *self.after()]

    def move(self, into: int) -> list[str]:
        """The sums of the last blocks join those before (0), or the other way (1)."""
        lines = []
        for k, use in enumerate(self.folds):
            parts, d = self.sums_of(k), use.accumulators[0].dtype
            total = " + ".join(get(label, "place") for label in parts)
            to, rest = (parts[1], parts[0]) if into == 0 else parts
            lines += [put(to, "place", total if d.kind == "f" else f"{d}({total})"), put(rest, "place", f"{d}(0)")]
        return ["for place in range(row_most * column_most):", *indented(lines)]

    def pack(self, k: int, kind: str, body: Body) -> list[str]:
        """Compute one factor for the block, in strips as wide as a tile; a step's elements are side by side."""
        width = self.width(kind, body)
        operands = sorted({load.operand for load in self.loads(body)})
        label = self.packed(k)
        start = self.start(operands, "f", "b", STEP)
        fixed = [load_line(load, f"f{load.operand}", "0") for load in self.loads(body) if not self.varies(load)]
        place = f"(strip * step_count + step) * {width} + lane"
        lines = [*start, *fixed, f"strips = ({kind}_count + {width - 1}) // {width}", "for strip in range(strips):"]
        if self.lies_along(STEP, operands, kind):
            inner = self.element(body, label, place, kind, STEP)
            outer = [f"{kind} = strip * {width} + lane", *self.moved(operands, "e", "f", kind, kind)]
            loop = [f"for lane in range(smaller({width}, {kind}_count - strip * {width})):",
                    *indented([*outer, "for step in range(step_count):", *indented(inner)])]  # fmt: skip
            return [*lines, *indented(loop)]
        inner = self.element(body, label, place, STEP, kind)
        outer = self.moved(operands, "e", "f", STEP, "step")
        if len(self.axes[kind]) == 1:
            outer += self.moved(operands, "e", "e", kind, f"strip * {width}")
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
        return any(load.operand in self.touched(kind) for kind in (ROW, COLUMN, STEP))

    def lies_along(self, kind: str, operands: Sequence[int], other: str) -> bool:
        """Whether neighbours in memory are neighbours of one kind rather than of the other."""

        def near(which: str) -> int:
            return sum(len(self.axes[which]) == 1 and self.step_of(which, k) == "1" for k in operands)

        return near(kind) > near(other)

    def element(self, body: Body, label: str, place: str, outer: str, inner: str) -> list[str]:
        """One element of a factor: loads, the body, and where it is packed to; pointers are at the outer index."""
        names = {v.name for v in body.args}
        index = {STEP: "step", ROW: "strip * W + lane", COLUMN: "strip * W + lane"}
        for kind in (ROW, COLUMN):
            index[kind] = index[kind].replace("W", str(self.width(kind, body)))
        local = dict(index)
        if inner != STEP and len(self.axes[inner]) == 1:
            local[inner] = "lane"  # the pointers stand at the strip
        lines = []
        for load in self.loads(body):
            if self.varies(load):
                lines.append(load_line(load, f"e{load.operand}", self.offset(inner, load.operand, local[inner])))
        lines += self.positions((outer, inner), names, index)
        return [*lines, *body.instructions, put(label, place, body.results[0].name)]

    def multiply(self) -> list[str]:
        """Add the products of what is packed to the sums, tile by tile."""
        lines = []
        for k, (use, pair) in enumerate(zip(self.folds, self.sides.factors)):
            d = use.accumulators[0].dtype
            high, wide = tile_shape(d, self.vectors)
            left, right = (self.packed(self.packs.index((kind, body))) for kind, body in zip((ROW, COLUMN), pair))
            a = f"offset({left}_at, row_strip * {high} * step_count * {d.itemsize})"
            b = f"offset({right}_at, column_strip * {wide} * step_count * {d.itemsize})"
            c = f"offset({self.sums(k)}_at, (row_strip * {high} * column_most + column_strip * {wide}) * {d.itemsize})"
            inner = [f"{TILE_PRODUCT}_{d.name}({a}, {b}, {c}, step_count, column_most)"]
            rows = [f"for row_strip in range((row_count + {high - 1}) // {high}):", *indented(inner)]
            lines += [f"for column_strip in range((column_count + {wide - 1}) // {wide}):", *indented(rows)]
        return lines

    # -- after the sums

    def after(self) -> list[str]:
        """What follows the sums, element by element of the block."""
        phase = self.kernel.phases[0]
        body = phase.row or Body((), (), ())
        names = {v.name for v in body.args} | {store.value for store in phase.row_stores}
        loads = [load for load in self.kernel.loads if load.value.name in names]
        operands = sorted({load.operand for load in loads} | {store.operand for store in phase.row_stores})
        index = {ROW: "row", COLUMN: "column"}
        across = [load for load in loads if load.operand in self.touched(COLUMN)]
        outer = self.moved(operands, "e", "b", ROW, "row")
        outer += [load_line(load, f"e{load.operand}", "0") for load in loads if load not in across]
        outer += self.positions((ROW,), names, index)
        inner = [load_line(load, f"e{load.operand}", self.offset(COLUMN, load.operand, "column")) for load in across]
        inner += self.positions((COLUMN,), names, index)
        inner += [f"{use.accumulators[0].name} = {get(self.sums(k), 'row * column_most + column')}"
                  for k, use in enumerate(self.folds)]  # fmt: skip
        inner += body.instructions
        inner += [store_line(s, f"e{s.operand}", self.offset(COLUMN, s.operand, "column")) for s in phase.row_stores]
        loop = ["for column in range(column_count):", *indented(inner)]
        return ["", "for row in range(row_count):", *indented([*outer, *loop])]
