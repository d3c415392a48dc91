"""Which tiles of a stream count, and which count whole: bits for 32 tiles, asked by a warp or kept by a block."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....ir.types import BOOL
from ....kernel_ir.attention import Extreme, Sieve
from ..emit.source_text import indented
from .block_mask_inputs import extreme_axes, kept_extremes
from .emit_fragment import SCALAR
from .sm90_schedule import NOTES, Tiles

if TYPE_CHECKING:
    from .emit_fragment import FragmentScope

KEPT = [
    "",
    "",
    '@uniform("int32, int32 -> int32, int32")',
    "def classes(at, word):",
    "    return kept_word(at + 8 * word), kept_word(at + 8 * word + 4)",
]


def direct_classes(scope: FragmentScope, schedule: Tiles, known: bool = False) -> str:
    """The call of a function that asks for 32 tiles at once; "{word}" stands for their number. What memory says of an
    item is `known` from `item_extremes`, or asked for each tile."""
    if (call := scope.made.get(("classes",))) is not None:
        return call
    kept = known and bool(kept_extremes(scope.kernel))
    lines, some, every = _asked(scope, schedule, known)
    results = [f"here = first < n{scope.along}", f"return ballot(here & {some}), ballot(here & {every})"]
    place = [f"place = minimum(tile, int32((n{scope.along} - 1) // {schedule.columns}))"] if kept else []
    lines = ["tile = word * 32 + (thread_idx() & 31)", *place, *lines, *results]
    types = _outer_types(scope) | {"row_from": "int32", "row_end": "int32"} | (_found_types(scope) if known else {})
    used = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", " ".join(line.partition("  #")[0] for line in lines)))
    given = ["word", *(name for name in types if name in used)]
    kinds = ", ".join({"word": "int32", **types}[name] for name in given)
    head = ["", "", f'@uniform("{kinds} -> int32, int32")', f"def classes({', '.join(given)}):"]
    scope.functions += [*head, *indented(lines)]
    return scope.function(("classes",), f"classes({', '.join(['{word}', *given[1:]])})")


def kept_classes(scope: FragmentScope, schedule: Tiles) -> list[str]:
    """Lines by which the warps of a block, a tile each at a time, leave the bits of all tiles in its shared memory."""
    stream = scope.kernel.stream
    assert stream is not None and stream.sieve is not None
    scope.functions += KEPT
    n, columns, warps, sieve = f"n{scope.along}", schedule.columns, schedule.block_threads // 32, stream.sieve
    once, each = ([x for x in sieve.extremes if (x.axis == scope.along) is own] for own in (False, True))
    found: list[str] = []

    def write() -> None:
        _start(scope, sieve)
        scope.code += _ends(scope, schedule, sieve, False)
        for extreme in once:
            _extreme(scope, sieve, extreme, True)
        found.extend(scope.written(tile))

    def tile() -> None:
        scope.code += _ends(scope, schedule, sieve, True)
        for extreme in each:
            _extreme(scope, sieve, extreme, True)
        scope.leaves(v.name for v in sieve.body.args)
        some, every = scope.call("asked", sieve.body, SCALAR)
        scope.code += [
            f"some, every = int32({some}), int32({every} & (first + {columns} <= {n}))",
            "if (thread_idx() & 31) == 0:",
            "    mark_word(classes_at + 8 * (tile >> 5), some << (tile & 31))",
            "    mark_word(classes_at + 8 * (tile >> 5) + 4, every << (tile & 31))",
            f"tile = int32(tile + {warps})",
        ]

    before = scope.written(write)
    return [
        "word = thread_idx()",
        f"while word * {32 * columns} < {n}:",
        "    keep_word(classes_at + 8 * word, 0)",
        "    keep_word(classes_at + 8 * word + 4, 0)",
        f"    word = int32(word + {schedule.block_threads})",
        "barrier()",
        *before,
        "tile = int32(thread_idx() >> 5)",
        f"while tile * {columns} < {n}:",
        *indented(found),
    ]


def left_extremes(scope: FragmentScope, schedule: Tiles) -> list[str]:
    """Lines by which the warps of a block, a tile each at a time, leave what is asked along the stream in its shared
    memory: the least and the greatest, for all places on which they depend."""
    n, columns, extremes = f"n{scope.along}", schedule.columns, kept_extremes(scope.kernel)
    stream, axes = scope.kernel.stream, extreme_axes(scope.kernel)
    assert stream is not None and stream.sieve is not None
    sieve, size = stream.sieve, 8 * len(extremes)

    def write() -> None:
        _start(scope, sieve)
        scope.code += _ends(scope, schedule, sieve, True)
        for k, extreme in enumerate(extremes):
            _extreme(scope, sieve, extreme, True, columns)
            scope.code.append("if (thread_idx() & 31) == 0:")
            for j, value in enumerate((extreme.least, extreme.greatest)):
                at = f"{_extremes_at(scope, schedule)} + entry * {size} + {8 * k + 4 * j}"
                scope.code.append(f"    keep_word({at}, int32({value.name}))")

    found, rest = scope.written(write), "place"
    places = []
    for a in reversed(axes):
        places += [f"further = udiv({rest}, int32(n{a}))", f"c{a} = int32({rest} - further * n{a})"]
        rest = "further"
    return [
        f"entry, tiles = int32(thread_idx() >> 5), int32(({n} + {columns - 1}) // {columns})",
        f"while entry < tiles * {_places(axes)}:",
        "    place = udiv(entry, tiles)",
        "    tile = int32(entry - place * tiles)",
        *indented([*places, *found]),
        f"    entry = int32(entry + {schedule.block_threads // 32})",
    ]


def item_extremes(scope: FragmentScope, schedule: Tiles) -> list[str]:
    """Lines of a warp that find what is asked of an item's rows, and where what is asked along the stream is kept, if
    anything is."""
    stream, axes, place = scope.kernel.stream, extreme_axes(scope.kernel), "0"
    assert stream is not None and stream.sieve is not None
    sieve = stream.sieve

    def write() -> None:
        _start(scope, sieve)
        scope.code += _ends(scope, schedule, sieve, False)
        for extreme in sieve.extremes:
            if extreme.axis != scope.along:
                _extreme(scope, sieve, extreme, True)

    found = scope.written(write)
    if not kept_extremes(scope.kernel):
        return found
    for a in axes:
        place = f"({place}) * n{a} + c{a}" if place != "0" else f"c{a}"
    tiles = f"((n{scope.along} + {schedule.columns - 1}) // {schedule.columns})"
    at = f"({place}) * {tiles} * {8 * len(kept_extremes(scope.kernel))}"
    return [*found, f"extremes_at = int32({_extremes_at(scope, schedule)} + {at})"]


def _extremes_at(scope: FragmentScope, schedule: Tiles) -> str:
    """Where they begin: behind the bits of tiles."""
    columns = 32 * schedule.columns
    return f"classes_at + {8 * NOTES} * int32((n{scope.along} + {columns - 1}) // {columns})"


def _places(axes: Sequence[int]) -> str:
    return " * ".join(f"n{a}" for a in axes) or "1"


def _found_types(scope: FragmentScope) -> dict[str, str]:
    """Names that `item_extremes` defines, and their types."""
    stream = scope.kernel.stream
    assert stream is not None and stream.sieve is not None
    rows = [x for x in stream.sieve.extremes if x.axis != scope.along]
    return {"extremes_at": "int32"} | {v.name: v.dtype.name for x in rows for v in (x.least, x.greatest)}


def _outer_types(scope: FragmentScope) -> dict[str, str]:
    """Names of a kernel that are there before any item is looked at, or are the item's place."""
    found = dict.fromkeys(scope.names.parameters(), "int64")
    found |= dict.fromkeys((f"c{a}" for a in scope.outer), "int32")
    given = (*scope.kernel.scalars, *(p.value for p in scope.kernel.pointers))
    return found | {v.name: v.dtype.name for v in given}


def _asked(scope: FragmentScope, schedule: Tiles, kept: bool) -> tuple[list[str], str, str]:
    """(lines for one tile, whether any of it counts, whether all does); what memory says of it is `kept` if at all"""
    stream = scope.kernel.stream
    assert stream is not None and stream.sieve is not None
    sieve, found = stream.sieve, []  # type: Sieve, list[str]

    def write() -> None:
        _start(scope, sieve)
        scope.code += _ends(scope, schedule, sieve, True) + _ends(scope, schedule, sieve, False)
        for k, extreme in enumerate(kept_extremes(scope.kernel) if kept else ()):
            for j, value in enumerate((extreme.least, extreme.greatest)):
                word = f"kept_word(extremes_at + place * {8 * len(kept_extremes(scope.kernel))} + {8 * k + 4 * j})"
                shown = f"{word} != 0" if value.dtype is BOOL else f"{value.dtype.name}({word})"
                scope.code += [f"{value.name} = {shown}"]
        for extreme in () if kept else sieve.extremes:
            _extreme(scope, sieve, extreme, False)
        scope.leaves(v.name for v in sieve.body.args)
        found.extend(scope.call("asked", sieve.body, SCALAR))

    lines = scope.written(write)
    some, every = found
    return lines, some, f"{every} & (first + {schedule.columns} <= n{scope.along})"


def _start(scope: FragmentScope, sieve: Sieve) -> None:
    """The names that are there before any item is looked at, and the ends of tiles."""
    given = (*scope.kernel.scalars, *(p.value for p in scope.kernel.pointers))
    scope.domain = {v.name: SCALAR for v in (*given, *(v for _, *vs in sieve.ends for v in vs))}


def _ends(scope: FragmentScope, schedule: Tiles, sieve: Sieve, along: bool) -> list[str]:
    """Lines with the first and the last position of a tile on the stream's axis, or on the others."""
    columns, n = schedule.columns, f"n{scope.along}"
    lines = [f"first = int64(tile * {columns})", f"last = minimum(first + {columns - 1}, {n} - 1)"] if along else []
    rows = ("int64(row_from)", f"minimum(int64(row_from) + {schedule.rows - 1}, int64({scope.row_limit}) - 1)")
    ends = {scope.along: ("first", "last"), scope.lane: rows}
    if scope.packed is not None:
        ends |= {a: ("int64(0)", f"n{a} - 1") for a in (scope.lane, scope.packed)}
    for axis, low, high in sieve.ends:
        if (axis == scope.along) is along:
            pair = ends.get(axis, (f"int64(c{axis})", f"int64(c{axis})"))
            lines += [f"{low.name} = {pair[0]}", f"{high.name} = {pair[1]}"]
    return lines


def _extreme(scope: FragmentScope, sieve: Sieve, extreme: Extreme, spread: bool, most: int = 0) -> None:
    """The least and the greatest of what is computed along one axis of a tile, by a thread or `spread` over a warp.

    Where a tile has at most so many places, the last is looked at again for those it does not have: so all are read
    at once.
    """
    low, high, d = extreme.least.name, extreme.greatest.name, extreme.least.dtype
    first, last = next((a.name, b.name) for axis, a, b in sieve.ends if axis == extreme.axis)
    joins = ("{} & {}", "{} | {}") if d is BOOL else ("minimum({}, {})", "maximum({}, {})")

    def write() -> None:
        scope.places = {extreme.axis: "step"}
        scope.leaves(v.name for v in extreme.body.args)
        (value,) = scope.call(f"lift_{low}", extreme.body, SCALAR)
        scope.places = {}
        scope.code += [f"{name} = {join.format(name, value)}" for name, join in zip((low, high), joins)]

    inner = scope.written(write)
    bits = d.bits - (d.kind == "i")
    ends = (
        ("True", "False") if d is BOOL else (f"{d}({(1 << bits) - 1})", f"{d}({-(1 << bits) if d.kind == 'i' else 0})")
    )
    begin, step = (f"{first} + (thread_idx() & 31)", 32) if spread else (first, 1)
    scope.code.append(f"{low}, {high} = {', '.join(ends)}")
    for k in range(0, most, step):
        scope.code += [f"step = minimum({begin} + {k}, {last})", *inner]
    if not most:
        scope.code += [f"step = {begin}", f"while step <= {last}:", *indented([*inner, f"step += {step}"])]
    if spread:
        for name, join, nothing in zip((low, high), joins, ends):
            scope.functions += ["", "", f"def identity_{name}():", f"    return {nothing}"]
            scope.functions += ["", "", f"def combine_{name}(a, b):", f"    return {join.format('a', 'b')}"]
            rule = f'reduction("{d.name}", combine_{name}, identity_{name})'
            scope.functions += ["", "", f"share_{name} = ThreadGroup(threads=32).all_reduce({rule})"]
            scope.code.append(f"{name} = share_{name}({name})")
    scope.domain |= {low: SCALAR, high: SCALAR}
