"""Source builder of a generated CUDA file: parameters, functions, statements, and the names that are defined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

from ....ir.types import DType
from ....kernel_ir.kernel import KernelIR, Operand
from ....kernel_ir.parameter_layout import kernel_params
from ....kernel_ir.phase import Body, Reduction, Value
from ..peephole.gathers import split_at_gathers
from .intrinsic import Made

T = TypeVar("T")
INDENT = "    "
BLOCK_NUMBER = "block_number"  # what a part is told of its place


def indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    return [f"{INDENT * depth}{line}" if line else "" for line in lines]


def either(test: str, lines: list[str], others: list[str]) -> list[str]:
    """Lines under `if test`, and others under `else`; either may be empty."""
    if not lines:
        return [f"if not ({test}):", *indented(others)] if others else []
    return [f"if {test}:", *indented(lines), *(["else:", *indented(others)] if others else [])]


def header(kernel: KernelIR, skeleton: str, reason: str) -> list[str]:
    """The comment that opens a file: the text that it computes, and how."""
    lines = [*kernel.header, "", f"{kernel.name}: {skeleton}", *([reason] if reason else [])]
    return [f"# {line}".rstrip() for line in lines]


@dataclass(frozen=True)
class Names:
    """Names of a kernel's parameters, in the order of the parameter block."""

    kernel: KernelIR

    def operand(self, k: int) -> str:
        name = self.kernel.operands[k].name
        return name if sum(o.name == name for o in self.kernel.operands) == 1 else f"{name}_{k}"

    def pointer(self, k: int) -> str:
        return f"{self.operand(k)}_at"

    def extent(self, axis: int) -> str:
        return f"n{axis}"

    def magic(self, axis: int) -> str:
        return f"m{axis}"

    def stride(self, k: int, axis: int) -> str:
        return f"{self.operand(k)}_stride{axis}"

    def word(self, k: int) -> str:
        return f"{self.kernel.scalars[k].name}_word"

    def parameters(self) -> list[str]:
        """One name per slot."""
        found = []
        for slot in kernel_params(self.kernel):
            match slot.kind:
                case "pointer":
                    found.append(self.pointer(slot.index))
                case "extent":
                    found.append(self.extent(slot.index))
                case "stride":
                    found.append(self.stride(slot.index, slot.axis))
                case "magic":
                    found.append(self.magic(slot.index))
                case "workspace" | "semaphores":
                    found.append(slot.kind)
                case "gap":
                    found.append(f"gap{slot.index}")
                case "window":
                    found.append(f"map{slot.index}_{slot.axis}")
                case _:
                    found.append(self.word(slot.index))
        return found

    def signature(self) -> list[str]:
        """`def kernel(…):`, broken into lines of parameters of one kind; of a part, `def work(block_number, …):`."""
        groups: list[list[str]] = []
        kinds: list[str] = []
        for slot, name in zip(kernel_params(self.kernel), self.parameters()):
            if not kinds or kinds[-1] != slot.kind:
                kinds.append(slot.kind)
                groups.append([])
            groups[-1].append(name)
        if self.kernel.is_subkernel:
            arguments = [f"{BLOCK_NUMBER},", *(", ".join(group) + "," for group in groups)]
            return ["@subkernel", "def work(", *indented(arguments), "):"]
        return ["def kernel(", *indented(", ".join(group) + "," for group in groups), "):"]


def reduction_source(use: Reduction, name: str) -> list[str]:
    """The combine and identity functions of a reduction, and the ReduceOp made of them."""
    lines = ["", "", f"def identity_{name}():", *indented([f"return {', '.join(use.identity)}"])]
    given = []
    for stem, body in (("merging", use.combine), ("following", use.combine_in_order)):
        if body is not None:
            results = ", ".join(v.name for v in body.results)
            lines += ["", "", f"def {stem}_{name}({', '.join(v.name for v in body.args)}):"]
            lines += indented([*body.lines, f"return {results}"])
            given.append(f"{stem}_{name}")
    given.insert(1, f"identity_{name}")
    kinds = ", ".join(value.dtype.name for value in use.accumulators)
    return [*lines, "", "", f'reduction_{name} = reduction("{kinds}", {", ".join(given)})']


def function(decorator: str, name: str, body: Body, results: Sequence[str]) -> list[str]:
    """A body as a decorated scalar function."""
    arguments = ", ".join(value.name for value in body.args)
    return [
        "",
        "",
        decorator,
        f"def {name}({arguments}):",
        *indented([*body.lines, f"return {', '.join(results)}"]),
    ]


def signature(arguments: Iterable[DType], results: Iterable[DType]) -> str:
    """ "float32, bool -> float32" """
    return f"{', '.join(d.name for d in arguments)} -> {', '.join(d.name for d in results)}".strip()


def total(index: str, terms: Sequence[str]) -> str:
    """A sum in the index type: 0 terms, or each addition cast back."""
    found = terms[0] if terms else f"{index}(0)"
    for term in terms[1:]:
        found = f"{index}({found} + {term})"
    return found


def access_kind(operand: Operand, width: int) -> str:
    """How a tile of this operand is accessed along the last axis; "u": contiguous, but element by element."""
    last = operand.strides[-1]
    return "u" if last == "1" and operand.access == "element" and width > 1 else last


def accumulator_name(use: Reduction) -> str:
    """The variable that a reduction accumulates in, in a loop."""
    return f"{use.accumulators[0].name}_accumulator"


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

    @contextmanager
    def collected(self) -> Iterator[list[str]]:
        """What is emitted inside, as a list that is filled at the end and not part of the code."""
        start, lines = len(self.code), list[str]()
        yield lines
        lines += self.code[start:]
        del self.code[start:]

    @contextmanager
    def _nested(self, head: str) -> Iterator[None]:
        with self.collected() as lines:
            yield
        self.code += [head, *indented(lines)] if lines else []

    def while_(self, test: str) -> AbstractContextManager[None]:
        """The body of a loop."""
        return self._nested(f"while {test}:")

    def if_(self, test: str) -> AbstractContextManager[None]:
        """A branch, unless it is empty; without a test, no branch."""
        return self._nested(f"if {test}:") if test else nullcontext()

    @contextmanager
    def if_else(self, test: str) -> Iterator[tuple[AbstractContextManager, AbstractContextManager]]:
        """Both branches, `with src.if_else(test) as (then, otherwise):`; either may be empty."""
        branches: list[list[str]] = [[], []]
        yield self._branch(branches[0]), self._branch(branches[1])
        self.code += either(test, *branches)

    @contextmanager
    def _branch(self, lines: list[str]) -> Iterator[None]:
        with self.collected() as collected:
            yield
        lines += collected

    def bind(self, name: str, made: Made[T], section: list[str] | None = None) -> T:
        """Define an intrinsic or an object under a name, among the top lines or in another section, once."""
        section, line = self.top if section is None else section, f"{name} = {made}"
        if line not in section:
            section.append(line)
        return made.defines(name)

    @property
    def block(self) -> str:
        """The number of this block among those of the kernel."""
        return BLOCK_NUMBER if self.kernel.is_subkernel else "block_idx()"

    def define(self, lines: Sequence[str]) -> None:
        """Add a function to the file, unless it is there."""
        if tuple(lines) not in self.defined:
            self.defined.add(tuple(lines))
            self.functions += lines

    def argument(self, name: str, declared: DType) -> DType:
        """The type that a body's argument arrives in."""
        return self.stored.get(name, declared)

    def element(self, name: str) -> str:
        """A variable with the elements of `name` as a body computes with them."""
        if name not in self.wide and self._is_narrow(name):
            self.wide[name] = f"{name}_wide"
            self.code.append(f"{name}_wide = {self.widen(name, 'tile')}")
        return self.wide.get(name, name)

    def _is_narrow(self, name: str) -> bool:
        """Whether it was loaded, and bodies compute with another type than its elements are stored as."""
        stored = self.stored.get(name)
        return stored is not None and (stored is not stored.compute or stored.kind == "b")

    def widen(self, name: str, tile: str) -> str:
        """`name` as a body computes with it, where it belongs to such a tile."""
        if not self._is_narrow(name):
            return name
        stored, widening = self.stored[name], f"widen_{name}" if tile == "tile" else f"widen_{tile}_{name}"
        head = ["", "", f'@{tile}.elementwise("{signature([stored], [stored.compute])}")', f"def {widening}({name}):"]
        self.define([*head, *indented([f"return {name}"])])
        return f"{widening}({name})"

    def lifted(self, use: Reduction) -> str:
        """What the elements of a fold are lifted to, as a call's arguments."""
        return ", ".join(self.element(value.name) for value in use.inputs)

    def unpack(self, use: Reduction, expression: str) -> None:
        """The parts of a fold's state, by name."""
        self.code.append(f"{', '.join(value.name for value in use.accumulators)} = {expression}")
        self.ready |= {value.name for value in use.accumulators}

    def stride(self, k: int, letter: str) -> str:
        """The further argument of an access along the last axis, where it takes one."""
        if letter == "u":
            return ", 1"
        return f", {self.names.stride(k, self.kernel.axes - 1)}" if letter == "s" else ""

    def read_scalars(self) -> None:
        """Run-time scalars out of their parameters, and the addresses that bodies compute with."""
        for pointer in self.kernel.pointers:
            self.code.append(f"{pointer.value.name} = {self.names.pointer(pointer.operand)}")
            self.ready.add(pointer.value.name)
        known = dict(self.kernel.constant_scalars)
        for k, value in enumerate(self.kernel.scalars):
            if value.name in known:
                self.code.append(f"{value.name} = {value.dtype.name}({known[value.name]})")
                self.ready.add(value.name)
                continue
            self.top.append(f'read_{value.name} = scalar("{value.dtype.name}")')
            self.code.append(f"{value.name} = read_{value.name}({self.names.word(k)})")
            self.ready.add(value.name)

    def map_body(self, name: str, body: Body, width: int = 1) -> None:
        """An element body as a function over tiles, and its call; results that are arguments need neither.

        In tiles of vectors (`width`) what the body fetches is read tile by tile, so that neighbours come together.
        """
        stages, rest = split_at_gathers(body, self.fetched) if width > 1 else ([], body)
        for number, stage in enumerate(stages):
            self.map_plain(f"{name}_where_{number}" if number else f"{name}_where", stage.where)
            for fetch in stage.fetches:
                self.stored[fetch.name] = fetch.stored
                self.top.append(f'{fetch.how}_{fetch.name} = tile.{fetch.how}("{fetch.kind}")')
                given = ", ".join(value.name for value in fetch.given)
                self.code.append(f"{fetch.name} = {fetch.how}_{fetch.name}({given})")
                self.ready.add(fetch.name)
        self.map_plain(name, rest)

    def map_plain(self, name: str, body: Body, tile: str = "tile") -> None:
        """An element body as one function over the tiles of that name."""
        given = {value.name for value in body.args}
        made = [value for value in body.results if value.name not in given]
        if made:
            kinds = signature((self.argument(v.name, v.dtype) for v in body.args), (v.dtype for v in made))
            self.define(function(f'@{tile}.elementwise("{kinds}")', name, body, [v.name for v in made]))
            arguments = ", ".join(v.name for v in body.args)
            self.code.append(f"{', '.join(v.name for v in made)} = {name}({arguments})")
        self.ready |= {value.name for value in made}

    def text(self, opening: Sequence[str], comment: str) -> str:
        kernel = [*self.names.signature(), *indented([f'"""{comment}"""', *self.code])]
        lines = [*opening, "", *self.top, *self.functions, "", "", *kernel]
        return "\n".join(lines) + "\n"


@dataclass
class KernelEmitter:
    """Base of the emitters of a kernel: the source builder of its file."""

    scope: SourceBuilder

    @property
    def kernel(self) -> KernelIR:
        return self.scope.kernel

    @property
    def code(self) -> list[str]:
        return self.scope.code

    @property
    def index(self) -> str:
        return self.kernel.index
