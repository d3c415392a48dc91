"""The plan: what a program launches, as data that a call evaluates and the cache stores; nothing of it is a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from ..ir.dims import Dim, Expression, Symbol, from_json, to_json
from ..ir.graph import Check, Graph, Node, Parameter, Site, Type, node, walk
from ..ir.types import DType, dtype
from .attention import Ending, Extreme, Gather, Line, Score, Sieve, Stream, Weighing
from .kernel import Finish, Load, Position
from .phase import Body, DerivedAccumulators, Phase, Product, Reduction, ScanStep, ScanUse, Selection, Store, Value


@dataclass(frozen=True)
class IterationIndex:
    """Position along one axis of an array: start + step * (iteration axis `axis`: rows, columns, ranks; or none)."""

    start: Dim
    step: int
    axis: int | None


@dataclass(frozen=True)
class ArrayUse:
    """An array that a kernel reads or writes: argument, temporary or result `index`, through host-side `views`.

    Of a `gathered` one the kernel computes addresses itself, which vary along these of its axes; `at` is then empty.
    """

    name: str
    dtype: DType
    kind: str
    index: int
    views: tuple
    at: tuple[IterationIndex, ...]
    gathered: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ScalarUse:
    """A number that a kernel takes by value: argument `source`, the extent `source`, the stride in bytes of an array
    along an axis, `source` = (array, axis), or the literal whose bytes, as an integer, are `source`."""

    value: Value
    kind: str  # "argument" | "extent" | "stride" | "literal"
    source: Any


@dataclass(frozen=True)
class KernelPlan:
    """One kernel before it meets shapes: iteration extents, arrays, and its phases for a resident and a streamed row.

    `rereads` says why a streamed row is read more often than once for its folds and once for the stores of elements.
    `digest` names the computation: equal digests with equal operand letters and schedules are the same binary.
    """

    name: str
    header: tuple[str, ...]
    rows: tuple[Dim, ...]
    columns: tuple[Dim, ...]
    inputs: int
    arrays: tuple[ArrayUse, ...]
    loads: tuple[Load, ...]
    positions: tuple[Position, ...]
    scalars: tuple[ScalarUse, ...]
    resident: tuple[Phase, ...]
    looped: tuple[Phase, ...] = ()
    rereads: tuple[str, ...] = ()
    finish: Finish | None = None
    digest: str = ""
    pointers: tuple[Load, ...] = ()
    ranks: tuple[Dim, ...] = ()  # places of an order of the columns, where they are stored or folded
    fast: bool = False  # the hardware's approximations will do
    steady: bool = False  # the schedule of a row may not depend on other rows
    stream: Stream | None = None  # a pass over scores; its columns are the stream, then axes of products and results

    @property
    def is_map(self) -> bool:
        return self.stream is None and not any(p.folds or p.scans or p.select for p in self.resident)


@dataclass(frozen=True)
class Plan:
    """A program for one signature: its arrays' types, the checks and guards of a call, and the kernels in order.

    `budget` are the registers that a kernel's values were allowed to take.
    """

    text: str
    parameters: tuple[Parameter, ...]
    results: tuple[Type, ...]
    temporaries: tuple[Type, ...]
    checks: tuple[Check, ...]
    guards: tuple[tuple[Dim, bool], ...]
    kernels: tuple[KernelPlan, ...]
    reasons: tuple[tuple[bool, str], ...] = ()
    together: bool = True  # rows and columns may be folded by one kernel
    scores: str = "apart"  # how sums of products are worked that are folded (see `choose_passes`)
    budget: int = 0
    launches: tuple[int, ...] = ()  # how many of the kernels, in order, each launch holds where they share some

    @property
    def shared(self) -> tuple[tuple[int, ...], ...]:
        """The kernels of each launch, by number."""
        ends = list(accumulate(self.launches or (1,) * len(self.kernels), initial=0))
        return tuple(tuple(range(begin, end)) for begin, end in pairwise(ends))


CLASSES = {
    c.__name__: c
    for c in (
        *(Plan, KernelPlan, ScalarUse, ArrayUse, IterationIndex, Parameter, Type, Check, Site),
        *(Phase, Finish, Reduction, Product, ScanStep, ScanUse, Selection, Body, Value, Load, Position, Store),
        *(DerivedAccumulators, Stream, Score, Weighing, Ending, Sieve, Extreme, Gather, Line),
    )
}


def plan_to_json(x: Any) -> Any:
    """JSON of a plan or a part: {"is": class, field: ...}, lists, {"dtype": name}, {"dim": extent}, {"bytes": …}."""
    if isinstance(x, DType):
        return {"dtype": x.name}
    if isinstance(x, bytes):
        return {"bytes": x.hex()}
    if isinstance(x, (Symbol, Expression)):
        return {"dim": to_json(x)}
    if isinstance(x, tuple):
        return [plan_to_json(part) for part in x]
    if dataclasses.is_dataclass(x):
        named = {f.name: plan_to_json(getattr(x, f.name)) for f in dataclasses.fields(x)}
        return {"is": type(x).__name__} | named
    return x


def plan_from_json(data: Any) -> Any:
    """The inverse of `plan_to_json`; KeyError or TypeError where the data is no plan."""
    if isinstance(data, list):
        return tuple(plan_from_json(part) for part in data)
    if not isinstance(data, dict):
        return data
    if "dtype" in data and len(data) == 1:
        return dtype(data["dtype"])
    if "dim" in data and len(data) == 1:
        return from_json(data["dim"])
    if "bytes" in data and len(data) == 1:
        return bytes.fromhex(data["bytes"])
    return CLASSES[data["is"]](**{k: plan_from_json(v) for k, v in data.items() if k != "is"})


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """JSON form of a graph, in which graphs differ that differ in anything: operations, attributes, bits of constants,
    types, parameters, checks."""
    told = {"parameters": plan_to_json(graph.parameters), "checks": plan_to_json(graph.checks)}
    return {**nodes_to_json(graph.results), **told}


def graph_from_json(data: Any) -> Graph:
    """The inverse of `graph_to_json`; KeyError, TypeError or ValueError where the data is no graph."""
    return Graph(plan_from_json(data["parameters"]), nodes_from_json(data), plan_from_json(data["checks"]))


def nodes_to_json(roots: Sequence[Node]) -> dict[str, Any]:
    """JSON form of nodes with all that they are made of."""
    places: dict[Node, int] = {}
    nodes = []
    for n in walk(roots):
        nodes.append([n.op, [places[a] for a in n.args], plan_to_json(n.attr), plan_to_json(n.type)])
        places[n] = len(places)
    return {"nodes": nodes, "results": [places[r] for r in roots]}


def nodes_from_json(data: Any) -> tuple[Node, ...]:
    """The inverse of `nodes_to_json`."""
    made: list[Node] = []
    for op, args, attr, type in data["nodes"]:
        made.append(node(op, tuple(made[a] for a in args), plan_from_json(attr), plan_from_json(type)))
    return tuple(made[k] for k in data["results"])
