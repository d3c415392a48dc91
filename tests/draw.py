"""Draws typed random programs: statements of forms.py over arrays of any dtype, shape and layout.

What the language refuses is drawn anew, so no type rule stands here twice; what the judge (bounds.py) could say little
about, mostly so too.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from bounds import of_node
from fill import LARGEST, Filler, Shape, Unfilled
from forms import DEFINITIONS, FORMS, OWN
from memory import LAYOUTS, laid_out, numbers
from oracle import graph_of

from fusedsl.errors import FusedslError
from fusedsl.ir.checks import holds
from fusedsl.ir.dims import evaluate
from fusedsl.ir.interp import extents_of
from fusedsl.ir.types import DTYPES, DType

LITERAL = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
LENGTHS = (1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33, 64, 65, 100, 257, 1025)


@dataclass(frozen=True)
class Program:
    """A text, as lines and results, with its arguments."""

    lines: tuple[str, ...]
    results: tuple[str, ...]
    arrays: dict[str, object]
    layouts: dict[str, str] = field(default_factory=dict)
    seed: int | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "\n".join([*self.lines, f"return {', '.join(self.results)}"])


class Unjudged(Exception):
    """The judge can say little about a value."""


def draw(seed: int, statements: int | None = None) -> Program:
    """The program of a seed, of so many statements."""
    return drawn(random.Random(seed), statements, seed)


def drawn(r: random.Random, statements: int | None = None, seed: int | None = None) -> Program:
    """A program, drawn from a source of randomness."""
    return Draw(r).program(statements or r.choice((3, 6, 9, 12, 16)), seed)


class Draw:
    """A program as it grows."""

    inside = 40000  # elements of a value on the way
    weights = {"float32": 12, "float64": 3, "float16": 3, "bfloat16": 3}  # of the dtype that most arrays have; else 1
    filler: type[Filler] = Filler
    defines = 0.2  # how often it has a function of its own
    alike = 0.05  # how often a line is written again with other literals
    shares = (0.1, 0.5, 1.0)  # how many of the values that others read are results too

    def __init__(self, r: random.Random):
        self.r = r
        self.arrays: dict[str, object] = {}
        self.layouts: dict[str, str] = {}
        self.lines: list[str] = []
        self.values: dict[str, tuple[Shape, DType]] = {}
        self.known: dict = {}
        self.used: set[str] = set()
        self.main = DTYPES[r.choices(list(DTYPES), [self.weights.get(d, 1) for d in DTYPES])[0]]

    def program(self, statements: int, seed: int | None) -> Program:
        r = self.r
        self.base = self._shape()
        if r.random() < self.defines:
            self.lines.append(r.choice(DEFINITIONS))
        for _ in range(r.choice((1, 2, 2, 3))):
            self.leaf(self.near(self.base), self.dtype())
        made: list[str] = []
        for _ in range(statements):
            made += self._statement(len(made))
        sinks = [n for n in made if n not in self.used]
        kept = r.choice(self.shares)
        others = [n for n in made if n in self.used and r.random() < kept]
        results = sinks + others or [r.choice(list(self.values))]
        r.shuffle(results)
        return self._finished(results, seed)

    def _finished(self, results: list[str], seed: int | None) -> Program:
        """Without the arrays that nothing reads."""
        text = "\n".join([*self.lines, *results])
        read = set(re.findall(r"\w+", text))
        arrays = {n: a for n, a in self.arrays.items() if n in read}
        return Program(tuple(self.lines), tuple(results), arrays, {n: self.layouts[n] for n in arrays}, seed)

    # -- leaves

    def _shape(self) -> Shape:
        r = self.r
        while True:
            rank = r.choices(range(6), (2, 7, 12, 6, 2, 1))[0]
            shape = tuple(0 if r.random() < 0.015 else r.choice(LENGTHS) for _ in range(rank))
            if math.prod(shape) <= 3000:
                return shape

    def near(self, shape: Shape) -> Shape:
        """A shape that broadcasts with this one."""
        r, kind = self.r, self.r.random()
        if kind < 0.6 or not shape:
            return shape
        if kind < 0.75:
            return tuple(1 if r.random() < 0.5 else n for n in shape)
        return shape[r.randrange(len(shape) + 1) :]

    def dtype(self) -> DType:
        return self.main if self.r.random() < 0.75 else DTYPES[self.r.choice(list(DTYPES))]

    def leaf(self, shape: Shape, d: DType, values: np.ndarray | None = None) -> str:
        name = "abcdefghijklmnopq"[len(self.arrays)]
        x = self.numbers(shape, d) if values is None else values
        layout = self.r.choice(LAYOUTS)
        x = laid_out(self.r, x, layout)
        others = [n for n, (s, e) in self.values.items() if n in self.arrays and s[::-1] == shape and e is d]
        if values is None and shape and others and self.r.random() < 0.15:
            x, layout = self.arrays[self.r.choice(others)].T, "shared"
        self.arrays[name] = x[()] if not shape and self.r.random() < 0.3 and d.name in np.sctypeDict else x
        self.layouts[name] = layout
        self.values[name] = shape, d
        return name

    def numbers(self, shape: Shape, d: DType) -> np.ndarray:
        return numbers(self.r, shape, d)

    # -- statements

    def _statement(self, number: int) -> list[str]:
        """The names that a new line gives values to; none where everything drawn was refused."""
        for _ in range(8):
            filler = self.filler(self, self._form())
            if names := self._attempt(number, filler.text):
                return names + (self._alike(number + len(names)) if self.r.random() < self.alike else [])
        return []

    def _alike(self, number: int) -> list[str]:
        """The last line again with other literals: kernels that are alike but for these."""
        text = self.lines[-1].partition(" = ")[2]
        literals = list(LITERAL.finditer(text))
        if not literals:
            return []
        one, names = self.r.choice(literals), list[str]()
        for k in (1, 2, 3):
            other = f"{text[: one.start()]}{float(one[0]) + k if '.' in one[0] else int(one[0]) + k}{text[one.end() :]}"
            read = set(re.findall(r"\w+", other)) & set(self.values)
            names += self._attempt(number + len(names), lambda other=other, read=read: (other, read))
        return names

    def _form(self) -> str:
        families = self.families()
        weights = [weight if forms else 0 for weight, forms in families.values()]
        return self.r.choice(families[self.r.choices(list(families), weights)[0]][1])

    def families(self) -> dict[str, tuple[int, list[str]]]:
        """The forms of this program, by family, with the weight of each."""
        return {**FORMS, "own": (2, OWN if self.lines and "own(" in self.lines[0] else [])}

    def _attempt(self, number: int, written: Callable[[], tuple[str, set[str]]]) -> list[str]:
        """The names that a line gives values to, where it can be written and has a meaning; all is as before if not."""
        before = dict(self.arrays), dict(self.values), dict(self.layouts), dict(self.known)
        try:
            text, read = written()
            made = self._probe(text)
        except (FusedslError, Unfilled, Unjudged):
            self.arrays, self.values, self.layouts, self.known = before
            return []
        names = [f"t{number + k}" for k in range(len(made))]
        self.values |= dict(zip(names, made))
        self.lines.append(f"{', '.join(names)} = {text}")
        self.used |= read
        return names

    def _probe(self, text: str) -> list[tuple[Shape, DType]]:
        """The types of what an expression gives after the lines so far; raises what the language says against it."""
        graph, arguments = graph_of("\n".join([*self.lines, f"return {text}"]), self.arrays)
        extents = extents_of(arguments)
        if not graph.results or not all(holds(c, extents) for c in graph.checks):
            raise Unfilled
        with np.errstate(all="ignore"):
            for n in graph.nodes():
                if math.prod(evaluate(d, extents) for d in n.type.shape) > self.inside:
                    raise Unfilled
                key = (n, tuple(graph.parameters))
                if key not in self.known:
                    args = [self.known[a, tuple(graph.parameters)] for a in n.args]
                    self.known[key] = of_node(n, args, arguments, extents)
        found = []
        for result in graph.results:
            value, bound = self.known[result, tuple(graph.parameters)]
            if value.size > LARGEST:
                raise Unfilled
            if _decided(value, bound) < 0.6 and self.r.random() < 0.85:
                raise Unjudged
            found.append((value.shape, result.type.dtype))
        return found


def _decided(value, bound) -> float:
    """The share of elements whose bound says something."""
    if not value.size:
        return 1.0
    if value.dtype.kind != "f":
        return float((bound == 0).mean())
    size = np.where(np.isfinite(value), np.abs(value), 0)
    with np.errstate(over="ignore"):
        return float((np.isfinite(value) & (bound <= 0.02 * np.maximum(size, size.mean()))).mean())
