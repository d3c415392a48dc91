"""The layout of a kernel's parameter block, eight bytes per parameter; runtime/parameter_packing.py fills it in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .kernel import KernelIR


@dataclass(frozen=True)
class KernelParam:
    """Eight bytes of the parameter block."""

    kind: Literal[
        "pointer", "workspace", "semaphores", "gap", "window", "extent", "place", "stride", "magic", "scalar", "first"
    ]
    index: int  # operand, axis, window, or scalar
    axis: int = -1  # of a stride (one past the iteration axes: along sorted positions); word of a tensor map


WINDOW_WORDS = 16  # of a tensor map
WINDOW_PHASE = 6  # parameters begin 16 bytes after a multiple of 64 on sm_90, where tensor maps are to stand


def kernel_params(kernel: KernelIR) -> tuple[KernelParam, ...]:
    """The parameter block, in order: pointers (operands, workspace, semaphores), windows, extents, places
    along image axes, run-time strides, division magics, scalars.

    Every slot is 8 bytes, little-endian: pointers, extents (int64) and strides (int64, in elements); a magic is
    the multiplier of `runtime division by extent` in the low and its shift in the high word (see fast_division.py);
    a scalar fills the low bytes with its own representation. The CUDA kernel takes the slots as int64 arguments, the
    CPU kernel takes their address.
    """
    params = [KernelParam("pointer", k) for k in range(len(kernel.operands))]
    params += [KernelParam(kind, 0) for kind in ("workspace", "semaphores") if getattr(kernel, kind)]
    if kernel.tma_boxes:
        params += [KernelParam("gap", k) for k in range((WINDOW_PHASE - len(params)) % 8)]
        params += [KernelParam("window", k, word) for k in range(len(kernel.tma_boxes)) for word in range(WINDOW_WORDS)]
    params += [KernelParam("extent", a) for a in range(kernel.axes)]
    params += [KernelParam("place", a) for a in range(kernel.image_axes)]
    for k, operand in enumerate(kernel.operands):
        params += [KernelParam("stride", k, a) for a, stride_kind in enumerate(operand.strides) if stride_kind == "s"]
        params += [KernelParam("stride", k, kernel.axes)] if operand.rank == "s" else []
    params += [KernelParam("magic", a) for a in range(1, kernel.axes)]
    params += [KernelParam("scalar", k) for k in range(len(kernel.scalars))]
    return tuple(params)
