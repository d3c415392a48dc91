"""Matmul operands of a kernel: the arrays in memory that it multiplies without arithmetic on their elements."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.types import DType
from .kernel import KernelIR
from .matmul_axes import MatmulAxes, matmul_axes
from .phase import Body


@dataclass(frozen=True)
class MatmulOperands:
    """The matmul axes of a kernel, and for each product (operand with the rows, operand with the columns).

    Operands are indices into `KernelIR.operands`; `near` of each is its contiguous axis, and `near_access` is "vector"
    if every line along that axis begins at a multiple of 16 bytes.
    """

    axes: MatmulAxes
    pairs: tuple[tuple[int, int], ...]

    @property
    def left(self) -> tuple[int, ...]:
        """The operands with the rows, each once."""
        return tuple(dict.fromkeys(left for left, _ in self.pairs))

    @property
    def right(self) -> tuple[int, ...]:
        """The operands with the columns, each once."""
        return tuple(dict.fromkeys(right for _, right in self.pairs))


def transposed(operands: MatmulOperands) -> MatmulOperands:
    """The operands of the transposed products: rows for columns."""
    axes = operands.axes
    factors = tuple((right, left) for left, right in axes.factors)
    other = MatmulAxes(axes.batch, axes.columns, axes.rows, factors)
    return MatmulOperands(other, tuple((right, left) for left, right in operands.pairs))


def matmul_operands(kernel: KernelIR) -> MatmulOperands | None:
    """The matmul operands; None if the kernel is no matrix product, or computes a factor."""
    axes = matmul_axes(kernel)
    if axes is None:
        return None
    pairs = []
    for left, right in axes.factors:
        rows, columns = loaded_operand_of_factor(kernel, left), loaded_operand_of_factor(kernel, right)
        if rows is None or columns is None:
            return None
        pairs.append((rows, columns))
    return MatmulOperands(axes, tuple(pairs))


def is_ragged(kernel: KernelIR, operands: MatmulOperands) -> bool:
    """Whether a line of a multiplied array does not begin at a multiple of 16 bytes: its loads are single elements."""
    return any(kernel.operands[k].near_access != "vector" for k in (*operands.left, *operands.right))


def loaded_operand_of_factor(kernel: KernelIR, body: Body) -> int | None:
    """The operand that a factor loads and at most widens, which is exact; None if it computes.

    Loads are already widened to the compute dtype of their elements, so only integers convert here.
    """
    if len(body.results) != 1:
        return None
    copied = {i.target: i.args[0] for i in body.instructions if i.op in ("copy", "convert")}
    name = body.results[0].name
    if len(copied) != len(body.instructions):
        return None
    while name in copied:
        source = copied[name]
        if not isinstance(source, str):
            return None
        name = source
    load = next((load for load in kernel.loads if load.value.name == name), None)
    if load is None or (body.instructions and kernel.operands[load.operand].dtype.bits >= 32):
        return None
    converted = [i.dtype for i in body.instructions if i.op == "convert"]
    return load.operand if all(_widens(load.value.dtype, dtype) for dtype in converted) else None


def _widens(source: DType, dtype: DType) -> bool:
    """Whether a conversion of integers of 16 bits or less keeps every value."""
    return source.kind in "iu" and dtype.kind == "i" and dtype.bits >= 32 and source.bits <= 16
