"""Element bodies that fetch, cut where they do: addresses first, then reads of whole tiles, then the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...ir.types import BOOL, INT64, DType, dtype
from ...schedule.kernel import Body, Value
from ...schedule.registers import NAME

FETCH = re.compile(r"(?P<name>\w+) = fetch_(?P<kind>\w+)\((?P<address>\w+), (?P<wanted>[a-z]\w*)\)")


@dataclass(frozen=True)
class Fetch:
    """A value that stands in an array of type `stored` at an address, where it is wanted; both names of a body."""

    name: str
    stored: DType
    address: str
    wanted: str


@dataclass(frozen=True)
class Stage:
    """Fetches that need nothing of each other, and the body that computes where they read."""

    where: Body
    fetches: tuple[Fetch, ...]


def staged(body: Body) -> tuple[list[Stage], Body]:
    """A body without its fetches, whose values are arguments, and the stages that come before it."""
    fetches = [Fetch(m["name"], dtype(m["kind"]), m["address"], m["wanted"]) for m in map(FETCH.match, body.lines) if m]
    names = {f.name for f in fetches}
    lines = tuple(line for line in body.lines if target_of(line) not in names)
    computed = {value.name: value for value in body.args}
    stages = []
    while fetches:
        free = [f for f in fetches if not (names - set(computed)) & below(lines, {f.address, f.wanted})]
        wanted = {f.address: Value(f.address, INT64) for f in free} | {f.wanted: Value(f.wanted, BOOL) for f in free}
        stages.append(Stage(slice_of(lines, computed, tuple(wanted.values())), tuple(free)))
        computed |= {f.name: Value(f.name, f.stored.compute) for f in free}
        fetches = [f for f in fetches if f not in free]
    return stages, slice_of(lines, computed, body.results)


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
