"""A traced function in a file: the graph of one signature, and the structure of its arguments and results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..arguments import Arguments
from ..config import Options
from ..errors import ArgumentError
from ..ir.graph import Parameter
from ..kernel_ir.plan import nodes_from_json, nodes_to_json, plan_from_json, plan_to_json
from ..program import call_steps
from ..trace import Traced, trace
from ..trace.array_library import is_array
from .pytree import arguments_form, result_form, result_of_form

NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass
class Retraced:
    """A traced function as a source of graphs for other extents too: the function is traced again for each."""

    function: Callable
    call: Arguments
    traced: Traced
    text: str
    options: Options
    generic: bool = field(default=True, init=False)

    def build(self, parameters, extents, options):
        """The graph for these parameters, and its guards; ArgumentError if the function takes another path."""
        traced = self.traced
        guards = dict(traced.guards)
        if not traced.applies(extents, self.call.numbers) or not call_steps.guards_hold(guards.items(), extents):
            raise ArgumentError("a trace is for one way through a function", "argument.signature")
        if [p.type for p in parameters] == [p.type for p in traced.graph.parameters]:
            return traced.graph, guards
        other = self._other(iter(parameters), extents)
        if (other.template, other.writes, other.captures) != (traced.template, traced.writes, traced.captures):
            raise ArgumentError("the function gives other results there", "argument.signature")
        return other.graph, dict(other.guards)

    def _other(self, parameters: Iterator[Parameter], extents) -> Traced:
        """The trace for parameters with other extents."""
        positional, named = (_replaced(each, parameters) for each in self.call.placeholders)
        inputs = replace(self.call.trace_inputs, positional=positional, keywords=named, extents=extents)
        return trace(self.function, inputs, self.options)

    @property
    def title(self) -> str:
        """The function's name."""
        return getattr(self.function, "__qualname__", repr(self.function))

    def cache_parts(self) -> None:
        """None: its plans are in the file alone."""

    def header(self) -> tuple[str, ...]:
        """The function's own lines."""
        return tuple(self.text.splitlines()[:20])


def _replaced(value: Any, parameters: Iterator[Parameter]) -> Any:
    """Arguments with other parameters, in order."""
    if isinstance(value, Parameter):
        return next(parameters)
    if isinstance(value, dict):
        return {key: _replaced(part, parameters) for key, part in value.items()}
    return type(value)(_replaced(part, parameters) for part in value) if type(value) in (tuple, list) else value


def function_to_json(function: Callable, call: Arguments, traced: Traced, text: str) -> dict[str, Any]:
    """The record of a function in a file; ArgumentError if it reads captured arrays, or has no JSON."""
    if traced.captures:
        names = (
            ", ".join(read.name for read in traced.state_guards if is_array(read.original)) or "created inside of it"
        )
        message = f"the function reads arrays from outside ({names}), and a file holds none"
        raise ArgumentError(message, "argument.saved", help="make them arguments")
    args, keywords = call.placeholders
    nodes = [node for node, _ in traced.conditions]
    return {
        "function": getattr(function, "__qualname__", "function"),
        "doc": inspect.getdoc(function),
        "text": text,
        "order": _order(function),
        "names": list(call.names),
        "given": [len(args), list(keywords)],
        "arguments": arguments_form((args, keywords)),
        "result": result_form(traced.template),
        "writes": [list(pair) for pair in traced.writes],
        "guards": [[plan_to_json(dim), unit] for dim, unit in traced.guards.items()],
        "conditions": {**nodes_to_json(nodes), "values": [value for _, value in traced.conditions]},
        "baked": [[k, value] for k, value in traced.baked.items()],
        "aliases": [list(pair) for pair in call.aliases.items()],
        "library": call.library,
    }


def _order(function: Callable) -> list[str] | None:
    """The names of the positional parameters; None if the function takes *args or **kwargs."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    variadic = any(p.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD) for p in parameters)
    return None if variadic else [p.name for p in parameters if p.kind in NAMED]


def traced_from_json(record: Mapping[str, Any], graph: Any) -> Traced:
    """The trace of a record; it captures nothing."""
    conditions = record["conditions"]
    return Traced(
        graph,
        result_of_form(record["result"]),
        tuple((int(k), int(r)) for k, r in record["writes"]),
        (),
        {plan_from_json(dim): bool(unit) for dim, unit in record["guards"]},
        tuple(zip(nodes_from_json(conditions), conditions["values"])),
        dict(record["baked"]),
        (),
    )


def as_saved(record: Mapping[str, Any], args: tuple, keywords: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Arguments by position and by name as in the saved call; ArgumentError for others."""
    count, names = record["given"]
    if len(args) == count and list(keywords) == names:
        return args, keywords
    order = record["order"]
    if order is None or len(args) > len(order):
        if len(args) != count or set(keywords) != set(names):
            raise _other_arguments(record, f"{len(args)} by position and {', '.join(keywords) or 'none'} by name")
        return args, {name: keywords[name] for name in names}
    by_name = dict(zip(order, args))
    if twice := [name for name in keywords if name in by_name]:
        raise ArgumentError(f"{twice[0]} is given twice", "argument.twice", help="give it by position or by name")
    by_name |= keywords
    wanted = [*order[:count], *names]
    if missing := [name for name in wanted if name not in by_name]:
        raise _other_arguments(record, f"no {', '.join(missing)}", "argument.missing")
    if surplus := [name for name in by_name if name not in wanted]:
        raise _other_arguments(record, ", ".join(surplus), "argument.unused")
    return tuple(by_name[name] for name in order[:count]), {name: by_name[name] for name in names}


def _other_arguments(record: Mapping[str, Any], what: str, code: str = "argument.count") -> ArgumentError:
    count, names = record["given"]
    saved_arguments = [*(record["order"] or [f"argument {k}" for k in range(count)])[:count], *names]
    form = ", ".join(saved_arguments) or "no arguments"
    message = f"{record['function']} was saved for calls with {form}; this one has {what}"
    return ArgumentError(message, code, help="call it as it was saved, or save it as it is called")
