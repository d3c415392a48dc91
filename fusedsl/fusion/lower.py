"""Lowering of a graph of arrays to scalars over named axes: views become coordinates, reductions become folds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..ir.dims import Dim, product
from ..ir.folds import scalar
from ..ir.graph import Graph, Node, Type, constant, node, value_of, walk
from ..ir.ops import LEAVES, OPS, VIEWS
from .axis_splits import split_axes
from .concat_pieces import Pieces, SameExtent, bound_in_pieces, count_fetches, extent_in_pieces, find_pieces
from .contractions import expand_contractions
from .coordinates import Axis, ComputedIndex, Coordinate, Coordinates, aligned, position_of
from .lower_elements import (
    NeedsMemory,
    fill_value,
    fold,
    fresh,
    load,
    reduced_coordinates,
    scan,
    sorted_coordinates,
    sorted_element,
)
from .reshapes import push_reshapes, refine, reshaped_argument
from .roots import Root, parts_of, regrouped, without_final_reshapes
from .scalar_program import ArraySource, ReadableArrays, ScalarProgram, ScalarStore
from .segments import Segment, StoreTarget, segments
from .split_concat import split_concat_reductions
from .stored_sorts import stored_orders
from .view_coordinates import divides_by_literals, through_gather, through_index, through_reshape

Key = tuple[Node, Coordinates]
MOST_READS = 128  # coordinates at which one value is recomputed; beyond, it is stored
MOST_FOLDS = 16  # the same for a reduction: each is a loop, which takes long to compile
# Besides elementwise operations: an element costs the same at computed coordinates.
ANYWHERE = ("convert", "cast", "gather", *VIEWS)

LoweringPass = Callable[[Sequence[Node], SameExtent], Sequence[Node]]
LOWERING_PASSES: tuple[tuple[str, LoweringPass], ...] = (  # (name, pass) over a segment's results, in order
    ("expand contractions", lambda results, same: expand_contractions(results)),
    ("split reductions of concatenations", split_concat_reductions),
    ("split merged axes", split_axes),
    ("push reshapes", lambda results, same: push_reshapes(tuple(results))),
)


def lower(graph: Graph, same: SameExtent = lambda a, b: a == b) -> ScalarProgram:
    """Scalar program of a graph as one segment; `same` answers whether two extents are equal for this plan."""
    return lower_segment(segments(graph, ())[0], ReadableArrays(len(graph.parameters)), same)


def lower_segment(segment: Segment, memory: ReadableArrays, same: SameExtent) -> ScalarProgram:
    """Scalar program of a segment, which may read `memory`."""
    written = segment.graph.results
    results: Sequence[Node] = [part for r in written for part in parts_of(r)]
    for _, run in LOWERING_PASSES:
        results = run(results, same)
    peeled = refine(without_final_reshapes(written, results))
    roots = regrouped(segment.targets, written, results, peeled)
    unsplit = _lowered(roots, memory)
    further = len(unsplit.temporaries) > len(memory.temporaries)
    pieces = find_pieces(peeled, same) if count_fetches(r.value for r in unsplit.stores) and not further else None
    if pieces is None:
        return unsplit
    split = _lowered(roots, memory, pieces)
    further = len(split.temporaries) > len(memory.temporaries)
    return unsplit if further or count_fetches(r.value for r in split.stores) else split


def _lowered(results: list[Root], memory: ReadableArrays, pieces: Pieces | None = None) -> ScalarProgram:
    """Scalar program of some results."""
    peeled = [n for root in results for n in root.nodes]
    first = len(memory.temporaries)
    cut = dict.fromkeys(n.args[0] for n in walk(peeled) if n.op == "reshape" and _is_cut(n))
    cut |= dict.fromkeys(stored_orders(peeled))
    scattered: dict[Node, None] = {}
    while True:
        temporaries = {n: k for k, n in enumerate({**cut, **scattered}, first)}
        lowering = _Lowering(temporaries, frozenset(cut), memory, pieces)
        try:
            targets = [(n, StoreTarget("temporary", k, memory.rounds(n))) for n, k in temporaries.items()]
            roots = [r for n, target in targets for r in _stores(lowering, target, n, n)]
            for root in results:
                roots += _stores(lowering, root.target, root.stored, root.computed, bool(root.fold))
                roots += _scatter(lowering, root)
        except NeedsMemory as error:
            cut[error.node] = None
            continue
        if not lowering.scattered:
            return ScalarProgram(tuple(roots), (*memory.temporaries, *(n.type for n in temporaries)))
        scattered |= lowering.scattered


def _is_cut(n: Node) -> bool:
    """Whether a reshape needs its operand in memory.

    Dividing indices by run-time extents costs more than a load, unless much of the operand is broadcast.
    """
    if reshaped_argument(n) is not None or divides_by_literals(n.args[0].type.shape, n.type.shape):
        return False
    return n.args[0].op != "broadcast"


def _stores(
    lowering: _Lowering, target: StoreTarget, stored: Node, computed: Node, merged: bool = False
) -> list[ScalarStore]:
    """Stores of one result: one, or one for each piece of a split axis; `merged` if a scatter merges into it."""
    axes: list[Axis | None] = []
    cut, pieces = None, lowering.pieces
    for k, d in enumerate(computed.type.shape):
        if pieces is not None and d == pieces.extent:
            d, cut = pieces.piece, k
        axes.append(None if d == 1 else fresh(d, axes))
    roots = []
    for start in pieces.starts if pieces is not None and cut is not None else (0,):
        starts = tuple(start if k == cut else 0 for k in range(len(axes)))
        coordinates = tuple(Coordinate(s, 1, a) for s, a in zip(starts, axes))
        value = lowering.lower(computed, coordinates, cut=False)
        fields = (stored.type.shape, computed.type.shape, tuple(axes), value, stored.type)
        offsets = starts if start != 0 else ()
        roots.append(ScalarStore(target.kind, target.index, *fields, offsets, target.rounded, merged))
    return roots


def _scatter(lowering: _Lowering, root: Root) -> list[ScalarStore]:
    """The store that merges the updates of a scatter, if the root is one."""
    if not root.fold:
        return []
    flat_indices, values = root.updates
    axes: list[Axis | None] = []
    for d in flat_indices.type.shape:
        axes.append(None if d == 1 else fresh(d, axes))
    at = tuple(Coordinate(0, 1, a) for a in axes)
    parts = tuple(lowering.lower(n, aligned(n.type.shape, at), cut=False) for n in (flat_indices, values))
    update = node("update", parts, root.fold, Type(root.stored.type.dtype))
    flat = (product(root.stored.type.shape),)
    target, stored = root.target, root.stored.type
    shapes = (stored.shape, flat)
    return [ScalarStore(target.kind, target.index, *shapes, tuple(axes), update, stored, ordered=root.ordered)]


def _is_computed(at: Coordinates) -> bool:
    """Whether the kernel computes a coordinate."""
    return any(isinstance(c, ComputedIndex) for c in at)


def _is_view_of_fold(n: Node) -> bool:
    """Whether a node is a reduction, scan or sort, through views that keep its elements' order or permute it."""
    while n.op in ("index", "transpose"):
        n = n.args[0]
    return n.op not in ANYWHERE and n.op not in OPS and n.op not in LEAVES


class _Lowering:
    """Lowers each (node, coordinates) to a scalar node once."""

    def __init__(
        self, temporaries: dict[Node, int], cut: frozenset[Node], memory: ReadableArrays, pieces: Pieces | None = None
    ):
        self.temporaries = temporaries
        self.memory = memory
        self.pieces = pieces
        self.cut = cut  # temporaries that are always read from memory, not only at computed coordinates
        self.done: dict[Key, Node] = {}
        self.reads: Counter[Node] = Counter()  # how many coordinates each node is computed at
        self.scattered: dict[Node, None] = {}  # values read at computed coordinates: they become temporaries

    def lower(self, n: Node, at: Coordinates, cut: bool = True) -> Node:
        """Scalar of element `at` of `n`; `cut=False` computes `n` itself even if it is a temporary."""
        root = (n, at)
        loaded = None if cut else self.done.pop(root, None)  # if another store reads this temporary
        stack: list[Key] = [root]
        while stack:
            key = stack.pop()
            if key in self.done:
                continue
            leaf = self._leaf(*key) if cut or key != root else self._plain_leaf(*key)
            if leaf is not None:
                self.done[key] = leaf
                continue
            needs = self._needs(*key)
            missing = [k for k in needs if k not in self.done]
            if missing:
                stack += [key, *missing]
            else:
                self.done[key] = self._make(*key, tuple(self.done[k] for k in needs))
                self._count(key[0])
        result = self.done[root]
        if not cut:
            del self.done[root]
            if loaded is not None:
                self.done[root] = loaded
        return result

    def _count(self, n: Node) -> None:
        """Raise NeedsMemory for a value that is computed from arrays at too many coordinates."""
        self.reads[n] += 1
        most = MOST_FOLDS if n.op == "reduce" else MOST_READS
        if self.reads[n] > most and (n.op in OPS or n.op == "reduce"):
            if n not in self.cut and any(a.op == "param" for a in walk([n])):
                raise NeedsMemory(n)
            self.reads[n] = 0

    def _leaf(self, n: Node, at: Coordinates) -> Node | None:
        if n in self.temporaries and (n in self.cut or _is_computed(at)):
            return load(ArraySource("temporary", self.temporaries[n], (), self.memory.rounds(n)), n, at)
        return self._plain_leaf(n, at)

    def _plain_leaf(self, n: Node, at: Coordinates) -> Node | None:
        if n.op == "param":
            return load(self.memory.source(n.attr), n, at)
        if n.op in ("const", "scalar", "size"):
            return n
        if n.op == "iota":
            return position_of(at[0])
        if n.op == "reshape":
            chain = reshaped_argument(n)
            if chain is not None:
                return load(self.memory.source(*chain), n, at)
            if n.args[0] in self.temporaries:
                views = (("reshape", n.type.shape),)
                source = ArraySource("temporary", self.temporaries[n.args[0]], views, self.memory.rounds(n.args[0]))
                return load(source, n, at)
            if _is_view_of_fold(n.args[0]) and _is_computed(through_reshape(n, at)):
                self.scattered[n.args[0]] = None  # in memory its reshape is a view
                return constant(0, n.type.dtype)
        if n.op == "sorted" and not _is_computed(at[:-1]):
            return None
        if n.op not in ANYWHERE and n.op not in OPS and _is_computed(at):
            self.scattered[n] = None
            return constant(0, n.type.dtype)  # the lowering is repeated with the new temporary
        return None

    def _needs(self, n: Node, at: Coordinates) -> list[Key]:
        """Elements that element `at` of `n` is computed from."""
        if n.op == "index":
            return [(n.args[0], self._offsets_in_pieces(through_index(n, at)))]
        if n.op == "transpose":
            inverse = {axis: position for position, axis in enumerate(n.attr)}
            return [(n.args[0], tuple(at[inverse[a]] for a in range(len(at))))]
        if n.op == "sorted":
            return [(n.args[0], sorted_coordinates(n, at))]
        if n.op == "reduce":
            return [(n.args[0], inner) for inner in reduced_coordinates(n, at, self.pieces)[0]]
        if n.op == "reshape":
            return [(n.args[0], through_reshape(n, at))]
        if n.op == "gather":
            x, *arrays = n.args
            keys = [(i, aligned(i.type.shape, at)) for i in arrays]
            if any(k not in self.done for k in keys):
                return keys
            return [(x, through_gather(n, at, [self.done[k] for k in keys], self._in_pieces)[0]), *keys]
        if n.op == "where" and self.pieces is not None:
            keys = [(a, aligned(a.type.shape, at)) for a in n.args]
            condition = self.done.get(keys[0])
            if condition is None:
                return keys[:1]
            if condition.op == "const":
                return [keys[0], keys[1 if value_of(condition) else 2]]
        return [(a, aligned(a.type.shape, at)) for a in n.args]

    def _make(self, n: Node, at: Coordinates, args: tuple[Node, ...]) -> Node:
        if n.op in ("index", "transpose", "broadcast", "reshape"):
            return args[0]
        if n.op == "gather":
            inside = through_gather(n, at, args[1:], self._in_pieces)[1]
            return args[0] if inside is None else scalar("where", inside, args[0], fill_value(n))
        if n.op == "reduce":
            joined = args[0] if self.pieces is None or len(args) == 1 else self.pieces.join(n.attr[0], args)
            return fold(n, reduced_coordinates(n, at, self.pieces)[1], joined)
        if n.op == "where" and len(args) == 2:
            return args[1]
        if n.op == "less" and self.pieces is not None:
            known = bound_in_pieces(args[0], args[1], self.pieces)
            if known is not None:
                return known
        if n.op == "scan":
            return scan(n, at, args)
        if n.op == "sorted":
            return sorted_element(n, at, args[0])
        return node(n.op, args, n.attr, Type(n.type.dtype))

    def _offsets_in_pieces(self, at: Coordinates) -> Coordinates:
        """Coordinates whose offsets use the pieces' extents, so that one element has one load."""
        if self.pieces is None:
            return at
        return tuple(replace(c, start=self._in_pieces(c.start)) if isinstance(c, Coordinate) else c for c in at)

    def _in_pieces(self, d: Dim) -> Dim:
        """An extent expressed in the extent of a piece, if possible."""
        return d if self.pieces is None else extent_in_pieces(d, self.pieces)
