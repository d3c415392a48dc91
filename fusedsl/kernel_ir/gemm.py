"""GEMM of a kernel: the one product of two arrays in memory that it stores and does nothing else with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import prod
from typing import Any, Literal

from ..ir.types import DType, dtype
from .kernel import KernelIR
from .matmul_operands import matmul_operands


@dataclass(frozen=True)
class GemmAxis:
    """An axis of a GEMM: its extent, and the strides in elements of both factors and of the result along it."""

    extent: int
    left: int
    right: int
    out: int


@dataclass(frozen=True)
class MatrixLayout:
    """A matrix as BLAS takes it: its lines are contiguous, and begin `pitch` elements from one another.

    The lines are rows, or with `transposed` columns. `pitch` is the leading dimension.
    """

    transposed: bool
    pitch: int


Factor = Literal["left", "right", "out"]


@dataclass(frozen=True)
class Gemm:
    """General matrix multiplication: out[b, m, n] = Σ_k left[b, m, k] * right[b, k, n], all three in memory.

    `left`, `right` and `out` are operands of the kernel. The sum has the dtype `accumulator`.
    """

    factor_dtype: DType
    accumulator: DType
    out_dtype: DType
    left: int
    right: int
    out: int
    rows: GemmAxis
    columns: GemmAxis
    terms: GemmAxis
    batch: tuple[GemmAxis, ...]

    @property
    def arrays(self) -> tuple[int, int, int]:
        """The operands of both factors and the result."""
        return self.left, self.right, self.out

    @property
    def batch_count(self) -> int:
        """The number of products."""
        return prod(axis.extent for axis in self.batch)

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of one product of the batch."""
        return self.rows.extent * self.columns.extent * self.terms.extent

    def layout(self, array: Factor) -> MatrixLayout | None:
        """How BLAS takes the matrices of one array; None if they have no contiguous lines, or lines that overlap."""
        axes = {"left": (self.rows, self.terms), "right": (self.terms, self.columns), "out": (self.rows, self.columns)}
        rows, columns = ((axis.extent, getattr(axis, array)) for axis in axes[array])
        for transposed, (lines, pitch), (length, unit) in ((False, rows, columns), (True, columns, rows)):
            least = max(1, length)
            if (length <= 1 or unit == 1) and (lines <= 1 or pitch >= least):
                return MatrixLayout(transposed, pitch if lines > 1 else least)
        return None


def gemm(kernel: KernelIR, extents: Sequence[int], strides: Sequence[Sequence[int]]) -> Gemm | str:
    """The GEMM that a kernel computes at these extents and strides (by operand and axis); if it is none, the reason."""
    operands = matmul_operands(kernel)
    if operands is None or len(operands.pairs) != 1:
        return "it is not one product of two arrays in memory"
    (left, right), out = operands.pairs[0], _stored(kernel)
    if out is None:
        return "it computes with the product before it stores it"
    if kernel.operands[left].dtype is not kernel.operands[right].dtype:
        return "its factors have two dtypes"
    lines = [GemmAxis(n, *(strides[k][axis] for k in (left, right, out))) for axis, n in enumerate(extents)]
    terms = _one([line for line in lines[kernel.row_axes :] if line.extent != 1])
    if terms is None:
        return "it sums over axes that do not merge"
    rows, more_rows = _longest([lines[a] for a in operands.axes.rows])
    columns, more_columns = _longest([lines[a] for a in operands.axes.columns])
    batch = [lines[a] for a in operands.axes.batch] + more_rows + more_columns
    if any(not (line.left or line.right) for line in batch if line.extent != 1):
        return "it stores each product several times"
    accumulator = kernel.phases[0].folds[0].accumulators[0].dtype
    dtypes = (kernel.operands[left].dtype, accumulator, kernel.operands[out].dtype)
    several = tuple(line for line in batch if line.extent != 1)
    return Gemm(*dtypes, left, right, out, rows, columns, terms, several)


def _stored(kernel: KernelIR) -> int | None:
    """The operand that the bare sum of the product is stored to; None if the kernel does anything more or less."""
    (phase,) = kernel.phases
    (fold,) = phase.folds
    other = [i for i in phase.element.instructions if i.op != "copy"]
    plain = fold.name == "sum" and len(other) == 1 and other[0].op == "multiply" and len(phase.row_stores) == 1
    more = phase.row is not None or phase.panel_folds or phase.groups
    if not plain or more or kernel.scalars or kernel.positions or kernel.pointers:
        return None
    (store,), (value,) = phase.row_stores, fold.accumulators
    return store.operand if store.value == value.name and fold.inputs[0].name == other[0].target else None


def _one(axes: list[GemmAxis]) -> GemmAxis | None:
    """The only axis, one of extent 1 if there is none; None if there are several."""
    return (axes or [GemmAxis(1, 0, 0, 0)])[0] if len(axes) < 2 else None


def _longest(axes: list[GemmAxis]) -> tuple[GemmAxis, list[GemmAxis]]:
    """(the longest axis, the others)."""
    chosen = max(range(len(axes)), key=lambda k: axes[k].extent)
    return axes[chosen], [axis for k, axis in enumerate(axes) if k != chosen]


def gemm_to_json(product: Gemm) -> list[Any]:
    """The JSON of a GEMM."""
    dtypes = [product.factor_dtype.name, product.accumulator.name, product.out_dtype.name]
    axes = [list(astuple(axis)) for axis in (product.rows, product.columns, product.terms, *product.batch)]
    return [dtypes, list(product.arrays), axes]


def gemm_from_json(data: Any) -> Gemm:
    """The inverse of `gemm_to_json`; TypeError, ValueError or KeyError if the data is not a GEMM."""
    (factors, accumulator, out), (a, b, c), axes = data
    rows, columns, terms, *batch = (GemmAxis(*map(int, axis)) for axis in axes)
    return Gemm(dtype(factors), dtype(accumulator), dtype(out), a, b, c, rows, columns, terms, tuple(batch))
