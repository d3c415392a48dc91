"""torch.nn.functional.conv1d, conv2d and conv3d on tracers, by the language's convolutions."""

from __future__ import annotations

from typing import Any

from .functions import language, torch_function

Options = int | tuple[int, ...]


@torch_function()
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _convolution(input, weight, bias, 1, (stride, padding, dilation, groups))


@torch_function()
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _convolution(input, weight, bias, 2, (stride, padding, dilation, groups))


@torch_function()
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _convolution(input, weight, bias, 3, (stride, padding, dilation, groups))


def _convolution(input: Any, weight: Any, bias: Any, axes: int, options: tuple[Any, ...]) -> Any:
    """A convolution along so many axes; an input without samples is one."""
    stride, padding, dilation, groups = (_one(option) for option in options)
    alone = input.ndim == axes + 1
    result = language("conv", input[None] if alone else input, weight, stride, padding, dilation, groups)
    if bias is not None:
        result = result + bias[(slice(None), *[None] * axes)]
    return result[0] if alone else result


def _one(option: Any) -> Any:
    """A list of options as a tuple; a single one is that of all axes."""
    if not isinstance(option, (tuple, list)):
        return option
    return tuple(option) if len(option) > 1 else option[0]
