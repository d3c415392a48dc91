"""Merges kernels that differ only in literals and in the arrays that they read into one binary.

Their literals become scalar arguments, and their array arguments get the names of the first kernel's. LLVM's
MergeSimilarFunctions does the same; here it saves compile time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..ir.graph import Node, Parameter, node, value_of
from ..ir.ops import CASTS
from ..ir.types import INT64
from ..rewrite.scalar_builder import replace_nodes
from .cost_model import computed_nodes
from .fusion_group import FusionGroup

ALIKE = 3  # kernels at least: a literal may save a register
READS = ("load", "fetch", "pointer", "stride")
ORDINARY = (
    *("add", "subtract", "multiply", "minimum", "maximum", "where", "equal", "not_equal", "less", "less_equal"),
    *("greater", "greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor"),
)  # their code is the same for a literal operand
FORMATS = {  # struct formats by dtype
    "float32": "<f", "float64": "<d", "int32": "<i", "int64": "<q", "uint32": "<I", "uint64": "<Q",
}  # fmt: skip


@dataclass(frozen=True)
class NamedGroup:
    """A fusion group and the parameters whose names its kernel uses."""

    group: FusionGroup
    parameters: tuple[Parameter, ...]


def merge_similar(groups: Sequence[FusionGroup], parameters: Sequence[Parameter]) -> list[NamedGroup]:
    """The groups, where similar ones differ only in scalar arguments."""
    named = [NamedGroup(g, tuple(parameters)) for g in groups]
    alike: dict[tuple, list[_Kernel]] = {}
    for k, g in enumerate(groups):
        if g.attention is None:
            nodes = computed_nodes(g.values, frozenset(g.imports))
            kernel = _Kernel(k, nodes, list(_literals(g, nodes)))
            alike.setdefault(_shape(g, kernel), []).append(kernel)
    for members in alike.values():
        if len(members) < ALIKE:
            continue
        columns = zip(*(kernel.literals for kernel in members))
        differ = [index for index, column in enumerate(columns) if len(set(column)) > 1]
        first = _arguments(members[0].nodes)
        for kernel in members:
            g = groups[kernel.number]
            group = _with_numbers(g, [kernel.literals[index] for index in differ]) if differ else g
            names = dict(zip(_arguments(kernel.nodes), first))
            named[kernel.number] = NamedGroup(group, _named(parameters, names))
    return named


@dataclass(frozen=True)
class _Kernel:
    """A group by its number, what it computes, and the literals that it could take as arguments."""

    number: int
    nodes: list[Node]
    literals: list[Node]


def _arguments(nodes: Sequence[Node]) -> list[int]:
    """Arguments that a kernel reads, in order."""
    sources = [n.attr if n.op == "scalar" else n.attr[0] for n in nodes if n.op in (*READS, "scalar")]
    indices = [s if isinstance(s, int) else s.index for s in sources if isinstance(s, int) or s.kind == "argument"]
    return list(dict.fromkeys(indices))


def _named(parameters: Sequence[Parameter], names: dict[int, int]) -> tuple[Parameter, ...]:
    """The parameters, some of them renamed."""
    return tuple(replace(p, name=parameters[names.get(k, k)].name) for k, p in enumerate(parameters))


def bits_of(n: Node) -> int:
    """Bytes of a literal as a signed 64-bit integer."""
    packed = struct.pack(FORMATS[n.type.dtype.compute.name], value_of(n))
    return int.from_bytes(packed.ljust(8, b"\0"), "little", signed=True)


def _literals(g: FusionGroup, nodes: Sequence[Node]) -> Iterator[Node]:
    """Literals that a kernel could take as arguments, in order.

    They are read by ordinary operations only, or are 64-bit integers of index arithmetic that are cast.
    """
    special = {a for n in nodes if n.op not in (*ORDINARY, *CASTS) for a in n.args} | set(g.values)
    converted = {a for n in nodes if n.op not in CASTS for a in n.args if a.type.dtype.compute is INT64}
    for n in nodes:
        if n.op == "const" and n not in special and n not in converted and n.type.dtype.compute.name in FORMATS:
            yield n


def _shape(g: FusionGroup, kernel: _Kernel) -> tuple:
    """Key that similar groups share: everything but literals and the arrays that are read."""
    free = set(kernel.literals)
    numbers = {n: index for index, n in enumerate(kernel.nodes)}
    parts = []
    for n in numbers:
        attr = None if n in free else n.attr if n.op == "const" else _word(n.attr)
        parts.append((n.op, n.type.dtype.name, tuple(numbers.get(a, -1) for a in n.args), attr))
    stores = tuple(tuple(r.kind for r in part) for part in (g.stores, g.row_stores, g.sorted_stores, g.column_stores))
    return (len(g.rows), len(g.columns), len(g.imports), stores, tuple(parts))


def _word(attr) -> str | None:
    """Name in the attribute of a fold, scan or comparison."""
    first = attr[0] if isinstance(attr, tuple) and attr else attr
    return first if isinstance(first, str) else None


def _with_numbers(g: FusionGroup, literals: Sequence[Node]) -> FusionGroup:
    """The group with some of its literals as scalar arguments."""
    number = {n: node("literal", (), (k, bits_of(n)), n.type) for k, n in enumerate(literals)}
    folds = [*g.folds, *g.scans, *g.sorted, *g.column_folds]
    return g.rewritten(replace_nodes([*folds, *(r.value for r in g.all_stores), *g.imports], number))
