"""The prelude: composite functions in prelude.fd, each parsed when a program first calls it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from .parse import parse_definitions
from .syntax_tree import CallExpr, Compare, Definition, Literal, Name, postorder


@cache
def _sources() -> dict[str, str]:
    """Function name → source of its definition with the comment above; blank lines separate definitions."""
    text = Path(__file__).with_name("prelude.fd").read_text(encoding="ascii")
    sources = {}
    for block in text.split("\n\n"):
        if named := re.search(r"^(\w+)\(", block, re.MULTILINE):
            sources[named.group(1)] = block.strip("\n") + "\n"
    return sources


@cache
def names() -> frozenset[str]:
    """The public functions of the prelude."""
    return frozenset(name for name in _sources() if not name.startswith("_"))


def own_source(name: str) -> str:
    """The source of one definition, which the spans of its syntax tree refer to."""
    return _sources()[name]


def source(name: str) -> str:
    """The definition in prelude.fd with its comment, after the private functions it needs: ready to copy.

    >>> print(source("relu"), end="")
    # max(x, 0); NaN stays NaN
    relu(x) = maximum(x, 0)
    """
    ordered: dict[str, str] = {}

    def gather(needed: str) -> None:
        for called in _private_calls(needed):
            gather(called)
        ordered.setdefault(needed, _sources()[needed])

    gather(name)
    return "\n".join(ordered.values())


def _private_calls(name: str) -> list[str]:
    function = definition(name)
    assert function is not None, name
    return [
        part.function for part in postorder(function.body) if isinstance(part, CallExpr) and part.function[0] == "_"
    ]


@cache
def definition(name: str) -> Definition | None:
    """The syntax tree of a function, public or private (`_name`); None if there is none of this name.

    Its spans refer to `own_source(name)`, not to a program that calls it.
    """
    if name not in _sources():
        return None
    (function,) = parse_definitions(_sources()[name])
    return function


@cache
def choices(name: str) -> dict[str, tuple[str, ...]]:
    """The choices of each string parameter of a function: its default, and the strings that the body compares it with.

    >>> choices("gelu")
    {'approximate': ('none', 'tanh')}
    """
    function = definition(name)
    assert function is not None, name
    accepted = {
        parameter.name: [parameter.default.value]
        for parameter in function.parameters
        if isinstance(parameter.default, Literal) and isinstance(parameter.default.value, str)
    }
    for part in postorder(function.body):
        match part:
            case Compare(operands=(Name(name=parameter), Literal(value=str() as choice))) if parameter in accepted:
                accepted[parameter] += [choice] if choice not in accepted[parameter] else []
    return {parameter: tuple(strings) for parameter, strings in accepted.items()}
