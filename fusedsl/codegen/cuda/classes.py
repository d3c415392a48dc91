"""Which tiles of a stream count, and which count whole: bits for 32 tiles, asked by a warp or kept by a block."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...ir.types import BOOL
from ...schedule.attend import AttendSchedule
from ...schedule.kernel import Extreme, Sieve
from .fragments import SCALAR
from .text import indented

if TYPE_CHECKING:
    from .fragments import FragmentScope

KEPT = [
    "",
    "",
    '@once("int32, int32 -> int32, int32")',
    "def classes(at, word):",
    "    return kept_word(at + 8 * word), kept_word(at + 8 * word + 4)",
]


def direct_classes(scope: FragmentScope, schedule: AttendSchedule) -> str:
    """The call of a function that asks for 32 tiles at once; "{word}" stands for their number."""
    if (call := scope.made.get(("classes",))) is not None:
        return call
    lines, some, every = _asked(scope, schedule)
    results = [f"here = first < n{scope.along}", f"return ballot(here & {some}), ballot(here & {every})"]
    lines = ["tile = word * 32 + (thread() & 31)", *lines, *results]
    types = _outer_types(scope) | {"row_from": "int32"}
    used = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", " ".join(line.partition("  #")[0] for line in lines)))
    given = ["word", *(name for name in types if name in used)]
    kinds = ", ".join({"word": "int32", **types}[name] for name in given)
    head = ["", "", f'@once("{kinds} -> int32, int32")', f"def classes({', '.join(given)}):"]
    scope.functions += [*head, *indented(lines)]
    return scope.function(("classes",), f"classes({', '.join(['{word}', *given[1:]])})")


def kept_classes(scope: FragmentScope, schedule: AttendSchedule) -> list[str]:
    """Lines by which the warps of a block leave the bits of all tiles in its shared memory."""
    lines, some, every = _asked(scope, schedule)
    scope.functions += KEPT
    return [
        "word = int32(thread() >> 5)",
        f"while word * {32 * schedule.columns} < n{scope.along}:",
        "    tile = word * 32 + (thread() & 31)",
        *indented(lines),
        f"    here = first < n{scope.along}",
        f"    some_bits, every_bits = ballot(here & {some}), ballot(here & {every})",
        "    if (thread() & 31) == 0:",
        "        keep_word(classes_at + 8 * word, some_bits)",
        "        keep_word(classes_at + 8 * word + 4, every_bits)",
        f"    word = int32(word + {schedule.block // 32})",
    ]


def _outer_types(scope: FragmentScope) -> dict[str, str]:
    """Names of a kernel that are there before any item is looked at, or are the item's place."""
    found = dict.fromkeys(scope.names.parameters(), "int64")
    found |= dict.fromkeys((f"c{a}" for a in scope.outer), "int32")
    return found | {v.name: v.dtype.name for v in scope.kernel.scalars}


def _asked(scope: FragmentScope, schedule: AttendSchedule) -> tuple[list[str], str, str]:
    """(lines for one tile, whether any of it counts, whether all does)"""
    stream = scope.kernel.stream
    assert stream is not None and stream.sieve is not None
    sieve, n, columns = stream.sieve, f"n{scope.along}", schedule.columns
    lines = [f"first = int64(tile * {columns})", f"last = minimum(first + {columns - 1}, {n} - 1)"]
    ends = {scope.along: ("first", "last")}
    ends[scope.lane] = ("int64(row_from)", f"minimum(int64(row_from) + {schedule.rows - 1}, n{scope.lane} - 1)")
    for axis, low, high in sieve.ends:
        pair = ends.get(axis, (f"c{axis}", f"c{axis}"))
        lines += [f"{low.name} = {pair[0]}", f"{high.name} = {pair[1]}"]
    found: list[str] = []

    def write() -> None:
        given = (*scope.kernel.scalars, *(p.value for p in scope.kernel.pointers))
        scope.domain = {v.name: SCALAR for v in (*given, *(v for _, *vs in sieve.ends for v in vs))}
        for extreme in sieve.extremes:
            _extreme(scope, sieve, extreme)
        scope.leaves(v.name for v in sieve.body.args)
        found.extend(scope.call("asked", sieve.body, SCALAR))

    lines += scope.written(write)
    some, every = found
    return lines, some, f"{every} & (first + {columns} <= {n})"


def _extreme(scope: FragmentScope, sieve: Sieve, extreme: Extreme) -> None:
    """The least and the greatest of what is computed along one axis of a tile."""
    low, high, d = extreme.least.name, extreme.greatest.name, extreme.least.dtype
    first, last = next((a.name, b.name) for axis, a, b in sieve.ends if axis == extreme.axis)

    def write() -> None:
        scope.places = {extreme.axis: "step"}
        scope.leaves(v.name for v in extreme.body.args)
        (value,) = scope.call(f"lift_{low}", extreme.body, SCALAR)
        scope.places = {}
        joins = ("{} & {}", "{} | {}") if d is BOOL else ("minimum({}, {})", "maximum({}, {})")
        scope.code += [f"{name} = {join.format(name, value)}" for name, join in zip((low, high), joins)]

    inner = scope.written(write)
    bits = d.bits - (d.kind == "i")
    most, least = f"{d}({(1 << bits) - 1})", f"{d}({-(1 << bits) if d.kind == 'i' else 0})"
    start = "True, False" if d is BOOL else f"{most}, {least}"
    scope.code += [f"{low}, {high} = {start}", f"step = {first}", f"while step <= {last}:"]
    scope.code += indented([*inner, "step += 1"])
    scope.domain |= {low: SCALAR, high: SCALAR}
