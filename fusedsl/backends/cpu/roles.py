"""Roles of the values of a row kernel: element loads, per-element scratch values, row values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...ir.types import BOOL, FLOAT64, DType
from ...kernel_ir.kernel import KernelIR, Load, Position
from ...kernel_ir.phase import Phase, Reduction, Value

EXTREMA = {"maximum", "minimum"}
POSITIONAL = {"argmax", "argmin"}
SIMPLE = EXTREMA | {"add", "multiply", "logical_and", "logical_or"}
# reads at computed addresses, and what the C library computes an element at a time; of float64, further functions
SCALAR = {"fetch", "fmod"}
SCALAR_DOUBLE = SCALAR | {"lgamma", "hypot", "log10", "cbrt", "power", "sin", "cos", "tan"}


@dataclass(frozen=True)
class ScratchArray:
    """A scratch array of a generated function, at <label>_at."""

    label: str
    dtype: DType
    count: str  # elements, as text

    @property
    def bytes(self) -> str:
        """The size as text, a multiple of 64 bytes."""
        return f"({self.count} + 63) // 64 * 64 * {self.dtype.itemsize}"


@dataclass(frozen=True)
class ValueRoles:
    """The values of a row kernel by role."""

    kernel: KernelIR

    def varies(self, operand: int) -> bool:
        """True if an operand varies along the columns."""
        return any(stride_kind != "0" for stride_kind in self.kernel.operands[operand].strides[self.kernel.row_axes :])

    @cached_property
    def element_loads(self) -> tuple[Load, ...]:
        return tuple(load for load in self.kernel.loads if self.varies(load.operand))

    @cached_property
    def row_loads(self) -> tuple[Load, ...]:
        return tuple(load for load in self.kernel.loads if not self.varies(load.operand))

    @cached_property
    def column_positions(self) -> tuple[Position, ...]:
        return tuple(p for p in self.kernel.positions if p.axis >= self.kernel.row_axes)

    @cached_property
    def row_positions(self) -> tuple[Position, ...]:
        return tuple(p for p in self.kernel.positions if p.axis < self.kernel.row_axes)

    @staticmethod
    def used(phase: Phase) -> set[str]:
        """The names that the element part of a phase reads."""
        names = {value.name for value in phase.reads} | {store.value for store in phase.stores}
        return names | {value.name for fold in phase.folds + phase.column_reductions for value in fold.inputs}

    @staticmethod
    def used_by_row(phase: Phase) -> set[str]:
        """The names that the row part of a phase reads."""
        names = {store.value for store in phase.row_stores}
        return names | ({value.name for value in phase.row.args} if phase.row else set())

    @cached_property
    def scratch_values(self) -> tuple[tuple[int, Value], ...]:
        """(phase that computes it, value) of per-element values that are stored to scratch.

        These are results that a later phase reads, and loads that are read after a phase with stores, since an output
        may alias an input exactly.
        """
        values, phases = [], self.kernel.phases
        for p, phase in enumerate(phases):
            if phase.ranks:
                continue
            later = set().union(*(self.used(q) for q in phases[p + 1 :]))
            loaded = {load.value.name for load in self.kernel.loads}
            values += [(p, v) for v in phase.results if v.name in later and v.name not in loaded]
        first = next((p for p, phase in enumerate(phases) if phase.stores), len(phases))
        later = set().union(*(self.used(q) for q in phases[first + 1 :]))
        while first < len(phases) and phases[first].ranks:  # its loop is over ranks, not elements
            first -= 1
        values += [(first, load.value) for load in self.element_loads if load.value.name in later]
        return tuple(dict.fromkeys(values))

    def scratch_before(self, p: int) -> dict[str, Value]:
        return {value.name: value for phase, value in self.scratch_values if phase < p}

    def scratch_of(self, p: int) -> tuple[Value, ...]:
        return tuple(value for phase, value in self.scratch_values if phase == p)

    def loads_of(self, p: int) -> tuple[Load, ...]:
        """The element loads of a phase."""
        names = self.used(self.kernel.phases[p]) | {value.name for value in self.scratch_of(p)}
        return tuple(load for load in self.element_loads if load.value.name in names - set(self.scratch_before(p)))

    def is_vectorisable(self, p: int) -> bool:
        """True if LLVM vectorises the element loop of a phase, as far as can be predicted.

        The loop has no scan, its accesses are contiguous, and it calls no scalar function of the C library.
        """
        phase, last = self.kernel.phases[p], self.kernel.axes - 1
        touched = [load.operand for load in self.loads_of(p)] + [store.operand for store in phase.stores]
        near = all(self.kernel.operands[k].strides[last] in ("0", "1") for k in touched)
        double = any(value.dtype is FLOAT64 for value in (*phase.element.args, *phase.element.results))
        scalar = SCALAR_DOUBLE if double else SCALAR
        return near and not phase.scans and not any(i.op in scalar for i in phase.element.instructions)

    def accumulates_in_memory(self, p: int) -> bool:
        """True if a phase is reduced in lanes in memory.

        These are merges of several lines, and float sums and products whose loop stays scalar: serial summation would
        accumulate rounding errors.
        """
        folds = self.kernel.phases[p].folds
        positional = () if self.kernel.phases[p].scans else tuple(filter(self.finds_position, folds))
        if not all(is_vectorisable_merge(fold) for fold in folds if fold not in positional):
            return True
        return not self.is_vectorisable(p) and any(map(reassociable_merge, folds))

    def finds_position(self, fold: Reduction) -> bool:
        """True for argmax and argmin along the only column axis: the position of the first extremum."""
        last, positional = self.kernel.axes - 1, fold.name in POSITIONAL and len(fold.inputs) == 2
        columns = {q.value.name for q in self.column_positions if q.axis == last}
        return positional and self.kernel.column_axes == 1 and fold.inputs[1].name in columns

    def positional(self, p: int) -> tuple[Reduction, ...]:
        """The folds of a phase that a microkernel computes, for a segment at a time."""
        return () if self.accumulates_in_memory(p) else tuple(filter(self.finds_position, self.kernel.phases[p].folds))

    def row_results(self, p: int) -> tuple[Value, ...]:
        """The row values that a phase defines: fold states and results of its row body."""
        phase = self.kernel.phases[p]
        states = tuple(value for fold in phase.folds for value in fold.accumulators)
        states += tuple(value for _, _, value in phase.sort.rank_reads) if phase.sort else ()
        return tuple(dict.fromkeys(states + (phase.row.results if phase.row else ())))

    def row_values_before(self, p: int) -> tuple[Value, ...]:
        """The row values that exist when a phase starts, other than scalars."""
        values = [load.value for load in self.row_loads] + [position.value for position in self.row_positions]
        for q in range(p):
            values += self.row_results(q)
        return tuple(dict.fromkeys(values))


def is_vectorisable_merge(fold: Reduction) -> bool:
    """True if LLVM vectorises a loop over this merge: a single sum, product, extremum, or, and."""
    if len(fold.accumulators) != 1 or len(fold.combine.instructions) != 1:
        return False
    (i,) = fold.combine.instructions
    return i.op in SIMPLE and set(i.args) == {v.name for v in fold.combine.args}


def reassociable_merge(fold: Reduction) -> str | None:
    """The word for a float sum or product that LLVM may reassociate; None for other merges."""
    if fold.accumulators[0].dtype.kind != "f" or not is_vectorisable_merge(fold):
        return None
    return {"add": "accumulate_add", "multiply": "accumulate_mul"}.get(fold.combine.instructions[0].op)


def is_extremum(fold: Reduction) -> bool:
    """True for a single maximum or minimum: exact in any order."""
    (i,) = fold.combine.instructions if is_vectorisable_merge(fold) else (None,)
    return i is not None and i.op in EXTREMA and i.dtype is not BOOL


def is_float_extremum(fold: Reduction) -> bool:
    return is_extremum(fold) and fold.accumulators[0].dtype.kind == "f"
