"""torch.nn.functional's losses and distances on tracers, with torch's signatures and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...errors import ArgumentError
from ...lang.declared_signatures import declared
from .clamps import clamp, where
from .functions import as_vector, cast, dtype_of, language, need_float, torch_function
from .nn import exp, log, logsigmoid
from .norms import p_norm
from .reductions import mean, total
from .shapes import broadcast_tensors, unsqueeze


def _reduction_name(reduction: str, size_average: Any, reduce: Any) -> str:
    """The reduction's name, also from torch's deprecated size_average and reduce."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ArgumentError(f"reduction is {reduction!r}", "argument.choice", help="none, mean or sum")
    return reduction


def reduce_loss(x: Any, reduction: str) -> Any:
    """The loss reduced by mean or sum, or unreduced."""
    reduction = _reduction_name(reduction, None, None)
    return x if reduction == "none" else mean(x) if reduction == "mean" else total(x)


def loss(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a loss under torch's signature. The function gives a loss per element, or reduces it: `reduction`."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        reduces = "reduction" in inspect.signature(function).parameters

        def reduced(reduction: str, size_average: Any = None, reduce: Any = None, **given: Any) -> Any:
            reduction = _reduction_name(reduction, size_average, reduce)
            if reduces:
                return function(reduction=reduction, **given)
            return reduce_loss(function(**given), reduction)

        reduced.__name__ = function.__name__
        return torch_function()(declared(signature)(reduced))

    return put


def scaled(x: Any, weight: Any) -> Any:
    """The product with a weight, if there is one."""
    return x if weight is None else x * weight


def _weighted(x: Any, weight: Any, reduction: str) -> Any:
    """A weighted loss; its mean divides by the sum of weights."""
    if weight is None or reduction != "mean":
        return reduce_loss(scaled(x, weight), reduction)
    return total(x * weight) / total(weight)


@loss("input, target, size_average=None, reduce=None, reduction='mean', weight=None")
def mse_loss(input, target, weight, reduction):
    return _weighted(language("square", input - target), weight, reduction)


@loss("input, target, size_average=None, reduce=None, reduction='mean', weight=None")
def l1_loss(input, target, weight, reduction):
    return _weighted(abs(input - target), weight, reduction)


@loss("input, target, size_average=None, reduce=None, reduction='mean', beta=1.0")
def smooth_l1_loss(input, target, beta):
    gap = abs(input - target)
    return gap if beta == 0 else where(gap < beta, 0.5 * gap * gap / beta, gap - 0.5 * beta)


@loss("input, target, reduction='mean', delta=1.0, weight=None")
def huber_loss(input, target, delta, weight):
    gap = abs(input - target)
    return scaled(where(gap <= delta, 0.5 * gap * gap, delta * (gap - 0.5 * delta)), weight)


@loss("input, target, weight=None, size_average=None, reduce=None, reduction='mean'")
def binary_cross_entropy(input, target, weight):
    return scaled(-(target * clamp(log(input), -100) + (1 - target) * clamp(log(1 - input), -100)), weight)


@loss("input, target, weight=None, size_average=None, reduce=None, reduction='mean', pos_weight=None")
def binary_cross_entropy_with_logits(input, target, weight, pos_weight):
    log_weight = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    return scaled((1 - target) * input - log_weight * logsigmoid(input), weight)


@torch_function()
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    loss = exp(target) * (target - input) if log_target else language("xlogy", target, target) - target * input
    if reduction == "batchmean" and size_average is None and reduce is None:
        return total(loss) / input.shape[0]
    return reduce_loss(loss, _reduction_name(reduction, size_average, reduce))


@loss("input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'")
def nll_loss(input, target, weight, ignore_index, reduction):
    """-log p of the target class (dimension 1, or 0 of a vector), weighted, without ignored targets."""
    classes = 1 if input.ndim > 1 else 0
    counts = target != ignore_index
    safe = where(counts, target, 0)
    picked = language("take_along_axis", input, unsqueeze(safe, classes), classes)
    each = -(picked.squeeze(classes))
    scale = cast(counts, input.dtype) if weight is None else where(counts, language("take", weight, safe), 0)
    each = where(counts, each if weight is None else each * scale, 0)
    return total(each) / total(scale) if reduction == "mean" else reduce_loss(each, reduction)


@loss(
    "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', "
    "label_smoothing=0.0"
)
def cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing):
    need_float("cross_entropy", input)
    classes = 1 if input.ndim > 1 else 0
    log = language("log_softmax", input, classes)
    if dtype_of(target).kind == "f":
        return _soft_targets(log, target, weight, classes, reduction, label_smoothing)
    sharp = nll_loss(log, target, weight, ignore_index=ignore_index, reduction=reduction)
    if isinstance(label_smoothing, (int, float)) and label_smoothing == 0:
        return sharp
    counts = target != ignore_index
    smoothed = where(counts, -total(_class_weighted(log, weight, classes), classes), 0)
    if reduction == "mean":
        share = cast(counts, log.dtype) if weight is None else where(
            counts, language("take", weight, where(counts, target, 0)), 0)  # fmt: skip
        smooth = total(smoothed) / total(share)
    else:
        smooth = reduce_loss(smoothed, reduction)
    return (1 - label_smoothing) * sharp + label_smoothing / input.shape[classes] * smooth


def _class_weighted(log: Any, weight: Any, classes: int) -> Any:
    """Logarithms of probabilities, each scaled by the weight of its class."""
    return log if weight is None else log * weight.reshape(*[1] * classes, -1, *[1] * (log.ndim - classes - 1))


def _soft_targets(log: Any, target: Any, weight: Any, classes: int, reduction: str, smoothing: Any) -> Any:
    """Cross entropy with probabilities as targets."""
    target = target * (1 - smoothing) + smoothing / log.shape[classes]
    each = -total(target * _class_weighted(log, weight, classes), classes)
    return total(each) / (each.numel()) if reduction == "mean" else reduce_loss(each, reduction)


@torch_function()
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    need_float("cosine_similarity", x1)
    x1, x2 = broadcast_tensors(x1, x2)
    if dim in (0, -1):
        x1, x2 = as_vector(x1), as_vector(x2)
    norms = [clamp(p_norm(x, 2, dim, True), eps) for x in (x1, x2)]
    return total(x1 / norms[0] * (x2 / norms[1]), dim)


@torch_function()
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    return p_norm(x1 - x2 + eps, p, -1, keepdim)


@torch_function()
def cdist(x1, x2, p=2.0, compute_mode=None):
    return p_norm(unsqueeze(x1, -2) - unsqueeze(x2, -3), p, -1, False)
