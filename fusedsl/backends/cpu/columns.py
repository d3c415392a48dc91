"""Row kernels whose rows, not columns, are neighbours in memory: strips of rows side by side, one column at a time.

Row values are arrays over the strip, but for those that are the same in all of it. A block of columns is folded one
after another, then joins a pairwise tree. A strip is as wide as its states stay in the nearest cache: the longer its
lines, the better memory delivers them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.phase import Body, Reduction, Value
from . import loop_splitting, reduce, scan
from .roles import Array, Roles
from .rows import claim, counted, extents, unclaim
from .schedule import GRANULE, HELD_STRIP
from .source_text import address, decode, header, indented, load_line, parameters, renamed, store_line, times

BLOCK = 64  # columns that are folded one after another
STATES = 1 << 14  # bytes of the states of a strip, at most: a third of the nearest cache of current processors
AT_ONCE, LIGHT = 8, 8  # columns that join a state at once where an element is so few lines: it is read and written once


def emit(kernel: KernelIR, letters: str) -> tuple[str, list[Array]]:
    """The source of a kernel of strips; `letters` say how each operand steps from row to row."""
    return Strip(kernel, letters).emit()


class Strip:
    """The text of one kernel."""

    def __init__(self, kernel: KernelIR, letters: str):
        self.kernel, self.roles = kernel, Roles(kernel)
        self.steps = letters
        self.axis = kernel.row_axes - 1  # along the strip
        self.along = {q.value.name for q in self.roles.row_positions if q.axis == self.axis}
        self.shared = {load.value.name for load in self.roles.row_loads if self.step(load.operand) == "0"}
        self.shared |= {q.value.name for q in self.roles.row_positions} - self.along

    def emit(self) -> tuple[str, list[Array]]:
        kernel, arrays = self.kernel, self.arrays()
        body = self.start()
        for p in range(len(kernel.phases)):
            body += ["", f"# phase {p}", *self.columns(p), *self.row_part(p)]
        body.append(f"unit = unit + (width + {GRANULE - 1}) // {GRANULE}")
        lines = [*parameters(kernel), *extents(kernel), *self.sizes(), *claim(arrays), "unit = begin"]
        lines += ["while unit < end:", *indented(body), *unclaim(arrays)]
        return "\n".join(
            [*header(kernel, "strips"), "", "def kernel(slots, begin, end):", *indented(lines), ""]
        ), arrays

    def sizes(self) -> list[str]:
        """How wide a strip is at most, how many strips of the least width there are, and levels of its trees."""
        lines = [
            f"granules = (n{self.axis} + {GRANULE - 1}) // {GRANULE}",
            f"widest = smaller({self.most()}, smaller(granules, end - begin) * {GRANULE})",
            f"blocks = (columns + {BLOCK - 1}) // {BLOCK}",
        ]
        if any(phase.folds or phase.scans for phase in self.kernel.phases):
            lines += ["levels = 1", "while (blocks >> levels) != 0:", "    levels = levels + 1"]
        return lines

    def most(self) -> int:
        """Rows of a strip: elements that are held are as many for each."""
        if self.roles.held:
            return HELD_STRIP
        uses = [(*phase.folds, *scan.uses(phase)) for phase in self.kernel.phases]
        size = max(sum(v.dtype.itemsize for use in some for v in use.accumulators) for some in uses)
        return max(HELD_STRIP, STATES // max(size, 1) // GRANULE * GRANULE)

    def arrays(self) -> list[Array]:
        """Row values, states, trees and held elements of a strip."""
        found = [Array(f"{v.name}_row", v.dtype, "widest") for v in self.stored(len(self.kernel.phases))]
        for phase in self.kernel.phases:
            found += reduce.state_arrays(phase.folds, "lane", "widest")
            found += reduce.state_arrays(phase.folds, "tree", "widest * levels")
            found += scan.strip_arrays(phase, "widest", "levels")
        return found + [Array(v.name, v.dtype, "columns * widest") for _, v in self.roles.held]

    def stored(self, p: int) -> list[Value]:
        """The row values that are arrays when a phase starts."""
        return [v for v in self.roles.rows_before(p) if v.name not in self.shared | self.along]

    def step(self, operand: int) -> str:
        """The stride from row to row, as text."""
        return f"s{operand}at{self.axis}" if self.steps[operand] == "s" else self.steps[operand]

    def start(self) -> list[str]:
        """Where the strip starts, and the row values that are loaded."""
        kernel, axis = self.kernel, self.axis
        names = {a: f"i{a}" for a in range(axis)}
        lines = [
            "outer = unit // granules",
            f"first = (unit - outer * granules) * {GRANULE}",
            f"width = smaller(smaller(widest, (end - unit) * {GRANULE}), n{axis} - first)",
        ]
        lines += decode("outer", range(axis), names) if names else []
        lines += [address(kernel, k, f"r{k}", f"p{k}", {**names, axis: "first"}) for k in range(len(kernel.operands))]
        lines += [f"{q.value.name} = {q.value.dtype}(i{q.axis})" for q in self.roles.row_positions if q.axis != axis]
        lines += [load_line(x, f"r{x.operand}", "0") for x in self.roles.row_loads if x.value.name in self.shared]
        inner = [
            load_line(load, f"r{load.operand}", times("lane", self.step(load.operand)))
            for load in self.roles.row_loads
            if load.value.name not in self.shared
        ]
        return lines + self.lanes([*inner, *(reduce.put(f"{v.name}_row", "lane", v.name) for v in self.stored(0))])

    def lanes(self, inner: Sequence[str]) -> list[str]:
        return ["for lane in range(width):", *indented(inner)] if inner else []

    def reads(self, names: set[str], p: int) -> list[str]:
        """Read the row values among `names` that exist when phase p starts."""
        lines = [
            f"{q.value.name} = {q.value.dtype}(first + lane)"
            for q in self.roles.row_positions
            if q.axis == self.axis and q.value.name in names
        ]
        return lines + [f"{v.name} = {reduce.get(f'{v.name}_row', 'lane')}" for v in self.stored(p) if v.name in names]

    # -- columns

    def columns(self, p: int) -> list[str]:
        """The element part of a phase, in blocks of columns."""
        phase = self.kernel.phases[p]
        if not (phase.stores or phase.folds or self.roles.held_by(p)):
            return []
        lines = [f"low = block * {BLOCK}", f"high = smaller(low + {BLOCK}, columns)"]
        if self.is_light(p):
            some = [*self.several(p), f"column = column + {AT_ONCE}"]
            one = [*self.column_start(p), *self.column(p), "column = column + 1"]
            loop = ["column = low", f"while column + {AT_ONCE} <= high:", *indented(some)]
            loop += ["while column < high:", *indented(one)]
        elif scan.is_reverse(phase):
            each = ["column = columns - 1 - number", *self.column_start(p), *self.column(p)]
            loop = ["for number in range(low, high):", *indented(each)]
        else:
            loop = ["for column in range(low, high):", *indented([*self.column_start(p), *self.column(p)])]
        tree = self.push(phase.folds, "lane") if phase.folds else []
        reset = reduce.reset_lanes(phase.folds, "width") if phase.folds else []
        lines = [
            *self.lanes(scan.strip_starts(phase)),
            "for block in range(blocks):",
            *indented([*reset, *lines, *loop, *self.scanned(p), *tree]),
        ]
        return lines + (self.join(phase.folds, "lane", "row", "blocks") if phase.folds else [])

    def is_light(self, p: int) -> bool:
        """Whether a phase does so little with an element that most of it is reading and writing its row's states."""
        phase = self.kernel.phases[p]
        reads = [load for load in self.roles.loads_of(p) if self.step(load.operand) != "0"]
        few = len(phase.element.instructions) + len(reads) <= LIGHT and not self.kernel.pointers
        return few and bool(phase.folds) and not (phase.stores or phase.scans or self.roles.held_by(p))

    def column(self, p: int) -> list[str]:
        """A column of all rows of the strip."""
        after = [line for f in self.kernel.phases[p].folds for line in reduce.in_lane(f, "lane")]
        return loop_splitting.loop(self.kernel, self.element(p), "lane", "width", counted, after)

    def several(self, p: int) -> list[str]:
        """Some columns at once, each after the one before it."""
        folds, starts, inner = self.kernel.phases[p].folds, [], []
        first, each = self.column_start(p), self.element(p)
        own = {line.partition(" = ")[0] for line in first}
        for f in folds:
            inner += [f"{name}_next = {text}" for name, text in zip(reduce.states(f), reduce.got(f, "lane", "lane"))]
        for number in range(AT_ONCE):
            names = {name: f"{name}_c{number}" for name in own}
            place = {**names, "column": f"(column + {number})"}
            starts += renamed(first, place)
            inner += renamed(each, place)
            for f in folds:
                fresh = [f"{name}_next" for name in reduce.states(f)]
                inner += reduce.merged(f, fresh, [names.get(v.name, v.name) for v in f.inputs], fresh)
        for f in folds:
            inner += reduce.kept(f, "lane", "lane", [f"{name}_next" for name in reduce.states(f)])
        return [*starts, *self.lanes(inner)]

    def column_start(self, p: int) -> list[str]:
        """Where a column starts in each operand, and what is the same for all rows."""
        kernel, axes = self.kernel, range(self.kernel.row_axes, self.kernel.axes)
        names = {a: f"i{a}" for a in axes}
        touched = [load.operand for load in self.roles.loads_of(p)] + [
            store.operand for store in kernel.phases[p].stores
        ]
        lines = ["left = column", *decode("left", axes, names)]
        lines += [address(kernel, k, f"c{k}", f"r{k}", names) for k in dict.fromkeys(touched)]
        lines += [load_line(x, f"c{x.operand}", "0") for x in self.roles.loads_of(p) if self.step(x.operand) == "0"]
        used = self.roles.used(kernel.phases[p])
        return lines + [
            f"{q.value.name} = {q.value.dtype}(i{q.axis})" for q in self.roles.column_positions if q.value.name in used
        ]

    def element(self, p: int) -> list[str]:
        """One element: loads, row values, held values, body, stores."""
        phase, used = self.kernel.phases[p], self.roles.used(self.kernel.phases[p])
        lines = []
        for load in self.roles.loads_of(p):
            if (stride := self.step(load.operand)) != "0":
                lines.append(load_line(load, f"c{load.operand}", times("lane", stride)))
        lines += self.reads(used, p)
        place = "column * widest + lane"
        lines += [f"{name} = {reduce.get(name, place)}" for name in self.roles.held_before(p) if name in used]
        lines += [*phase.element.instructions, *scan.lines(phase, scan.in_strip)]
        lines += [store_line(x, f"c{x.operand}", times("lane", self.step(x.operand))) for x in phase.stores]
        return lines + [reduce.put(v.name, place, v.name) for v in self.roles.held_by(p)]

    # -- the tree of blocks

    def push(self, folds: tuple[Reduction, ...], part: str) -> list[str]:
        """Add a block's states, of this name, to the tree of every row."""
        keep = []
        for f in folds:
            keep += reduce.kept(f, "tree", "level * widest + lane", reduce.got(f, part, "lane"))
        loop = [*self.lanes(self.from_tree(folds, part)), "level = level + 1", "rest = rest >> 1"]
        return ["level = 0", "rest = block", "while (rest & 1) != 0:", *indented(loop), *self.lanes(keep)]

    def join(self, folds: tuple[Reduction, ...], part: str, into: str, count: str) -> list[str]:
        """Merge what the tree of every row holds of so many blocks."""
        nothing = [line for f in folds for line in reduce.kept(f, part, "lane", list(f.identity))]
        keep = [line for f in folds for line in reduce.kept(f, into, "lane", reduce.got(f, part, "lane"))]
        some = ["if (rest & 1) != 0:", *indented(self.lanes(self.from_tree(folds, part)))]
        loop = ["while rest != 0:", *indented([*some, "level = level + 1", "rest = rest >> 1"])]
        return [*self.lanes(nothing), "level = 0", f"rest = {count}", *loop, *self.lanes(keep)]

    def from_tree(self, folds: tuple[Reduction, ...], part: str) -> list[str]:
        """What the tree holds at a level joins a part of a row's states."""
        merges = []
        for f in folds:
            fresh = reduce.named(f, "next")
            merges += reduce.merged(
                f, reduce.got(f, "tree", "level * widest + lane"), reduce.got(f, part, "lane"), fresh
            )
            merges += reduce.kept(f, part, "lane", fresh)
        return merges

    def scanned(self, p: int) -> list[str]:
        """A block joins the tree of those before, and what that comes to lies before the next."""
        found = scan.uses(self.kernel.phases[p])
        if not found:
            return []
        starts = self.lanes(scan.strip_part_starts(self.kernel.phases[p]))
        return [*self.push(found, "part"), *self.join(found, "part", "before", "block + 1"), *starts]

    # -- rows

    def row_part(self, p: int) -> list[str]:
        """The row body of a phase and its stores, for every row of the strip."""
        phase = self.kernel.phases[p]
        body = phase.row or Body((), (), ())
        made = {line.partition(" = ")[0] for line in body.instructions}  # a result may be a state, as it was folded
        states = {v.name for v in self.roles.made_by_row(p)} - made
        lines = self.reads(self.roles.used_by_row(phase), p)
        lines += [
            f"{name} = {reduce.get(f'{name}_row', 'lane')}" for name in sorted(states & self.roles.used_by_row(phase))
        ]
        lines += [
            *body.instructions,
            *(reduce.put(f"{v.name}_row", "lane", v.name) for v in body.results if v.name in made),
        ]
        lines += [store_line(x, f"r{x.operand}", times("lane", self.step(x.operand))) for x in phase.row_stores]
        return self.lanes(lines) if body.instructions or phase.row_stores else []
