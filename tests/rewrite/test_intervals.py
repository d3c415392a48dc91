"""Interval analysis of masks: its answers about a tile are never wrong, and exact where it matters."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from oracle import graph_of
from reference_executor import scalars

import fusedsl as fd
from fusedsl.fusion.lower import lower
from fusedsl.ir.graph import Type, node, walk
from fusedsl.ir.ops import OPS
from fusedsl.ir.types import INT64, fits
from fusedsl.rewrite import rules  # noqa: F401  (registers the laws)
from fusedsl.rewrite.engine import rewrite
from fusedsl.rewrite.intervals.interval_analysis import Intervals
from fusedsl.rewrite.intervals.three_valued_logic import ALWAYS, LOGIC, NEVER, NO, UNKNOWN, YES
from fusedsl.rewrite.scalar_builder import free_axes

ROWS, COLUMNS = 60, 72
DOCUMENT = np.repeat(np.arange(6), 12).astype(np.int32)
KEPT = np.arange(COLUMNS) < 50


class Mask:
    """A mask's scalar, and its values by brute force."""

    def __init__(self, text: str, width: int = 7, start: int = 5):
        x = np.zeros((ROWS, COLUMNS), np.float32)
        starts = np.array([start, 0], np.int32)
        arrays = {"x": x, "doc": DOCUMENT, "kept": KEPT, "w": width, "starts": starts}
        lines = "i = iota(x, 0); j = iota(x, 1); own = doc[:60][:, None]; other = doc[None, :]; kept_ = kept[None, :]\n"
        lines += "s = starts[0]\n"
        graph, _ = graph_of(lines + f"where({text}, x, -inf)", arrays)
        (root,) = lower(rewrite(graph)).stores
        self.root, self.value = root.axes, root.value.args[0]
        self.names = [p.name for p in graph.parameters]
        self.arrays = arrays

    def leaf(self, n, at):
        """A load, number or size at positions: two arrays that broadcast."""
        if n.op == "position":
            return at[n.attr]
        if n.op == "load":
            source = np.asarray(self.arrays[self.names[n.attr[0].index]])
            return source[tuple(c.start + c.step * at[c.axis] if c.axis else np.asarray(c.start) for c in n.attr[1])]
        value = self.arrays[self.names[n.attr]] if n.op == "scalar" else COLUMNS
        if n.type.dtype.kind != "f" and not fits(value, n.type.dtype):
            raise OverflowError  # a call refuses it
        return np.asarray(value, n.type.dtype.name)

    def values(self, roots, tile, known=()):
        rows, columns = self.root
        at = {rows: np.arange(*tile[0])[:, None], columns: np.arange(*tile[1])[None]}
        leaves = {n: self.leaf(n, at) for n in walk(roots) if n.op in ("load", "position", "scalar", "size")}
        shape = (tile[0][1] - tile[0][0], tile[1][1] - tile[1][0])
        return [np.broadcast_to(x, shape) for x in scalars(roots, {**leaves, **dict(known)})]

    def tile(self, tile):
        """(what intervals say: somewhere, everywhere; what is so)"""
        axes = free_axes([self.value])
        ends = {a: tuple(node("state", (), (end, a), Type(INT64)) for end in ("first", "last")) for a in self.root}
        found = Intervals(ends, lambda n: axes[n])
        told = found.truth(self.value)
        known = {}
        for a, (first, last) in zip(self.root, tile):
            known |= dict(zip(ends[a], (np.asarray(first), np.asarray(last - 1))))
        for n, (low, high) in found.extremes.items():
            (x,) = self.values([n], tile)
            known |= {low: x.min(), high: x.max()}
        somewhere, everywhere = (bool(x[0, 0]) for x in self.values(list(told), ((0, 1), (0, 1)), known.items()))
        (so,) = self.values([self.value], tile)
        return somewhere, everywhere, so


def every_tile(rows=12, columns=18):
    return [((r, r + rows), (c, c + columns)) for r in range(0, ROWS, rows) for c in range(0, COLUMNS, columns)]


EXACT = {
    "causal": "j <= i",
    "window": "(j <= i) & (j > i - w)",
    "either side": "abs(i - j) < w",
    "prefix": "(j < 20) | (j <= i)",
    "lengths": "(j < 40) & (i < 50)",
    "blocks": "i // 12 == j // 18",
    "padding": "kept_ & (j <= i)",
    "scaled": "2 * j + 3 <= i",
    "shifted": "not (j > i + size(x, 1) - 60)",
    "inverted": "~(j > i)",
    "xor of a literal": "(j > i) ^ True",
    "logical xor": "logical_xor(j > i, True)",
    "not false": "(j > i) == False",
    "not true": "(j > i) != True",
    "band": "(j <= i) ^ (j <= i - w)",
    "other than": "(j <= i) != (j <= i - w)",
    "alike": "(j <= i) == (j <= i - w)",
    "beyond one": "(j <= i - w) < (j <= i)",
    "chosen": "True if j < 20 else j <= i",
    "chosen or not": "where(j <= i, j > i - w, False)",
    "either of two": "where(i < 24, j < 20, j <= i)",
    "of a lower triangle": "tril(ones_like(x)) == 1",
    "of an upper triangle": "triu(ones_like(x), 1) == 0",
    "a lower triangle": "astype(tril(ones_like(x)), bool)",
    "of numbers": "astype(j <= i, int32) > 0",
    "a triangle of truths": "tril(ones_like(x) == 1)",
    "prefix by a choice": "j <= where(i < 24, 23, i)",
    "sum of truths": "int32(j <= i) + int32(j > i - w) == 2",
    "added numbers": "where(j <= i, 0.0, -inf) == 0",
}


@pytest.mark.parametrize("name", EXACT)
def test_no_tile_is_taken_for_partial(name):
    """Masks of one or two plain conditions: a tile is skipped, or whole, exactly where it is so."""
    mask = Mask(EXACT[name])
    for tile in every_tile():
        somewhere, everywhere, so = mask.tile(tile)
        assert (somewhere, everywhere) == (so.any(), so.all()), tile


@pytest.mark.parametrize("name", LOGIC)
def test_logic_of_what_is_known_is_exact(name):
    """What holds of every choice of the operands' values, and what of one: nothing less is said, and nothing more."""
    truths = {NEVER: (False,), UNKNOWN: (False, True), ALWAYS: (True,)}
    count = 1 if name in ("convert", "cast") else OPS[name].arity
    meaning = np.asarray if name in ("convert", "cast") else OPS[name].meaning
    for known in product(truths, repeat=count):
        values = [bool(meaning(*map(np.bool_, x))) for x in product(*(truths[t] for t in known))]
        assert LOGIC[name](*known) == (YES if any(values) else NO, YES if all(values) else NO), known


@pytest.mark.parametrize(
    ("text", "asked"),
    [("(i - j) % 4 == 0", False), ("(2 * i + 16 - j) % 16 != 3", False), ("i + j % 5 < 3", True), ("j % 17 == 0", True)]
    + [("(i // 8 - j // 8) % 2 == 0", True), ("(j - j // 4) % 3 == 0", True), ("(i - j) % 4 == 0 or j < i", True)],
)
def test_a_remainder_that_every_tile_has_is_not_asked_for(text, asked):
    """A tile holds 16 columns or more: of one of every four none has all, and none has nothing."""
    mask = Mask(text)
    free = free_axes([mask.value])
    ends = {a: tuple(node("state", (), (end, a), Type(INT64)) for end in ("first", "last")) for a in mask.root}
    found = Intervals(ends, lambda n: free[n], frozenset(mask.root[1:])).truth(mask.value)
    assert (found != (YES, NO)) == asked


def test_documents_by_their_least_and_greatest_number():
    mask = Mask("(own == other) & (j <= i)")
    found = [mask.tile(tile) for tile in every_tile()]
    assert all(somewhere or not so.any() for somewhere, _, so in found)
    assert sum(not somewhere for somewhere, _, _ in found) == sum(not so.any() for _, _, so in found)


NUMBERS = st.recursive(
    st.sampled_from(
        ["i", "j", "w", "s", "own", "other", "3", "-5", "17", "2**62", "int32(j <= i)", "int64(kept_)"]
        + ["where(j < w, 4, i)", "where(kept_ & (i < 9), i, j)"]
    ),
    lambda x: st.one_of(
        st.tuples(x, st.sampled_from(["+", "-", "*"]), x).map(lambda p: f"({' '.join(p)})"),
        st.tuples(st.sampled_from(["abs", "-"]), x).map(lambda p: f"{p[0]}({p[1]})"),
        st.tuples(st.sampled_from(["minimum", "maximum"]), x, x).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        st.tuples(x, st.sampled_from(["// 5", "% 7", ">> 2", "<< 58", "& 15"])).map(lambda p: f"({p[0]} {p[1]})"),
        st.tuples(st.sampled_from(["int8", "uint8", "int32", "uint32"]), x).map(lambda p: f"{p[0]}({p[1]})"),
    ),
    max_leaves=4,
)
REALS = st.recursive(
    st.sampled_from(
        ["where(j <= i, 0.0, -inf)", "0.5 * j", "inf", "where(i < w, -2.5, i)", "float32(kept_)"]
        + ["where(kept_, 1.0, nan)", "where(i < w, nan, j)", "(j - 40)"]
    ),
    lambda x: st.tuples(st.one_of(x, NUMBERS), st.sampled_from(["+", "-", "*"]), x).map(lambda p: f"({' '.join(p)})"),
    max_leaves=2,
)
ANY = st.one_of(NUMBERS, NUMBERS, REALS)
CONDITIONS = st.recursive(
    st.one_of(
        st.tuples(ANY, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), ANY).map(lambda p: f"({' '.join(p)})"),
        st.just("kept_"),
    ),
    lambda x: st.one_of(
        st.tuples(x, st.sampled_from(["&", "|", "^", "==", "!=", "<", ">="]), x).map(lambda p: f"({' '.join(p)})"),
        x.map(lambda c: f"(~{c})"),
        st.tuples(x, x, x).map(lambda p: f"where({', '.join(p)})"),
    ),
    max_leaves=3,
)


LARGE = st.sampled_from([2**63 - 1, 2**63 - 40, -(2**63), -(2**63) + 1, 2**62, -(2**62), 2**57, 2**58 - 1, 2**32, 0])


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:overflow:RuntimeWarning")
@settings(max_examples=160, deadline=None)
@given(CONDITIONS, st.one_of(st.integers(1, 9), LARGE), st.sampled_from([5, 2**31 - 1, -(2**31), 2**31 - 30, 2**30]),
       st.integers(0, 59), st.integers(0, 71), st.integers(1, 30))  # fmt: skip
def test_what_is_said_of_a_tile_is_so(text, width, start, row, column, size):
    """A tile that is skipped has nothing, one that is whole has everything; anything else may be partial. Integers
    wrap, and the bounds of what wraps within a tile are none."""
    tile = ((row, min(ROWS, row + size)), (column, min(COLUMNS, column + size)))
    try:
        # what depends on both axes stays an array
        somewhere, everywhere, so = Mask(f"({text}) | (i < -j)", width, start).tile(tile)
    except (OverflowError, fd.DTypeError, fd.LimitError):  # an integer is beyond those that it meets, or beyond all
        reject()
    assert somewhere or not so.any()
    assert not everywhere or so.all()
