"""The IR of a call's program after each pass, as text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from ..fusion.fusion_group import Partition
from ..fusion.partition_graph import partition_graph
from ..fusion.scalar_program import ReadableArrays, ScalarProgram
from ..fusion.segments import Segment
from ..ir.graph import Node
from ..ir.ops import ROUNDED
from ..ir.printer import show
from ..program.resolve_call import ResolvedCall
from ..rewrite.engine import Rule, rewrite
from ..rewrite.fp_contract import round_products
from .ir_text import ScalarText, kernel_text
from .units import plural


@dataclass(frozen=True)
class PassOutput:
    """What a pass made: its name, a remark, and the program after it."""

    name: str
    about: str
    text: str


def pass_outputs(call: ResolvedCall) -> tuple[PassOutput, ...]:
    """The program after each pass, from its graph to its planned kernels."""
    laws: Counter[str] = Counter()

    def count(law: Rule, old: Node, new: Node) -> None:
        laws[law.law] += 1

    rewritten = rewrite(call.graph, count)
    applied = ", ".join(f"{law}{f' ({n} times)' if n > 1 else ''}" for law, n in laws.items())
    outputs = [PassOutput("typed graph", "as the program is built; n0_1 is axis 1 of argument 0", show(call.graph))]
    outputs.append(PassOutput("after the laws", applied or "no law applies", show(rewritten) if applied else ""))
    if (contracted := round_products(rewritten)) is not rewritten:
        rounded = (line for line in show(contracted).splitlines() if line.endswith(f", {ROUNDED}"))
        outputs.append(PassOutput("contraction", "products that are rounded before they are added", "\n".join(rounded)))
    stages = _Stages(call.plans.names)
    options = call.plans.options
    way = replace(call.plan.formulation, budget=call.plan.budget or None, steady=options.batch_invariant)
    way = replace(way, unordered=options.deterministic is False)
    cut = partition_graph(rewritten, call.extents, {}, way, call.target.hardware, check=stages)
    # partitioning compares several plans: those segments count that this one is made of
    for k, lines in enumerate(stages.programs[-stages.last :]):
        number = f" of segment {k}" if stages.last > 1 else ""
        outputs.append(PassOutput(f"scalar program{number}", "elements over axes, without arrays", "\n".join(lines)))
    decided = sum(d.joined for d in cut.decisions)
    about = f"{plural(len(cut.groups), 'group')}, {plural(len(cut.decisions), 'decision')}, {decided} of them to join"
    groups = "\n".join(ScalarText(call.plans.names).partition(cut))
    outputs.append(PassOutput("fusion groups", about, groups))
    kernels = "\n\n".join("\n".join(kernel_text(kernel)) for kernel in call.plan.kernels)
    return (*outputs, PassOutput("kernel IR", "arrays, phases and bodies, for any shape", kernels))


class _Stages:
    """Remembers the scalar program of each segment while a graph is partitioned."""

    def __init__(self, names: tuple[str, ...]):
        self.names = names
        self.programs: list[list[str]] = []
        self.last = 0  # segments of the last partition
        self._now = 0

    def lowered(self, program: ScalarProgram, segment: Segment, memory: ReadableArrays) -> None:
        self.programs.append(ScalarText(self.names).program(program))
        self._now += 1

    def partition(self, cut: Partition) -> None:
        self.last, self._now = self._now, 0
