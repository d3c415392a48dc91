"""Names of a program in the caller's scope: values, columns of a mapping, shadowed constants; argument binding."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .config import OPTION_NAMES
from .errors import ArgumentError, CompileError, FusedslError, kind_of, suggest
from .interop import containers

Kernel = Any  # api.Kernel, in a higher layer

CONSTANTS = {"pi": math.pi, "inf": math.inf, "nan": math.nan}
Scope = Mapping[str, Any]


def as_mapping(arrays: Any) -> Mapping[str, Any]:
    """The arrays of a call by name: a mapping, the columns of a DataFrame, or the fields of a structured array.

    ArgumentError for anything else.
    """
    mapping = arrays if isinstance(arrays, Mapping) else containers.columns(arrays)
    if mapping is None and isinstance(fields := getattr(getattr(arrays, "dtype", None), "names", None), tuple):
        mapping = {name: arrays[name] for name in fields}
    if mapping is None:
        raise ArgumentError(
            f"arrays come by name, and the second argument is {kind_of(arrays)}",
            "argument.mapping",
            help='evaluate("a + b", a=a, b=b), or a mapping: evaluate("a + b", {"a": a, "b": b})',
        )
    return mapping


def is_value(x: Any) -> bool:
    """Whether a program may read this object of the caller's scope: an array, a number, a list, a Series …"""
    return isinstance(x, (bool, int, float)) or containers.is_container(x) or (
        hasattr(x, "dtype") and hasattr(x, "shape") and not isinstance(x, type)
    )  # fmt: skip


def look_up(names: Collection[str], *scopes: Scope) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the values of these names, other objects of these names) in the first scope that has each."""
    values: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name in names:
        for scope in scopes:
            if name not in scope:
                continue
            if is_value(scope[name]):
                values[name] = scope[name]
                break
            others.setdefault(name, scope[name])
    return values, {name: x for name, x in others.items() if name not in values}


def shadowed_constants(kernel: Kernel, given: Mapping[str, Any], mapping: Mapping[str, Any]) -> tuple[str, ...]:
    """Constants and dtypes of a program that the caller's scope gives other values."""
    names = kernel._source.shadowable
    return tuple([n for n in names if n in given or (n in mapping and _differs(n, mapping[n]))])


def check_constants(kernel: Kernel, *scopes: Scope) -> None:
    """ArgumentError if a program reads a constant, and the caller's scope has another value of that name."""
    for name in kernel._source.shadowable:
        values, _ = look_up((name,), *scopes)
        if name in CONSTANTS and name in values and _differs(name, values[name]) and kernel._source.reads(name):
            raise ArgumentError(
                f"{name} is the constant {CONSTANTS[name]:.7g} in a program, and the caller's scope has "
                f"{kind_of(values[name])} called {name}",
                "argument.constant",
                help=f"pass it by name, {name}={name}, with all other arrays; or rename it",
            )


def _differs(name: str, value: Any) -> bool:
    """Whether this is a value other than the constant of that name, which `from math import pi` gives."""
    if isinstance(value, float) and name in CONSTANTS:
        return not (value == CONSTANTS[name] or (math.isnan(value) and name == "nan"))
    return is_value(value)


def undefined(kernel: Kernel, known: Collection[str], others: Mapping[str, Any], mapping: Any) -> FusedslError:
    """The error for names without a value.

    `others` are objects of those names that are not values; `mapping` is the caller's mapping.
    """
    from .lang.build_graph import undefined

    missing = [name for name in kernel.params if name not in known]
    hints = {name: f"{name} is {kind_of(x)}, which is no array" for name, x in others.items()}
    options = [name for name in missing if name in OPTION_NAMES]
    hints |= {n: f'{n}= is an option of evaluate; pass the array in a mapping: {{"{n}": {n}}}' for n in options}
    given = [name for name in (*known, *mapping) if isinstance(name, str)]
    return undefined(kernel._source.program, missing, given, hints)


# -- the arguments of a call


def bind_arguments(kernel: Kernel, args: Sequence[Any], named: Mapping[str, Any], options: Iterable[str]) -> list[Any]:
    """The arguments of a kernel in order; ArgumentError for missing, surplus or unknown ones.

    `options` are other keywords that the caller takes, which an unknown one may have been meant to be.
    """
    params, signature = kernel.params, f"the kernel takes {', '.join(kernel.params) or 'no arguments'}"
    if len(args) > len(params):
        raise ArgumentError(f"{len(args)} arguments for {len(params)} parameters", "argument.count", help=signature)
    values = dict(zip(params, args))
    for name, value in named.items():
        if name not in kernel._positions:
            hint = f"{name} is an option: give it to kernel(...)" if name in OPTION_NAMES else None
            raise unused_argument(kernel, name, hint, options, signature)
        if name in values:
            raise ArgumentError(f"{name} is given twice", "argument.twice", help="give it by position or by name")
        values[name] = value
    missing = [name for name in params if name not in values]
    if missing:
        help = _missing_help(kernel, missing) or signature
        raise ArgumentError(f"missing {', '.join(missing)}", "argument.missing", help=help)
    return [values[name] for name in params]


def _missing_help(kernel: Kernel, missing: Sequence[str]) -> str | None:
    """The parser's help on missing arguments, if there is a parser."""
    with contextlib.suppress(CompileError):
        from .lang.attention_call import unquoted_help
        from .lang.build_graph import misspelt

        program = kernel._source.program
        return unquoted_help(program, missing) or misspelt(program, missing)
    return None


def unused_argument(kernel: Kernel, name: str, hint: str | None, others: Iterable[str], otherwise: str) -> FusedslError:
    """The error for an argument that the program does not read, or for an unknown function that might have read it.

    `others` are keywords that may be meant.
    """
    near = suggest(name, (*kernel.params, *others))
    with contextlib.suppress(CompileError):
        from .lang.attention_call import read_in_quotes_help
        from .lang.build_graph import unknown_function
        from .lang.foreign_names import EVALUATE

        if (unknown := unknown_function(kernel._source.program, (name,))) is not None:
            return unknown
        hint = hint or read_in_quotes_help(kernel._source.program, name) or EVALUATE.get(name)
    hint = hint or (f"did you mean {near}?" if near else otherwise)
    return ArgumentError(f"unexpected argument {name!r}: the expression does not use it", "argument.unused", help=hint)
