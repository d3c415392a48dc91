"""`@fuse`: an ordinary NumPy, CuPy or torch function, traced once per signature and run as fused kernels."""

from __future__ import annotations

import copyreg
import functools
import inspect
import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from .arguments import Arguments, Describe, InsideTrace, Untraceable
from .config import Options, current
from .errors import ArgumentError, Unsupported, outside
from .interop.cloudpickle import cloud_pickles, found_by_name
from .interop.jax_arrays import as_given
from .program import Program, pipeline
from .runtime import dynamo
from .runtime.arrays import Array, Facts, Weak, describe
from .runtime.keys import look
from .runtime.overlap import overlap
from .schedule.plan import graph_to_json, plan_to_json
from .trace import Traced, trace
from .trace.home import is_array
from .trace.replay import MISSED, Replay, missed, replay

REPLAYS = 4  # warm calls of so many kinds are short
TRACES = 32  # that are kept, of one signature; the oldest go, with the arrays outside that they watch
SIGNATURES = 1024


class TracedSource:
    """A traced function as the source of one signature's graph."""

    generic = False

    def __init__(self, function: Callable, traced: Traced):
        self.traced = traced
        self.text = _source_of(function)
        self.title = getattr(function, "__qualname__", repr(function))

    def build(self, parameters, extents, options):
        """The graph that the trace gave; ArgumentError for parameters of another signature than its own."""
        graph = self.traced.graph
        if [p.type for p in parameters] != [p.type for p in graph.parameters]:
            raise ArgumentError("a trace is for one signature", "argument.signature", help="trace the function again")
        return graph, dict(self.traced.guards)

    def cache_parts(self) -> dict | None:
        """The graph that the trace gave, and the text that files show: all that is made of it depends on these alone.

        A process that finds it made has traced the function: what that does depends on more than its text.
        """
        return self._parts

    @functools.cached_property
    def _parts(self) -> dict | None:
        guards = [[plan_to_json(dim), unit] for dim, unit in self.traced.guards.items()]
        try:
            return {"traced": json.dumps([graph_to_json(self.traced.graph), guards]), "text": self.text}
        except TypeError:  # an attribute that JSON has no form for
            return None

    def header(self) -> tuple[str, ...]:
        """The function's own lines, kept to what a comment may hold."""
        lines = [line.rstrip() for line in self.text.splitlines()]
        return tuple("".join(c if 32 <= ord(c) < 127 else "?" for c in line) for line in lines[:20])


@dataclass
class _Trace:
    """One way through the function, with the program that runs it."""

    traced: Traced
    program: Program
    seconds: float  # that tracing took, until the call after it is over
    replayed: bool = False  # whether its warm calls are short already

    def applies(self, extents, numbers) -> bool:
        if not self.traced.unchanged() or not self.traced.applies(extents, numbers):
            return False
        return pipeline.guards_hold(self.traced.guards.items(), extents)


@dataclass(frozen=True)
class FusedCall:
    """One call of a fused function: the program that it runs, with what."""

    trace: _Trace
    values: list[Any]
    outs: list[Any] | None
    given: list[Any]  # the values that are the caller's
    aliased: bool  # one array stands for several arguments

    @property
    def program(self) -> Program:
        return self.trace.program

    @property
    def traced(self) -> Traced:
        return self.trace.traced

    @property
    def results(self) -> int:
        """How many the program has."""
        return len(self.traced.graph.results)

    def rebuild(self, results: Sequence[Any]) -> Any:
        """What the function returns."""
        plain = [r[()] if type(r).__module__ == "numpy" and r.shape == () else r for r in results]
        return self.traced.rebuild(as_given(plain, self.given), self.given)


class Fused:
    """A function whose calls run as fused kernels; made by `fuse`. Thread-safe.

    Arrays and Python numbers may sit in tuples, lists and dicts. Everything else is part of the signature by value.
    """

    def __init__(self, function: Callable, chosen: Options):
        functools.update_wrapper(self, function)
        self.function = function
        self.options = chosen
        self._names = _positional(function)
        self._told: set[str] = set()  # why calls ran without fusion
        self._traces: dict[Any, list[_Trace]] = {}
        self._replays: tuple[Replay, ...] = ()
        self.name = dynamo.name(self)
        dynamo.watch()

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        if dynamo.reads():
            return self._in_trace(args, keywords)
        for known in self._replays:
            if (result := known(args, keywords)) is not MISSED:
                return result
        if dynamo.traces():
            return self._in_trace(args, keywords)
        try:
            call = self.prepared(args, keywords)
            spent, call.trace.seconds = call.trace.seconds, 0.0
            results = call.program.run(call.values, call.outs, spent)
        except InsideTrace as inside:
            return inside.tracer.recorder.rebound(self.function)(*args, **keywords)
        except Untraceable as fault:
            return self._unfused(args, keywords, f"{fault.message}: {fault.help}")
        except ArgumentError as fault:
            if _is_abstract((args, keywords)):
                return self._in_trace(args, keywords)
            if fault.code != "argument.grad":
                raise
            return self._unfused(args, keywords, f"{fault.message}; torch records the function's own operations")
        except Unsupported as fault:
            if fault.code != "unsupported.autocast":
                raise
            return self._unfused(args, keywords, "torch.autocast chooses the dtypes of the function's own operations")
        if call.traced.is_idle:
            self._tell("its arguments hold numbers in lists, from which NumPy computed the result; pass arrays")
        self._remember(call, args, keywords, results)
        return call.rebuild(results)

    def _unfused(self, args: tuple, keywords: Mapping[str, Any], reason: str) -> Any:
        """What the undecorated function returns, with a word about it."""
        self._tell(reason)
        return self.function(*args, **keywords)

    def _tell(self, reason: str) -> None:
        """A RuntimeWarning that a call ran without fusion; once for a function and a reason."""
        if reason not in self._told:
            self._told.add(reason)
            name = getattr(self.function, "__qualname__", repr(self.function))
            warnings.warn(f"{name} ran without fusion: {reason}", RuntimeWarning, stacklevel=outside())

    def _remember(self, call: FusedCall, args: tuple, keywords: Mapping[str, Any], results: Sequence[Any]) -> None:
        """Make the next call like this one short. A trace that was made for one array in two places is left alone."""
        if call.program.remembers and not call.aliased and not call.trace.replayed:
            call.trace.replayed = True
            made = replay(call.traced, _again(call), args, keywords, results)
            self._replays = (made, *self._replays[: REPLAYS - 1]) if made is not missed else self._replays

    def _in_trace(self, args: tuple, keywords: Mapping[str, Any]) -> Any:
        """What a call returns that torch compiles or records: it sees one operator, or the function's operations."""
        from .interop.torch_function import called, compiled

        return compiled(self, args, keywords) if dynamo.compiles() else called(self, args, keywords)

    def prepared(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> FusedCall:
        """What a call with these arguments runs; traces the function where nothing known fits."""
        dynamo.watch()
        call = self._arguments(args, keywords)
        return self._prepared(call, self._trace(call))

    def sketched(self, args: Sequence[Any], keywords: Mapping[str, Any], described: Describe) -> FusedCall:
        """The same for arguments that may have no memory, and of which `described` tells: nothing is remembered."""
        call = self._arguments(args, keywords, described)
        return self._prepared(call, self._traced(call))

    def _arguments(self, args: Sequence[Any], keywords: Mapping[str, Any], described: Describe = describe) -> Arguments:
        return Arguments(tuple(args), keywords, described, self._names)

    def _prepared(self, call: Arguments, found: _Trace) -> FusedCall:
        if found.traced.writes and found.traced.captures:
            _check_captures(found.traced, call.facts)
        values = [*call.values, *found.traced.captures]
        outs = self._outs(found.traced, call)
        return FusedCall(found, values, outs, call.values, bool(call.aliases))

    def _outs(self, traced: Traced, call: Arguments) -> list[Any] | None:
        if not traced.writes:
            return None
        outs: list[Any] = [None] * len(traced.graph.results)
        for argument, result in traced.writes:
            facts = call.facts[argument]
            if isinstance(facts, Array) and facts.readonly:
                name = call.parameters[argument].name
                raise ArgumentError(f"the function writes to {name}, which is read-only", "argument.out",
                                    help="pass a copy of it")  # fmt: skip
            outs[result] = call.values[argument]
        return outs

    def _trace(self, call: Arguments) -> _Trace:
        """The trace that fits this call, made now if there is none."""
        if len(self._traces) > SIGNATURES:
            self._traces.clear()
        known = self._traces.setdefault(call.signature, [])
        extents, numbers = call.extents, call.numbers
        for candidate in known:
            if candidate.applies(extents, numbers):
                return candidate
        found = self._traced(call)
        known[:] = [*known[1 - TRACES :], found]
        return found

    def _traced(self, call: Arguments) -> _Trace:
        """A trace for this call."""
        start = perf_counter()
        traced = trace(
            self.function,
            *call.placeholders,
            call.extents,
            call.numbers,
            self.options,
            call.immutable,
            call.aliases,
            call.example,
        )
        names = [p.name for p in traced.graph.parameters]
        program = Program(TracedSource(self.function, traced), names, self.options)
        return _Trace(traced, program, perf_counter() - start)

    def program(self, /, *args: Any, **keywords: Any) -> tuple[Program, Facts]:
        """The program that these arguments run, and their facts."""
        call = self._arguments(args, keywords)
        found = self._trace(call)
        facts = [*call.facts, *map(describe, found.traced.captures)]
        return found.program, dict(zip(found.program.names, facts))

    def explain(self, /, *args: Any, **keywords: Any):
        """What a call with these arguments launches, and why: an Explanation, printed as text."""
        from .report.explain import explain

        call = self._arguments(args, keywords)
        found = self._trace(call)
        return explain(found.program, [*call.values, *found.traced.captures])

    def source(self, /, *args: Any, device: str | None = None, **keywords: Any) -> str:
        """The generated Python of every kernel, for "cuda" or "cpu"."""
        from .report.explain import source

        call = self._arguments(args, keywords)
        found = self._trace(call)
        return source(found.program, [*call.values, *found.traced.captures], device)

    def __reduce_ex__(self, protocol: Any) -> str | tuple:
        """Like a function, it is pickled and copied as a name of its module, and by value where cloudpickle would
        pickle a function so: of __main__, a notebook, another function's body, or a module that was registered."""
        name = self.function.__qualname__
        if cloud_pickles() and not found_by_name(self, self.function.__module__, name):
            return copyreg.__newobj__, (Fused,), (self.function, self.options)  # type: ignore[attr-defined]
        return name

    def __setstate__(self, state: tuple[Callable, Options]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A decorated method binds like a function."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<fusedsl.fuse of {getattr(self.function, '__qualname__', self.function)}>"


def _again(call: FusedCall) -> Callable[[Sequence[Any], Sequence[Any] | None], list | None]:
    """What repeats a call; one that writes, only where its arrays are as many as they were when it was traced."""
    again = call.program.again
    if call.outs is None:
        return again
    places = [k for k, value in enumerate(call.values) if is_array(value)]
    if any(not call.values[k].shape for k in places):
        return lambda values, outs: None  # their addresses are not looked at

    def apart(values: Sequence[Any], outs: Sequence[Any] | None) -> list | None:
        addresses = {look(values[k])[1] for k in places}
        return again(values, outs) if len(addresses) == len(places) else None

    return apart


def _check_captures(traced: Traced, facts: Sequence[Array | Weak]) -> None:
    """ArgumentError where the function writes an argument whose memory it also reads under a name from outside."""
    for array in map(describe, traced.captures):
        for k, _ in traced.writes:
            if overlap(facts[k], array):  # type: ignore[arg-type]
                raise ArgumentError(
                    "the function writes an argument that it also reads as an array from outside",
                    "argument.overlap",
                    help="pass the array as one argument, or a copy",
                )


def _is_abstract(values: Any) -> bool:
    """Whether a tensor among the arguments has no memory: a fake one, or one of a transformation such as vmap."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    from .interop.torch_operator import is_abstract

    return any(map(is_abstract, torch.utils._pytree.tree_leaves(values)))


def _positional(function: Callable) -> tuple[str, ...]:
    """The names of the parameters that a function takes by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def _source_of(function: Callable) -> str:
    try:
        return inspect.cleandoc(inspect.getsource(function))
    except (OSError, TypeError):
        return f"def {getattr(function, '__name__', 'function')}(...): ..."


def fuse(function: Callable | None = None, /, **changes: Any) -> Any:
    """Decorate an ordinary NumPy, CuPy or torch function: calls run as fused kernels and return what it returns.

    >>> import numpy as np
    >>> @fuse
    ... def gelu(x):
    ...     return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))
    >>> gelu(np.float32([0, 1]))
    array([0.      , 0.841192], dtype=float32)

    Keywords are options, as in `@fuse(max_kernels=1)`. `x += y`, `x[1:] = y`, `x[mask] = 0`, `x.add_(y)` and `out=`
    write the caller's array. Arrays may also sit in tuples, lists, dicts and attributes of objects, as arguments or
    outside; all of it is read at each call. A branch on an array's values is a TraceError with the line and a hint,
    and so are random numbers and arrays that would stay in an object; torch.nn.Module is Unsupported. Inside of
    torch.compile, torch.export and make_fx a call is one operator of torch's, without a break; where gradients or
    torch.func go through it, or it reads arrays from outside, it is what the function itself does.
    """
    chosen = current().changed(changes)
    if not callable(function) and function is not None:
        raise ArgumentError(
            f"fuse decorates a function, not a {type(function).__name__}",
            "argument.function",
            help="@fuse, above a def",
        )
    if function is None:
        return lambda f: Fused(f, chosen)
    return Fused(function, chosen)
