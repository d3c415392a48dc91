"""A traced function's warm call as a few lines of generated Python: arguments to results, if the trace still holds.

It answers MISSED to anything but calls of the same form, numbers and surroundings; the general path then decides.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .function import Argument, Array, Traced
from .rebind import PLAIN, Read
from .recorder import is_array

MISSED = object()
Replay = Callable[[tuple, dict[str, Any]], Any]
Again = Callable[[Sequence[Any], "Sequence[Any] | None"], "list | None"]
"""Repeats a call with these values and outputs, if it is alike to one that was made; else None."""

# Values that are what they were where they are the same object.
FIXED = (*PLAIN, bool, np.generic, types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType, np.ufunc)


def replay(traced: Traced, again: Again, args: tuple, keywords: Mapping[str, Any], results: Sequence[Any]) -> Replay:
    """What repeats this call of the function, which gave these results."""
    if traced.writes and traced.captures:  # what is written may overlap what is read: each call looks
        return missed
    try:
        return _Writer(traced, again).write(args, keywords, results)
    except _Unknown:
        return missed


def missed(args: tuple, keywords: dict[str, Any]) -> Any:
    """The replay of what only the general path can do."""
    return MISSED


class _Unknown(Exception):
    """An argument or a result that only the general path takes."""


class _Writer:
    """The text of one replay, and the constants that it names."""

    def __init__(self, traced: Traced, again: Again):
        self.traced = traced
        self.names: dict[str, Any] = {"MISSED": MISSED, "again": again}
        self.conditions: list[str] = []

    def write(self, args: tuple, keywords: Mapping[str, Any], results: Sequence[Any]) -> Replay:
        places = [f"a{k}" for k in range(len(args))]
        lines = [f"if len(args) != {len(args)} or len(keywords) != {len(keywords)}:", "    return MISSED"]
        lines += [f"{', '.join(places)}, = args"] if places else []
        for k, name in enumerate(keywords):
            lines.append(f"b{k} = keywords.get({self._name(name)}, MISSED)")
            places.append(f"b{k}")
        values = [name for name, x in zip(places, (*args, *keywords.values())) if self._taken(name, x)]
        for k, baked in self.traced.baked.items():
            kind = f"type({values[k]}) is not {self._name(type(baked))}"
            self.conditions.append(f"{kind} or {values[k]} != {self._name(baked)}")
        self._surroundings()
        if self.conditions:
            test = " or ".join(self.conditions)
            lines += ["try:", f"    if {test}:", "        return MISSED"]
            lines += ["except (KeyError, ValueError):  # a name is gone", "    return MISSED"]
        given = ", ".join([*values, *map(self._name, self.traced.captures)])
        lines += [f"results = again(({given},), {self._outs(values)})", "if results is None:", "    return MISSED"]
        lines.append(f"return {self._template(self.traced.template, values, results)}")
        text = "\n    ".join(["def replay(args, keywords):", *lines])
        exec(compile(text, "<fusedsl replay>", "exec"), self.names)
        return self.names["replay"]

    def _name(self, value: Any) -> str:
        """A name for a constant."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def _taken(self, name: str, x: Any) -> bool:
        """Whether an argument is an array or a run-time number; any other must be the same object."""
        if is_array(x) or isinstance(x, np.generic) or (isinstance(x, (int, float)) and not isinstance(x, bool)):
            return True
        if not isinstance(x, FIXED):
            raise _Unknown
        self.conditions.append(f"{name} != {self._name(x)}" if isinstance(x, str) else f"{name} is not {self._name(x)}")
        return False

    def _surroundings(self) -> None:
        """Every name outside is what it was: the same object, or for containers and objects one that holds the same."""
        first: dict[tuple[int, str], Read] = {}
        for read in self.traced.reads:
            if first.setdefault((id(read.scope), read.name), read) is not read:
                continue
            if not isinstance(read.seen, FIXED) and not is_array(read.seen):
                self.conditions.append(f"not {self._name(read.holds)}()")
                continue
            scope = self._name(read.scope)
            cell = isinstance(read.scope, types.CellType)
            now = f"{scope}.cell_contents" if cell else f"{scope}[{self._name(read.name)}]"
            self.conditions.append(f"{now} is not {self._name(read.seen)}")

    def _outs(self, values: Sequence[str]) -> str:
        if not self.traced.writes:
            return "None"
        outs = ["None"] * len(self.traced.graph.results)
        for argument, result in self.traced.writes:
            outs[result] = values[argument]
        return f"({', '.join(outs)},)"

    def _template(self, template: Any, values: Sequence[str], results: Sequence[Any]) -> str:
        """What the function returns, as text."""
        if isinstance(template, Argument):
            return values[template.index]
        if isinstance(template, Array):
            scalar = type(results[template.index]).__module__ == "numpy" and not results[template.index].shape
            return f"results[{template.index}]" + (".item()" if template.number else "[()]" if scalar else "")
        if type(template) in (tuple, list):
            parts = "".join(f"{self._template(part, values, results)}, " for part in template)
            return f"({parts})" if type(template) is tuple else f"[{parts}]"
        if type(template) is dict:
            parts = "".join(
                f"{self._name(k)}: {self._template(part, values, results)}, " for k, part in template.items()
            )
            return f"{{{parts}}}"
        if isinstance(template, tuple) and hasattr(template, "_fields"):
            parts = ", ".join(self._template(part, values, results) for part in template)
            return f"{self._name(type(template))}({parts})"
        if isinstance(template, tuple) and hasattr(template, "n_sequence_fields"):
            parts = "".join(f"{self._template(part, values, results)}, " for part in template)
            return f"{self._name(type(template))}(({parts}))"
        if isinstance(template, FIXED):
            return self._name(template)
        raise _Unknown
