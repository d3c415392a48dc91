"""Layout of attention operands: dense, paged and ragged q, k, v to five axes with grouped heads, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import DTypeError, FusedslError, ShapeError, Unsupported
from ..ir import index_keys, shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.dims import Dim, evaluate, expression
from ..ir.gathers import INSIDE, advanced_index, gather, positions
from ..ir.graph import Check, Node
from ..ir.types import BOOL, INT32, INT64
from .syntax_tree import ParsedText

OPERANDS = ("q", "k", "v", "scale", "lengths", "pages", "offsets")


@dataclass(frozen=True)
class Request:
    """The arguments of attention; None means not given."""

    q: Node
    k: Node
    v: Node
    score: ParsedText | None = None
    mask: ParsedText | None = None
    scale: Node | None = None
    lengths: Node | None = None
    offsets: tuple[Node, Node] | None = None
    pages: Node | None = None
    return_lse: bool = False
    arrays: Mapping[str, Node] = field(default_factory=dict)


@dataclass(frozen=True)
class AttentionLayout:
    """q as (batch, kv heads, query heads per kv head, n, d), k and v with 1 for the third axis."""

    q: Node
    k: Node
    v: Node
    pair_indices: Mapping[str, Node]  # b, h, i, j of each pair
    keep: tuple[Node, ...]  # masks that follow from lengths and offsets
    heads: Dim  # query heads
    ragged: bool  # sequences are packed, with offsets


def lay_out(b: GraphBuilder, r: Request) -> AttentionLayout:
    """The operands in their layout; errors for operands that do not match."""
    _check_operands(b, r)
    return _ragged(b, r) if r.offsets is not None else _dense(b, r)


def _check_operands(b: GraphBuilder, r: Request) -> None:
    if r.offsets is not None and r.pages is not None:
        help = "give one of them: sequences of pages are a batch, with lengths="
        raise Unsupported("offsets= together with pages= is not supported", "unsupported.attention", help=help)
    for number, x in enumerate((r.q, r.k, r.v)):
        try:
            _check_floats(b, r, "qkv"[number], x)
        except FusedslError as error:
            raise fail(error, number) from None
    others: list[tuple[str, Node | None, int | None]] = [(name, getattr(r, name), None) for name in OPERANDS[3:-1]]
    for name, given, item in (*others, *(("offsets", offsets, k) for k, offsets in enumerate(r.offsets or ()))):
        try:
            if given is not None:
                _check_numbers(b, name, given, item)
        except FusedslError as error:
            raise fail(error, OPERANDS.index(name), item) from None


def _check_floats(b: GraphBuilder, r: Request, name: str, x: Node) -> None:
    """Check q, k or v: floats of one dtype, with the rank of its layout."""
    if x.type.weak or x.type.dtype.kind != "f" or x.type.dtype.storage:
        message = f"attention is of floats, and {name} is {b.describe(x.type)}"
        raise DTypeError(message, "dtype.attention", help="cast it first, e.g. float16(q)")
    form = "(tokens, heads, d)" if r.offsets is not None else "(batch, heads, n, d)"
    form = "(pages, page, kv_heads, d)" if r.pages is not None and name != "q" else form
    rank = form.count(",") + 1
    if x.type.rank != rank:
        message = f"{name} has {rank} axes {form}, and this is {b.describe(x.type)}"
        raise ShapeError(message, "shape.attention", help=_other_rank(x.type.rank, rank, name))
    if x.type.dtype is not r.q.type.dtype:
        message = f"q, k and v have one dtype, and {name} is {x.type.dtype} beside {r.q.type.dtype}"
        raise DTypeError(message, "dtype.attention", help="cast them to one")


def _other_rank(rank: int, wanted: int, name: str) -> str:
    """The help for an operand of the wrong rank."""
    if (rank, wanted) == (3, 4):
        return f"{name}[None] is a batch of 1; (tokens, heads, d), sequence after sequence, goes with offsets="
    if (rank, wanted) == (4, 3):
        return "offsets= cuts (tokens, heads, d) into sequences: leave it out for (batch, heads, n, d)"
    return "reshape it, or index with None"


# Other operands than q, k and v: description, dtype kinds, rank, and help for another rank.
NUMBERS = {
    "scale": (
        "one number", "iuf", 0, "put a scale of each head in the score: score='score * scales[h]', scale=1, scales=...",
    ),
    "lengths": ("integers (batch,)", "iu", 1, "one for each sequence: how many of its keys count"),
    "pages": ("integers (batch, n)", "iu", 2, "one row for each sequence: the numbers of its pages, in order"),
    "offsets": (
        "integers (sequences + 1,)", "iu", 1, "where each sequence begins, and the last one ends: [0, 3, 10] are two",
    ),
}  # fmt: skip


def _check_numbers(b: GraphBuilder, name: str, x: Node, item: int | None) -> None:
    wanted, kinds, rank, help = NUMBERS[name]
    message = f"{name} {'is' if rank == 0 else 'are'} {wanted}, not {b.describe(x.type)}"
    if x.type.dtype.kind not in kinds or x.type.dtype.storage:
        cast = f"cast to {'float32' if 'f' in kinds else 'int32'}"
        cast = "a condition is a mask: mask='keep[b, j]'" if (name, x.type.dtype) == ("lengths", BOOL) else cast
        raise DTypeError(message, "dtype.attention", help=cast)
    if x.type.rank != rank:
        raise ShapeError(message, "shape.attention", help=help)
    if name == "offsets":
        with b.pointing(OPERANDS.index(name), item):
            b.checks.append(Check("offsets", x.type.shape, name, (x.type,), site=b.site))


def _check_equal(b: GraphBuilder, x: Node, y: Node, axis: int, what: str) -> None:
    """Check that an axis of two operands has one extent; a call tests it."""
    extent, other = x.type.shape[axis], y.type.shape[axis]
    if b.canonical(extent) != b.canonical(other):
        b.checks.append(Check("agree", (extent, other), what, (x.type, y.type), site=b.site))
        b.unify(extent, other)


def _group_heads(b: GraphBuilder, r: Request, q: Node, k: Node, v: Node) -> tuple[Node, Node, Node]:
    """q, k, v of (batch, heads, n, d) with heads as (kv heads, query heads per kv head); the latter is 1 in k and v."""
    heads, kv = q.type.shape[1], k.type.shape[1]
    what = "ragged heads" if r.offsets is not None else "paged heads" if r.pages is not None else "heads"
    b.checks.append(Check("heads", (heads, kv), what, (r.q.type, r.k.type), site=b.site))
    group_size = expression("//", heads, kv)
    if b.is_unit(kv):
        q = shapes.expand_dims(b, q, 1)
    elif b.is_unit(group_size):
        b.unify(kv, heads)
        q = shapes.expand_dims(b, q, 2)
    else:
        known = len(b.checks)
        q = shapes.reshape(b, q, (q.type.shape[0], kv, group_size, *q.type.shape[2:]))
        del b.checks[known:]  # heads that are a multiple have as many elements
    return q, shapes.expand_dims(b, k, 2), shapes.expand_dims(b, v, 2)


def _head_numbers(b: GraphBuilder, q: Node) -> Node:
    """The index h of each query head, for q of (batch, kv, shared, n, d)."""
    kv, group_size = q.type.shape[1:3]
    outer = shapes.expand_dims(b, b.iota(kv), [1, 2, 3])
    inner = shapes.expand_dims(b, b.iota(group_size), [1, 2])
    if b.is_unit(group_size):
        return outer
    if b.is_unit(kv):
        return inner
    number = b.elementwise("add", b.elementwise("multiply", outer, b.extent(group_size)), inner)
    b.merged[number] = outer, inner
    return number


def _dense(b: GraphBuilder, r: Request) -> AttentionLayout:
    q, (k, v) = r.q, _keys(b, r)
    heads, n, m = q.type.shape[1], q.type.shape[2], k.type.shape[2]
    q, k, v = _group_heads(b, r, q, k, v)
    pair_indices = {
        "b": shapes.expand_dims(b, b.iota(q.type.shape[0]), [1, 2, 3, 4]),
        "h": _head_numbers(b, q),
        "i": shapes.expand_dims(b, b.iota(n), 1),
        "j": b.iota(m),
    }
    keep = []
    if r.lengths is not None:
        _check_equal(b, r.q, r.lengths, 0, "batch of q and lengths")
        ends = shapes.expand_dims(b, b.convert(r.lengths, INT64), [1, 2, 3, 4])
        keep.append(b.elementwise("less", pair_indices["j"], ends))
    return AttentionLayout(q, k, v, pair_indices, tuple(keep), heads, False)


def _keys(b: GraphBuilder, r: Request) -> tuple[Node, Node]:
    """k and v as (batch, heads, m, d), checked against q."""
    k, v = r.k, r.v
    if r.pages is not None:
        _check_equal(b, k, v, 1, "size of a page of k and v")
        _check_equal(b, k, v, 2, "number of heads of k and v")
        guard_equal(b, k.type.shape[0], v.type.shape[0])  # so that both share the check of a page number
        k, v = (_paged(b, x, r.pages) for x in (k, v))
    for axis, what in ((1, "number of heads of k and v"), (2, "length of k and v")):
        _check_equal(b, k, v, axis, what)
    _check_equal(b, r.q, r.k, 3, "width of q and k")
    for x, name in ((k, "k"), (v, "v")) if r.pages is None else ((r.pages, "pages"),):
        if not b.is_unit(x.type.shape[0]):
            _check_equal(b, r.q, x, 0, f"batch of q and {name}, or 1 in {name}")
    return k, v


def guard_equal(b: GraphBuilder, d: Dim, e: Dim) -> None:
    """Unify two extents if they are equal in this call, with a guard: the plan holds only for such calls."""
    difference = expression("max", expression("-", d, e), expression("-", e, d))
    equal = expression("fits", difference, 0)
    if not isinstance(equal, int) and b.guards.setdefault(equal, evaluate(equal, b.extents) == 1):
        b.unify(d, e)


def _paged(b: GraphBuilder, x: Node, pages: Node) -> Node:
    """Paged k or v, (pages, page size, heads, d), as (batch, heads, m, d): a gather through the page table, no copy."""
    (batch, count), size = pages.type.shape, x.type.shape[1]
    index = positions(b, b.iota(expression("*", count, size)))
    number = b.elementwise("floor_divide", index, b.extent(size))
    line = gather(pages, {1: number}, (0, None), (batch, *index.type.shape), INSIDE)
    within = b.elementwise("subtract", index, b.elementwise("multiply", number, b.extent(size)))
    return shapes.transpose(b, advanced_index(b, x, (line, within)), (0, 2, 1, 3))


def _ragged(b: GraphBuilder, r: Request) -> AttentionLayout:
    """Ragged (packed) sequences: a query attends only to keys of its own sequence."""
    assert r.offsets is not None
    for axis, what in ((1, "number of heads of k and v"), (0, "length of k and v")):
        _check_equal(b, r.k, r.v, axis, what)
    _check_equal(b, r.q, r.k, 2, "width of q and k")
    q, k, v = (shapes.expand_dims(b, shapes.transpose(b, x, (1, 0, 2)), 0) for x in (r.q, r.k, r.v))
    _check_equal(b, *r.offsets, 0, "number of sequences of q and k")
    queries, keys = (_bounds(b, x) for x in r.offsets)
    token, at = (b.iota(x.type.shape[2]) for x in (q, k))
    in_sequence = b.elementwise(
        "logical_and", *(b.elementwise(op, x, token) for op, x in zip(BOUND_COMPARISONS, queries))
    )
    begin, end = keys
    if r.lengths is not None:
        _check_equal(b, begin, r.lengths, 0, "number of sequences and of lengths")
        counted = shapes.expand_dims(b, b.convert(r.lengths, INT64), 1)
        end = b.elementwise("minimum", end, b.elementwise("add", begin, counted))
    number = b.convert(shapes.expand_dims(b, b.iota(begin.type.shape[0]), 1), INT64)
    per_token = [shapes.expand_dims(b, _of_sequence(b, in_sequence, x), 1) for x in (number, queries[0], begin, end)]
    heads = q.type.shape[1]
    q, k, v = _group_heads(b, r, q, k, v)
    i = b.elementwise("subtract", shapes.expand_dims(b, token, 1), per_token[1])
    j = b.elementwise("subtract", at, per_token[2])
    keep = (b.elementwise("greater_equal", at, per_token[2]), b.elementwise("less", at, per_token[3]))
    pair_indices = {"b": b.weakened(per_token[0]), "h": _head_numbers(b, q), "i": b.weakened(i), "j": b.weakened(j)}
    return AttentionLayout(q, k, v, pair_indices, keep, heads, True)


BOUND_COMPARISONS = ("less_equal", "greater")  # of a sequence's begin and end with its tokens


def _bounds(b: GraphBuilder, offsets: Node) -> tuple[Node, Node]:
    """(begins, ends) of the sequences, each (sequences, 1)."""
    offsets = b.convert(offsets, INT64)
    begin, end = (index_keys.index(b, offsets, (part, None)) for part in (slice(None, -1), slice(1, None)))
    return begin, end


def _of_sequence(b: GraphBuilder, in_sequence: Node, x: Node) -> Node:
    """For each token, the value in `x` (sequences, 1) of its sequence; 0 for a token of no sequence.

    `in_sequence` (sequences, tokens) says which tokens a sequence has. The value is a fold over sequences, stored once
    per token: a gather of offsets would be read for each pair instead. It is narrowed to 32 bits: interval analysis
    then knows that sums of such indices do not wrap in 64 bits.
    """
    total = shapes.reduce(b, "sum", b.elementwise("where", in_sequence, x, b.literal(0)), 0)
    return b.convert(b.cast(total, INT32), INT64)


def restore_layout(b: GraphBuilder, layout: AttentionLayout, x: Node) -> Node:
    """A result of (batch, kv, shared, n, e) as (batch, heads, n, e), or ragged as (tokens, heads, e)."""
    if b.is_unit(x.type.shape[1]):
        x = shapes.squeeze(b, x, [1])
    elif b.is_unit(x.type.shape[2]):
        x = shapes.squeeze(b, x, [2])
    else:
        known = len(b.checks)
        x = shapes.reshape(b, x, (x.type.shape[0], layout.heads, *x.type.shape[3:]))
        del b.checks[known:]
    if not layout.ragged:
        return x
    x = shapes.squeeze(b, x, [0])
    return shapes.transpose(b, x, (1, 0, 2)) if x.type.rank == 3 else x
