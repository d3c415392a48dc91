"""File builder: statements, branches and loops, functions and definitions of a generated file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from ....ir.types import DType
from .intrinsic import Binding, Function, Named
from .signature import indented

T = TypeVar("T")


def either(test: str, lines: list[str], others: list[str]) -> list[str]:
    """Lines under `if test`, and others under `else`; either may be empty."""
    if not lines:
        return [f"if not ({test}):", *indented(others)] if others else []
    return [f"if {test}:", *indented(lines), *(["else:", *indented(others)] if others else [])]


def signature(arguments: Iterable[DType], results: Iterable[DType]) -> str:
    """ "float32, bool -> float32" """
    return f"{', '.join(d.name for d in arguments)} -> {', '.join(d.name for d in results)}".strip()


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


class FileBuilder:
    """Top-level lines, functions and kernel statements of a file.

    `with src.while_(…):` nests what is emitted inside; `load = src.bind("load_x", tile.load("float32"))` defines an
    intrinsic and returns it; `src.assign("x", load(base, start, limit))` emits a statement.
    """

    top: list[str]
    functions: list[str]
    code: list[str]
    defined: set[tuple[str, ...]]  # functions, by their lines

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
