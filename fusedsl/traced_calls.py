"""The program of a traced function for one signature, its calls, and what repeats them."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .arguments import Arguments, Untraceable
from .errors import ArgumentError, FusedslError
from .interop.jax_arrays import as_given
from .ir.graph import Node
from .kernel_ir.plan import graph_to_json, plan_to_json
from .program import Program, call_steps
from .runtime.argument_keys import argument_key
from .runtime.arrays import ArrayFacts, Weak, describe
from .runtime.memory_overlap import overlap
from .trace import Traced
from .trace.array_library import is_array
from .trace.expression_spans import FunctionText, Span


class TracedSource:
    """A traced function as the source of one signature's graph."""

    generic = False

    def __init__(self, function: Callable, traced: Traced):
        self.traced = traced
        self.text = source_of(function)
        self.title = getattr(function, "__qualname__", repr(function))

    def expression_nodes(self) -> dict[Span, list[Node]]:
        """The nodes that each expression of the text makes."""
        return self.traced.expression_nodes()

    def build(self, parameters, extents, options):
        """The graph of the trace; ArgumentError for parameters of another signature than its own."""
        graph = self.traced.graph
        if [p.type for p in parameters] != [p.type for p in graph.parameters]:
            raise ArgumentError("a trace is for one signature", "argument.signature", help="trace the function again")
        return graph, dict(self.traced.guards)

    def build_differentiable(self, parameters, extents, options):
        """`build` for a graph that will be differentiated."""
        graph, guards = self.build(parameters, extents, options)
        return self.traced.differentiable or graph, guards

    def cache_parts(self) -> dict | None:
        """The graph of the trace, and the program in generated files: plans depend on these alone.

        The trace itself is not cached: it depends on more than the function's text.
        """
        return self._parts

    def differentiable_parts(self) -> dict | None:
        """What the plans of a gradient depend on."""
        parts, graph = self.cache_parts(), self.traced.differentiable
        if parts is None or graph is None or graph == self.traced.graph:
            return parts
        return {**parts, "differentiable": json.dumps(graph_to_json(graph))}

    @functools.cached_property
    def _parts(self) -> dict | None:
        guards = [[plan_to_json(dim), unit] for dim, unit in self.traced.guards.items()]
        try:
            return {"traced": json.dumps([graph_to_json(self.traced.graph), guards]), "text": self.text}
        except TypeError:  # an attribute that JSON has no form for
            return None

    def header(self) -> tuple[str, ...]:
        """The function's own lines, restricted to characters of a comment."""
        lines = [line.rstrip() for line in self.text.splitlines()]
        return tuple("".join(c if 32 <= ord(c) < 127 else "?" for c in line) for line in lines[:20])


@dataclass
class Trace:
    """One path through the function, with the program that runs it."""

    traced: Traced
    program: Program
    seconds: float  # that tracing took, until the call after it is over
    is_warm: bool = False  # whether its warm calls are short already

    def applies(self, extents, numbers) -> bool:
        if not self.traced.unchanged() or not self.traced.applies(extents, numbers):
            return False
        return call_steps.guards_hold(self.traced.guards.items(), extents)


@dataclass(frozen=True)
class FusedCall:
    """One call of a fused function: its program and values."""

    trace: Trace
    values: list[Any]
    outs: list[Any] | None
    given: list[Any]  # the values that are the caller's
    aliased: bool  # one array stands for several arguments
    left_out: list[Any]  # attributes that no call can take, which the function does not read

    @property
    def program(self) -> Program:
        return self.trace.program

    @property
    def traced(self) -> Traced:
        return self.trace.traced

    @property
    def results(self) -> int:
        """The number of the program's results."""
        return len(self.traced.graph.results)

    def rebuild(self, results: Sequence[Any]) -> Any:
        """The function's return value, from the program's results."""
        plain = [r[()] if type(r).__module__ == "numpy" and r.shape == () else r for r in results]
        return self.traced.rebuild(as_given(plain, self.given), self.given)


def repeat_call(call: FusedCall) -> Callable[[Sequence[Any], Sequence[Any] | None], list | None]:
    """A function that repeats a call; a call that writes is repeated only if no further arrays alias."""
    again = call.program.again
    if call.outs is None:
        return again
    arrays = [k for k, value in enumerate(call.values) if is_array(value)]
    if any(not call.values[k].shape for k in arrays):
        return lambda values, outs: None  # their addresses are not read

    def separate_outputs(values: Sequence[Any], outs: Sequence[Any] | None) -> list | None:
        addresses = {argument_key(values[k])[1] for k in arrays}
        return again(values, outs) if len(addresses) == len(arrays) else None

    return separate_outputs


def bind_call(trace: Trace, call: Arguments) -> FusedCall:
    """A call of a trace with these arguments; ArgumentError if it writes what it may not."""
    traced = trace.traced
    if traced.writes and traced.captures:
        check_captures(traced, call.facts)
    return FusedCall(
        trace, [*call.values, *traced.captures], _outs(traced, call), call.values, bool(call.aliases), call.left_out
    )


def _outs(traced: Traced, call: Arguments) -> list[Any] | None:
    """The arguments that the function writes, in the places of the results that go there; None if it writes none."""
    if not traced.writes:
        return None
    outs: list[Any] = [None] * len(traced.graph.results)
    for argument, result in traced.writes:
        facts = call.facts[argument]
        if isinstance(facts, ArrayFacts) and facts.readonly:
            name = call.parameters[argument].name
            raise ArgumentError(f"the function writes to {name}, which is read-only", "argument.out",
                                help="pass a copy of it")  # fmt: skip
        outs[result] = call.values[argument]
    return outs


def check_captures(traced: Traced, facts: Sequence[ArrayFacts | Weak]) -> None:
    """ArgumentError if the function writes an argument whose memory it also reads as a captured array."""
    for array in map(describe, traced.captures):
        for k, _ in traced.writes:
            if overlap(facts[k], array):  # type: ignore[arg-type]
                raise ArgumentError(
                    "the function writes an argument that it also reads as an array from outside",
                    "argument.overlap",
                    help="pass the array as one argument, or a copy",
                )


def source_of(function: Callable) -> str:
    """The lines of a function without the indentation that all have."""
    return FunctionText(function).text


def has_abstract(values: Any) -> bool:
    """Whether a tensor among the arguments has no memory: a fake one, or one of a transformation such as vmap."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    from .interop.torch_operator import is_abstract

    return any(map(is_abstract, torch.utils._pytree.tree_leaves(values)))


def why_unfused(fault: FusedslError) -> str | None:
    """Why a call runs the undecorated function instead of raising; None if it raises."""
    if isinstance(fault, Untraceable):
        return f"{fault.message}: {fault.help}"
    if fault.code == "argument.grad":
        return f"{fault.message}; torch records the function's own operations"
    if fault.code == "unsupported.autocast":
        return "torch.autocast chooses the dtypes of the function's own operations"
    return None
