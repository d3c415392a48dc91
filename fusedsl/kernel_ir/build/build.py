"""Turns a group of the partition into a kernel plan: phases over rows or elements, or a pass over scores."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence

from ...fusion.fusion_group import FusionGroup
from ...ir.graph import Parameter
from ..plan import KernelPlan, plan_to_json
from .phases import PhaseBuilder
from .attention import AttentionBuilder
from .uncontracted import forbid_contraction


def build_plan(
    group: FusionGroup, name: str, header: Sequence[str], parameters: Sequence[Parameter], contract: bool = True
) -> KernelPlan:
    """The kernel plan of a group; products may be contracted into sums where `contract` says so."""
    emitter = PhaseBuilder if group.attention is None else AttentionBuilder
    made = emitter(group, parameters).plan(name, tuple(header))
    made = made if contract else forbid_contraction(made)
    return dataclasses.replace(made, digest=_digest(made))


def _digest(plan: KernelPlan) -> str:
    """A name for the computation, whatever the program's name and text."""
    parts: tuple = (plan.is_map, plan.inputs, plan.loads, tuple(p.value for p in plan.positions))
    parts += (plan.resident, plan.looped, plan.finish, plan.pointers)
    parts += (tuple(s.value for s in plan.scalars), tuple((a.name, a.dtype) for a in plan.arrays))
    parts += (plan.stream,) if plan.stream else ()
    return hashlib.sha256(json.dumps(plan_to_json(parts)).encode()).hexdigest()[:16]
