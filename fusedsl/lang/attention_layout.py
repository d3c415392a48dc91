"""The operands of attention as they are worked with: heads that share k and v apart, and what belongs together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..errors import ArgumentError, DTypeError, ShapeError
from ..ir import shapes
from ..ir.builder import Builder, fail
from ..ir.dims import Dim, evaluate, expression
from ..ir.gathers import INSIDE, advanced_index, gather, positions
from ..ir.graph import Check, Node
from ..ir.types import INT64


@dataclass(frozen=True)
class Request:
    """What attention is asked for; what is None is not given."""

    q: Node
    k: Node
    v: Node
    score: str | None = None
    mask: str | None = None
    scale: Node | None = None
    lengths: Node | None = None
    offsets: tuple[Node, Node] | None = None
    pages: Node | None = None
    return_lse: bool = False
    arrays: Mapping[str, Node] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """q as (batch, kv heads, heads that share one, n, d), k and v likewise; where each element stands in its sequence;
    which pairs belong together; and how results come back."""

    q: Node
    k: Node
    v: Node
    places: Mapping[str, Node]
    keep: tuple[Node, ...]
    heads: Dim
    ragged: bool


def laid_out(b: Builder, r: Request) -> Layout:
    """The operands in their layout. Errors name what does not go together."""
    _check_operands(b, r)
    return _ragged(b, r) if r.offsets is not None else _dense(b, r)


def _check_operands(b: Builder, r: Request) -> None:
    q, k, v = r.q, r.k, r.v
    ranks = (3, 3, 3) if r.offsets is not None else (4, 4, 4)
    form = "(tokens, heads, d)" if r.offsets is not None else "(batch, heads, n, d)"
    if r.offsets is not None and r.pages is not None:
        raise ArgumentError(
            "offsets= and pages= do not go together", code="argument.attention", help="give one of them"
        )
    for place, (x, rank) in enumerate(zip((q, k, v), ranks)):
        if x.type.weak or x.type.dtype.kind != "f" or x.type.dtype.storage:
            message = f"attention is of floats, and {'qkv'[place]} is {b.describe(x.type)}"
            raise fail(DTypeError(message, code="dtype.attention", help="cast it first, e.g. float16(q)"), place)
        if x.type.rank != rank:
            form = "(pages, page, heads, d)" if r.pages is not None and place else form
            message = f"{'qkv'[place]} has {rank} axes {form}, and this is {b.describe(x.type)}"
            raise fail(ShapeError(message, code="shape.attention", help="reshape it, or index with None"), place)
        if x.type.dtype is not q.type.dtype:
            message = f"q, k and v have one dtype, and {'qkv'[place]} is {x.type.dtype} beside {q.type.dtype}"
            raise fail(DTypeError(message, code="dtype.attention", help="cast them to one"), place)
    numbers = [("lengths", r.lengths), ("pages", r.pages), *(("offsets", one) for one in r.offsets or ())]
    for name, given in numbers:
        rank = 2 if name == "pages" else 1
        if given is not None and (given.type.dtype.kind not in "iu" or given.type.rank != rank):
            form = "(batch, n)" if rank == 2 else "(batch,)" if name == "lengths" else "(sequences + 1,)"
            message = f"{name} are integers {form}, not {b.describe(given.type)}"
            raise ArgumentError(message, code="argument.attention", help="positions are counted from 0")


def _agree(b: Builder, x: Node, y: Node, axes: tuple[int, int], what: str) -> None:
    """Two axes have one extent; a call tests it."""
    one, other = x.type.shape[axes[0]], y.type.shape[axes[1]]
    if b.canonical(one) != b.canonical(other):
        b.checks.append(Check("agree", (one, other), what, (x.type, y.type), site=b.site))
        b.unify(one, other)


def _shared(b: Builder, q: Node, k: Node, v: Node, heads: Dim, kv: Dim) -> tuple[Node, Node, Node]:
    """(batch, heads, n, d) with heads as kv heads and those that share one; k and v with an axis of extent 1."""
    b.checks.append(Check("heads", (heads, kv), "attention", (q.type, k.type), site=b.site))
    several = expression("//", heads, kv)
    if b.is_unit(kv):
        q = shapes.expand_dims(b, q, 1)
    elif b.is_unit(several):
        b.unify(kv, heads)
        q = shapes.expand_dims(b, q, 2)
    else:
        known = len(b.checks)
        q = shapes.reshape(b, q, (q.type.shape[0], kv, several, *q.type.shape[2:]))
        del b.checks[known:]  # heads that are a multiple have as many elements
    return q, shapes.expand_dims(b, k, 2), shapes.expand_dims(b, v, 2)


def _head_numbers(b: Builder, q: Node) -> Node:
    """The number of each query head, for q of (batch, kv, shared, n, d)."""
    kv, several = q.type.shape[1:3]
    outer = shapes.expand_dims(b, b.iota(kv), [1, 2, 3])
    inner = shapes.expand_dims(b, b.iota(several), [1, 2])
    if b.is_unit(several):
        return outer
    return inner if b.is_unit(kv) else b.elementwise("add", b.elementwise("multiply", outer, b.extent(several)), inner)


def _dense(b: Builder, r: Request) -> Layout:
    q, k, v = r.q, r.k, r.v
    if r.pages is not None:
        _agree(b, k, v, (1, 1), "elements of a page of k and v")
        same_here(b, k.type.shape[0], v.type.shape[0])  # what a page number is checked against is read once for both
        k, v = (_paged(b, x, r.pages) for x in (k, v))
    for place, what in ((1, "number of heads of k and v"), (2, "length of k and v")):
        _agree(b, k, v, (place, place), what)
    _agree(b, q, k, (3, 3), "width of q and k")
    for x, name in ((k, "k"), (v, "v")):
        if not b.is_unit(x.type.shape[0]):
            _agree(b, q, x, (0, 0), f"batch of q and {name}, or 1 in {name}")
    heads, n, m = q.type.shape[1], q.type.shape[2], k.type.shape[2]
    q, k, v = _shared(b, q, k, v, heads, k.type.shape[1])
    places = {
        "b": shapes.expand_dims(b, b.iota(q.type.shape[0]), [1, 2, 3, 4]),
        "h": _head_numbers(b, q),
        "i": shapes.expand_dims(b, b.iota(n), 1),
        "j": b.iota(m),
    }
    keep = []
    if r.lengths is not None:
        _agree(b, q, r.lengths, (0, 0), "batch of q and lengths")
        ends = shapes.expand_dims(b, b.convert(r.lengths, INT64), [1, 2, 3, 4])
        keep.append(b.elementwise("less", places["j"], ends))
    return Layout(q, k, v, places, tuple(keep), heads, False)


def same_here(b: Builder, one: Dim, other: Dim) -> None:
    """Two extents are written alike if they are equal at this call: the plan holds for calls where it is so."""
    apart = expression("max", expression("-", one, other), expression("-", other, one))
    equal = expression("fits", apart, 0)
    if not isinstance(equal, int) and b.guards.setdefault(equal, evaluate(equal, b.extents) == 1):
        b.unify(one, other)


def _paged(b: Builder, x: Node, pages: Node) -> Node:
    """(pages, page, heads, d) as (batch, heads, page number * page, d): read where they are."""
    (batch, count), size = pages.type.shape, x.type.shape[1]
    place = positions(b, b.iota(expression("*", count, size)))
    number = b.elementwise("floor_divide", place, b.extent(size))
    line = gather(b, pages, {1: number}, (0, None), (batch, *place.type.shape), INSIDE)
    within = b.elementwise("subtract", place, b.elementwise("multiply", number, b.extent(size)))
    return shapes.transpose(b, advanced_index(b, x, (line, within)), (0, 2, 1, 3))


def _ragged(b: Builder, r: Request) -> Layout:
    """Sequences one after the other: a pair of elements belongs together where both are of one sequence."""
    assert r.offsets is not None
    q, k, v = (shapes.expand_dims(b, shapes.transpose(b, x, (1, 0, 2)), 0) for x in (r.q, r.k, r.v))
    for place, what in ((1, "number of heads of k and v"), (2, "length of k and v")):
        _agree(b, k, v, (place, place), what)
    _agree(b, q, k, (3, 3), "width of q and k")
    _agree(b, *r.offsets, (0, 0), "number of sequences of q and k")
    heads = q.type.shape[1]
    mine, other = (_sequences(b, x.type.shape[2], o) for x, o in zip((q, k), r.offsets))
    q, k, v = _shared(b, q, k, v, heads, k.type.shape[1])
    number, i = (shapes.expand_dims(b, x, 1) for x in (mine.number(b, -1), mine.place))
    keep = [b.elementwise("equal", number, other.number(b, -2))]
    if r.lengths is not None:
        _agree(b, other.held, r.lengths, (0, 0), "number of sequences and of lengths")
        ends = shapes.expand_dims(b, b.convert(r.lengths, INT64), 1)
        keep.append(b.elementwise("less", other.place, other.its(b, ends)))
    places = {"b": b.weakened(number), "h": _head_numbers(b, q), "i": b.weakened(i), "j": b.weakened(other.place)}
    return Layout(q, k, v, places, tuple(keep), heads, True)


@dataclass(frozen=True)
class Sequences:
    """Which sequence holds which token: `held` (sequences, tokens), at most one for each; and where a token stands in
    its own. What a token has of its sequence is a fold over all of them, so that it is stored once a token: offsets
    that are read at computed places would be read for each pair of tokens."""

    held: Node
    place: Node

    def its(self, b: Builder, x: Node) -> Node:
        """For each token, what its sequence has in `x` (sequences, 1); 0 where it belongs to none."""
        return shapes.reduce(b, "sum", b.elementwise("where", self.held, x, b.literal(0)), 0)

    def number(self, b: Builder, none: int) -> Node:
        """The number of its sequence, or `none`."""
        line = shapes.expand_dims(b, b.iota(self.held.type.shape[0]), 1)
        above = self.its(b, b.elementwise("subtract", b.convert(line, INT64), b.literal(none)))
        return b.elementwise("add", above, b.literal(none))


def _sequences(b: Builder, tokens: Dim, offsets: Node) -> Sequences:
    place, offsets = b.iota(tokens), b.convert(offsets, INT64)
    begins, ends = (shapes.index(b, offsets, (part, None)) for part in (slice(None, -1), slice(1, None)))
    begun, before_end = b.elementwise("less_equal", begins, place), b.elementwise("less", place, ends)
    found = Sequences(b.elementwise("logical_and", begun, before_end), place)
    return replace(found, place=b.elementwise("subtract", place, found.its(b, begins)))


def laid_back(b: Builder, found: Layout, x: Node) -> Node:
    """(batch, kv, shared, n, e) as (batch, heads, n, e), or (tokens, heads, e)."""
    if b.is_unit(x.type.shape[1]):
        x = shapes.squeeze(b, x, [1])
    elif b.is_unit(x.type.shape[2]):
        x = shapes.squeeze(b, x, [2])
    else:
        known = len(b.checks)
        x = shapes.reshape(b, x, (x.type.shape[0], found.heads, *x.type.shape[3:]))
        del b.checks[known:]
    if not found.ragged:
        return x
    x = shapes.squeeze(b, x, [0])
    return shapes.transpose(b, x, (1, 0, 2)) if x.type.rank == 3 else x
