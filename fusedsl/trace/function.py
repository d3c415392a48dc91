"""A Python function to a graph: calls the function once with tracers in place of its arrays and numbers."""

from __future__ import annotations

import copy
import gc
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..config import Options
from ..errors import ArgumentError, TraceError
from ..ir.dims import Dim, Symbol
from ..ir.graph import Graph, Node, Parameter
from .array_library import ConstantArray, LibraryDiscovered, array_classes
from .boolean_selection import BooleanSelection
from .containers import DEPTH, TracedContainer
from .function_rewriter import FunctionRewriter
from .guards import Guard
from .numpy.lists import unwrap
from .recorder import Recorder, concrete
from .torch.size import TorchSize
from .tracer import Tracer

# what is not looked into for traced arrays
OPAQUE = (types.ModuleType, type, types.BuiltinFunctionType, str, bytes, int, float, complex)


@dataclass(frozen=True)
class ResultRef:
    """A result of the function that is result `index` of the graph; a `number` is returned as Python's."""

    index: int
    number: bool = False


@dataclass(frozen=True)
class ArgumentRef:
    """A result of the function that is its own argument `index`, written or not."""

    index: int


@dataclass(frozen=True)
class Traced:
    """What a function does to arguments of one signature, and what that holds under.

    `template` has the structure of what the function returns (tuples, lists, dicts), with `ResultRef`, `ArgumentRef` and
    `ConstantArray` at its leaves; anything else is returned as it is. `writes` are pairs (argument, result of the graph):
    arrays of the caller that the function changes. `captures` are arrays that it reads from outside, as further
    arguments of the graph after its own; where no argument is an array, one of them says whose arrays it returns. A
    call may reuse the trace where `guards` (is this extent 1) and `conditions` (nodes on extents with the value they
    had) hold, the numbers of `baked` (argument → value) are the same, and `state_guards` (names outside the function) are
    unchanged.
    """

    graph: Graph
    template: Any
    writes: tuple[tuple[int, int], ...]
    captures: tuple[Any, ...]
    guards: Mapping[Dim, bool]
    conditions: tuple[tuple[Node, bool | int | float], ...]
    baked: Mapping[int, bool | int | float]
    state_guards: tuple[Guard, ...]

    def unchanged(self) -> bool:
        """Whether every name that the function reads from outside still has the value it had."""
        return all(read.is_valid() for read in self.state_guards)

    def applies(self, extents: Mapping[Symbol, int], numbers: Mapping[int, Any]) -> bool:
        """Whether a call with these extents and numbers (argument → value) takes the same way through the function."""
        if any(type(numbers.get(k)) is not type(v) or numbers[k] != v for k, v in self.baked.items()):
            return False
        return all(concrete(node, self.baked, extents) == value for node, value in self.conditions)

    @property
    def is_idle(self) -> bool:
        """Whether nothing was traced: NumPy computed what the function returns, from the numbers that it was given."""
        constants: list[ConstantArray] = []
        _map_leaves(self.template, lambda one: constants.append(one) or one, ConstantArray)  # type: ignore[func-returns-value]
        return bool(constants and self.baked) and not self.graph.results

    def rebuild(self, results: Sequence[Any], arguments: Sequence[Any]) -> Any:
        """What the function returns, from the graph's results and the caller's arguments."""
        return _instantiate(self.template, results, arguments)


def leaves(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Parameter]:
    """The parameters of a call in their order: its positional arguments, then its keywords, depth first."""
    parameters: list[Parameter] = []
    _map_leaves((tuple(arguments), dict(keywords)), lambda p: parameters.append(p) or p, Parameter)  # type: ignore[func-returns-value]
    return parameters


def trace(
    function: Callable,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    extents: Mapping[Symbol, int],
    numbers: Mapping[int, Any],
    options: Options,
    immutable: frozenset[int] = frozenset(),
    aliases: Mapping[int, int] | None = None,
    example: Any = None,
) -> Traced:
    """Trace `function(*arguments, **keywords)`, in which each array and run-time number is a `Parameter`.

    Parameters may sit in tuples, lists and dicts, and are counted in the order of `leaves`; everything else is
    passed as it is, so it must be part of the signature. `numbers` are the values of the scalars (argument → value),
    used only where the function needs them to go on. `immutable` are arguments that `+=` does not write (NumPy
    scalars; weak numbers never are), `aliases` arguments that are an earlier one once more, `example` an array of the
    call (None: NumPy's), whose library has its own rules. Raises TraceError where the function asks for the value of
    an array.
    """
    parameters, aliases = tuple(leaves(arguments, keywords)), aliases or {}
    given = parameters, extents, numbers, options, immutable, aliases
    try:
        return _traced(function, arguments, keywords, Recorder(*given, example))
    except LibraryDiscovered as adopted:
        return _traced(function, arguments, keywords, Recorder(*given, adopted.example, library_discovered=True))


def _traced(function: Callable, arguments: Sequence[Any], keywords: Mapping[str, Any], recorder: Recorder) -> Traced:
    """What one call of the function gave to a recorder."""
    tracers = iter(recorder.arguments)
    rewriter = FunctionRewriter(recorder)
    with recorder.tracing(function), rewriter.restored_on_error():
        traced = rewriter.rewrite(function)
        positional, named = (
            rewriter.wrap_argument(value, lambda: next(tracers)) for value in (tuple(arguments), dict(keywords))
        )
        result = traced(*positional, **named)
        if recorder.pending_error is not None:  # the function caught it, and went another way than it would have
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
    )


def _check_result(template: Any) -> None:
    """TraceError for what would carry traced arrays out of the trace: they are in other things than containers."""

    def left(value: Any) -> Any:
        if isinstance(value, (Generator, Coroutine, AsyncGenerator)) or _reaches_tracer(value):
            raise TraceError(
                f"the function returns a {type(value).__name__}, which cannot take its arrays along",
                code="trace.result",
                help="return an array, None, or a tuple, list or dict of them",
            )
        return value

    _map_leaves(template, left, object)


def _reaches_tracer(value: Any, depth: int = DEPTH) -> bool:
    """Whether a traced array is within reach of a value."""
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
        raise ArgumentError("this array belongs to another call", code="trace.leak", help="return it from its own call")
    for k, argument in enumerate(recorder.arguments):
        if argument is tracer:
            return ArgumentRef(k)
    node = tracer.node
    nodes.append(recorder.builder.strong(node))
    return ResultRef(len(nodes) - 1, number=tracer.compares or (node.type.weak and not node.type.shape))


def _map_leaves(value: Any, change: Callable[[Any], Any], leaf: type | tuple[type, ...]) -> Any:
    """`value` with every `leaf` in its tuples, lists and dicts changed; of `object`, all that is no such container."""
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
    """A dict's key: no array, and looked at where everything is."""
    return change(key) if leaf is object else key


TEMPLATE_LEAVES = (ResultRef, ArgumentRef, ConstantArray)  # what stands in a template


def _instantiate(template: Any, results: Sequence[Any], arguments: Sequence[Any]) -> Any:
    def fill(leaf: ResultRef | ArgumentRef | ConstantArray) -> Any:
        if isinstance(leaf, ConstantArray):
            return leaf.fresh()
        if isinstance(leaf, ArgumentRef):
            return arguments[leaf.index]
        return results[leaf.index].item() if leaf.number else results[leaf.index]

    return _map_leaves(template, fill, TEMPLATE_LEAVES)
