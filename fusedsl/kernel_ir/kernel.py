"""Kernel IR: one fused kernel as data: its axes, operands, and phases; attention and column epilogues as subclasses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..ir.types import DType
from .attention import AttentionBody, TileBounds
from .batched_calls import BatchedCalls
from .fast_division import divisors
from .image_rows import ImageAxis, ImageBox
from .memory_access import Access
from .phase import Body, MatrixProduct, Phase, Reduction, Scatter, Store, Value

ALIGNED = 4  # elements: what one counter of random numbers serves
SHORT = 1 << 30  # extents whose sums with positions have 32 bits


@dataclass(frozen=True)
class Operand:
    """An array that the kernel reads or writes.

    `strides` has a stride kind per iteration axis (row axes, then column axes): "0" broadcast, "1" contiguous (only the
    vector axis), "s" a run-time stride in elements, of any sign.
    """

    name: str
    dtype: DType
    strides: str
    access: Access = "element"
    near: int = -1  # elementwise kernels: the contiguous axis, if it is not the last one; products: the contiguous axis
    near_access: Access = "element"  # "vector": 16-byte accesses along `near`
    rank: str = ""  # stride kind along sorted positions; "": holds none
    base: int = -1  # pairs, shifted loads: the operand whose addresses this one's follow, in the same array; -1: none
    displacement: int = 0  # of these: elements from the addresses of that operand to its own
    alignment: int = 0  # pairs: of each of its addresses, in bytes, where it is more than an element's
    one_line: bool = False  # rows over several column axes: along all of them together, its elements are contiguous
    strided_as: int = -1  # these rows: the operand before it that has its strides along these axes; -1: none
    image: tuple[ImageAxis, ...] = ()  # products: its rows are places of windows along these axes, the innermost first


@dataclass(frozen=True)
class Load:
    """`value` is element (row value, if all column strides are "0") of input `operand` (an index), widened."""

    value: Value
    operand: int


@dataclass(frozen=True)
class Position:
    """`value` is the run-time index along iteration axis `axis` (row axes, then column axes)."""

    value: Value
    axis: int


@dataclass(frozen=True)
class ColumnEpilogue:
    """Column epilogue: per column, after the reductions over all rows. `body` takes the states of these reductions,
    scalars, and loads and positions that are the same in all rows.
    """

    body: Body | None
    stores: tuple[Store, ...]


@dataclass(frozen=True)
class TmaBox:
    """Boxes of an operand, that the copy engine brings: its axes from the innermost outwards, a box's extents.

    With `tf32` it rounds float32 to TF32 on the way.
    """

    operand: int
    axes: tuple[int, ...]
    box: tuple[int, ...]
    tf32: bool = False


@dataclass(frozen=True)
class KernelIR:
    """An elementwise kernel (no reductions, row_axes = 0) or a row kernel (every reduction is over all column axes).

    A kernel with scans has one column axis. Vectors lie along the last axis, or with `row_vector_width` along the last
    row axis.
    """

    name: str
    header: tuple[str, ...]
    row_axes: int
    column_axes: int
    inputs: int  # operands that are read: they come first
    operands: tuple[Operand, ...]
    loads: tuple[Load, ...]
    positions: tuple[Position, ...]
    scalars: tuple[Value, ...]  # run-time values by name
    phases: tuple[Phase, ...]
    resident: bool = True  # a whole row is held on chip: each load happens once
    index64: bool = False  # offsets need 64 bits
    pointers: tuple[Load, ...] = ()  # values that are the address of an operand's element 0, for bodies that fetch
    lengths: tuple[str, ...] = ()  # scalars that are extents of the kernel's axes
    constant_scalars: tuple[tuple[str, int], ...] = ()  # scalars with one value in all calls: strides of 1
    row_vector_width: int = 0  # elements of a vector along the last row axis; 0: along the last axis
    workspace: bool = False  # blocks exchange partial states in global memory
    semaphores: bool = False  # arrival counters of blocks
    is_subkernel: bool = False  # shares a launch: block number and parameters are arguments
    batched: BatchedCalls | None = None  # shares a launch with other calls of itself
    fastmath: bool = False  # hardware approximations of functions, divisions and roots
    matmul: str = "exact"  # how float32 is multiplied: the option of that name
    batch_invariant_width: int = 0  # vector elements if a row's schedule may not depend on other rows; else 0
    pdl: bool = False  # programmatic dependent launch among the launches of a call
    given: tuple[int, ...] = ()  # then: operands that are arguments of the call, which none of its launches writes
    aligned_scalars: tuple[str, ...] = ()  # extents that are multiples of ALIGNED, which positions are computed from
    short_extents: tuple[str, ...] = ()  # extents among the scalars below SHORT, of maps that compute where they read
    short_strides: tuple[str, ...] = ()  # their strides between -SHORT and SHORT
    neighbour_rows: bool = False  # loads of a map are of one array, some rows apart
    columns_nearer: bool = False  # no array is contiguous along columns, but each is nearer along them than along rows
    tables: tuple[str, ...] = ()  # values of element bodies that are looked up by a byte (byte_tables.py)

    @property
    def axes(self) -> int:
        return self.row_axes + self.column_axes

    @cached_property
    def row_operands(self) -> frozenset[int]:
        """Operands with one value a row: stride 0 along every column axis."""
        across = [operand.strides[self.row_axes :] if self.row_axes else "1" for operand in self.operands]
        return frozenset(k for k, kinds in enumerate(across) if set(kinds) == {"0"})

    @cached_property
    def element_operands(self) -> tuple[int, ...]:
        """Operands with an element for each column."""
        return tuple(k for k in range(len(self.operands)) if k not in self.row_operands)

    @cached_property
    def element_loads(self) -> tuple[Load, ...]:
        """Loads of operands with an element for each column."""
        return tuple(load for load in self.loads if load.operand not in self.row_operands)

    @cached_property
    def is_pairwise(self) -> bool:
        """Whether it folds computed values of pairs: what varies along its columns is the same in neighbouring rows.

        Then a tile of rows against a tile of columns reads each of them once, and computes all pairs of them.
        """
        near = [self.operands[k] for k in self.element_operands]
        beside = [p.axis for p in self.positions] + [
            a for k in self.row_operands if k < self.inputs for a, s in enumerate(self.operands[k].strides) if s != "0"
        ]
        alone = self.row_axes and not self.pointers and all(o.strides[self.row_axes - 1] == "0" for o in near)
        ordered = any(part.scans or part.sort or part.ranks for phase in self.phases for part in phase.passes)
        return bool(alone and near and self.row_axes - 1 in beside and not ordered)

    @property
    def index(self) -> str:
        """The type of its offsets and counts."""
        return "int64" if self.index64 else "int32"

    @property
    def column_reductions(self) -> tuple[Reduction, ...]:
        """The folds over rows."""
        return tuple(use for phase in self.phases for use in phase.column_reductions)

    @property
    def folds_runs(self) -> bool:
        """Whether a kernel is a single scatter of runs along its only axis."""
        folds = [scatter.fold for scatter in self.scatters if scatter.ordered]
        return self.axes == len(folds) == len(self.scatters) == 1 and folds[0] in ("sum", "max", "min")

    @property
    def scatters(self) -> tuple[Scatter, ...]:
        """What the elements merge at computed places."""
        return tuple(scatter for phase in self.phases for scatter in phase.scatters)

    @property
    def products(self) -> tuple[MatrixProduct, ...]:
        """What the folds sum, where that is all the kernel does but for the work after it."""
        if len(self.phases) != 1 or self.batch_invariant_width:
            return ()
        (phase,) = self.phases
        return () if phase.stores or phase.column_reductions else phase.products

    @property
    def shifted(self) -> bool:
        """Whether its threads read vectors of 16 bytes that rows do not begin with, and move their states after it."""
        return any(operand.access == "shifted" for operand in self.operands)

    def magic_divisors(self, width: int, extents: tuple[int, ...]) -> tuple[int, ...]:
        """What the magics of axes 1 … divide by, for vectors of so many elements."""
        return divisors(self.vector_axis, width, extents, int(self.shifted)) if self.axes > 1 else ()

    @property
    def tma_boxes(self) -> tuple[TmaBox | ImageBox, ...]:
        """The boxes of operands that TMA moves."""
        return ()

    @property
    def image_axes(self) -> int:
        """The axes of images, besides samples and channels, along which its rows are places of windows."""
        return max(len(operand.image) for operand in self.operands) if self.operands else 0

    @property
    def vector_axis(self) -> int:
        """The axis that vectors lie along."""
        return self.row_axes - 1 if self.row_vector_width else self.axes - 1


@dataclass(frozen=True, kw_only=True)
class RowColumnKernel(KernelIR):
    """A kernel that reduces rows and columns in one reading: its phases, then the column epilogue."""

    column_epilogue: ColumnEpilogue


@dataclass(frozen=True, kw_only=True)
class MatmulKernel(KernelIR):
    """A kernel of matrix products whose operands TMA loads, and whose outputs it may store."""

    tma_boxes: tuple[TmaBox | ImageBox, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AttentionKernel(KernelIR):
    """An attention kernel: the attention body instead of phases; the columns are the key axis and those behind it."""

    attention: AttentionBody
    tma_boxes: tuple[TmaBox, ...] = ()

    @property
    def kv_axis(self) -> int:
        return self.row_axes

    @property
    def kv_bounds(self) -> tuple[TileBounds, ...]:
        """Bounds along the kv axis, such as document ids, that the block mask reads: a pair for each key tile, computed
        once by a block."""
        mask = self.attention.block_mask
        return tuple(bounds for bounds in mask.bounds if bounds.axis == self.kv_axis) if mask else ()

    @property
    def kv_bounds_axes(self) -> tuple[int, ...]:
        """The axes besides the kv axis that these bounds depend on."""
        names = {v.name for bounds in self.kv_bounds for v in bounds.body.args}
        return tuple(sorted({a for name in names for a in self.axes_of(name) or ()} - {self.kv_axis}))

    def axes_of(self, name: str) -> set[int] | None:
        """The axes that a load or an index depends on; None for other names."""
        for p in self.positions:
            if p.value.name == name:
                return {p.axis}
        for load in self.loads:
            if load.value.name == name:
                return {a for a, stride in enumerate(self.operands[load.operand].strides) if stride != "0"}
        return None
