"""Option fp_contract=False: every product in a plan's bodies is rounded before it is added."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...ir.types import DType
from ..instruction import Instruction
from ..phase import Body
from ..plan import KernelPlan

COMBINERS = ("combine", "combine_tile")  # of Reduction and of WeightedSum: their bodies combine two states


def forbid_contraction(plan: KernelPlan) -> KernelPlan:
    """The plan with `mul_rn` for float products, which neither LLVM nor PTX contracts."""
    return _changed(plan)


def _changed(part: Any) -> Any:
    if isinstance(part, tuple):
        return tuple(map(_changed, part))
    if not dataclasses.is_dataclass(part) or isinstance(part, (type, DType)):  # dtypes are compared by identity
        return part
    if isinstance(part, Body):
        return dataclasses.replace(part, instructions=tuple(map(_rounded, part.instructions)))
    fields = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    changed = {
        name: _changed(old) for name, old in fields.items() if not (name in COMBINERS and _is_single_product(old))
    }
    return dataclasses.replace(part, **changed)


def _rounded(i: Instruction) -> Instruction:
    return dataclasses.replace(i, op="mul_rn") if i.op == "multiply" and i.dtype.kind == "f" else i


def _is_single_product(combine: Body) -> bool:
    """Whether a combine body is one product: nothing is added to it, and emitters match its form."""
    return len(combine.instructions) == 1
