"""Which shapes of a kernel have binaries of their own: the first that a process sees; the others share general ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..backends.cuda.combo import ComboKernel, ComboSchedule
from ..backends.cuda.dynamic_shapes import schedule_dynamic_shapes
from ..backends.cuda.rows.dynamic_threads import has_common_length
from ..hardware import Hardware
from ..kernel_ir.plan import KernelPlan, Plan
from .bind_shapes import Bound, Family
from .compile import Chosen, cuda_key, plain_key, scheduled_cuda, scheduled_together, shared_parameters, shipped
from .specialization_quota import has_own

GENERAL = "general lengths"  # so begins the reason of what serves most of them
FEW = 3  # binaries of a family whose launches say how many threads work on a row, or are for extents of 1


def chosen_cuda(plan: KernelPlan, bound: Bound, hardware: Hardware, claim: bool = True) -> tuple[Any, Any]:
    """The kernel and the schedule of a call: for its shapes alone, or, once the family has so many, for most shapes.

    It follows from the calls that the process made before, not from what the cache holds, so that a program that runs
    again gets the same bits again. Unless it is to `claim` what is left, nothing changes for later calls.
    """
    kernel, schedule = scheduled_cuda(bound, hardware)
    if bound.loose:
        schedule = replace(schedule, reason=f"{GENERAL}, 1 among them: {schedule.reason}")
    pool = _pool(plan, bound, schedule)
    if pool is None or _has_own(pool, cuda_key(kernel, schedule, plan.digest, hardware.cc), claim):
        return kernel, schedule
    found = _general(plan, bound, hardware)
    if found is None:
        return kernel, schedule
    reason = f"{GENERAL}, as {pool.own} binaries are for other lengths alone: {found[1].reason}"
    return found[0], replace(found[1], reason=reason)


def listed_general(plan: KernelPlan, bound: Bound, hardware: Hardware) -> tuple[Any, Any] | None:
    """What serves a call among many, beside most others; None where there is nothing but what is for its lengths."""
    found = _general(plan, bound, hardware, listed=True)
    if found is None:
        return None
    return found[0], replace(found[1], reason=f"{GENERAL} in lists: {found[1].reason}")


def has_listed(plan: KernelPlan, bound: Bound, kernel: Any, schedule: Any, hardware: Hardware) -> bool:
    """Whether calls over lists of this kernel's family have a binary for the lengths of one of them; it is claimed."""
    pool = _pool(plan, bound, schedule)
    if pool is None:
        return True
    pool = replace(pool, name=f"{pool.name} in lists")
    return _has_own(pool, cuda_key(kernel, schedule, plan.digest, hardware.cc), True)


def crowded(plan: Plan, bounds: Sequence[Bound], hardware: Hardware, listed: bool = False) -> bool:
    """Whether a plan for arguments some of whose extents are 1 has a kernel for which no binary is left; for calls that
    are `listed`, none is ever."""
    if listed:
        return any(bound.units and bound.family for bound in bounds)
    for kernel, bound in zip(plan.kernels, bounds) if any(bound.units for bound in bounds) else ():
        if bound.family is None or bound.empty or 0 in bound.extents:
            continue
        found, schedule = scheduled_cuda(bound, hardware)
        pool = _pool(kernel, bound, schedule)
        if pool and not _has_own(pool, cuda_key(found, schedule, kernel.digest, hardware.cc), False):
            return True
    return False


def joined_cuda(
    members: Sequence[tuple[KernelPlan, Bound]], chosen: Chosen, hardware: Hardware, claim: bool = True
) -> tuple[ComboKernel, ComboSchedule] | None:
    """Kernels that are to share a launch; None where they cannot, or where enough shapes have such binaries."""
    found, family = scheduled_together(members, chosen, hardware), members[0][1].family
    if found is None or family is None or not any(_counts(*member, found[1]) for member in members):
        return found
    return found if _has_own(_together(family), cuda_key(*found, digests(members), hardware.cc), claim) else None


def digests(members: Sequence[tuple[KernelPlan, Bound]]) -> str:
    """What names the computation of kernels that share a launch."""
    return " ".join(plan.digest for plan, _ in members)


def _together(family: Family) -> Family:
    """The family of launches that several kernels share."""
    return replace(family, name=f"{family.name} together", own=family.own // 2)


def _pool(plan: KernelPlan, bound: Bound, schedule: Any) -> Family | None:
    """The family with as many binaries as there are of the kind of this schedule's; None where any number may be: there
    are few of this kind anyhow, or these lengths are those of many models."""
    family = bound.family
    if family is None or has_common_length(bound.kernel, bound.extents):
        return None
    if not _counts(plan, bound, schedule):
        if not (bound.units or getattr(schedule, "max_threads", 0) > 0):
            return None
        few = FEW if family.own else 0
        family = replace(family, name=f"{family.name}, of which there are few", own=few)
    return replace(family, own=family.own // 2) if bound.units else family


def _counts(plan: KernelPlan, bound: Bound, schedule: Any) -> bool:
    """Whether the binary of a schedule is for one class of lengths alone."""
    few = plan.is_elementwise or bound.kernel.attention is not None or getattr(schedule, "max_threads", 0) > 0
    return bound.family is not None and not few and not has_common_length(bound.kernel, bound.extents)


def crosses(plan: Plan, bounds: Sequence[Bound], hardware: Hardware, claim: bool = True) -> bool:
    """Whether rows and columns are folded by one kernel, which is always for lengths of its own."""
    for kernel, bound in zip(plan.kernels, bounds):
        if (
            bound.kernel.column_epilogue is not None
            and bound.family is not None
            and not has_common_length(bound.kernel, bound.extents)
        ):
            key = cuda_key(*scheduled_cuda(bound, hardware), kernel.digest, hardware.cc)
            if not _has_own(bound.family, key, claim):
                return False
    return True


def _has_own(family: Family, key: tuple, claim: bool) -> bool:
    """Whether the binary of this key is one of the family's own, as it is where it came in a file."""
    return shipped(key) or has_own(plain_key((replace(family, own=0),)), plain_key(key), family.own, claim)


def _general(plan: KernelPlan, bound: Bound, hardware: Hardware, listed: bool = False) -> tuple[Any, Any] | None:
    if bound.streamed is None:
        return None
    found = schedule_dynamic_shapes((bound.kernel, bound.streamed), bound.across, bound.extents, hardware, listed)
    if found is None:
        return None
    kernel = replace(found[0], pdl=bound.chained)
    return shared_parameters(kernel, found[1], bound.extents), found[1]
