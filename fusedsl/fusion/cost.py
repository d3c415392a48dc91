"""What a program would move and compute operation by operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ..ir.contraction import Subscripts
from ..ir.dims import Symbol, evaluate
from ..ir.gathers import GUARDED
from ..ir.graph import Graph, Node
from ..ir.ops import OPS, VIEWS
from .time import Work


@dataclass(frozen=True)
class Step:
    """One kernel of an unfused run: the operation, the bytes that it reads and writes, what it issues."""

    operation: str
    read: int
    written: int
    instructions: int

    @property
    def bytes(self) -> int:
        return self.read + self.written

    @property
    def work(self) -> Work:
        return Work(self.read, self.written, self.instructions)


def unfused(graph: Graph, extents: Mapping[Symbol, int]) -> tuple[Step, ...]:
    """The kernels that NumPy or CuPy would run: every operation reads its operands and writes its result.

    Counted in the unfused run's favour: a common subexpression is computed once, an operand that is read twice by one
    operation is moved once, views and changes of dtype are free, and so is arithmetic on Python numbers.
    """
    arrays = _arrays(graph)
    steps = [_step(n, arrays, extents) for n in graph.nodes() if n in arrays and _computes(n)]
    copied = [r for r in dict.fromkeys(graph.results) if r in arrays and not _computes(_below_views(r))]
    return tuple(steps + [_copy(r, extents) for r in copied])


def _arrays(graph: Graph) -> set[Node]:
    """The nodes that an array enters; the others are arithmetic on Python numbers and positions."""
    found: set[Node] = set()
    for n in graph.nodes():
        if n.op == "param" or any(a in found for a in n.args):
            found.add(n)
    return found


def _computes(n: Node) -> bool:
    """Whether the node is a kernel of an unfused run. A reshape is one where strides cannot express it."""
    if n.op == "reshape":
        below = n.args[0]
        while below.op == "reshape":
            below = below.args[0]
        return below.op in VIEWS
    if n.op == "gather":
        return n.attr[0] != GUARDED  # where it is chosen among others, that choice is the kernel
    return n.op in OPS or n.op in ("reduce", "scan", "ranked", "cast", "contract")


def _below_views(n: Node) -> Node:
    """The array that a node is a free view of."""
    while not _computes(n) and n.op in (*VIEWS, "convert"):
        n = n.args[0]
    return n


def _step(n: Node, arrays: set[Node], extents: Mapping[Symbol, int]) -> Step:
    operands = [a for a in dict.fromkeys(map(_operand, n.args)) if a in arrays]
    most = _count(n, extents) if n.op == "gather" else None  # of an array that is read here and there
    read = sum(
        _size(a, extents) if most is None else min(_count(a, extents), most) * a.type.dtype.itemsize for a in operands
    )
    cost = OPS[n.op].cost if n.op in OPS else 1
    name = n.attr[0] if n.op == "reduce" else f"cum{n.attr[0]}" if n.op == "scan" else n.op
    return Step(name, read, _size(n, extents), cost * _work(n, extents))


def _work(n: Node, extents: Mapping[Symbol, int]) -> int:
    """How often an operation is carried out."""
    if n.op != "contract":
        return _count(n.args[0] if n.op == "reduce" else n, extents)
    letters, shape = Subscripts.parse(n.attr), n.args[0].type.shape
    summed = (shape[letters.left.index(c)] for c in letters.summed)
    return _count(n, extents) * prod(evaluate(d, extents) or 0 for d in summed)


def _operand(n: Node) -> Node:
    """What is moved for an operand: broadcasting and changes of dtype happen on the way."""
    while n.op in ("convert", "broadcast"):
        n = n.args[0]
    return n


def _copy(n: Node, extents: Mapping[Symbol, int]) -> Step:
    return Step("copy", _size(_operand(n), extents), _size(n, extents), _count(n, extents))


def _count(n: Node, extents: Mapping[Symbol, int]) -> int:
    return prod(evaluate(d, extents) or 0 for d in n.type.shape)


def _size(n: Node, extents: Mapping[Symbol, int]) -> int:
    return _count(n, extents) * n.type.dtype.itemsize
