"""einsum: parsing of subscripts, and pairwise contraction of the operands."""

from __future__ import annotations

import string
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ..errors import ArgumentError, FusedslError, ShapeError
from ..ir import contraction, gathers, shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.graph import Node
from .functions import function
from .parameter_kinds import show_value

EXAMPLE = 'einsum("ij,jk->ik", x, y)'


@dataclass(frozen=True)
class EinsumTerm:
    """An operand with the letters of its axes."""

    array: Node
    letters: str


@function(subscripts="any", operands="arrays")
def einsum(b: GraphBuilder, subscripts: Any, *operands: Node):
    """Σ of products by the letters of their axes; `...` is the axes without a letter, a repeated letter a diagonal."""
    try:
        given, result = _parse_subscripts(subscripts)
        if len(given) != len(operands):
            message = f"{len(given)} operand{'s' * (len(given) != 1)} in the subscripts, {len(operands)} given"
            raise ArgumentError(message, "argument.einsum", help=EXAMPLE)
    except FusedslError as error:
        raise fail(error, 0) from None
    terms = _terms(b, given, operands)
    try:
        result_letters = _result_letters(given, result, terms)
    except FusedslError as error:
        raise fail(error, 0) from None
    terms = [_take_diagonals(b, term) for term in terms]
    while len(terms) > 1:
        terms = _contract_pair(b, terms, result_letters)
    return _sum_and_transpose(b, terms[0], result_letters)


# -- subscripts


def _parse_subscripts(text: Any) -> tuple[list[str], str | None]:
    """(subscripts of each operand, subscripts of the result or None)."""
    if not isinstance(text, str):
        message = f"einsum takes subscripts first, not {show_value(text)}"
        raise ArgumentError(message, "argument.kind", help=EXAMPLE)
    before, arrow, result = text.replace(" ", "").partition("->")
    given = before.split(",")
    for part in (*given, result):
        wrong = next((c for c in part.replace("...", "", 1) if c not in string.ascii_letters), None)
        if wrong is not None:
            help = "write ... once, for the axes without a letter" if wrong == "." else "axes are letters"
            raise ArgumentError(f"{wrong!r} names no axis", "argument.einsum", help=help)
    letters = result.replace("...", "")
    alone = next((c for c in letters if c not in before), None)
    if alone is not None or len(set(letters)) < len(letters):
        what = f"no operand has an axis {alone}" if alone is not None else "a letter is twice in the result"
        help = "the result names axes of operands, each once"
        raise ArgumentError(what, "argument.einsum", help=help)
    return given, result if arrow else None


def _terms(b: GraphBuilder, given: list[str], operands: tuple[Node, ...]) -> list[EinsumTerm]:
    """The operands with a letter for every axis; the axes of `...` are aligned from the end, as in broadcasting."""
    unnamed = [x.type.rank - len(text.replace("...", "")) for text, x in zip(given, operands)]
    for k, (text, x, unnamed_axes) in enumerate(zip(given, operands, unnamed)):
        if unnamed_axes < 0 or (unnamed_axes and "..." not in text):
            named = text.replace("...", "")
            message = f"{text!r} names {len(named)} {'axis' if len(named) == 1 else 'axes'} of {b.describe(x.type)}"
            help = f"it has {x.type.rank}" + (": ... stands for those without a letter" if unnamed_axes > 0 else "")
            raise fail(ShapeError(message, "shape.einsum", help=help), 1, k)
    free = [c for c in reversed(contraction.LETTERS) if all(c not in text for text in given)]
    if max(unnamed) > len(free):
        raise fail(contraction.too_many_axes(len(contraction.LETTERS) + max(unnamed) - len(free)), 0)
    outer = "".join(free[: max(unnamed)])
    return [
        EinsumTerm(x, text.replace("...", outer[len(outer) - unnamed_axes :]))
        for text, x, unnamed_axes in zip(given, operands, unnamed)
    ]


def _result_letters(given: list[str], result: str | None, terms: list[EinsumTerm]) -> str:
    """The result's letters: those of `...`, and by default the letters that occur once, sorted."""
    named = "".join(given).replace("...", "")
    outer = max(("".join(c for c in t.letters if c not in named) for t in terms), key=len)
    if result is None:
        return outer + "".join(sorted(c for c in named if named.count(c) == 1))
    if outer and "..." not in result:
        message = f"the result lacks ..., which is {len(outer)} {'axis' if len(outer) == 1 else 'axes'} here"
        raise ArgumentError(message, "argument.einsum", help=f"write ->...{result}, or sum over them after that")
    return result.replace("...", outer)


def _take_diagonals(b: GraphBuilder, term: EinsumTerm) -> EinsumTerm:
    """A term without repeated letters: axes of the same letter are replaced by their diagonal."""
    x, letters = term.array, term.letters
    while (twice := next((c for c in letters if letters.count(c) > 1), None)) is not None:
        first, second = letters.index(twice), letters.rindex(twice)
        contraction.require_one(b, x, first, second, twice)
        x = gathers.diagonal(b, x, first, second)
        letters = "".join(c for a, c in enumerate(letters) if a not in (first, second)) + twice
    return EinsumTerm(x, letters)


# -- products


def _contract_pair(b: GraphBuilder, terms: list[EinsumTerm], result_letters: str) -> list[EinsumTerm]:
    """Contract the cheapest pair of terms: the pair whose product has the fewest axes, then the smallest result."""

    def left(i: int, j: int) -> str:
        others = result_letters + "".join(t.letters for k, t in enumerate(terms) if k not in (i, j))
        both = dict.fromkeys(terms[i].letters + terms[j].letters)
        return "".join(c for c in both if c in others)

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        i, j = pair
        return len(set(terms[i].letters + terms[j].letters)), len(left(i, j))

    i, j = min(combinations(range(len(terms)), 2), key=cost)
    result = left(i, j) if len(terms) > 2 else result_letters
    x, y = terms[i], terms[j]
    subscripts = contraction.Subscripts(x.letters, y.letters, result)
    product = EinsumTerm(contraction.contract(b, x.array, y.array, subscripts, "einsum"), result)
    return [product if k == i else t for k, t in enumerate(terms) if k != j]


def _sum_and_transpose(b: GraphBuilder, term: EinsumTerm, result_letters: str) -> Node:
    """Sum over letters that the result lacks, and transpose to the result's order."""
    x, letters = term.array, term.letters
    summed = tuple(a for a, c in enumerate(letters) if c not in result_letters)
    if summed:
        x = contraction.added(b, x, summed)
        letters = "".join(c for c in letters if c in result_letters)
    return shapes.transpose(b, x, [letters.index(c) for c in result_letters])
