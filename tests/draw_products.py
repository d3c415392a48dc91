"""Draws random programs of several products: chains, squares, masks and repeated steps over extents that coincide."""

from __future__ import annotations

import random
import re

import numpy as np
from draw import Draw, Program
from fill import HOLES, Filler, Shape, Unfilled
from product_forms import PRODUCTS, STEPS, Families

from fusedsl.ir.types import DType, numpy_dtype

EXTENTS = (2, 3, 4, 5, 5, 7, 8, 13, 16, 16, 17, 33, 40, 40, 65)
MOST_ARRAYS = 8


def draw_products(seed: int, statements: int | None = None) -> Program:
    """The program of a seed, of so many statements (a step that is repeated counts as one)."""
    r = random.Random(f"products {seed}")
    return ProductDraw(r).program(statements or r.choice((2, 3, 4, 6, 8)), seed)


class ProductDraw(Draw):
    """Matrices of few extents, most of them equal, whose numbers keep products near 1."""

    inside = 300_000
    defines, shares = 0.0, (0.0, 0.0, 0.3, 1.0)
    weights = dict.fromkeys(("bool", "int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64"), 0)
    weights |= {"float8_e4m3fn": 0, "float8_e5m2": 0, "float32": 12, "float64": 8, "float16": 2, "bfloat16": 2}

    def __init__(self, r: random.Random):
        super().__init__(r)
        self.filler = ProductFiller
        first = r.choice(EXTENTS)
        self.extents = [first] * 3 if r.random() < 0.6 else [first, first, r.choice(EXTENTS), r.choice(EXTENTS)]

    def extent(self) -> int:
        return self.r.choice(self.extents)

    def _shape(self) -> Shape:
        return self.extent(), self.extent()

    def near(self, shape: Shape) -> Shape:
        return shape

    def dtype(self) -> DType:
        return self.main if self.r.random() < 0.9 else super().dtype()

    def families(self) -> Families:
        return PRODUCTS

    def numbers(self, shape: Shape, d: DType) -> np.ndarray:
        draw = np.random.default_rng(self.r.getrandbits(32))
        if d.kind == "b":
            return draw.random(shape) < 0.5
        kind = "whole" if d.kind != "f" else self.r.choices(("plain", "unit", "stochastic", "whole"), (6, 2, 2, 1))[0]
        x = draw.standard_normal(shape)
        if kind == "plain":
            x = x / np.sqrt(shape[-1] if shape else 1)
        elif kind == "stochastic":
            x = draw.uniform(0.2, 1.0, shape)
            x = x / x.sum(-1, keepdims=True) if shape else x
        elif kind == "whole":
            x = draw.integers(-2 if d.kind != "u" else 0, 3, shape).astype(np.float64)
        return np.asarray(x).astype(numpy_dtype(d))

    def _statement(self, number: int) -> list[str]:
        if self.r.random() < 0.3:
            for _ in range(4):
                if names := self._repeated(number):
                    return names
        return super()._statement(number)

    def _repeated(self, number: int) -> list[str]:
        """A step two to four times, as long as what it gives is another matrix like that which it takes."""
        filler = ProductFiller(self, self.r.choice(STEPS))
        names = self._attempt(number, filler.text)
        if not names or self.values[names[0]] != self.values[filler.first]:
            return names
        for _ in range(self.r.choice((1, 2, 3))):
            text = re.sub(rf"\b{filler.first}\b", names[-1], filler.written)
            more = self._attempt(number + len(names), lambda text=text, last=names[-1]: (text, {last}))
            if not more:
                break
            names += more
        return names


class ProductFiller(Filler):
    """Fills the holes that stand for matrices."""

    written = ""

    def text(self) -> tuple[str, set[str]]:
        """The text about one matrix, and the values that it reads."""
        square = "{s2}" in self.form
        matrices = {n: s for n, (s, d) in self.draw.values.items() if len(s) == 2 and d.kind != "b"}
        self.first = self._recent([n for n, s in matrices.items() if not square or s[0] == s[1]])
        self.shape, self.dtype = self.draw.values[self.first]
        self.written, read = super().text()
        return self.written, read

    def _fill(self, hole: str) -> str:
        if hole in ("x2", "s2"):
            return self._take(self.first)
        return (OWN_HOLES.get(hole) or HOLES[hole])(self)

    def operand(self, rows: int | None, columns: int | None) -> str:
        """A matrix of so many rows and columns, where that matters: one that is there, or a new one."""
        found = [
            n
            for n, (s, d) in self.draw.values.items()
            if len(s) == 2 and d.kind == "f" and rows in (None, s[0]) and columns in (None, s[1])
        ]
        if found and (self.r.random() < 0.75 or len(self.draw.arrays) >= MOST_ARRAYS):
            return self._take(self._recent(found))
        extent = self.draw.extent()
        shape = (extent if rows is None else rows, extent if columns is None else columns)
        return self._new(shape)

    def line(self, extent: int) -> str:
        """A vector of so many elements."""
        found = [n for n, (s, d) in self.draw.values.items() if s == (extent,) and d.kind == "f"]
        return self._take(self._recent(found)) if found and self.r.random() < 0.75 else self._new((extent,))

    def _new(self, shape: Shape) -> str:
        if len(self.draw.arrays) >= MOST_ARRAYS:
            raise Unfilled
        return self._take(self.draw.leaf(shape, self.draw.dtype()))


OWN_HOLES = {
    "b": lambda f: f.operand(f.shape[1], None),
    "l": lambda f: f.operand(None, f.shape[0]),
    "q": lambda f: f.operand(f.shape[1], f.shape[1]),
    "ql": lambda f: f.operand(f.shape[0], f.shape[0]),
    "u": lambda f: f.line(f.shape[0]),
    "last": lambda f: f.line(f.shape[1]),
    "ax": lambda f: f.r.choice(("0", "1", "-1", "1", "0")),
    "c01": lambda f: f.r.choice(("0.5", "0.1")),
}
