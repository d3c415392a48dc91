"""Checks of attention's extents, with messages: for operands, and for arrays that score and mask expressions read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations

from .graph import Check

INDICES = "bhij"  # names of a pair's indices in score and mask expressions, in axis order

# What to do where operands of attention do not agree, by what they are to agree in.
AGREEMENT = {
    "number of heads of k and v": "k and v come in pairs of heads: slice one of them, or repeat the heads of the other",
    "length of k and v": "slice the longer one, or pad the other and pass lengths=",
    "width of q and k": "slice the wider one, or pad the other with zeros: a score is the sum of their products",
    "batch of q and k, or 1 in k": "k has the batch of q, or 1 for all of it: slice or repeat it along the first axis",
    "batch of q and v, or 1 in v": "v has the batch of q, or 1 for all of it: slice or repeat it along the first axis",
    "batch of q and pages, or 1 in pages": "pages has a row for each sequence of q, or 1 for all of them",
    "size of a page of k and v": "k and v are (pages, page, kv_heads, d), one page size for both",
    "batch of q and lengths": "lengths has an element for each sequence of the batch",
    "number of sequences of q and k": "offsets=(of q, of k) both have an element more than there are sequences",
    "number of sequences and of lengths": "lengths has an element for each sequence, one less than each of offsets",
}
Words = tuple[str, str | None, str | None, str]  # message, note, help, the second half of the code


def holds(check: Check, values: Sequence[int]) -> bool:
    """Whether extents pass a check of attention."""
    match check.kind:
        case "agree":
            return values[0] == values[1]
        case "heads":
            return values[0] % values[1] == 0 if values[1] else not values[0]
        case "offsets":
            return values[0] >= 1
        case "reach":
            return values[0] >= values[1]
        case "reading":
            return len(_meanings(values)) < 2
    raise AssertionError(check.kind)


def words(check: Check, shown: Sequence[str], values: Sequence[int], shapes: Sequence[Sequence[int]]) -> Words:
    """(message, note, help, code) of a failed check of attention; `shown` are the operands as messages show them."""
    match check.kind:
        case "agree":
            message = f"attention needs one {check.what}: {shown[0]} and {shown[1]}"
            return message, f"{values[0]} and {values[1]} differ", AGREEMENT[check.what], "attention"
        case "heads":
            message = f"{values[0]} heads of q cannot share {values[1]} of k"
            return message, f"{shown[0]} and {shown[1]}", _heads_help(check.what, *shapes), "attention"
        case "offsets":
            help = "an element where each sequence begins, and one where the last ends: [0, 3, 10] are two, [0] is none"
            return "offsets are empty", shown[0], help, "attention"
        case "reach":
            return _reach_words(check, values, shapes[0])
        case "reading":
            return _reading_words(check, shown[0], values)
    raise AssertionError(check.kind)


def _heads_help(what: str, q: Sequence[int], k: Sequence[int]) -> str:
    """Help text if the heads of q are no multiple of those of k."""
    if what == "paged heads":
        if k[1] and q[1] % k[1] == 0 and k[1] < k[2]:
            return "is it (pages, kv_heads, page, d)? k and v are (pages, page, kv_heads, d): write k.swapaxes(1, 2)"
        return "k and v are (pages, page, kv_heads, d), and the heads of q are a multiple of kv_heads"
    if what == "heads" and k[2] and q[2] % k[2] == 0 and q[2] < q[1] and k[2] < k[1]:
        return "is it (batch, n, heads, d)? attention takes (batch, heads, n, d): write q.swapaxes(1, 2), as of k and v"
    return "the heads of q are a multiple of those of k and v: head h reads head h // (heads // kv_heads)"


# -- arrays of score and mask


def indexed(name: str, shape: Sequence[int], extents: Mapping[str, int]) -> str | None:
    """How to index an array of this shape by b, h, i and j; None if it does not fit."""
    ways = (*reversed(list(combinations(extents, len(shape)))), *permutations(extents, len(shape)))
    written = next((indices for way in ways if (indices := _indices(shape, way, extents)) is not None), None)
    return None if written is None else f"{name}[{', '.join(written)}]"


def completed(name: str, shape: Sequence[int], extents: Mapping[str, int], written: Sequence[str]) -> str | None:
    """How to complete a subscript of an array that has these indices; None if nothing fits."""
    for ways in (combinations(extents, len(shape)), permutations(extents, len(shape))):
        fitting = [indices for way in ways if (indices := _indices(shape, way, extents)) is not None]
        forms = [f"{name}[{', '.join(indices)}]" for indices in fitting if set(written) <= set(indices)]
        if forms:
            return " or ".join(dict.fromkeys(forms))
    return None


def indexing_help(name: str, shape: Sequence[int], runs: Sequence[int]) -> str | None:
    """How to index a named array whose axes are not the last ones."""
    extents = dict(zip(INDICES, runs))
    aligned = _indices(shape, INDICES[len(INDICES) - len(shape) :], extents) if len(shape) <= len(INDICES) else None
    return None if aligned or not shape or not name or name in ("score", *INDICES) else indexed(name, shape, extents)


def _indices(shape: Sequence[int], letters: Sequence[str], extents: Mapping[str, int]) -> list[str] | None:
    fits = all(extent in (1, extents[letter]) for letter, extent in zip(letters, shape))
    return ["0" if extent == 1 else letter for letter, extent in zip(letters, shape)] if fits else None


def _meanings(values: Sequence[int]) -> list[tuple[str, ...]]:
    """Indices that the axes of an unindexed array may stand for."""
    *shape, b, h, i, j = values
    extents = dict(zip(INDICES, (b, h, i, j)))
    ways = combinations(INDICES, len(shape))
    fitting = [letters for letters in ways if all(extents[letter] == n for letter, n in zip(letters, shape))]
    has_one_reading = min(shape) > 1 and tuple(INDICES[-len(shape) :]) in fitting
    return fitting if has_one_reading else []


def _reading_words(check: Check, shown: str, values: Sequence[int]) -> Words:
    name, ways = check.names[0], [", ".join(way) for way in _meanings(values)]
    message = f"{name or 'an array'} has no index, and {shown} fits {' and '.join(f'[{way}]' for way in ways)}"
    return message, None, f"write {' or '.join((name or 'x') + f'[{way}]' for way in ways)}", "attention"


def _reach_words(check: Check, values: Sequence[int], shape: Sequence[int]) -> Words:
    have, runs, axis, *extents = values
    name, at_zero = check.names
    message = f"{name} has {have} element{'s' * (have != 1)} along axis {axis}, and {check.what} runs to {runs}"
    if have == 1:
        return message, None, f"write {at_zero}", "attention"
    way = indexed(name, shape, dict(zip(INDICES, extents)))
    otherwise = f"give it {runs} elements, or say what holds beyond: where({check.what} < {have}, ..., 0)"
    return message, None, f"write {way}" if way else otherwise, "attention"
