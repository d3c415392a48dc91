"""Plan of a program as data: the kernels of one signature, as a call binds them and the cache stores them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, islice, pairwise
from typing import Any, Literal

from ..fusion.formulation import AttentionMode, Formulation, OperandCopy, ProductMode
from ..ir.dims import Dim, Expression, Symbol, from_json, to_json
from ..ir.graph import Check, Graph, Node, Parameter, Site, Type, node, walk
from ..ir.types import DType, dtype
from .attention import AttentionBody, BlockMask, OutputEpilogue, PagedOperands, PagedRow, Score, TileBounds, WeightedSum
from .instruction import Constant, Instruction
from .kernel import ColumnEpilogue, Load, Position
from .phase import (
    Body,
    DerivedAccumulators,
    GroupPhases,
    MatrixProduct,
    PanelFolds,
    Phase,
    Reduction,
    ScanStep,
    ScanUse,
    Scatter,
    Sort,
    Store,
    Value,
)


@dataclass(frozen=True)
class IterationIndex:
    """Index along an array axis: start + step * iteration axis `axis` (of rows, columns, ranks; or none)."""

    start: Dim
    step: int
    axis: int | None


@dataclass(frozen=True)
class ArrayUse:
    """Array operand of a kernel: argument, temporary or result `index`, seen through host-side `views`."""

    name: str
    dtype: DType
    kind: Literal["argument", "temporary", "result"]
    index: int
    views: tuple
    at: tuple[IterationIndex, ...]  # empty if gathered
    gathered: tuple[int, ...] | None = None  # the kernel computes addresses, which vary along these iteration axes


@dataclass(frozen=True)
class ScalarUse:
    """Scalar operand of a kernel, passed by value."""

    value: Value
    kind: Literal["argument", "extent", "stride", "literal"]
    source: Any  # argument number, extent, (array, axis) of a stride in bytes, or a literal's bytes as an integer


@dataclass(frozen=True)
class KernelPlan:
    """Kernel for symbolic shapes: iteration extents, operands, and phases for rows in registers and for looped rows."""

    name: str
    header: tuple[str, ...]
    rows: tuple[Dim, ...]
    columns: tuple[Dim, ...]
    inputs: int
    arrays: tuple[ArrayUse, ...]
    loads: tuple[Load, ...]
    positions: tuple[Position, ...]
    scalars: tuple[ScalarUse, ...]
    resident: tuple[Phase, ...]  # if a row stays on the chip
    looped: tuple[Phase, ...] = ()  # if a row is read again in each phase
    rereads: tuple[str, ...] = ()  # why a looped row is read more than once for its folds and once for its stores
    column_epilogue: ColumnEpilogue | None = None
    digest: str = ""  # of the computation: one binary per digest, operand stride kinds and schedule
    pointers: tuple[Load, ...] = ()
    ranks: tuple[Dim, ...] = ()  # extent of the sorted axis, if sorted values are stored or folded, or of the panels
    fastmath: bool = False  # fast math: approximate instructions are allowed
    matmul: str = "exact"  # how products of float32 are computed: the option of that name
    batch_invariant: bool = False  # batch-invariant: a row's schedule may not depend on the number of rows
    attention: AttentionBody | None = (
        None  # attention; the columns are then the key axis and the axes of products and results
    )

    @property
    def scatters(self) -> bool:
        """Whether the kernel merges elements at computed indices."""
        return any(p.scatters for p in self.resident)

    @property
    def adds_floats(self) -> bool:
        """Whether the kernel adds floats at computed indices."""
        scatters_ = (s for p in self.resident for s in p.scatters)
        return any(s.fold == "sum" and self.arrays[s.operand].dtype.kind == "f" for s in scatters_)

    @property
    def is_elementwise(self) -> bool:
        return self.attention is None and not any(p.folds or p.scans or p.sort for p in self.resident)


@dataclass(frozen=True)
class PaddedTemporary:
    """A temporary that is another array with zeros around it: so many before and behind along each axis."""

    temporary: int
    widths: tuple[tuple[Dim, Dim], ...]


@dataclass(frozen=True)
class Plan:
    """Plan of a program for one signature: array types, checks and guards of a call, kernels in launch order."""

    text: str
    parameters: tuple[Parameter, ...]
    results: tuple[Type, ...]
    temporaries: tuple[Type, ...]
    checks: tuple[Check, ...]
    guards: tuple[tuple[Dim, bool], ...]
    kernels: tuple[KernelPlan, ...]
    reasons: tuple[tuple[bool, str], ...] = ()  # (joined, decision of the partition)
    together: bool = True  # one kernel may fold along rows and along columns
    attention: AttentionMode = AttentionMode.TILE_MAX
    budget: int = 0  # registers that a kernel's values may take; 0: no limit
    launches: tuple[int, ...] = ()  # kernels per launch, in order, if launches are shared
    products: ProductMode = ProductMode.FUSED
    copies: tuple[OperandCopy, ...] = ()
    padded: tuple[PaddedTemporary, ...] = ()  # each filled by a kernel that stores nothing else

    @property
    def formulation(self) -> Formulation:
        return Formulation(self.together, self.attention, self.products, self.copies)

    @property
    def shared(self) -> tuple[tuple[int, ...], ...]:
        """Kernel numbers of each launch."""
        ends = list(accumulate(self.launches or (1,) * len(self.kernels), initial=0))
        return tuple(tuple(range(begin, end)) for begin, end in pairwise(ends))


def remaining_launches(launches: Iterable[int], stays: Iterable[bool]) -> list[int]:
    """The number of kernels in each launch, where those that do not stay are taken out."""
    rest = iter(stays)
    counts = [sum(islice(rest, count)) for count in launches]
    return [count for count in counts if count]


CLASSES = {
    c.__name__: c
    for c in (
        *(
            Plan,
            OperandCopy,
            PaddedTemporary,
            KernelPlan,
            ScalarUse,
            ArrayUse,
            IterationIndex,
            Parameter,
            Type,
            Check,
            Site,
        ),
        *(
            Phase,
            ColumnEpilogue,
            Reduction,
            MatrixProduct,
            PanelFolds,
            GroupPhases,
            ScanStep,
            ScanUse,
            Scatter,
            Sort,
            Body,
            Value,
            Load,
            Position,
            Store,
        ),
        *(
            DerivedAccumulators,
            AttentionBody,
            Score,
            WeightedSum,
            OutputEpilogue,
            BlockMask,
            TileBounds,
            PagedOperands,
            PagedRow,
        ),
    )
}

PLAIN = frozenset((str, int, float, bool, type(None)))  # what JSON has itself


def plan_to_json(x: Any) -> Any:
    """JSON of a plan or a part: {"is": class, field: ...}, lists, {"dtype": name}, {"dim": extent}, {"bytes": …},
    {"instruction": [...]}."""
    kind: type = type(x)
    if kind in PLAIN:
        return x
    if kind is tuple:
        return [part if type(part) in PLAIN else plan_to_json(part) for part in x]
    if kind in LEAVES:
        name, write, _ = LEAVES[kind]
        return {name: write(x)}
    names = _fields(kind)
    if names is None:
        return x
    data = {"is": kind.__name__}
    for name in names:
        part = getattr(x, name)
        data[name] = part if type(part) in PLAIN else plan_to_json(part)
    return data


@cache
def _fields(kind: type) -> tuple[str, ...] | None:
    """The names of a dataclass's fields; None for another class."""
    return tuple(f.name for f in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def plan_from_json(data: Any) -> Any:
    """The inverse of `plan_to_json`; KeyError or TypeError if the data is not a plan."""
    if isinstance(data, list):
        return tuple(plan_from_json(part) for part in data)
    if not isinstance(data, dict):
        return data
    if len(data) == 1 and (name := next(iter(data))) in READERS:
        return READERS[name](data[name])
    return CLASSES[data["is"]](**{k: plan_from_json(v) for k, v in data.items() if k != "is"})


def _instruction_to_json(i: Instruction) -> list[Any]:
    """An instruction as a list, as plans have most of them: constants are lists of dtype and text."""
    args = [a if isinstance(a, str) else [a.dtype.name, a.text] for a in i.args]
    return [i.target, i.op, args, i.dtype.name, i.comment]


def _instruction_from_json(target: str, op: str, args: list[Any], kind: str, comment: str) -> Instruction:
    operands = tuple(a if isinstance(a, str) else Constant(dtype(a[0]), a[1]) for a in args)
    return Instruction(target, op, operands, dtype(kind), comment)


LEAVES: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {  # (name, writes it, reads it)
    DType: ("dtype", lambda x: x.name, dtype),
    Instruction: ("instruction", _instruction_to_json, lambda parts: _instruction_from_json(*parts)),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
    AttentionMode: ("attention", lambda x: x.value, AttentionMode),
    ProductMode: ("products", lambda x: x.value, ProductMode),
    **dict.fromkeys((Symbol, Expression), ("dim", to_json, from_json)),
}
READERS = {name: read for name, _, read in LEAVES.values()}


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """JSON form of a graph, injective: operations, attributes, bits of constants, types, parameters, checks."""
    header = {"parameters": plan_to_json(graph.parameters), "checks": plan_to_json(graph.checks)}
    return {**nodes_to_json(graph.results), **header}


def graph_from_json(data: Any) -> Graph:
    """The inverse of `graph_to_json`; KeyError, TypeError or ValueError if the data is not a graph."""
    return Graph(plan_from_json(data["parameters"]), nodes_from_json(data), plan_from_json(data["checks"]))


def nodes_to_json(roots: Sequence[Node]) -> dict[str, Any]:
    """JSON form of nodes and all their operands."""
    numbers: dict[Node, int] = {}
    nodes = []
    for n in walk(roots):
        nodes.append([n.op, [numbers[a] for a in n.args], plan_to_json(n.attr), plan_to_json(n.type)])
        numbers[n] = len(numbers)
    return {"nodes": nodes, "results": [numbers[r] for r in roots]}


def nodes_from_json(data: Any) -> tuple[Node, ...]:
    """The inverse of `nodes_to_json`."""
    nodes: list[Node] = []
    for op, args, attr, type in data["nodes"]:
        nodes.append(node(op, tuple(nodes[a] for a in args), plan_from_json(attr), plan_from_json(type)))
    return tuple(nodes[k] for k in data["results"])
