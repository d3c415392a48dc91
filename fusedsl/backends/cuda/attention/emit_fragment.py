"""Emits values of fragments: loads and indices that bodies read, bodies as functions of elements, rows or columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from ....kernel_ir.kernel import AttentionKernel, Load
from ....kernel_ir.phase import Body
from ..emit.source_text import Names, indented, signature
from ..peephole.narrow_integers import PLACES, narrowed_lines

ROW, ELEMENT, COLUMN, SCALAR, OUTPUT, OUTPUT_COLUMN = "row", "element", "column", "scalar", "own", "own column"
OUTPUT_IN_CHUNKS, INDEX_MASK = "own, in steps", "drawn for each element"
OUTPUT_ROW, QK_ROW = "line", "key"  # rows of outputs and of q or k, across a warp
PAGED_ROW = "found"  # paged rows, looked up by the lanes of a warp
MAPS = {
    ROW: "score_fragment.rowwise",
    ELEMENT: "score_fragment.elementwise",
    COLUMN: "score_fragment.columnwise",
    SCALAR: "uniform",
    OUTPUT: "output_fragment.elementwise",
}
MAPS |= {
    OUTPUT_COLUMN: "output_fragment.columnwise",
    OUTPUT_IN_CHUNKS: "output_fragment.in_chunks",
    INDEX_MASK: "score_fragment.index_mask",
}
MAPS |= {OUTPUT_ROW: "own_row.elementwise", QK_ROW: "score_row.elementwise", PAGED_ROW: "lookup.elementwise"}
APPROX = (
    "exp",
    "exp2",
    "maximum",
    "minimum",
    "quotient",
)  # functions for which the hardware's approximation is accurate enough
NO_ARGUMENTS: Mapping[str, str] = MappingProxyType({})
DIVISION = re.compile(r"^(\w+ = )([^#]+?) / ([^#]+?)(  #.*)?$")


class FragmentEmitter:
    """Emitter of a generated file whose names have a domain: scalar, row, column or element of the score fragment, or
    of the output fragment (`own`)."""

    def __init__(self, kernel: AttentionKernel, lane: int, own_axis: int, packed: int | None = None):
        self.kernel, self.names = kernel, Names(kernel)
        self.kv_axis, self.query_axis, self.value_axis = kernel.row_axes, lane, own_axis
        self.packed_gqa_axis = packed  # packed GQA: a query tile has all positions of this axis
        self.outer = [a for a in range(kernel.row_axes) if a not in (lane, packed)]
        self.top: list[str] = []
        self.functions: list[str] = []
        self.code: list[str] = []
        self.domain: dict[str, str] = {}  # of names that are defined
        self.function_names: dict[tuple, str] = {}  # names of emitted functions, by what they compute
        self.in_bounds = "True"  # the name of the column bounds check
        self.approx = True  # divisions use rcp.approx
        self.loop_positions: dict[int, str] = {}  # loop variables of axes that a loop runs along

    def load_scalars(self) -> None:
        for pointer in self.kernel.pointers:
            self.code.append(f"{pointer.value.name} = {self.names.pointer(pointer.operand)}")
            self.domain[pointer.value.name] = SCALAR
        for k, value in enumerate(self.kernel.scalars):
            self.top.append(f'read_{value.name} = scalar("{value.dtype.name}")')
            self.code.append(f"{value.name} = read_{value.name}({self.names.word(k)})")
            self.domain[value.name] = SCALAR

    def lines_of(self, write: Callable[[], None]) -> list[str]:
        """The lines that a function emits, for a branch: the values that they define are local to it."""
        before, known = self.code, dict(self.domain)
        self.code = []
        write()
        made, self.code, self.domain = self.code, before, known
        return made

    @property
    def row_limit(self) -> str:
        """The number of rows along the query axis."""
        return (
            f"n{self.query_axis}" if self.packed_gqa_axis is None else f"(n{self.packed_gqa_axis} * n{self.query_axis})"
        )

    # -- leaves: loads and indices

    def leaf_domain(self, name: str) -> str | None:
        """The domain of a load or an index; None for other names."""
        found = self.axes_of(name)
        if found is None:
            return None
        axes = found - set(self.loop_positions)
        own, lane, along = (
            self.value_axis in axes,
            not axes.isdisjoint((self.query_axis, self.packed_gqa_axis)),
            self.kv_axis in axes,
        )
        if own:
            return OUTPUT if lane else OUTPUT_COLUMN
        return ELEMENT if lane and along else ROW if lane else COLUMN if along else SCALAR

    def axes_of(self, name: str) -> set[int] | None:
        """The axes of a load or an index."""
        for p in self.kernel.positions:
            if p.value.name == name:
                return {p.axis}
        for load in self.kernel.loads:
            if load.value.name == name:
                letters = self.kernel.operands[load.operand].strides
                return {a for a, letter in enumerate(letters) if letter != "0"}
        return None

    def named(self, name: str) -> str:
        """The name of a value in the generated file."""
        return name

    def domain_of(self, name: str) -> str:
        return self.domain.get(name, SCALAR)

    def load_leaves(self, names: Iterable[str]) -> None:
        """Emit the loads and indices of these names that are not defined yet."""
        for name in sorted(set(names)):
            domain = self.leaf_domain(name)
            if domain is None or (
                name in self.domain and self.loop_positions.keys().isdisjoint(self.axes_of(name) or ())
            ):
                continue
            position = next((p for p in self.kernel.positions if p.value.name == name), None)
            if position is not None:
                text = self.loop_positions.get(position.axis) or self.axis_position(position.axis)
                self.code.append(f"{self.named(name)} = {text}")
            else:
                self.load(next(load for load in self.kernel.loads if load.value.name == name), domain)
            self.domain[name] = domain

    def axis_position(self, axis: int) -> str:
        places = {
            self.query_axis: "row",
            self.kv_axis: "column",
            self.value_axis: "own_column",
            self.packed_gqa_axis: "row_above",
        }
        return places.get(axis, f"c{axis}")

    def load(self, load: Load, domain: str) -> None:
        if domain in (ELEMENT, COLUMN) and not self.loop_positions:
            self._load_along(load, domain)
            return
        k = load.operand
        operand = self.kernel.operands[k]
        inner = [a for a, letter in enumerate(operand.strides) if letter != "0" and a not in self.outer]
        places = [self.loop_positions.get(a) or self.axis_position(a) for a in inner]
        steps = [self.step(k, a) for a in inner]
        terms = " + ".join(f"i{a} * s{a}" for a in inner)
        size = operand.dtype.itemsize
        where = f"base + ({terms}) * {size}" if terms else "base"
        arguments = ["base", *(f"i{a}" for a in inner), *(f"s{a}" for a in inner)]
        signed = f"{', '.join(['int64'] * len(arguments))} -> {load.value.dtype.name}"
        name = f"read_{load.value.name}_{domain.replace(' ', '_')}"
        lines = [f"return fetch_{operand.dtype.name}({where}, True)"]
        self.define(name, domain, signed, ", ".join(arguments), lines)
        self.code.append(
            f"{self.named(load.value.name)} = {name}({', '.join([self.base_address(k), *places, *steps])})"
        )

    def _load_along(self, load: Load, domain: str) -> None:
        """Load the elements of a tile at row addresses plus column offsets, which are constants for stride 1."""
        name, k, kind = load.value.name, load.operand, self.kernel.operands[load.operand].dtype
        step, at = self.byte_step(k, self.kv_axis), self.row_address(k) if domain == ELEMENT else self.base_address(k)
        if "column_steps = score_fragment.column_offsets()" not in self.top:
            self.top.append("column_steps = score_fragment.column_offsets()")
        first = f"(column_from + first_column()) * {step}"
        self.code.append(f"at_{name} = {self.offset_rows(at, first) if domain == ELEMENT else f'{at} + {first}'}")
        lines = [f"return fetch_{kind}(at + c * step, there)"]
        read = f"read_{name}_{domain}"
        self.define(read, domain, f"int64, int64, int64, bool -> {load.value.dtype}", "at, c, step, there", lines)
        self.code.append(f"{name} = {read}(at_{name}, column_steps(), {step}, {self.in_bounds})")

    def row_address(self, k: int) -> str:
        """The addresses of an operand at both rows of a thread."""
        self.define("line", ROW, "int64, int64, int64 -> int64", "at, i, step", ["return at + i * step"])
        line = f"line({self.base_address(k)}, row, {self.byte_step(k, self.query_axis)})"
        return (
            line
            if self.packed_gqa_axis is None
            else f"line({line}, row_above, {self.byte_step(k, self.packed_gqa_axis)})"
        )

    def offset_rows(self, at: str, size: str) -> str:
        """Row addresses plus an offset in bytes."""
        self.define("ahead", ROW, "int64, int64 -> int64", "at, bytes", ["return at + bytes"])
        return f"ahead({at}, {size})"

    def step(self, k: int, axis: int) -> str:
        """The stride of an operand along an axis, in elements."""
        letter = self.kernel.operands[k].strides[axis]
        return self.names.stride(k, axis) if letter == "s" else f"int64({letter})"

    def byte_step(self, k: int, axis: int) -> str:
        """The stride of an operand along an axis, in bytes."""
        letter, size = self.kernel.operands[k].strides[axis], self.kernel.operands[k].dtype.itemsize
        return f"int64({self.names.stride(k, axis)} * {size})" if letter == "s" else f"int64({int(letter) * size})"

    def base_address(self, k: int) -> str:
        """The address of an operand at the work tile's coordinates on the outer axes."""
        letters, size = self.kernel.operands[k].strides, self.kernel.operands[k].dtype.itemsize
        terms = [f"c{a} * {self.names.stride(k, a)}" for a in self.outer if letters[a] == "s"]
        terms += [f"c{a}" for a in self.outer if letters[a] == "1"]
        at = self.names.pointer(k)
        return f"{at} + ({' + '.join(terms)}) * {size}" if terms else at

    # -- functions

    def function_name(self, key: tuple, name: str) -> str:
        return self.function_names.setdefault(key, name)

    def define(self, name: str, domain: str, signed: str, arguments: str, lines: Sequence[str]) -> None:
        if ("defined", name) not in self.function_names:
            self.function_names["defined", name] = name
            head = ["", "", f'@{MAPS[domain]}("{signed}")', f"def {name}({arguments}):"]
            self.functions += [*head, *indented(lines)]

    def body_lines(self, body: Body) -> list[str]:
        """The lines of a body, with approximate divisions if allowed, and 32-bit integers where they fit."""
        places = (*(p.value.name for p in self.kernel.positions), *self.kernel.lengths)
        lines = narrowed_lines(body.instructions, dict.fromkeys(places, PLACES))
        if not self.approx:
            return lines
        return [DIVISION.sub(r"\1quotient(\2, \3)\4", line) for line in lines]

    def call(self, stem: str, body: Body, domain: str, others: Mapping[str, str] = NO_ARGUMENTS) -> list[str]:
        """A body as a function, and its call, with `others` in place of some arguments; the names of its results."""
        given = [v.name for v in body.args]
        made = [v for v in body.results if v.name not in given]
        if made:
            name = self.function_name((domain, body), stem)
            signed = signature((v.dtype for v in body.args), (v.dtype for v in made))
            lines = self.body_lines(body)
            self.define(name, domain, signed, ", ".join(given), [*lines, f"return {', '.join(v.name for v in made)}"])
            results, passed = (self.named(v.name) for v in made), (others.get(g) or self.named(g) for g in given)
            self.code.append(f"{', '.join(results)} = {name}({', '.join(passed)})")
            self.domain |= {v.name: domain for v in made}
        return [v.name for v in body.results]
