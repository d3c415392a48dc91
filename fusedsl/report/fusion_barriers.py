"""The reasons why a call has more than one kernel, in the names of its arrays."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..backends.cuda.attention.mma_schedule import LEAST_ROWS, WIDEST
from ..backends.cuda.attention.schedule import schedule_attention
from ..fusion.formulation import STORED
from ..hardware import Hardware
from ..kernel_ir.attention_operands import ABSENT, operands_of
from ..kernel_ir.kernel import AttentionKernel
from ..kernel_ir.phase import Phase
from ..kernel_ir.plan import KernelPlan
from ..program.make_plan import fusion_decisions
from ..program.resolve_call import ResolvedCall
from ..runtime.bound_kernel import BoundKernel
from .kernel_formulas import array_name


@dataclass(frozen=True)
class FusionBarrier:
    """Why two kernels are not one, and what that costs in seconds if the time model knows."""

    reason: str
    seconds: float | None = None


def fusion_barriers(call: ResolvedCall) -> tuple[FusionBarrier, ...]:
    """The reasons for more than one kernel, with axes by the names of their arrays."""

    def named(symbol: re.Match) -> str:
        return f"axis {symbol.group(2)} of {call.plans.names[int(symbol.group(1))]}"

    decisions = fusion_decisions(call.graph, call.plan, call.extents, call.target.hardware)
    barriers = [FusionBarrier(d.reason, d.seconds) for d in decisions if not d.joined]
    if any(STORED in r.reason for r in barriers):
        limit = _stored_scores_limit(call) or STORED
        barriers = [FusionBarrier(r.reason.replace(STORED, limit), r.seconds) for r in barriers]
    if not barriers and len(call.launches) > 1:
        barriers = [FusionBarrier(reason) for reason in _kernel_roles(call)]
    for plan, bound in call.kernels:
        if not call.scheduled(plan, bound)[0].resident:
            barriers += [FusionBarrier(f"{plan.name} reads its rows again: {reason}") for reason in plan.rereads]
    named_barriers = [FusionBarrier(re.sub(r"\bn(\d+)_(\d+)'*", named, r.reason), r.seconds) for r in barriers]
    return tuple(dict.fromkeys(named_barriers))


# -- the role of each kernel


def _kernel_roles(call: ResolvedCall) -> list[str]:
    """The roles of kernels that no decision separated: attention kernels, and what is computed before them."""
    roles = []
    passes = [k for k, kernel in enumerate(call.plan.kernels) if kernel.attention is not None]
    if len({_operands(call.plan.kernels[k]) for k in passes}) > 1:
        names = " and ".join(f"kernel {k}" for k in passes)
        roles.append(f"{names} weigh by scores of their own: a sum or difference of such results is several passes")
    elif len(passes) > 1:
        *first, last = passes
        names = " and ".join(f"kernel {k}" for k in first)
        roles.append(f"kernel {last} goes over the same scores again, with what {names} found")
    for k, kernel in enumerate(call.plan.kernels):
        readers = [reader for reader in passes if reader > k and _written(kernel) & _read(call.plan.kernels[reader])]
        if kernel.attention is None and readers:
            roles.append(_producer_role(call, k, readers[0]))
    for k, kernel in enumerate(call.plan.kernels):
        panels = [kernel.arrays[n] for phase in kernel.resident if phase.panel_folds for n in _states(phase)]
        states = {(use.kind, use.index) for use in panels}
        merging = [f"kernel {m}" for m, reader in enumerate(call.plan.kernels) if m > k and states & _read(reader)]
        if merging:
            verb = "merges" if len(merging) == 1 else "merge"
            roles.append(f"{' and '.join(merging)} {verb} states of rows, of which a block of kernel {k} has a part")
    return roles or ["the kernels run over different rows and columns"]


def _states(phase: Phase) -> list[int]:
    """The arrays that states of panels are stored in."""
    assert phase.panel_folds is not None
    return [store.operand for store in phase.panel_folds.stores]


def _producer_role(call: ResolvedCall, k: int, reader: int) -> str:
    """The role of a kernel that computes an input of an attention kernel."""
    kernel = call.plan.kernels[k]
    if any("offsets=" in line for line in call.plans.source.header()) and any(p.folds for p in kernel.resident):
        return f"kernel {k} finds each token's sequence, once a token, which kernel {reader} would find for every score"
    return f"kernel {k} computes once what kernel {reader} would compute for every score"


def _operands(kernel: KernelPlan) -> tuple[tuple[str, int], ...]:
    """The arrays that scores are products of."""
    assert kernel.attention is not None
    names = {v.name for s in kernel.attention.scores for body in (s.q, s.k) for v in (*body.args, *body.results)}
    uses = [kernel.arrays[load.operand] for load in kernel.loads if load.value.name in names]
    return tuple((use.kind, use.index) for use in uses)


def _written(kernel: KernelPlan) -> set[tuple[str, int]]:
    return {(use.kind, use.index) for use in kernel.arrays[kernel.inputs :]}


def _read(kernel: KernelPlan) -> set[tuple[str, int]]:
    return {(use.kind, use.index) for use in kernel.arrays[: kernel.inputs]}


# -- why scores are stored


def _stored_scores_limit(call: ResolvedCall) -> str:
    """The limit that an attention kernel exceeds; empty if it has no name."""
    hardware = call.target.hardware
    for plan, bound in call.without_stored_scores() if hardware is not None else ():
        assert hardware is not None
        kernel = bound.kernel
        if isinstance(kernel, AttentionKernel) and schedule_attention(kernel, bound.extents, hardware) is None:
            return _attention_limit(call, plan, bound, kernel, hardware)
    return ""


def _attention_limit(
    call: ResolvedCall, plan: KernelPlan, bound: BoundKernel, kernel: AttentionKernel, hardware: Hardware
) -> str:
    """The limit that one attention kernel exceeds."""
    stream, operands = kernel.attention, operands_of(kernel)
    if len(stream.scores) > 1:
        return f"its scores are sums of {len(stream.scores)} products, and a pass over scores multiplies two arrays"
    if len(stream.weighted_sums) > 1:
        return f"scores weigh {len(stream.weighted_sums)} arrays at once, and a pass over scores weighs one"
    if operands is None:
        return "what is multiplied is no array of one dtype as it lies"
    rows, row = (
        bound.extents[operands.query_axis],
        sorted({kernel.operands[k].dtype.name for k in operands.qkv}),
    )
    kind = row[0] if len(row) == 1 else stream.scores[0].value.dtype.name
    width = bound.extents[stream.scores[0].axis]
    if operands.v != ABSENT:
        wide = bound.extents[stream.weighted_sums[0].axis]
        if wide > WIDEST.get(kind, wide):
            name = array_name(call, plan.arrays[operands.v])
            return f"{name} is {wide} wide, and registers hold rows of results of at most {WIDEST[kind]} in {kind}"
    if rows < LEAST_ROWS:
        return f"a tile has {LEAST_ROWS} rows or more, and these are {rows}"
    shared = hardware.block_shared >> 10
    return f"tiles of rows that are {width} wide in {kind} do not fit the {shared} KiB of shared memory of a block"
