"""Programs of one CUDA kernel: how it is scheduled, and what it computes on an emulated GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from ptx import emulated_gpu

import fusedsl as fd
from fusedsl.report.explain import resolved_call
from fusedsl.runtime.array_copies import to_host
from fusedsl.specs import Spec


def scheduled(text: str, *specs: Spec) -> tuple[Any, Any]:
    """The kernel of a program for sm_90, and its schedule."""
    call = resolved_call(fd.kernel(text)._program, list(specs), "cuda", 90)
    ((plan, bound),) = call.kernels
    return call.scheduled(plan, bound)


def emulated(text: str, multiprocessors: int, **arrays: np.ndarray) -> tuple[np.ndarray, str]:
    """The result of a program, and the reason of its kernel's schedule."""
    with emulated_gpu(multiprocessors=multiprocessors, cc=(9, 0)) as gpu:
        kernel = fd.kernel(text, fallback=False)
        given = {name: gpu.asarray(value) for name, value in arrays.items()}
        return to_host(kernel(**given)), str(kernel.explain(**given).kernels[0].schedule)
