"""Emits the phases of a kernel over a layout: elements, reductions, the work of a row, stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from ....kernel_ir.kernel import KernelIR, Load, Position
from ....kernel_ir.phase import Body, Phase, Reduction, Store, Value
from .intrinsic import Function, Maker, Named
from .source_builder import SourceBuilder, accumulator_name

UNDEFINED = Function("")  # what a row that is held has no use for


@dataclass(frozen=True)
class ReductionIntrinsics:
    """The intrinsics of a reduction; `initial` and `merge` accumulate in a loop."""

    name: str
    op: Named
    reduce: dict[str, Function]  # by the tile whose elements it reduces
    all_reduce: Function
    initial: Function = UNDEFINED
    merge: Function = UNDEFINED


class Elements(Protocol):
    """What a thread holds of its rows: loads, stores, indices, and the reduction of its own elements."""

    row_function: Maker[Function]  # the decorator of what is computed once a row

    def load(self, load: Load) -> None: ...
    def load_row(self, load: Load) -> None: ...
    def position(self, position: Position) -> None: ...
    def compute(self, emitter: PhaseEmitter, number: int | str, phase: Phase) -> None: ...
    def store(self, name: str, store: Store, value: str) -> str: ...
    def store_row(self, name: str, store: Store) -> str: ...
    def define_reduction(self, use: Reduction, name: str) -> ReductionIntrinsics: ...
    def reduce(self, use: Reduction, intrinsics: ReductionIntrinsics) -> str: ...


class Layout(Protocol):
    """Which rows threads work on, and how they run over the columns and reduce them together."""

    @property
    def elements(self) -> Elements: ...
    @property
    def stores(self) -> str: ...  # the condition under which a thread stores its elements; empty: always
    @property
    def stores_row(self) -> str: ...  # the condition under which a thread stores what is computed once a row
    def rows(self, emitter: PhaseEmitter) -> AbstractContextManager[None]: ...
    def run_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None: ...


@dataclass
class PhaseEmitter:
    """Emitter of the phases of one kernel."""

    src: SourceBuilder
    layout: Layout
    reductions: dict[tuple, ReductionIntrinsics] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.elements = self.layout.elements

    @property
    def kernel(self) -> KernelIR:
        return self.src.kernel

    def emit(self) -> None:
        with self.layout.rows(self):
            for number, phase in enumerate(self.kernel.phases):
                if phase.sort is not None and phase.sort.ranks is not None:
                    self.row_body(f"ranks_{number}", phase.sort.ranks)
                self.layout.run_phase(self, number, phase)
                self._row_work(number, phase)

    # Elements.

    def provide(self, value: Value, tiles: bool = True) -> None:
        """Emit the definition of a body's argument, if it has none yet; of elements only if `tiles`."""
        if value.name in self.src.ready:
            return
        rows = self.kernel.row_operands
        for load in self.kernel.loads:
            if load.value.name == value.name and (tiles or load.operand in rows):
                self.src.ready.add(value.name)
                self.elements.load_row(load) if load.operand in rows else self.elements.load(load)
        for position in self.kernel.positions:
            if position.value.name == value.name and (tiles or position.axis < self.kernel.row_axes):
                self.src.ready.add(value.name)
                self.elements.position(position)

    def store_elements(self, number: int | str, phase: Phase, others: Iterable[str] = ()) -> None:
        """Store the results of a phase, then what `others` give."""
        lines = []
        for k, store in enumerate(phase.stores):
            value = self.src.element(store.value)
            lines.append(self.elements.store(f"store_{number}_{k}", store, value))
        lines += others
        with self.src.if_(self.layout.stores):
            self.src.emit(*lines)

    # Reductions.

    def reduction(self, use: Reduction) -> ReductionIntrinsics:
        """The intrinsics of a reduction.

        Reductions that combine alike share them; of two of one name that do not (sums of several types) the second gets
        a number.
        """
        key = (tuple(value.dtype for value in use.accumulators), use.identity, use.combine)
        if key not in self.reductions:
            names = [intrinsics.name.rstrip("0123456789") for intrinsics in self.reductions.values()]
            same = sum(name in (use.name, f"{use.name}_") for name in names)
            self.reductions[key] = self.elements.define_reduction(use, f"{use.name}_{same}" if same else use.name)
        return self.reductions[key]

    def straight(self, number: int, phase: Phase, all_reduce: Callable[[ReductionIntrinsics, str], str]) -> None:
        """A phase of a row whose elements a thread holds; `all_reduce` combines the states of all threads."""
        self.elements.compute(self, number, phase)
        for use in phase.folds:
            intrinsics = self.reduction(use)
            self.src.unpack(use, all_reduce(intrinsics, self.elements.reduce(use, intrinsics)))

    def begin_loop(self, phase: Phase) -> None:
        """Before a loop over the columns: what elements read of the row, and the initial states."""
        for value in [value for part in phase.passes for value in part.reads]:
            self.provide(value, tiles=False)
        for use in phase.folds:
            self.src.assign(accumulator_name(use), self.reduction(use).initial())

    def tile(self, number: int | str, phase: Phase, behind: Callable[[], None] = lambda: None) -> None:
        """The work of one iteration on its tile; `behind` emits what follows the tile's elements."""
        if phase.tile_phases:
            self._tile_phases(number, phase, behind)
            return
        self.elements.compute(self, number, phase)
        for use in phase.folds:
            self._accumulate(use, self.elements.reduce(use, self.reduction(use)))
        behind()

    def forget(self) -> None:
        """What a loop loaded is gone after it."""
        self.src.ready -= {load.value.name for load in self.kernel.element_loads}
        self.src.ready -= {p.value.name for p in self.kernel.positions if p.axis >= self.kernel.row_axes}
        self.src.wide.clear()

    def _accumulate(self, use: Reduction, state: str) -> None:
        self.src.assign(accumulator_name(use), self.reduction(use).merge(accumulator_name(use), state))

    def _tile_phases(self, number: int | str, phase: Phase, behind: Callable[[], None]) -> None:
        """A tile reduced as if it were a row, phase by phase; its state is combined into the row's."""
        for k, part in enumerate(phase.tile_phases):
            self.elements.compute(self, f"{number}_{k}", part)
            for use in part.folds:
                self.src.unpack(use, self.elements.reduce(use, self.reduction(use)))
            if part.row is not None:
                self.row_body(f"tile_{number}_{k}", part.row)
        behind()
        (use,) = phase.folds
        values = ", ".join(value.name for value in use.inputs)
        self._accumulate(use, f"({values})" if len(use.inputs) > 1 else values)
        for part in phase.tile_phases:
            accumulators = [value for use in part.folds for value in use.accumulators]
            self.src.ready -= {value.name for value in (*accumulators, *(part.row.results if part.row else ()))}

    # Rows.

    def _row_work(self, number: int, phase: Phase) -> None:
        if phase.row is not None:
            self.row_body(f"row_{number}", phase.row)
        lines = []
        for k, store in enumerate(phase.row_stores):
            for value in (x.value for group in (self.kernel.loads, self.kernel.positions) for x in group):
                if value.name == store.value:  # it is stored as it was read
                    self.provide(value, tiles=False)
            lines.append(self.elements.store_row(f"store_row_{number}_{k}", store))
        with self.src.if_(self.layout.stores_row):
            self.src.emit(*lines)

    def row_body(self, name: str, body: Body) -> None:
        """A body that is computed once a row."""
        for value in body.args:
            self.provide(value, tiles=False)
        self.src.apply(self.elements.row_function, name, body)
