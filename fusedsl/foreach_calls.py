"""`foreach`: one kernel over lists of arrays of unequal shapes, in as few launches as their parameters fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence, ValuesView
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from .api import Kernel
from .config import split_options
from .decorator import Fused
from .errors import ArgumentError, CompileError, public_api
from .evaluation import kernel_of
from .interop.containers import is_container
from .logs import first_call
from .program import MAX_PREPARED_CALLS, Program, forget_hooks
from .program.first_call import require_in_range
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
from .runtime.arrays import describe, describe_all
from .runtime.batched_call import BatchedCall
from .runtime.host_device_copies import runs_on_other_device


class CallCache:
    """Prepared calls over lists by their keys; the last one is compared first, which is faster than hashing."""

    def __init__(self) -> None:
        self._latest: tuple[Any, BatchedCall] | None = None
        self._all: dict[Any, BatchedCall] = {}

    def get(self, key: Any) -> BatchedCall | None:
        latest = self._latest
        if latest is not None and latest[0] == key:
            return latest[1]
        call = self._all.get(_hashable(key))
        if call is not None:
            self._latest = (key, call)
        return call

    def put(self, key: Any, call: BatchedCall) -> None:
        if len(self._all) >= MAX_PREPARED_CALLS:
            self._all.clear()
        self._all[_hashable(key)] = call
        self._latest = (key, call)


def _hashable(key: Any) -> Any:
    return tuple(map(_hashable, key)) if type(key) in (tuple, list) else key


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
    >>> foreach("a * x + 1", 2.0, [np.float32([1, 2]), np.float32([[3]])])
    [array([3., 5.], dtype=float32), array([[7.]], dtype=float32)]

    Lists may be iterators, or views of dicts; empty ones give empty ones.

    Raises ArgumentError for lists of unequal lengths or no list, and for outputs that overlap what
    another call reads or writes; what a single call would raise, with the place in the lists. An error leaves `out`
    untouched.
    """
    args, named = tuple([_listed_argument(a) for a in args]), {name: _listed_argument(a) for name, a in named.items()}
    if isinstance(kernel, str):
        changes, named = split_options(named)
        kernel = kernel_of(kernel, changes)
    lists = [a for a in (*args, *named.values()) if _is_list(a)]
    if isinstance(kernel, (Kernel, Fused)) and lists and not any(lists):
        return _empty_result(kernel, out)
    if isinstance(kernel, (Kernel, Fused)) and dynamo.traces():
        return _one_by_one(kernel, args, named, out)
    if isinstance(kernel, Kernel):
        try:
            return _over_kernel(kernel, args, named, out)
        except ArgumentError:
            if not (_is_shaped(kernel, args, named) or any(is_container(x) for elements in lists for x in elements)):
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
        f"foreach runs a kernel, not a {type(kernel).__name__}",
        "argument.kernel",
        help="pass an expression, fusedsl.kernel(expression), or a function under @fusedsl.fuse",
    )


def _listed_argument(value: Any) -> Any:
    """An iterator, or a dict's view, as a list."""
    return list(value) if not _is_list(value) and isinstance(value, (Iterator, KeysView, ValuesView)) else value


def _empty_result(kernel: Kernel | Fused, out: Any) -> Any:
    """The result for lists without elements, such as the parameters of an empty optimiser."""
    if out is not None:
        return out
    count = len(kernel._source.program.results) if isinstance(kernel, Kernel) else 1
    return [] if count == 1 else tuple([] for _ in range(count))


def _is_shaped(kernel: Kernel, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether integers among the arguments are static in the program: then each call has its own."""
    given = kernel._bind(args, named)
    if any(_is_list(value) and not value for value in given):
        return False
    values = [value[0] if _is_list(value) else value for value in given]
    try:
        kernel._program.plans.checked_plan(describe_all(kernel.params, values))
    except ArgumentError as fault:
        variants = kernel._variants
        return variants.learn(kernel, fault, values) or variants.for_integers(kernel, values)[0] is not kernel
    return False


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _length(lists: Mapping[str, Sequence[Any]]) -> int:
    """The length that all lists have; ArgumentError if they differ or there is no list."""
    if not lists:
        help = "call the kernel itself; the values of a dict are list(d.values())"
        raise ArgumentError("there is no list among the arguments", "argument.list", help=help)
    (first, sample), *others = lists.items()
    for name, other in others:
        if len(other) != len(sample):
            raise ArgumentError(
                f"{first} has {len(sample)} elements and {name} has {len(other)}",
                "argument.length",
                help="all lists need one length; what is the same for all calls is passed once, outside of a list",
            )
    return len(sample)


# -- kernels


def _over_kernel(kernel: Kernel, args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Any:
    values = kernel._bind(args, named)
    lists = {name: value for name, value in zip(kernel.params, values) if _is_list(value)}
    count = _length(lists)
    outs = None if out is None else _outs(out, count, next(iter(lists)))
    looked: dict[int, tuple[Any, list]] = {}
    keys, payloads = [], []
    for value in values:
        if _is_list(value):
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
            known = _output_list_key(out_list, count)
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


def _output_list_key(outs: Sequence[Any] | None, count: int) -> tuple[Any, list]:
    """The key of a list of outputs and their addresses; None stands for arrays to allocate."""
    if outs is None:
        return None, [0] * count
    if type(None) in set(map(type, outs)):
        return output_keys(outs), addresses_of(outs)
    key, payloads = list_argument_key(outs)
    return key, payloads if type(key) is TensorListKey else addresses_of(outs)


def _outs(out: Any, count: int, name: str) -> list[Sequence[Any] | None]:
    """A list of outputs per result."""
    if not _is_list(out):
        raise ArgumentError(
            f"out is a {type(out).__name__}",
            "argument.out",
            help="out= takes a list of arrays, or a tuple with such a list or None per result",
        )
    outs = list(out) if any(map(_is_list, out)) else [out]
    for k, out_list in enumerate(outs):
        label = f"out[{k}]" if len(outs) > 1 else "out"
        if out_list is not None and not _is_list(out_list):
            raise ArgumentError(f"{label} is no list", "argument.out", help="pass a list of arrays for each result")
        if out_list is not None and len(out_list) != count:
            raise ArgumentError(
                f"{name} has {count} elements and {label} has {len(out_list)}",
                "argument.length",
                help="pass one output per call, or None for one to allocate",
            )
    return outs


def _run_first_over_kernel(kernel: Kernel, values: Sequence[Any], count: int, written: Sequence[Any] | None):
    names: list[str] = []
    starts = []
    shared = set()
    described: list[list[Any]] = []
    for name, value in zip(kernel.params, values):
        starts.append(len(names))
        if _is_list(value):
            labels = [f"{name}[{k}]" for k in range(count)]
        else:
            shared.add(len(names))
            labels = [name]
        described.append([describe(v, label) for v, label in zip(value if _is_list(value) else [value], labels)])
        names += labels
    items = []
    for k in range(count):
        at = tuple(start + (k if _is_list(value) else 0) for start, value in zip(starts, values))
        facts = {names[index]: listed[k if len(listed) > 1 else 0] for index, listed in zip(at, described)}
        outs = None if written is None else [listed[k] if listed is not None else None for listed in written]
        items.append(ForeachCall(kernel._program.plans, facts, outs, at))
    each = [[v[k] if _is_list(v) else v for v in values] for k in range(count)]
    return _run_first([kernel._program] * count, items, each, names, frozenset(shared))


# -- functions


def _over_function(fused: Fused, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    lists = {f"argument {k}": a for k, a in enumerate(args) if _is_list(a)}
    count = _length({**lists, **{name: a for name, a in named.items() if _is_list(a)}})
    calls = [
        fused.prepared([a[k] if _is_list(a) else a for a in args],
                       {name: a[k] if _is_list(a) else a for name, a in named.items()})
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
    lists = {f"argument {k}": a for k, a in enumerate(args) if _is_list(a)}
    count = _length({**lists, **{name: a for name, a in named.items() if _is_list(a)}})
    outs = None if out is None else _outs(out, count, "the first list")
    returned = []
    for k in range(count):
        positional = [a[k] if _is_list(a) else a for a in args]
        more = {name: a[k] if _is_list(a) else a for name, a in named.items()}
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
            first_call(f"foreach of {programs[0].source.title}", perf_counter() - start)
            return prepared.run(), prepared.call if prepared.reusable and not any(read_back) else None
        except CompileError:
            if not options.fallback:
                raise
        except EmptyRows:
            pass
    each = [program.run(call_values, item.outs) for program, item, call_values in zip(programs, items, values)]
    return [result for results in zip(*each) for result in results], None
