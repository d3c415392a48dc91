"""Emits values of fragments: loads and indices that bodies read, bodies as functions of elements, rows or columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from ....kernel_ir.kernel import Load
from ....kernel_ir.phase import Body
from ..emit.file_builder import signature
from ..emit.source_builder import SourceBuilder, indented
from ..mma import FragmentIntrinsics
from ..mma.tile_sizes import ROWS
from ..peephole.narrow_integers import INDICES, narrowed
from .emit_facts import AttentionFacts

# functions for which the hardware's approximation is accurate enough
SCORE, OUTPUT = FragmentIntrinsics("score_fragment"), FragmentIntrinsics("output_fragment")
APPROX = ("exp", "exp2", "maximum", "minimum", "quotient")
NO_ARGUMENTS: Mapping[str, str] = MappingProxyType({})


class Domain(Enum):
    """How values lie in the threads of a block; the value of a member decorates functions that compute such values."""

    SCALAR = "uniform"
    ROW = "score_fragment.rowwise"
    COLUMN = "score_fragment.columnwise"
    ELEMENT = "score_fragment.elementwise"
    INDEX_MASK = "score_fragment.index_mask"  # a bit for each element
    OUTPUT = "output_fragment.elementwise"
    OUTPUT_COLUMN = "output_fragment.columnwise"
    OUTPUT_IN_CHUNKS = "output_fragment.in_chunks"
    OUTPUT_ROW = "output_row.elementwise"  # an output row across a warp
    QK_ROW = "qk_row.elementwise"  # a row of q or k across a warp
    PAGED_ROW = "lookup.elementwise"  # paged rows, one or two a lane

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class IndexSpace:
    """Where a part of the kernel computes: the index along each axis, the domain of what depends on a set of axes, and
    the suffix of names that are not uniform."""

    indices: Mapping[int | None, str]
    domain: Callable[[set[int]], Domain]
    suffix: str = ""


def tile_space(facts: AttentionFacts) -> IndexSpace:
    """The index space of a score fragment and an output fragment."""
    query, kv, value, group = facts.query_axis, facts.kv_axis, facts.value_axis, facts.packed_gqa_axis

    def domain(axes: set[int]) -> Domain:
        has_row = not axes.isdisjoint((query, group))
        if value in axes:
            return Domain.OUTPUT if has_row else Domain.OUTPUT_COLUMN
        if kv in axes:
            return Domain.ELEMENT if has_row else Domain.COLUMN
        return Domain.ROW if has_row else Domain.SCALAR

    return IndexSpace({query: "row", kv: "column", value: "output_column", group: "row_head"}, domain)


class FragmentEmitter:
    """Emitter of values in one index space of a generated file; each name has a domain."""

    def __init__(self, facts: AttentionFacts):
        self.facts, self.kernel, self.space = facts, facts.kernel, tile_space(facts)
        self.source = SourceBuilder(facts.kernel)
        self.domain: dict[str, Domain] = {}  # of names that are defined
        self.uniform: frozenset[str] = frozenset()  # names without the suffix of the index space
        self.function_names: dict[tuple, str] = {}  # names of emitted functions, by what they compute
        self.in_bounds = "True"  # the name of the column bounds check
        self.approx = True  # divisions use rcp.approx
        self.loop_positions: dict[int, str] = {}  # loop variables of axes that a loop runs along

    def in_space(self, space: IndexSpace, approx: bool) -> FragmentEmitter:
        """The emitter of values in another index space of the same file; scalars keep their names."""
        other = copy(self)
        other.space, other.approx, other.in_bounds, other.loop_positions = space, approx, "True", {}
        other.domain = {name: domain for name, domain in self.domain.items() if domain is Domain.SCALAR}
        other.uniform = frozenset(other.domain)
        return other

    # -- statements

    def emit(self, *lines: str) -> None:
        """Emit statements of the kernel."""
        self.source.emit(*lines)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values that are defined inside are local, as in a branch."""
        before = dict(self.domain)
        yield
        self.domain = before

    @contextmanager
    def collected(self) -> Iterator[list[str]]:
        """What is emitted inside, in a scope of its own, as a list that is filled at the end."""
        with self.source.collected() as lines, self.scope():
            yield lines

    def load_scalars(self) -> None:
        self.source.read_scalars()
        values = (*self.kernel.scalars, *(pointer.value for pointer in self.kernel.pointers))
        self.domain |= {v.name: Domain.SCALAR for v in values}

    # -- loads and indices

    def leaf_domain(self, name: str) -> Domain | None:
        """The domain of a load or an index; None for other names."""
        axes = self.kernel.axes_of(name)
        return None if axes is None else self.space.domain(axes - self.loop_positions.keys())

    def named(self, name: str) -> str:
        """The name of a value in the generated file."""
        return name if name in self.uniform else f"{name}{self.space.suffix}"

    def domain_of(self, name: str) -> Domain:
        return self.domain.get(name, Domain.SCALAR)

    def index(self, axis: int) -> str:
        return self.loop_positions.get(axis) or self.space.indices.get(axis, f"c{axis}")

    def load_leaves(self, names: Iterable[str]) -> None:
        """Emit the loads and indices of these names that are not defined yet."""
        positions = {p.value.name: p.axis for p in self.kernel.positions}
        loads = {load.value.name: load for load in reversed(self.kernel.loads)}
        for name in sorted(set(names)):
            axes, domain = self.kernel.axes_of(name), self.leaf_domain(name)
            if axes is None or domain is None or (name in self.domain and axes.isdisjoint(self.loop_positions)):
                continue
            if name in positions:
                self.emit(f"{self.named(name)} = {self.index(positions[name])}")
            elif domain in (Domain.ELEMENT, Domain.COLUMN) and not self.loop_positions:
                self._load_columns(loads[name], domain)
            else:
                self._load(loads[name], domain)
            self.domain[name] = domain

    def _load(self, load: Load, domain: Domain) -> None:
        """Load an element at the indices of this space."""
        k, facts = load.operand, self.facts
        operand = self.kernel.operands[k]
        inner = [a for a, stride in enumerate(operand.strides) if stride != "0" and a not in facts.outer]
        offset = " + ".join(f"i{a} * s{a}" for a in inner)
        address = f"base + ({offset}) * {operand.dtype.itemsize}" if inner else "base"
        parameters = ["base", *(f"i{a}" for a in inner), *(f"s{a}" for a in inner)]
        types = f"{', '.join(['int64'] * len(parameters))} -> {load.value.dtype.name}"
        name = f"read_{load.value.name}_{domain.label}"
        lines = [f"return fetch_{operand.dtype.name}({address}, True)"]
        self.define(name, domain, types, ", ".join(parameters), lines)
        arguments = [facts.base_address(k), *map(self.index, inner), *(facts.step(k, a) for a in inner)]
        self.emit(f"{self.named(load.value.name)} = {name}({', '.join(arguments)})")

    def _load_columns(self, load: Load, domain: Domain) -> None:
        """Load the elements of a tile at row addresses plus column offsets, which are constants for stride 1."""
        name, k, dtype = load.value.name, load.operand, self.kernel.operands[load.operand].dtype
        self.source.bind("column_offsets", SCORE.column_offsets())
        step = self.facts.byte_step(k, self.facts.kv_axis)
        first = f"(column_from + first_column()) * {step}"
        if domain is Domain.ELEMENT:
            address = self.offset_rows(self.row_address(k), first)
        else:
            address = f"{self.facts.base_address(k)} + {first}"
        self.emit(f"at_{name} = {address}")
        read = f"read_{name}_{domain.label}"
        types = f"int64, int64, int64, bool -> {load.value.dtype}"
        lines = [f"return fetch_{dtype}(at + c * step, valid)"]
        self.define(read, domain, types, "at, c, step, valid", lines)
        self.emit(f"{name} = {read}(at_{name}, column_offsets(), {step}, {self.in_bounds})")

    def forget_columns(self) -> None:
        """Forget the key indices of the tile before."""
        for p in self.kernel.positions:
            if p.axis == self.facts.kv_axis:
                self.domain.pop(p.value.name, None)

    # -- rows

    def emit_row_indices(self) -> None:
        """Emit the row indices of a thread, and the clamped ones for loads."""
        facts, group = self.facts, self.facts.packed_gqa_axis
        self.define("clamp_rows", Domain.ROW, "int64, int64 -> int64", "i, n", [f"return {facts.clamped_row}"])
        self.source.assign("rows", f"rows_from(row_from + warpgroup * {ROWS})")
        self.source.assign("row", f"clamp_rows(rows, {facts.row_limit})")
        if group is not None:
            lines = ["head = udiv(i, n)", "return head, i - head * n"]
            self.define("split_rows", Domain.ROW, "int64, int64 -> int64, int64", "i, n", lines)
            self.source.assign("row_head, row", f"split_rows(row, n{facts.query_axis})")

    def row_address(self, k: int) -> str:
        """The addresses of an operand at both rows of a thread."""
        facts, group = self.facts, self.facts.packed_gqa_axis
        self.define("address_rows", Domain.ROW, "int64, int64, int64 -> int64", "at, i, step", ["return at + i * step"])
        address = f"address_rows({facts.base_address(k)}, row, {facts.byte_step(k, facts.query_axis)})"
        return address if group is None else f"address_rows({address}, row_head, {facts.byte_step(k, group)})"

    def offset_rows(self, address: str, offset: str) -> str:
        """Row addresses plus an offset in bytes."""
        self.define("offset_rows", Domain.ROW, "int64, int64 -> int64", "at, bytes", ["return at + bytes"])
        return f"offset_rows({address}, {offset})"

    # -- functions

    def function_name(self, key: tuple, name: str) -> str:
        return self.function_names.setdefault(key, name)

    def define(self, name: str, domain: Domain, types: str, parameters: str, lines: Sequence[str]) -> None:
        """Add a function of values in a domain to the file, unless it is there."""
        self.define_lines(name, f'@{domain.value}("{types}")', f"def {name}({parameters}):", *indented(lines))

    def define_lines(self, name: str, *lines: str) -> None:
        """Add the lines of a function to the file, unless it is there."""
        if ("defined", name) not in self.function_names:
            self.function_names["defined", name] = name
            self.source.functions += ["", "", *lines]

    def body_lines(self, body: Body) -> list[str]:
        """The lines of a body, with approximate divisions if allowed, and 32-bit integers where they fit."""
        indices = (*(p.value.name for p in self.kernel.positions), *self.kernel.lengths)
        short = narrowed(body.instructions, dict.fromkeys(indices, INDICES))
        return [str(replace(i, op="quotient") if self.approx and i.op == "divide" else i) for i in short]

    def call(self, stem: str, body: Body, domain: Domain, others: Mapping[str, str] = NO_ARGUMENTS) -> list[str]:
        """A body as a function, and its call, with `others` in place of some arguments; the names of its results."""
        arguments = [v.name for v in body.args]
        results = [v for v in body.results if v.name not in arguments]
        if results:
            name = self.function_name((domain, body), stem)
            types = signature((v.dtype for v in body.args), (v.dtype for v in results))
            lines = [*self.body_lines(body), f"return {', '.join(v.name for v in results)}"]
            self.define(name, domain, types, ", ".join(arguments), lines)
            passed = ", ".join(others.get(a) or self.named(a) for a in arguments)
            self.emit(f"{', '.join(self.named(v.name) for v in results)} = {name}({passed})")
            self.domain |= {v.name: domain for v in results}
        return [v.name for v in body.results]

    def apply(self, stem: str, body: Body, domain: Domain) -> list[str]:
        """The call of a body, after the loads and indices that it reads."""
        self.load_leaves(v.name for v in body.args)
        return self.call(stem, body, domain)
