"""Resource cards: registers, shared memory and occupancy of a call's kernels on each GPU architecture; needs no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import FusedslError
from ..hardware import hardware_facts
from ..program.call_target import architecture
from ..program.resolve_call import ResolvedCall, resolve
from .kernel_report import KernelReport, report_launch

ARCHITECTURES = ((8, 0), (8, 6), (8, 9), (9, 0), (12, 0))


@dataclass(frozen=True)
class ResourceCard:
    """The kernels of a call on one architecture; `note` says why there are none."""

    cc: str
    card: str
    kernels: tuple[KernelReport, ...]
    note: str = ""


def resource_cards(
    call: ResolvedCall, capabilities: Sequence[tuple[int, int]] = ARCHITECTURES
) -> tuple[ResourceCard, ...]:
    """A card for each compute capability: kernels are compiled for it, whatever GPU is here."""
    return tuple(_resource_card(call, cc) for cc in capabilities)


def _resource_card(call: ResolvedCall, cc: tuple[int, int]) -> ResourceCard:
    hardware = hardware_facts(cc)
    name = f"{cc[0]}.{cc[1]}"
    try:
        same = call.target.hardware is not None and call.target.cc == cc
        there = call if same else resolve(call.plans, call.arguments, replace(architecture(hardware), cc=cc))
        kernels = tuple(_compiled(there, members) for members in there.launches)
    except FusedslError as fault:
        return ResourceCard(name, hardware.card, (), fault.message)
    return ResourceCard(name, call.target.hardware.card if same and call.target.hardware else hardware.card, kernels)


def _compiled(call: ResolvedCall, members: Any) -> KernelReport:
    if call.is_by_library(members) or any(bound.empty for _, bound in members):
        return report_launch(call, members, None)
    return report_launch(call, members, call.built(members))
