"""Source builder of a generated CUDA file: parameters, functions, statements, and the names that are defined."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from ....generated_code import syntax_tree
from ....ir.types import DType
from ....kernel_ir.byte_tables import ByteTable, byte_tables, looked_up
from ....kernel_ir.kernel import ALIGNED, KernelIR
from ....kernel_ir.phase import Body, Reduction, Value
from ..byte_table.emit import fill, look_up_all
from ..peephole.gathers import GatherCall, alike_in_vectors, split_at_gathers, split_at_pairs
from ..tile import TileIntrinsics, block_idx, griddepcontrol, in_pairs, random_pairs, scalar
from .file_builder import FileBuilder, signature
from .intrinsic import Binding, Function, Named
from .signature import BLOCK_NUMBER, Names, indented

T = TypeVar("T")
TILE = TileIntrinsics("tile")  # that bodies are mapped over
NOWHERE: Mapping[str, str] = MappingProxyType({})


def names_in(lines: Iterable[str]) -> set[str]:
    """The names that statements read or define, of functions too."""
    return {node.id for node in ast.walk(syntax_tree("\n".join(lines))) if isinstance(node, ast.Name)}


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


def total(index: str, terms: Sequence[str]) -> str:
    """A sum in the index type: 0 terms, or each addition cast back."""
    sum_ = terms[0] if terms else f"{index}(0)"
    for term in terms[1:]:
        sum_ = f"{index}({sum_} + {term})"
    return sum_


def accumulator_name(use: Reduction) -> str:
    """The variable that a reduction accumulates in, in a loop."""
    return f"{use.accumulators[0].name}_accumulator"


@dataclass
class SourceBuilder(FileBuilder):
    """The file of a kernel being emitted, and the values that have a name."""

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
    waits_first: bool = True  # for the launches of the call before it; else where its emitter says

    def __post_init__(self) -> None:
        self.names = Names(self.kernel)

    @contextmanager
    def local_values(self) -> Iterator[None]:
        """What gets a value inside has none after it."""
        before = self.ready, self.stored, self.wide
        self.ready, self.stored, self.wide = set(self.ready), dict(self.stored), dict(self.wide)
        yield
        self.ready, self.stored, self.wide = before

    @property
    def block(self) -> str:
        """The number of this block among those of the kernel."""
        return BLOCK_NUMBER if self.kernel.is_subkernel else block_idx()

    def apply(
        self, decorator: Callable[[str], Binding[Function]], name: str, body: Body, at: Mapping[str, str] = NOWHERE
    ) -> None:
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
                if value.name in (*self.kernel.short_extents, *self.kernel.short_strides):
                    self.assign(value.name, f"{value.dtype.name}(int32({value.name}))  # it is short")
                if value.name in self.kernel.aligned_scalars:
                    self.assign(value.name, f"{value.dtype.name}({value.name} & -{ALIGNED})  # it is a multiple")

    def map_body(self, name: str, body: Body, width: int = 1, lines: Collection[str] = ()) -> None:
        """An element body as a function over tiles, and its call; results that are arguments need neither.

        In tiles of vectors (`width`) what the body fetches is read tile by tile, so that neighbours come together.
        Vectors begin at multiples of their width by their positions on `lines`.
        """
        if tables := [
            t for value, t in self.tables.items() if value in body.targets and t.argument.name in self.stored
        ]:
            look_up_all(self, tables)
            self.ready |= {table.result.name for table in tables}
            body = looked_up(body, tables)
        sizes = [1 << k for k in range(1, width.bit_length())] if lines else []
        shared = {run: alike_in_vectors(body, run, lines, self._fixed()) for run in sizes}
        alike = shared.pop(width, ())
        stages, rest = split_at_gathers(body, self.fetched, alike, shared) if width > 1 else ([], body)
        for number, stage in enumerate(stages):
            self.apply(TILE.elementwise, f"{name}_where_{number}" if number else f"{name}_where", stage.where)
            for fetch in stage.fetches:
                self.stored[fetch.name] = fetch.stored
                read = self.bind(f"{fetch.how}_{fetch.name}", self._read(fetch, width))
                self.assign(fetch.name, read(*(value.name for value in fetch.given)))
                self.ready.add(fetch.name)
        pairs = [fetch.name for stage in stages for fetch in stage.fetches if fetch.halved]
        if pairs and width % 2 == 0:
            together, rest = split_at_pairs(rest, pairs, [value.name for value in self.kernel.scalars])
            if together is not None:
                self.apply(partial(in_pairs, TILE), f"{name}_pair", together)
        self.apply(TILE.elementwise, name, rest)

    def _fixed(self) -> list[str]:
        """Values that all elements share."""
        kernel = self.kernel
        loads = [load for load in kernel.loads if not set(kernel.operands[load.operand].strides) - {"0"}]
        return [x.value.name for x in (*kernel.pointers, *loads)] + [value.name for value in kernel.scalars]

    def fill_tables(self, threads: int) -> None:
        """Fill the byte tables of the kernel, all `threads` of a block together, once scalars have been read; 0: as
        many as are launched."""
        self.tables = byte_tables(self.kernel)
        if self.tables:
            fill(self, list(self.tables.values()), threads)

    def _read(self, fetch: GatherCall, width: int) -> Binding[Function]:
        """What gathers or draws the elements of a tile."""
        if fetch.how == "gather":
            return TILE.gather(fetch.kind, **({"run": fetch.run} if fetch.run > 1 else {}))
        if fetch.how == "gather_alike":
            return TILE.gather_alike(fetch.kind)
        return random_pairs(TILE, fetch.kind) if fetch.halved and width % 2 == 0 else TILE.random(fetch.kind)

    def text(self, opening: Sequence[str], comment: str) -> str:
        follows = self.kernel.pdl and not self.kernel.is_subkernel
        waits = [griddepcontrol()] if follows and self.waits_first else []
        kernel = [*self.names.signature(), *indented([f'"""{comment}"""', *waits, *self.code])]
        return "\n".join([*opening, "", *self.top, *self.functions, "", "", *kernel]) + "\n"
