"""A case of the map of the language: a text, its arrays at the sizes of use, and what peers compute instead of it."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# The extents that arrays are written in: on a GPU, on a CPU, and where only the meaning matters.
SIZES = {
    "long": (1 << 24, 1 << 22, 1000),
    "longer": (1 << 26, 1 << 23, 2000),
    "half": (1 << 23, 1 << 21, 500),
    "rows": (8192, 2048, 24),
    "columns": (4096, 2048, 40),
    "tall": (1 << 20, 1 << 18, 96),
    "few": (16, 16, 16),
    "wide": (1 << 20, 1 << 18, 200),
    "batch": (32, 8, 2),
    "channels": (128, 64, 4),
    "height": (64, 64, 6),
    "width": (64, 64, 8),
    "images": (8, 2, 2),
    "tallest": (1080, 1080, 12),
    "widest": (1920, 1920, 16),
    "square": (4096, 2048, 32),
    "product": (4096, 768, 32),
    "middle": (1024, 256, 12),
    "bins": (256, 256, 256),
    "places": (1 << 20, 1 << 18, 64),
    "segments": (1 << 16, 1 << 14, 20),
    "classes": (64, 64, 8),
    "heads": (16, 4, 2),
    "tokens": (2048, 512, 16),
    "dim": (64, 64, 8),
}
TARGETS = ("cuda", "cpu", "quick")
SPEC = re.compile(r"(\w+) (\w+)\[([^\]]*)\](?: (in|<) ([^ ]+))?( sorted| with NaN)?")


@dataclass(frozen=True)
class Array:
    """An array of a case: "x float32[rows, columns]", "p float32[long] in 0..1", "i int64[long] < places sorted"."""

    name: str
    dtype: str
    extents: tuple[str, ...]
    range: tuple[str, str] | None
    order: str

    def shape(self, target: str) -> tuple[int, ...]:
        """Its shape on a GPU, on a CPU, or in a quick run."""
        return tuple(extent(word, target) for word in self.extents)


def extent(word: str, target: str) -> int:
    """The number that a word of SIZES, or a number, stands for."""
    return int(word) if word.isdigit() else SIZES[word][TARGETS.index(target)]


@dataclass(frozen=True)
class Case:
    """A row of the map: it measures `function`. `numpy` is the text for NumPy and CuPy, `torch` that for torch;
    `compiled` asks for torch.compile too, `numexpr` for numexpr with the case's own text."""

    function: str
    text: str
    arrays: str
    numpy: str = ""
    torch: str = ""
    compiled: bool = False
    numexpr: bool = False
    same: bool = True  # whether results are those of the peers: not of random numbers, nor of equals in any order
    unread: str = ""  # arrays of which only the shape matters

    def inputs(self) -> tuple[Array, ...]:
        """The arrays, as they are written."""
        return tuple(parsed(spec) for spec in self.arrays.split("; "))

    def key(self, suite: str, target: str) -> tuple[str, str, str, str]:
        """What names its rows: suite, text, the different shapes of its arrays, and their dtypes."""
        shapes = ["x".join(map(str, one.shape(target))) + f" {one.order}".rstrip() for one in self.inputs()]
        dtypes = [one.dtype for one in self.inputs()]
        return (suite, self.text, ", ".join(dict.fromkeys(shapes)), ", ".join(dict.fromkeys(dtypes)))


@cache
def parsed(spec: str) -> Array:
    """An array from its spec."""
    found = SPEC.fullmatch(spec)
    assert found, f"no array: {spec}"
    name, dtype, extents, word, limits, order = found.groups()
    low, _, high = (limits or "").partition("..")
    bounds = None if word is None else ("0", limits) if word == "<" else (low, high)
    return Array(name, dtype, tuple(e.strip() for e in extents.split(",") if e.strip()), bounds, (order or "").strip())


def filled(one: Array, target: str, device: str) -> torch.Tensor:
    """Random numbers: normal ones, or those of the range; integers of -100 to 99 that their dtype holds; bools of
    which so many hold as the range says, else half."""
    import torch

    draw = torch.Generator(device).manual_seed(zlib.crc32(one.name.encode()))
    shape, dtype = one.shape(target), getattr(torch, one.dtype)
    if dtype == torch.bool:
        share = float(one.range[0]) if one.range else 0.5
        return torch.rand(shape, device=device, generator=draw) < share
    if not dtype.is_floating_point:
        low, high = one.range or ("-100" if dtype.is_signed else "0", "100")
        x = torch.randint(int(low), extent(high, target), shape, device=device, generator=draw, dtype=dtype)
    else:
        wide = torch.promote_types(dtype, torch.float32) if dtype.itemsize > 1 else torch.float32
        if one.range:
            low, high = map(float, one.range)
            x = low + (high - low) * torch.rand(shape, device=device, generator=draw, dtype=wide)
        else:
            x = torch.randn(shape, device=device, generator=draw, dtype=wide)
        x = x.to(dtype)
    if one.order == "with NaN":
        x[torch.rand(shape, device=device, generator=draw) < 0.1] = torch.nan
    return x.sort()[0] if one.order == "sorted" else x


def each(names: str, arrays: str, form: str = "?(x)", **changes: Any) -> Iterator[Case]:
    """A case for each name: `form` with the name for `?`; the peers' functions have that name too, unless changed."""
    for name in names.split():
        words = {"numpy": f"np.{form}", "torch": f"torch.{form}"} | changes
        words = {key: word.replace("?", name) if isinstance(word, str) else word for key, word in words.items()}
        yield Case(name, form.replace("?", name), arrays, **words)


def cases() -> tuple[Case, ...]:
    """The whole map: each function's first case, then each one's second, and so on."""
    import language_elementwise
    import language_order
    import language_places
    import language_reductions
    import language_shapes

    chapters = (language_elementwise, language_reductions, language_order, language_shapes, language_places)
    seen: Counter[str] = Counter()
    ranked = []
    for case in (case for chapter in chapters for case in chapter.CASES):
        ranked.append((seen[case.function], case))
        seen[case.function] += 1
    return tuple(case for _, case in sorted(ranked, key=lambda pair: pair[0]))
