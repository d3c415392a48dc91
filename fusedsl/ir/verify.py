"""Graph verifier: invariants that every pass may rely on and must preserve."""

from __future__ import annotations

from .contraction import Subscripts
from .dims import Expression, Symbol
from .graph import Graph, Node
from .ops import LEAVES, OPS, OTHERS, VIEWS
from .superaccumulators import SUPERACCUMULATORS
from .types import BOOL, INT32, INT64

SHOWN = 200  # characters of a printed part


class VerifyError(AssertionError):
    """A pass produced a program that breaks a rule: a bug of the pass."""


def require(holds: bool, rule: str, *parts: object) -> None:
    """VerifyError, with the rule and the parts that break it, unless it `holds`."""
    if not holds:
        raise VerifyError(": ".join([rule, *map(_shown, parts)]))


def _shown(part: object) -> str:
    text = str(part)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def verify(graph: Graph) -> None:
    """AssertionError with the faulty node, if a node breaks a rule."""
    for n in graph.nodes():
        assert n.op in OPS or n.op in LEAVES + VIEWS + OTHERS, f"unknown operation: {n!r}"
        assert not (n.op in LEAVES and n.args), f"a leaf has no arguments: {n!r}"
        assert all(isinstance(d, (int, Symbol, Expression)) for d in n.type.shape), f"not an extent: {n!r}"
        if n.op in OPS:
            _verify_elementwise(n)
        elif n.op == "reduce":
            _verify_reduce(n)
        elif n.op == "scan":
            assert all(a.type.shape == n.type.shape for a in n.args), f"a scan keeps its shape: {n!r}"
        elif n.op == "sorted":
            assert n.type.shape[:-1] == n.args[0].type.shape[:-1], f"ranking keeps the rows: {n!r}"
        elif n.op == "gather":
            _verify_gather(n)
        elif n.op == "scatter":
            _verify_scatter(n)
        elif n.op == "contract":
            _verify_contraction(n)
    for r in graph.results:
        assert not r.type.weak, f"a weak result: {r!r}"


def _verify_elementwise(n: Node) -> None:
    op = OPS[n.op]
    assert len(n.args) == op.arity, f"{op.name} takes {op.arity} operands: {n!r}"
    operands = n.args
    if op.rule == "where":
        assert n.args[0].type.dtype is BOOL, f"a condition is a bool: {n!r}"
        operands = n.args[1:]
    elif op.rule == "ldexp":
        assert n.args[1].type.dtype is INT32, f"an exponent is an int32: {n!r}"
        operands = n.args[:1]
    if not n.type.weak:
        assert not any(a.type.weak for a in n.args), f"a weak operand of a strong operation: {n!r}"
        assert len({a.type.dtype for a in operands}) == 1, f"operands of several dtypes: {n!r}"
    for a in n.args:
        for d, whole in zip(reversed(a.type.shape), reversed(n.type.shape)):
            assert d in (1, whole), f"an operand does not broadcast: {n!r}"


def _verify_reduce(n: Node) -> None:
    fold, axes = n.attr
    (x,) = n.args
    expected = tuple(1 if a in axes else d for a, d in enumerate(x.type.shape))
    assert n.type.shape == expected, f"{fold} keeps its axes as 1: {n!r}"


def _verify_gather(n: Node) -> None:
    _, entries = n.attr
    x, *arrays = n.args
    assert len(entries) == x.type.rank, f"an entry for each axis: {n!r}"
    assert [k for kind, k in entries if kind == "at"] == list(range(len(arrays))), f"an array for each position: {n!r}"
    for kind, position in entries:
        assert kind == "at" or 0 <= position < n.type.rank, f"no such axis: {n!r}"
    for i in arrays:
        assert i.type.dtype is INT64 and not i.type.weak, f"positions are int64: {n!r}"
        assert i.type.rank <= n.type.rank, f"positions do not broadcast: {n!r}"


def _verify_scatter(n: Node) -> None:
    base, flat_indices, values = n.args
    fold, _ = n.attr
    assert fold in ("sum", "max", "min", "last", *SUPERACCUMULATORS), f"no such scatter: {n!r}"
    assert base.type == n.type, f"a scatter keeps its base's shape and dtype: {n!r}"
    assert flat_indices.type.dtype is INT64 and not flat_indices.type.weak, f"flat_indices are int64: {n!r}"
    if fold in SUPERACCUMULATORS:
        accumulator = SUPERACCUMULATORS[fold][values.type.dtype]
        shape = (accumulator.chunks, accumulator.group)
        assert base.type.dtype is INT64 and base.type.shape[1:] == shape, f"words of other sums: {n!r}"
    else:
        assert values.type.dtype is n.type.dtype and not values.type.weak, f"values have the dtype of their base: {n!r}"
    assert values.type.rank <= flat_indices.type.rank, f"values broadcast to their flat_indices: {n!r}"


def _verify_contraction(n: Node) -> None:
    subscripts = Subscripts.parse(n.attr)
    parts = (subscripts.left, subscripts.right, subscripts.result)
    shapes = (*(a.type.shape for a in n.args), n.type.shape)
    extent: dict[str, object] = {}
    for own, shape in zip(parts, shapes):
        assert len(own) == len(shape) and len(set(own)) == len(own), f"a letter for each axis: {n!r}"
        assert all(extent.setdefault(c, d) == d for c, d in zip(own, shape)), f"a letter has one extent: {n!r}"
    left, right, result = map(set, parts)
    assert result <= left | right and left ^ right <= result, f"a letter of one operand alone is kept: {n!r}"
    assert left & right - result, f"something is summed over: {n!r}"
    assert n.args[0].type.dtype is n.args[1].type.dtype, f"operands of several dtypes: {n!r}"
    assert not any(a.type.weak for a in n.args), f"a weak operand: {n!r}"
