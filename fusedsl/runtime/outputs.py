"""The device of a call, and its output arrays: library, memory order, allocation, and the checks of `out`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ..errors import DeviceError, MemoryLimitError
from ..ir.types import UINT8, DType, numpy_dtype
from .array_protocols import packed_strides
from .arrays import CPU, ArrayFacts, Weak
from .cuda_streams import allocating_gpu_library
from .free_memory import exhausted, require

# ---- device


def library_and_device(arguments: Mapping[str, ArrayFacts | Weak]) -> tuple[str, tuple[str, int]]:
    """(library, device) of a call; DeviceError if two arguments disagree.

    Rank-0 host values fit any device; arrays known through a protocol fit any library on their device.
    """
    arrays = {name: a for name, a in arguments.items() if isinstance(a, ArrayFacts)}
    in_memory = {name: a for name, a in arrays.items() if not a.by_value} or arrays
    native = {name: a for name, a in in_memory.items() if not is_foreign(a)}
    if not in_memory:
        return "numpy", CPU
    lead, first = next(iter((native or in_memory).items()))
    for name, array in in_memory.items():
        mixed = array.library != first.library and not is_foreign(array)
        if array.device != first.device or (mixed and not array.by_value):
            raise _mixed(lead, first, name, array)
    return allocating_library(first.library, first.device), first.device


def is_foreign(array: ArrayFacts) -> bool:
    return array.library in ("dlpack", "interface")


def allocating_library(library: str, device: tuple[str, int]) -> str:
    """The library that allocates results of `library`: itself, or for a protocol another one."""
    if library not in ("dlpack", "interface"):
        return library
    return "numpy" if device == CPU else allocating_gpu_library()


def _mixed(lead: str, first: ArrayFacts, name: str, array: ArrayFacts) -> DeviceError:
    message = f"{lead} is {first.where} and {name} is {array.where}"
    (target, goal), other = ((lead, first), name) if first.device != CPU else ((name, array), lead)
    kind, index = goal.device
    forms = {
        "torch": f'torch.asarray({other}, device="{kind if kind == "cpu" else f"{kind}:{index}"}")',
        "cupy": f"cupy.asarray({other})",
        "numpy": f"numpy.asarray({other})",
    }
    form = forms.get(goal.library, f"{other} in the library of {target}")
    return DeviceError(message, "device.mixed", help=f"a call runs in one place: pass {form}")


# ---- memory order


def common_order(operands: Iterable[tuple[Sequence[int], Sequence[int]]], rank: int) -> tuple[int, ...] | None:
    """The axes from outermost to innermost, if all (shape, strides) agree on an order; None for C order.

    Shapes align at their last axis, as in broadcasting. Axes of extent 1 or stride 0 do not constrain the order.

    >>> common_order([((2, 3), (1, 2)), ((3,), (1,))], 2)
    (1, 0)
    >>> common_order([((2, 3), (1, 2)), ((2, 3), (3, 1))], 2) is None
    True
    """
    aligned = [_aligned(shape, strides, rank) for shape, strides in operands]
    order: list[int] = []
    for axis in range(rank):
        index = len(order)
        for k in reversed(range(len(order))):
            votes = {_outer(steps, order[k], axis) for steps in aligned} - {0}
            if len(votes) == 2:
                return None
            if votes == {-1}:
                index = k
            elif votes:
                break
        order.insert(index, axis)
    return None if order == list(range(rank)) else tuple(order)


def _aligned(shape: Sequence[int], strides: Sequence[int], rank: int) -> list[int]:
    return [0] * (rank - len(shape)) + [abs(s) if n > 1 else 0 for n, s in zip(shape, strides)]


def _outer(steps: Sequence[int], a: int, b: int) -> int:
    """1 if axis a lies outside b in memory, -1 if inside, 0 if one of them does not matter."""
    if not steps[a] or not steps[b] or steps[a] == steps[b]:
        return 0
    return 1 if steps[a] > steps[b] else -1


# ---- allocation


def empty(
    library: str, device: tuple[str, int], shape: Sequence[int], dtype: DType, order: Sequence[int] | None = None
) -> Any:
    """A new packed array of `library`, aligned to 16 bytes or more; MemoryLimitError if memory does not suffice."""
    return allocator(library, device, shape, dtype, order)()


class Allocator:
    """Allocates one result: a prepared call holds one allocator per result.

    `make` allocates too, and raises one of `exhausted`, the library's own exceptions, if memory is exhausted. The
    MemoryLimitError then names the `size` in bytes and the `description`; `form` is (shape, dtype, order).
    """

    def __init__(
        self,
        make: Callable[[], Any],
        exhausted: tuple[type[Exception], ...],
        size: int,
        description: str,
        form: tuple = (),
    ):
        self.make, self.exhausted, self.size, self.description, self.form = make, exhausted, size, description, form

    def __call__(self) -> Any:
        try:
            return self.make()
        except self.exhausted as fault:
            if isinstance(fault, MemoryLimitError):
                raise
            raise exhausted(self.size, self.description) from fault


def allocator(
    library: str, device: tuple[str, int], shape: Sequence[int], dtype: DType, order: Sequence[int] | None = None
) -> Allocator:
    """The allocator of `empty(...)` with these arguments."""
    shape = tuple(shape)
    maker = {"numpy": _numpy_maker, "torch": _torch_maker, "cupy": _cupy_maker}[allocating_library(library, device)]
    make, failures = maker(device, shape, dtype, order)
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    description = f"{dtype}{list(shape)}"
    if device == CPU and size >= CHECKED_BYTES:
        make = partial(_make_if_memory_suffices, make, size, description)
    return Allocator(make, failures, size, description, (shape, dtype, order))


CHECKED_BYTES = 1 << 28  # results from this size on are checked against free memory at each call


def _make_if_memory_suffices(make: Callable[[], Any], size: int, description: str) -> Any:
    require(size, description)
    return make()


Maker = tuple[Callable[[], Any], tuple[type[Exception], ...]]
"""The function that allocates, and the exceptions that the library raises if memory is exhausted."""


def _numpy_maker(device: Any, shape: tuple[int, ...], dtype: DType, order: Sequence[int] | None) -> Maker:
    import numpy as np

    kind = numpy_dtype(dtype)
    if order is None:
        return partial(np.empty, shape, kind), (MemoryError, ValueError)
    packed, back = _permuted(shape, order)
    return (lambda: np.empty(packed, kind).transpose(back)), (MemoryError, ValueError)


def _torch_maker(device: tuple[str, int], shape: tuple[int, ...], dtype: DType, order: Sequence[int] | None) -> Maker:
    import torch

    kind = getattr(torch, dtype.name)
    strides = packed_strides(shape, order)
    where, index = device
    torch_device = torch.device("cpu") if device == CPU else torch.device(where, index)
    make_there = partial(torch.empty_strided, shape, strides, dtype=kind, device=torch_device)
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    short = getattr(guards, f"_empty_strided_{where}", None)  # torch's own compiled code calls it; measured: 2 µs less
    if short is None:
        return make_there, (RuntimeError,)
    make_here = partial(short, shape, strides, kind)
    if where == "cpu" or torch.cuda.device_count() == 1:
        return make_here, (RuntimeError,)
    current = torch.cuda.current_device
    return (lambda: make_here() if current() == index else make_there()), (RuntimeError,)


def _cupy_maker(device: tuple[str, int], shape: tuple[int, ...], dtype: DType, order: Sequence[int] | None) -> Maker:
    import cupy

    kind = numpy_dtype(UINT8 if dtype.storage else dtype)  # CuPy has no float8: results are bytes
    packed, back = _permuted(shape, order) if order is not None else (shape, None)
    make: Callable[[], Any] = partial(cupy.ndarray, packed, kind)
    if back is not None:
        make = lambda: cupy.ndarray(packed, kind).transpose(back)  # noqa: E731

    def make_there() -> Any:
        with cupy.cuda.Device(device[1]):
            return make()

    return (make if cupy.cuda.runtime.getDeviceCount() == 1 else make_there), (MemoryError,)


def _permuted(shape: tuple[int, ...], order: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape in memory order, and the permutation back."""
    return tuple(shape[axis] for axis in order), tuple(order.index(axis) for axis in range(len(shape)))


# ---- out=
