"""One fused kernel as data: the axes it runs over, what it reads, computes, folds and writes."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.types import DType
from .table import Table


@dataclass(frozen=True)
class Operand:
    """One array that the kernel reads or writes.

    `strides` has one letter per iteration axis (row axes, then column axes): "0" broadcast, "1" contiguous
    (element stride 1; only ever the axis that the kernel's vectors lie along), "s" a run-time stride in elements,
    of any sign. `rank` is such a letter for the places of an order, "" for arrays that do not hold them.
    `access` says what the innermost axis allows: "vector" (16-byte accesses: the pointer and every other
    stride keep whole vectors aligned), "anchor" (not aligned, but off by the same number of elements as every
    other "anchor" operand of the kernel in every row), "shifted" (vectors lie across columns, of which every so
    many are off by the same number of elements), or "element".
    `near` is the axis along which its elements are neighbours where that is not the last one (else -1), in maps alone;
    `near_access` says "vector" where that axis allows 16-byte accesses.
    """

    name: str
    dtype: DType
    strides: str
    access: str = "element"
    near: int = -1
    near_access: str = "element"
    rank: str = ""


@dataclass(frozen=True)
class Value:
    """A named scalar of a body: a minted identifier and the type that it is computed in."""

    name: str
    dtype: DType


@dataclass(frozen=True)
class Load:
    """`value` is element (or, where all column strides are "0", row) of input `operand` (an index), widened."""

    value: Value
    operand: int


@dataclass(frozen=True)
class Position:
    """`value` is the run-time index along iteration axis `axis` (row axes, then column axes)."""

    value: Value
    axis: int


@dataclass(frozen=True)
class Body:
    """Straight-line scalar code: `lines` are three-address statements that define `results` from `args`."""

    args: tuple[Value, ...]
    results: tuple[Value, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class FoldUse:
    """One fold over all column axes: the state that each element is lifted to, and how two states merge.

    `lifted` are results of the phase's element body; after the fold the names in `state` are row values.
    `merge` takes the state a then the state b (same dtypes as `identity`) and results in the merged state.
    `identity` are Python literals in the vocabulary of bodies, e.g. "float32(-inf)". `follow`, where there is one, is
    a shorter merge for states of which b's elements come after a's; a is empty only where b is.
    """

    name: str
    lifted: tuple[Value, ...]
    state: tuple[Value, ...]
    identity: tuple[str, ...]
    merge: Body
    follow: Body | None = None


@dataclass(frozen=True)
class Product:
    """A sum whose elements are products of two values, each with row axes that the other lacks: a product of matrices.

    The bodies compute one value each, from loads, positions and scalars alone.
    """

    left: Body
    right: Body


@dataclass(frozen=True)
class ScanUse(FoldUse):
    """A fold's prefixes along the one column axis: `state` are element values, of each element and what is before it.

    Where `reverse`, the prefixes are suffixes: a row is scanned from its end.
    """

    reverse: bool = False


@dataclass(frozen=True)
class ScanStep:
    """Scans of what the bodies before them made, and the element body that may read their states."""

    scans: tuple[ScanUse, ...]
    element: Body


@dataclass(frozen=True)
class Selection:
    """The order of a row's elements: the first `count` of them (None: all), with their columns.

    Descending or not, NaN is larger than every number and the lower column comes first among equals. `values` and
    `positions` name what phases over the order (`ranks`) read; `places` are row values: ("values" or "positions",
    number in the order, the name that it gets).
    """

    lifted: Value
    descending: bool
    count: int | None
    values: Value | None
    positions: Value | None
    places: tuple[tuple[str, int, Value], ...] = ()


@dataclass(frozen=True)
class Store:
    """Write `value` (converted to the operand's dtype) to output `operand` (an index into Kernel.operands)."""

    value: str
    operand: int


@dataclass(frozen=True)
class Implied:
    """States of a tile that need not be folded, for they follow from its others: the results of the body, in order."""

    states: tuple[Value, ...]
    body: Body


@dataclass(frozen=True)
class Phase:
    """One pass over the columns of a row: map (and scan, and map again), fold, then a little work once a row.

    `element.args` name loads, positions, scalars, row values, and results of earlier phases (held in registers;
    never in a kernel that is not `resident`: there each phase recomputes from loads).

    Dependent folds stream in one pass where a phase has `tile` phases (and one fold, and no element work of its own):
    each tile of the loop is worked as if it were a row, tile phase after tile phase; the names that `folds[0].lifted`
    then has are row values of the tile, and its state (of several values) merges into the running one. Where it is
    `lasting`, what the first tile's rows come to may serve tiles after it: their folds merge with its own, but for what
    is `implied` by the others.

    Where every fold of the phase is a sum of products, `products` says of what: an element's work is then spread over
    the axes that its factors have.

    `cross` are folds the other way, over all row axes: results of the element body, a state for each column. What
    they come to is the kernel's `finish`.
    """

    element: Body
    stores: tuple[Store, ...] = ()
    folds: tuple[FoldUse, ...] = ()
    row: Body | None = None
    row_stores: tuple[Store, ...] = ()
    tile: tuple[Phase, ...] = ()
    scans: tuple[ScanStep, ...] = ()  # after `element`, in order; all in one direction
    select: Selection | None = None  # the order of the elements, once the bodies have run
    ranks: bool = False  # the phase runs over the order's places, not over the columns
    cross: tuple[FoldUse, ...] = ()
    products: tuple[Product, ...] = ()
    lasting: bool = False
    implied: Implied | None = None

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The element bodies, in order."""
        return (self.element, *(step.element for step in self.scans))

    @property
    def results(self) -> tuple[Value, ...]:
        """The element values that the bodies and the scans make."""
        found = [*self.element.results]
        for step in self.scans:
            found += [value for use in step.scans for value in use.state]
            found += step.element.results
        return tuple(dict.fromkeys(found))

    @property
    def reads(self) -> tuple[Value, ...]:
        """What the bodies read and do not make themselves."""
        made = {value.name for value in self.results} - {value.name for value in self.element.args}
        found = [v for body in self.bodies for v in body.args if v.name not in made]
        found += [v for step in self.scans for use in step.scans for v in use.lifted if v.name not in made]
        found += [self.select.lifted] if self.select and self.select.lifted.name not in made else []
        return tuple(dict.fromkeys(found))

    @property
    def names_read(self) -> set[str]:
        """What any of its bodies reads, of elements or of rows."""
        found = {value.name for value in self.reads}
        found |= {value.name for value in self.row.args} if self.row else set()
        return found.union(*(part.names_read for part in self.tile))

    @property
    def written(self) -> set[int]:
        """The operands that it stores to."""
        found = {store.operand for store in (*self.stores, *self.row_stores)}
        return found.union(*(part.written for part in self.tile))

    @property
    def passes(self) -> tuple[Phase, ...]:
        """The phases with element work: its own, or those of a tile."""
        return self.tile or (self,)


@dataclass(frozen=True)
class Score:
    """`value`, an element of a stream: the sum along iteration axis `axis` of left * right.

    The results of the bodies are elements of the two operands: left depends on rows, right on no lane.
    """

    value: Value
    axis: int
    left: Body
    right: Body


@dataclass(frozen=True)
class Weighing:
    """A state with the iteration axis `axis` of its own: the sum over the stream of `weight` times right's result.

    `state` is its name once the stream is over. `merge` takes row values, the state so far and that of a tile (`sides`)
    and gives the state of both. Elements where `kept` is False weigh nothing, whatever they weigh; None: all count.
    `parts` does what `merge` does with the states of two parts of a stream that were worked apart.
    """

    axis: int
    weight: Value
    right: Body
    state: Value
    sides: tuple[Value, Value]
    merge: Body
    kept: Body | None = None
    parts: Body | None = None


@dataclass(frozen=True)
class Ending:
    """Stores of values with the iteration axis `axis` beside the rows, once the stream is over."""

    axis: int
    body: Body
    stores: tuple[Store, ...]


@dataclass(frozen=True)
class Extreme:
    """The least and the greatest of what a body computes along axis `axis` of a tile: of conditions, all and any."""

    axis: int
    body: Body
    least: Value
    greatest: Value


@dataclass(frozen=True)
class Sieve:
    """What a kernel asks of a tile before it works on it: `body` says whether anything in it counts, and whether
    everything does; then its phases are `whole`, whose values have other `names` than those of partial tiles.

    `ends` name the first and the last position on the axes of a tile.
    """

    ends: tuple[tuple[int, Value, Value], ...]
    extremes: tuple[Extreme, ...]
    body: Body
    whole: tuple[Phase, ...]
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Stream:
    """One pass over a stream of scores (rewrite/stream.py), a tile after the other, for a tile of rows at a time.

    The stream is the iteration axis behind the rows; axes of scores and weighings come after it. `lanes` are the row
    axes that no right operand depends on, of which a tile of rows takes some. `tile` phases make a tile's state as if
    it were a row, `state` says what of it is kept and how it merges (its body also results in row values that the
    merges of weighings read); then come `row`, its stores, and the endings.
    """

    lanes: tuple[int, ...]
    scores: tuple[Score, ...]
    tile: tuple[Phase, ...]
    state: FoldUse
    weighings: tuple[Weighing, ...]
    row: Body | None
    row_stores: tuple[Store, ...]
    endings: tuple[Ending, ...]
    sieve: Sieve | None = None
    inputs: tuple[Body, ...] = ()  # what is read for each element of a tile, whatever is made of it; a result each
    row_inputs: tuple[Body, ...] = ()  # … and for each row
    join: Body | None = None  # where a tile is `level` with all so far: its folds' values, joined to theirs first
    rise: Body | None = None  # … and from where it is measured, where references may stay behind
    parts: FoldUse | None = None  # what `state` says, of two parts of the stream that were worked apart

    @property
    def level(self) -> bool:
        """Whether tiles are measured from the references of all so far: what they weigh is added as it is, to states
        that the merges of weighings have moved."""
        return self.join is not None


@dataclass(frozen=True)
class Finish:
    """What a kernel does once all its rows are folded, for each column: `body` takes states of folds over the rows,
    scalars, and loads and positions that are the same in all rows."""

    body: Body | None
    stores: tuple[Store, ...]


@dataclass(frozen=True)
class Window:
    """Boxes of an operand, that the copy engine brings: its axes from the innermost outwards, a box's extents."""

    operand: int
    axes: tuple[int, ...]
    box: tuple[int, ...]


@dataclass(frozen=True)
class Kernel:
    """A map (no folds, row_axes = 0) or a row kernel (rows of columns; every fold is over all column axes).

    A kernel with scans has one column axis.

    Operands: inputs first, then outputs (`inputs` counts the former). Scalars are run-time values by name.
    A row kernel is `resident` when a whole row is held on chip: each load happens once. Its vectors lie along the
    last axis; those of a kernel with `kept` lie along its last row axis, `kept` elements each.
    """

    name: str
    header: tuple[str, ...]
    row_axes: int
    column_axes: int
    inputs: int
    operands: tuple[Operand, ...]
    loads: tuple[Load, ...]
    positions: tuple[Position, ...]
    scalars: tuple[Value, ...]
    phases: tuple[Phase, ...]
    resident: bool = True
    wide: bool = False  # offsets need 64 bits
    pointers: tuple[Load, ...] = ()  # values that are the address of an operand's element 0, for bodies that fetch
    literals: tuple[tuple[str, int], ...] = ()  # scalars that have this value in every call: strides of one element
    kept: int = 0  # elements of a vector along the last row axis
    workspace: bool = False  # blocks leave states for each other in a workspace
    tickets: bool = False  # blocks count themselves
    part: bool = False  # it shares a launch: the number of its block and its slots are handed to it
    table: Table | None = None  # … with other calls of itself, whose slots stand here
    finish: Finish | None = None  # of the folds over its rows, if it has any
    stream: Stream | None = None  # … it is a pass over scores instead of phases
    windows: tuple[Window, ...] = ()  # of operands whose boxes are copied
    fast: bool = False  # functions, divisions and roots may be the hardware's approximations
    steady: int = 0  # elements of a vector where a row's schedule does not depend on other rows; 0: it may
    chained: bool = False  # other launches of the same call come before or after it, and may overlap in starting

    @property
    def axes(self) -> int:
        return self.row_axes + self.column_axes

    @property
    def index(self) -> str:
        """The type of its offsets and counts."""
        return "int64" if self.wide else "int32"

    @property
    def cross(self) -> tuple[FoldUse, ...]:
        """The folds over rows."""
        return tuple(use for phase in self.phases for use in phase.cross)

    @property
    def products(self) -> tuple[Product, ...]:
        """What the folds sum, where that is all the kernel does but for the work after it."""
        if self.stream is not None or self.steady:
            return ()
        (first, *others) = self.phases
        return () if others or first.stores or self.finish is not None else first.products

    @property
    def shifted(self) -> bool:
        """Whether its threads read vectors of 16 bytes that rows do not begin with, and move their states after it."""
        return any(operand.access == "shifted" for operand in self.operands)

    @property
    def along(self) -> int:
        """The axis that vectors lie along."""
        return self.row_axes - 1 if self.kept else self.axes - 1
