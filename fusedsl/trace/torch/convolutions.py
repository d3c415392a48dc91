"""torch.nn.functional.conv1d of each channel by itself, on tracers: one strided slice for each tap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import ShapeError, Unsupported
from .functions import language, torch_function

MOST_TAPS = 256


@dataclass(frozen=True)
class Convolution:
    """The options of a convolution, in torch's order."""

    bias: Any = None
    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: int = 1


@torch_function()
def conv1d(input, weight, *args, **kwargs):
    """A depthwise convolution: groups is the number of channels."""
    given = Convolution(*args, **kwargs)
    channels, taps = int(input.shape[-2]), int(weight.shape[-1])
    if given.groups != channels or int(weight.shape[0]) != channels or not 0 < taps <= MOST_TAPS:
        help = f"each channel by itself is there: groups is the number of channels, with up to {MOST_TAPS} taps"
        raise Unsupported("conv1d that mixes channels is not supported", "unsupported.function",
                          help=f"{help}; call the library outside, and fuse what surrounds it")  # fmt: skip
    step, spacing = _one(given.stride), _one(given.dilation)
    reach = spacing * (taps - 1)
    before, after = _edges(given.padding, reach)
    rest = [(0, 0)] * (input.ndim - 1)
    wide = language("pad", input, (*rest, (before, after)), "constant", constant_values=0) if before + after else input
    last = int(input.shape[-1]) + before + after - reach
    if last < 1:
        message = f"conv1d of {last + reach} elements, padding included, with taps that span {reach + 1}"
        raise ShapeError(message, "shape.convolve", help="pad the input, or give fewer taps")
    products = [wide[..., k * spacing : k * spacing + last : step] * weight[:, 0, k, None] for k in range(taps)]
    while len(products) > 1:
        pairs = [x + y for x, y in zip(products[::2], products[1::2])]
        products = pairs + products[2 * len(pairs) :]
    return products[0] if given.bias is None else products[0] + given.bias[:, None]


def _one(value: Any) -> int:
    return int(value[0] if isinstance(value, (tuple, list)) else value)


def _edges(padding: Any, reach: int) -> tuple[int, int]:
    """Zeros before and behind."""
    if padding == "same":
        return reach // 2, reach - reach // 2
    width = 0 if padding == "valid" else _one(padding)
    return width, width
