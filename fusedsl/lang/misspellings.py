"""Which known names a misspelt one may mean: those that differ from it by a typing error.

Names that are merely alike, as fold and fmod, differ in meaning. A letter of a short name is mistaken only for one
beside it on the keyboard.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

MOST = 3  # names that are equally near
SHORT = 3  # letters
ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
KEYS = {letter: (row, column) for row, letters in enumerate(ROWS) for column, letter in enumerate(letters)}


def meant_by(name: str, candidates: Iterable[str]) -> list[str]:
    """The candidates that are fewest typing errors away, at most one for each four letters; of those the most alike.

    >>> meant_by("sun", ["sin", "sum", "max", "cumsum"])
    ['sin', 'sum']
    >>> meant_by("fold", ["fmod", "floor"])
    []
    """
    bare, near = _bare(name), dict[str, tuple[int, float]]()
    for candidate in candidates:
        meant = _bare(candidate)
        if abs(len(bare) - len(meant)) <= (most := max(1, len(meant) // 4)):
            count = _typing_errors(bare, meant)
            if count <= most and len(meant) > 2:
                near[candidate] = count, -SequenceMatcher(None, bare, meant).ratio()
    nearest = min(near.values(), default=None)
    return sorted(candidate for candidate, distance in near.items() if distance == nearest)[:MOST]


def _bare(name: str) -> str:
    return name.lower().replace("_", "")


def _typing_errors(a: str, b: str) -> int:
    """Insertions, deletions, substitutions and swaps of neighbours between two words (optimal string alignment)."""
    short = min(len(a), len(b)) <= SHORT
    before, last = [0] * (len(b) + 1), list(range(len(b) + 1))
    for i, letter in enumerate(a):
        row = [i + 1]
        for j, other in enumerate(b):
            mistaken = 0 if letter == other else 1 if not short or _are_neighbours(letter, other) else 2
            row.append(min(last[j + 1] + 1, row[j] + 1, last[j] + mistaken))
            if i and j and letter == b[j - 1] and other == a[i - 1]:
                row[-1] = min(row[-1], before[j - 1] + 1)
        before, last = last, row
    return last[-1]


def _are_neighbours(a: str, b: str) -> bool:
    """Whether two letters are beside each other on a keyboard."""
    if a not in KEYS or b not in KEYS:
        return False
    (row, column), (other_row, other_column) = KEYS[a], KEYS[b]
    return abs(row - other_row) + abs(column - other_column) == 1 or (row - other_row) * (other_column - column) == 1
