"""Chooses the attention kernels of a program: the reductions they compute, their operands, and staged operands."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.graph import Node
from ..alpha_equivalence import share_equivalent
from ..formulation import STORED, AttentionMode
from ..fusion_group import Decision
from ..refusal_reasons import describe_fold
from ..scalar_program import ScalarProgram
from .find_attention import AttentionMatches, AttentionPattern, Fits, match_attention
from .operand_dtypes import widen_values
from .score_products import direct_reductions, reachable_reductions
from .staged_operands import stage_operands


@dataclass(frozen=True)
class AttentionChoice:
    """The program that attention kernels read, the pattern of each attention fold, and refusals."""

    program: ScalarProgram
    pattern_of: dict[Node, AttentionPattern]
    refused: tuple[Decision, ...]


def choose_attention(program: ScalarProgram, fits: Fits, mode: AttentionMode) -> AttentionChoice:
    """Attention kernels of a lowered program, in which equivalent folds are computed once."""
    running_reference = mode.running_reference
    program = widen_values(program) if running_reference else program
    matches = match_attention(program, fits, running_reference)
    refused: list[Decision] = []
    if running_reference and matches.patterns:
        staged, operands = stage_operands(matches.program, matches.patterns, mode is AttentionMode.RUNNING_MAX_STAGED)
        reason = "it is stored, because passes over scores multiply arrays, of one dtype"
        refused = [Decision(False, (f"{r.value.op} before a product of scores",), reason) for r in operands]
        matches = match_attention(staged, fits, running_reference) if operands else matches
    refused = [*(Decision(False, (describe_fold(f),), reason) for f, reason in matches.refused), *refused]
    if mode is AttentionMode.MATERIALIZED:
        weighing = [p for p in matches.patterns if p.value_products or len(p.folds) > 1]
        stored = dict.fromkeys(p.fold for pattern in weighing for p in pattern.score_products)
        refused += [Decision(False, (describe_fold(f),), f"it is stored, because {STORED}") for f in stored]
        matches = AttentionMatches(program, (), ())
    return _share_equal_values(matches, fits, running_reference, tuple(refused))


def _share_equal_values(
    matches: AttentionMatches, fits: Fits, running_reference: bool, refused: tuple[Decision, ...]
) -> AttentionChoice:
    """Attention kernels of the program with equal values computed once."""
    pattern_of = {f: pattern for pattern in matches.patterns for f in pattern.folds}
    shared = share_equivalent(matches.program, matches.patterns, needed_folds(matches.program, pattern_of))
    if shared is matches.program:
        return AttentionChoice(shared, pattern_of, refused)
    again = match_attention(shared, fits, running_reference) if matches.patterns else AttentionMatches(shared, (), ())
    return AttentionChoice(again.program, {f: pattern for pattern in again.patterns for f in pattern.folds}, refused)


def needed_folds(program: ScalarProgram, pattern_of: dict[Node, AttentionPattern]) -> list[Node]:
    """Folds, scans and sorts that kernels must compute; those inside a pattern belong to it."""
    roots, folds = [r.value for r in program.stores], dict[Node, None]()
    visited: set[AttentionPattern] = set()
    while roots:
        needed = reachable_reductions(roots, pattern_of.__contains__)
        folds |= dict.fromkeys(needed)
        patterns = dict.fromkeys(pattern_of[f] for f in needed if f in pattern_of and pattern_of[f] not in visited)
        visited |= set(patterns)
        roots = [n for pattern in patterns for n in external_folds(pattern)]
    return list(folds)


def external_folds(pattern: AttentionPattern) -> list[Node]:
    """Folds of other kernels that a pattern reads."""
    own = {*pattern.folds, *(p.fold for p in pattern.score_products)}
    values = [*pattern.values, *(p.fold.args[0] for p in pattern.score_products)]
    return [n for n in direct_reductions(values) if n not in own]
