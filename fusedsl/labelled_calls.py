"""Calls of fused functions with pandas, polars and xarray objects: elementwise ones run fused, and give their kind.

A trace follows NumPy's rules. They are those of labelled arrays for ufuncs and operators on arrays of equal labels, and
for nothing else: a Series' sum leaves NaN out, slices move labels. All other calls run the undecorated function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .arguments import Untraceable
from .errors import FusedslError, ShapeError
from .interop import containers
from .interop.labelled import Labelled
from .ir.graph import Graph, Node, walk
from .traced_calls import FusedCall

STRUCTURE = ("param", "const", "scalar", "cast", "convert")
INTEGERS_DIFFER = ("floor_divide", "remainder", "fmod", "power")  # pandas divides integers by 0 to infinity


class _Labels:
    """The labelled arguments of a call: their arrays in their place, and what each array stands for."""

    def __init__(self) -> None:
        self.read: dict[int, Labelled] = {}  # by the array's id
        self.objects: dict[int, Any] = {}
        self.addresses: dict[int, Any] = {}  # of memory: its first object

    def opened(self, x: Any, name: str) -> Any:
        """`x` with an array for each labelled one."""
        if type(x) in (tuple, list):
            return type(x)(self.opened(part, f"{name}[{k}]") for k, part in enumerate(x))
        if type(x) is dict:
            return {key: self.opened(part, f"{name}[{key!r}]") for key, part in x.items()}
        if not containers.is_labelled_type(type(x)):
            return x
        if not containers.is_uniform(x):
            raise _unfused(f"{name} has missing values, or columns of several dtypes")
        opened_value = containers.read(x, name)
        if not isinstance(opened_value, Labelled) or type(opened_value.array) is not np.ndarray:
            raise _unfused(f"{name} is no Series, DataFrame or DataArray of numbers in NumPy arrays")
        known = self.addresses.setdefault(opened_value.array.ctypes.data, x)
        own = opened_value.array if known is x else opened_value.array.copy()  # the same memory under other labels
        self.read[id(own)], self.objects[id(own)] = replace(opened_value, array=own), x
        return own


class LabelledCalls:
    """The calls of a function with labelled arrays; `prepared` gives the program of a call with plain arrays."""

    def __init__(self, prepared: Callable[[Sequence[Any], Mapping[str, Any]], FusedCall]):
        self.prepared = prepared
        self._refused: dict[tuple, str] = {}  # reasons, by the kinds of the arguments: these are not traced again

    def run(self, args: tuple, keywords: Mapping[str, Any]) -> Any:
        """The result of a call; Untraceable, with the reason, if it is not elementwise."""
        labels = _Labels()
        given = [labels.opened(x, f"argument {k}") for k, x in enumerate(args)]
        named = {name: labels.opened(x, name) for name, x in keywords.items()}
        call = self._elementwise(given, named)
        values = [labels.read.get(id(x), x) for x in call.values]
        try:
            results = call.program.run(call.values)
        except ShapeError as fault:  # axes are broadcast by name in xarray
            raise _unfused(fault.message) from fault
        kept = _with_labels(call.traced.graph)
        wrapped = [
            _wrapped(result, values, call.program.names, node) if node in kept else result
            for result, node in zip(results, call.traced.graph.results)
        ]
        return call.traced.rebuild(wrapped, [labels.objects.get(id(x), x) for x in call.given])

    def _elementwise(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> FusedCall:
        """The program of a call with these arrays, once it is known to be elementwise."""
        kinds = _kind(args), _kind(keywords)
        reason = self._refused.get(kinds)
        if reason is None:
            try:
                call = self.prepared(args, keywords)
            except ShapeError as fault:  # arrays of other shapes may go through
                raise _unfused(fault.message) from fault
            except Exception as fault:
                reason = _first_line(fault)
            else:
                reason = _why_unfused(call)
                if reason is None:
                    return call
            self._refused[kinds] = reason
        raise _unfused(reason)


def _kind(x: Any) -> Any:
    """What a trace depends on: dtypes and ranks of arrays, values of switches, types of anything else."""
    if isinstance(x, np.ndarray):
        return x.dtype, x.ndim
    if isinstance(x, (tuple, list)):
        return type(x), *map(_kind, x)
    if isinstance(x, Mapping):
        return type(x), *((key, _kind(part)) for key, part in x.items())
    return x if x is None or isinstance(x, (bool, str)) else type(x)


def _first_line(fault: Exception) -> str:
    """The first line of an exception's message."""
    message = fault.message if isinstance(fault, FusedslError) else str(fault)
    return message.splitlines()[0] if message else type(fault).__name__


def _unfused(reason: str) -> Untraceable:
    return Untraceable(
        f"labelled arrays go through elementwise functions alone, and {reason}",
        "argument.type",
        help="pass arrays, as x.to_numpy() gives them",
    )


def _why_unfused(call: FusedCall) -> str | None:
    """Why labelled arrays may have other rules than NumPy's in this function; None if they have the same."""
    if call.traced.writes or call.traced.captures:
        return "this one writes arrays, or reads some from outside"
    for node in call.traced.graph.nodes():
        ufunc = getattr(np, node.op, None)
        if node.op not in (*STRUCTURE, "where") and not (isinstance(ufunc, np.ufunc) and ufunc.signature is None):
            return f"this one has {node.op}"
        if node.op in INTEGERS_DIFFER and node.type.dtype.kind != "f":
            return f"this one has {node.op} of integers"
    return None


def _with_labels(graph: Graph) -> set[Node]:
    """The nodes that keep labels: numpy.where gives plain arrays."""
    kept: set[Node] = set()
    for node in graph.nodes():
        if node.op == "param" or (node.op != "where" and any(x in kept for x in node.args)):
            kept.add(node)
    return kept


def _wrapped(result: Any, values: Sequence[Any], names: Sequence[str], node: Node) -> Any:
    """A result with the labels of the arguments that it is computed from, which all have its extents."""
    sources = {n.attr for n in walk((node,)) if n.op == "param"}
    own = [x if k in sources or not isinstance(x, Labelled) else x.array for k, x in enumerate(values)]
    labelled = {k: x for k, x in enumerate(own) if isinstance(x, Labelled)}
    if len({x.library for x in labelled.values()}) > 1:
        raise _unfused("its arguments are of several libraries")
    ranks = [len(x.axes) for x in labelled.values()]
    if result.ndim != max(ranks, default=result.ndim):
        raise _unfused("its labelled arrays have fewer axes than a result")
    if any(x.array.shape != result.shape[result.ndim - len(x.axes) :] for x in labelled.values()):
        raise _unfused("one of its labelled arrays is broadcast")
    axes = [
        frozenset(
            (k, axis - result.ndim + len(x.axes)) for k, x in labelled.items() if axis >= result.ndim - len(x.axes)
        )
        for axis in range(result.ndim)
    ]
    wrap = containers.wrapper(own, names)
    try:
        return result if wrap is None else wrap([result], lambda: [axes])[0]
    except FusedslError as fault:
        raise _unfused(fault.message) from fault
