"""`foreach`: one kernel over lists of arrays of unequal shapes, in as few launches as their parameters fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from .api import Kernel
from .config import split_options
from .decorator import Fused
from .errors import ArgumentError, CompileError, kind_of, public_api
from .evaluation import kernel_of
from .foreach_arguments import (
    CallCache,
    has_static_integers,
    is_list,
    length_of_lists,
    listed_argument,
    output_list_key,
    outputs_by_result,
)
from .fused_method import FusedMethod
from .interop.containers import is_container
from .program import Program, forget_hooks
from .program.first_call import record_first_call, require_in_range
from .program.prepare_call import EmptyRows
from .program.prepare_foreach import ForeachCall, prepare_foreach, resolve_lists
from .runtime import dynamo
from .runtime.argument_keys import (
    SLOW,
    TensorListKey,
    addresses_of,
    all_argument_keys,
    argument_key,
    list_argument_key,
    output_keys,
)
from .runtime.arrays import describe
from .runtime.batched_call import BatchedCall
from .runtime.host_device_copies import runs_on_other_device

_call_caches: WeakKeyDictionary[Kernel | Fused, CallCache] = WeakKeyDictionary()
forget_hooks.append(_call_caches.clear)


@public_api
def foreach(kernel: Any, /, *args: Any, out: Any = None, **named: Any) -> Any:
    """The results of a kernel for the first elements of all lists, for the second, and so on, in one launch.

    `kernel` is a Kernel, an expression (its keywords may be options, as in `evaluate`) or a function under `fuse`. Each
    argument is a list (or tuple) of arrays or numbers, all of one length, or one array or number for all calls.
    The shapes of different calls need not have anything in common. The result is a list, or a tuple of lists if the
    kernel has several results; `out=` is such a list (or tuple of lists), with None for arrays to be allocated.

    On CUDA, calls whose arrays are alike in dtype, layout and alignment share a launch; nothing is copied to the
    device, so that graphs capture it.

    >>> import numpy as np
    >>> import fusedsl as fd
    >>> fd.foreach("a * x + 1", 2.0, [np.float32([1, 2]), np.float32([[3]])])
    [array([3., 5.], dtype=float32), array([[7.]], dtype=float32)]

    Lists may be iterators, or views of dicts; empty ones give empty ones.

    Raises ArgumentError for lists of unequal lengths or no list, and for outputs that overlap what
    another call reads or writes; what a single call would raise, with the place in the lists. An error leaves `out`
    untouched.
    """
    args, named = tuple([listed_argument(a) for a in args]), {name: listed_argument(a) for name, a in named.items()}
    if isinstance(kernel, str):
        changes, named = split_options(named)
        kernel = kernel_of(kernel, changes)
    if isinstance(kernel, FusedMethod):
        kernel, args = kernel.__func__, (kernel.__self__, *args)
    lists = [a for a in (*args, *named.values()) if is_list(a)]
    if isinstance(kernel, (Kernel, Fused)) and lists and not any(lists):
        return _empty_result(kernel, out)
    if isinstance(kernel, (Kernel, Fused)) and dynamo.traces():
        return _one_by_one(kernel, args, named, out)
    if isinstance(kernel, Kernel):
        try:
            return _over_kernel(kernel, args, named, out)
        except ArgumentError:
            if not (
                has_static_integers(kernel, args, named) or any(is_container(x) for elements in lists for x in elements)
            ):
                raise
        return _one_by_one(kernel, args, named, out)
    if isinstance(kernel, Fused):
        if out is not None:
            raise ArgumentError(
                "a fused function writes where it says so itself",
                "argument.out",
                help="write x[...] = y inside the function, or use a kernel made from an expression",
            )
        return _over_function(kernel, args, named)
    raise ArgumentError(
        f"foreach runs a kernel, not {kind_of(kernel)}",
        "argument.kernel",
        help="pass an expression, fusedsl.kernel(expression), or a function under @fusedsl.fuse",
    )


def _empty_result(kernel: Kernel | Fused, out: Any) -> Any:
    """The result for lists without elements, such as the parameters of an empty optimiser."""
    if out is not None:
        return out
    count = len(kernel._source.program.results) if isinstance(kernel, Kernel) else 1
    return [] if count == 1 else tuple([] for _ in range(count))


# -- kernels


def _over_kernel(kernel: Kernel, args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Any:
    values = kernel._bind(args, named)
    lists = {name: value for name, value in zip(kernel.params, values) if is_list(value)}
    count = length_of_lists(lists)
    outs = None if out is None else outputs_by_result(out, count, next(iter(lists)))
    looked: dict[int, tuple[Any, list]] = {}
    keys, payloads = [], []
    for value in values:
        if is_list(value):
            key, part = looked[id(value)] = looked.get(id(value)) or list_argument_key(value)
            payloads += part
        else:
            key, part = argument_key(value)
            payloads.append(part)
        keys.append(key)
    written, addresses = [], []
    for out_list in outs or ():
        known = looked.get(id(out_list))
        if known is None or type(known[0]) is not TensorListKey:
            known = output_list_key(out_list, count)
        key, part = known
        written.append(key)
        addresses += part
    flat = None if outs is None else [o for out_list in outs for o in (out_list or [None] * count)]

    def first() -> tuple[list, BatchedCall | None]:
        return _run_first_over_kernel(kernel, values, count, outs)

    results = _run(
        _call_caches.setdefault(kernel, CallCache()), (keys, written, count), payloads, flat, addresses, first
    )
    if len(results) == count:
        return results
    return tuple(results[k : k + count] for k in range(0, len(results), count))


def _run_first_over_kernel(kernel: Kernel, values: Sequence[Any], count: int, written: Sequence[Any] | None):
    names: list[str] = []
    starts = []
    shared = set()
    described: list[list[Any]] = []
    for name, value in zip(kernel.params, values):
        starts.append(len(names))
        if is_list(value):
            labels = [f"{name}[{k}]" for k in range(count)]
        else:
            shared.add(len(names))
            labels = [name]
        described.append([describe(v, label) for v, label in zip(value if is_list(value) else [value], labels)])
        names += labels
    items = []
    for k in range(count):
        at = tuple(start + (k if is_list(value) else 0) for start, value in zip(starts, values))
        facts = {names[index]: listed[k if len(listed) > 1 else 0] for index, listed in zip(at, described)}
        outs = None if written is None else [listed[k] if listed is not None else None for listed in written]
        items.append(ForeachCall(kernel._program.plans, facts, outs, at))
    each = [[v[k] if is_list(v) else v for v in values] for k in range(count)]
    return _run_first([kernel._program] * count, items, each, names, frozenset(shared))


# -- functions


def _over_function(fused: Fused, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    lists = {f"argument {k}": a for k, a in enumerate(args) if is_list(a)}
    count = length_of_lists({**lists, **{name: a for name, a in named.items() if is_list(a)}})
    calls = [
        fused.prepared([a[k] if is_list(a) else a for a in args],
                       {name: a[k] if is_list(a) else a for name, a in named.items()})
        for k in range(count)
    ]  # fmt: skip
    if len({call.results for call in calls}) > 1:
        return [call.rebuild(call.program.run(call.values, call.outs)) for call in calls]
    keys, payloads = all_argument_keys([v for call in calls for v in call.values])
    flat = None
    if any(call.outs is not None for call in calls):
        flat = [(call.outs or [None] * call.results)[r] for r in range(calls[0].results) for call in calls]
    programs = tuple(call.program for call in calls)

    def first() -> tuple[list, BatchedCall | None]:
        names: list[str] = []
        items = []
        for k, call in enumerate(calls):
            facts = {f"{name}[{k}]": describe(v, name) for name, v in zip(call.program.names, call.values)}
            items.append(
                ForeachCall(call.program.plans, facts, call.outs, tuple(range(len(names), len(names) + len(facts))))
            )
            names += facts
        return _run_first(programs, items, [call.values for call in calls], names, frozenset())

    written, addresses = (None, []) if flat is None else (output_keys(flat), addresses_of(flat))
    results = _run(
        _call_caches.setdefault(fused, CallCache()), (programs, keys, written), payloads, flat, addresses, first
    )
    return _by_result([call.rebuild(results[k::count]) for k, call in enumerate(calls)])


# -- both


def _one_by_one(kernel: Kernel | Fused, args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Any:
    """The calls themselves, if torch is to see each."""
    lists = {f"argument {k}": a for k, a in enumerate(args) if is_list(a)}
    count = length_of_lists({**lists, **{name: a for name, a in named.items() if is_list(a)}})
    outs = None if out is None else outputs_by_result(out, count, "the first list")
    returned = []
    for k in range(count):
        positional = [a[k] if is_list(a) else a for a in args]
        more = {name: a[k] if is_list(a) else a for name, a in named.items()}
        if outs is not None:
            each = [None if out_list is None else out_list[k] for out_list in outs]
            more["out"] = each[0] if len(each) == 1 else tuple(each)
        returned.append(kernel(*positional, **more))
    return _by_result(returned)


def _by_result(returned: list) -> Any:
    """The results of all calls: a list, or for tuples a tuple of lists."""
    if all(type(value) is tuple for value in returned):
        return tuple([[value[k] for value in returned] for k in range(len(returned[0]))])
    return None if all(value is None for value in returned) else returned


def _run(
    memory: CallCache,
    key: Any,
    payloads: list,
    outs: list | None,
    addresses: list,
    first: Callable[[], tuple[list, BatchedCall | None]],
) -> list:
    """The results of all calls, list after list."""
    call = memory.get(key)
    if call is not None and (outs is None or call.may_write_at(payloads, outs, addresses)):
        return call.run(payloads, outs, addresses)
    results, call = first()
    if call is not None and not _holds_slow(key):
        memory.put(key, call)
        call.mark_disjoint(payloads, addresses)
    return results


def _holds_slow(key: Any) -> bool:
    return key is SLOW or (type(key) in (tuple, list) and any(map(_holds_slow, key)))


def _run_first(
    programs: Sequence[Program],
    items: Sequence[ForeachCall],
    values: Sequence[Sequence[Any]],
    names: Sequence[str],
    shared: frozenset[int],
) -> tuple[list, BatchedCall | None]:
    """(the results, what repeats the calls or None): prepared together, or if that is impossible, one by one."""
    resolved = resolve_lists(items)
    options = programs[0].options
    read_back = [require_in_range(item.plans, item.facts) for item in items] if options.bounds == "raise" else []
    if not (options.verify or any(runs_on_other_device(options, item.facts) for item in items)):
        try:
            start = perf_counter()
            prepared = prepare_foreach(items, resolved, names, shared)
            record_first_call(f"foreach of {programs[0].source.title}", perf_counter() - start)
            return prepared.run(), prepared.call if prepared.reusable and not any(read_back) else None
        except CompileError:
            if not options.fallback:
                raise
        except EmptyRows:
            pass
    each = [program.run(call_values, item.outs) for program, item, call_values in zip(programs, items, values)]
    return [result for results in zip(*each) for result in results], None
