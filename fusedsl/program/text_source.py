"""A program given as text: parsed once, built for each signature."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

from ..config import Options
from ..errors import ArgumentError, DTypeError, kind_of, suggest
from ..ir.types import DTYPES
from ..runtime.cache import cache_key, disk

RESERVED = ("out", "True", "False", "None")
SHADOWABLE = ("pi", "inf", "nan", *DTYPES)  # names of the language that a caller's values may shadow


class TextSource:
    """The text of a program, its parameters in order, and its constants (literals for some names).

    The program is parsed at the first use of its tree: a call that the cache answers never parses.
    """

    generic = True

    def __init__(
        self,
        text: str,
        options: Options,
        params: Sequence[str] | str | None,
        constants: Mapping | None,
        shadowed: Collection[str] = (),
    ):
        if not isinstance(text, str):
            raise ArgumentError(
                f"a program is a string, not {kind_of(text)}",
                "argument.text",
                help="decorate a function with fusedsl.fuse" if callable(text) else 'e.g. kernel("a * b + c")',
            )
        if not isinstance(constants, (Mapping, type(None))):
            raise ArgumentError(f"constants is {kind_of(constants)}", "argument.constant", help='constants={"w": 20}')
        self.text = text
        self.constants = {name: _plain(value) for name, value in (constants or {}).items()}
        self.options = options
        self._params = _names_of(params)
        given = (*shadowed, *(self._params or ()), *self.constants)
        self.shadowed = tuple(name for name in SHADOWABLE if name in given)  # shadowed by the caller's values
        words = set(re.findall(r"[A-Za-z_]\w*", text))
        self.shadowable = tuple(
            name for name in SHADOWABLE if name in words and name not in given
        )  # names that it may read as constants or dtypes
        for name, value in self.constants.items():
            if not (isinstance(name, str) and name.isidentifier()):
                help = 'constants={"w": 20}'
                raise ArgumentError(f"{name!r} is no name of a constant", "argument.constant", help=help)
            for part in _parts(value):
                _check_constant(name, part)

    @cached_property
    def program(self):
        """The syntax tree; ParseError or LimitError for an invalid program, CompileError without a parser."""
        from ..lang.parse import parse

        return parse(self.text, asdict(self.options.limits), self.shadowed)

    @property
    def title(self) -> str:
        """The program in a log line."""
        return one_line(self.text)

    def cache_parts(self) -> dict:
        """The JSON that the plans of this program depend on."""
        return {"text": self.text, "constants": self.constants, "params": self._params, "shadowed": self.shadowed}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The parameters, in the order of the program or of `params`; from the cache if it has them."""
        key = cache_key(names=self.cache_parts(), limits=asdict(self.options.limits))
        entry = disk().get(key)
        if entry is not None and isinstance(entry[0].get("names"), list):
            return tuple(entry[0]["names"])
        names = self._read_names()
        disk().put(key, {"names": list(names)})
        return names

    def reads(self, name: str) -> bool:
        """Whether the program reads a constant or a dtype of this name."""
        from ..lang.syntax_tree import Literal, Name

        parts = self.program.parts
        return any(
            p.source == name if isinstance(p, Literal) else isinstance(p, Name) and p.name == name for p in parts
        )

    def _read_names(self) -> tuple[str, ...]:
        from ..lang.build_graph import parameter_names

        names = tuple(n for n in parameter_names(self.program, self.shadowed) if n not in self.constants)
        for name in names:
            if name in RESERVED:
                raise ArgumentError(f"{name} cannot be a parameter", "argument.name", help=f"rename it, e.g. {name}_")
        if self._params is None:
            return names
        self._check_params(names)
        return tuple(self._params)

    def _check_params(self, read: tuple[str, ...]) -> None:
        assert self._params is not None
        for name in self._params:
            if name not in read:
                near = suggest(name, read)
                hint = f"did you mean {near}?" if near else f"the expression reads {', '.join(read) or 'no names'}"
                message = f"params names {name}, which the expression does not use"
                raise ArgumentError(message, "argument.params", help=hint)
        missing = [n for n in read if n not in self._params]
        if missing or len(set(self._params)) < len(self._params):
            wrong = f"leaves out {', '.join(missing)}" if missing else "names a parameter twice"
            raise ArgumentError(f"params {wrong}", "argument.params", help=f"the expression reads {', '.join(read)}")

    def build(self, parameters, extents, options):
        """The graph for these parameters, and its guards."""
        from ..lang.build_graph import build

        return build(self.program, parameters, extents, options, self.constants)

    def build_differentiable(self, parameters, extents, options):
        """`build` for a graph that will be differentiated."""
        from ..lang.build_graph import built

        builder, results = built(self.program, parameters, extents, options, self.constants)
        return builder.differentiable(results), builder.guards

    def header(self) -> tuple[str, ...]:
        """The program re-printed from its tree."""
        from ..lang.printer import show

        lines = [show(s) for s in self.program.statements]
        return (*lines, "return " + ", ".join(show(r) for r in self.program.results))


def one_line(text: str, most: int = 60) -> str:
    """A program on one line: its lines joined by semicolons, cut where it is long.

    >>> one_line("a = x * 2\\n    return a + 1, a")
    'a = x * 2; return a + 1, a'
    """
    lines = (" ".join(line.partition("#")[0].split()).rstrip(";") for line in text.splitlines())
    joined = "; ".join(line for line in lines if line)
    for bracket in "([,":
        joined = joined.replace(f"{bracket}; ", f"{bracket} " if bracket == "," else bracket)
    joined = joined.replace("; )", ")").replace("; ]", "]")
    return joined if len(joined) <= most else f"{joined[: most - 3]}..."


def unused_name(name: str, used: Collection[str]) -> str:
    """The name, or one that is not used yet."""
    while name in used:
        name += "_"
    return name


def _plain(value: Any) -> Any:
    """A constant as it stands for a literal: lists are tuples."""
    return tuple(map(_plain, value)) if isinstance(value, (tuple, list)) else value


def _parts(value: Any) -> list:
    return [part for inner in value for part in _parts(inner)] if isinstance(value, tuple) else [value]


def _check_constant(name: str, value: Any) -> None:
    """ArgumentError or DTypeError for what no literal is."""
    if not isinstance(value, (bool, int, float, str, type(None))):
        raise ArgumentError(
            f"constant {name} is {type(value).__name__}",
            "argument.constant",
            help="constants are Python numbers, None, strings, or tuples of them; pass arrays as arguments",
        )
    if isinstance(value, int) and abs(value) >= 1 << 1024:
        from ..ir.checks import spelled

        message = f"constant {name} = {spelled(value)} does not fit any type"
        raise DTypeError(message, "dtype.literal", help="write it as a float, or pass fewer digits")


def _names_of(params: Sequence[str] | str | None) -> list[str] | None:
    """The names that `params` gives, as a string or a sequence of strings."""
    if params is None:
        return None
    names = params.replace(",", " ").split() if isinstance(params, str) else params
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(
            f"params is {params!r}", "argument.params", help='name the parameters in order: params="g u"'
        )
    return list(names)
