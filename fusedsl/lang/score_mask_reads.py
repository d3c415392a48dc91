"""Array reads in the expressions of score and mask: each axis has the extent of its index, and one meaning.

Both are checks that a call tests, because extents are known only then. Computed indices are read when the kernel runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ..ir.attention_checks import INDICES, completed, indexed
from ..ir.builder import GraphBuilder
from ..ir.dims import Dim, evaluate
from ..ir.graph import Check, Node, Site, Type
from .attention_layout import AttentionLayout, Request
from .environment import Environment, inline_trail, operand_name, source_span
from .error_recovery import Faults
from .printer import show
from .syntax_tree import Compare, Expr, Literal, Name, ParsedText, Subscript, postorder


@dataclass(frozen=True)
class PairAxes:
    """Axes of a value in a score or mask text: those of the pair (b, h, i, j), and those of unindexed arrays."""

    per_pair: bool = False  # one value for each pair, computed from the score or from b, h, i and j
    unindexed: int = 0  # so many trailing axes belong to arrays that were not read at b, h, i and j
    aligned: bool = False  # these trailing axes were broadcast against values with axes of i or h


class PairText(Faults):
    """A score or mask expression under evaluation, as far as the checks of its array reads need it."""

    name: str  # "score" or "mask"
    pair_axes: dict[Node, PairAxes]


@dataclass(frozen=True)
class ArrayReads:
    """The checks of one expression's array reads."""

    text: PairText
    extents: Mapping[str, Dim]  # of b, h, i and j; -1 where no extent is theirs
    index_names: Mapping[Node, str]  # the nodes of those indices that must stay within an array
    heads: tuple[Dim, Dim]  # key heads, and query heads that share one

    @staticmethod
    def of(text: PairText, r: Request, layout: AttentionLayout, extents: Mapping[str, Dim]) -> ArrayReads:
        free = set(_bounded_indices(r))
        names = {node: name for name, node in layout.pair_indices.items() if name not in free and extents[name] != -1}
        return ArrayReads(text, extents, names, layout.q.type.shape[1:3])  # type: ignore[arg-type]

    @property
    def builder(self) -> GraphBuilder:
        return self.text.builder

    # -- arrays that are read at an index

    def check_subscript(self, node: Subscript, env: Environment) -> None:
        """Check the axes of an array that are read at plain b, h, i or j: a call compares their extents."""
        array = _array(self.text, node.value, env)
        if array is None:
            return
        name = _name(env, node.value)
        for position, axis in _indexed_axes(node, array.type.rank):
            part, have = node.indices[position], array.type.shape[axis]
            value = env.values.get(part.name) if isinstance(part, Name) else None
            if index := self.index_names.get(value):  # type: ignore[arg-type]
                dims = (have, self.extents[index], axis, *self.extents.values())
                at_zero = ", ".join("0" if k == position else show(p) for k, p in enumerate(node.indices))
                names = (name, f"{name}[{at_zero}]")
                check = Check("reach", dims, index, (array.type,), names, _site(self.text, env, part))
                self.builder.checks.append(check)

    # -- arrays without an index

    def check_aligned(self, x: Node, node: Expr, env: Environment) -> None:
        """Check that an array without an index, aligned with [i, j] or [j], has no other meaning."""
        parts = postorder(node)
        reads = (part for part in parts if (array := _array(self.text, part, env)) and _same_shape(array, x))
        part = next(reads, node)
        name = _name(env, part) if isinstance(part, Name) else ""
        dims = (*x.type.shape, *self.extents.values())
        self.builder.checks.append(
            Check("reading", dims, self.text.name, (x.type,), (name,), _site(self.text, env, part))
        )

    def index_help(self, name: str, array: Node, written: Sequence[str]) -> str:
        """How to read an array at b, h, i and j, which is read at the `written` ones alone."""
        known = self.builder.extents
        extents = {index: evaluate(d, known) for index, d in self.extents.items()}
        shape = [evaluate(d, known) for d in array.type.shape]
        if len(shape) > len(INDICES):
            return f"reshape it to (batch, heads, n, m), and index it: {name}[b, h, i, j]"
        way = completed(name, shape, extents, written) if written else indexed(name, shape, extents)
        runs = ", ".join(f"{index} runs to {extent}" for index, extent in extents.items() if extent >= 0)
        return f"index it: {way}" if way else f"index each of its axes with b, h, i and j: {runs}"

    # -- types and checks as messages show them

    def shown(self, t: Type) -> Type:
        """The type of a per-pair value with its two head axes as one; any other type unchanged."""
        if t.rank < 4 or not all(self._either(d, whole) for d, whole in zip(t.shape[-4:-2], self.heads)):
            return t
        *batch, kv, group_size, n, m = t.shape
        heads = kv if group_size == 1 else group_size if kv == 1 else self.extents["h"]
        return Type(t.dtype, (*batch, heads, n, m), t.weak)

    def _either(self, d: Dim, whole: Dim) -> bool:
        return d == 1 or self.builder.canonical(d) == self.builder.canonical(whole)

    def restate(self, check: Check) -> Check:
        """A broadcast check between per-pair values, as a check whose message says how to read the arrays."""
        if check.kind != "equal":
            return check
        shown = tuple(map(self.shown, check.operands))
        a, b, axis = check.dims
        axis = axis + 1 if axis < -3 else axis  # type: ignore[operator]
        return replace(check, kind="pairs", dims=(a, b, axis, *self.extents.values()), operands=shown)


def _indexed_axes(node: Subscript, rank: int) -> Iterator[tuple[int, int]]:
    """(position in the subscript, axis of the array) of each index: None has no axis, "..." has those not named."""
    named = sum(not _is_literal(part, None) and not _is_literal(part, ...) for part in node.indices)
    axis = 0
    for position, part in enumerate(node.indices):
        if _is_literal(part, ...):
            axis += rank - named
        elif not _is_literal(part, None):
            yield position, axis
            axis += 1


def _is_literal(part: object, value: object) -> bool:
    return isinstance(part, Literal) and part.value is value


def _bounded_indices(r: Request) -> Iterator[str]:
    """The indices that something else bounds: lengths, or a comparison, as in `where(j < 9, near[j], 0)`."""
    yield from () if r.lengths is None else "j"
    for program in (r.score, r.mask):
        for part in program.parts if isinstance(program, ParsedText) else ():
            operands = part.operands if isinstance(part, Compare) else ()
            for left, right in pairwise(operands):
                yield from (
                    x.name for x, y in ((left, right), (right, left)) if isinstance(x, Name) and _is_bound(y, x)
                )


def _is_bound(end: Expr, x: Name) -> bool:
    """Whether `end` bounds `x` in a comparison: `x` is b, h, i or j, and `end` is the same for all pairs of a head."""
    indices = [part for part in postorder(end) if isinstance(part, Name) and part.name in ("i", "j")]
    return x.name in INDICES and not indices


def _array(text: PairText, part: Any, env: Environment) -> Node | None:
    """The array, or value computed from arrays alone, that a name stands for."""
    value = env.values.get(part.name) if isinstance(part, Name) else None
    axes = text.pair_axes.get(value) if isinstance(value, Node) else None
    return value if axes is not None and axes.unindexed and not axes.per_pair else None


def _same_shape(array: Node, x: Node) -> bool:
    return array.type.shape == x.type.shape


def _name(env: Environment, part: Any) -> str:
    return operand_name(env, part) or part.name


def _site(text: PairText, env: Environment, part: Any) -> Site:
    span, caret = source_span(env, part, part.span[0])
    return Site(text.text, span, caret, inline_trail(env, part))
