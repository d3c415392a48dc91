"""Differential test of a compiled form against its graph: both are evaluated on the same small arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dims import Extents, Symbol, evaluate
from .gathers import GUARDED, INSIDE
from .graph import Graph, Node, Type, walk
from .interp import Evaluated, evaluate_node, interpret
from .sample_extents import size
from .types import DType, numpy_dtype
from .verify import VerifyError

MOST_NODES = 2000  # of a graph
MOST_ELEMENTS = 1 << 20  # of all values together
SEEDS = (0, 1, 2)  # a difference must show for all seeds: one comparison of numbers may be a near tie
# Tolerances relative to the largest magnitude of a result, by the narrowest float: orders of summation differ.
TOLERANCE = {64: 1e-9, 32: 2e-4, 16: 3e-2, 8: 0.26}
GROWING = ("add", "subtract", "multiply", "fma", "power", "contract", "reduce", "scan", "scatter")  # what may overflow
NOISE = 16  # factor between the effect of intermediate rounding and that of an ulp of the arguments

Arrays = Mapping[tuple[str, int], np.ndarray]  # by kind and index
Run = Callable[[Extents, Arrays, Sequence], Sequence[np.ndarray]]


class TooLarge(Exception):
    """A program has too many elements to evaluate."""


def compare(graph: Graph, temporaries: Sequence[Type], extents: Extents | None, run: Run, count: int) -> str:
    """Why a program was not compared with its graph, or ""; VerifyError if they differ.

    `run` returns the program's results at some extents, for given arrays.
    """
    if extents is None:
        return "no small extents pass the checks"
    if count > MOST_NODES:
        return f"{count} scalars are more than {MOST_NODES}"
    if sum(size(n.type.shape, extents) for n in walk(graph.results)) > MOST_ELEMENTS:
        return f"its arrays have more than {MOST_ELEMENTS} elements"
    case = _Case(graph, temporaries, extents, run)
    difference = ""
    for seed in SEEDS:
        try:
            difference = case.differs(seed)
        except TooLarge:
            return f"its values have more than {MOST_ELEMENTS} elements"
        if not difference:
            return ""
    raise VerifyError(difference)


@dataclass(frozen=True)
class _Case:
    """A graph, the temporaries that it reads besides its arguments, and the program to compare."""

    graph: Graph
    temporaries: Sequence[Type]
    extents: Extents
    run: Run

    def differs(self, seed: int) -> str:
        """How the program's results differ from those of the graph, or "".

        If most results are not finite, as those of logarithms, positive arguments are compared as well.
        """
        random = np.random.default_rng(seed)
        arguments = self._arguments(random, 0)
        expected = self._interpreted(arguments)
        difference = self._compared(arguments, expected, random)
        if difference or all(_is_finite(x).mean() > 0.5 for x in expected if x.size):
            return difference
        arguments = self._arguments(random, 1)
        return self._compared(arguments, self._interpreted(arguments), random)

    def _arguments(self, random: np.random.Generator, least: int) -> list:
        kinds = [(p.type, p.scalar) for p in self.graph.parameters] + [(t, False) for t in self.temporaries]
        arrays = [_random(t.dtype, [evaluate(d, self.extents) for d in t.shape], random, least) for t, _ in kinds]
        return [x.item() if scalar else x for x, (_, scalar) in zip(arrays, kinds)]

    def _interpreted(self, arguments: Sequence, evaluated: Evaluated = evaluate_node) -> list[np.ndarray]:
        return interpret(Graph(self.graph.parameters, self.graph.results), arguments, evaluated)

    def _compared(self, arguments: Sequence, expected: Sequence[np.ndarray], random: np.random.Generator) -> str:
        count = len(self.graph.parameters)
        arrays = {("argument", k): x for k, x in enumerate(arguments[:count])}
        arrays |= {("temporary", k): x for k, x in enumerate(arguments[count:])}
        results = [_rounded_as(*pair) for pair in zip(expected, self.run(self.extents, arrays, arguments))]
        tolerance = TOLERANCE[min(_floats(self.graph.results), default=64)]
        if all(not _differs(*pair, tolerance).any() for pair in zip(expected, results)):
            return ""
        moved = self._interpreted([_moved(x, random) for x in arguments])
        padded = self._interpreted(arguments, _with_ones_outside)
        overflows = self._overflows(arguments)
        for k, (want, got, other, same) in enumerate(zip(expected, results, moved, padded)):
            wrong = _differs(want, got, tolerance, other) & ~_differs(want, same, 0.0)
            if overflows:  # which of infinity and NaN follows depends on the order of operations
                wrong &= _is_finite(want) | _is_finite(got)
            if wrong.any():
                where = tuple(map(int, np.argwhere(wrong)[0]))
                shown = f"{got[where]} at {where}, and its graph {want[where]}"
                return f"a program computes what its graph does: result {k} is {shown}, at {_shown(self.extents)}"
        return ""

    def _overflows(self, arguments: Sequence) -> bool:
        """Whether a sum, a product or a power of finite values is infinite."""
        overflows = False

        def evaluated(n: Node, args: list[np.ndarray], given: Sequence, extents: Mapping[Symbol, int]) -> np.ndarray:
            nonlocal overflows
            value = evaluate_node(n, args, given, extents)
            if n.op in GROWING and value.dtype.kind not in "iub" and not overflows:
                overflows = not _is_finite(value).all() and all(_is_finite(x).all() for x in args)
            return value

        self._interpreted(arguments, evaluated)
        return overflows


def _with_ones_outside(
    n: Node, args: list[np.ndarray], arguments: Sequence, extents: Mapping[Symbol, int]
) -> np.ndarray:
    """The value of a node, where gathers give 1 for elements that are not there but that may be promised to be, as a
    segment's are by what it reads: what changes is not used."""
    value = evaluate_node(n, args, arguments, extents)
    if n.op != "gather" or n.attr[0] not in (GUARDED, INSIDE):
        return value
    there = evaluate_node(n, [np.ones(args[0].shape, bool), *args[1:]], arguments, extents)
    return np.where(there, value, np.ones_like(value))


def _rounded_as(want: np.ndarray, got: np.ndarray) -> np.ndarray:
    """A result in the dtype of its graph: a temporary holds it in a wider one, in which it may not overflow."""
    with np.errstate(all="ignore"):
        return got if want.dtype.kind in "iub" else got.astype(want.dtype)


def _shown(extents: Extents) -> str:
    return ", ".join(f"{s} = {n}" for s, n in extents.items())


def _is_finite(x: np.ndarray) -> np.ndarray:
    return np.ones(x.shape, bool) if x.dtype.kind in "iub" else np.isfinite(x)


def _floats(results: Iterable[Node]) -> list[int]:
    """Bits of the floats that a graph computes with."""
    return [n.type.dtype.bits for n in walk(results) if n.type.dtype.kind == "f" and not n.type.weak]


def _differs(want: np.ndarray, got: np.ndarray, tolerance: float, moved: np.ndarray | None = None) -> np.ndarray:
    """Where two arrays differ by more than rounding.

    `moved` is the first result for arguments changed by an ulp: an element may be off by a multiple of its change.
    """
    if want.dtype.kind in "iub":
        return (want != got) & (True if moved is None else want == moved)
    want, got = want.astype(np.float64), got.astype(np.float64)
    with np.errstate(all="ignore"):
        bound = tolerance * np.abs(want[np.isfinite(want)]).max(initial=0.0)
        known = np.ones(want.shape, bool)
        if moved is not None:
            change = np.abs(moved.astype(np.float64) - want)
            bound += NOISE * change[np.isfinite(change)].max(initial=0.0)
            known = np.isfinite(want) == np.isfinite(moved)
        close = (want == got) | (np.isnan(want) & np.isnan(got)) | (np.abs(want - got) <= bound)
    return known & ~close


# -- arguments


def _random(d: DType, shape: Sequence[int], random: np.random.Generator, least: int) -> np.ndarray:
    """Random values from `least` on, of either sign if it is 0: floats whose sums are exact in any order."""
    x: Any
    if d.kind == "b":
        x = random.integers(0, 2, shape)
    elif d.kind == "f":
        x = random.integers(least or -8, 9, shape) / (4 if d.bits == 8 else 8)
    else:
        x = random.integers(0 if d.kind == "u" or least else -2, 4, shape)
    return np.array(x, dtype=numpy_dtype(d))


def _moved(x: Any, random: np.random.Generator) -> Any:
    """Floats changed by an ulp; other values unchanged."""
    if not isinstance(x, np.ndarray) or x.dtype.kind in "iub":
        return x * (1 + 2.0**-22) if isinstance(x, float) else x
    sign = random.integers(0, 2, x.shape) * 2 - 1
    return np.array(np.nextafter(x, np.asarray(sign * np.inf, x.dtype)), dtype=x.dtype)
