"""Intrinsics as emitters see them: objects that print their definitions and calls. They need no Numba.

A package of intrinsics declares them in its `__init__.py`, beside the files with their code; generated files are
compiled in a namespace of the names declared there. A misspelt intrinsic is an AttributeError or an ImportError when
the kernel is emitted, a call with too few or too many arguments a TypeError.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar

T = TypeVar("T")
FILES: dict[str, dict[str, Named]] = {}  # file of intrinsics -> what generated files may use of it, by name


@cache
def _bounds(parameters: str) -> tuple[int, float]:
    """The least and the greatest number of arguments; parameters are as Python has them: "*lifted, start, limit=0"."""
    names = parameters.split(", ") if parameters else []
    required = sum("=" not in name and "*" not in name for name in names)
    return required, float("inf") if "*" in parameters else len(names)


def _call(name: str, parameters: str, arguments: list[str]) -> str:
    least, most = _bounds(parameters)
    if not least <= len(arguments) <= most:
        raise TypeError(f"{name}({parameters}) with the arguments {arguments}")
    return f"{name}({', '.join(arguments)})"


class Named:
    """An object of a generated file: prints as its name."""

    def __init__(self, name: str):
        self.name = name

    def __str__(self) -> str:
        return self.name


class Function(Named):
    """A function of a generated file: calling it gives the text of a call."""

    def __init__(self, name: str, takes: str = ""):
        super().__init__(name)
        self.takes = takes

    def __call__(self, *arguments: object) -> str:
        return _call(self.name, self.takes, [*map(str, arguments)])


class Binding(Named, Generic[T]):
    """The right side of a definition, and what it defines under a name (see SourceBuilder.bind)."""

    def __init__(self, text: str, defines: Callable[[str], T]):
        super().__init__(text)
        self.defines = defines

    def __call__(self, function: object) -> Binding[T]:
        """A decorator, applied to a function of the file."""
        return Binding(f"{self}({function})", self.defines)


class Maker(Named, Generic[T]):
    """A function of constants that makes an intrinsic, or an object that has intrinsics."""

    def __init__(self, name: str, parameters: str, defines: Callable[[str], T]):
        super().__init__(name)
        self.parameters, self.defines = parameters, defines

    def __call__(self, *arguments: object, **keywords: object) -> Binding[T]:
        given = [*map(_constant, arguments), *(f"{name}={_constant(value)}" for name, value in keywords.items())]
        return Binding(_call(self.name, self.parameters, given), self.defines)


def _constant(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


class Method:
    """A maker of an object: `load_x = tile.load("float32", "1")`; with its parameters, and those of what it makes."""

    def __init__(self, parameters: str = "", takes: str = "*arguments"):
        self.parameters, self.takes = parameters, takes

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Named, _: type) -> Maker[Function]:
        return Maker(f"{owner}.{self.name}", self.parameters, lambda name: Function(name, self.takes))


class File:
    """A file with the code of intrinsics, below backends/cuda: declares those that generated files use."""

    def __init__(self, path: str):
        self.declared = FILES.setdefault(path, {})

    def function(self, name: str, takes: str = "") -> Function:
        self.declared[name] = function = Function(name, takes)
        return function

    def maker(self, name: str, parameters: str = "", takes: str = "*arguments") -> Maker[Function]:
        return self.type(name, parameters, lambda bound_name: Function(bound_name, takes))

    def type(self, name: str, parameters: str, defines: Callable[[str], T]) -> Maker[T]:
        """What makes an object: of a class of objects that have intrinsics, or Named for one that only is passed on."""
        self.declared[name] = maker = Maker(name, parameters, defines)
        return maker
