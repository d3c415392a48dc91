"""Alpha-equivalence of folds: those that differ in the names of axes alone are one array, read at other places.

Nodes are numbered bottom-up by their structure, in which axes are the order of their first occurrence: a node is such a
number and the axes that it has there (hash-consing of locally nameless terms). Two folds of one number are alike, and
their axes say where an element of one is in the array of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..ir.graph import Node, Type, node, walk
from ..rewrite.scalar_builder import bound_axes, kept_axes, replace_nodes
from .coordinates import Axis, ComputedIndex, Coordinate
from .online.find_attention import Streaming
from .scalar_program import ArraySource, ScalarProgram, ScalarStore


@dataclass(frozen=True)
class CanonicalForm:
    """A node without the names of its axes: the number of its structure, and its free axes by first occurrence."""

    number: int
    axes: tuple[Axis, ...]


class CanonicalForms:
    """The forms of nodes; alike structures have one number for as long as this lives."""

    def __init__(self) -> None:
        self.known: dict[Node, CanonicalForm] = {}
        self.numbers: dict[tuple, int] = {}

    def of(self, n: Node) -> CanonicalForm:
        """The form of a node."""
        if n not in self.known:
            for m in walk([n]):
                if m not in self.known:
                    self.known[m] = self._made(m)
        return self.known[n]

    def _made(self, n: Node) -> CanonicalForm:
        places: dict[Axis, int] = {}
        parts = [self.known[a] for a in n.args]
        inner = tuple((f.number, tuple(places.setdefault(a, len(places)) for a in f.axes)) for f in parts)
        attr = _nameless(n.attr, places)
        bound = bound_axes(n) - kept_axes(n)
        extents = tuple(a.extent for a in places)
        key = (n.op, n.type, inner, attr, extents, tuple(places[a] for a in places if a in bound))
        return CanonicalForm(
            self.numbers.setdefault(key, len(self.numbers)), tuple(a for a in places if a not in bound)
        )


def _nameless(attr: Any, places: dict[Axis, int]) -> Any:
    """An attribute with its axes as places; what is computed at a place is among the arguments."""
    if isinstance(attr, Axis):
        return ("axis", places.setdefault(attr, len(places)))
    if isinstance(attr, Coordinate):
        return (attr.start, attr.step, attr.axis and _nameless(attr.axis, places))
    if isinstance(attr, ComputedIndex):
        return "computed"
    return tuple(_nameless(part, places) for part in attr) if isinstance(attr, tuple) else attr


def share_equivalent(program: ScalarProgram, passes: Sequence[Streaming], needed: Iterable[Node]) -> ScalarProgram:
    """The program in which each of the `needed` folds, scans and orders is computed once: those that are alike are read
    from a temporary of the first of them, or of the one that a pass over scores finds."""
    forms, found = CanonicalForms(), {f: one for one in passes for f in one.folds}
    alike: dict[int, list[Node]] = {}
    for f in (*found, *needed):
        alike.setdefault(forms.of(f).number, []).append(f)
    roots: list[ScalarStore] = []
    loads: dict[Node, Node] = {}
    for group in alike.values():
        first = group[0]
        for f in dict.fromkeys(group):
            if f is first or f in found:
                continue
            axes = forms.of(first).axes
            if forms.of(f).axes == axes:
                loads[f] = first
                continue
            root = next((r for r in roots if r.value is first), None)
            if root is None:
                root = _stored(first, axes, len(program.temporaries) + len(roots))
                roots.append(root)
            loads[f] = _read(root, dict(zip(axes, forms.of(f).axes)))
    if not loads:
        return program
    new = replace_nodes([r.value for r in (*roots, *program.stores)], loads)
    changed = tuple(replace(r, value=new[r.value]) for r in (*roots, *program.stores))
    return replace(program, stores=changed, temporaries=(*program.temporaries, *(r.type for r in roots)))


def _stored(f: Node, axes: tuple[Axis, ...], index: int) -> ScalarStore:
    shape = tuple(a.extent for a in axes)
    return ScalarStore("temporary", index, shape, shape, axes, f, Type(f.type.dtype, shape))


def _read(root: ScalarStore, names: dict[Axis, Axis]) -> Node:
    """The load of a temporary under other names of its axes."""
    at = tuple(Coordinate(0, 1, None if a is None else names[a]) for a in root.axes)
    return node(
        "load", (), (ArraySource("temporary", root.index, rounded=root.rounded), at), Type(root.value.type.dtype)
    )
