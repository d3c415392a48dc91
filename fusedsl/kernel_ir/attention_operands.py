"""Operands of an attention kernel: which arrays are q, k and v, and which axis a query tile lies along."""

from __future__ import annotations

from dataclasses import dataclass

from .kernel import AttentionKernel
from .phase import Body

ABSENT = -1  # index of an absent operand or axis


@dataclass(frozen=True)
class AttentionOperands:
    """Operands of both products, by index (`v` ABSENT: reductions alone), the query axis of a tile, paged operands."""

    q: int
    k: int
    v: int
    query_axis: int
    paged: tuple[int, ...] = ()

    @property
    def qkv(self) -> tuple[int, ...]:
        """q, k and v, without what is absent."""
        return tuple(k for k in (self.q, self.k, self.v) if k != ABSENT)


def has_computed_or_paged_operands(kernel: AttentionKernel) -> bool:
    """Whether a factor of a product is computed, or looked up in a page table: else each is an array."""
    body = kernel.attention
    factors = [factor for score in body.scores for factor in (score.q, score.k)]
    factors += [weighted.v for weighted in body.weighted_sums]
    return body.paged is not None or any(loaded_operand(kernel, factor) is None for factor in factors)


def operands_of(kernel: AttentionKernel) -> AttentionOperands | None:
    """The operands of a body with one score and at most one weighted sum, whose operands are arrays or paged arrays."""
    body, paged = kernel.attention, kernel.attention.paged
    if not body.running_reference or len(body.scores) != 1 or len(body.weighted_sums) > 1:
        return None
    paged_rows = (None, paged.k, paged.v) if paged else (None, None, None)
    factors = (body.scores[0].q, body.scores[0].k, *(w.v for w in body.weighted_sums))
    indices = [
        loaded_operand(kernel, factor) if row is None else row.operand for factor, row in zip(factors, paged_rows)
    ]
    q, k, v = (*indices, ABSENT)[:3]
    if q is None or k is None or v is None:
        return None
    query_axes = [a for a in body.query_axes if kernel.operands[q].strides[a] != "0"]
    if not query_axes and all(operand.strides[body.query_axes[-1]] == "0" for operand in kernel.operands):
        query_axes = list(body.query_axes)  # a query axis of extent 1
    if not query_axes:
        return None
    return AttentionOperands(q, k, v, query_axes[-1], tuple(row.operand for row in paged_rows if row is not None))


def scheduled_operands(kernel: AttentionKernel) -> AttentionOperands:
    """The operands of a kernel that has a schedule."""
    operands = operands_of(kernel)
    assert operands is not None
    return operands


def loaded_operand(kernel: AttentionKernel, body: Body) -> int | None:
    """The operand that a body loads and returns unchanged."""
    if body.instructions or len(body.results) != 1:
        return None
    name = body.results[0].name
    return next((load.operand for load in kernel.loads if load.value.name == name), None)
