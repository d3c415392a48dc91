"""Values of fragments in generated files: what bodies read, and bodies as functions over elements, rows and columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from ....kernel_ir.kernel import KernelIR, Load
from ....kernel_ir.phase import Body
from ..emit.source_text import Names, indented, signature
from ..peephole.narrow_integers import PLACES, shortened

ROW, ELEMENT, COLUMN, SCALAR, OWN, OWN_COLUMN = "row", "element", "column", "scalar", "own", "own column"
OWN_STEPS, DRAWN = "own, in steps", "drawn for each element"
LINE, KEY = "line", "key"  # of results, and of the first product's operand, across a warp
FOUND = "found"  # a line of the stream that is looked up, by lanes of a warp
MAPS = {ROW: "S.rowwise", ELEMENT: "S.elementwise", COLUMN: "S.columnwise", SCALAR: "once", OWN: "O.elementwise"}
MAPS |= {OWN_COLUMN: "O.columnwise", OWN_STEPS: "O.stepwise", DRAWN: "S.drawn"}
MAPS |= {LINE: "own_row.elementwise", KEY: "score_row.elementwise", FOUND: "lookup.elementwise"}
QUICK = ("exp", "exp2", "maximum", "minimum", "quotient")  # functions of which the hardware's own will do
NOTHING: Mapping[str, str] = MappingProxyType({})
DIVISION = re.compile(r"^(\w+ = )([^#]+?) / ([^#]+?)(  #.*)?$")


class FragmentScope:
    """The file being written, and what its names stand for: one value, one of each row or column of a fragment of
    scores, or its elements; the same of a fragment of results (`own`)."""

    def __init__(self, kernel: KernelIR, lane: int, own_axis: int, packed: int | None = None):
        self.kernel, self.names = kernel, Names(kernel)
        self.along, self.lane, self.own_axis = kernel.row_axes, lane, own_axis
        self.packed = packed  # an axis whose places all stand in one tile of rows, each with the lane's
        self.outer = [a for a in range(kernel.row_axes) if a not in (lane, packed)]
        self.top: list[str] = []
        self.functions: list[str] = []
        self.code: list[str] = []
        self.domain: dict[str, str] = {}  # of names that have a value
        self.made: dict[tuple, str] = {}  # functions, by what they do
        self.there = "True"  # whether the columns of a tile are there
        self.quick = True  # divisions are the hardware's
        self.places: dict[int, str] = {}  # positions on axes that are gone along one by one

    def scalars(self) -> None:
        for pointer in self.kernel.pointers:
            self.code.append(f"{pointer.value.name} = {self.names.pointer(pointer.operand)}")
            self.domain[pointer.value.name] = SCALAR
        for k, value in enumerate(self.kernel.scalars):
            self.top.append(f'read_{value.name} = scalar("{value.dtype.name}")')
            self.code.append(f"{value.name} = read_{value.name}({self.names.word(k)})")
            self.domain[value.name] = SCALAR

    def written(self, write: Callable[[], None]) -> list[str]:
        """What a function writes, for a branch: values that it makes are not there afterwards."""
        before, known = self.code, dict(self.domain)
        self.code = []
        write()
        made, self.code, self.domain = self.code, before, known
        return made

    @property
    def row_limit(self) -> str:
        """Where the rows end of which a tile takes some."""
        return f"n{self.lane}" if self.packed is None else f"(n{self.packed} * n{self.lane})"

    # -- leaves: what bodies read

    def leaf_domain(self, name: str) -> str | None:
        """Where a load or a position varies; None for other names."""
        found = self.axes_of(name)
        if found is None:
            return None
        axes = found - set(self.places)
        own, lane, along = self.own_axis in axes, not axes.isdisjoint((self.lane, self.packed)), self.along in axes
        if own:
            return OWN if lane else OWN_COLUMN
        return ELEMENT if lane and along else ROW if lane else COLUMN if along else SCALAR

    def axes_of(self, name: str) -> set[int] | None:
        """The axes of a load or a position."""
        for p in self.kernel.positions:
            if p.value.name == name:
                return {p.axis}
        for load in self.kernel.loads:
            if load.value.name == name:
                letters = self.kernel.operands[load.operand].strides
                return {a for a, letter in enumerate(letters) if letter != "0"}
        return None

    def named(self, name: str) -> str:
        """The name under which a value stands in the kernel."""
        return name

    def domain_of(self, name: str) -> str:
        return self.domain.get(name, SCALAR)

    def leaves(self, names: Iterable[str]) -> None:
        """Lines that give these loads and positions their values, unless they have them."""
        for name in sorted(set(names)):
            domain = self.leaf_domain(name)
            if domain is None or (name in self.domain and self.places.keys().isdisjoint(self.axes_of(name) or ())):
                continue
            position = next((p for p in self.kernel.positions if p.value.name == name), None)
            if position is not None:
                text = self.places.get(position.axis) or self.axis_place(position.axis)
                self.code.append(f"{self.named(name)} = {text}")
            else:
                self.load(next(load for load in self.kernel.loads if load.value.name == name), domain)
            self.domain[name] = domain

    def axis_place(self, axis: int) -> str:
        places = {self.lane: "row", self.along: "column", self.own_axis: "own_column", self.packed: "row_above"}
        return places.get(axis, f"c{axis}")

    def load(self, load: Load, domain: str) -> None:
        if domain in (ELEMENT, COLUMN) and not self.places:
            self._load_along(load, domain)
            return
        k = load.operand
        operand = self.kernel.operands[k]
        inner = [a for a, letter in enumerate(operand.strides) if letter != "0" and a not in self.outer]
        places = [self.places.get(a) or self.axis_place(a) for a in inner]
        steps = [self.step(k, a) for a in inner]
        terms = " + ".join(f"i{a} * s{a}" for a in inner)
        size = operand.dtype.itemsize
        where = f"base + ({terms}) * {size}" if terms else "base"
        arguments = ["base", *(f"i{a}" for a in inner), *(f"s{a}" for a in inner)]
        signed = f"{', '.join(['int64'] * len(arguments))} -> {load.value.dtype.name}"
        name = f"read_{load.value.name}_{domain.replace(' ', '_')}"
        lines = [f"return fetch_{operand.dtype.name}({where}, True)"]
        self.define(name, domain, signed, ", ".join(arguments), lines)
        self.code.append(f"{self.named(load.value.name)} = {name}({', '.join([self.base(k), *places, *steps])})")

    def _load_along(self, load: Load, domain: str) -> None:
        """Elements of a tile, from addresses of its rows' first ones: what a column adds to them is a constant where
        columns are neighbours."""
        name, k, kind = load.value.name, load.operand, self.kernel.operands[load.operand].dtype
        step, at = self.byte_step(k, self.along), self.row_place(k) if domain == ELEMENT else self.base(k)
        if "column_steps = S.steps()" not in self.top:
            self.top.append("column_steps = S.steps()")
        first = f"(column_from + first_column()) * {step}"
        self.code.append(f"at_{name} = {self.ahead(at, first) if domain == ELEMENT else f'{at} + {first}'}")
        lines = [f"return fetch_{kind}(at + c * step, there)"]
        read = f"read_{name}_{domain}"
        self.define(read, domain, f"int64, int64, int64, bool -> {load.value.dtype}", "at, c, step, there", lines)
        self.code.append(f"{name} = {read}(at_{name}, column_steps(), {step}, {self.there})")

    def row_place(self, k: int) -> str:
        """An operand's addresses at both rows."""
        self.define("line", ROW, "int64, int64, int64 -> int64", "at, i, step", ["return at + i * step"])
        line = f"line({self.base(k)}, row, {self.byte_step(k, self.lane)})"
        return line if self.packed is None else f"line({line}, row_above, {self.byte_step(k, self.packed)})"

    def ahead(self, at: str, size: str) -> str:
        """Addresses of rows, so many bytes on."""
        self.define("ahead", ROW, "int64, int64 -> int64", "at, bytes", ["return at + bytes"])
        return f"ahead({at}, {size})"

    def step(self, k: int, axis: int) -> str:
        """The elements from one of an operand's to the next along an axis."""
        letter = self.kernel.operands[k].strides[axis]
        return self.names.stride(k, axis) if letter == "s" else f"int64({letter})"

    def byte_step(self, k: int, axis: int) -> str:
        """The bytes from an operand's element to the next along an axis."""
        letter, size = self.kernel.operands[k].strides[axis], self.kernel.operands[k].dtype.itemsize
        return f"int64({self.names.stride(k, axis)} * {size})" if letter == "s" else f"int64({int(letter) * size})"

    def base(self, k: int) -> str:
        """Where an operand is at the block's place on the outer axes."""
        letters, size = self.kernel.operands[k].strides, self.kernel.operands[k].dtype.itemsize
        terms = [f"c{a} * {self.names.stride(k, a)}" for a in self.outer if letters[a] == "s"]
        terms += [f"c{a}" for a in self.outer if letters[a] == "1"]
        at = self.names.pointer(k)
        return f"{at} + ({' + '.join(terms)}) * {size}" if terms else at

    # -- functions

    def function(self, key: tuple, name: str) -> str:
        return self.made.setdefault(key, name)

    def define(self, name: str, domain: str, signed: str, arguments: str, lines: Sequence[str]) -> None:
        if ("defined", name) not in self.made:
            self.made["defined", name] = name
            head = ["", "", f'@{MAPS[domain]}("{signed}")', f"def {name}({arguments}):"]
            self.functions += [*head, *indented(lines)]

    def written_as(self, body: Body) -> list[str]:
        """A body's lines, with the hardware's divisions where these will do, and short integers where they fit."""
        places = (*(p.value.name for p in self.kernel.positions), *self.kernel.lengths)
        lines = shortened(body.instructions, dict.fromkeys(places, PLACES))
        if not self.quick:
            return lines
        return [DIVISION.sub(r"\1quotient(\2, \3)\4", line) for line in lines]

    def call(self, stem: str, body: Body, domain: str, others: Mapping[str, str] = NOTHING) -> list[str]:
        """A body as a function, and its call, with `others` in place of some arguments; the names of its results."""
        given = [v.name for v in body.args]
        made = [v for v in body.results if v.name not in given]
        if made:
            name = self.function((domain, body), stem)
            signed = signature((v.dtype for v in body.args), (v.dtype for v in made))
            lines = self.written_as(body)
            self.define(name, domain, signed, ", ".join(given), [*lines, f"return {', '.join(v.name for v in made)}"])
            results, passed = (self.named(v.name) for v in made), (others.get(g) or self.named(g) for g in given)
            self.code.append(f"{', '.join(results)} = {name}({', '.join(passed)})")
            self.domain |= {v.name: domain for v in made}
        return [v.name for v in body.results]
