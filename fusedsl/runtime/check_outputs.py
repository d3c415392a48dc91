"""Checks of `out`: shape, dtype, memory and overlaps; and the marks of torch for arrays that are written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..errors import ArgumentError, DeviceError
from ..ir.types import UINT8, DType
from .argument_errors import DISPLAY_NAME
from .arrays import CPU, ArrayFacts, Weak, describe
from .memory_overlap import overlap, overlaps_itself
from .outputs import is_foreign


class OutputType(NamedTuple):
    """The shape, dtype, device and library of a result; without a library, that of its array is not checked."""

    shape: tuple[int, ...]
    dtype: DType
    device: tuple[str, int]
    library: str | None = None


def check_out(
    out: Any,
    result: OutputType,
    inputs: Mapping[str, ArrayFacts | Weak],
    others: Sequence[ArrayFacts] = (),
    name: str = "out",
) -> ArrayFacts:
    """The facts of an `out` array that a call may write; ArgumentError or DeviceError if it may not.

    The array has the result's shape, dtype and device, belongs to its library (or is known through a protocol), and is
    writeable. It overlaps neither itself nor `others` (further outputs), and an input only if it is the same memory.
    The facts of a misaligned NumPy array are those of its bytes, and `copied`: no kernel can write it.
    """
    shape, dtype, device, library = result
    facts = describe(out, name)
    misaligned = not isinstance(facts, Weak) and facts.copied and _is_misaligned(out)
    if isinstance(facts, Weak) or (not misaligned and (facts.copied or (not facts.shape and facts.owner is not out))):
        help = "pass an array whose elements are in the machine's byte order, no number and no lazy view"
        raise ArgumentError(f"{name} is not an array that can be written in place", "argument.out", help=help)
    if facts.shape != shape:
        raise output_mismatch(name, f"has shape {facts.shape}", f"has shape {shape}")
    if facts.dtype is not dtype and not (dtype.storage and facts.dtype is UINT8 and facts.library == "cupy"):
        raise output_mismatch(name, f"holds {facts.dtype}", f"is {dtype}")
    if facts.device != device:
        raise DeviceError(f"{name} is {facts.where}, and the result is on {device[0]}:{device[1]}", "device.out",
                          help="pass an array on the device of the inputs")  # fmt: skip
    if library not in (None, facts.library) and not is_foreign(facts):
        raise DeviceError(f"{name} is {facts.where}, and the result is {DISPLAY_NAME[library]}", "device.out",
                          help="results belong to the inputs' library: pass an array of that")  # fmt: skip
    if facts.readonly:
        raise ArgumentError(f"{name} is read-only", "argument.out", help=f"pass {name}.copy() and keep it")
    facts = _as_bytes(out, facts) if misaligned else facts
    if overlaps_itself(facts):
        help = "pass an array whose elements all have their own memory"
        raise ArgumentError(f"elements of {name} share memory (strides {facts.strides})", "argument.overlap", help=help)
    _check_overlaps(facts, inputs, others, name)
    return facts


def _is_misaligned(out: Any) -> bool:
    """Whether this is a NumPy array that kernels cannot write for its alignment alone."""
    import numpy as np

    return isinstance(out, np.ndarray) and out.dtype.isnative


def _as_bytes(out: Any, facts: ArrayFacts) -> ArrayFacts:
    """A NumPy array as its bytes, which may have any address and stride."""
    shape, strides = (*out.shape, out.itemsize), (*out.strides, 1)
    return ArrayFacts("numpy", UINT8, shape, strides, out.ctypes.data, CPU, facts.readonly, out, True)


def output_mismatch(name: str, has: str, needs: str) -> ArgumentError:
    """The error for an output of another shape or dtype than the result."""
    help = "out is neither cast nor broadcast: pass an array of exactly the result's shape and dtype"
    return ArgumentError(f"{name} {has}, and the result {needs}", "argument.out", help=help)


def _check_overlaps(
    facts: ArrayFacts, inputs: Mapping[str, ArrayFacts | Weak], others: Sequence[ArrayFacts], name: str
) -> None:
    for other in others:
        if overlap(facts, other):
            raise ArgumentError(f"{name} overlaps another output", "argument.overlap", help="pass separate arrays")
    for label, array in inputs.items():
        if isinstance(array, ArrayFacts) and not array.by_value and overlap(facts, array) == "partial":
            help = f"pass {label} itself, or an array that shares no memory with it"
            raise ArgumentError(f"{name} overlaps {label}", "argument.overlap", help=help)


def mark_written(out: Any) -> None:
    """Tell torch's autograd that `out` (a tensor, or a list of tensors) has changed.

    A backward pass that saved it then raises instead of computing with other values.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(out, (torch.Tensor, list)):
        torch.autograd.graph.increment_version(out)


@cache
def version_counter() -> Callable[[Iterable[Any]], None]:
    """`mark_written` for several tensors, by the fastest function that this torch has."""
    import torch

    try:
        torch._C._increment_version((torch.empty(1),))
        return torch._C._increment_version
    except (AttributeError, TypeError):  # a torch that takes one tensor
        return lambda outs: mark_written(list(outs))
