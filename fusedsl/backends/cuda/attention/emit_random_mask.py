"""Conditions of places alone beside scores, drawn in a loop as bits; of random numbers, those of a counter together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ....kernel_ir.liveness import NAME
from ....kernel_ir.phase import Body, Value
from ..emit.source_text import indented, signature
from ..peephole.gathers import below, staged, target_of
from .emit_fragment import COLUMN, DRAWN, ELEMENT, SCALAR

if TYPE_CHECKING:
    from .emit_tile import TileWriter

STEP = re.compile(r"\w+ = u?int64\((?:(\w+) \+ )?(\w+)\)$")  # what grows as its operands do


def draw(w: TileWriter, body: Body) -> None:
    """Write the lines that draw a condition for the elements of a tile: words with a bit for each."""
    (value,) = body.results
    found = _by_four(w, body)
    if found is None:
        w.call(f"draw_{value.name}", body, DRAWN)
        return
    place, column, rest, number = found
    others, name = [v for v in rest.args if v != number], f"draw_{value.name}"
    if w.function(("by four", body), name) == name and ("defined", name) not in w.made:
        w.made["defined", name] = name
        placed = signature((v.dtype for v in place.args), (v.dtype for v in place.results))
        signed = signature((v.dtype for v in (number, *others)), (value.dtype,))
        results = ", ".join(v.name for v in place.results)
        w.functions += ["", "", f"def place_{value.name}({', '.join(v.name for v in place.args)}):"]
        w.functions += indented([*place.instructions, f"return {results}"])
        decorator = f'@drawn_by_four(S, place_{value.name}, "{placed}", {column}, "{signed}")'
        w.functions += ["", "", decorator, f"def {name}({', '.join(v.name for v in (number, *others))}):"]
        w.functions += indented([*w.written_as(rest), f"return {value.name}"])
    w.code.append(f"{value.name} = {name}({', '.join(v.name for v in (*place.args, *others))})")


def _by_four(w: TileWriter, body: Body) -> tuple[Body, int, Body, Value] | None:
    """(where a number stands, its argument that is the column, the condition of the number, the number), of a body that
    draws one, of which neighbouring columns have neighbours."""
    stages, rest = staged(body)
    if len(stages) != 1 or [fetch.kind for fetch in stages[0].fetches] != ["philox_word"]:
        return None
    (fetch,), place = stages[0].fetches, stages[0].where
    domains = {v.name: w.domain_of(v.name) for v in place.args}
    columns = [k for k, v in enumerate(place.args) if domains[v.name] == COLUMN]
    position, *same = fetch.given
    everywhere = below(place.instructions, {v.name for v in same}) & domains.keys()
    others = {w.domain_of(v.name) for v in rest.args if v.name != fetch.name}
    if (
        len(columns) != 1
        or {ELEMENT, COLUMN} & others
        or ELEMENT in domains.values()
        or any(domains[name] != SCALAR for name in everywhere)
    ):
        return None
    if not _grows(place, place.args[columns[0]].name, position.name):
        return None
    return place, columns[0], rest, Value(fetch.name, fetch.stored.compute)


def _grows(body: Body, column: str, position: str) -> bool:
    """Whether a position is a sum of the column and of what does not depend on it."""
    depends = {column}
    for line in body.instructions:
        text = line.partition("  #")[0]
        terms = [name for name in NAME.findall(text.partition(" = ")[2]) if name in depends]
        if not terms:
            continue
        if len(terms) > 1 or not STEP.match(text):
            return False
        depends.add(target_of(line))
    return position in depends
