"""Offsets and indices of elements in blocks of a matmul: by strides, or by tables where several axes are one."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.matmul_axes import matmul_axes
from .reduce import get, put
from .source_text import indented
from .vector_registers import VectorRegisters

ROW, COLUMN, STEP = "row", "column", "step"  # the kinds of axes: m, n and k


class MatmulOffsets:
    """Axes of a matmul, and where its elements are in memory."""

    def __init__(self, kernel: KernelIR, stride_kinds: str, vectors: VectorRegisters):
        matmul_sides = matmul_axes(kernel)
        assert matmul_sides is not None
        self.kernel, self.sides, self.vectors = kernel, matmul_sides, vectors
        self.stride_kinds = {
            ROW: stride_kinds[: len(stride_kinds) // 2],
            COLUMN: stride_kinds[len(stride_kinds) // 2 :],
        }
        self.axes = {
            ROW: matmul_sides.rows, COLUMN: matmul_sides.columns, STEP: tuple(range(kernel.row_axes, kernel.axes)),
        }  # fmt: skip
        self.folds = kernel.phases[0].folds
        self.packed_operands = list(
            dict.fromkeys((kind, body) for pair in matmul_sides.factors for kind, body in zip((ROW, COLUMN), pair))
        )

    # -- offsets

    def varying_operands(self, kind: str) -> list[int]:
        """The operands that vary along some axis of a kind."""
        return [k for k, o in enumerate(self.kernel.operands) if any(o.strides[a] != "0" for a in self.axes[kind])]

    def tables(self, kind: str) -> list[tuple[str, str]]:
        """(label, entry) of the tables of a kind with several axes: offsets of operands, indices."""
        axes = self.axes[kind]
        if len(axes) == 1:
            return []
        tables = []
        for k in self.varying_operands(kind):
            strides = self.kernel.operands[k].strides
            terms = [f"i{a}" + (f" * s{k}at{a}" if strides[a] == "s" else "") for a in axes if strides[a] != "0"]
            tables.append((f"{kind}_of{k}", " + ".join(terms)))
        return tables + [(f"{kind}_at{p.axis}", f"i{p.axis}") for p in self.kernel.positions if p.axis in axes]

    def fill_tables(self, kind: str) -> list[str]:
        """Fill the tables of a kind for the current block."""
        tables = self.tables(kind)
        if not tables:
            return []
        axes = self.axes[kind]
        split: list[str] = []
        for a in reversed(axes):
            split += [f"i{a} = left"] if a == axes[0] else [f"i{a} = left % n{a}", f"left = left // n{a}"]
        inner = [f"left = {kind}_from + {kind}", *split, *(put(label, kind, entry) for label, entry in tables)]
        return [f"for {kind} in range({kind}_count):", *indented(inner)]

    def step_of(self, kind: str, operand: int) -> str:
        """The stride of an operand along the single axis of a kind, as text."""
        (axis,) = self.axes[kind]
        stride_kind = self.kernel.operands[operand].strides[axis]
        if kind != STEP and self.stride_kinds[kind][operand] != "s":
            stride_kind = self.stride_kinds[kind][operand]
        return f"s{operand}at{axis}" if stride_kind == "s" else stride_kind

    def offset(self, kind: str, operand: int, index: str) -> str:
        """The offset of an operand at an index in the block, as text; "" for zero."""
        if operand not in self.varying_operands(kind):
            return ""
        if len(self.axes[kind]) > 1:
            return get(f"{kind}_of{operand}", index)
        stride = self.step_of(kind, operand)
        return "" if stride == "0" else index if stride == "1" else f"{index} * {stride}"

    def advance(self, operands: Sequence[int], pointer: str, base: str, kind: str, index: str) -> list[str]:
        """Pointers `pointer`k: `base`k moved to an index of a kind."""
        lines = []
        for k in operands:
            offset = self.offset(kind, k, index)
            lines.append(f"{pointer}{k} = at{k}({base}{k}, {offset})" if offset else f"{pointer}{k} = {base}{k}")
        return lines

    def start(self, operands: Sequence[int], pointer: str, base: str, kind: str) -> list[str]:
        """Pointers to the start of the block (tables hold offsets from element 0)."""
        if len(self.axes[kind]) > 1:
            return [f"{pointer}{k} = {base}{k}" for k in operands] if pointer != base else []
        return self.advance(operands, pointer, base, kind, f"{kind}_from")

    def positions(self, kinds: Sequence[str], names: set[str], index: dict[str, str]) -> list[str]:
        """The indices among `names` along axes of these kinds."""
        lines = []
        for p in self.kernel.positions:
            for kind in kinds:
                if p.value.name in names and p.axis in self.axes[kind]:
                    merged = len(self.axes[kind]) > 1
                    at = get(f"{kind}_at{p.axis}", index[kind]) if merged else f"{kind}_from + {index[kind]}"
                    lines.append(f"{p.value.name} = {p.value.dtype}({at})")
        return lines
