"""Emits index masks of scores, evaluated in a loop as bits; random masks use all four numbers of a Philox counter."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ....kernel_ir.liveness import NAME
from ....kernel_ir.phase import Body, Value
from ..emit.source_text import indented, signature
from ..peephole.gathers import below, split_at_gathers, target_of
from .emit_fragment import COLUMN, ELEMENT, INDEX_MASK, SCALAR

if TYPE_CHECKING:
    from .emit_tile import TileEmitter

OFFSET = re.compile(r"\w+ = u?int64\((?:(\w+) \+ )?(\w+)\)$")  # a sum that is offset by its operands


def emit_index_mask(w: TileEmitter, body: Body) -> None:
    """Emit an index mask of the elements of a tile: words with a bit for each."""
    (value,) = body.results
    found = _philox_columns(w, body)
    if found is None:
        w.call(f"draw_{value.name}", body, INDEX_MASK)
        return
    place, column, rest, number = found
    others, name = [v for v in rest.args if v != number], f"draw_{value.name}"
    if w.function_name(("by four", body), name) == name and ("defined", name) not in w.function_names:
        w.function_names["defined", name] = name
        placed = signature((v.dtype for v in place.args), (v.dtype for v in place.results))
        signed = signature((v.dtype for v in (number, *others)), (value.dtype,))
        results = ", ".join(v.name for v in place.results)
        w.functions += ["", "", f"def place_{value.name}({', '.join(v.name for v in place.args)}):"]
        w.functions += indented([*place.instructions, f"return {results}"])
        decorator = f'@philox_mask(score_fragment, place_{value.name}, "{placed}", {column}, "{signed}")'
        w.functions += ["", "", decorator, f"def {name}({', '.join(v.name for v in (number, *others))}):"]
        w.functions += indented([*w.body_lines(rest), f"return {value.name}"])
    w.code.append(f"{value.name} = {name}({', '.join(v.name for v in (*place.args, *others))})")


def _philox_columns(w: TileEmitter, body: Body) -> tuple[Body, int, Body, Value] | None:
    """(body of the counter position, its column argument, body of the condition, the random number) of a mask with one
    random number whose position advances with the column; None for others."""
    stages, rest = split_at_gathers(body)
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
    if not _is_column_offset(place, place.args[columns[0]].name, position.name):
        return None
    return place, columns[0], rest, Value(fetch.name, fetch.stored.compute)


def _is_column_offset(body: Body, column: str, position: str) -> bool:
    """True if a position is the column plus values that do not depend on it."""
    depends = {column}
    for line in body.instructions:
        text = line.partition("  #")[0]
        terms = [name for name in NAME.findall(text.partition(" = ")[2]) if name in depends]
        if not terms:
            continue
        if len(terms) > 1 or not OFFSET.match(text):
            return False
        depends.add(target_of(line))
    return position in depends
