"""Runs our compiled CUDA kernels without a GPU: an interpreter of PTX in NumPy behind the CUDA driver's interface.

    from ptx import emulated_gpu

    with emulated_gpu() as gpu:                        # an H200; cc=(8, 0) or multiprocessors=4 make it another
        x = gpu.asarray(np.ones((3, 5), np.float32))   # exact bounds: reading a byte beside it is an error
        y = fd.kernel("softmax(x)")(x)                 # plan, schedule, launch records, workspace: as on a card
        print(y.get(), gpu.launches)

Everything of fusedsl runs as in production down to `cuLaunchKernelEx`; only the last step of the linker prints PTX in
place of machine code, and nothing goes through the cache on disk. `fd.options(device="cuda")` works as well, for
NumPy arrays. What the interpreter finds raises `Fault` with the instruction and the thread:

- reads and writes outside of allocations, at addresses that are not aligned, of bytes that nobody has written;
- shared memory that two threads use with no barrier between them, one of them writing;
- threads that wait for ever, and instructions of warps whose threads do not all come.

Instructions that the compute capability does not have are Unsupported (targets.py).

`gpu.asarray(x, skip=2)` places an array 2 bytes behind an aligned address: they are another array's.
`emulated_gpu(**facts)` takes any field of `fusedsl.hardware.Hardware`, so that few multiprocessors or little shared
memory make the schedules of large arrays come up with small ones. `-p ptx.plugin` runs tests that are marked `gpu`.
Tensor cores, barriers in memory, bulk copies and tensor maps are there too (tensor.py, bulk.py); fences have no effect,
since accesses happen in the order in which they run: that one is missing is not noticed.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from . import device
from .libcuda import Libcuda
from .machine import Fault
from .memory import Arena
from .syntax import Unsupported

__all__ = ["Fault", "Gpu", "Unsupported", "emulated_gpu"]


class Gpu:
    """The device that is emulated: `launches` lists (kernel, grid), `ptx` the texts of its kernels."""

    def __init__(self, library: Libcuda) -> None:
        self.library = library
        self.launches = library.launches
        self.ptx: list[str] = []

    asarray = staticmethod(device.asarray)


@contextmanager
def emulated_gpu(
    cc: tuple[int, int] = (9, 0), seed: int = 0, memory: int = 1 << 28, tails: bool = True, **facts_of_it: Any
) -> Iterator[Gpu]:
    """Give fusedsl a GPU of this compute capability, with the facts of `hardware.py` but those given.

    `seed` decides the order of atomics; `tails` allows loads of aligned blocks that begin in an array to end behind
    it, as rows of 16-bit elements that are not aligned do.
    """
    from fusedsl import hardware
    from fusedsl.backends.cuda.compiler import linker
    from fusedsl.backends.cuda.compiler.cuda_binary import CudaBinary
    from fusedsl.lru import LRU, clear_all
    from fusedsl.program import call_steps
    from fusedsl.runtime import cache, compile, driver

    known = dataclasses.replace(hardware.hardware_facts(cc), cc=cc, **facts_of_it)
    arena = Arena(memory, tails)
    gpu = Gpu(Libcuda(known, arena, seed))

    def link(ltoir: bytes, cc: tuple[int, int]) -> CudaBinary:
        text = linker.ptx(ltoir, cc)
        gpu.ptx.append(text)
        name = re.search(r"\.entry\s+([\w$]+)", text)
        assert name is not None
        return CudaBinary(text.encode(), name[1], 32, 0, 0, "")

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fusedsl-ptx-"))
        own = cache.Cache(folder)
        for module, name, stand_in in (
            (linker, "link", link),
            (driver, "_driver", driver.Driver(gpu.library)),
            (call_steps, "hardware_of", lambda device: known),
            (compile, "disk", lambda: own),
            (cache, "disk", lambda: own),
            (compile, "_compiled_kernels", LRU(lambda: 1000)),
            (compile, "_preloaded", {}),  # machine code of files that other tests have loaded
        ):
            stack.enter_context(mock.patch.object(module, name, stand_in))
        stack.callback(_stand_in(device.cupy))
        device._arenas.append(arena)
        clear_all()  # programs that `evaluate` met remember calls with arrays of a real GPU
        try:
            yield gpu
        finally:
            device._arenas.pop()
            clear_all()  # … or of this one


def _stand_in(cupy: Any) -> Callable[[], Any]:
    """Let this module be CuPy, and say how to undo it. What is imported meanwhile stays: Numba registers types once."""
    before = sys.modules.get("cupy")
    sys.modules["cupy"] = cupy
    return lambda: sys.modules.pop("cupy") if before is None else sys.modules.update(cupy=before)
