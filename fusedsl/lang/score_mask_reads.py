"""What the texts of score and mask read of arrays: that each axis is as long as its place runs, and has one meaning.

A call tests both, as the extents are known then. What stands at computed places is read where the kernel runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..ir.attention_checks import PLACES, indexed
from ..ir.builder import GraphBuilder
from ..ir.dims import Dim, evaluate
from ..ir.graph import Check, Node, Site, Type
from .attention_layout import Layout, Request
from .frames import Frame, inside, place, plain_name
from .syntax import Compare, Expr, Literal, Name, Program, Subscript, postorder, show

if TYPE_CHECKING:
    from .score_mask_texts import PairEvaluator


@dataclass(frozen=True)
class Reads:
    """How far b, h, i and j run (`extents`; -1: no extent says it), the nodes of those that may not run beyond an array
    (`places`), and the two axes of heads that keys have and share."""

    builder: GraphBuilder
    extents: Mapping[str, Dim]
    places: Mapping[Node, str]
    heads: tuple[Dim, Dim]

    @staticmethod
    def of(b: GraphBuilder, r: Request, found: Layout, extents: Mapping[str, Dim]) -> Reads:
        free = set(_bounded(r))
        places = {node: name for name, node in found.places.items() if name not in free and extents[name] != -1}
        return Reads(b, extents, places, found.q.type.shape[1:3])  # type: ignore[arg-type]

    # -- an axis as long as its place runs

    def read(self, ev: PairEvaluator, node: Subscript, frame: Frame) -> None:
        """Have a call test the axes of an array that are read at b, h, i or j itself."""
        array = _array(ev, node.value, frame)
        if array is None or any(isinstance(part, Literal) and part.value in (None, ...) for part in node.indices):
            return
        names = (_name(frame, node.value), *map(show, node.indices))
        for axis, (part, have) in enumerate(zip(node.indices, array.type.shape)):
            value = frame.values.get(part.name) if isinstance(part, Name) else None
            if found := self.places.get(value):  # type: ignore[arg-type]
                dims = (have, self.extents[found], axis, *self.extents.values())
                check = Check("reach", dims, found, (array.type,), names, _site(ev, frame, part))
                self.builder.checks.append(check)

    # -- arrays without an index

    def aligned(self, ev: PairEvaluator, x: Node, node: Expr, frame: Frame) -> None:
        """Have a call test that an array, aligned with [i, j] or [j] below an expression, has no other meaning."""
        found = (part for part in postorder(node) if (array := _array(ev, part, frame)) and _alike(array, x))
        part = next(found, node)
        name = _name(frame, part) if isinstance(part, Name) else ""
        dims = (*x.type.shape, *self.extents.values())
        self.builder.checks.append(Check("reading", dims, ev.name, (x.type,), (name,), _site(ev, frame, part)))

    def way(self, name: str, array: Node) -> str | None:
        """How to read an array at b, h, i and j; None where no way fits."""
        known = self.builder.extents
        extents = {place: evaluate(d, known) for place, d in self.extents.items()}
        return indexed(name, [evaluate(d, known) for d in array.type.shape], extents)

    # -- types and checks as messages show them

    def shown(self, t: Type) -> Type:
        """The type of a value for each pair with its heads in one axis; any other as it is."""
        if t.rank < 4 or not all(self._either(d, whole) for d, whole in zip(t.shape[-4:-2], self.heads)):
            return t
        *batch, kv, several, n, m = t.shape
        heads = kv if several == 1 else several if kv == 1 else self.extents["h"]
        return Type(t.dtype, (*batch, heads, n, m), t.weak)

    def _either(self, d: Dim, whole: Dim) -> bool:
        return d == 1 or self.builder.canonical(d) == self.builder.canonical(whole)

    def worded(self, check: Check) -> Check:
        """A check of a broadcast among values for pairs as one that says how to read arrays."""
        if check.kind != "equal":
            return check
        shown = tuple(map(self.shown, check.operands))
        a, b, axis = check.dims
        axis = axis + 1 if axis < -3 else axis  # type: ignore[operator]
        return replace(check, kind="pairs", dims=(a, b, axis, *self.extents.values()), operands=shown)


def _bounded(r: Request) -> Iterator[str]:
    """The places that something else ends: lengths, or a comparison in a text, as of `where(j < 9, near[j], 0)`."""
    yield from () if r.lengths is None else "j"
    for program in (r.score, r.mask):
        for part in program.parts if isinstance(program, Program) else ():
            operands = part.operands if isinstance(part, Compare) else ()
            for one, other in pairwise(operands):
                yield from (x.name for x, y in ((one, other), (other, one)) if isinstance(x, Name) and _ends(y, x))


def _ends(end: Expr, x: Name) -> bool:
    """Whether a comparison of `x` with this is of b, h, i or j with what is the same for all pairs of a head."""
    places = [part for part in postorder(end) if isinstance(part, Name) and part.name in ("i", "j")]
    return x.name in PLACES and not places


def _array(ev: PairEvaluator, part: Any, frame: Frame) -> Node | None:
    """The array, or what was made of arrays alone, that a name stands for."""
    value = frame.values.get(part.name) if isinstance(part, Name) else None
    standing = ev.standings.get(value) if isinstance(value, Node) else None
    return value if standing is not None and standing.loose and not standing.paired else None


def _alike(array: Node, x: Node) -> bool:
    return array.type.shape == x.type.shape


def _name(frame: Frame, part: Any) -> str:
    return plain_name(frame, part) or part.name


def _site(ev: PairEvaluator, frame: Frame, part: Any) -> Site:
    span, caret = place(frame, part, part.span[0])
    return Site(ev.text, span, caret, inside(frame, part))
