"""Values of elements that several phases compute alike: the first of them computes one, and the others read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..instruction import Instruction, needed, result_type
from ..phase import Body, Phase, Value
from .moved_phases import fresh_name


def share_values(phases: Sequence[Phase], used: set[str]) -> tuple[Phase, ...]:
    """The phases, whose elements are held from one to the next; `used` names are taken.

    A target that is defined once more, for another value, gets a name of its own.
    """
    shared = _SharedValues(used)
    renamed = [shared.phase(phase) for phase in phases]
    held = {v.name for phase in renamed for v in phase.element.args} & set(shared.values)
    return tuple(_with_results(phase, held, shared.values) for phase in renamed)


class _SharedValues:
    """Instructions of phases so far, by what they compute."""

    def __init__(self, used: set[str]):
        self.used = used
        self.known: dict[tuple, str] = {}
        self.values: dict[str, Value] = {}  # that later phases may read
        self.targets: set[str] = set()

    def phase(self, phase: Phase) -> Phase:
        """A phase that computes nothing that one before it does."""
        names: dict[str, str] = {}
        given = {v.name: v for v in phase.element.args}
        kept = [i for i in phase.element.instructions if not self._names(i, names)]
        instructions = [i.renamed(names) for i in kept]
        results = tuple(replace(v, name=names.get(v.name, v.name)) for v in phase.element.results)
        wanted = needed(instructions, [v.name for v in results])
        instructions = [i for i in instructions if i.target in wanted]
        for i in instructions:
            if (kind := result_type(i)) is not None:
                self.known[i.op, i.args, i.dtype] = i.target
                self.values[i.target] = Value(i.target, kind)
            self.targets.add(i.target)
        own = {i.target for i in instructions}
        read = dict.fromkeys([name for i in instructions for name in i.names] + [v.name for v in results])
        args = tuple(given.get(name) or self.values[name] for name in read if name not in own)
        stores = tuple(replace(s, value=names.get(s.value, s.value)) for s in phase.stores)
        inputs = [tuple(replace(v, name=names.get(v.name, v.name)) for v in use.inputs) for use in phase.folds]
        folds = tuple(replace(use, inputs=given) for use, given in zip(phase.folds, inputs))
        return replace(phase, element=Body(args, results, tuple(instructions)), stores=stores, folds=folds)

    def _names(self, i: Instruction, names: dict[str, str]) -> bool:
        """Name the target of an instruction; whether a phase before has computed it."""
        same = i.renamed(names)
        before = self.known.get((same.op, same.args, same.dtype))
        if before is not None:
            names[i.target] = before
        elif i.target in self.targets:
            names[i.target] = fresh_name(i.target, self.used)
        return before is not None


def _with_results(phase: Phase, held: set[str], values: dict[str, Value]) -> Phase:
    """A phase whose body also gives what it computes for later ones."""
    there = {v.name for v in phase.element.results}
    more = [values[i.target] for i in phase.element.instructions if i.target in held and i.target not in there]
    return replace(phase, element=replace(phase.element, results=(*phase.element.results, *more)))
