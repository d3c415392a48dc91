"""Kernels of gradients: the text of a program whose results are gradients of another one's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .errors import ArgumentError, suggest
from .program.text_source import TextSource, unused_name


class DerivedText(NamedTuple):
    """A program and its parameters in order; the constants are those of the program that it comes from."""

    text: str
    params: tuple[str, ...]


def gradient_text(source: TextSource, wrt: Sequence[str] | str | None) -> DerivedText:
    """Gradients by the parameters `wrt`, given those of the results in further parameters."""
    from .lang.printer import show

    results = [show(r) for r in source.program.results]
    lines, values = _variables(source, wrt)
    used = {*_names(source), *lines}
    names = ["gradient"] if len(results) == 1 else [f"gradient_{k}" for k in range(len(results))]
    names = [unused_name(name, used) for name in names]
    last = f"return vjp({_tuple(results)}, {_tuple(names)}, {', '.join(values)})"
    return DerivedText("\n".join([*lines.values(), *source.header()[:-1], last]), (*source.names, *names))


def value_and_gradient_text(source: TextSource, wrt: Sequence[str] | str | None) -> DerivedText:
    """The result, a scalar, then its gradients by the parameters `wrt`."""
    from .lang.printer import show

    if len(source.program.results) != 1:
        message = f"value_and_grad needs one result, a scalar, not {len(source.program.results)}"
        raise ArgumentError(message, "argument.gradient", help="grad takes the gradients of several results")
    lines, values = _variables(source, wrt)
    loss = unused_name("loss", {*_names(source), *lines})
    assigned = f"{loss} = {show(source.program.results[0])}"
    last = f"return {loss}, grad({loss}, {', '.join(values)})"
    return DerivedText("\n".join([*lines.values(), *source.header()[:-1], assigned, last]), source.names)


def _variables(source: TextSource, wrt: Sequence[str] | str | None) -> tuple[dict[str, str], list[str]]:
    """(lines that keep parameters which the program assigns anew, by name; the name of each variable)."""
    wanted = source.names if wrt is None else _given(wrt)
    if not wanted:
        raise ArgumentError("wrt names no parameter", "argument.gradient", help='wrt=("x",)')
    used, assigned = _names(source), _assigned(source)
    lines: dict[str, str] = {}
    values: list[str] = []
    for name in wanted:
        if name not in source.names:
            near = suggest(name, source.names)
            help = f"did you mean {near}?" if near else f"the parameters are {', '.join(source.names)}"
            raise ArgumentError(f"wrt names {name}, which is no parameter", "argument.gradient", help=help)
        if name in assigned:
            saved = unused_name(f"{name}_given", {*used, *lines})
            lines[saved] = f"{saved} = {name}"
        values.append(saved if name in assigned else name)
    return lines, values


def _given(wrt: Sequence[str] | str) -> Sequence[str]:
    if isinstance(wrt, str):
        return wrt.replace(",", " ").split()
    if isinstance(wrt, (tuple, list)) and all(isinstance(name, str) for name in wrt):
        return wrt
    message = f"wrt is names of parameters, not {wrt!r}"
    raise ArgumentError(message, "argument.gradient", help='wrt="x", or wrt=("x", "w")')


def _assigned(source: TextSource) -> set[str]:
    from .lang.syntax_tree import Assign

    return {t.name for s in source.program.statements if isinstance(s, Assign) for t in s.targets}


def _names(source: TextSource) -> set[str]:
    """Every name of a program; one of its functions must not stand for a derivative."""
    from .lang.syntax_tree import CallExpr, Definition, Name

    program = source.program
    for function in program.functions:
        if function.name in ("grad", "vjp"):
            message = f"the program defines {function.name} itself"
            raise ArgumentError(message, "argument.gradient", help="rename it")
    own = {p.name for s in program.statements if isinstance(s, Definition) for p in s.parameters}
    read = {p.name for p in program.parts if isinstance(p, Name)}
    called = {p.function for p in program.parts if isinstance(p, CallExpr)}
    return own | read | called | _assigned(source) | set(source.names)


def _tuple(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
