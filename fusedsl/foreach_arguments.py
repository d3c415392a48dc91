"""Arguments of `foreach`: which are lists, their one length, the lists of outputs, and their keys."""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any

from .api import Kernel
from .errors import ArgumentError, kind_of
from .program import MAX_PREPARED_CALLS
from .runtime.argument_keys import TensorListKey, addresses_of, list_argument_key, output_keys
from .runtime.arrays import describe_all
from .runtime.batched_call import BatchedCall


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


def listed_argument(value: Any) -> Any:
    """An iterator, or a dict's view, as a list."""
    return list(value) if not is_list(value) and isinstance(value, (Iterator, KeysView, ValuesView)) else value


def has_static_integers(kernel: Kernel, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether integers among the arguments are static in the program: then each call has its own."""
    given = kernel._bind(args, named)
    if any(is_list(value) and not value for value in given):
        return False
    values = [value[0] if is_list(value) else value for value in given]
    try:
        kernel._program.plans.checked_plan(describe_all(kernel.params, values))
    except ArgumentError as fault:
        variants = kernel._variants
        return variants.learn(kernel, fault, values) or variants.for_integers(kernel, values)[0] is not kernel
    return False


def is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def length_of_lists(lists: Mapping[str, Sequence[Any]]) -> int:
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


def output_list_key(outs: Sequence[Any] | None, count: int) -> tuple[Any, list]:
    """The key of a list of outputs and their addresses; None stands for arrays to allocate."""
    if outs is None:
        return None, [0] * count
    if type(None) in set(map(type, outs)):
        return output_keys(outs), addresses_of(outs)
    key, payloads = list_argument_key(outs)
    return key, payloads if type(key) is TensorListKey else addresses_of(outs)


def outputs_by_result(out: Any, count: int, name: str) -> list[Sequence[Any] | None]:
    """A list of outputs per result."""
    if not is_list(out):
        raise ArgumentError(
            f"out is {kind_of(out)}",
            "argument.out",
            help="out= takes a list of arrays, or a tuple with such a list or None per result",
        )
    outs = list(out) if any(map(is_list, out)) else [out]
    for k, out_list in enumerate(outs):
        label = f"out[{k}]" if len(outs) > 1 else "out"
        if out_list is not None and not is_list(out_list):
            raise ArgumentError(f"{label} is no list", "argument.out", help="pass a list of arrays for each result")
        if out_list is not None and len(out_list) != count:
            raise ArgumentError(
                f"{name} has {count} elements and {label} has {len(out_list)}",
                "argument.length",
                help="pass one output per call, or None for one to allocate",
            )
    return outs
