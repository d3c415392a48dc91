"""Copies of operands: arguments that a large product would load element by element, or that wgmma cannot read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from ..backends.cuda.matmul.sm90.layout import Sm90MatmulSchedule
from ..config import TENSOR_FLOAT
from ..errors import FusionError
from ..fusion.formulation import Formulation, OperandCopy
from ..hardware import Hardware
from ..kernel_ir.matmul_operands import MatmulOperands, matmul_operands
from ..kernel_ir.plan import KernelPlan
from ..runtime.bound_kernel import BoundKernel
from ..runtime.compile import scheduled_cuda
from .call_time import PricedCall, call_seconds

WORTH = 0.9  # of the time without copies: a smaller gain is not worth the memory

Call = TypeVar("Call", bound=PricedCall)


def with_operand_copies(
    call: Call, is_large: Callable[[BoundKernel], bool], resolve_as: Callable[[Formulation], Call]
) -> Call:
    """The call, or one whose products multiply copies of some arguments, if that is predicted to take less time.

    Rows of a copy are aligned, and stand in the order in which the product reads them.
    """
    if call.target.hardware is None or call.plan.copies or call.plans.options.batch_invariant:
        return call
    candidates = {copy for plan, bound in call.kernels if is_large(bound) for copy in _worth_copying(call, plan, bound)}
    copies = tuple(
        {one.argument: one for one in sorted(candidates, key=lambda one: (one.argument, one.turned))}.values()
    )
    if not copies:
        return call
    try:
        other = resolve_as(replace(call.plan.formulation, copies=copies))
    except FusionError:  # more kernels than the caller allows
        return call
    same = other.plan.copies == copies and other.plan.products is call.plan.products
    return other if same and call_seconds(other) < WORTH * call_seconds(call) else call


def _worth_copying(call: PricedCall, plan: KernelPlan, bound: BoundKernel) -> Iterator[OperandCopy]:
    """Copies of arguments that tensor cores would be fed faster from: of lines that are not aligned; and of those with
    the rows, whose lines run across the sum, where wgmma reads no such matrix."""
    operands = matmul_operands(bound.kernel)
    hardware = call.target.hardware
    assert hardware is not None
    if bound.empty or operands is None:
        return
    size, turned = bound.kernel.operands[operands.left[0]].dtype.itemsize, set[int]()
    if size > 2 and bound.kernel.matmul not in TENSOR_FLOAT:
        return
    if hardware.cc[0] == 9 and size != 2:
        turned = set() if _is_by_wgmma(bound, hardware) else _across_terms(bound, operands)
    for k in (*operands.left, *operands.right):
        use = plan.arrays[k]
        if use.kind == "argument" and (k in turned or bound.kernel.operands[k].near_access != "vector"):
            yield OperandCopy(use.index, k in turned)


def _across_terms(bound: BoundKernel, operands: MatmulOperands) -> set[int]:
    """The operands with the rows whose lines do not run along the sum."""
    kernel = bound.kernel
    return {k for k in operands.left if kernel.operands[k].near != kernel.row_axes}


def _is_by_wgmma(bound: BoundKernel, hardware: Hardware) -> bool:
    return isinstance(scheduled_cuda(bound, hardware)[1], Sm90MatmulSchedule)
