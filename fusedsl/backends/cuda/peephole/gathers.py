"""Gathers in element bodies: the body is split there, so that whole tiles are gathered between its parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ....ir.types import BOOL, INT64, UINT64, DType, dtype
from ....kernel_ir.liveness import NAME
from ....kernel_ir.phase import Body, Value

FETCH = re.compile(r"(?P<name>\w+) = fetch_(?P<kind>\w+)\((?P<first>\w+), (?P<second>[a-z]\w*)\)")
DRAW = re.compile(r"(?P<name>\w+) = (?P<kind>philox_(?:word|pair))\((?P<first>\w+), (?P<second>\w+), (?P<third>\w+)\)")


@dataclass(frozen=True)
class GatherCall:
    """A value of a tile's element that is not computed from that element alone, held as `stored`.

    `how` is the tile's method: gather (from an address, where it is wanted) or random (of a position, seed and stream).
    `kind` is its argument, `given` are names of a body.
    """

    name: str
    how: str
    kind: str
    stored: DType
    given: tuple[Value, ...]


@dataclass(frozen=True)
class GatherStage:
    """Fetches that need nothing of each other, and the body that computes where they read."""

    where: Body
    fetches: tuple[GatherCall, ...]


def split_at_gathers(body: Body, fetched: Mapping[str, Value] | None = None) -> tuple[list[GatherStage], Body]:
    """A body without its fetches, whose values are arguments, and the stages that come before it.

    What is `fetched` is there: its row has read it for itself.
    """
    found = [fetch for line in body.instructions if (fetch := _fetch(line))]
    fetched = {f.name: fetched[f.name] for f in found if fetched and f.name in fetched}
    fetches = [f for f in found if f.name not in fetched]
    names = {f.name for f in fetches}
    lines = tuple(line for line in body.instructions if target_of(line) not in names | set(fetched))
    computed = {value.name: value for value in body.args} | fetched
    stages = []
    while fetches:
        free = [f for f in fetches if not (names - set(computed)) & below(lines, {value.name for value in f.given})]
        wanted = tuple(dict.fromkeys(value for f in free for value in f.given))
        stages.append(GatherStage(slice_of(lines, computed, wanted), tuple(free)))
        computed |= {f.name: Value(f.name, f.stored.compute) for f in free}
        fetches = [f for f in fetches if f not in free]
    return stages, slice_of(lines, computed, body.results)


def _fetch(line: str) -> GatherCall | None:
    """What a line of a body fetches or draws."""
    if found := FETCH.match(line):
        address, wanted = Value(found["first"], INT64), Value(found["second"], BOOL)
        return GatherCall(found["name"], "gather", found["kind"], dtype(found["kind"]), (address, wanted))
    if found := DRAW.match(line):
        given = tuple(Value(found[part], UINT64) for part in ("first", "second", "third"))
        return GatherCall(found["name"], "random", found["kind"], UINT64, given)
    return None


def slice_of(lines: tuple[str, ...], given: dict[str, Value], results: tuple[Value, ...]) -> Body:
    """The body of the lines that compute these results."""
    needed = below(lines, {value.name for value in results})
    kept = tuple(line for line in lines if target_of(line) in needed)
    return Body(tuple(value for name, value in given.items() if name in needed), results, kept)


def below(lines: tuple[str, ...], names: set[str]) -> set[str]:
    """The names that these are computed from, themselves included."""
    found = set(names)
    for line in reversed(lines):
        if target_of(line) in found:
            found |= _used(line)
    return found


def target_of(line: str) -> str:
    return line.partition(" = ")[0]


def _used(line: str) -> set[str]:
    return set(NAME.findall(line.split("#", 1)[0].partition(" = ")[2]))
