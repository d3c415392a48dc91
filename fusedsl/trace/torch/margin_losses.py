"""torch.nn.functional's margin, pair and likelihood losses on tracers, with torch's signatures and defaults."""

from __future__ import annotations

import math
from typing import Any

from ...errors import ShapeError
from .functions import as_vector, language, need_float, torch_function
from .losses import pairwise_distance, reduce_loss
from .math import clamp, where
from .nn import exp, log, logsigmoid
from .promotion import operate
from .reductions import sum_ as total
from .shapes import unsqueeze


def _positive(x: Any) -> Any:
    return clamp(x, 0)


@torch_function()
def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    return reduce_loss(_positive(-target * (input1 - input2) + margin), reduction, size_average, reduce)


@torch_function()
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    loss = where(target != 1, _positive(margin - input), 0) + where(target != -1, input, 0)
    return reduce_loss(loss, reduction, size_average, reduce)


@torch_function()
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    return reduce_loss(operate(input.recorder, "log1p", exp(-target * input)), reduction, size_average, reduce)


@torch_function()
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    loss = loss if weight is None else loss * weight
    return reduce_loss(total(loss, -1) / input.shape[-1], reduction, size_average, reduce)


@torch_function()
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """multi_margin_loss: for each other class, how far it is within the margin of the target class."""
    need_float("multi_margin_loss", input)
    input = as_vector(input)
    index = unsqueeze(target, -1)
    gap = _positive(margin - language("take_along_axis", input, index, -1) + input)
    gap = gap if p == 1 else gap * gap
    gap = gap if weight is None else gap * unsqueeze(language("take", weight, target), -1)
    other = language("iota", input, input.ndim - 1) != index
    return reduce_loss(total(where(other, gap, 0), -1) / input.shape[-1], reduction, size_average, reduce)


@torch_function()
def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """cosine_embedding_loss; torch adds its epsilon to the squares, unlike cosine_similarity, which clamps norms."""
    squares = [total(language("square", x), -1) + 1e-12 for x in (input1, input2)]
    cosine = total(input1 * input2, -1) * operate(input1.recorder, "rsqrt", squares[0] * squares[1])
    loss = where(target == 1, 1 - cosine, 0) + where(target == -1, _positive(cosine - margin), 0)
    return reduce_loss(loss, reduction, size_average, reduce)


@torch_function()
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"
):
    def distance(x: Any, y: Any) -> Any:
        return pairwise_distance(x, y, p, eps)

    return reduce_loss(_triplet(distance, anchor, positive, negative, margin, swap), reduction, size_average, reduce)


@torch_function()
def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    return reduce_loss(
        _triplet(distance_function or pairwise_distance, anchor, positive, negative, margin, swap), reduction
    )


def _triplet(distance: Any, anchor: Any, positive: Any, negative: Any, margin: Any, swap: bool) -> Any:
    """triplet loss: max(d(anchor, positive) - d(anchor, negative) + margin, 0)."""
    far = distance(anchor, negative)
    if swap:
        far = language("minimum", far, distance(positive, negative))
    return _positive(margin + distance(anchor, positive) - far)


@torch_function()
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """gaussian_nll_loss, with the variance clamped from below by eps, as in torch (which refuses negative ones)."""
    variance = var
    if not isinstance(var, (int, float)):
        if var.ndim < input.ndim:
            variance = unsqueeze(var, -1)
        if variance.ndim != input.ndim:
            raise ShapeError("var has another shape than input", code="shape.loss", help="x.shape, or x.shape[:-1]")
    variance = clamp(variance if not isinstance(var, (int, float)) else language("full_like", input, var), eps)
    loss = 0.5 * (log(variance) + language("square", input - target) / variance)
    return reduce_loss(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@torch_function()
def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
):
    loss = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        stirling = target * log(target) - target + 0.5 * log(2 * math.pi * target)
        loss = loss + where(target <= 1, 0, stirling)
    return reduce_loss(loss, reduction, size_average, reduce)
