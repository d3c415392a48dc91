"""Which shapes of a kernel get specialised binaries: the first that a process calls; later ones share generic ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..backends.cuda.combo import ComboKernel, ComboSchedule
from ..backends.cuda.dynamic_shapes import schedule_dynamic_shapes
from ..backends.cuda.rows.dynamic_threads import has_common_length
from ..hardware import Hardware
from ..kernel_ir.kernel import AttentionKernel, RowColumnKernel
from ..kernel_ir.plan import KernelPlan, Plan
from .bound_kernel import BoundKernel, SpecializationGroup
from .compile import ScheduledKernels, cuda_key, is_preloaded, scheduled_combo, scheduled_cuda, unversioned_key
from .specialization_quota import acquire

GENERAL = "shape-generic"  # how the reason of a generic schedule begins
MAX_VARIANTS = 3  # binaries of a kind whose thread count is a launch parameter, or that are for unit extents


def specialized_or_generic(
    plan: KernelPlan, bound: BoundKernel, hardware: Hardware, reserve: bool = True
) -> tuple[Any, Any]:
    """The kernel and schedule of a call: specialised for its lengths, or generic once the group's quota is used up.

    The choice follows from the earlier calls of the process, not from the cache's content: a program that runs again
    gets the same bits again. Without `reserve` the quota stays as it is.
    """
    kernel, schedule = scheduled_cuda(bound, hardware)
    if bound.symbolic_units:
        schedule = schedule.with_reason(f"{GENERAL}, a size of 1 included: {schedule.reason}")
    group = _quota_group(plan, bound, schedule)
    if group is None or _acquire(group, cuda_key(kernel, schedule, plan.digest, hardware.cc), reserve):
        return kernel, schedule
    generic = _generic(plan, bound, hardware)
    if generic is None:
        return kernel, schedule
    reason = f"{GENERAL}, as {group.limit} specialised binaries serve other lengths: {generic[1].reason}"
    return generic[0], generic[1].with_reason(reason)


def generic_for_lists(plan: KernelPlan, bound: BoundKernel, hardware: Hardware) -> tuple[Any, Any] | None:
    """The generic kernel for one call of a foreach; None if there is only a specialised one."""
    generic = _generic(plan, bound, hardware, listed=True)
    if generic is None:
        return None
    return generic[0], generic[1].with_reason(f"{GENERAL}, for lists: {generic[1].reason}")


def acquire_for_lists(plan: KernelPlan, bound: BoundKernel, kernel: Any, schedule: Any, hardware: Hardware) -> bool:
    """Whether foreach calls of this kernel's group get a binary for the lengths of one of them; it is reserved."""
    group = _quota_group(plan, bound, schedule)
    if group is None:
        return True
    group = replace(group, name=f"{group.name} in lists")
    return _acquire(group, cuda_key(kernel, schedule, plan.digest, hardware.cc), True)


def quota_exhausted(plan: Plan, bounds: Sequence[BoundKernel], hardware: Hardware, listed: bool = False) -> bool:
    """Whether a plan with unit extents has a kernel for which the quota is used up.

    For foreach calls (`listed`) the quota of unit extents is 0.
    """
    if listed:
        return any(bound.has_unit_extents and bound.specialization_group for bound in bounds)
    for kernel, bound in zip(plan.kernels, bounds) if any(bound.has_unit_extents for bound in bounds) else ():
        if bound.specialization_group is None or bound.empty or 0 in bound.extents:
            continue
        kernel_ir, schedule = scheduled_cuda(bound, hardware)
        group = _quota_group(kernel, bound, schedule)
        if group and not _acquire(group, cuda_key(kernel_ir, schedule, kernel.digest, hardware.cc), False):
            return True
    return False


def combo_kernel(
    members: Sequence[tuple[KernelPlan, BoundKernel]],
    chosen: ScheduledKernels,
    hardware: Hardware,
    reserve: bool = True,
) -> tuple[ComboKernel, ComboSchedule] | None:
    """The combo kernel of kernels that are to share a launch; None if they cannot, or if their quota is used up."""
    combo, group = scheduled_combo(members, chosen, hardware), members[0][1].specialization_group
    if combo is None or group is None or not any(_is_specialized_kind(*member, combo[1]) for member in members):
        return combo
    return combo if _acquire(_combo_group(group), cuda_key(*combo, digests(members), hardware.cc), reserve) else None


def digests(members: Sequence[tuple[KernelPlan, BoundKernel]]) -> str:
    """The digest of a combo kernel: those of its members."""
    return " ".join(plan.digest for plan, _ in members)


def _combo_group(group: SpecializationGroup) -> SpecializationGroup:
    """The specialisation group of combo kernels."""
    return replace(group, name=f"{group.name} together", limit=group.limit // 2)


def _quota_group(plan: KernelPlan, bound: BoundKernel, schedule: Any) -> SpecializationGroup | None:
    """The group whose limit applies to a schedule of this kind.

    None if there is no limit: this kind has few binaries anyhow, or these lengths are those of many models.
    """
    group = bound.specialization_group
    if group is None or has_common_length(bound.kernel, bound.extents):
        return None
    if not _is_specialized_kind(plan, bound, schedule):
        if not (bound.has_unit_extents or schedule.max_threads > 0):
            return None
        few = MAX_VARIANTS if group.limit else 0
        group = replace(group, name=f"{group.name}, of which there are few", limit=few)
    return replace(group, limit=group.limit // 2) if bound.has_unit_extents else group


def _is_specialized_kind(plan: KernelPlan, bound: BoundKernel, schedule: Any) -> bool:
    """Whether the binary of a schedule serves one class of lengths alone."""
    few = plan.is_elementwise or isinstance(bound.kernel, AttentionKernel) or schedule.max_threads > 0
    few = few or not schedule.length_specialized
    return bound.specialization_group is not None and not few and not has_common_length(bound.kernel, bound.extents)


def acquire_both_axis_kernels(
    plan: Plan, bounds: Sequence[BoundKernel], hardware: Hardware, reserve: bool = True
) -> bool:
    """Whether kernels that reduce rows and columns may be used: they are always specialised."""
    for kernel, bound in zip(plan.kernels, bounds):
        if (
            isinstance(bound.kernel, RowColumnKernel)
            and bound.specialization_group is not None
            and not has_common_length(bound.kernel, bound.extents)
        ):
            key = cuda_key(*scheduled_cuda(bound, hardware), kernel.digest, hardware.cc)
            if not _acquire(bound.specialization_group, key, reserve):
                return False
    return True


def _acquire(group: SpecializationGroup, key: tuple, reserve: bool) -> bool:
    """Whether the binary of this key is specialised: within the quota, or preloaded from a saved file."""
    return is_preloaded(key) or acquire(
        unversioned_key((replace(group, limit=0),)), unversioned_key(key), group.limit, reserve
    )


def _generic(plan: KernelPlan, bound: BoundKernel, hardware: Hardware, listed: bool = False) -> tuple[Any, Any] | None:
    """The kernel and schedule for general lengths; None if there is none."""
    if bound.looped is None:
        return None
    scheduled = schedule_dynamic_shapes((bound.kernel, bound.looped), bound.transposed, bound.extents, hardware, listed)
    if scheduled is None:
        return None
    kernel = replace(scheduled[0], pdl=bound.chained)
    return scheduled[1].with_parameters(kernel, bound.extents), scheduled[1]
