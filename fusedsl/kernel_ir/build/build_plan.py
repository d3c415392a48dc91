"""Builds the kernel plan of a fusion group: phases over rows or elements, or attention."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence

from ...fusion.fusion_group import FusionGroup
from ...ir.graph import Parameter
from ..plan import KernelPlan, plan_to_json
from .attention import AttentionBuilder
from .fp_contract_off import forbid_contraction
from .looped_phases import LoopedPhases
from .phases import PhaseBuilder


def build_plan(
    group: FusionGroup, name: str, header: Sequence[str], parameters: Sequence[Parameter], contract: bool = True
) -> KernelPlan:
    """Kernel plan of a group; `contract` allows products to be contracted with sums (fused multiply-add)."""
    builder = PhaseBuilder(group, parameters) if group.attention is None else AttentionBuilder(group, parameters)
    plan = builder.plan(name, tuple(header))
    if not (group.attention or group.is_elementwise or group.column_folds):
        loops = LoopedPhases(builder)
        plan = dataclasses.replace(plan, looped=loops.phases(), rereads=loops.reasons)
    plan = plan if contract else forbid_contraction(plan)
    return dataclasses.replace(plan, digest=digest_of(plan))


def digest_of(plan: KernelPlan) -> str:
    """Hash of the computation, independent of the program's name and text."""
    parts: tuple = (plan.is_elementwise, plan.inputs, plan.loads, tuple(p.value for p in plan.positions))
    parts += (plan.resident, plan.looped, plan.column_epilogue, plan.pointers)
    parts += (tuple(s.value for s in plan.scalars), tuple((a.name, a.dtype) for a in plan.arrays))
    parts += (plan.attention,) if plan.attention else ()
    return hashlib.sha256(json.dumps(plan_to_json(parts)).encode()).hexdigest()[:16]
