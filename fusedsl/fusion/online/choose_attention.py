"""Chooses the attention kernels of a program: the reductions they compute, their operands, and staged operands."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.graph import Node
from ..alpha_equivalence import share_equivalent
from ..fusion_group import Decision
from ..messages import STORED, describe_fold
from ..scalar_program import ScalarProgram
from .find_attention import AttentionMatches, AttentionPattern, Fits, match_attention
from .score_products import direct_reductions, reachable_reductions
from .staged_operands import stage_operands


@dataclass(frozen=True)
class AttentionChoice:
    """The program that attention kernels read, the pattern of each of their folds, and refusals."""

    program: ScalarProgram
    pattern_of: dict[Node, AttentionPattern]
    refused: tuple[Decision, ...]


def choose_attention(program: ScalarProgram, fits: Fits, scores: str) -> AttentionChoice:
    """The passes of a lowered program, in which folds that are alike are stored once.

    `scores` that are folded are "stored" first; or each tile of them is folded where it is computed, measured from
    references of its own ("apart") or from those of all tiles so far ("level"), with what they are products of stored
    where it is computed ("staged").
    """
    level = scores in ("level", "staged")
    found = match_attention(program, fits, level)
    refused: list[Decision] = []
    if level and found.patterns:
        staged, operands = stage_operands(found.program, found.patterns, scores == "staged")
        reason = "it is stored, because passes over scores multiply arrays, of one dtype"
        refused = [Decision(False, (f"{r.value.op} before a product of scores",), reason) for r in operands]
        found = match_attention(staged, fits, level) if operands else found
    refused = [*(Decision(False, (describe_fold(f),), reason) for f, reason in found.refused), *refused]
    if scores == "stored":
        stored = dict.fromkeys(p.fold for one in found.patterns for p in one.score_products)
        refused += [Decision(False, (describe_fold(f),), f"it is stored, because {STORED}") for f in stored]
        found = AttentionMatches(program, (), ())
    return _share_equal_values(found, fits, level, tuple(refused))


def _share_equal_values(
    found: AttentionMatches, fits: Fits, level: bool, refused: tuple[Decision, ...]
) -> AttentionChoice:
    """The attention kernels of a program in which equal values are computed once."""
    streaming = {f: one for one in found.patterns for f in one.folds}
    shared = share_equivalent(found.program, found.patterns, needed_folds(found.program, streaming))
    if shared is found.program:
        return AttentionChoice(shared, streaming, refused)
    again = match_attention(shared, fits, level) if found.patterns else AttentionMatches(shared, (), ())
    return AttentionChoice(again.program, {f: one for one in again.patterns for f in one.folds}, refused)


def needed_folds(program: ScalarProgram, streaming: dict[Node, AttentionPattern]) -> list[Node]:
    """The folds, scans and orders that kernels have to find: those within a pass are its own."""
    roots, found = [r.value for r in program.stores], dict[Node, None]()
    taken: set[AttentionPattern] = set()
    while roots:
        needed = reachable_reductions(roots, streaming.__contains__)
        found |= dict.fromkeys(needed)
        passes = dict.fromkeys(streaming[f] for f in needed if f in streaming and streaming[f] not in taken)
        taken |= set(passes)
        roots = [n for one in passes for n in external_folds(one)]
    return list(found)


def external_folds(one: AttentionPattern) -> list[Node]:
    """The folds of other kernels that an attention pattern reads."""
    own = {*one.folds, *(p.fold for p in one.score_products)}
    values = [*one.values, *(p.fold.args[0] for p in one.score_products)]
    return [n for n in direct_reductions(values) if n not in own]
