"""A kernel bound to the arrays of a call: its operands, with strides over merged axes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..ir.types import DType
from ..kernel_ir.image_rows import ImageLayout
from ..kernel_ir.kernel import AttentionKernel, KernelIR, RowColumnKernel
from ..kernel_ir.memory_access import Access
from .layout import ALIGNMENT


@dataclass(frozen=True)
class BoundKernel:
    """A kernel with the numbers of one call: extents of its axes, strides and offsets (in elements) per operand."""

    kernel: KernelIR
    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    byte_strides: tuple[tuple[int, ...], ...] = ()  # of operands whose addresses the kernel computes, along their axes
    looped: KernelIR | None = None  # the same computation for a row that does not stay on chip
    transposed: tuple[KernelIR, KernelIR] | None = None  # both with vectors across the columns, if arrays lie so
    chained: bool = False  # the call has several launches, which may overlap
    given: tuple[int, ...] = ()  # then: operands that are arguments of the call
    specialization_group: SpecializationGroup | None = None  # None if every class of lengths gets a binary
    has_unit_extents: bool = False  # the plan is for some extents of 1
    symbolic_units: bool = False  # the plan is for any extents, although some are 1 in this call
    images: tuple[ImageLayout | None, ...] = ()  # operands whose rows are places of windows, by number; (): none is
    padded: tuple[tuple[int, PaddedImage], ...] = ()  # operands by number that have zeros around them, not in memory

    def operand_bytes(self, operand: int) -> int:
        """The bytes of an array's elements that the kernel reads or writes."""
        image = self.images[operand] if self.images else None
        lines = zip(self.extents, self.strides[operand])
        elements = prod(image.extents if image else (n for n, stride in lines if stride))
        return self.kernel.operands[operand].dtype.itemsize * elements

    @property
    def empty(self) -> bool:
        """Whether nothing is stored: no launch."""
        if isinstance(self.kernel, RowColumnKernel):
            return False
        if isinstance(self.kernel, AttentionKernel):
            return 0 in self.extents[: self.kernel.row_axes]
        rows_only = self.kernel.phases[-1].folds or self.looped
        outputs = self.kernel.row_axes if rows_only else len(self.extents)
        return any(n == 0 for n in self.extents[:outputs])


@dataclass(frozen=True)
class PixelAxis:
    """An axis of an array in memory: its stride in elements, its extent, and the index of the first element that a
    kernel reads, negative among zeros before it; `steps` are those of the kernel's axes along it."""

    stride: int
    extent: int
    first: int
    steps: tuple[tuple[int, int], ...]  # (axis of the kernel, step)


@dataclass(frozen=True)
class PaddedImage:
    """An array that a kernel reads with zeros around it, which are not in memory: its own offset, and its axes."""

    offset: int
    axes: tuple[PixelAxis, ...]


@dataclass(frozen=True)
class BoundArrays:
    """The arrays of a plan in one call, an entry per array."""

    dtypes: tuple[DType, ...]
    strides: tuple[tuple[int, ...], ...]
    ranks: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    addresses: tuple[int, ...]
    byte_strides: tuple[tuple[int, ...], ...]


def access_of(strides: tuple[int, ...], size: int, address: int) -> Access:
    """ "vector" if every row of an array begins at a multiple of 16 bytes and no stride is negative, else "element"."""
    unaligned = any(s < 0 or s * size % ALIGNMENT for s in strides if s != 1)
    return "element" if unaligned or address else "vector"


@dataclass(frozen=True)
class SpecializationGroup:
    """Calls of a program whose arrays have the same dtypes and ranks: they share a quota of specialised binaries.

    The first `limit` classes of shapes get a binary each (see specialize.py); the others share generic ones.
    """

    name: str
    options: str
    signature: tuple[tuple[str, int], ...]
    limit: int
