"""Phases of a kernel as data: straight-line scalar bodies, reductions, scans and sorts, below the backends."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.types import DType
from .instruction import Instruction


@dataclass(frozen=True)
class Value:
    """A named scalar of a body: a unique identifier and the compute type."""

    name: str
    dtype: DType


@dataclass(frozen=True)
class Body:
    """Straight-line scalar code: three-address `instructions` that define `results` from `args`."""

    args: tuple[Value, ...]
    results: tuple[Value, ...]
    instructions: tuple[Instruction, ...]

    @property
    def lines(self) -> list[str]:
        """The instructions as Python."""
        return list(map(str, self.instructions))

    @property
    def targets(self) -> set[str]:
        """Names that the instructions define."""
        return {i.target for i in self.instructions}


@dataclass(frozen=True)
class Reduction:
    """Reduction over all column axes: one state per element, combined pairwise to one state per row.

    `combine_in_order` is a shorter combine for states of which b's elements come after a's; a is empty only if b is.
    """

    name: str  # of the fold (`ir.folds.FOLDS`)
    inputs: tuple[Value, ...]  # state of one element: results of the phase's element body
    accumulators: tuple[Value, ...]  # state of the row: row values once the reduction is complete
    identity: tuple[str, ...]  # Python literals in the vocabulary of bodies, e.g. "float32(-inf)"
    combine: Body  # (state a, state b) -> the combined state; dtypes are those of `identity`
    combine_in_order: Body | None = None


@dataclass(frozen=True)
class MatrixProduct:
    """Matrix product: a sum over left * right, each with row axes that the other lacks.

    Each body computes one value from loads, positions and scalars only.
    """

    left: Body
    right: Body


@dataclass(frozen=True)
class ScanUse(Reduction):
    """Scan along the only column axis: `accumulators` are element values, the prefix's state at each element."""

    reverse: bool = False  # suffixes: the row is scanned from its end
    exclusive: bool = False  # the prefix is that before the element


@dataclass(frozen=True)
class ScanStep:
    """Scans of results of earlier bodies, then an element body that may read the prefixes."""

    scans: tuple[ScanUse, ...]
    element: Body


@dataclass(frozen=True)
class Sort:
    """Stable sort of a row's elements with their columns. NaN is larger than every number, in either direction.

    A rank is an index in the order: a constant, or a row value that `ranks` computes before the elements are read.
    """

    key: Value
    key_dtype: DType  # has all keys: narrower than what they are computed in, if they are loaded or rounded
    descending: bool
    count: int | None  # of the first elements that are needed; None: all
    values: Value | None  # sorted keys, as phases over the sorted axis (`ranks`) read them
    positions: Value | None  # columns of the sorted keys, likewise
    rank_reads: tuple[tuple[str, int | Value, Value], ...] = ()  # row values: ("values" or "positions", rank, name)
    ranks: Body | None = None  # from scalars and what is loaded once a row

    @property
    def has_positions(self) -> bool:
        """Whether the columns of the elements are wanted too."""
        return self.positions is not None or any(part == "positions" for part, _, _ in self.rank_reads)


@dataclass(frozen=True)
class Store:
    """Store `value`, converted to the operand's dtype, to output `operand` (an index into `KernelIR.operands`)."""

    value: str
    operand: int


@dataclass(frozen=True)
class Scatter:
    """Merge `value` into element `flat_index` (in C order) of output `operand`; negative indices are left out."""

    fold: str  # "sum", "max", "min", or "last": the last value in the order of the elements
    flat_index: str
    value: str
    operand: int
    bins: int = 0  # elements of the output at most: a power of two of a call; 0 in a plan
    ordered: bool = False  # indices do not decrease, but for negative ones before and behind the others


@dataclass(frozen=True)
class DerivedAccumulators:
    """Accumulators of a tile that follow from its others and are not reduced: the results of the body, in order."""

    accumulators: tuple[Value, ...]
    body: Body


PANEL_COLUMNS = 64  # positions along an axis that are folded together where their products are computed


@dataclass(frozen=True)
class PanelFolds:
    """Folds along row axis `axis` of what a row body computes: a state for each panel of PANEL_COLUMNS positions.

    `phases` run on a panel as if it were a row. `stores` are of its states, along the other row axes and the panels,
    which are the `ranks` of the kernel; a later kernel merges them in their order.
    """

    axis: int
    phases: tuple[Phase, ...]
    stores: tuple[Store, ...]

    @property
    def names_read(self) -> set[str]:
        """Names that the panels' bodies read, and what is stored."""
        return {store.value for store in self.stores}.union(*(phase.names_read for phase in self.phases))


@dataclass(frozen=True)
class GroupPhases:
    """Phases on groups of what a row body computes: neighbours along row axis `axis`, as the columns of one head.

    `phases` run on a group as if it were a row, and store its elements. `periodic` operands have the same elements for
    each group. In a plan a group is all of its axis; a bound kernel has groups of `size` positions of a merged axis.
    """

    axis: int
    phases: tuple[Phase, ...]
    periodic: tuple[int, ...] = ()
    size: int = 0

    @property
    def stores(self) -> tuple[Store, ...]:
        """The stores of elements."""
        return tuple(store for phase in self.phases for store in phase.stores)

    @property
    def names_read(self) -> set[str]:
        """Names that the bodies read, and what is folded or stored."""
        names = {store.value for store in self.stores}
        names |= {v.name for phase in self.phases for use in phase.folds for v in use.inputs}
        return names.union(*(phase.names_read for phase in self.phases))


@dataclass(frozen=True)
class Phase:
    """One loop over the columns of a row: element bodies and scans, reductions, then a body once per row.

    `element.args` name loads, positions, scalars, row values, and results of earlier phases. Results of earlier phases
    are held in registers; a kernel that is not `resident` recomputes them from loads in each phase.

    `column_reductions` are reductions over all row axes: results of the element body, an accumulator for each column.
    The kernel's `column_epilogue` follows them.

    Online reductions: with `tile_phases`, each tile of the loop runs these phases as if it were a row. The phase then
    has one reduction and no element work of its own. `folds[0].inputs` are row values of the tile, and its accumulators
    are combined into the running ones.
    """

    element: Body
    stores: tuple[Store, ...] = ()
    folds: tuple[Reduction, ...] = ()
    row: Body | None = None
    row_stores: tuple[Store, ...] = ()
    tile_phases: tuple[Phase, ...] = ()
    scans: tuple[ScanStep, ...] = ()  # after `element`, in order; all in one direction
    sort: Sort | None = None  # sort of the elements, after the bodies
    ranks: bool = False  # the phase runs over the sorted axis, not over the columns
    column_reductions: tuple[Reduction, ...] = ()  # over all row axes, one state per column; the kernel finishes them
    products: tuple[MatrixProduct, ...] = ()  # one for each of `folds`, if all of them sum matrix products
    reuses_reference: bool = False  # later tiles may be measured from the references of the first one
    derived: DerivedAccumulators | None = None  # accumulators that follow from the others; all but these are combined
    scatters: tuple[Scatter, ...] = ()  # after `element`, whose results they merge in the order of the elements
    panel_folds: PanelFolds | None = None  # after `row`: folds of its results, along one of the row axes
    groups: GroupPhases | None = None  # after `row`: phases on groups of its results

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The element bodies, in order."""
        return (self.element, *(step.element for step in self.scans))

    @property
    def scan_uses(self) -> tuple[ScanUse, ...]:
        """The scans of all steps, in order."""
        return tuple(use for step in self.scans for use in step.scans)

    @property
    def results(self) -> tuple[Value, ...]:
        """Element values that the bodies and the scans define."""
        values = [*self.element.results]
        for step in self.scans:
            values += [value for use in step.scans for value in use.accumulators]
            values += step.element.results
        return tuple(dict.fromkeys(values))

    @property
    def reads(self) -> tuple[Value, ...]:
        """Element values that the bodies read and do not define."""
        defined = {value.name for value in self.results} - {value.name for value in self.element.args}
        values = [v for body in self.bodies for v in body.args if v.name not in defined]
        values += [v for use in self.scan_uses for v in use.inputs if v.name not in defined]
        values += [self.sort.key] if self.sort and self.sort.key.name not in defined else []
        return tuple(dict.fromkeys(values))

    @property
    def names_read(self) -> set[str]:
        """Names that any body reads, of elements or of rows, tile phases included."""
        names = {value.name for value in self.reads}
        names |= {value.name for value in self.row.args} if self.row else set()
        names |= self.panel_folds.names_read if self.panel_folds else set()
        names |= self.groups.names_read if self.groups else set()
        names |= {value.name for value in self.sort.ranks.args} if self.sort and self.sort.ranks else set()
        return names.union(*(part.names_read for part in self.tile_phases))

    @property
    def names_read_inside(self) -> set[str]:
        """Names that instructions of elements, scans, column reductions and the sort read: all but folds and stores."""
        uses = [*self.column_reductions, *self.scan_uses]
        names = {value.name for use in uses for value in use.inputs} | ({self.sort.key.name} if self.sort else set())
        return names.union(*(i.names for body in self.bodies for i in body.instructions))

    @property
    def written(self) -> set[int]:
        """Operands that are stored to, tile phases included."""
        operands = {store.operand for store in (*self.stores, *self.row_stores)}
        operands |= {scatter.operand for scatter in self.scatters}
        operands |= {store.operand for store in self.panel_folds.stores} if self.panel_folds else set()
        operands |= {store.operand for store in self.groups.stores} if self.groups else set()
        return operands.union(*(part.written for part in self.tile_phases))

    @property
    def stores_of_rows(self) -> tuple[Store, ...]:
        """Stores of a value for each row: of the row body, and of phases on groups of its results."""
        return (*self.row_stores, *(self.groups.stores if self.groups else ()))

    @property
    def passes(self) -> tuple[Phase, ...]:
        """Phases with element work: this one, or its tile phases."""
        return self.tile_phases or (self,)
