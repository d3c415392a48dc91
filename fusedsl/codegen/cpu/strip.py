"""Row kernels whose rows, not columns, are neighbours in memory: strips of rows side by side, one column at a time.

Row values are arrays over the strip. A block of columns is folded one after another, then joins a pairwise tree.
"""

from __future__ import annotations

from ...schedule.kernel import Kernel
from ...schedule.phase import Body, FoldUse
from . import fold, scan
from .fold import LEVELS
from .roles import Array, Roles
from .row import claim, extents, unclaim
from .source import address, decode, header, indented, load_line, parameters, store_line, times
from .variant import STRIP

BLOCK = 64  # columns that are folded one after another


def emit(kernel: Kernel, letters: str) -> tuple[str, list[Array]]:
    """The source of a kernel of strips; `letters` say how each operand steps from row to row."""
    return Strip(kernel, letters).emit()


class Strip:
    """The text of one kernel."""

    def __init__(self, kernel: Kernel, letters: str):
        self.kernel, self.roles = kernel, Roles(kernel)
        self.steps = letters
        self.axis = kernel.row_axes - 1  # along the strip

    def emit(self) -> tuple[str, list[Array]]:
        kernel, arrays = self.kernel, self.arrays()
        body = self.start()
        for p in range(len(kernel.phases)):
            body += ["", f"# phase {p}", *self.columns(p), *self.row_part(p)]
        lines = [
            *parameters(kernel),
            *extents(kernel),
            *claim(arrays),
            f"strips = (n{self.axis} + {STRIP - 1}) // {STRIP}",
        ]
        lines += ["for unit in range(begin, end):", *indented(body), *unclaim(arrays)]
        return "\n".join(
            [*header(kernel, "strips"), "", "def kernel(slots, begin, end):", *indented(lines), ""]
        ), arrays

    def arrays(self) -> list[Array]:
        """Row values, states, trees and held elements of a strip."""
        last = len(self.kernel.phases)
        values = self.roles.rows_before(last)
        found = [Array(f"{v.name}_row", v.dtype, str(STRIP)) for v in values]
        for phase in self.kernel.phases:
            found += fold.state_arrays(phase.folds, "lane", str(STRIP))
            found += fold.state_arrays(phase.folds, "tree", str(STRIP * LEVELS))
            found += scan.strip_arrays(phase, str(STRIP))
        return found + [Array(v.name, v.dtype, f"columns * {STRIP}") for _, v in self.roles.held]

    def step(self, operand: int) -> str:
        """The stride from row to row, as text."""
        return f"s{operand}at{self.axis}" if self.steps[operand] == "s" else self.steps[operand]

    def start(self) -> list[str]:
        """Where the strip starts, and the row values that are loaded."""
        kernel, axis = self.kernel, self.axis
        names = {a: f"i{a}" for a in range(axis)}
        lines = [
            "outer = unit // strips",
            f"first = (unit - outer * strips) * {STRIP}",
            f"width = smaller({STRIP}, n{axis} - first)",
        ]
        lines += decode("outer", range(axis), names) if names else []
        lines += [address(kernel, k, f"r{k}", f"p{k}", {**names, axis: "first"}) for k in range(len(kernel.operands))]
        inner = []
        for load in self.roles.row_loads:
            inner.append(load_line(load, f"r{load.operand}", times("lane", self.step(load.operand))))
        for q in self.roles.row_positions:
            index = "first + lane" if q.axis == axis else f"i{q.axis}"
            inner.append(f"{q.value.name} = {q.value.dtype}({index})")
        inner += [fold.put(f"{v.name}_row", "lane", v.name) for v in self.roles.rows_before(0)]
        return lines + self.lanes(inner)

    def lanes(self, inner: list[str]) -> list[str]:
        return ["for lane in range(width):", *indented(inner)] if inner else []

    def reads(self, names: set[str], p: int) -> list[str]:
        """Read the row values among `names` that exist when phase p starts."""
        return [f"{v.name} = {fold.get(f'{v.name}_row', 'lane')}" for v in self.roles.rows_before(p) if v.name in names]

    def columns(self, p: int) -> list[str]:
        """The element part of a phase, in blocks of columns."""
        phase = self.kernel.phases[p]
        if not (phase.stores or phase.folds or self.roles.held_by(p)):
            return []
        folding = [line for f in phase.folds for line in fold.in_lane(f, "lane")]
        per_column = [*self.column_start(p), *self.lanes(self.element(p) + folding)]
        place = "column"
        if scan.is_reverse(phase):
            place, per_column = "number", ["column = columns - 1 - number", *per_column]
        loop = [
            f"for {place} in range(block * {BLOCK}, smaller(block * {BLOCK} + {BLOCK}, columns)):",
            *indented(per_column),
        ]
        tree = self.push(phase.folds, "lane") if phase.folds else []
        reset = fold.reset_lanes(phase.folds, str(STRIP)) if phase.folds else []
        lines = [
            *self.lanes(scan.strip_starts(phase)),
            f"blocks = (columns + {BLOCK - 1}) // {BLOCK}",
            "for block in range(blocks):",
            *indented([*reset, *loop, *self.scanned(p), *tree]),
        ]
        return lines + (self.join(phase.folds, "lane", "row", "blocks") if phase.folds else [])

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
        place = f"column * {STRIP} + lane"
        lines += [f"{name} = {fold.get(name, place)}" for name in self.roles.held_before(p) if name in used]
        lines += [*phase.element.lines, *scan.lines(phase, scan.in_strip)]
        lines += [store_line(x, f"c{x.operand}", times("lane", self.step(x.operand))) for x in phase.stores]
        return lines + [fold.put(v.name, place, v.name) for v in self.roles.held_by(p)]

    def push(self, folds: tuple[FoldUse, ...], part: str) -> list[str]:
        """Add a block's states, of this name, to the tree of every row."""
        keep = []
        for f in folds:
            keep += fold.kept(f, "tree", f"level * {STRIP} + lane", fold.got(f, part, "lane"))
        loop = [*self.lanes(self.from_tree(folds, part)), "level = level + 1", "rest = rest >> 1"]
        return ["level = 0", "rest = block", "while (rest & 1) != 0:", *indented(loop), *self.lanes(keep)]

    def join(self, folds: tuple[FoldUse, ...], part: str, into: str, count: str) -> list[str]:
        """Merge what the tree of every row holds of so many blocks."""
        nothing = [line for f in folds for line in fold.kept(f, part, "lane", list(f.identity))]
        keep = [line for f in folds for line in fold.kept(f, into, "lane", fold.got(f, part, "lane"))]
        some = ["if (rest & 1) != 0:", *indented(self.lanes(self.from_tree(folds, part)))]
        loop = ["while rest != 0:", *indented([*some, "level = level + 1", "rest = rest >> 1"])]
        return [*self.lanes(nothing), "level = 0", f"rest = {count}", *loop, *self.lanes(keep)]

    def from_tree(self, folds: tuple[FoldUse, ...], part: str) -> list[str]:
        """What the tree holds at a level joins a part of a row's states."""
        merges = []
        for f in folds:
            fresh = fold.named(f, "next")
            merges += fold.merged(f, fold.got(f, "tree", f"level * {STRIP} + lane"), fold.got(f, part, "lane"), fresh)
            merges += fold.kept(f, part, "lane", fresh)
        return merges

    def scanned(self, p: int) -> list[str]:
        """A block joins the tree of those before, and what that comes to lies before the next."""
        found = scan.uses(self.kernel.phases[p])
        if not found:
            return []
        starts = self.lanes(scan.strip_part_starts(self.kernel.phases[p]))
        return [*self.push(found, "part"), *self.join(found, "part", "before", "block + 1"), *starts]

    def row_part(self, p: int) -> list[str]:
        """The row body of a phase and its stores, for every row of the strip."""
        phase = self.kernel.phases[p]
        body = phase.row or Body((), (), ())
        made = {line.partition(" = ")[0] for line in body.lines}  # a result may be a state, as it was folded
        states = {v.name for v in self.roles.made_by_row(p)} - made
        lines = self.reads(self.roles.used_by_row(phase), p)
        lines += [
            f"{name} = {fold.get(f'{name}_row', 'lane')}" for name in sorted(states & self.roles.used_by_row(phase))
        ]
        lines += [*body.lines, *(fold.put(f"{v.name}_row", "lane", v.name) for v in body.results if v.name in made)]
        lines += [store_line(x, f"r{x.operand}", times("lane", self.step(x.operand))) for x in phase.row_stores]
        return self.lanes(lines) if body.lines or phase.row_stores else []
