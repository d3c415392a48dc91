"""Tracing of a Python function to a graph: one call with tracers in place of its arrays and numbers."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import re
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..config import Options
from ..errors import ArgumentError, TraceError, kind_of, suggest
from ..ir.dims import Dim, Symbol
from ..ir.graph import Graph, Node, Parameter
from ..ir.interp import concrete
from .array_library import ConstantArray, LibraryDiscovered, array_classes
from .containers import DEPTH, TracedContainer
from .data_dependent_shape import BooleanSelection
from .expression_spans import Span
from .function_rewriter import FunctionRewriter
from .guards import Guard
from .numpy.lists import unwrap
from .recorder import Recorder
from .torch.size import TorchSize
from .trace_values import TraceInputs
from .tracer import Tracer

# types that are not searched for traced arrays
OPAQUE = (types.ModuleType, type, types.BuiltinFunctionType, str, bytes, int, float, complex)


@dataclass(frozen=True)
class ResultRef:
    """A leaf of the template: result `index` of the graph."""

    index: int
    number: bool = False  # returned as a Python number


@dataclass(frozen=True)
class ArgumentRef:
    """A leaf of the template: the function returns its own argument `index`."""

    index: int


@dataclass(frozen=True)
class Traced:
    """The trace of a function for arguments of one signature, and its guards.

    A call reuses it if `guards`, `conditions` and `state_guards` hold and the numbers in `baked` are the same.
    """

    graph: Graph
    template: Any  # the return value's structure; leaves: ResultRef, ArgumentRef, ConstantArray, or a value itself
    writes: tuple[tuple[int, int], ...]  # (argument, result of the graph) for each argument written in place
    captures: tuple[
        Any, ...
    ]  # arrays from outside: further arguments of the graph (without array arguments, an example)
    guards: Mapping[Dim, bool]  # whether an extent is 1
    conditions: tuple[tuple[Node, bool | int | float], ...]  # nodes on extents, with the value they had
    baked: Mapping[int, bool | int | float]  # numbers that decided a branch or shape: argument → value
    state_guards: tuple[Guard, ...]  # globals, cells and attributes that the function read
    differentiable: Graph | None = None  # the graph with marks of what derivatives take as constants; None: no marks
    expression_nodes: Callable[[], dict[Span, list[Node]]] = dict  # of each expression of the function's text

    def unchanged(self) -> bool:
        """True if every global, cell and attribute that the function read still has its value."""
        return all(guard.is_valid() for guard in self.state_guards)

    def applies(self, extents: Mapping[Symbol, int], numbers: Mapping[int, Any]) -> bool:
        """True if a call with these extents and numbers (argument → value) takes the same path through the function."""
        if any(type(numbers.get(k)) is not type(v) or numbers[k] != v for k, v in self.baked.items()):
            return False
        return all(concrete(node, self.baked, extents) == value for node, value in self.conditions)

    @property
    def is_idle(self) -> bool:
        """True if nothing was traced: NumPy computed all results from the numbers among the arguments."""
        constants: list[ConstantArray] = []
        _map_leaves(self.template, lambda leaf: constants.append(leaf) or leaf, ConstantArray)  # type: ignore[func-returns-value]
        return bool(constants and self.baked) and not self.graph.results

    def rebuild(self, results: Sequence[Any], arguments: Sequence[Any]) -> Any:
        """The return value of the function, from the graph's results and the caller's arguments."""
        return _instantiate(self.template, results, arguments)


def leaves(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Parameter]:
    """The parameters of a call, depth first: positional arguments, then keywords."""
    parameters: list[Parameter] = []
    _map_leaves((tuple(arguments), dict(keywords)), lambda p: parameters.append(p) or p, Parameter)  # type: ignore[func-returns-value]
    return parameters


def trace(function: Callable, inputs: TraceInputs, options: Options) -> Traced:
    """Trace a function of these inputs.

    Parameters may be nested in tuples, lists and dicts; they are numbered in the order of `leaves`. All other values
    are passed unchanged, so they must be part of the signature. Raises TraceError if the function needs the value of an
    array.
    """
    parameters = tuple(leaves(inputs.positional, inputs.keywords))
    try:
        return _traced(function, inputs, Recorder(function, parameters, inputs, options))
    except LibraryDiscovered as adopted:
        inputs = replace(inputs, example=adopted.example)
        return _traced(function, inputs, Recorder(function, parameters, inputs, options, library_discovered=True))


def _traced(function: Callable, inputs: TraceInputs, recorder: Recorder) -> Traced:
    """Call the function once with the recorder's tracers, and collect the graph, template, writes and guards."""
    tracers = iter(recorder.arguments)
    rewriter = FunctionRewriter(recorder)
    with recorder.tracing(function), rewriter.restored_on_error():
        traced = rewriter.rewrite(function)
        positional, named = (
            rewriter.wrap_argument(value, lambda: next(tracers))
            for value in (tuple(inputs.positional), dict(inputs.keywords))
        )
        try:
            result = traced(*positional, **named)
        except TypeError as fault:
            if (error := _wrong_call(function, fault)) is not None:
                raise error from None
            raise
        if recorder.pending_error is not None:  # the function caught it, and took another branch than it would have
            raise recorder.pending_error
        _map_leaves(result, _refuse_selection, BooleanSelection)
        nodes: list[Node] = []
        template = _map_leaves(result, lambda t: _result_leaf(recorder, t, nodes), Tracer)
        template = _map_leaves(template, unwrap, object)
        _check_result(template)
        rewriter.write_back()
    if recorder.library_discovered:
        recorder.capture(recorder.example)
    template = _map_leaves(template, ConstantArray, array_classes())
    writes = []
    for k, tracer in enumerate(recorder.arguments):
        if tracer.writes and k not in recorder.aliases:
            writes.append((k, len(nodes)))
            nodes.append(tracer.node)
    builder = recorder.builder
    return Traced(
        builder.finish(nodes),
        template,
        tuple(writes),
        tuple(recorder.captures),
        dict(builder.guards),
        tuple(recorder.conditions.items()),
        dict(recorder.baked),
        tuple(rewriter.state_guards),
        builder.differentiable(nodes),
        functools.partial(recorder.expressions.spans, builder),
    )


def _wrong_call(function: Callable, fault: TypeError) -> ArgumentError | None:
    """The error of a call that does not fit the function's signature; None for what the function itself raises."""
    if fault.__traceback__ is None or fault.__traceback__.tb_next is not None:
        return None
    unknown = re.search(r"unexpected keyword argument '(\w+)'", str(fault))
    near = suggest(unknown[1], inspect.signature(function).parameters) if unknown else None
    return ArgumentError(str(fault), "argument.call", help=f"did you mean {near}?" if near else None)


def _check_result(template: Any) -> None:
    """TraceError if a result holds traced arrays in something that is no container, as a generator or closure."""

    def left(value: Any) -> Any:
        if isinstance(value, (Generator, Coroutine, AsyncGenerator)) or _reaches_tracer(value):
            raise TraceError(
                f"the function returns {kind_of(value)}, which cannot take its arrays along",
                "trace.result",
                help="return an array, None, or a tuple, list or dict of them",
            )
        return value

    _map_leaves(template, left, object)


def _reaches_tracer(value: Any, depth: int = DEPTH) -> bool:
    """True if a tracer is reachable from a value."""
    if type(value) is Tracer or issubclass(type(value), Tracer):
        return True
    if depth == 0 or isinstance(value, (ResultRef, ArgumentRef, *OPAQUE)):
        return False
    if isinstance(value, types.FunctionType):
        parts: Any = (value.__closure__, value.__defaults__, value.__kwdefaults__)
    else:
        parts = gc.get_referents(value)
    return any(_reaches_tracer(part, depth - 1) for part in parts)


def _refuse_selection(picked: BooleanSelection) -> None:
    raise picked.fault


def _result_leaf(recorder: Recorder, tracer: Tracer, nodes: list[Node]) -> ResultRef | ArgumentRef:
    if tracer.recorder is not recorder:
        raise ArgumentError("this array belongs to another call", "trace.leak", help="return it from its own call")
    for k, argument in enumerate(recorder.arguments):
        if argument is tracer:
            return ArgumentRef(k)
    node = tracer.node
    nodes.append(recorder.builder.strong(node))
    return ResultRef(len(nodes) - 1, number=tracer.compares or (node.type.weak and not node.type.shape))


def _map_leaves(value: Any, change: Callable[[Any], Any], leaf: type | tuple[type, ...]) -> Any:
    """`value` with `change` applied to each `leaf` in its tuples, lists and dicts; `object`: to all non-containers."""
    if leaf is not object and isinstance(value, leaf):
        return change(value)
    if type(value) in (tuple, list):
        return type(value)(_map_leaves(part, change, leaf) for part in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map_leaves(part, change, leaf) for part in value))
    if isinstance(value, tuple) and hasattr(value, "n_sequence_fields"):  # torch.return_types
        return type(value)([_map_leaves(part, change, leaf) for part in value])
    if isinstance(value, TorchSize):  # a tensor's shape
        mapped = [_map_leaves(part, change, leaf) for part in value]
        return value.of_extents(mapped) if leaf is TEMPLATE_LEAVES else type(value)(mapped)
    if type(value) is dict:
        return {_key(key, change, leaf): _map_leaves(part, change, leaf) for key, part in value.items()}
    if type(value) in (OrderedDict, defaultdict, deque):
        mapped_copy = copy.copy(value)
        for key, part in enumerate(value) if type(value) is deque else value.items():
            mapped_copy[_key(key, change, leaf)] = _map_leaves(part, change, leaf)
        return mapped_copy
    if isinstance(value, TracedContainer):
        return TracedContainer(value.owner, _map_leaves(value.attributes, change, leaf))
    return change(value) if leaf is object else value


def _key(key: Any, change: Callable[[Any], Any], leaf: type | tuple[type, ...]) -> Any:
    """A dict key: changed only if `leaf` is `object`."""
    return change(key) if leaf is object else key


TEMPLATE_LEAVES = (ResultRef, ArgumentRef, ConstantArray)


def _instantiate(template: Any, results: Sequence[Any], arguments: Sequence[Any]) -> Any:
    def fill(leaf: ResultRef | ArgumentRef | ConstantArray) -> Any:
        if isinstance(leaf, ConstantArray):
            return leaf.fresh()
        if isinstance(leaf, ArgumentRef):
            return arguments[leaf.index]
        return results[leaf.index].item() if leaf.number else results[leaf.index]

    return _map_leaves(template, fill, TEMPLATE_LEAVES)
