"""Reductions as text: merges of an element or a partial state, vector lanes in memory, the pairwise tree.

Merges are associative and commutative (argmax breaks ties by the index in its state), so that elements may be reduced
in lanes. The order is fixed: it depends on the number of columns alone.
"""

from __future__ import annotations

from ...kernel_ir.phase import Reduction
from .roles import ScratchArray, reassociable_merge
from .source_text import indented

LANES = 64
LEVELS = 48  # levels of the pairwise tree: enough for any number of segments


def state_arrays(folds: tuple[Reduction, ...], kind: str, count: str) -> list[ScratchArray]:
    """One scratch array per component of every state."""
    return [ScratchArray(f"{value.name}_{kind}", value.dtype, count) for fold in folds for value in fold.accumulators]


def merge(fold: Reduction, first: list[str], second: list[str], into: list[str]) -> list[str]:
    """into = merge(first, second), with the merge body inlined."""
    names = unique_names(fold)
    lines = [f"{names[value.name]} = {text}" for value, text in zip(fold.combine.args, first + second)]
    lines += [str(i.renamed(names)) for i in fold.combine.instructions]
    return [*lines, *(f"{name} = {names[value.name]}" for name, value in zip(into, fold.combine.results))]


def unique_names(fold: Reduction) -> dict[str, str]:
    """Unique names for the values of a merge body: other folds use the same names, perhaps with other types."""
    names = [*(v.name for v in fold.combine.args), *(i.target for i in fold.combine.instructions)]
    return {name: f"{name}_{fold.accumulators[0].name}m" for name in names}


def state_names(fold: Reduction) -> list[str]:
    return [value.name for value in fold.accumulators]


def part_names(fold: Reduction, part: str) -> list[str]:
    """The variables (or arrays) of a partial state; those of the state itself if the part has no name."""
    return [f"{name}_{part}" for name in state_names(fold)] if part else state_names(fold)


def identity(fold: Reduction, part: str = "") -> list[str]:
    return [f"{name} = {text}" for name, text in zip(part_names(fold, part), fold.identity)]


def get(label: str, index: str) -> str:
    return f"{label}_get({label}_at, {index})"


def put(label: str, index: str, value: str) -> str:
    return f"{label}_put({label}_at, {index}, {value})"


def get_state(fold: Reduction, kind: str, index: str) -> list[str]:
    return [get(f"{name}_{kind}", index) for name in state_names(fold)]


def put_state(fold: Reduction, kind: str, index: str, values: list[str]) -> list[str]:
    return [put(f"{name}_{kind}", index, value) for name, value in zip(state_names(fold), values)]


def accumulate_register(fold: Reduction) -> list[str]:
    """state = merge(state, lifted), for a merge of one line."""
    name, lifted = fold.accumulators[0].name, fold.inputs[0].name
    if word := reassociable_merge(fold):
        return [f"{name} = {word}({name}, {lifted})"]
    return merge(fold, [name], [lifted], [name])


def accumulate(fold: Reduction, kind: str, index: str) -> list[str]:
    """Merge the lifted element into a state in memory: of its vector "lane", or of its column on a "line"."""
    fresh = [f"{name}_next" for name in state_names(fold)]
    lines = merge(fold, get_state(fold, kind, index), [value.name for value in fold.inputs], fresh)
    return [*lines, *put_state(fold, kind, index, fresh)]


def reset_lanes(folds: tuple[Reduction, ...], count: str) -> list[str]:
    lines = [line for fold in folds for line in put_state(fold, "lane", "lane", list(fold.identity))]
    return [f"for lane in range({count}):", *indented(lines)]


def reduce_lanes(folds: tuple[Reduction, ...]) -> list[str]:
    """Tree reduction over lanes; the result is read from lane 0."""
    lines = []
    for fold in folds:
        fresh = [f"{name}_next" for name in state_names(fold)]
        lines += merge(fold, get_state(fold, "lane", "lane"), get_state(fold, "lane", "lane + half"), fresh)
        lines += put_state(fold, "lane", "lane", fresh)
    reads = [f"{name} = {x}" for fold in folds for name, x in zip(state_names(fold), get_state(fold, "lane", "0"))]
    inner = ["for lane in range(half):", *indented(lines), "half = half >> 1"]
    return [f"half = {LANES // 2}", "while half > 0:", *indented(inner), *reads]


def merge_parts(fold: Reduction, part: str, other: str) -> list[str]:
    """part = merge(part, other), for partial states."""
    return merge(fold, part_names(fold, part), part_names(fold, other), part_names(fold, part))


def push_to_tree(folds: tuple[Reduction, ...], number: str, part: str = "") -> list[str]:
    """Push partial state `number` (from 0) to the pairwise tree: equal levels merge, as in a binary counter."""
    merges = _merge_level(folds, part)
    keep = [line for fold in folds for line in put_state(fold, "tree", "level", part_names(fold, part))]
    inner = [*merges, "level = level + 1", "rest = rest >> 1"]
    return ["level = 0", f"rest = {number}", "while (rest & 1) != 0:", *indented(inner), *keep]


def _merge_level(folds: tuple[Reduction, ...], part: str) -> list[str]:
    """Merge the tree's state at a level into a partial state."""
    parts = [(fold, part_names(fold, part)) for fold in folds]
    return [line for fold, names in parts for line in merge(fold, get_state(fold, "tree", "level"), names, names)]


def reduce_tree(folds: tuple[Reduction, ...], count: str, part: str = "") -> list[str]:
    """The state of all `count` parts; the identity if there are none."""
    lines = [line for fold in folds for line in identity(fold, part)]
    inner = ["if (rest & 1) != 0:", *indented(_merge_level(folds, part)), "level = level + 1", "rest = rest >> 1"]
    return [*lines, "level = 0", f"rest = {count}", "while rest != 0:", *indented(inner)]
