"""One fused kernel as data: the axes it runs over, what it reads, and the phases or the stream that it computes."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.types import DType
from .attention import Stream
from .batched_calls import Table
from .phase import Body, MatrixProduct, Phase, Reduction, Store, Value


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
class KernelIR:
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
    lengths: tuple[str, ...] = ()  # scalars that are extents of the kernel's axes
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
    def cross(self) -> tuple[Reduction, ...]:
        """The folds over rows."""
        return tuple(use for phase in self.phases for use in phase.column_reductions)

    @property
    def products(self) -> tuple[MatrixProduct, ...]:
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
