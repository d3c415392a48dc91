"""Numbers the temporaries of a kernel in the order in which it uses them: the steps of a loop then have equal kernels,
which are planned once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..ir.graph import Node, node, rebuild, walk
from .fusion_group import FusionGroup
from .scalar_program import ArraySource, ScalarStore

READS = ("load", "fetch", "pointer", "stride")  # operations whose attribute begins with an array


def renumber_temporaries(g: FusionGroup) -> tuple[FusionGroup, dict[int, int]]:
    """(the group with temporaries 0, 1, 2, ..., their numbers in the program where these are others).

    Patterns of attention hold their own nodes: their groups stay as they are.
    """
    roots = [*g.folds, *g.scans, *g.sorted, *g.column_folds, *(r.value for r in g.all_stores)]
    roots += [*g.imports, *g.imports.values()]
    numbers = {} if g.attention else _numbers(roots, g.all_stores)
    if all(k == number for k, number in numbers.items()):
        return g, {}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        return node(old.op, args, _renumbered(old.attr, numbers) if old.op in READS else old.attr, old.type)

    def stored(r: ScalarStore) -> ScalarStore:
        return replace(r, index=numbers[r.index]) if r.kind == "temporary" else r

    return g.rewritten(rebuild(roots, change), stored), dict(enumerate(numbers))


def _numbers(roots: Sequence[Node], stores: Sequence[ScalarStore]) -> dict[int, int]:
    """The new numbers of temporaries, as they are read and then stored."""
    numbers: dict[int, int] = {}
    arrays: list[ArraySource | ScalarStore] = [n.attr[0] for n in walk(roots) if n.op in READS]
    for array in (*arrays, *stores):
        if array.kind == "temporary":
            numbers.setdefault(array.index, len(numbers))
    return numbers


def _renumbered(attr: tuple, numbers: Mapping[int, int]) -> tuple:
    """The attribute of a read, of the same array under its new number."""
    source, *rest = attr
    return (replace(source, index=numbers[source.index]), *rest) if source.kind == "temporary" else attr
