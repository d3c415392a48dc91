"""torch.nn.functional.conv1d, conv2d and conv3d on tracers, by the language's convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .functions import language, torch_function


@dataclass(frozen=True)
class ConvolutionArguments:
    """The options of a convolution, in torch's order."""

    bias: Any = None
    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: int = 1


@torch_function()
def conv1d(input, weight, *args, **kwargs):
    return _convolution(input, weight, 1, ConvolutionArguments(*args, **kwargs))


@torch_function()
def conv2d(input, weight, *args, **kwargs):
    return _convolution(input, weight, 2, ConvolutionArguments(*args, **kwargs))


@torch_function()
def conv3d(input, weight, *args, **kwargs):
    return _convolution(input, weight, 3, ConvolutionArguments(*args, **kwargs))


def _convolution(input: Any, weight: Any, axes: int, how: ConvolutionArguments) -> Any:
    """A convolution along so many axes; an input without samples is one."""
    options = (_one(option) for option in (how.stride, how.padding, how.dilation, how.groups))
    alone = input.ndim == axes + 1
    result = language("conv", input[None] if alone else input, weight, *options)
    if how.bias is not None:
        result = result + how.bias[(slice(None), *[None] * axes)]
    return result[0] if alone else result


def _one(option: Any) -> Any:
    """A list of options as a tuple; a single one is that of all axes."""
    if not isinstance(option, (tuple, list)):
        return option
    return tuple(option) if len(option) > 1 else option[0]
