"""torch.nn.functional's margin, pair and likelihood losses on tracers, with torch's signatures and defaults."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from ...errors import ShapeError
from .clamps import clamp, where
from .functions import as_vector, language, need_float
from .losses import loss, pairwise_distance, scaled
from .nn import exp, log, logsigmoid
from .promotion import operate
from .reductions import total
from .shapes import unsqueeze


def _positive(x: Any) -> Any:
    return clamp(x, 0)


@loss("input1, input2, target, margin=0, size_average=None, reduce=None, reduction='mean'")
def margin_ranking_loss(input1, input2, target, margin):
    return _positive(-target * (input1 - input2) + margin)


@loss("input, target, margin=1.0, size_average=None, reduce=None, reduction='mean'")
def hinge_embedding_loss(input, target, margin):
    return where(target != 1, _positive(margin - input), 0) + where(target != -1, input, 0)


@loss("input, target, size_average=None, reduce=None, reduction='mean'")
def soft_margin_loss(input, target):
    return operate(input.recorder, "log1p", exp(-target * input))


@loss("input, target, weight=None, size_average=None, reduce=None, reduction='mean'")
def multilabel_soft_margin_loss(input, target, weight):
    each = scaled(-(target * logsigmoid(input) + (1 - target) * logsigmoid(-input)), weight)
    return total(each, -1) / input.shape[-1]


@loss("input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction='mean'")
def multi_margin_loss(input, target, p, margin, weight):
    """multi_margin_loss: for each other class, how far it is within the margin of the target class."""
    need_float("multi_margin_loss", input)
    input = as_vector(input)
    index = unsqueeze(target, -1)
    gap = _positive(margin - language("take_along_axis", input, index, -1) + input)
    gap = gap if p == 1 else gap * gap
    gap = gap if weight is None else gap * unsqueeze(language("take", weight, target), -1)
    other = language("iota", input, input.ndim - 1) != index
    return total(where(other, gap, 0), -1) / input.shape[-1]


@loss("input1, input2, target, margin=0, size_average=None, reduce=None, reduction='mean'")
def cosine_embedding_loss(input1, input2, target, margin):
    """cosine_embedding_loss; torch adds its epsilon to the squares, unlike cosine_similarity, which clamps norms."""
    squares = [total(language("square", x), -1) + 1e-12 for x in (input1, input2)]
    cosine = total(input1 * input2, -1) * operate(input1.recorder, "rsqrt", squares[0] * squares[1])
    return where(target == 1, 1 - cosine, 0) + where(target == -1, _positive(cosine - margin), 0)


@loss(
    "anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, "
    "reduction='mean'"
)
def triplet_margin_loss(p, eps, **triplet):
    return _triplet(partial(pairwise_distance, p=p, eps=eps), **triplet)


@loss("anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction='mean'")
def triplet_margin_with_distance_loss(distance_function, **triplet):
    return _triplet(distance_function or pairwise_distance, **triplet)


def _triplet(distance: Any, anchor: Any, positive: Any, negative: Any, margin: Any, swap: bool) -> Any:
    """triplet loss: max(d(anchor, positive) - d(anchor, negative) + margin, 0)."""
    far = distance(anchor, negative)
    if swap:
        far = language("minimum", far, distance(positive, negative))
    return _positive(margin + distance(anchor, positive) - far)


@loss("input, target, var, full=False, eps=1e-6, reduction='mean'")
def gaussian_nll_loss(input, target, var, full, eps):
    """gaussian_nll_loss, with the variance clamped from below by eps, as in torch (which refuses negative ones)."""
    variance = var
    if not isinstance(var, (int, float)):
        if var.ndim < input.ndim:
            variance = unsqueeze(var, -1)
        if variance.ndim != input.ndim:
            raise ShapeError("var has another shape than input", "shape.loss", help="x.shape, or x.shape[:-1]")
    variance = clamp(variance if not isinstance(var, (int, float)) else language("full_like", input, var), eps)
    each = 0.5 * (log(variance) + language("square", input - target) / variance)
    return each + 0.5 * math.log(2 * math.pi) if full else each


@loss("input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction='mean'")
def poisson_nll_loss(input, target, log_input, full, eps):
    each = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        stirling = target * log(target) - target + 0.5 * log(2 * math.pi * target)
        each = each + where(target <= 1, 0, stirling)
    return each
