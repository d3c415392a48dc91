"""Chooses the passes over scores of a program: which folds they find, what they read, and what is stored for them."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.graph import Node
from ..alpha_equivalence import share_equivalent
from ..fusion_group import Decision
from ..messages import STORED, describe_fold
from ..scalar_program import ScalarProgram
from .find_attention import Fits, Found, Streaming, find_streams
from .score_products import nearest, reached
from .staged_operands import store_operands


@dataclass(frozen=True)
class Passes:
    """The program as its passes read it, the pass that finds each of their folds, and what was refused."""

    program: ScalarProgram
    streaming: dict[Node, Streaming]
    refused: tuple[Decision, ...]


def choose_passes(program: ScalarProgram, fits: Fits, scores: str) -> Passes:
    """The passes of a lowered program, in which folds that are alike are stored once.

    `scores` that are folded are "stored" first; or each tile of them is folded where it is computed, measured from
    references of its own ("apart") or from those of all tiles so far ("level"), with what they are products of stored
    where it is computed ("staged").
    """
    level = scores in ("level", "staged")
    found = find_streams(program, fits, level)
    refused: list[Decision] = []
    if level and found.passes:
        staged, operands = store_operands(found.program, found.passes, scores == "staged")
        reason = "it is stored, because passes over scores multiply arrays, of one dtype"
        refused = [Decision(False, (f"{r.value.op} before a product of scores",), reason) for r in operands]
        found = find_streams(staged, fits, level) if operands else found
    refused = [*(Decision(False, (describe_fold(f),), reason) for f, reason in found.refused), *refused]
    if scores == "stored":
        stored = dict.fromkeys(p.fold for one in found.passes for p in one.products)
        refused += [Decision(False, (describe_fold(f),), f"it is stored, because {STORED}") for f in stored]
        found = Found(program, (), ())
    return _sharing(found, fits, level, tuple(refused))


def _sharing(found: Found, fits: Fits, level: bool, refused: tuple[Decision, ...]) -> Passes:
    """The passes of a program in which what is alike is computed once."""
    streaming = {f: one for one in found.passes for f in one.folds}
    shared = share_equivalent(found.program, found.passes, needed_folds(found.program, streaming))
    if shared is found.program:
        return Passes(shared, streaming, refused)
    again = find_streams(shared, fits, level) if found.passes else Found(shared, (), ())
    return Passes(again.program, {f: one for one in again.passes for f in one.folds}, refused)


def needed_folds(program: ScalarProgram, streaming: dict[Node, Streaming]) -> list[Node]:
    """The folds, scans and orders that kernels have to find: those within a pass are its own."""
    roots, found = [r.value for r in program.stores], dict[Node, None]()
    taken: set[Streaming] = set()
    while roots:
        needed = reached(roots, streaming.__contains__)
        found |= dict.fromkeys(needed)
        passes = dict.fromkeys(streaming[f] for f in needed if f in streaming and streaming[f] not in taken)
        taken |= set(passes)
        roots = [n for one in passes for n in foreign_folds(one)]
    return list(found)


def foreign_folds(one: Streaming) -> list[Node]:
    """What a pass over scores reads of other kernels."""
    own = {*one.folds, *(p.fold for p in one.products)}
    values = [*one.values, *(p.fold.args[0] for p in one.products)]
    return [n for n in nearest(values) if n not in own]
