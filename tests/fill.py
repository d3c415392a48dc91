"""Fills the holes of a form with names, literals and new arrays."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from fusedsl.ir.types import BOOL, DTYPES, FLOAT64, INT32, DType, numpy_dtype

LARGEST = 6000  # elements of a result
Shape = tuple[int, ...]


class Drawing(Protocol):
    """What a program has so far, and where new arrays come from."""

    r: random.Random
    arrays: dict[str, Any]
    layouts: dict[str, str]
    values: dict[str, tuple[Shape, DType]]

    def near(self, shape: Shape) -> Shape:
        """A shape that broadcasts with this one."""

    def dtype(self) -> DType: ...

    def leaf(self, shape: Shape, d: DType, values: np.ndarray | None = None) -> str:
        """The name of a new array."""


class Unfilled(Exception):
    """There is nothing to fill a hole with."""


class Filler:
    """Fills the holes of one form, from left to right."""

    def __init__(self, draw: Drawing, form: str):
        self.draw, self.r, self.form = draw, draw.r, form
        self.x, self.shape, self.dtype = "", (), FLOAT64
        self.axis: int | None = None
        self.first: str | None = None
        self.index_shape: Shape | None = None
        self.keys_name: str | None = None
        self.group_size = 1
        self.read: set[str] = set()

    def text(self) -> tuple[str, set[str]]:
        """The text, and the values that it reads."""
        return re.sub(r"\{(\w+)\}", lambda m: self._fill(m[1]), self.form), self.read

    def _fill(self, hole: str) -> str:
        if re.fullmatch(r"x\d?", hole):
            return self._main(int(hole[1:] or 0))
        if hole in ("n", "n1"):
            return self._integer(int(hole[1:] or 0))
        return HOLES[hole](self)

    def _take(self, name: str) -> str:
        self.read.add(name)
        return name

    def _main(self, rank: int) -> str:
        if self.first is None:
            found = [n for n, (shape, _) in self.draw.values.items() if len(shape) >= rank]
            if not found:
                raise Unfilled
            self.first = self._recent(found)
            self.shape, self.dtype = self.draw.values[self.first]
        return self._take(self.first)

    def _recent(self, names: list[str]) -> str:
        """Mostly what was made last, so that chains grow."""
        if not names:
            raise Unfilled
        return self.r.choice(names[-4:]) if self.r.random() < 0.5 else self.r.choice(names)

    def _integer(self, rank: int) -> str:
        found = [n for n, (s, d) in self.draw.values.items() if d.kind in "iu" and len(s) >= rank and self._fits(s)]
        if self.first is None:
            if not found:
                raise Unfilled
            self.first = self.r.choice(found)
            self.shape, self.dtype = self.draw.values[self.first]
            return self._take(self.first)
        return self._take(self.r.choice(found) if found else self.draw.leaf(self.draw.near(self.shape), INT32))

    def _fits(self, shape: Shape) -> bool:
        if self.first is None:
            return True
        try:
            return math.prod(np.broadcast_shapes(shape, self.shape)) <= LARGEST
        except ValueError:
            return False

    def other(self) -> str:
        """What broadcasts with x: a value, or a number."""
        if self.r.random() < 0.2:
            return self.number()
        found = [n for n, (s, _) in self.draw.values.items() if self._fits(s)]
        if (len(found) < 2 or self.r.random() < 0.15) and len(self.draw.arrays) < 7:
            return self._take(self.draw.leaf(self.draw.near(self.shape), self.draw.dtype()))
        return self._take(self._recent(found))

    def number(self) -> str:
        r = self.r
        if r.random() < 0.5:
            return str(r.choice((0, 1, 2, 3, -1, -2, 5, 100)))
        return r.choice(("0.5", "1.0", "-0.25", "2.5", "1e-3", "3.0", "pi", "inf", "-1.5", "1e4"))

    def condition(self) -> str:
        found = [n for n, (s, d) in self.draw.values.items() if d.kind == "b" and self._fits(s)]
        if found and self.r.random() < 0.6:
            return self._take(self.r.choice(found))
        return f"({self.other()} {self.r.choice(('<', '>', '>=', '!='))} {self.number()})"

    def same(self) -> str:
        return self._take(self.r.choice([n for n, (s, _) in self.draw.values.items() if s == self.shape]))

    def scalar(self) -> str:
        """A Python number, given at run time."""
        if "s" not in self.draw.arrays:
            self.draw.arrays["s"] = self.r.choice((1.25, -2.5, 3, 0, 0.1, True, 100, -7))
            self.draw.layouts["s"] = "number"
        return "s"

    # -- literals

    def place(self) -> str:
        if self.axis is None:
            if not self.shape:
                raise Unfilled
            self.axis = self.r.randrange(len(self.shape))
        return str(self.axis if self.r.random() < 0.5 else self.axis - len(self.shape))

    def some_axes(self, least: int = 0) -> str:
        r, rank = self.r, len(self.shape)
        if least == 0 and (r.random() < 0.3 or not rank):
            return "None"
        if r.random() < 0.6:
            return str(r.randrange(-rank, rank))
        chosen = r.sample(range(rank), r.randint(1, rank))
        return f"({', '.join(str(a if r.random() < 0.7 else a - rank) for a in chosen)},)"

    def order(self) -> str:
        axes = list(range(len(self.shape)))
        self.r.shuffle(axes)
        return f"({', '.join(map(str, axes))}{',' * (len(axes) == 1)})" if axes else "()"

    def target(self) -> str:
        """A shape to reshape to."""
        r, shape = self.r, list(self.shape)
        kind = r.random()
        if not shape or kind < 0.2:
            return "-1" if kind < 0.1 else "(1, -1)"
        k = r.randrange(len(shape))
        if kind < 0.5 and len(shape) > 1:
            k = min(k, len(shape) - 2)
            shape[k : k + 2] = [shape[k] * shape[k + 1]]
        else:
            divisors = [d for d in range(1, shape[k] + 1) if shape[k] % d == 0] or [1]
            d = r.choice(divisors)
            shape[k : k + 1] = [d, shape[k] // d]
        if kind > 0.8:
            shape.reverse()
        told = [str(n) for n in shape]
        if 0 not in shape and r.random() < 0.4:
            told[r.randrange(len(told))] = "-1"
        return f"({', '.join(told)},)"

    def slices(self) -> str:
        r, parts = self.r, []
        for n in self.shape[: r.randint(1, len(self.shape))]:
            a, b = sorted((r.randint(0, n), r.randint(0, n)))
            whole = [str(r.randrange(-n, n))] if n else []
            parts.append(r.choice([":", "::-1", "1:", ":-1", "::2", f"{a}:{b}", f"{b}:{a}:-1", "-2:", "1::3", *whole]))
        if r.random() < 0.2:
            parts.insert(r.randrange(len(parts) + 1), "None")
        if r.random() < 0.2:
            parts.insert(0, "...")
        return ", ".join(parts[: len(self.shape) + 1])

    def wider(self) -> str:
        shape = tuple(self.r.choice((1, 2, 3)) if n == 1 else n for n in self.shape)
        return str((2, *shape) if self.r.random() < 0.5 else shape)

    def index(self, axis: int | None) -> str:
        """An array of positions along an axis, or of the flattened array; now and then one is out of range."""
        r = self.r
        if axis is not None and axis >= len(self.shape):
            raise Unfilled
        extent = math.prod(self.shape) if axis is None else self.shape[axis]
        if self.index_shape is None:
            self.index_shape = tuple(r.choice((1, 2, 3, 5, 9)) for _ in range(r.choice((0, 1, 1, 2))))
        return self._positions(self.index_shape, extent)

    def _positions(self, shape: Shape, extent: int) -> str:
        r = self.r
        d = DTYPES[r.choice(("int64", "int64", "int32", "int16", "uint8"))]
        low, high = (-extent if d.kind == "i" else 0), max(extent, 1)
        draw = np.random.default_rng(r.getrandbits(32))
        info = np.iinfo(d.name)
        found = draw.integers(max(low, info.min), min(high, info.max), shape)
        if r.random() < 0.2:
            found = np.where(draw.random(shape) < 0.2, min(extent + r.choice((0, 3)), info.max), found)
        if len(self.draw.arrays) > 12:
            raise Unfilled
        return self._take(self.draw.leaf(shape, d, np.asarray(found).astype(numpy_dtype(d))))

    def any_index(self) -> str:
        if "axis=" not in self.form:
            return self.index(None)
        self.place()
        return self.index(self.axis)

    def along(self) -> str:
        self.place()
        assert self.axis is not None
        shape = list(self.shape)
        extent = shape[self.axis]
        shape[self.axis] = self.r.choice((1, 2, 3, extent))
        return self._positions(tuple(shape), extent)

    def last(self) -> str:
        found = [n for n, (s, _) in self.draw.values.items() if s == self.shape[-1:]]
        if found:
            return self._take(self.r.choice(found))
        return self._take(self.draw.leaf(self.shape[-1:], self.draw.dtype()))

    def times(self) -> str:
        """What x is multiplied with from the right."""
        found = [n for n, (s, _) in self.draw.values.items() if len(s) == 2 and s[0] == self.shape[-1]]
        if found:
            return self._take(self.r.choice(found))
        return self._take(self.draw.leaf((self.shape[-1], self.r.choice((1, 3, 8, 17))), self.draw.dtype()))

    def keys(self) -> str:
        """Rows as long as those of x, the same ones throughout a form."""
        self._main(2)
        if self.keys_name is None:
            *batch, rows, length = self.shape
            found = [n for n, (s, _) in self.draw.values.items() if s[:-2] == (*batch,) and s[-1:] == (length,)]
            found = [n for n in found if len(self.draw.values[n][0]) == len(self.shape)]
            if not found or self.r.random() < 0.5:
                self._grow()
                shape = (
                    *(n if self.r.random() < 0.7 else 1 for n in batch),
                    self.r.choice((1, 3, rows, 17, 40)),
                    length,
                )
                found = [self.draw.leaf(shape, self.dtype)]
            self.keys_name = self.r.choice(found)
        return self._take(self.keys_name)

    def _score_shape(self) -> Shape:
        rows = self.draw.values[self.keys()][0][-2]
        return *self.shape[:-1], rows

    def bias(self) -> str:
        """What is added to scores."""
        self._grow()
        return self._take(self.draw.leaf(self.draw.near(self._score_shape()), self.draw.dtype()))

    def mask(self) -> str:
        """Which scores count."""
        self._grow()
        return self._take(self.draw.leaf(self.draw.near(self._score_shape()), BOOL))

    def causal(self) -> str:
        scores = f"{self._main(2)} @ {self.keys()}.mT"
        return f"iota({scores}, -1) {self.r.choice(('<=', '<', '>='))} iota({scores}, -2)"

    def grouped(self) -> str:
        """A number for each group of elements of a row of x; `group` is how many these are."""
        if not self.shape or not self.shape[-1]:
            raise Unfilled
        self.group_size = self.r.choice([d for d in range(1, self.shape[-1] + 1) if self.shape[-1] % d == 0])
        self._grow()
        return self._take(self.draw.leaf((*self.shape[:-1], self.shape[-1] // self.group_size), self.draw.dtype()))

    def _grow(self) -> None:
        """Raise where there are arrays enough."""
        if len(self.draw.arrays) > 12:
            raise Unfilled

    def line(self) -> str:
        found = [n for n, (s, _) in self.draw.values.items() if len(s) == 1 and s[0] <= 20]
        return self._take(self.r.choice(found) if found else self.draw.leaf((3,), self.draw.dtype()))

    def zero_dimensional(self) -> str:
        found = [n for n, (s, _) in self.draw.values.items() if not s]
        return self._take(self.r.choice(found)) if found else self.number()

    def groups(self) -> str:
        n = self.shape[1] if len(self.shape) > 1 else 0
        return str(self.r.choice([d for d in range(1, n + 1) if n % d == 0] or [1]))

    def room(self) -> str:
        if not self.shape or not self.shape[-1]:
            raise Unfilled
        return str(self.r.randint(1, self.shape[-1]))


HOLES: dict[str, Callable[[Filler], str]] = {
    "y": Filler.other,
    "z": Filler.other,
    "c": Filler.number,
    "pc": lambda f: f.r.choice(("0.5", "2.0", "0.125", "1.5", "3")),
    "m": Filler.condition,
    "same": Filler.same,
    "s": Filler.scalar,
    "axis": Filler.place,
    "axes": Filler.some_axes,
    "axes1": lambda f: f.some_axes(1),
    "axes_order": Filler.order,
    "newaxis": lambda f: str(f.r.randint(-len(f.shape) - 1, len(f.shape))),
    "kd": lambda f: f.r.choice(("True", "False")),
    "dt": lambda f: f.r.choice(list(DTYPES)),
    "it": lambda f: f.r.choice([n for n, d in DTYPES.items() if d.kind in "iu"]),
    "ft": lambda f: f.r.choice(("float16", "bfloat16", "float32", "float64")),
    "k": lambda f: str(f.r.randint(-3, 4)),
    "small": lambda f: str(f.r.randint(1, 3)),
    "shape": Filler.target,
    "slices": Filler.slices,
    "wider": Filler.wider,
    "index": Filler.any_index,
    "index0": lambda f: f.index(0),
    "index1": lambda f: f.index(1),
    "along": Filler.along,
    "last": Filler.last,
    "times": Filler.times,
    "c1": Filler.line,
    "keys": Filler.keys,
    "bias": Filler.bias,
    "mask": Filler.mask,
    "causal": Filler.causal,
    "grouped": Filler.grouped,
    "group": lambda f: str(f.group_size),
    "y0": Filler.zero_dimensional,
    "groups": Filler.groups,
    "room": Filler.room,
    "reps": lambda f: f.r.choice(("2", "(2, 1)", "(1, 3)", "3")),
    "pads": lambda f: f"({', '.join(f'({f.r.randint(0, 2)}, {f.r.randint(0, 2)})' for _ in f.shape)},)",
}
