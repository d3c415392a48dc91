"""The arguments of one call of a traced function: run-time values, and the static part of the signature."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .errors import ArgumentError, FusedslError, suggest
from .interop.containers import is_labelled_type
from .ir.graph import Parameter
from .program import call_steps
from .runtime.argument_errors import type_name
from .runtime.arrays import ArrayFacts, Weak, describe
from .runtime.outputs import library_and_device
from .specs import Spec
from .trace import TraceInputs
from .trace.array_library import is_array, library
from .trace.containers import TracedContainer, attributes_of, holds_arrays, is_object
from .trace.guards import snapshot
from .trace.tracer import Tracer
from .trace.undescribed import UndescribedAttribute

Describe = Callable[[Any, str], "ArrayFacts | Weak"]
"""(argument, name) to the facts of the argument."""


class InsideTrace(Exception):
    """The call is part of another function's trace, and of its kernels."""

    def __init__(self, tracer: Tracer):
        self.tracer = tracer


class Untraceable(ArgumentError):
    """An argument has semantics that no trace follows: the call runs the plain function."""


class Arguments:
    """The arguments of one call: arrays and numbers are run-time values, everything else is part of the signature.

    `names` are those of the function's positional parameters, for messages and generated files.
    """

    def __init__(
        self, args: tuple, keywords: Mapping[str, Any], described: Describe = describe, names: Sequence[str] = ()
    ):
        self.given = args, keywords
        self.described = described
        self.names = names
        self.values: list[Any] = []
        self.facts: list[ArrayFacts | Weak] = []
        self.parameters: list[Parameter] = []
        self.labels: list[str] = []  # how the function's code reaches each parameter: x, d['p'], pair[0], layer.weight
        self.static: list[Any] = []
        self.left_out: list[Any] = []  # attributes that no call can take
        self._objects = 0  # that hold what is described
        self.placeholders = (
            tuple(self._traced(a, name) for a, name in zip(args, _positional_names(args, names))),
            {name: self._traced(a, name) for name, a in keywords.items()},
        )
        self.aliases = _aliases(self.facts)
        self.signature = (tuple(self.parameters), tuple(self.static), tuple(self.aliases.items()), self.library)

    def _traced(self, x: Any, name: str) -> Any:
        """`x` with a Parameter for every array and run-time number."""
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            self.static.append(type(x))
            return type(x)(*(self._traced(part, f"{name}.{key}") for key, part in zip(x._fields, x)))
        if isinstance(x, (tuple, list)):
            self.static.append((type(x).__name__, len(x)))
            parts = [self._traced(part, f"{name}[{k}]") for k, part in enumerate(x)]
            return tuple(parts) if isinstance(x, tuple) else parts  # torch.Size holds integers only
        if isinstance(x, dict):
            self.static.append(("dict", tuple(x)))
            return {key: self._traced(part, f"{name}[{key!r}]") for key, part in x.items()}
        if isinstance(x, Tracer):
            raise InsideTrace(x)
        labelled = is_labelled_type(type(x))
        run_time = labelled or _is_run_time(x)
        if not run_time and is_object(x) and holds_arrays(x):
            return self._traced_object(x, name)
        if run_time:
            facts = self._facts(x, name)
            if isinstance(facts, UndescribedAttribute):
                self.left_out.append(x)
                self.static.append(UndescribedAttribute)
                return facts
            self.values.append(x)
            self.facts.append(facts)
            self.labels.append(name)
            own = _fresh_name(name, {p.name for p in self.parameters})
            parameter = call_steps.signature(own, len(self.parameters), self.facts[-1])
            self.parameters.append(parameter)
            self.static.append("here")
            return parameter
        self.static.append(snapshot(x))
        return x

    def _facts(self, x: Any, name: str) -> ArrayFacts | Weak | UndescribedAttribute:
        """The facts of an array or number; an attribute that a call cannot take is an error once it is used."""
        try:
            if is_labelled_type(type(x)):
                message = f"{name} is a {type_name(type(x))}, whose own rules a trace would drop"
                raise Untraceable(message, "argument.type", help=f"pass {name}.to_numpy()")
            facts = self.described(x, name)
            if self._objects:
                library_and_device({**self._first_array, name: facts})
        except FusedslError as fault:
            if not self._objects:
                raise
            return UndescribedAttribute(fault)
        return facts

    def _traced_object(self, x: Any, name: str) -> TracedContainer:
        """A user's object with Parameters for its arrays; its other attributes are static."""
        attributes = attributes_of(x) or {}
        self.static.append((type(x), tuple(attributes)))
        fields = {}
        self._objects += 1
        for key, part in attributes.items():
            if is_array(part) or holds_arrays(part):
                fields[key] = self._traced(part, f"{name}.{key}")
            else:
                self.static.append(snapshot(part))
                fields[key] = part
        self._objects -= 1
        return TracedContainer(x, fields)

    @cached_property
    def _first_array(self) -> dict[str, ArrayFacts | Weak]:
        """The facts of the first array outside of objects, by its name: it says where a call runs."""
        args, keywords = self.given
        arguments = dict(zip(_positional_names(args, self.names), args)) | dict(keywords)
        arrays = {name: x for name, x in arguments.items() if is_array(x) and not is_labelled_type(type(x)) and x.shape}
        return {name: self.described(arrays[name], name) for name in list(arrays)[:1]}

    @property
    def unchanged(self) -> bool:
        """Whether the arguments still have this signature: a trace may have set attributes, or appended to lists."""
        return Arguments(*self.given, self.described, self.names).signature == self.signature

    @property
    def extents(self):
        return call_steps.extents_of(self.facts)

    @property
    def numbers(self) -> dict[int, Any]:
        """The values of the scalar parameters, as far as they are known."""
        known = enumerate(self.facts)
        return {k: f.value for k, f in known if isinstance(f, Weak) or (f.by_value and f.owner is not None)}

    @property
    def example(self) -> Any:
        """An array among the arguments, if possible one with axes. Specs count as NumPy arrays."""
        arrays = [v for v, f in zip(self.values, self.facts) if isinstance(f, ArrayFacts)]
        arrays = [v for v in arrays if not isinstance(v, (np.generic, Spec))]
        return next((a for a in arrays if a.shape), next(iter(arrays), None))

    @property
    def trace_inputs(self) -> TraceInputs:
        """What a trace of the function takes."""
        return TraceInputs(*self.placeholders, self.extents, self.numbers, self.immutable, self.aliases, self.example,
                           tuple(self.labels))  # fmt: skip

    @property
    def library(self) -> str:
        """The library of the arrays, whose semantics the function follows."""
        example = self.example
        return "numpy" if example is None else library(type(example))

    @property
    def immutable(self) -> frozenset[int]:
        """NumPy scalars: += rebinds them."""
        return frozenset(k for k, v in enumerate(self.values) if isinstance(v, np.generic))


def _positional_names(args: Sequence[Any], names: Sequence[str]) -> list[str]:
    """The names of positional arguments: of parameters, as far as there are any."""
    return [names[k] if k < len(names) else f"arg{k}" for k in range(len(args))]


def _aliases(facts: Sequence[ArrayFacts | Weak]) -> dict[int, int]:
    """The arguments that repeat an earlier one (argument → earlier one): a write to one is seen in both."""
    seen: dict[tuple, list[int]] = {}
    aliases = {}
    for k, a in enumerate(facts):
        if isinstance(a, ArrayFacts) and 0 not in a.shape:
            same_address = seen.setdefault((a.device, a.pointer), [])
            earlier = [e for e in same_address if _is_same(facts[e], a)]
            if earlier:
                aliases[k] = earlier[0]
            else:
                same_address.append(k)
    return aliases


def _is_same(a: Any, b: ArrayFacts) -> bool:
    """Whether two arrays at one address have the same elements at the same positions."""
    return (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides)


def _fresh_name(name: str, used: Collection[str]) -> str:
    """A name for messages and generated source: an ASCII identifier, whatever the caller's keys are, and a new one."""
    name = re.sub(r"[^A-Za-z0-9_]+$", "", name)  # the bracket of a label
    name = re.sub(r"[^A-Za-z0-9_]+|^(?=\d)", "_", name)[:40] or "_"
    return next(n for n in (name, *(f"{name}_{k}" for k in range(2, len(used) + 3))) if n not in used)


def _is_run_time(x: Any) -> bool:
    if isinstance(x, bool) or x is None or isinstance(x, (str, type)):
        return False
    try:
        return isinstance(x, (int, float)) or (hasattr(x, "dtype") and hasattr(x, "shape")) or _is_symbol(x)
    except Exception:  # an attribute raises: `describe` raises the error
        return True


def _is_symbol(x: Any) -> bool:
    """Whether this is a symbolic number of torch.compile."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, (torch.SymInt, torch.SymFloat))


def positional_names(function: Callable) -> tuple[str, ...]:
    """The names of the parameters that a function takes by position."""
    return tuple(p.name for p in _parameters(function) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def keyword_names(function: Callable) -> frozenset[str]:
    """The names of the parameters that a function takes by keyword."""
    return frozenset(p.name for p in _parameters(function) if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD))


def check_options(function: Callable, named: Mapping[str, Any], options: Collection[str]) -> None:
    """ArgumentError for a keyword that the function does not take, and that is nearly an option."""
    parameters = _parameters(function)
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    for name in named.keys() - {p.name for p in parameters}:
        if near := suggest(name, options):
            what = f"unexpected argument {name!r}: the function does not take it"
            raise ArgumentError(what, "argument.unused", help=f"did you mean {near}?")


def _parameters(function: Callable) -> Collection[inspect.Parameter]:
    try:
        return inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin
        return ()
