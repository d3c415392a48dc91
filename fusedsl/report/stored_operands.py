"""Notes on what attention stores: operands that are computed first, and scores where no kernel attends without them."""

from __future__ import annotations

from math import prod

from ..fusion.formulation import AttentionMode
from ..ir.dims import evaluate
from ..kernel_ir.attention_operands import ABSENT, operands_of
from ..kernel_ir.kernel import AttentionKernel
from ..kernel_ir.plan import ArrayUse
from ..program.resolve_call import ResolvedCall
from .units import bytes_text


def stored_operand_notes(call: ResolvedCall) -> list[str]:
    """A note for each attention kernel whose operands other kernels store, and one for scores that are stored."""
    notes = []
    for number, members in enumerate(call.launches):
        for plan, bound in members:
            operands = operands_of(bound.kernel) if isinstance(bound.kernel, AttentionKernel) else None
            roles = zip("qkv", (operands.q, operands.k, operands.v)) if operands is not None else ()
            stored = [(role, plan.arrays[k]) for role, k in roles if k != ABSENT and plan.arrays[k].kind == "temporary"]
            if stored:
                notes.append(_operands_note(call, number, dict(stored)))
    return notes + _scores_note(call)


def _operands_note(call: ResolvedCall, number: int, stored: dict[str, ArrayUse]) -> str:
    names = " and ".join(stored)
    places = " and ".join(_place(call, use.index) for use in stored.values())
    verb = "is" if len(stored) == 1 else "are"
    return f"{names} of kernel {number} {verb} stored first, as {places}: attention multiplies arrays, of one dtype"


def _scores_note(call: ResolvedCall) -> list[str]:
    """The note that names the arrays of scores that are stored, if the plan gives up an attention kernel."""
    if call.plan.attention is not AttentionMode.MATERIALIZED:
        return []
    sizes = set()
    for _, bound in call.without_stored_scores():
        if isinstance(bound.kernel, AttentionKernel):
            sizes.add(prod(bound.extents[: bound.kernel.row_axes + 1]))
    stored = [k for k in range(len(call.plan.temporaries)) if prod(_shape(call, k)) in sizes]
    if not stored:
        return []
    return [f"scores, and weights computed from them, are stored: {', '.join(_place(call, k) for k in stored)}"]


def _place(call: ResolvedCall, k: int) -> str:
    """A temporary with its bytes."""
    size = call.plan.temporaries[k].dtype.itemsize * prod(_shape(call, k))
    return f"temporary {k} ({bytes_text(size)})"


def _shape(call: ResolvedCall, k: int) -> tuple[int, ...]:
    return tuple(evaluate(d, call.extents) for d in call.plan.temporaries[k].shape)
