"""Which shapes of a kernel have binaries of their own: the first that a process sees; the others share general ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..backends.cuda.combo import Bundle, BundleSchedule
from ..backends.cuda.dynamic_shapes import schedule_general
from ..backends.cuda.rows.dynamic_threads import usual
from ..hardware import Hardware
from ..kernel_ir.plan import KernelPlan, Plan
from .bind_shapes import BoundKernel, SpecializationGroup
from .compile import (
    ScheduledKernels,
    cuda_key,
    is_preloaded,
    schedule_combo,
    scheduled_cuda,
    shared_parameters,
    unversioned_key,
)
from .specialization_quota import acquire

GENERAL = "general lengths"  # so begins the reason of what serves most of them
MAX_VARIANTS = 3  # binaries of a family whose launches say how many threads work on a row, or are for extents of 1


def specialized_or_generic(
    plan: KernelPlan, bound: BoundKernel, hardware: Hardware, claim: bool = True
) -> tuple[Any, Any]:
    """The kernel and the schedule of a call: for its shapes alone, or, once the family has so many, for most shapes.

    It follows from the calls that the process made before, not from what the cache holds, so that a program that runs
    again gets the same bits again. Unless it is to `claim` what is left, nothing changes for later calls.
    """
    kernel, schedule = scheduled_cuda(bound, hardware)
    if bound.loose:
        schedule = replace(schedule, reason=f"{GENERAL}, 1 among them: {schedule.reason}")
    pool = _quota_group(plan, bound, schedule)
    if pool is None or _acquire(pool, cuda_key(kernel, schedule, plan.digest, hardware.cc), claim):
        return kernel, schedule
    found = _generic(plan, bound, hardware)
    if found is None:
        return kernel, schedule
    reason = f"{GENERAL}, as {pool.own} binaries are for other lengths alone: {found[1].reason}"
    return found[0], replace(found[1], reason=reason)


def generic_for_lists(plan: KernelPlan, bound: BoundKernel, hardware: Hardware) -> tuple[Any, Any] | None:
    """What serves a call among many, beside most others; None where there is nothing but what is for its lengths."""
    found = _generic(plan, bound, hardware, listed=True)
    if found is None:
        return None
    return found[0], replace(found[1], reason=f"{GENERAL} in lists: {found[1].reason}")


def acquire_for_lists(plan: KernelPlan, bound: BoundKernel, kernel: Any, schedule: Any, hardware: Hardware) -> bool:
    """Whether calls over lists of this kernel's family have a binary for the lengths of one of them; it is claimed."""
    pool = _quota_group(plan, bound, schedule)
    if pool is None:
        return True
    pool = replace(pool, name=f"{pool.name} in lists")
    return _acquire(pool, cuda_key(kernel, schedule, plan.digest, hardware.cc), True)


def quota_exhausted(plan: Plan, bounds: Sequence[BoundKernel], hardware: Hardware, listed: bool = False) -> bool:
    """Whether a plan for arguments some of whose extents are 1 has a kernel for which no binary is left; for calls that
    are `listed`, none is ever."""
    if listed:
        return any(bound.units and bound.family for bound in bounds)
    for kernel, bound in zip(plan.kernels, bounds) if any(bound.units for bound in bounds) else ():
        if bound.family is None or bound.empty or 0 in bound.extents:
            continue
        found, schedule = scheduled_cuda(bound, hardware)
        pool = _quota_group(kernel, bound, schedule)
        if pool and not _acquire(pool, cuda_key(found, schedule, kernel.digest, hardware.cc), False):
            return True
    return False


def combo_kernel(
    members: Sequence[tuple[KernelPlan, BoundKernel]], chosen: ScheduledKernels, hardware: Hardware, claim: bool = True
) -> tuple[Bundle, BundleSchedule] | None:
    """Kernels that are to share a launch; None where they cannot, or where enough shapes have such binaries."""
    found, family = schedule_combo(members, chosen, hardware), members[0][1].family
    if found is None or family is None or not any(_is_specialized_kind(*member, found[1]) for member in members):
        return found
    return found if _acquire(_combo_group(family), cuda_key(*found, digests(members), hardware.cc), claim) else None


def digests(members: Sequence[tuple[KernelPlan, BoundKernel]]) -> str:
    """What names the computation of kernels that share a launch."""
    return " ".join(plan.digest for plan, _ in members)


def _combo_group(family: SpecializationGroup) -> SpecializationGroup:
    """The family of launches that several kernels share."""
    return replace(family, name=f"{family.name} together", own=family.own // 2)


def _quota_group(plan: KernelPlan, bound: BoundKernel, schedule: Any) -> SpecializationGroup | None:
    """The family with as many binaries as there are of the kind of this schedule's; None where any number may be: there
    are few of this kind anyhow, or these lengths are those of many models."""
    family = bound.family
    if family is None or usual(bound.kernel, bound.extents):
        return None
    if not _is_specialized_kind(plan, bound, schedule):
        if not (bound.units or getattr(schedule, "room", 0) > 0):
            return None
        few = MAX_VARIANTS if family.own else 0
        family = replace(family, name=f"{family.name}, of which there are few", own=few)
    return replace(family, own=family.own // 2) if bound.units else family


def _is_specialized_kind(plan: KernelPlan, bound: BoundKernel, schedule: Any) -> bool:
    """Whether the binary of a schedule is for one class of lengths alone."""
    few = plan.is_map or bound.kernel.stream is not None or getattr(schedule, "room", 0) > 0
    return bound.family is not None and not few and not usual(bound.kernel, bound.extents)


def acquire_both_axis_kernels(
    plan: Plan, bounds: Sequence[BoundKernel], hardware: Hardware, claim: bool = True
) -> bool:
    """Whether rows and columns are folded by one kernel, which is always for lengths of its own."""
    for kernel, bound in zip(plan.kernels, bounds):
        if bound.kernel.finish is not None and bound.family is not None and not usual(bound.kernel, bound.extents):
            key = cuda_key(*scheduled_cuda(bound, hardware), kernel.digest, hardware.cc)
            if not _acquire(bound.family, key, claim):
                return False
    return True


def _acquire(family: SpecializationGroup, key: tuple, claim: bool) -> bool:
    """Whether the binary of this key is one of the family's own, as it is where it came in a file."""
    return is_preloaded(key) or acquire(
        unversioned_key((replace(family, own=0),)), unversioned_key(key), family.own, claim
    )


def _generic(plan: KernelPlan, bound: BoundKernel, hardware: Hardware, listed: bool = False) -> tuple[Any, Any] | None:
    if bound.streamed is None:
        return None
    found = schedule_general((bound.kernel, bound.streamed), bound.across, bound.extents, hardware, listed)
    if found is None:
        return None
    kernel = replace(found[0], chained=bound.chained)
    return shared_parameters(kernel, found[1], bound.extents), found[1]
