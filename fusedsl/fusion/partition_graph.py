"""Graph partitioning: arrays to store, segments between them, and their kernels, compared with the unfused run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

from ..hardware import CPU, Hardware, hardware_facts
from ..ir.dims import Dim, Symbol, evaluate, expression
from ..ir.graph import Graph, Type
from ..rewrite.fp_contract import round_products
from .copied_operands import copy_operands
from .cost_model import Prices, plus
from .deterministic_scatters import order_scatters
from .equal_widths import unify_equal_widths
from .formulation import AttentionMode, Formulation, ProductMode
from .fusion_group import Decision, Partition, concatenate
from .lower import lower_segment
from .materialize import materialize, unfused_arrays
from .matmul_operands import KERNEL_OVERHEAD, store_factors
from .merged_sums import merge_summed_axes
from .online.choose_attention import choose_attention
from .pair_folds import Short, unroll_pair_folds
from .partition import partition
from .read_analysis import StoredArray
from .recompute_or_store import materialize_shared
from .register_budget import fit_register_budget
from .roofline import Work, seconds
from .row_epilogues import compute_row_epilogues
from .scalar_program import ReadableArrays, ScalarProgram
from .segments import Segment, add_shared_arrays, segments
from .shared_planning import planned_once
from .sliced_products import split_sliced_products
from .standalone_products import isolate_products
from .stored_products import is_multiplied_by_libraries
from .unfused_cost import unfused_kernels

Fits = Callable[[Dim, int], bool]
INSTRUCTIONS_PER_BYTE = 6  # issued per byte moved, on GPUs and about the same on CPUs
PRICED_FOR = hardware_facts((9, 0))  # the card that decides: plans do not depend on the device
SLOWER = 1.05  # times the unfused run; the model resolves no smaller difference


@dataclass(frozen=True)
class PassContext:
    """Arguments of partition passes, for one segment."""

    fits: Fits
    pinned: int  # number of temporaries of the program itself, which stay
    budget: int  # registers of a kernel's values
    fixed: Prices  # time model that decides
    prices: Prices  # time model of reported decisions
    way: Formulation

    @property
    def stores_operands(self) -> bool:
        """Whether large products multiply arrays in memory."""
        return self.way.products is not ProductMode.FUSED


def _isolate_products(cut: Partition, context: PassContext) -> Partition:
    if context.way.products is not ProductMode.ALONE:
        return cut
    return isolate_products(cut, context.fits, lambda d: is_multiplied_by_libraries(d, context.way))


PartitionPass = Callable[[Partition, PassContext], Partition]
PARTITION_PASSES: tuple[tuple[str, bool, PartitionPass], ...] = (  # (name, whether it needs a budget, pass), in order
    ("row epilogues", False, lambda cut, c: compute_row_epilogues(cut, c.pinned)),
    ("materialize shared values", True, lambda cut, c: materialize_shared(cut, c.fixed, c.fits)),
    ("store matmul operands", True, lambda cut, c: store_factors(cut, c.fixed, c.fits, c.pinned, c.stores_operands)),
    ("isolate products", False, _isolate_products),
    ("register budget", True, lambda cut, c: fit_register_budget(cut, c.budget, c.prices)),
)


class StageVerifier(Protocol):
    """Verifies the stages of planning: raises if one is not well formed."""

    def lowered(self, program: ScalarProgram, segment: Segment, memory: ReadableArrays) -> None:
        """Verify the scalar program of a segment."""

    def partition(self, cut: Partition) -> None:
        """Verify the kernels of the program."""


def partition_graph(
    graph: Graph,
    extents: Mapping[Symbol, int],
    guards: dict[Dim, bool],
    way: Formulation,
    hardware: Hardware | None = None,
    check: StageVerifier | None = None,
) -> Partition:
    """Partition of a rewritten graph at these extents; `guards` collects the conditions for other extents.

    With a register budget, kernels share expensive values that both compute, kernels that exceed the budget are split,
    and rows that exceed the chip are read again by separate kernels. Time decisions use the figures of one GPU, so that
    plans do not depend on the device; `hardware` prices the decisions that are reported, if any are.
    """
    graph, fits = round_products(graph), fits_in(extents, guards)
    if way.attention is not AttentionMode.TILE_MAX:
        graph = order_scatters(graph, extents, fits, way.unordered)
    if way.attention is not AttentionMode.TILE_MAX:  # on CPUs a BLAS multiplies for each width
        same = _same(fits)
        graph = merge_summed_axes(unify_equal_widths(split_sliced_products(graph, same), same), fits)
    graph, copies = copy_operands(graph, way.copies, extents, fits)
    partitioner = _GraphPartitioner(extents, guards, way, hardware, check)
    stored = materialize(graph.results, partitioner.rate, fits, way, _short(fits, extents), copies)
    cut = partitioner.graph(graph, stored)
    prices = Prices(extents, priced_for(way.attention))
    if way.products is not ProductMode.FUSED or way.copies:
        return cut  # the call compares its kernels with those of other formulations
    if way.budget is None or _seconds(cut, prices) <= SLOWER * _unfused_seconds(graph, prices):
        return cut
    unfused = partitioner.graph(graph, unfused_arrays(graph.results, fits))
    saved = expression("-", _busy(cut, prices), _busy(unfused, prices))
    return cut if fits(saved, 0) else unfused


def _seconds(cut: Partition, prices: Prices) -> float:
    """Time of a partition's kernels by the time model."""
    return sum(prices.seconds(g.work) for g in cut.groups)


def _busy(cut: Partition, prices: Prices) -> Dim:
    """The same in attoseconds, as an expression of the extents."""
    total: Dim = 0
    for g in cut.groups:
        total = plus(total, plus(prices.busy(g.work), KERNEL_OVERHEAD))
    return total


def _unfused_seconds(graph: Graph, prices: Prices) -> float:
    """Time of the program operation by operation; multiplications of a matrix product count separately, as in
    cost_model."""
    total = 0.0
    for step in unfused_kernels(graph, prices.extents):
        issued = step.instructions * (2 if step.problem_size else 1)
        work = Work(step.read, step.written, issued, double=issued if step.double else 0)
        total += seconds(work, prices.hardware)
    return total


def priced_for(attention: AttentionMode) -> Hardware:
    """Hardware whose figures decide; for tile maxima a CPU."""
    return CPU if attention is AttentionMode.TILE_MAX else PRICED_FOR


@dataclass(frozen=True)
class PlannedSegment:
    """Kernels of a segment, the guards under which they hold, and the attention mode that they are of (None: all)."""

    cut: Partition
    guards: dict[Dim, bool]
    mode: AttentionMode | None


@dataclass(frozen=True)
class _GraphPartitioner:
    """Partitions the segments of a program (see `partition_graph`)."""

    extents: Mapping[Symbol, int]
    guards: dict[Dim, bool]
    way: Formulation
    hardware: Hardware | None
    check: StageVerifier | None

    @property
    def rate(self) -> float:
        """Instructions that take as long as one byte; infinite without a budget, for as few kernels as possible."""
        return INSTRUCTIONS_PER_BYTE if self.way.budget is not None else inf

    def graph(self, graph: Graph, stored: Sequence[StoredArray]) -> Partition:
        """Kernels of a program that stores these arrays between them."""
        stored = add_shared_arrays(graph, stored, self.rate)
        memory = ReadableArrays(len(graph.parameters))
        rounded = frozenset(k for k, s in enumerate(stored) if memory.rounds(s.node))
        memory = replace(memory, temporaries=tuple(s.node.type for s in stored), rounded=rounded)
        decisions = tuple(Decision(False, (s.name,), f"it is stored, because {s.reason}") for s in stored)
        parts, kernels = [Partition((), (), decisions)], 0
        for segment in segments(graph, stored):
            parts.append(self.segment(segment, memory, kernels))
            kernels += len(parts[-1].groups)
            new = parts[-1].temporaries[len(memory.temporaries) :]
            memory = replace(memory, temporaries=(*memory.temporaries, *(Type(t.dtype, t.shape) for t in new)))
        cut = concatenate(parts, memory.temporaries)
        if self.check is not None:
            self.check.partition(cut)
        return cut

    def segment(self, segment: Segment, memory: ReadableArrays, first: int) -> Partition:
        """Kernels of a segment, numbered from `first`; a formulation may have planned it before."""
        mode = self.way.attention
        given = (frozenset(self.extents.items()), memory.arguments, len(memory.temporaries), memory.rounded, first)
        way = replace(self.way, attention=AttentionMode.TILE_MAX)
        key = (segment, given, way, priced_for(mode), self.hardware, self.check is None)
        planned = planned_once(key, lambda: self._planned(segment, memory, first))
        if planned.mode not in (None, mode):
            planned = planned_once((*key, mode), lambda: self._planned(segment, memory, first))
        self.guards.update(planned.guards)
        return planned.cut

    def _planned(self, segment: Segment, memory: ReadableArrays, first: int) -> PlannedSegment:
        guards: dict[Dim, bool] = {}
        fixed, fits = Prices(self.extents, priced_for(self.way.attention)), fits_in(self.extents, guards)
        reported = None if self.hardware is None else Prices(self.extents, self.hardware)
        lowered = lower_segment(segment, memory, _same(fits))
        if not self.way.steady:  # a single row makes no pairs, and is to have the same bits
            lowered = unroll_pair_folds(lowered, _short(fits, self.extents))
        if self.check is not None:
            self.guards.update(guards)  # what is checked holds where these do
            self.check.lowered(lowered, segment, memory)
        chosen = choose_attention(lowered, fits, self.way.attention)
        cut = partition(chosen, fits, reported, self.way, first)
        pinned, budget = len(chosen.program.temporaries), self.way.budget
        context = PassContext(fits, pinned, budget or 0, fixed, reported or fixed, self.way)
        for _, needs_budget, run in PARTITION_PASSES:
            if budget is not None or not needs_budget:
                cut = run(cut, context)
        mode = self.way.attention  # whose patterns are left out where scores are stored
        plain = mode is not AttentionMode.MATERIALIZED and not chosen.pattern_of and chosen.program == lowered
        return PlannedSegment(cut, guards, None if plain else mode)


def fits_in(extents: Mapping[Symbol, int], guards: dict[Dim, bool]) -> Fits:
    """Whether a count is within a limit at this call.

    The answer becomes a guard: the plan holds for calls with the same answer.
    """

    def fits(count: Dim, limit: int) -> bool:
        dim = expression("fits", count, limit)
        return bool(dim) if isinstance(dim, int) else guards.setdefault(dim, evaluate(dim, extents) == 1)

    return fits


def _same(fits: Fits) -> Callable[[Dim, Dim], bool]:
    """Whether two extents are equal, likewise."""
    return lambda a, b: a == b or fits(expression("max", expression("-", a, b), expression("-", b, a)), 0)


def _short(fits: Fits, extents: Mapping[Symbol, int]) -> Short:
    """The value of an extent that is at most so much, likewise: the plan then holds for calls with the same value."""

    def short(d: Dim, most: int) -> int | None:
        if isinstance(d, int) or not fits(d, most):
            return d if isinstance(d, int) and d <= most else None
        value = evaluate(d, extents)
        return value if _same(fits)(d, value) else None

    return short
