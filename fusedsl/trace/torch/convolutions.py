"""torch.nn.functional.conv1d, conv2d and conv3d on tracers, by the language's convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import ArgumentError, DTypeError, ShapeError
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
    options = tuple(_one(option) for option in (how.stride, how.padding, how.dilation, how.groups))
    _require_arrays(input, weight, axes, how)
    if how.padding == "same" and options[0] not in (1, (1,) * axes):
        message = f"conv{axes}d with padding='same' has a stride of 1, not {how.stride}"
        raise ArgumentError(message, "argument.range", help="give the padding as numbers")
    alone = input.ndim == axes + 1
    result = language("conv", input[None] if alone else input, weight, *options)
    if how.bias is not None:
        result = result + how.bias[(slice(None), *[None] * axes)]
    return result[0] if alone else result


def _require_arrays(input: Any, weight: Any, axes: int, how: ConvolutionArguments) -> None:
    """Refuse what torch refuses: other ranks, dtypes that differ, a bias of another length."""
    name, bias = f"conv{axes}d", how.bias
    if input.ndim not in (axes + 1, axes + 2) or weight.ndim != axes + 2:
        message = f"{name} takes an input of {axes + 1} or {axes + 2} axes, and weights of {axes + 2}"
        raise ShapeError(f"{message}: not {input.ndim} and {weight.ndim}", "shape.conv")
    dtypes = {str(x.dtype) for x in (input, weight, *(() if bias is None else (bias,)))}
    if len(dtypes) > 1:
        message = f"{name} takes arrays of one dtype, not {' and '.join(sorted(dtypes))}"
        raise DTypeError(message, "dtype.mixed", help="cast one of them")
    if bias is not None and (bias.ndim != 1 or int(bias.shape[0]) != int(weight.shape[0])):
        message = f"{name} takes a bias of {int(weight.shape[0])} elements, one for each channel of its result"
        raise ShapeError(message, "shape.conv")


def _one(option: Any) -> Any:
    """A list of options as a tuple; a single one is that of all axes."""
    if not isinstance(option, (tuple, list)):
        return option
    return tuple(option) if len(option) > 1 else option[0]
