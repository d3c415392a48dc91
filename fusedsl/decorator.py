"""`@fuse`: an ordinary NumPy, CuPy or torch function, traced once per signature and run as fused kernels."""

from __future__ import annotations

import copyreg
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from . import metric_counts
from .arguments import Arguments, Describe, InsideTrace, Untraceable, check_options, keyword_names, positional_names
from .config import Options, current
from .context_values import inside
from .errors import ArgumentError, FusedslError, caller_stacklevel, fold, kind_of, public_api, trimmed
from .fused_method import FusedMethod
from .inspection import GivenCall, Inspectable, Inspected, SavedCall, check_save_keywords, split_options
from .interop.cloudpickle import cloud_pickles, found_by_name
from .profiler_ranges import profiled_calls
from .program import Program
from .runtime import dynamo
from .runtime.arrays import Facts, describe, recorded
from .specs import described
from .trace import trace
from .trace.numba_functions import python_function
from .trace.warm_call import MISSED, WarmCall, build_warm_call, no_warm_call
from .traced_calls import FusedCall, Trace, TracedSource, bind_call, has_abstract, repeat_call, source_of, why_unfused

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .config import OptionChanges

WARM_CALLS = 4  # kinds of calls that generated code repeats
TRACES = 32  # of one signature; the oldest are dropped, with the captured arrays that they watch
SIGNATURES = 1024

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
Owner = TypeVar("Owner")


@profiled_calls(lambda fused: fused._title)
class Fused(Inspectable, Generic[P, R]):
    """A function whose calls run as fused kernels; made by `fuse`. Thread-safe.

    Arrays and Python numbers may sit in tuples, lists and dicts. Everything else is part of the signature by value.
    """

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[P, R], chosen: Options):
        function = python_function(function) or function
        functools.update_wrapper(self, function)
        self.function = function
        self.options = chosen
        self._names, self._keywords = positional_names(function), keyword_names(function)
        self._warned: set[str] = set()  # reasons that were warned of
        self._traces: dict[Any, list[Trace]] = {}
        self._warm_calls: tuple[WarmCall, ...] = ()
        self._labelled_calls: Any = None  # LabelledCalls, once there is such a call
        self.name = dynamo.name(self)
        dynamo.watch()

    def __call__(self, /, *args: P.args, **keywords: P.kwargs) -> R:
        if dynamo.reads():
            return self._in_trace(args, keywords)
        for warm_call in self._warm_calls:
            if (result := warm_call(args, keywords)) is not MISSED:
                return result
        try:
            return self._in_trace(args, keywords) if dynamo.traces() else self._run(args, keywords)
        except FusedslError as fault:
            if fold(fault):
                raise
            raise trimmed(fault) from fault.__cause__
        except Exception as fault:
            fold(fault)
            raise

    def _run(self, args: tuple, keywords: dict[str, Any]) -> Any:
        """The result of a call that is not warm."""
        try:
            call = self.prepared(args, keywords)
            spent, call.trace.seconds = call.trace.seconds, 0.0
            results = call.program.run(call.values, call.outs, spent)
        except InsideTrace as inside:
            return inside.tracer.recorder.rewrite(self.function)(*args, **keywords)
        except FusedslError as fault:
            if isinstance(fault, ArgumentError) and has_abstract((args, keywords)):
                return self._in_trace(args, keywords)
            if isinstance(fault, Untraceable):
                from .labelled_calls import LabelledCalls

                self._labelled_calls = self._labelled_calls or LabelledCalls(self.prepared)
                try:
                    return self._labelled_calls.run(args, keywords)
                except Untraceable as other:
                    fault = other
            reason, records = why_unfused(fault), fault.code == "argument.grad"
            if reason is None:
                raise
        else:
            if call.traced.is_idle:
                self.warn_unfused(
                    "its arguments hold numbers in lists, from which NumPy computed the result; pass arrays"
                )
            self._remember(call, args, keywords, results)
            return call.rebuild(results)
        if records and (recordable := self._recordable(args, keywords)) is not None:
            from .interop import torch_gradients

            return recordable.rebuild(torch_gradients.run(recordable.program, recordable.values))
        metric_counts.count("fusedsl_unfused_calls")
        self.warn_unfused(reason)
        return self.function(*args, **keywords)

    def warn_unfused(self, reason: str) -> None:
        """Warn that a call ran without fusion; once for a function and a reason."""
        if reason not in self._warned:
            self._warned.add(reason)
            name = getattr(self.function, "__qualname__", repr(self.function))
            warnings.warn(f"{name} ran without fusion: {reason}", RuntimeWarning, stacklevel=caller_stacklevel())

    def _remember(self, call: FusedCall, args: tuple, keywords: Mapping[str, Any], results: Sequence[Any]) -> None:
        """Build a warm call for calls like this one; none for a trace with one array in two places."""
        if call.program.has_prepared_calls and not call.aliased and not call.trace.is_warm:
            call.trace.is_warm = True
            new = build_warm_call(call.traced, repeat_call(call), args, keywords, results, call.left_out)
            self._warm_calls = (
                (new, *self._warm_calls[: WARM_CALLS - 1]) if new is not no_warm_call else self._warm_calls
            )

    def _in_trace(self, args: tuple, keywords: Mapping[str, Any]) -> Any:
        """The result of a call that torch compiles or records: one operator, or the function's operations."""
        from .interop.torch_function import call_eager, call_in_compile

        return call_in_compile(self, args, keywords) if dynamo.compiles() else call_eager(self, args, keywords)

    def prepared(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> FusedCall:
        """The program and values of a call with these arguments; traces the function if no known trace fits."""
        dynamo.watch()
        call = self._arguments(args, keywords)
        return bind_call(self._trace(call), call)

    def _recordable(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> FusedCall | None:
        """`prepared` for a call that torch's autograd records; None if the function writes an argument."""
        with inside(recorded, True):
            call = self.prepared(args, keywords)
        return call if call.outs is None else None

    def prepare_abstract(self, args: Sequence[Any], keywords: Mapping[str, Any], described: Describe) -> FusedCall:
        """`prepared` for arguments that may have no memory, whose facts `described` gives: nothing is cached."""
        call = self._arguments(args, keywords, described)
        return bind_call(self._traced(call), call)

    def _arguments(self, args: Sequence[Any], keywords: Mapping[str, Any], described: Describe = describe) -> Arguments:
        return Arguments(tuple(args), keywords, described, self._names)

    def _trace(self, call: Arguments) -> Trace:
        """The trace that fits this call, made now if there is none."""
        if len(self._traces) > SIGNATURES:
            self._traces.clear()
        traces = self._traces.setdefault((call.signature, recorded.get()), [])
        extents, numbers = call.extents, call.numbers
        for candidate in traces:
            if candidate.applies(extents, numbers):
                return candidate
        new = self._traced(call)
        if new.traced.unchanged() and call.unchanged:
            traces[:] = [*traces[1 - TRACES :], new]
        else:  # the function has changed what it reads: it runs again at each call
            new.is_warm = True
        return new

    def _traced(self, call: Arguments) -> Trace:
        """A new trace for this call."""
        start = perf_counter()
        traced = trace(self.function, call.trace_inputs, self.options)
        names = [p.name for p in traced.graph.parameters]
        program = Program(TracedSource(self.function, traced), names, self.options)
        return Trace(traced, program, perf_counter() - start)

    def program(self, /, *args: Any, **keywords: Any) -> tuple[Program, Facts]:
        """The program that these arguments run, and their facts."""
        call = self._arguments(args, keywords)
        path = self._trace(call)
        facts = [*call.facts, *map(describe, path.traced.captures)]
        return path.program, dict(zip(path.program.names, facts))

    def _inspect(self, given: GivenCall, look: Callable[..., Inspected]) -> Inspected:
        call, chosen = self._split_options(given)
        path = self._trace(call)
        return look(path.program, [*call.values, *path.traced.captures], **chosen)

    def _to_save(self, given: GivenCall) -> SavedCall:
        from .aot.function import Retraced, function_to_json

        check_save_keywords(given.named, self._keywords)
        call, targets = self._split_options(given)
        traced = self._trace(call).traced
        source = Retraced(self.function, call, traced, source_of(self.function), self.options)
        names = [p.name for p in traced.graph.parameters]
        record = function_to_json(self.function, call, traced, source.text)
        return SavedCall(record, Program(source, names, self.options), call.values, targets)

    @property
    def _title(self) -> str:
        return self.__qualname__

    def _split_options(self, given: GivenCall) -> tuple[Arguments, dict[str, Any]]:
        """The arguments, and the options that were given beside them."""
        free = self._keywords.difference(self._names[: len(given.args)])
        keywords, chosen = split_options(given.named, free, given.options)
        if not keywords.keys() <= self._keywords:
            check_options(self.function, keywords, given.options)
        return self._arguments(given.args, keywords, described), chosen

    def __reduce_ex__(self, protocol: Any) -> str | tuple:
        """Like a function, it is pickled and copied as a name of its module, and by value where cloudpickle would
        pickle a function so: of __main__, a notebook, another function's body, or a module that was registered."""
        name = self.function.__qualname__
        if cloud_pickles() and not found_by_name(self, self.function.__module__, name):
            return copyreg.__newobj__, (Fused,), (self.function, self.options)  # type: ignore[attr-defined]
        return name

    def __setstate__(self, state: tuple[Callable, Options]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Fused[P, R]: ...

    @overload
    def __get__(
        self: Fused[Concatenate[Owner, Q], R], instance: Owner, owner: type | None = None
    ) -> Callable[Q, R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A decorated method binds like a function."""
        return self if instance is None else FusedMethod(self, instance)

    def __repr__(self) -> str:
        return f"<fusedsl.fuse of {getattr(self.function, '__qualname__', self.function)}>"

    def _repr_html_(self) -> str:
        from .report.page.notebook import program_html

        return program_html("fusedsl.fuse of", getattr(self.function, "__qualname__", ""), source_of(self.function))


@overload
def fuse(function: Callable[P, R], /, **changes: Unpack[OptionChanges]) -> Fused[P, R]: ...


@overload
def fuse(function: None = None, /, **changes: Unpack[OptionChanges]) -> Callable[[Callable[P, R]], Fused[P, R]]: ...


@public_api
def fuse(function: Callable | None = None, /, **changes: Any) -> Any:
    """Decorate an ordinary NumPy, CuPy or torch function: calls run as fused kernels and return what it returns.

    >>> import numpy as np
    >>> import fusedsl as fd
    >>> @fd.fuse
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
            f"fuse decorates a function, not {kind_of(function)}",
            "argument.function",
            help="write fusedsl.kernel(expression)" if isinstance(function, str) else "@fuse, above a def",
        )
    if function is None:
        return lambda f: Fused(f, chosen)
    return Fused(function, chosen)
