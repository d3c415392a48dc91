"""Which shapes of a kernel have binaries of their own: the first that a process sees; the others share general ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..hardware import Hardware
from ..schedule.bundle import Bundle, BundleSchedule
from ..schedule.general import schedule_general
from ..schedule.line import usual
from ..schedule.plan import KernelPlan, Plan
from .bind import Bound, Family
from .claims import has_own
from .compile import Built, Chosen, cuda_key, plain_key, scheduled_cuda, scheduled_together, shared_parameters, shipped

GENERAL = "general lengths"  # so begins the reason of what serves most of them


def chosen_cuda(plan: KernelPlan, bound: Bound, hardware: Hardware, claim: bool = True) -> tuple[Any, Any]:
    """The kernel and the schedule of a call: for its shapes alone, or, once the family has so many, for most shapes.

    It follows from the calls that the process made before, not from what the cache holds, so that a program that runs
    again gets the same bits again. Unless it is to `claim` what is left, nothing changes for later calls.
    """
    kernel, schedule = scheduled_cuda(bound, hardware)
    family = bound.family
    if family is None or not _counts(plan, bound, schedule):
        return kernel, schedule
    if _has_own(family, cuda_key(kernel, schedule, plan.digest, hardware.cc), claim):
        return kernel, schedule
    found = _general(plan, bound, hardware)
    if found is None:
        return kernel, schedule
    reason = f"{GENERAL}, as {family.own} binaries are for other lengths alone: {found[1].reason}"
    return found[0], replace(found[1], reason=reason)


def joined_cuda(
    members: Sequence[tuple[KernelPlan, Bound]], chosen: Chosen, hardware: Hardware, claim: bool = True
) -> tuple[Bundle, BundleSchedule] | None:
    """Kernels that are to share a launch; None where they cannot, or where enough shapes have such binaries."""
    found, family = scheduled_together(members, chosen, hardware), members[0][1].family
    if found is None or family is None or not any(_counts(*member, found[1]) for member in members):
        return found
    return found if _has_own(_together(family), cuda_key(*found, digests(members), hardware.cc), claim) else None


def digests(members: Sequence[tuple[KernelPlan, Bound]]) -> str:
    """What names the computation of kernels that share a launch."""
    return " ".join(plan.digest for plan, _ in members)


def lasting(built: Built, members: Sequence[tuple[KernelPlan, Bound]], hardware: Hardware) -> Built:
    """A launch of these kernels, with what another process that finds it has to claim; one that is general is not to be
    kept, for it follows from earlier calls."""
    family = members[0][1].family
    if family is None or not any(_counts(*member, built.schedule) for member in members):
        return replace(built, entry="") if built.schedule.reason.startswith(GENERAL) else built
    if len(members) > 1:
        family = _together(family)
    key = cuda_key(built.kernel, built.schedule, digests(members), hardware.cc)
    return replace(built, entry="" if GENERAL in built.schedule.reason else built.entry, claims=_claims(family, key))


def _together(family: Family) -> Family:
    """The family of launches that several kernels share."""
    return replace(family, name=f"{family.name} together", own=family.own // 2)


def _counts(plan: KernelPlan, bound: Bound, schedule: Any) -> bool:
    """Whether the binary of a schedule is one of those of which a family has but a few; of others there are few."""
    few = plan.is_map or bound.kernel.stream is not None or getattr(schedule, "room", 0) > 0
    return bound.family is not None and not few and not usual(bound.kernel, bound.extents)


def crosses(plan: Plan, bounds: Sequence[Bound], hardware: Hardware, claim: bool = True) -> bool:
    """Whether rows and columns are folded by one kernel, which is always for lengths of its own."""
    for kernel, bound in zip(plan.kernels, bounds):
        if bound.kernel.finish is not None and bound.family is not None and not usual(bound.kernel, bound.extents):
            key = cuda_key(*scheduled_cuda(bound, hardware), kernel.digest, hardware.cc)
            if not _has_own(bound.family, key, claim):
                return False
    return True


def _has_own(family: Family, key: tuple, claim: bool) -> bool:
    """Whether the binary of this key is one of the family's own, as it is where it came in a file."""
    return shipped(key) or has_own(*_claims(family, key), claim)


def _claims(family: Family, key: tuple) -> tuple[str, str, int]:
    """What a call on this binary claims, in words that can be kept."""
    return plain_key((family,)), plain_key(key), family.own


def _general(plan: KernelPlan, bound: Bound, hardware: Hardware) -> tuple[Any, Any] | None:
    if bound.streamed is None:
        return None
    found = schedule_general((bound.kernel, bound.streamed), bound.across, bound.extents, hardware)
    if found is None:
        return None
    kernel = replace(found[0], chained=bound.chained)
    return shared_parameters(kernel, found[1], bound.extents), found[1]
