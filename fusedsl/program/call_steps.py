"""The steps of a call beside its plan: its signature and extents, the plan's checks, result shapes, bound kernels.

What makes plans stands in `planning`, which a call that finds its plan in the cache never imports.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..backends.cuda.attention.schedule import schedule_scores
from ..backends.cuda.schedule import can_cross
from ..errors import FusedslError
from ..hardware import Hardware, facts
from ..ir.checks import explain, holds, require_size
from ..ir.dims import Dim, Extents, Symbol, evaluate
from ..ir.graph import Parameter, Type
from ..ir.types import BOOL
from ..kernel_ir.plan import KernelPlan, Plan
from ..runtime import compile as compiler
from ..runtime.arrays import Array, Weak
from ..runtime.bind_shapes import Bound, Family, bind
from ..runtime.free_memory import exhausted
from ..runtime.layout import Layout
from ..runtime.specialize import crosses

if TYPE_CHECKING:
    from ..config import Options
    from ..ir.graph import Graph

OWN = 4  # binaries that are for one class of shapes each, before further shapes of a family share general ones
REGISTERS = 216  # words of a thread's 255 that a body's values may take: the rest are addresses and counters


class Source(Protocol):
    """Where a program comes from: a text, or a traced function."""

    generic: bool  # whether it can be built for other extents than those of the call at hand

    def build(
        self, parameters: tuple[Parameter, ...], extents: Mapping[Symbol, int], options: Options
    ) -> tuple[Graph, Mapping[Dim, bool]]:
        """The typed graph for these parameters, and the guards under which it holds."""

    def cache_parts(self) -> dict | None:
        """What its plans depend on, as JSON, or None where they are not to be stored."""

    def header(self) -> tuple[str, ...]:
        """The program re-printed, a line each, for the head of generated files."""

    @property
    def text(self) -> str:
        """The program as the user wrote it."""

    @property
    def title(self) -> str:
        """The program as a line of a log names it."""


def signature(name: str, index: int, argument: Array | Weak, loose: bool = False) -> Parameter:
    """What a plan fixes of an argument: dtype, rank, and, unless it is to be `loose`, which extents are 1."""
    if isinstance(argument, Weak):
        weak = argument.dtype is not BOOL
        return Parameter(name, Type(argument.dtype, (), weak), scalar=True)
    if argument.by_value:
        return Parameter(name, Type(argument.dtype), scalar=True)
    dims = tuple(1 if n == 1 and not loose else Symbol(index, axis) for axis, n in enumerate(argument.shape))
    return Parameter(name, Type(argument.dtype, dims))


def extents_of(arguments: Sequence[Array | Weak]) -> Extents:
    """Every symbol's value at this call."""
    arrays = [(k, a) for k, a in enumerate(arguments) if isinstance(a, Array)]
    return Extents({Symbol(k, axis): n for k, a in arrays for axis, n in enumerate(a.shape)})


# -- calls


def family_of(name: str, options: Options, plan: Plan) -> Family | None:
    """What shares few binaries with other calls of a program; None where every class of shapes has its own."""
    if options.dynamic is False or options.tunes or options.steady:
        return None
    kinds = tuple((p.type.dtype.name, len(p.type.shape)) for p in plan.parameters)
    twice = not plan.together or any(kernel.finish for kernel in plan.kernels)  # rows and columns, together and apart
    return Family(name, repr(options), kinds, 0 if options.dynamic else OWN // 2 if twice else OWN)


def check_call(plan: Plan, extents: Mapping[Symbol, int]) -> None:
    """Raise the ShapeError of the first check that these extents break; those that stand alone ride along."""
    failed: list[FusedslError] = [explain(c, extents) for c in plan.checks if not holds(c, extents)]
    if failed:
        from ..lang.error_cascade import root_causes

        failed = root_causes(plan.text, failed)
        failed[0].others = tuple(failed[1:])
        raise failed[0]


def guards_hold(guards: Iterable[tuple[Dim, bool]], extents: Mapping[Symbol, int]) -> bool:
    """Whether what was built under these guards is for these extents: those taken for 1 are 1, and the others not."""
    return all(bool(evaluate(d, extents) == 1) is unit for d, unit in guards)


def result_shapes(plan: Plan, extents: Mapping[Symbol, int], limit: int = 1 << 62) -> list[tuple[int, ...]]:
    """The shapes of the results at this call; LimitError where one is beyond any memory."""
    for t in (*plan.results, *plan.temporaries, *(Type(BOOL, _iterated(k)) for k in plan.kernels)):
        require_size(t, extents)
    shapes = [tuple(evaluate(d, extents) for d in t.shape) for t in plan.results]
    for shape, t in zip(shapes, plan.results):
        size = t.dtype.itemsize
        for n in shape:
            size *= n
        if size >= limit:
            raise exhausted(size, f"{t.dtype}{list(shape)}")
    return shapes


def _iterated(kernel: KernelPlan) -> tuple[Dim, ...]:
    """The axes of what a kernel computes: of a pass over scores, its scores."""
    return kernel.rows + (kernel.columns if kernel.stream is None else kernel.columns[:1])


def bind_kernels(
    plan: Plan, layouts: dict[tuple[str, int], Layout], extents, family: Family | None = None
) -> list[Bound]:
    """Every kernel of a plan with the numbers of one call."""
    dims = [d for p in plan.parameters for d in p.type.shape]
    units, loose = 1 in dims, any(isinstance(d, Symbol) and extents[d] == 1 for d in dims)
    bounds = [bind(k, layouts, extents, loose) for k in plan.kernels]
    chained = len(plan.shared) > 1
    if not (chained or family):
        return bounds
    return [dataclasses.replace(b, chained=chained, family=family, units=units, loose=loose) for b in bounds]


def folds_together(bounds: Iterable[Bound], hardware: Hardware | None) -> bool:
    """Whether every kernel that folds both ways can do so at these extents; None stands for the CPU."""
    crossed = [b for b in bounds if b.kernel.finish is not None]
    return hardware is None or all(can_cross(b.kernel, b.extents, hardware) for b in crossed)


def attends(bounds: Iterable[Bound], hardware: Hardware | None) -> bool:
    """Whether every pass over scores has a kernel at these extents; None stands for the CPU."""
    streams = [b for b in bounds if b.kernel.stream is not None]
    return hardware is None or all(schedule_scores(b.kernel, b.extents, hardware) is not None for b in streams)


def _are_slow(bounds: Sequence[Bound], hardware: Hardware) -> bool:
    """Whether the passes over scores of a call would take less as products of matrices: where a row's results do not
    depend on other rows, they are what they are."""
    passes = [b for b in bounds if b.kernel.stream is not None and not b.kernel.steady]
    if not passes:
        return False
    from .occupancy_fallback import take_less_stored

    return take_less_stored(passes, hardware)


def other_way(
    plan: Plan, bounds: Sequence[Bound], hardware: Hardware | None, claim: bool = True
) -> tuple[bool, str] | None:
    """(`together`, `scores`) of the plan to try instead of one with a kernel that has no schedule at these extents,
    takes longer than its parts or may have no binary for them (see `lengths.crosses`); None where every kernel has."""
    if not attends(bounds, hardware):
        return plan.together, "staged" if plan.scores == "level" else "stored"
    if hardware is not None and _are_slow(bounds, hardware):
        return plan.together, "stored"
    if not folds_together(bounds, hardware) or not (hardware is None or crosses(plan, bounds, hardware, claim)):
        return False, plan.scores
    return None


def build_kernel(plan: KernelPlan, bound: Bound, cc: tuple[int, int] | None, hardware: Hardware | None = None) -> Any:
    """The compiled kernel, for a CUDA architecture or (None) this CPU."""
    if cc is None:
        return compiler.build_cpu(bound, plan.digest)
    return compiler.build_cuda(bound, plan.digest, cc, hardware or facts(cc))


def hardware_of(device: Any) -> Hardware:
    """The facts of a device that is there: the architecture's table with this card's own numbers."""
    known = facts(device.cc)
    return dataclasses.replace(known, multiprocessors=device.sms)
