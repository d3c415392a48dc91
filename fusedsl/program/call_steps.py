"""The steps of a call beside its plan: signature and extents, the plan's checks, result shapes, bound kernels.

make_plan.py makes plans: a call that finds its plan in the cache never imports it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from ..backends.cuda.attention.schedule import schedule_attention
from ..backends.cuda.matmul.schedule import schedule_matmul
from ..backends.cuda.rows_and_columns.schedule import schedule_rows_and_columns
from ..errors import FusedslError
from ..fusion.formulation import AttentionMode, Formulation, ProductMode
from ..hardware import Hardware, hardware_facts
from ..ir.checks import holds, require_size, shape_error
from ..ir.dims import Dim, Extents, Symbol, evaluate
from ..ir.graph import Parameter, Type
from ..ir.types import BOOL
from ..kernel_ir.attention_operands import has_computed_or_paged_operands
from ..kernel_ir.kernel import AttentionKernel, RowColumnKernel
from ..kernel_ir.plan import KernelPlan, Plan
from ..runtime.arrays import ArrayFacts, Weak
from ..runtime.bind_images import with_image_rows
from ..runtime.bind_shapes import bind_kernel
from ..runtime.bound_kernel import BoundKernel, SpecializationGroup
from ..runtime.free_memory import exhausted
from ..runtime.layout import ArrayLayout
from ..runtime.specialize import acquire_both_axis_kernels

if TYPE_CHECKING:
    from ..config import Options
    from ..ir.graph import Graph

SPECIALIZED_BINARIES = 4  # specialised binaries of a group, before further shapes share generic ones
REGISTER_BUDGET = 216  # of a thread's 255, for a body's values: the rest are addresses and counters


class ProgramSource(Protocol):
    """What is compiled: a program of the language, or a traced function."""

    generic: bool  # whether it can be built for other extents than those of the call

    def build(
        self, parameters: tuple[Parameter, ...], extents: Mapping[Symbol, int], options: Options
    ) -> tuple[Graph, Mapping[Dim, bool]]:
        """The typed graph for these parameters, and the guards under which it holds."""

    def cache_parts(self) -> dict | None:
        """The JSON that its plans depend on, or None if they are not stored."""

    def header(self) -> tuple[str, ...]:
        """The program re-printed, a line each, for the head of generated files."""

    @property
    def text(self) -> str:
        """The program as the user wrote it."""

    @property
    def title(self) -> str:
        """The program's name in a log line."""


def signature(name: str, index: int, argument: ArrayFacts | Weak, symbolic_units: bool = False) -> Parameter:
    """The parameter of an argument in a plan's signature: dtype, rank, and which extents are 1.

    With `symbolic_units` extents of 1 get a symbol like any other extent.
    """
    if isinstance(argument, Weak):
        weak = argument.dtype is not BOOL
        return Parameter(name, Type(argument.dtype, (), weak), scalar=True)
    if argument.by_value:
        return Parameter(name, Type(argument.dtype), scalar=True)
    dims = tuple(1 if n == 1 and not symbolic_units else Symbol(index, axis) for axis, n in enumerate(argument.shape))
    return Parameter(name, Type(argument.dtype, dims))


def extents_of(arguments: Sequence[ArrayFacts | Weak]) -> Extents:
    """The value of every symbol in this call."""
    arrays = [(k, a) for k, a in enumerate(arguments) if isinstance(a, ArrayFacts)]
    return Extents({Symbol(k, axis): n for k, a in arrays for axis, n in enumerate(a.shape)})


# -- calls


def specialization_group(name: str, options: Options, plan: Plan) -> SpecializationGroup | None:
    """The group of calls that share a quota of binaries; None if every class of shapes has its own."""
    if options.dynamic is False or options.tunes or options.batch_invariant:
        return None
    kinds = tuple((p.type.dtype.name, len(p.type.shape)) for p in plan.parameters)
    twice = not plan.together or any(kernel.column_epilogue for kernel in plan.kernels)  # kernels of both formulations
    return SpecializationGroup(
        name,
        repr(options),
        kinds,
        0 if options.dynamic else SPECIALIZED_BINARIES // 2 if twice else SPECIALIZED_BINARIES,
    )


def check_call(plan: Plan, extents: Mapping[Symbol, int]) -> None:
    """Raise the ShapeError of the first check that these extents break; further independent ones are its `others`."""
    failed: list[FusedslError] = [shape_error(c, extents) for c in plan.checks if not holds(c, extents)]
    if failed:
        from ..lang.error_cascade import root_causes

        failed = root_causes(plan.text, failed)
        failed[0].others = tuple(failed[1:])
        raise failed[0]


def guards_hold(guards: Iterable[tuple[Dim, bool]], extents: Mapping[Symbol, int]) -> bool:
    """Whether a plan under these guards is for these extents: exactly those that it takes for 1 are 1."""
    return all(bool(evaluate(d, extents) == 1) is unit for d, unit in guards)


def result_shapes(plan: Plan, extents: Mapping[Symbol, int], limit: int = 1 << 62) -> list[tuple[int, ...]]:
    """The shapes of the results of this call; MemoryLimitError if one is beyond any memory."""
    for t in (*plan.results, *plan.temporaries, *(Type(BOOL, _iterated(k)) for k in plan.kernels)):
        require_size(t, extents)
    shapes = [tuple(evaluate(d, extents) for d in t.shape) for t in plan.results]
    for shape, t in zip(shapes, plan.results):
        if (size := prod((t.dtype.itemsize, *shape))) >= limit:
            raise exhausted(size, f"{t.dtype}{list(shape)}")
    return shapes


def _iterated(kernel: KernelPlan) -> tuple[Dim, ...]:
    """The iteration axes of a kernel; of an attention kernel, those of its scores."""
    return kernel.rows + (kernel.columns if kernel.attention is None else kernel.columns[:1])


def bind_kernels(
    plan: Plan,
    layouts: dict[tuple[str, int], ArrayLayout],
    extents,
    group: SpecializationGroup | None = None,
    hardware: Hardware | None = None,
) -> list[BoundKernel]:
    """Every kernel of a plan with the numbers of one call, as hardware runs it; None is the CPU."""
    dims = [d for p in plan.parameters for d in p.type.shape]
    unit_extents, symbolic_units = 1 in dims, any(isinstance(d, Symbol) and extents[d] == 1 for d in dims)
    bounds = [bind_product(k, layouts, extents, hardware, symbolic_units) for k in plan.kernels]
    chained = len(plan.shared) > 1
    if not (chained or group):
        return bounds
    return [
        dataclasses.replace(
            bound,
            chained=chained,
            given=tuple(k for k, use in enumerate(kernel.arrays) if use.kind == "argument") if chained else (),
            specialization_group=group,
            has_unit_extents=unit_extents,
            symbolic_units=symbolic_units,
        )
        for kernel, bound in zip(plan.kernels, bounds)
    ]


def bind_product(
    plan: KernelPlan,
    layouts: Mapping[tuple[str, int], ArrayLayout],
    extents: Mapping[Symbol, int],
    hardware: Hardware | None,
    symbolic_units: bool = False,
) -> BoundKernel:
    """A kernel with the numbers of a call; a product of windows over rows that TMA finds in images, if it can."""
    bound = bind_kernel(plan, layouts, extents, symbolic_units)
    if hardware is None or hardware.cc[0] != 9:
        return bound
    flat = with_image_rows(bound)
    return bound if flat is None or schedule_matmul(flat.kernel, flat.extents, hardware) is None else flat


def has_both_axis_schedules(bounds: Iterable[BoundKernel], hardware: Hardware | None) -> bool:
    """Whether every kernel that reduces rows and columns has a schedule at these extents; None is the CPU."""
    sized = [(b.kernel, b.extents) for b in bounds if isinstance(b.kernel, RowColumnKernel)]
    return hardware is None or all(schedule_rows_and_columns(*kernel, hardware) is not None for kernel in sized)


def has_attention_schedules(bounds: Iterable[BoundKernel], hardware: Hardware | None) -> bool:
    """Whether every attention kernel has a schedule at these extents; None stands for the CPU."""
    attentions = [(b.kernel, b.extents) for b in bounds if isinstance(b.kernel, AttentionKernel)]
    return hardware is None or all(schedule_attention(*sized, hardware) is not None for sized in attentions)


def _stored_scores_are_faster(bounds: Sequence[BoundKernel], hardware: Hardware) -> bool:
    """Whether matmuls with stored scores would take less time than the attention kernels of a call.

    Never for batch-invariant kernels: their choice must not depend on other rows.
    """
    passes = [b for b in bounds if isinstance(b.kernel, AttentionKernel) and not b.kernel.batch_invariant_width]
    if not passes:
        return False
    from .unfused_attention import stored_scores_are_faster

    return stored_scores_are_faster(passes, hardware)


def fallback_formulation(
    plan: Plan, bounds: Sequence[BoundKernel], hardware: Hardware | None, reserve: bool = True
) -> Formulation | None:
    """The formulation to try next; None if every kernel of this one may run.

    A kernel may not run if it has no schedule at these extents, takes longer than its parts, or has no quota for a
    binary (see `acquire_both_axis_kernels`).
    """
    if not has_attention_schedules(bounds, hardware):
        running = plan.attention is AttentionMode.RUNNING_MAX
        computed = any(
            isinstance(b.kernel, AttentionKernel) and has_computed_or_paged_operands(b.kernel) for b in bounds
        )
        mode = AttentionMode.RUNNING_MAX_STAGED if running and computed else AttentionMode.MATERIALIZED
        return dataclasses.replace(plan.formulation, attention=mode)
    if hardware is not None and _stored_scores_are_faster(bounds, hardware):
        return dataclasses.replace(plan.formulation, attention=AttentionMode.MATERIALIZED)
    if not _has_panel_schedules(bounds, hardware):
        return dataclasses.replace(plan.formulation, products=ProductMode.STORED_OPERANDS)
    if not has_both_axis_schedules(bounds, hardware) or not (
        hardware is None or acquire_both_axis_kernels(plan, bounds, hardware, reserve)
    ):
        return dataclasses.replace(plan.formulation, together=False)
    return None


def _has_panel_schedules(bounds: Sequence[BoundKernel], hardware: Hardware | None) -> bool:
    """Whether kernels of products that fold panels or groups of their columns have schedules."""
    folding = [b for b in bounds if any(phase.panel_folds or phase.groups for phase in b.kernel.phases)]
    return not folding or (
        hardware is not None and all(schedule_matmul(b.kernel, b.extents, hardware) is not None for b in folding)
    )


def hardware_of(device: Any) -> Hardware:
    """The facts of a present device: the architecture's table with this card's number of SMs."""
    known = hardware_facts(device.cc)
    return dataclasses.replace(known, multiprocessors=device.sms)
