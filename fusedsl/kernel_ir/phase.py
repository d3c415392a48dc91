"""Work on elements and rows as data: straight-line bodies, folds, scans and orders, in phases."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.types import DType


@dataclass(frozen=True)
class Value:
    """A named scalar of a body: a minted identifier and the type that it is computed in."""

    name: str
    dtype: DType


@dataclass(frozen=True)
class Body:
    """Straight-line scalar code: `instructions` are three-address statements that define `results` from `args`."""

    args: tuple[Value, ...]
    results: tuple[Value, ...]
    instructions: tuple[str, ...]


@dataclass(frozen=True)
class Reduction:
    """One fold over all column axes: the state that each element is lifted to, and how two states merge.

    `inputs` are results of the phase's element body; after the fold the names in `accumulators` are row values.
    `combine` takes the state a then the state b (same dtypes as `identity`) and results in the merged state.
    `identity` are Python literals in the vocabulary of bodies, e.g. "float32(-inf)". `combine_in_order`, where there is one, is
    a shorter merge for states of which b's elements come after a's; a is empty only where b is.
    """

    name: str
    inputs: tuple[Value, ...]
    accumulators: tuple[Value, ...]
    identity: tuple[str, ...]
    combine: Body
    combine_in_order: Body | None = None


@dataclass(frozen=True)
class Product:
    """A sum whose elements are products of two values, each with row axes that the other lacks: a product of matrices.

    The bodies compute one value each, from loads, positions and scalars alone.
    """

    left: Body
    right: Body


@dataclass(frozen=True)
class ScanUse(Reduction):
    """A fold's prefixes along the one column axis: `accumulators` are element values, of each element and what is before it.

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

    key: Value
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
class DerivedAccumulators:
    """States of a tile that need not be folded, for they follow from its others: the results of the body, in order."""

    accumulators: tuple[Value, ...]
    body: Body


@dataclass(frozen=True)
class Phase:
    """One pass over the columns of a row: map (and scan, and map again), fold, then a little work once a row.

    `element.args` name loads, positions, scalars, row values, and results of earlier phases (held in registers;
    never in a kernel that is not `resident`: there each phase recomputes from loads).

    Dependent folds stream in one pass where a phase has `tile_phases` phases (and one fold, and no element work of its own):
    each tile of the loop is worked as if it were a row, tile phase after tile phase; the names that `folds[0].lifted`
    then has are row values of the tile, and its state (of several values) merges into the running one. Where it is
    `reuses_reference`, what the first tile's rows come to may serve tiles after it: their folds merge with its own, but for what
    is `derived` by the others.

    Where every fold of the phase is a sum of products, `products` says of what: an element's work is then spread over
    the axes that its factors have.

    `column_reductions` are folds the other way, over all row axes: results of the element body, a state for each column. What
    they come to is the kernel's `finish`.
    """

    element: Body
    stores: tuple[Store, ...] = ()
    folds: tuple[Reduction, ...] = ()
    row: Body | None = None
    row_stores: tuple[Store, ...] = ()
    tile_phases: tuple[Phase, ...] = ()
    scans: tuple[ScanStep, ...] = ()  # after `element`, in order; all in one direction
    select: Selection | None = None  # the order of the elements, once the bodies have run
    ranks: bool = False  # the phase runs over the order's places, not over the columns
    column_reductions: tuple[Reduction, ...] = ()
    products: tuple[Product, ...] = ()
    reuses_reference: bool = False
    derived: DerivedAccumulators | None = None

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The element bodies, in order."""
        return (self.element, *(step.element for step in self.scans))

    @property
    def results(self) -> tuple[Value, ...]:
        """The element values that the bodies and the scans make."""
        found = [*self.element.results]
        for step in self.scans:
            found += [value for use in step.scans for value in use.accumulators]
            found += step.element.results
        return tuple(dict.fromkeys(found))

    @property
    def reads(self) -> tuple[Value, ...]:
        """What the bodies read and do not make themselves."""
        made = {value.name for value in self.results} - {value.name for value in self.element.args}
        found = [v for body in self.bodies for v in body.args if v.name not in made]
        found += [v for step in self.scans for use in step.scans for v in use.inputs if v.name not in made]
        found += [self.select.key] if self.select and self.select.key.name not in made else []
        return tuple(dict.fromkeys(found))

    @property
    def names_read(self) -> set[str]:
        """What any of its bodies reads, of elements or of rows."""
        found = {value.name for value in self.reads}
        found |= {value.name for value in self.row.args} if self.row else set()
        return found.union(*(part.names_read for part in self.tile_phases))

    @property
    def written(self) -> set[int]:
        """The operands that it stores to."""
        found = {store.operand for store in (*self.stores, *self.row_stores)}
        return found.union(*(part.written for part in self.tile_phases))

    @property
    def passes(self) -> tuple[Phase, ...]:
        """The phases with element work: its own, or those of a tile."""
        return self.tile_phases or (self,)
