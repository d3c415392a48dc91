"""The text of folds: merging one element or one part into a state, vector lanes in memory, the pairwise tree.

Merges are taken to be associative and commutative (argmax settles ties by the index in its state), so that elements
may be folded in lanes. The order is fixed: it depends on the number of columns alone.
"""

from __future__ import annotations

from ...kernel_ir.phase import Reduction
from .roles import Array, accumulation
from .source_text import indented, renamed

LANES = 64
LEVELS = 48  # of the pairwise tree: enough for any number of segments


def state_arrays(folds: tuple[Reduction, ...], kind: str, count: str) -> list[Array]:
    """One array per component of every state."""
    return [Array(f"{value.name}_{kind}", value.dtype, count) for fold in folds for value in fold.accumulators]


def merged(fold: Reduction, first: list[str], second: list[str], into: list[str]) -> list[str]:
    """into = merge(first, second), with the merge's lines in place."""
    own = own_names(fold)
    lines = [f"{own[value.name]} = {text}" for value, text in zip(fold.combine.args, first + second)]
    lines += renamed(fold.combine.instructions, own)
    return [*lines, *(f"{name} = {own[value.name]}" for name, value in zip(into, fold.combine.results))]


def own_names(fold: Reduction) -> dict[str, str]:
    """New names for the values of a merge: merges of other folds use the same ones, perhaps of other types."""
    made = [line.partition(" = ")[0] for line in fold.combine.instructions]
    return {name: f"{name}_{fold.accumulators[0].name}m" for name in [*(v.name for v in fold.combine.args), *made]}


def states(fold: Reduction) -> list[str]:
    return [value.name for value in fold.accumulators]


def named(fold: Reduction, part: str) -> list[str]:
    """The variables (or arrays) of a part of a state; the state's own where the part has no name."""
    return [f"{name}_{part}" for name in states(fold)] if part else states(fold)


def identity(fold: Reduction, part: str = "") -> list[str]:
    return [f"{name} = {text}" for name, text in zip(named(fold, part), fold.identity)]


def get(label: str, index: str) -> str:
    return f"{label}_get({label}_at, {index})"


def put(label: str, index: str, value: str) -> str:
    return f"{label}_put({label}_at, {index}, {value})"


def got(fold: Reduction, kind: str, index: str) -> list[str]:
    return [get(f"{name}_{kind}", index) for name in states(fold)]


def kept(fold: Reduction, kind: str, index: str, values: list[str]) -> list[str]:
    return [put(f"{name}_{kind}", index, value) for name, value in zip(states(fold), values)]


def in_register(fold: Reduction) -> list[str]:
    """state = merge(state, lifted) for a merge of one line."""
    name, lifted = fold.accumulators[0].name, fold.inputs[0].name
    if word := accumulation(fold):
        return [f"{name} = {word}({name}, {lifted})"]
    return merged(fold, [name], [lifted], [name])


def in_lane(fold: Reduction, lane: str) -> list[str]:
    """Merge the lifted element into the state of a lane."""
    fresh = [f"{name}_next" for name in states(fold)]
    lines = merged(fold, got(fold, "lane", lane), [value.name for value in fold.inputs], fresh)
    return [*lines, *kept(fold, "lane", lane, fresh)]


def in_line(fold: Reduction, index: str) -> list[str]:
    """Merge the lifted element into the state of its column."""
    fresh = [f"{name}_next" for name in states(fold)]
    lines = merged(fold, got(fold, "line", index), [value.name for value in fold.inputs], fresh)
    return [*lines, *kept(fold, "line", index, fresh)]


def reset_lanes(folds: tuple[Reduction, ...], count: str) -> list[str]:
    lines = [line for fold in folds for line in kept(fold, "lane", "lane", list(fold.identity))]
    return [f"for lane in range({count}):", *indented(lines)]


def join_lanes(folds: tuple[Reduction, ...]) -> list[str]:
    """Halve the lanes until one is left, and read it."""
    lines = []
    for fold in folds:
        fresh = [f"{name}_next" for name in states(fold)]
        lines += merged(fold, got(fold, "lane", "lane"), got(fold, "lane", "lane + half"), fresh)
        lines += kept(fold, "lane", "lane", fresh)
    reads = [f"{name} = {text}" for fold in folds for name, text in zip(states(fold), got(fold, "lane", "0"))]
    inner = ["for lane in range(half):", *indented(lines), "half = half >> 1"]
    return [f"half = {LANES // 2}", "while half > 0:", *indented(inner), *reads]


def appended(fold: Reduction, part: str, other: str) -> list[str]:
    """part = merge(part, other), for parts of a state."""
    return merged(fold, named(fold, part), named(fold, other), named(fold, part))


def push(folds: tuple[Reduction, ...], number: str, part: str = "") -> list[str]:
    """Add part `number` (counted from 0) to the pairwise tree: parts of equal size merge, as in a binary counter."""
    merges = _from_tree(folds, part)
    keep = [line for fold in folds for line in kept(fold, "tree", "level", named(fold, part))]
    inner = [*merges, "level = level + 1", "rest = rest >> 1"]
    return ["level = 0", f"rest = {number}", "while (rest & 1) != 0:", *indented(inner), *keep]


def _from_tree(folds: tuple[Reduction, ...], part: str) -> list[str]:
    """What the tree holds at a level joins a part of each state."""
    own = [(fold, named(fold, part)) for fold in folds]
    return [line for fold, names in own for line in merged(fold, got(fold, "tree", "level"), names, names)]


def join_tree(folds: tuple[Reduction, ...], count: str, part: str = "") -> list[str]:
    """The state of all `count` parts; the identity where there is none."""
    lines = [line for fold in folds for line in identity(fold, part)]
    inner = ["if (rest & 1) != 0:", *indented(_from_tree(folds, part)), "level = level + 1", "rest = rest >> 1"]
    return [*lines, "level = 0", f"rest = {count}", "while rest != 0:", *indented(inner)]
