"""Approximate exp2 for exponentials that are measured from the row's maximum and only summed."""

from __future__ import annotations

from dataclasses import replace

from ....ir.types import FLOAT32
from ....kernel_ir.instruction import Constant, Instruction
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body, Phase


def summed_exponentials(kernel: KernelIR, phase: Phase, body: Body) -> Body:
    """The body with `exp_for_sum` where sums alone read exp(u - M), M the row's (or tile's) extreme u.

    exp(t) = 2**(t log2 e) with a rounded product has the relative error |t| 2**-24, and |t| exp(t) 2**-24 is at most
    2**-25 of the largest summand, 1; the hardware's 2**x is accurate to 2 ulp. What is below 2**-126 adds nothing.
    """
    alone = _summed(phase) - _read(kernel, phase)
    by_target = {i.target: i for i in body.instructions}
    near = {
        i.target: replace(i, op="exp_for_sum")
        for i in body.instructions
        if i.op == "exp" and i.target in alone and _from_extreme(kernel, by_target, by_target.get(str(i.args[0])))
    }
    return replace(body, instructions=tuple(near.get(i.target, i) for i in body.instructions))


def _summed(phase: Phase) -> set[str]:
    """Names that a sum in float32 takes."""
    return {v.name for use in phase.folds if use.name == "sum" for v in use.inputs if v.dtype is FLOAT32}


def _read(kernel: KernelIR, phase: Phase) -> set[str]:
    """Names that anything but a sum of this phase reads."""
    names = {value.name for use in phase.folds if use.name != "sum" for value in use.inputs}
    names |= phase.names_read_inside | {store.value for store in phase.stores}
    return names.union(*({value.name for value in other.reads} for other in _passes(kernel) if other is not phase))


def _passes(kernel: KernelIR) -> list[Phase]:
    return [part for phase in kernel.phases for part in phase.passes]


def _from_extreme(kernel: KernelIR, by_target: dict[str, Instruction], power: Instruction | None) -> bool:
    """Is this u - M, or that times a number, so that it is nowhere positive?"""
    kind = "max"
    match power:
        case Instruction(op="multiply", args=(str(value), Constant() as factor)):
            kind, power = "min" if float(factor.value) < 0 else "max", by_target.get(value)
    match power:
        case Instruction(op="subtract", args=(str(value), str(reference))):
            return (kind, value, _origin(kernel, reference)) in _extremes(kernel)
    return False


def _extremes(kernel: KernelIR) -> set[tuple[str, str, str]]:
    """(max or min, what is folded, the name of its extreme)."""
    uses = [use for phase in _passes(kernel) for use in phase.folds if use.name in ("max", "min")]
    return {(use.name, use.inputs[0].name, use.accumulators[0].name) for use in uses}


def _origin(kernel: KernelIR, name: str) -> str:
    """The row value that another is, unless it is not finite."""
    rows = [phase.row for phase in _passes(kernel) if phase.row is not None]
    match {i.target: i for row in rows for i in row.instructions}.get(name):
        case Instruction(op="where", args=(str(), str(value), Constant(text="0.0"))):
            return value
    return name
