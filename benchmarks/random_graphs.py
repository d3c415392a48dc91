"""Random typed programs, the same for a seed everywhere: maps and rows, several results, floats and integers."""

from __future__ import annotations

import random
from dataclasses import dataclass

import fusedsl as fd

FLOATS = ("float32", "bfloat16", "float16", "float64")
INTEGERS = ("int32", "int64", "int8", "uint8")
UNARY = ("exp", "tanh", "sigmoid", "sqrt", "log1p", "erf", "absolute", "floor", "relu", "-", "rsqrt", "sin", "square")
BINARY = ("{} + {}", "{} - {}", "{} * {}", "maximum({}, {})", "minimum({}, {})", "{} / {}", "where({} > 0, {}, 1.5)")
WHOLE = ("{} + {}", "{} - {}", "{} * {}", "maximum({}, {})", "{} & {}", "{} ^ {}", "where({} > 0, {}, 2)")
FOLDS = ("sum", "mean", "max", "min", "var")
LINES = (1000, 4096, 1 << 16, (1 << 20) + 3)
COLUMNS = (64, 200, 512, 1000, 1024, 2048, 4096, 4097, 8192, 16384)
LONG_COLUMNS = (65536, 262144)


@dataclass(frozen=True)
class Drawn:
    """A text and the shape and dtype of each of its arrays, by name; `s` is a Python number."""

    seed: int
    text: str
    arrays: dict[str, tuple[tuple[int, ...], str]]

    def values(self, names: tuple[str, ...]) -> list:
        """The arguments as specs, in this order."""
        return [1.25 if n == "s" else fd.spec(*self.arrays[n]) for n in names]


def draw(seed: int) -> Drawn:
    """The program of a seed."""
    return _Draw(seed).program()


class _Draw:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.seed = seed
        self.lines: list[str] = []

    def program(self) -> Drawn:
        r = self.random
        kind = r.choice(("line", "grid", "rows", "rows", "rows"))
        whole = r.random() < 0.15
        near = r.choice(INTEGERS) if whole else r.choices(FLOATS, (10, 6, 2, 3))[0]
        shape = self._shape(kind)
        arrays = self._arrays(kind, shape, near, whole)
        full = [n for n in arrays if n in "xyzu"]
        leaves = [*full, *("w[:, None]" if n == "w" else n for n in arrays if n not in full)]
        values = list(leaves) if whole or r.random() < 0.5 else [*leaves, "s"]
        count = r.choice((3, 6, 10, 16, 24, 40))
        for number in range(count):
            values.append(self._statement(number, values, kind, whole))
        results = self._results(values, full, kind, whole)
        text = "\n".join([*self.lines, f"return {', '.join(results)}"])
        return Drawn(self.seed, text, arrays)

    def _shape(self, kind: str) -> tuple[int, ...]:
        r = self.random
        if kind == "line":
            return (r.choice(LINES),)
        columns = r.choice(LONG_COLUMNS) if kind == "rows" and r.random() < 0.1 else r.choice(COLUMNS)
        return (r.choice((33, 1024, 8192)), columns)

    def _arrays(self, kind: str, shape: tuple[int, ...], near: str, whole: bool) -> dict:
        r = self.random
        found = dict.fromkeys("xyzu"[: r.choice((1, 1, 2, 2, 3, 4))], (shape, near))
        if r.random() < 0.2:
            found["x"] = (shape, r.choice(INTEGERS if whole else FLOATS))
        if kind != "line":
            if r.random() < 0.6:
                found["b"] = (shape[1:], near)
            if r.random() < 0.3:
                found["w"] = (shape[:1], near)
        return found

    def _pick(self, values: list[str]) -> str:
        """Mostly what was made last, so that chains grow; sometimes anything, so that values live long."""
        r = self.random
        return r.choice(values[-3:]) if r.random() < 0.6 else r.choice(values)

    def _statement(self, number: int, values: list[str], kind: str, whole: bool) -> str:
        r, name = self.random, f"t{number}"
        chance = r.random()
        if kind == "rows" and (chance < 0.15 or number == 1):
            folds = ("max", "min") if whole else FOLDS  # a sum of narrow integers is of another type
            line = f"{r.choice(folds)}({self._pick(values)} + x, axis=-1, keepdims=True)"
        elif chance < 0.4 and not whole:
            function = r.choice(UNARY)
            line = f"-{self._pick(values)}" if function == "-" else f"{function}({self._pick(values)})"
        else:
            line = r.choice(WHOLE if whole else BINARY).format(self._pick(values), self._pick(values))
        self.lines.append(f"{name} = {line}")
        return name

    def _results(self, values: list[str], full: list[str], kind: str, whole: bool) -> list[str]:
        """One to four results over the whole iteration space; all of the last statement's work is in one."""
        r = self.random
        made = [v for v in values if v.startswith("t") and v[1:].isdigit()]
        chosen = [made[-1], *r.sample(made, min(len(made), r.choice((0, 0, 0, 1, 2, 3))))]
        return [f"{v} + {r.choice(full)}" for v in dict.fromkeys(chosen)]
