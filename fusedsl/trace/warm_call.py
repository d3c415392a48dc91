"""Warm calls of traced functions: generated Python that checks the guards, repeats the launch and builds the results.

It returns MISSED if the arguments' structure, baked numbers or guarded state differ; the general path then runs.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..generated_code import NotRepeatable, WarmCallBuilder
from .array_library import is_array
from .containers import attributes_of, holds_arrays, is_object
from .function import ArgumentRef, ResultRef, Traced
from .guards import PLAIN, AmbientState, Guard, snapshot

MISSED = object()
WarmCall = Callable[[tuple, dict[str, Any]], Any]
Repeat = Callable[[Sequence[Any], "Sequence[Any] | None"], "list | None"]
"""Repeats a prepared call with these values and outputs; None if none matches."""

# Types whose values are compared by identity.
COMPARED_BY_IDENTITY = (
    *PLAIN,
    bool,
    np.generic,
    types.ModuleType,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    np.ufunc,
)


def build_warm_call(
    traced: Traced, again: Repeat, args: tuple, keywords: Mapping[str, Any], results: Sequence[Any], left_out=()
) -> WarmCall:
    """The generated warm call for a call of these arguments and results; `no_warm_call` if it cannot be generated.

    Attributes that are `left_out` are not read.
    """
    if traced.writes and traced.captures:  # outputs may overlap captures: each call must check
        return no_warm_call
    try:
        return FunctionWarmCall(traced, again, left_out).build(args, keywords, results)
    except NotRepeatable:
        return no_warm_call


def no_warm_call(args: tuple, keywords: dict[str, Any]) -> Any:
    """The warm call of functions that only the general path can run."""
    return MISSED


class FunctionWarmCall(WarmCallBuilder):
    """The warm call of a traced function."""

    miss = "MISSED"

    def __init__(self, traced: Traced, again: Repeat, left_out: Sequence[Any]):
        super().__init__()
        self.left_out = {id(x) for x in left_out}
        self.traced = traced
        self.names |= {"MISSED": MISSED, "again": again}
        self.conditions: list[str] = []

    def build(self, args: tuple, keywords: Mapping[str, Any], results: Sequence[Any]) -> WarmCall:
        names = [f"a{k}" for k in range(len(args))]
        self.unless(f"len(args) != {len(args)}", f"len(keywords) != {len(keywords)}")
        if names:
            self.add(f"{', '.join(names)}, = args")
        for k, name in enumerate(keywords):
            self.add(f"b{k} = keywords.get({self.name(name)}, MISSED)")
            names.append(f"b{k}")
        values = [v for name, x in zip(names, (*args, *keywords.values())) for v in self._inputs(name, x)]
        for k, baked in self.traced.baked.items():
            self._miss_if(self.other_type(values[k], baked), f"{values[k]} != {self.name(baked)}")
        self._check_guards()
        if self.conditions:
            test = " or ".join(self.conditions)
            self.attempt("(KeyError, ValueError)", f"if {test}:", "    return MISSED")  # a name is gone
        given = "".join(f"{name}, " for name in (*values, *map(self.name, self.traced.captures)))
        self.add(f"results = again(({given}), {self._outs(values)})")
        self.unless("results is None")
        self.add(f"return {self._template(self.traced.template, values, results)}")
        return self.function("warm_call", "args, keywords")

    def _inputs(self, name: str, x: Any) -> list[str]:
        """The arrays and run-time numbers of an argument, in call order; adds checks for its other values."""
        if id(x) in self.left_out:
            return []
        if is_array(x) or isinstance(x, np.generic) or (isinstance(x, (int, float)) and not isinstance(x, bool)):
            return [name]
        if isinstance(x, (tuple, list)):
            self._miss_if(self.other_type(name, x), f"len({name}) != {len(x)}")
            return [v for k, part in enumerate(x) for v in self._inputs(f"{name}[{k}]", part)]
        if isinstance(x, dict):
            self._miss_if(f"type({name}) is not dict", f"tuple({name}) != {self.name(tuple(x))}")
            return [v for key, part in x.items() for v in self._inputs(f"{name}[{self.name(key)}]", part)]
        if is_object(x) and holds_arrays(x):
            return self._object(name, x)
        self._check_unchanged(name, x)
        return []

    def _object(self, name: str, x: Any) -> list[str]:
        """The arrays of a user object; adds checks for its other attributes."""
        attributes = attributes_of(x) or {}
        self._miss_if(self.other_type(name, x))
        if type(getattr(x, "__dict__", None)) is not dict or len(attributes) != len(vars(x)):
            raise NotRepeatable  # slots
        self._miss_if(f"tuple({name}.__dict__) != {self.name(tuple(attributes))}")
        inputs = []
        for key, part in attributes.items():
            attribute = f"{name}.__dict__[{self.name(key)}]"
            if is_array(part) or holds_arrays(part):
                inputs += self._inputs(attribute, part)
            else:
                self._check_unchanged(attribute, part)
        return inputs

    def _check_unchanged(self, name: str, x: Any) -> None:
        """Add a check that a value is unchanged: identical, or equal for plain values."""
        if isinstance(x, (str, int, float, bytes)):
            self._miss_if(self.other_type(name, x), f"{name} != {self.name(x)}")
        elif isinstance(x, COMPARED_BY_IDENTITY):
            self._miss_if(f"{name} is not {self.name(x)}")
        else:
            self._miss_if(f"{self.name(snapshot)}({name}) != {self.name(snapshot(x))}")

    def _miss_if(self, *conditions: str) -> None:
        self.conditions += conditions

    def _check_guards(self) -> None:
        """Add the guards on outside state: by identity, or by snapshot for containers and objects."""
        first: dict[tuple[int, str], Guard] = {}
        for guard in self.traced.state_guards:
            if first.setdefault((id(guard.scope), guard.name), guard) is not guard:
                continue
            if isinstance(guard.scope, AmbientState):
                self._miss_if(f"{self.name(guard.scope.now)}() != {self.name(guard.expected)}")
                continue
            if not isinstance(guard.original, COMPARED_BY_IDENTITY) and not is_array(guard.original):
                self._miss_if(f"not {self.name(guard.is_valid)}()")
                continue
            scope = self.name(guard.scope)
            cell = isinstance(guard.scope, types.CellType)
            now = f"{scope}.cell_contents" if cell else f"{scope}[{self.name(guard.name)}]"
            self._miss_if(f"{now} is not {self.name(guard.original)}")

    def _outs(self, values: Sequence[str]) -> str:
        if not self.traced.writes:
            return "None"
        outs = ["None"] * len(self.traced.graph.results)
        for argument, result in self.traced.writes:
            outs[result] = values[argument]
        return f"({', '.join(outs)},)"

    def _template(self, template: Any, values: Sequence[str], results: Sequence[Any]) -> str:
        """The return expression of the function."""
        if isinstance(template, ArgumentRef):
            return values[template.index]
        if isinstance(template, ResultRef):
            scalar = type(results[template.index]).__module__ == "numpy" and not results[template.index].shape
            return f"results[{template.index}]" + (".item()" if template.number else "[()]" if scalar else "")
        if type(template) in (tuple, list):
            parts = "".join(f"{self._template(part, values, results)}, " for part in template)
            return f"({parts})" if type(template) is tuple else f"[{parts}]"
        if type(template) is dict:
            parts = "".join(f"{self.name(k)}: {self._template(x, values, results)}, " for k, x in template.items())
            return f"{{{parts}}}"
        if isinstance(template, tuple) and hasattr(template, "_fields"):
            parts = ", ".join(self._template(part, values, results) for part in template)
            return f"{self.name(type(template))}({parts})"
        if isinstance(template, tuple) and hasattr(template, "n_sequence_fields"):
            parts = "".join(f"{self._template(part, values, results)}, " for part in template)
            return f"{self.name(type(template))}(({parts}))"
        if isinstance(template, COMPARED_BY_IDENTITY):
            return self.name(template)
        raise NotRepeatable
