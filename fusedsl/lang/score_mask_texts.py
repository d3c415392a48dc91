"""Evaluation of score and mask expressions (score_mod, mask_mod); they are elementwise in (b, h, i, j).

Scores have five axes, with grouped heads, but expressions see four: they read arrays at b, h, i and j. An array
without an index is aligned with [i, j] or [j]; one with more axes is refused: it would be aligned with other axes.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ..errors import ArgumentError, FusedslError, ShapeError, UnknownNameError
from ..ir import shapes
from ..ir.attention_checks import INDICES
from ..ir.dims import Dim, expression, product
from ..ir.graph import Node, resolve, walk
from .attention_keywords import missing_name_help
from .attention_layout import AttentionLayout, Request, guard_equal
from .environment import Environment, operand_name
from .error_recovery import EvaluatorBase
from .evaluate import TextEvaluator
from .hints import is_function, value_hint
from .printer import show
from .score_mask_reads import ArrayReads, PairAxes, PairText
from .syntax_tree import CallExpr, Expr, Name, ParsedText, Subscript, postorder

REDUCTIONS = ("reduce", "scan", "sorted", "contract")
MOVEMENTS = ("index", "transpose", "reshape", "gather")
ALIGNED = 2  # most axes of an array without an index


class ScoreMaskEvaluator(TextEvaluator, PairText):
    """Evaluates a score or mask expression; refuses expressions that are not elementwise over pairs."""

    def __init__(
        self, outer: EvaluatorBase, name: str, program: ParsedText, score: Node, r: Request, layout: AttentionLayout
    ):
        super().__init__(outer.builder, program.text, outer.limits)
        self.name, self.tree = name, program
        self.env = Environment({"score": score, **layout.pair_indices, "q": r.q, "k": r.k, "v": r.v, **r.arrays})
        self.pair_axes = dict.fromkeys(walk(self.env.values.values()), PairAxes())
        self.pair_axes |= {node: PairAxes(unindexed=node.type.rank) for node in r.arrays.values()}
        # j of dense operands is a plain iota, which random functions use too: it is not marked per_pair
        own = (index for index in layout.pair_indices.values() if index.op != "iota")
        self.pair_axes |= dict.fromkeys((score, *own), PairAxes(per_pair=True))
        self.index_extents = _extents(r, layout)
        self.reads = ArrayReads.of(self, r, layout, self.index_extents)
        self.newly_aligned: list[Node] = []  # unindexed arrays aligned with pairs, not checked yet

    def value(self) -> Node:
        """The value of the expression; errors are located in it."""
        _check_names(self.tree, self.name)
        results = self.texts(self.tree, self.env)
        if len(results) != 1:
            message = f"{self.name} is one expression, and this has {len(results)} results"
            help = "keep one; names and functions above it take the others"
            raise self.error_at(ArgumentError(message, "argument.attention", help=help), self.tree.results[-1])
        axes = self._axes_of(results[0])
        if axes.unindexed > ALIGNED:
            raise self.error_at(*self._unindexed(self.tree.results[0], self.env))
        if axes.unindexed and not (axes.per_pair or axes.aligned):
            self.reads.check_aligned(results[0], self.tree.results[0], self.env)
        return results[0]

    def broadcast(self, x: Node, shape: tuple[Dim, ...]) -> Node:
        """The value broadcast to all pairs: (batch, heads, n, m), with heads in two axes."""
        result = self.tree.results[0]
        with self.at(self.env, result, result.span[0], (result,)):
            if x.type.rank > len(shape):
                message = f"{self.name} is a value for each b, h, i and j, and this is {self.builder.describe(x.type)}"
                raise ShapeError(message, "shape.attention", self.text, help="index arrays: bias[h, i, j]")
            return shapes.broadcast_to(self.builder, x, shape)

    def error_at(self, error: FusedslError, node: Any = None) -> FusedslError:
        """The error, located in the expression at a node, or at its result."""
        error.text = self.text
        return self.fault(error, self.env, self.tree.results[0] if node is None else node)

    @contextmanager
    def at(self, *args: Any, **named: Any):
        """As in the base class; messages show heads as one axis."""
        b, known = self.builder, len(self.builder.checks)
        before, b.shown = b.shown, self.reads.shown
        try:
            with super().at(*args, **named):
                yield
        finally:
            b.shown = before
            b.checks[known:] = map(self.reads.restate, b.checks[known:])

    # -- axes of expressions

    def visit(self, node: Any, env: Environment) -> Generator[tuple[Any, Environment], Any, Any]:
        """As in the base class, and checks the axes of the value: errors point at the innermost expression."""
        if isinstance(node, CallExpr):
            self._check_function(node, env)
        value = yield from super().visit(node, env)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Node):
                self._examine(part, node, env)
        return value

    def _check_function(self, node: CallExpr, env: Environment) -> None:
        name = node.function
        known = name in env.functions or is_function(name)
        if not known and isinstance(env.values.get(name), Node):
            help = f"write {name}[{', '.join(map(show, node.arguments))}]"
            error = UnknownNameError(f"{name} is an array, not a function", "name.function", help=help)
            raise self.fault(error, env, node)

    def _examine(self, x: Node, node: Expr, env: Environment) -> None:
        try:
            axes = self._axes_of(x)
        except ArgumentError as error:
            raise self.fault(error, env, node, getattr(node, "at", None)) from None
        if axes.unindexed > ALIGNED and (axes.per_pair or x.op == "gather"):
            unindexed, part = self._unindexed(node, env)
            raise self.fault(unindexed, env, part)
        while self.newly_aligned:
            self.reads.check_aligned(self.newly_aligned.pop(), node, env)
        if isinstance(node, Subscript):
            self.reads.check_subscript(node, env)

    def _axes_of(self, x: Node) -> PairAxes:
        return resolve(self.pair_axes, x, lambda n: n.args, self._derive_axes)

    def _derive_axes(self, x: Node) -> PairAxes:
        """The axes of a node, from those of its arguments; ArgumentError if it reads other pairs."""
        parts = [self.pair_axes[a] for a in x.args]
        moved = x.op in MOVEMENTS and parts[0].per_pair
        if moved or x.op in REDUCTIONS:
            message = f"{self.name} is elementwise: it cannot look at other pairs"
            help = "a pair has one score, b, h, i and j, with no axes: write j - i, and read arrays at them: x[h, j]"
            help = help if moved else "reduce before, and pass the result as an array"
            raise ArgumentError(message, "argument.attention", help=help)
        if x.op == "gather":
            return _axes_of_gather(x, *parts)
        if x.op in MOVEMENTS:
            return PairAxes(unindexed=x.type.rank if parts[0].unindexed else 0)
        paired, loose = any(p.per_pair for p in parts), max((p.unindexed for p in parts), default=0)
        others = any(a.type.rank >= ALIGNED and not p.unindexed for a, p in zip(x.args, parts))
        if others and loose <= ALIGNED:
            self.newly_aligned += [a for a, p in zip(x.args, parts) if p.unindexed and not (p.per_pair or p.aligned)]
        return PairAxes(paired, loose, others or any(p.aligned for p in parts))

    # -- arrays that are read without their indices

    def _unindexed(self, node: Expr, env: Environment) -> tuple[ShapeError, Expr]:
        """(error, node) for an unindexed array below an expression."""
        parts = list(postorder(node))
        subscripted = [part.value for part in parts if isinstance(part, Subscript)]

        def rank(part: Name) -> int:
            value = env.values.get(part.name)
            return self.pair_axes.get(value, PairAxes()).unindexed if isinstance(value, Node) else 0

        names = [part for part in parts if isinstance(part, Name) and rank(part)]
        if not names:
            message = f"{self.name} reads an array without its indices"
            return ShapeError(message, "shape.attention", help="index it with b, h, i and j"), node
        part = max(names, key=lambda name: (rank(name) > ALIGNED, name not in subscripted))
        array, name = env.values[part.name], operand_name(env, part) or part.name
        message = f"{self.name} reads {name}, {self.builder.describe(array.type)}, without all of its indices"
        read_at = next((x.indices for x in parts if isinstance(x, Subscript) and x.value is part), ())
        written = [index.name for index in read_at if isinstance(index, Name) and index.name in INDICES]
        help = self.reads.index_help(name, array, written)
        return ShapeError(message, "shape.attention", help=help), part

    def _unknown_value(self, node: Name, env: Environment) -> FusedslError:
        error = super()._unknown_value(node, env)
        hint = missing_name_help(node.name) or value_hint(node.name, env.values, env.functions)
        error.help = hint or f"give it to attention by name: {node.name}=..."
        return error


def _axes_of_gather(x: Node, source: PairAxes, *at: PairAxes) -> PairAxes:
    """The axes of a gather's result; source axes that are not indexed stay unindexed."""
    unindexed_source = source.unindexed and any(kind == "axis" for kind, _ in x.attr[1])
    loose = x.type.rank if unindexed_source else max(part.unindexed for part in at)
    return PairAxes(any(part.per_pair for part in at), loose)


def _extents(r: Request, layout: AttentionLayout) -> dict[str, Dim]:
    """The extents of b, h, i and j; -1 for i and j of ragged sequences, which restart in each sequence."""
    if r.offsets is not None:
        return {"b": expression("-", r.offsets[0].type.shape[0], 1), "h": layout.heads, "i": -1, "j": -1}
    return {"b": layout.q.type.shape[0], "h": layout.heads, "i": layout.q.type.shape[-2], "j": layout.k.type.shape[-2]}


def assume_full_extents(ev: EvaluatorBase, program: ParsedText, r: Request, layout: AttentionLayout) -> None:
    """Guard that arrays read at plain b, h, i or j have the extents of these, so that no index is computed for them."""
    b = ev.builder
    batch, kv, group_size, n, _ = layout.q.type.shape
    extents = {"b": batch, "i": n, "j": layout.k.type.shape[-2]}
    extents["h"] = kv if b.is_unit(group_size) else group_size if b.is_unit(kv) else product((kv, group_size))
    for part in program.parts:
        if not (isinstance(part, Subscript) and isinstance(part.value, Name) and part.value.name in r.arrays):
            continue
        shape = r.arrays[part.value.name].type.shape
        for extent, index in zip(shape, part.indices):
            if not isinstance(index, Name) or index.name not in extents:
                break
            guard_equal(b, extent, extents[index.name])


def _check_names(program: ParsedText, name: str) -> None:
    """Check that q, k and v are read only inside size and shape."""
    parts = list(program.parts)
    sized = {x.arguments[0].value for x in parts if isinstance(x, CallExpr) and x.function in ("size", "shape")}
    for part in parts:
        if isinstance(part, Name) and part.name in ("q", "k", "v") and part not in sized:
            message = f"{name} sees {part.name} inside size alone"
            help = "score is q times k already; pass what else it needs as an array"
            raise ArgumentError(message, "argument.attention", program.text, part.span, help=help)
