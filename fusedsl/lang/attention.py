"""attention(q, k, v, …) as a graph, with the expressions of score (score_mod) and mask (mask_mod) inlined.

    s = q @ k.mT * scale;  s = score expression;  e = exp(where(mask, s, -inf) - max);  sum(e * v) / sum(e)

A program could compute the same. Query heads that share k and v (GQA) have a separate axis, so that k and v broadcast.
Masked elements have weight 0, even if v is not finite there.
"""

from __future__ import annotations

from ..errors import DTypeError
from ..ir import shapes
from ..ir.builder import GraphBuilder
from ..ir.contraction import matmul, rounded_operand
from ..ir.graph import Node, value_of
from ..ir.types import BOOL
from .attention_layout import AttentionLayout, Request, lay_out, restore_layout
from .error_recovery import EvaluatorBase
from .printer import show
from .score_mask_texts import ScoreMaskEvaluator, assume_full_extents
from .syntax_tree import Conditional


def attention(ev: EvaluatorBase, r: Request) -> Node | tuple[Node, Node]:
    """The result, or (result, log-sum-exp)."""
    b = ev.builder
    layout = lay_out(b, r)
    width = r.q.type.shape[-1]
    wide = r.q.type.dtype.compute
    scale = r.scale if r.scale is not None else b.elementwise("rsqrt", b.convert(b.extent(width), wide))
    q, k, v = (b.convert(rounded_operand(b, x), wide) for x in (layout.q, layout.k, layout.v))
    score = b.elementwise("multiply", matmul(b, q, shapes.swapaxes(b, k, -1, -2)), b.convert(scale, wide))
    score, keep = _apply_score_and_mask(ev, r, score, layout)
    out, lse = _softmax_pv(b, score, keep, v)
    out = restore_layout(b, layout, b.cast(out, r.q.type.dtype))
    return (out, restore_layout(b, layout, shapes.squeeze(b, lse, [4]))) if r.return_lse else out


def _softmax_pv(b: GraphBuilder, score: Node, keep: Node | None, v: Node) -> tuple[Node, Node]:
    """(softmax(score) @ v, log-sum-exp of the scores); 0 and -inf for rows with all keys masked."""
    zero, one = b.literal(0.0), b.literal(1.0)
    if keep is not None:
        score = b.elementwise("where", keep, score, b.literal(float("-inf")))
    largest = shapes.reduce(b, "max", score, -1, keepdims=True, empty=True)
    largest = b.elementwise("where", b.elementwise("isfinite", largest), largest, zero)
    largest = b.stop_gradient(largest)  # the result does not depend on this shift
    e = b.elementwise("exp", b.elementwise("subtract", score, largest))
    total = shapes.reduce(b, "sum", e, -1, keepdims=True)
    if keep is None:
        weighted_sum = matmul(b, e, v)
    else:
        mask, weights = (shapes.expand_dims(b, x, -1) for x in (keep, e))
        products = b.elementwise("multiply", weights, shapes.expand_dims(b, v, -3))
        weighted_sum = shapes.reduce(b, "sum", b.elementwise("where", mask, products, zero), -2)
    nothing = b.elementwise("equal", total, zero)
    out = b.elementwise("divide", weighted_sum, b.elementwise("where", nothing, one, total))
    return out, b.elementwise("add", largest, b.elementwise("log", total))


# -- expressions

MOST_SHOWN = 40  # characters of an expression that a help line repeats


def _apply_score_and_mask(
    ev: EvaluatorBase, r: Request, score: Node, layout: AttentionLayout
) -> tuple[Node, Node | None]:
    """(scores after the score expression, mask or None)."""
    b, keep = ev.builder, list(layout.keep)
    for program in (r.score, r.mask):
        if program is not None and not layout.ragged:
            assume_full_extents(ev, program, r, layout)
    shape = score.type.shape
    if r.score is not None:
        inner = ScoreMaskEvaluator(ev, "score", r.score, score, r, layout)
        modified = _score(inner)
        if modified.op == "where" and modified.args[2].op == "const" and value_of(modified.args[2]) == float("-inf"):
            keep.append(modified.args[0])
        if modified.type.dtype.kind != "f":
            modified = b.convert(modified, score.type.dtype)
        score = b.cast(inner.broadcast(modified, shape), score.type.dtype)
    if r.mask is not None:
        inner = ScoreMaskEvaluator(ev, "mask", r.mask, score, r, layout)
        keep.append(inner.broadcast(_mask(inner), shape))
    combined: Node | None = None
    for condition in keep:
        combined = condition if combined is None else b.elementwise("logical_and", combined, condition)
    return score, None if combined is None else shapes.broadcast_to(b, combined, shape)


def _score(text: ScoreMaskEvaluator) -> Node:
    score = text.value()
    if score.type.dtype is BOOL:
        written = text.tree.text if "'" not in text.tree.text else "..."
        help = f"a condition is a mask: mask='{written}'"
        raise text.error_at(DTypeError("score is a number, and this is a condition", "dtype.attention", help=help))
    return score


def _mask(text: ScoreMaskEvaluator) -> Node:
    mask = text.value()
    if mask.type.dtype is not BOOL:
        message = f"mask is a condition, and this is {mask.type.dtype}"
        raise text.error_at(DTypeError(message, "dtype.attention", help=_condition(text, mask)))
    return mask


def _condition(text: ScoreMaskEvaluator, mask: Node) -> str:
    """The help for a mask that is a number."""
    result = text.tree.results[0]
    written = show(result) if not isinstance(result, Conditional) else f"({show(result)})"
    if len(written) > MOST_SHOWN or "'" in written or text.tree.statements:
        return "compare it, e.g. doc[i] == doc[j]"
    added = f", or score='score + {written}'" if mask.type.dtype.kind == "f" else ""
    return f"write {written} != 0{added}"
