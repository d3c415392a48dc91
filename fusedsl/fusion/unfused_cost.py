"""Unfused cost: the bytes and instructions of a program run operation by operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ..ir.contraction import Subscripts
from ..ir.dims import Symbol, evaluate
from ..ir.folds import SCAN_NAMES
from ..ir.gathers import GUARDED
from ..ir.graph import Graph, Node, users_of, value_of
from ..ir.op_cost import ordering
from ..ir.ops import OPS, VIEWS
from ..ir.types import FLOAT64, DType


@dataclass(frozen=True)
class UnfusedKernel:
    """One kernel of an unfused run: its node, operation, bytes and instructions."""

    node: Node
    operation: str
    read: int
    written: int
    instructions: int
    double: bool = False
    problem_size: tuple[int, int, int, int] | None = None  # (batch, M, N, K) of a matrix product
    operand_dtype: DType | None = None  # of a matrix product

    @property
    def bytes(self) -> int:
        return self.read + self.written


def unfused_kernels(graph: Graph, extents: Mapping[Symbol, int]) -> tuple[UnfusedKernel, ...]:
    """Kernels that NumPy or CuPy would run: every operation reads its operands and writes its result.

    The count favours the unfused run: common subexpressions are computed once, and an operation reads an operand once.
    Views, dtype changes, and arithmetic on Python numbers and indices are free, unless they fill a result. A sum of
    broadcast products is a matrix product, masked or not.
    """
    arrays = _arrays(graph)
    products = _products(graph, extents)
    inside = _only_within(graph, products)
    counted = [n for n in graph.nodes() if n in arrays and n not in inside and _computes(n)]
    steps = [_product(n, products[n], arrays, extents) if n in products else _step(n, arrays, extents) for n in counted]
    copied = [r for r in dict.fromkeys(graph.results) if r in arrays and not _computes(_below_views(r))]
    filled = [r for r in dict.fromkeys(graph.results) if r not in arrays and r.type.shape]
    return tuple(steps + [_copy(r, extents) for r in copied] + [_fill(r, extents) for r in filled])


def _arrays(graph: Graph) -> set[Node]:
    """Nodes that depend on an array; others are arithmetic on Python numbers and indices."""
    nodes: set[Node] = set()
    for n in graph.nodes():
        if n.op == "param" or any(a in nodes for a in n.args):
            nodes.add(n)
    return nodes


def _products(graph: Graph, extents: Mapping[Symbol, int]) -> dict[Node, tuple[Node, ...]]:
    """Sums that are matrix products, with their factors and the mask of the products."""
    matmuls = {}
    for n in graph.nodes():
        if n.op == "reduce" and n.attr[0] == "sum" and (factors := _factors(n.args[0], extents)):
            matmuls[n] = factors
    return matmuls


def _factors(summed: Node, extents: Mapping[Symbol, int]) -> tuple[Node, ...]:
    """The two factors of an element if either is smaller than all products; else empty."""
    masks: tuple[Node, ...] = ()
    x = _operand(summed)
    if x.op == "where" and x.args[2].op == "const" and value_of(x.args[2]) == 0:
        masks, x = x.args[:1], _operand(x.args[1])
    if x.op != "multiply" or any(_count(_operand(a), extents) >= _count(summed, extents) for a in x.args):
        return ()
    return (*x.args, *masks)


def _only_within(graph: Graph, products: Mapping[Node, tuple[Node, ...]]) -> set[Node]:
    """Nodes between matrix products and their factors that have no other users."""
    users = users_of(graph.nodes())
    nodes: set[Node] = set()
    for product, factors in products.items():
        stack = [product.args[0]]
        while stack:
            n = stack.pop()
            within = all(u is product or u in nodes for u in users[n]) and n not in graph.results
            if within and n not in factors:
                nodes.add(n)
                stack.extend(n.args)
    return nodes


def _computes(n: Node) -> bool:
    """Whether the node is a kernel of an unfused run; a reshape is one if strides cannot express it."""
    if n.op == "reshape":
        source = n.args[0]
        while source.op == "reshape":
            source = source.args[0]
        return source.op in VIEWS
    if n.op == "gather":
        return n.attr[0] != GUARDED  # a select between pieces is the kernel then
    return n.op in OPS or n.op in ("reduce", "scan", "sorted", "cast", "contract", "scatter")


def _below_views(n: Node) -> Node:
    """The array that a node is a view of."""
    while not _computes(n) and n.op in (*VIEWS, "convert"):
        n = n.args[0]
    return n


def _step(n: Node, arrays: set[Node], extents: Mapping[Symbol, int]) -> UnfusedKernel:
    operands = [a for a in dict.fromkeys(map(_operand, n.args)) if a in arrays]
    most = _count(n, extents) if n.op == "gather" else None  # elements that a gather reads
    read = sum(
        _size(a, extents) if most is None else min(_count(a, extents), most) * a.type.dtype.itemsize for a in operands
    )
    cost = OPS[n.op].cost if n.op in OPS else 1
    name = n.attr[0] if n.op == "reduce" else SCAN_NAMES[n.attr[0]] if n.op == "scan" else n.op
    kernel = UnfusedKernel(n, name, read, _size(n, extents), cost * _work(n, extents), n.type.dtype.compute is FLOAT64)
    if n.op != "contract":
        return kernel
    size, dtype = _problem_size(n, extents), n.args[0].type.dtype
    return replace(kernel, operation="matmul", problem_size=size, operand_dtype=dtype)


def _problem_size(n: Node, extents: Mapping[Symbol, int]) -> tuple[int, int, int, int]:
    """(batch, M, N, K) of a contraction."""
    subscripts = Subscripts.parse(n.attr)
    known = dict(zip(subscripts.left + subscripts.right, (*n.args[0].type.shape, *n.args[1].type.shape)))
    groups = (subscripts.batch, subscripts.rows, subscripts.columns, subscripts.summed)
    batch, rows, columns, terms = (prod(evaluate(known[c], extents) or 0 for c in group) for group in groups)
    return batch, rows, columns, terms


def _product(n: Node, factors: Sequence[Node], arrays: set[Node], extents: Mapping[Symbol, int]) -> UnfusedKernel:
    """The kernel of a sum that is a matrix product."""
    operands = [a for a in dict.fromkeys(map(_operand, factors)) if a in arrays]
    read, written, work = sum(_size(a, extents) for a in operands), _size(n, extents), _work(n, extents)
    a, b, results = (_count(_operand(x), extents) for x in (*factors[:2], n))
    terms = work // max(1, results)
    # a is batch * rows * terms, b is batch * columns * terms, and results are batch * rows * columns
    batch = max(1, round(a * b / max(1, results * terms * terms)))
    rows, columns = a // max(1, batch * terms), b // max(1, batch * terms)
    size, dtype = (batch, rows, columns, terms), _operand(factors[0]).type.dtype
    return UnfusedKernel(n, "matmul", read, written, work, n.type.dtype.compute is FLOAT64, size, dtype)


def _work(n: Node, extents: Mapping[Symbol, int]) -> int:
    """Number of operations; for a sort, its instructions."""
    if n.op == "sorted":
        along = evaluate(n.args[0].type.shape[-1], extents) or 0
        return round(_count(n, extents) * ordering(along))
    if n.op != "contract":
        return _count(n.args[0] if n.op == "reduce" else n, extents)
    subscripts, shape = Subscripts.parse(n.attr), n.args[0].type.shape
    summed = (shape[subscripts.left.index(c)] for c in subscripts.summed)
    return _count(n, extents) * prod(evaluate(d, extents) or 0 for d in summed)


def _operand(n: Node) -> Node:
    """Array that is read for an operand: broadcasts and dtype changes are fused into the read."""
    while n.op in ("convert", "broadcast"):
        n = n.args[0]
    return n


def _fill(r: Node, extents: Mapping[Symbol, int]) -> UnfusedKernel:
    """Kernel that writes a result without array inputs."""
    return UnfusedKernel(r, "full", 0, _size(r, extents), _count(r, extents))


def _copy(n: Node, extents: Mapping[Symbol, int]) -> UnfusedKernel:
    return UnfusedKernel(n, "copy", _size(_operand(n), extents), _size(n, extents), _count(n, extents))


def _count(n: Node, extents: Mapping[Symbol, int]) -> int:
    return prod(evaluate(d, extents) or 0 for d in n.type.shape)


def _size(n: Node, extents: Mapping[Symbol, int]) -> int:
    return _count(n, extents) * n.type.dtype.itemsize
