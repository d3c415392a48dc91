"""The current CUDA stream of each library, and the library that allocates for arrays of protocols alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from ..errors import DeviceError


def current_stream(library: str, device: tuple[str, int]) -> int:
    """The handle of the stream that `library` would queue work on now; 0 on the CPU."""
    return stream_reader(library, device)()


def stream_reader(library: str, device: tuple[str, int]) -> Callable[[], int]:
    """A function that returns `current_stream(library, device)`, for the hot path of a launch record."""
    kind, index = device
    if kind == "cpu" or library == "numpy":
        return lambda: 0
    if library == "torch":
        return _torch_reader(index)
    if library == "cupy":
        import cupy

        return CupyStream(cupy.cuda.get_current_stream, index)
    return stream_reader(allocating_gpu_library(), device)


class CupyStream:
    """Reads CuPy's current stream of a device."""

    def __init__(self, get: Callable[[int], Any], index: int):
        self.get, self.index = get, index

    def __call__(self) -> int:
        return self.get(self.index).ptr


def stream_expression(read: Callable[[], int], name: Callable[[Any], str]) -> str:
    """The expression by which generated code calls a stream reader; `name` gives constants their names."""
    if isinstance(read, CupyStream):
        return f"{name(read.get)}({read.index}).ptr"
    if isinstance(read, partial):
        return f"{name(read.func)}({', '.join(map(name, read.args))})"
    return f"{name(read)}()"


def _torch_reader(index: int) -> Callable[[], int]:
    import torch

    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # torch's own generated code calls it; measured: 0.1 µs
    if raw is not None:
        return partial(raw, index)
    return lambda: torch.cuda.current_stream(index).cuda_stream


def imported_streams(device: int) -> list[int]:
    """The current streams of all imported array libraries, or the default stream alone."""
    streams = [current_stream(name, ("cuda", device)) for name in ("cupy", "torch") if _has_cuda(name)]
    return list(dict.fromkeys(streams)) or [0]


def allocating_gpu_library() -> str:
    """The library that allocates and orders for CUDA arrays known through a protocol alone."""
    for name in ("cupy", "torch"):
        if _has_cuda(name):
            return name
    if find_spec("cupy") is not None:
        return "cupy"
    if find_spec("torch") is not None:
        return "torch"
    help = "install CuPy or torch, or pass out="
    raise DeviceError("there is no library to allocate CUDA arrays with", "device.library", help=help)


def _has_cuda(name: str) -> bool:
    module: Any = sys.modules.get(name)
    if module is None:
        return False
    return bool(module.cuda.is_available())
