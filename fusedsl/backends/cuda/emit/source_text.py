"""Source builder of a generated CUDA file: parameters, functions, statements, and the names that are defined."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from ....ir.types import DType
from ....kernel_ir.byte_tables import ENTRIES, ByteTable, byte_tables, looked_up
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body, Reduction, Value
from ..peephole.gathers import split_at_gathers
from ..tile import (
    TileIntrinsics,
    barrier,
    block_dim_x,
    block_idx,
    byte_element,
    byte_table,
    griddepcontrol,
    look_up,
    scalar,
    set_entry,
    thread_idx,
    uniform,
)
from .intrinsic import Binding, Function, Maker, Named
from .signature import BLOCK_NUMBER, Names, indented

T = TypeVar("T")
TILE = TileIntrinsics("tile")  # that bodies are mapped over
NOWHERE: Mapping[str, str] = MappingProxyType({})


def either(test: str, lines: list[str], others: list[str]) -> list[str]:
    """Lines under `if test`, and others under `else`; either may be empty."""
    if not lines:
        return [f"if not ({test}):", *indented(others)] if others else []
    return [f"if {test}:", *indented(lines), *(["else:", *indented(others)] if others else [])]


def names_in(lines: Iterable[str]) -> set[str]:
    """The names that statements read or define, of functions too."""
    return {node.id for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.Name)}


def header(kernel: KernelIR, skeleton: str, reason: str) -> list[str]:
    """The comment that opens a file: the program that it computes, and how."""
    lines = [*kernel.header, "", f"{kernel.name}: {skeleton}", *([reason] if reason else [])]
    return [f"# {line}".rstrip() for line in lines]


def reduction_source(use: Reduction, name: str) -> list[str]:
    """The combine and identity functions of a reduction, and the ReduceOp made of them."""
    lines = ["", "", f"def identity_{name}():", *indented([f"return {', '.join(use.identity)}"])]
    given = []
    for stem, body in (("combine", use.combine), ("combine_in_order", use.combine_in_order)):
        if body is not None:
            results = ", ".join(v.name for v in body.results)
            lines += ["", "", f"def {stem}_{name}({', '.join(v.name for v in body.args)}):"]
            lines += indented([*body.lines, f"return {results}"])
            given.append(f"{stem}_{name}")
    given.insert(1, f"identity_{name}")
    kinds = ", ".join(value.dtype.name for value in use.accumulators)
    return [*lines, "", "", f'reduction_{name} = reduction("{kinds}", {", ".join(given)})']


def signature(arguments: Iterable[DType], results: Iterable[DType]) -> str:
    """ "float32, bool -> float32" """
    return f"{', '.join(d.name for d in arguments)} -> {', '.join(d.name for d in results)}".strip()


def total(index: str, terms: Sequence[str]) -> str:
    """A sum in the index type: 0 terms, or each addition cast back."""
    sum_ = terms[0] if terms else f"{index}(0)"
    for term in terms[1:]:
        sum_ = f"{index}({sum_} + {term})"
    return sum_


def accumulator_name(use: Reduction) -> str:
    """The variable that a reduction accumulates in, in a loop."""
    return f"{use.accumulators[0].name}_accumulator"


class Statements:
    """What is emitted inside of `with`, instead of in the code; more if it is entered again."""

    def __init__(self, code: list[str]):
        self.code, self.lines = code, list[str]()

    def __enter__(self) -> list[str]:
        self.start = len(self.code)
        return self.lines

    def __exit__(self, *_: object) -> None:
        self.lines += self.code[self.start :]
        del self.code[self.start :]


@dataclass
class SourceBuilder:
    """The file being emitted: top-level lines, kernel statements, and the values that have a name.

    `with src.while_(…):` nests what is emitted inside; `load = src.bind("load_x", tile.load("float32"))` defines an
    intrinsic and returns it; `src.assign("x", load(base, start, limit))` emits a statement.
    """

    kernel: KernelIR
    names: Names = field(init=False)
    top: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    stored: dict[str, DType] = field(default_factory=dict)  # loaded tiles, as they are stored
    fetched: dict[str, Value] = field(default_factory=dict)  # row values that their bodies have read from an address
    tables: dict[str, ByteTable] = field(default_factory=dict)  # that are filled, by the value that they have
    wide: dict[str, str] = field(default_factory=dict)  # the variable that holds such a tile's elements
    ready: set[str] = field(default_factory=set)  # names that have a value
    defined: set[tuple[str, ...]] = field(default_factory=set)  # functions, by their lines

    def __post_init__(self) -> None:
        self.names = Names(self.kernel)

    def emit(self, *lines: str) -> None:
        """Statements of the kernel."""
        self.code += lines

    def assign(self, targets: str, value: object) -> None:
        self.code.append(f"{targets} = {value}")

    def collected(self) -> Statements:
        """What is emitted inside, as a list that is filled at the end and not part of the code."""
        return Statements(self.code)

    @contextmanager
    def _nested(self, head: str) -> Iterator[None]:
        with self.collected() as lines:
            yield
        self.code += [head, *indented(lines)] if lines else []

    def while_(self, test: str) -> AbstractContextManager[None]:
        """A loop; without a test, what is inside once."""
        return self._nested(f"while {test}:") if test else nullcontext()

    def for_(self, variable: str, count: int) -> AbstractContextManager[None]:
        """A loop of so many turns."""
        return self._nested(f"for {variable} in range({count}):")

    def if_(self, test: str) -> AbstractContextManager[None]:
        """A branch, unless it is empty; without a test, what is inside in any case."""
        return self._nested(f"if {test}:") if test else nullcontext()

    @contextmanager
    def if_else(self, test: str) -> Iterator[tuple[Statements, Statements]]:
        """Both branches, `with src.if_else(test) as (then, otherwise)`: each may be empty, or entered several times."""
        then, otherwise = self.collected(), self.collected()
        yield then, otherwise
        self.code += either(test, then.lines, otherwise.lines)

    @contextmanager
    def local_values(self) -> Iterator[None]:
        """What gets a value inside has none after it."""
        before = self.ready, self.stored, self.wide
        self.ready, self.stored, self.wide = set(self.ready), dict(self.stored), dict(self.wide)
        yield
        self.ready, self.stored, self.wide = before

    def bind(self, name: str, binding: Binding[T], section: list[str] | None = None) -> T:
        """Define an intrinsic or an object under a name, among the top lines or in another section, once."""
        section, line = self.top if section is None else section, f"{name} = {binding}"
        if line not in section:
            section.append(line)
        return binding.defines(name)

    def bind_several(self, bindings: Mapping[str, Binding[T]], section: list[str] | None = None) -> list[T]:
        """Some definitions in one line."""
        self.bind(", ".join(bindings), Binding(", ".join(map(str, bindings.values())), Named), section)
        return [binding.defines(name) for name, binding in bindings.items()]

    @property
    def block(self) -> str:
        """The number of this block among those of the kernel."""
        return BLOCK_NUMBER if self.kernel.is_subkernel else block_idx()

    def define(self, lines: Sequence[str]) -> None:
        """Add a function to the file, unless it is there."""
        if tuple(lines) not in self.defined:
            self.defined.add(tuple(lines))
            self.functions += lines

    def function(self, decorator: object, name: str, arguments: Iterable[str], lines: Iterable[str]) -> Function:
        """A function of the file, unless it is there; of scalars, or with a decorator of tiles or rows."""
        head = ["", "", *([f"@{decorator}"] if decorator else []), f"def {name}({', '.join(arguments)}):"]
        self.define([*head, *indented(lines)])
        return Function(name, "*arguments")

    def apply(self, decorator: Maker[Function], name: str, body: Body, at: Mapping[str, str] = NOWHERE) -> None:
        """A body as a decorated function, and its call; results that are arguments need neither.

        `at` are the variables of its arguments and results, where they have other names than in the body.
        """
        given = {value.name for value in body.args}
        results = [value for value in body.results if value.name not in given]
        if results:
            kinds = signature((self.argument(v.name, v.dtype) for v in body.args), (v.dtype for v in results))
            lines = [*body.lines, f"return {', '.join(v.name for v in results)}"]
            call = self.function(decorator(kinds), name, (v.name for v in body.args), lines)
            variables = [at.get(v.name, v.name) for v in results]
            self.assign(", ".join(variables), call(*(at.get(v.name, v.name) for v in body.args)))
            self.ready |= set(variables)

    def reduce_op(self, use: Reduction, name: str) -> Named:
        """The combine and identity functions of a reduction, and the ReduceOp made of them."""
        self.define(reduction_source(use, name))
        return Named(f"reduction_{name}")

    def argument(self, name: str, declared: DType) -> DType:
        """The type that a body's argument arrives in."""
        return self.stored.get(name, declared)

    def element(self, name: str) -> str:
        """A variable with the elements of `name` as a body computes with them."""
        if name not in self.wide and self._is_narrow(name):
            self.wide[name] = f"{name}_wide"
            self.assign(f"{name}_wide", self.widen(name, TILE))
        return self.wide.get(name, name)

    def _is_narrow(self, name: str) -> bool:
        """Whether it was loaded, and bodies compute with another type than its elements are stored as."""
        stored = self.stored.get(name)
        return stored is not None and (stored is not stored.compute or stored.kind == "b")

    def widen(self, name: str, tile: TileIntrinsics, variable: str = "") -> str:
        """`name` as a body computes with it, where it, or its `variable`, belongs to such a tile."""
        if not self._is_narrow(name):
            return variable or name
        stored = self.stored[name]
        widening = f"widen_{variable or name}" if tile == TILE or variable else f"widen_{tile}_{name}"
        kinds = signature([stored], [stored.compute])
        return self.function(tile.elementwise(kinds), widening, [name], [f"return {name}"])(variable or name)

    def lifted(self, use: Reduction) -> list[str]:
        """What the elements of a fold are lifted to, as a call's arguments."""
        return [self.element(value.name) for value in use.inputs]

    def unpack(self, use: Reduction, expression: str, *others: str) -> None:
        """The parts of a fold's state, by name, and what else the expression gives."""
        self.assign(", ".join([*(value.name for value in use.accumulators), *others]), expression)
        self.ready |= {value.name for value in use.accumulators}

    def access(self, k: int, width: int, axis: int = -1) -> tuple[str, list[str]]:
        """How vectors of an operand are accessed along an axis: the stride's kind, and the further argument of a call.

        Contiguous elements that are accessed one by one have the stride 1, as an argument.
        """
        operand, axis = self.kernel.operands[k], axis % self.kernel.axes
        stride_kind = operand.strides[axis]
        if stride_kind == "1" and operand.access == "element" and width > 1:
            return "s", ["1"]
        return stride_kind, [self.names.stride(k, axis)] if stride_kind == "s" else []

    def read_scalars(self) -> None:
        """Run-time scalars out of their parameters, and the addresses that bodies compute with."""
        for pointer in self.kernel.pointers:
            self.assign(pointer.value.name, self.names.pointer(pointer.operand))
            self.ready.add(pointer.value.name)
        known = dict(self.kernel.constant_scalars)
        for k, value in enumerate(self.kernel.scalars):
            self.ready.add(value.name)
            if value.name in known:
                self.assign(value.name, f"{value.dtype.name}({known[value.name]})")
            else:
                read = self.bind(f"read_{value.name}", scalar(value.dtype.name))
                self.assign(value.name, read(self.names.word(k)))

    def map_body(self, name: str, body: Body, width: int = 1) -> None:
        """An element body as a function over tiles, and its call; results that are arguments need neither.

        In tiles of vectors (`width`) what the body fetches is read tile by tile, so that neighbours come together.
        """
        if tables := [
            t for value, t in self.tables.items() if value in body.targets and t.argument.name in self.stored
        ]:
            body = looked_up(body, tables)
            for table in tables:
                self._look_up(table)
        stages, rest = split_at_gathers(body, self.fetched) if width > 1 else ([], body)
        for number, stage in enumerate(stages):
            self.apply(TILE.elementwise, f"{name}_where_{number}" if number else f"{name}_where", stage.where)
            for fetch in stage.fetches:
                self.stored[fetch.name] = fetch.stored
                read = self.bind(f"{fetch.how}_{fetch.name}", getattr(TILE, fetch.how)(fetch.kind))
                self.assign(fetch.name, read(*(value.name for value in fetch.given)))
                self.ready.add(fetch.name)
        self.apply(TILE.elementwise, name, rest)

    def fill_tables(self, threads: int) -> None:
        """Fill the byte tables of the kernel, all `threads` of a block together, once scalars have been read; 0: as
        many as are launched."""
        self.tables = byte_tables(self.kernel)
        if not self.tables:
            return
        for name, table in self.tables.items():
            new = self.bind(f"new_{name}_table", byte_table(table.result.dtype.name))
            self.assign(f"{name}_table", new())
        self.assign("byte", thread_idx())
        with self.while_(f"byte < {ENTRIES}"):
            for table in self.tables.values():
                self._set_entry(table)
            self.assign("byte", f"int32(byte + {threads or block_dim_x()})")
        self.emit(barrier())

    def _set_entry(self, table: ByteTable) -> None:
        name, stored = table.result.name, table.stored.name
        kinds = signature((v.dtype for v in table.entry.args), [table.result.dtype])
        lines = [*table.entry.lines, f"return {name}"]
        entry = self.function(uniform(kinds), f"{name}_entry", (v.name for v in table.entry.args), lines)
        element = self.bind(f"{stored}_of", byte_element(stored))("byte")
        write = self.bind(f"set_{name}", set_entry(table.result.dtype.name))
        self.emit(write(f"{name}_table", "byte", entry(element, *(v.name for v in table.entry.args[1:]))))

    def _look_up(self, table: ByteTable) -> None:
        name, argument = table.result.name, table.argument.name
        read = self.bind(f"look_up_{table.result.dtype.name}", look_up(table.result.dtype.name))
        self.assign(name, read(f"{name}_table", argument))
        self.ready.add(name)

    def text(self, opening: Sequence[str], comment: str) -> str:
        waits = [griddepcontrol()] if self.kernel.pdl and not self.kernel.is_subkernel else []
        kernel = [*self.names.signature(), *indented([f'"""{comment}"""', *waits, *self.code])]
        return "\n".join([*opening, "", *self.top, *self.functions, "", "", *kernel]) + "\n"
