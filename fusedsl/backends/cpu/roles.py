"""What each name of a row kernel is: read per element, held per element across phases, or one value per row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from ...ir.types import FLOAT64, DType
from ...kernel_ir.kernel import KernelIR, Load, Position
from ...kernel_ir.phase import Phase, Reduction, Value

# c = int64(a + b), c = a + b, c = maximum(a, b)
SIMPLE = re.compile(
    r"(\w+) = (?:(?:u?int\d+)\((\w+) ([+*]) (\w+)\)|(\w+) ([+*&|]) (\w+)|(maximum|minimum)\((\w+), (\w+)\))\s*(?:#.*)?$"
)

# reads at computed addresses, and what the C library computes an element at a time; of float64, further functions
SCALAR = re.compile(r"\b(fetch_\w+|fmod|lgamma)\(")
SCALAR_DOUBLE = re.compile(r"\b(hypot|log10|cbrt|power|sin|cos|tan)\(")


@dataclass(frozen=True)
class Array:
    """Working memory of a generated function: `count` elements (text) at <label>_at."""

    label: str
    dtype: DType
    count: str

    @property
    def bytes(self) -> str:
        """Its size as text, a multiple of 64."""
        return f"({self.count} + 63) // 64 * 64 * {self.dtype.itemsize}"


@dataclass(frozen=True)
class Roles:
    """The names of a row kernel by role."""

    kernel: KernelIR

    def varies(self, operand: int) -> bool:
        """Whether an operand has an element per column."""
        return any(letter != "0" for letter in self.kernel.operands[operand].strides[self.kernel.row_axes :])

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
        found = {value.name for value in phase.reads} | {store.value for store in phase.stores}
        return found | {value.name for fold in phase.folds + phase.column_reductions for value in fold.inputs}

    @staticmethod
    def used_by_row(phase: Phase) -> set[str]:
        """The names that the row part of a phase reads."""
        found = {store.value for store in phase.row_stores}
        return found | ({value.name for value in phase.row.args} if phase.row else set())

    @cached_property
    def held(self) -> tuple[tuple[int, Value], ...]:
        """(phase that makes it, value) of what is kept per element: results that a later phase reads, and loads

        that are read after a phase has written elements, since an output may be an input exactly.
        """
        found, phases = [], self.kernel.phases
        for p, phase in enumerate(phases):
            if phase.ranks:
                continue
            later = set().union(*(self.used(q) for q in phases[p + 1 :]))
            loaded = {load.value.name for load in self.kernel.loads}
            found += [(p, v) for v in phase.results if v.name in later and v.name not in loaded]
        first = next((p for p, phase in enumerate(phases) if phase.stores), len(phases))
        later = set().union(*(self.used(q) for q in phases[first + 1 :]))
        while first < len(phases) and phases[first].ranks:  # it goes over ranks, not elements
            first -= 1
        found += [(first, load.value) for load in self.element_loads if load.value.name in later]
        return tuple(dict.fromkeys(found))

    def held_before(self, p: int) -> dict[str, Value]:
        return {value.name: value for made, value in self.held if made < p}

    def held_by(self, p: int) -> tuple[Value, ...]:
        return tuple(value for made, value in self.held if made == p)

    def loads_of(self, p: int) -> tuple[Load, ...]:
        """The element loads of a phase."""
        names = self.used(self.kernel.phases[p]) | {value.name for value in self.held_by(p)}
        return tuple(load for load in self.element_loads if load.value.name in names - set(self.held_before(p)))

    def vectorises(self, p: int) -> bool:
        """Whether LLVM turns the loop over a phase's elements into one over vectors, as far as can be told: nothing
        runs along it, and its elements are neighbours that no function of the C library takes one at a time."""
        phase, last = self.kernel.phases[p], self.kernel.axes - 1
        touched = [load.operand for load in self.loads_of(p)] + [store.operand for store in phase.stores]
        near = all(self.kernel.operands[k].strides[last] in ("0", "1") for k in touched)
        double = any(value.dtype is FLOAT64 for value in (*phase.element.args, *phase.element.results))
        scalar = [SCALAR, SCALAR_DOUBLE] if double else [SCALAR]
        lines = phase.element.instructions
        return near and not phase.scans and not any(form.search(line) for form in scalar for line in lines)

    def folds_in_lanes(self, p: int) -> bool:
        """Whether a phase's elements are folded in lanes in memory: merges of several lines, and sums and products of
        floats whose loop stays scalar, for one element after another their roundings would add up."""
        folds = self.kernel.phases[p].folds
        if not all(map(in_registers, folds)):
            return True
        return not self.vectorises(p) and any(map(accumulation, folds))

    def made_by_row(self, p: int) -> tuple[Value, ...]:
        """The row values that a phase makes: fold states and results of its row body."""
        phase = self.kernel.phases[p]
        states = tuple(value for fold in phase.folds for value in fold.accumulators)
        states += tuple(value for _, _, value in phase.select.places) if phase.select else ()
        return tuple(dict.fromkeys(states + (phase.row.results if phase.row else ())))

    def rows_before(self, p: int) -> tuple[Value, ...]:
        """The row values that exist when a phase starts, other than scalars."""
        found = [load.value for load in self.row_loads] + [position.value for position in self.row_positions]
        for q in range(p):
            found += self.made_by_row(q)
        return tuple(dict.fromkeys(found))


def in_registers(fold: Reduction) -> bool:
    """Whether LLVM turns a loop over this merge into vector lanes: one sum, product, extremum, or, and."""
    if len(fold.accumulators) != 1 or len(fold.combine.instructions) != 1:
        return False
    found = SIMPLE.match(fold.combine.instructions[0])
    names = {v.name for v in fold.combine.args}
    return (
        found is not None
        and {g for g in found.groups()[1:] if g and g.isidentifier()} - {"maximum", "minimum"} == names
    )


def accumulation(fold: Reduction) -> str | None:
    """The word for a float sum or product of free order; None for other merges."""
    found = SIMPLE.match(fold.combine.instructions[0])
    if fold.accumulators[0].dtype.kind != "f" or not found or found.group(6) not in ("+", "*"):
        return None
    return {"+": "accumulate_add", "*": "accumulate_mul"}[found.group(6)]
