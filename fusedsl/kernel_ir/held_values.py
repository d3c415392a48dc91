"""Values of elements that phases on groups of products hold: those of the products, and what phases compute."""

from __future__ import annotations

from .phase import GroupPhases, Phase


def held_values(phase: Phase, number: int) -> set[str]:
    """Values of elements that are computed before phase `number` of the groups, and read in it or after it."""
    assert phase.groups is not None
    before, later = phase.groups.phases[:number], phase.groups.phases[number:]
    computed = {v.name for use in phase.folds for v in use.accumulators}
    computed |= {v.name for v in phase.row.results} if phase.row else set()
    computed |= {v.name for part in before for v in part.element.results if v not in part.element.args}
    return computed & GroupPhases(0, later).names_read


def most_held_values(phase: Phase) -> int:
    """The most values of an element that are held at once."""
    assert phase.groups is not None
    return max(len(held_values(phase, number)) for number in range(len(phase.groups.phases)))
