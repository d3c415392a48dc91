"""Alpha-equivalence of folds: folds that differ only in names of axes are one array, read at other coordinates.

Nodes are numbered bottom-up by their structure, with axes numbered by first occurrence (hash-consing of locally
nameless terms). Two folds with one number are equivalent; their lists of axes map the coordinates of one to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..ir.graph import Node, Type, node, walk
from ..rewrite.scalar_builder import bound_axes, kept_axes, replace_nodes
from .coordinates import Axis, ComputedIndex, Coordinate
from .online.find_attention import AttentionPattern
from .scalar_program import ArraySource, ScalarProgram, ScalarStore, temporary


@dataclass(frozen=True)
class CanonicalForm:
    """A node up to names of axes: the number of its structure, and its free axes in order of first occurrence."""

    number: int
    axes: tuple[Axis, ...]


class CanonicalForms:
    """Canonical forms of nodes; equal structures have equal numbers within one instance."""

    def __init__(self) -> None:
        self.known: dict[Node, CanonicalForm] = {}
        self.numbers: dict[tuple, int] = {}

    def of(self, n: Node) -> CanonicalForm:
        """Canonical form of a node."""
        if n not in self.known:
            for m in walk([n]):
                if m not in self.known:
                    self.known[m] = self._canonical(m)
        return self.known[n]

    def _canonical(self, n: Node) -> CanonicalForm:
        indices: dict[Axis, int] = {}
        parts = [self.known[a] for a in n.args]
        inner = tuple((f.number, tuple(indices.setdefault(a, len(indices)) for a in f.axes)) for f in parts)
        attr = _nameless(n.attr, indices)
        bound = bound_axes(n) - kept_axes(n)
        extents = tuple(a.extent for a in indices)
        key = (n.op, n.type, inner, attr, extents, tuple(indices[a] for a in indices if a in bound))
        return CanonicalForm(
            self.numbers.setdefault(key, len(self.numbers)), tuple(a for a in indices if a not in bound)
        )


def _nameless(attr: Any, indices: dict[Axis, int]) -> Any:
    """An attribute with axes replaced by their numbers; operands hold the values of computed indices."""
    if isinstance(attr, Axis):
        return ("axis", indices.setdefault(attr, len(indices)))
    if isinstance(attr, Coordinate):
        return (attr.start, attr.step, attr.axis and _nameless(attr.axis, indices))
    if isinstance(attr, ComputedIndex):
        return "computed"
    return tuple(_nameless(part, indices) for part in attr) if isinstance(attr, tuple) else attr


def share_equivalent(
    program: ScalarProgram, patterns: Sequence[AttentionPattern], needed: Iterable[Node]
) -> ScalarProgram:
    """The program with equivalent folds, scans and sorts of `needed` computed once.

    The others load the temporary of the first one, or that of the attention pattern that computes it.
    """
    forms, pattern_of = CanonicalForms(), {f: pattern for pattern in patterns for f in pattern.folds}
    alike: dict[int, list[Node]] = {}
    for f in (*pattern_of, *needed):
        alike.setdefault(forms.of(f).number, []).append(f)
    roots: list[ScalarStore] = []
    loads: dict[Node, Node] = {}
    for group in alike.values():
        first = group[0]
        for f in dict.fromkeys(group):
            if f is first or f in pattern_of:
                continue
            axes = forms.of(first).axes
            if forms.of(f).axes == axes:
                loads[f] = first
                continue
            root = next((r for r in roots if r.value is first), None)
            if root is None:
                root = temporary(first, axes, len(program.temporaries) + len(roots))
                roots.append(root)
            loads[f] = _read(root, dict(zip(axes, forms.of(f).axes)))
    if not loads:
        return program
    new = replace_nodes([r.value for r in (*roots, *program.stores)], loads)
    changed = tuple(replace(r, value=new[r.value]) for r in (*roots, *program.stores))
    return replace(program, stores=changed, temporaries=(*program.temporaries, *(r.type for r in roots)))


def _read(root: ScalarStore, names: dict[Axis, Axis]) -> Node:
    """Load of a temporary with its axes renamed."""
    at = tuple(Coordinate(0, 1, None if a is None else names[a]) for a in root.axes)
    return node(
        "load", (), (ArraySource("temporary", root.index, rounded=root.rounded), at), Type(root.value.type.dtype)
    )
