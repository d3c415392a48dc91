"""Draws random products of two matrices: any extents from 0 up, layouts, batches and letters, with what is computed on
an operand before and on the product after."""

from __future__ import annotations

import random
import re
from math import prod

import numpy as np
from draw import Program
from memory import LAYOUTS, laid_out, numbers

from fusedsl.ir.types import DTYPES, DType, numpy_dtype

WEIGHTS = {"bfloat16": 6, "float16": 4, "float32": 6, "float64": 3, "int8": 2}
SMALL = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 63, 64, 65, 72)
LARGE = (*SMALL, 96, 100, 127, 128, 129, 192, 200, 255, 256, 257, 300, 384, 512, 520, 777, 1000, 1024, 1111)
TF32 = ("tf32", "tf32", "3xtf32")
TIDY = 0.55  # how many programs have arrays that TMA and vectors can take, and no axis without elements
EMPTY = 0.03  # how often an extent is 0
OPERATIONS = 3e6  # multiply-adds of a program of small extents
MORE = 2e8  # … of large ones

FLOAT_EPILOGUES = (
    "{p}", "{p}", "{p}", "gelu({p} + b)", "relu({p} + b)", "silu({p}) * r", "{p} * c + r", "tanh({p} * s[..., None])",
    "s[..., None] * ({p} + b)", "clip({p}, -1, 1)", "where(r > 0, {p}, 0.1 * {p})", "float32({p}) - b",
    "float16({p} * 0.25)", "({p})[..., ::-1]", "int8(clip({p}, -99, 99))", "-{p}", "max({p}, axis=-1)",
    "sum({p}, axis=-1)", "sum({p}, axis=0)", "softmax({p})", "logsumexp({p}, axis=-1)", "argmax({p}, axis=-1)",
    "rms_norm({p})", "swapaxes({p}, 0, -1)", "{p} - mean({p}, axis=-1, keepdims=True)",
)  # fmt: skip
INTEGER_EPILOGUES = ("{p}", "{p}", "{p} + int32(r)", "float32({p}) * 0.01", "maximum({p}, 0)", "sum({p}, axis=-1)")
SEVERAL = (("{p}", "sum(absolute({p}), axis=-1)"), ("{p} + b", "{p} * 2"), ("gelu({p})", "max({p}, axis=-1)"))
LETTERS = (("ab", (0, 1, 1, 2)), ("ij", (1, 1, 2)), ("mn", (1, 1, 2)), ("kl", (1, 1, 2)))  # and how many of them
PROLOGUES = ("{x} * 2", "relu({x})", "exp(-absolute({x}))", "where({x} > 0, {x}, 0)", "{x} * g", "{x} + g")


def draw_matmul(seed: int, large: bool = False) -> Program:
    """The program of a seed; of large extents, one that a card computes in moments."""
    return MatmulDraw(random.Random(f"matmul {seed} {large}"), large).program(seed)


class MatmulDraw:
    """A program as it grows: operands, the product as text, what follows it."""

    def __init__(self, r: random.Random, large: bool):
        self.r, self.large = r, large
        self.arrays: dict[str, object] = {}
        self.layouts: dict[str, str] = {}
        self.dtype = DTYPES[r.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]]
        self.integers = self.dtype.kind != "f"
        self.tidy = r.random() < TIDY
        self.special = r.random() < 0.12
        self.options = {"matmul": r.choice(TF32)} if self.dtype.name == "float32" and r.random() < 0.4 else {}
        self.signless = r.random() < 0.15

    def program(self, seed: int) -> Program:
        r = self.r
        while True:
            product, x, w, out = r.choice(
                (self.matrices, self.matrices, self.matrices, self.batches, self.vectors, self.letters)
            )()
            work = prod(out) * (x[1] if x else 1)
            if work <= (MORE if self.large else OPERATIONS) and prod(out) <= (4e6 if self.large else 2e4):
                break
        self.leaf("x", x[0])
        self.leaf("w", w)
        if re.search(r"\bg\b", product):
            self.leaf("g", x[0][-1:])
        lines = [f"p = {product}"]
        if self.integers:
            texts = [r.choice(INTEGER_EPILOGUES)]
        else:
            texts = list(r.choice(SEVERAL)) if r.random() < 0.2 else [r.choice(FLOAT_EPILOGUES)]
        if not out or 0 in out:
            texts = ["{p}"]
        self.around(" ".join(texts), out)
        results = tuple(t.format(p="p") for t in texts)
        return Program(tuple(lines), results, self.arrays, self.layouts, seed, self.options)

    # -- kinds of products: (text, (shape of x, summed extents), shape of w, shape of the product)

    def extent(self) -> int:
        if not self.tidy and self.r.random() < EMPTY:
            return 0
        known = LARGE if self.large else SMALL
        return self.r.choice([n for n in known if n % 8 == 0] if self.tidy else known)

    def factor(self, name: str) -> str:
        """An operand as the product reads it: bare, cast, or computed, of x perhaps with a row g."""
        if self.integers:
            return f"int32({name})"
        if self.r.random() < 0.85:
            return name
        kind = f"{self.dtype}" if self.dtype.name in ("float16", "bfloat16") else ""
        form = self.r.choice(PROLOGUES[: None if name == "x" else -2])
        return f"{kind}({form.format(x=name)})"

    def matrices(self):
        m, n, k = (self.extent() for _ in range(3))
        x, w = ((m, k), self.r.random() < 0.25), ((k, n), self.r.random() < 0.4)
        texts = [self.factor(name) + (".mT" if turned else "") for name, (_, turned) in zip("xw", (x, w))]
        shapes = [shape[::-1] if turned else shape for shape, turned in (x, w)]
        return " @ ".join(texts), (shapes[0], k), shapes[1], (m, n)

    def batches(self):
        m, n, k = (self.extent() for _ in range(3))
        a, b = (self.r.choice((1, 2, 3, 5)) for _ in range(2))
        left, right, out = self.r.choice(
            (((a,), (a,), (a,)), ((a,), (), (a,)), ((), (a,), (a,)), ((a, 1), (b,), (a, b)), ((a, b), (a, b), (a, b)),
             ((1,), (a,), (a,)), ((a, b), (1, b), (a, b)))
        )  # fmt: skip
        text = f"{self.factor('x')} @ {self.factor('w')}"
        return text, ((*left, m, k), k), (*right, k, n), (*out, m, n)

    def vectors(self):
        m, n, k = (self.extent() for _ in range(3))
        x, w, out = self.r.choice(
            (((k,), (k, n), (n,)), ((m, k), (k,), (m,)), ((1, k), (k, n), (1, n)), ((k,), (k,), ()))
        )
        return f"{self.factor('x')} @ {self.factor('w')}", (x, k), w, out

    def letters(self):
        """An einsum whose letters stand in any order."""
        r = self.r
        batch, *kinds = (letters[: r.choice(counts)] for letters, counts in LETTERS)
        rows, columns, summed = kinds
        sizes = {c: r.choice((1, 2, 3, 4, 5, 8)) for c in (*batch, *rows, *columns, *summed)}
        sizes |= {group: self.extent() for group in kinds if len(group) == 1}
        words = [self._shuffled(batch + one) for one in (rows + summed, columns + summed, rows + columns)]
        shapes = [tuple(sizes[c] for c in word) for word in words]
        given = f"{self.factor('x')}, {self.factor('w')}"
        text = f"einsum('{words[0]}, {words[1]} -> {words[2]}', {given})"
        return text, (shapes[0], prod(sizes[c] for c in summed)), shapes[1], shapes[2]

    def _shuffled(self, word: str) -> str:
        return "".join(self.r.sample(word, len(word)))

    # -- arrays

    def around(self, text: str, out: tuple[int, ...]) -> None:
        """The arrays that an epilogue reads: a row, a column, a residual, a number."""
        read = set(re.findall(r"\w+", text))
        for name, shape in {"b": out[-1:], "s": out[:-1], "r": out}.items():
            if name in read:
                self.leaf(name, shape)
        if "c" in read:
            self.arrays["c"], self.layouts["c"] = 0.5, ""

    def leaf(self, name: str, shape: tuple[int, ...]) -> None:
        r, d = self.r, self.dtype
        layout = r.choice(LAYOUTS) if r.random() < 0.6 and not self.tidy else r.choice("CCCF")
        self.arrays[name] = laid_out(r, self.numbers(shape, d), layout)
        self.layouts[name] = layout

    def numbers(self, shape: tuple[int, ...], d: DType) -> np.ndarray:
        """Mostly of size 1, or all positive; sometimes of any kind, with infinities and NaN."""
        if self.special or self.integers:
            return numbers(self.r, shape, d)
        x = np.random.default_rng(self.r.getrandbits(32)).standard_normal(shape)
        return np.asarray(np.abs(x) if self.signless else x).astype(numpy_dtype(d))
