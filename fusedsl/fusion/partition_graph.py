"""Cuts a graph into kernels: what is stored, segments between, and their partitions, held against the unfused run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

from ..hardware import CPU, Hardware, hardware_facts
from ..ir.dims import Dim, Symbol, evaluate, expression
from ..ir.graph import Graph, Type
from ..rewrite.fp_contract import round_products
from .cost_model import Prices, plus
from .fusion_group import Decision, Partition, chained
from .lower import lower_segment
from .materialize import Stored, everything, materialize
from .matmul_operands import ALONE, store_factors
from .online.choose_attention import choose_passes
from .partition import partition
from .recompute_or_store import store_dear
from .register_budget import within
from .roofline import Work, seconds
from .row_epilogues import finish_rows
from .scalar_program import Lowered, Memory
from .segments import Segment, is_rounded, segments, with_shared
from .unfused_cost import unfused

Fits = Callable[[Dim, int], bool]
INSTRUCTIONS_PER_BYTE = 6  # that GPUs issue while they move a byte, and CPUs about as many
PRICED_FOR = hardware_facts((9, 0))  # the card whose figures price decisions: a plan does not depend on the device
SLOWER = 1.05  # times the unfused run: less is no difference that the model knows


class Check(Protocol):
    """Verifies stages of planning: raises where one is not well formed."""

    def lowered(self, program: Lowered, segment: Segment, memory: Memory) -> None:
        """The scalar program of a segment."""

    def partition(self, cut: Partition) -> None:
        """The kernels of the program."""


def cut_graph(
    graph: Graph,
    extents: Mapping[Symbol, int],
    guards: dict[Dim, bool],
    hardware: Hardware | None = None,
    together: bool = True,
    budget: int | None = None,
    scores: str = "apart",
    steady: bool = False,
    check: Check | None = None,
) -> Partition:
    """The kernels of a rewritten graph at these extents; `guards` takes up which other extents they are for.

    With a budget of registers, kernels that compute alike share what is dear, those whose values do not fit are cut,
    and rows that no chip holds are read again by kernels of their own. What is in doubt is decided by the figures of
    one GPU, so that all devices run the same kernels; `hardware` is the card of the prices.
    """
    graph = round_products(graph)
    cutter = _Splitter(extents, guards, hardware or _priced_for(scores), together, budget, scores, steady, check)
    cut = cutter.graph(graph, materialize(graph.results, cutter.rate, fits_in(extents, guards), scores != "apart"))
    prices = Prices(extents, _priced_for(scores))
    if budget is None or _seconds(cut, prices) <= SLOWER * _unfused_seconds(graph, prices):
        return cut
    apart = cutter.graph(graph, everything(graph.results, fits_in(extents, guards)))
    saved = expression("-", _busy(cut, prices), _busy(apart, prices))
    return cut if fits_in(extents, guards)(saved, 0) else apart


def _seconds(cut: Partition, prices: Prices) -> float:
    """How long the kernels of a partition take by the time model."""
    return sum(prices.seconds(g.work) for g in cut.groups)


def _busy(cut: Partition, prices: Prices) -> Dim:
    """The same in attoseconds, at any extents."""
    total: Dim = 0
    for g in cut.groups:
        total = plus(total, plus(prices.busy(g.work), ALONE))
    return total


def _unfused_seconds(graph: Graph, prices: Prices) -> float:
    """How long the program takes operation by operation; of a product, each multiplication is added by itself, as
    computations count them."""
    total = 0.0
    for step in unfused(graph, prices.extents):
        issued = step.instructions * (2 if step.sides else 1)
        work = Work(step.read, step.written, issued, double=issued if step.double else 0)
        total += seconds(work, prices.hardware)
    return total


def _priced_for(scores: str) -> Hardware:
    """The figures that decide what is in doubt: scores "apart" are those of a CPU."""
    return CPU if scores == "apart" else PRICED_FOR


@dataclass(frozen=True)
class _Splitter:
    """How the segments of a program are cut into kernels (see `cut_graph`)."""

    extents: Mapping[Symbol, int]
    guards: dict[Dim, bool]
    hardware: Hardware
    together: bool
    budget: int | None
    scores: str
    steady: bool
    check: Check | None

    @property
    def rate(self) -> float:
        """Instructions that take as long as a byte; with no budget kernels are to be as few as possible."""
        return INSTRUCTIONS_PER_BYTE if self.budget is not None else inf

    def graph(self, graph: Graph, stored: Sequence[Stored]) -> Partition:
        """The kernels of a program that stores some arrays between them."""
        stored = with_shared(graph, stored, self.rate)
        rounded = frozenset(k for k, s in enumerate(stored) if is_rounded(s.node))
        memory = Memory(len(graph.parameters), tuple(s.node.type for s in stored), rounded)
        told = tuple(Decision(False, (s.name,), f"it is stored: {s.reason}") for s in stored)
        parts, kernels = [Partition((), (), told)], 0
        for segment in segments(graph, stored):
            parts.append(self.cut(segment, memory, kernels))
            kernels += len(parts[-1].groups)
            new = parts[-1].temporaries[len(memory.temporaries) :]
            memory = replace(memory, temporaries=(*memory.temporaries, *(Type(t.dtype, shape) for t, shape in new)))
        cut = chained(parts)
        if self.check is not None:
            self.check.partition(cut)
        return cut

    def cut(self, segment: Segment, memory: Memory, first: int) -> Partition:
        """The kernels of a segment, which are numbered from the `first`."""
        prices, fits = Prices(self.extents, self.hardware), fits_in(self.extents, self.guards)
        lowered = lower_segment(segment, memory, _same(fits))
        if self.check is not None:
            self.check.lowered(lowered, segment, memory)
        chosen = choose_passes(lowered, fits, self.scores)
        cut = partition(chosen, fits, prices, self.together, self.steady, self.budget is None, first)
        kept = len(chosen.program.temporaries)
        cut = finish_rows(cut, kept)
        if self.budget is None:
            return cut
        fixed = Prices(self.extents, _priced_for(self.scores))
        return within(store_factors(store_dear(cut, fixed, fits), fixed, fits, kept), self.budget, prices)


def fits_in(extents: Mapping[Symbol, int], guards: dict[Dim, bool]) -> Fits:
    """Whether a count is within a limit at this call; the plan then holds for calls where that is the same."""

    def fits(count: Dim, limit: int) -> bool:
        dim = expression("fits", count, limit)
        return bool(dim) if isinstance(dim, int) else guards.setdefault(dim, evaluate(dim, extents) == 1)

    return fits


def _same(fits: Fits) -> Callable[[Dim, Dim], bool]:
    """Whether two extents are equal, likewise."""
    return lambda a, b: a == b or fits(expression("max", expression("-", a, b), expression("-", b, a)), 0)
