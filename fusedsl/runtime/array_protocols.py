"""Arrays known through a protocol alone: DLPack, and version 3 of `__cuda_array_interface__`.

DLPack structures are read with ctypes, so that no library is needed to consume them. A capsule that is read but not
renamed is still owned by its producer's destructor: keeping the capsule alive keeps the memory.

Sources: dmlc/dlpack `dlpack.h` 1.x and its Python specification; Numba's "CUDA Array Interface (Version 3)".
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError, DeviceError, DTypeError
from .cuda_streams import imported_streams
from .driver import driver

Facts = tuple[str, tuple[int, ...], tuple[int, ...], int, tuple[str, int], bool, Any]
"""dtype name, shape, strides in elements, address, device, readonly, owner"""


class _DLTensor(ctypes.Structure):
    """struct DLTensor"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLManagedTensor(ctypes.Structure):
    """struct DLManagedTensorVersioned"""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}  # enum DLDataTypeCode
_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cuda"}  # CPU, CUDA, pinned host, managed: enum DLDeviceType
_READ_ONLY = 1


def read_dlpack(x: Any, name: str) -> Facts:
    """The facts of an object with `__dlpack__`; the current streams wait for its producer's work."""
    number, index = x.__dlpack_device__()
    kind = _DEVICES.get(int(number))
    if kind is None:
        message = f"{name} is on a device that is neither the CPU nor CUDA (DLPack type {int(number)})"
        raise DeviceError(message, "device.unknown", help=f"move {name} to the CPU or to CUDA")
    device = (kind, int(index) if kind == "cuda" else 0)
    streams = imported_streams(device[1]) if kind == "cuda" else []
    capsule = _export(x, name, streams)
    tensor, readonly = _read_capsule(capsule, name)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else packed_strides(shape)
    pointer = (tensor.data or 0) + tensor.byte_offset
    return _element(tensor, name), shape, strides, pointer, device, readonly, (capsule, x)


def _export(x: Any, name: str, streams: list[int]) -> Any:
    keywords = {"stream": streams[0] or 1} if streams else {}  # in DLPack, 1 is the legacy default stream
    try:
        try:
            capsule = x.__dlpack__(**keywords, max_version=(1, 0))
        except TypeError:  # a producer from before DLPack 1.0
            capsule = x.__dlpack__(**keywords)
    except (BufferError, RuntimeError, ValueError, TypeError) as fault:
        kind = type(x).__name__
        help = f"pass {name} as a NumPy, CuPy or torch array"
        raise ArgumentError(f"{name}, a {kind}, cannot be read: {fault}", "argument.dlpack", help=help) from fault
    for other in streams[1:]:
        driver().order(streams[0], other)
    return capsule


def _read_capsule(capsule: Any, name: str) -> tuple[_DLTensor, bool]:
    if _is_capsule(capsule, b"dltensor_versioned"):
        whole = _DLManagedTensor.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if whole.major == 1:
            return whole.tensor, bool(whole.flags & _READ_ONLY)
    elif _is_capsule(capsule, b"dltensor"):
        return _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor")), False
    help = f"pass {name} as a NumPy, CuPy or torch array"
    raise ArgumentError(f"{name} exports a DLPack version that is not known", "argument.dlpack", help=help)


def _element(tensor: _DLTensor, name: str) -> str:
    if tensor.lanes != 1:
        raise DTypeError(f"{name} has vector elements ({tensor.lanes} lanes)", "dtype.unknown", help="pass scalars")
    if tensor.code == 6:
        return "bool" if tensor.bits == 8 else f"bool{tensor.bits}"
    return f"{_CODES.get(tensor.code, f'DLPack type {tensor.code}, bits ')}{tensor.bits}"


def read_interface(x: Any, name: str) -> Facts:
    """The facts of an object with `__cuda_array_interface__`; the current streams wait for its stream."""
    facts = x.__cuda_array_interface__
    if facts.get("mask") is not None:
        help = "pass the data and the mask as two arrays, with where(mask, ...)"
        raise ArgumentError(f"{name} is a masked array", "argument.type", help=help)
    shape = tuple(int(n) for n in facts["shape"])
    pointer, readonly = facts["data"] or (None, True)
    device = _interface_device(pointer, shape, name)
    dtype, size = _interface_element(facts["typestr"], name)
    strides = _interface_strides(facts.get("strides"), shape, size, name)
    stream = facts.get("stream")
    if stream == 0:
        help = "1 is the legacy default stream, 2 the one of each thread, None asks nobody to wait"
        raise ArgumentError(f"{name} is on stream 0, which the protocol leaves open", "argument.stream", help=help)
    for ours in imported_streams(device[1]) if stream else ():
        driver().order(int(stream), ours)
    return dtype, shape, strides, int(pointer or 0), device, bool(readonly), x


def _interface_device(pointer: int | None, shape: tuple[int, ...], name: str) -> tuple[str, int]:
    if 0 in shape:
        return ("cuda", driver().current_device())
    device = driver().pointer_device(pointer) if pointer else None
    if device is None:
        help = f"{name} was freed, or never allocated: keep the object that owns its memory"
        raise ArgumentError(f"{name} has no device memory behind its {shape} elements", "argument.memory", help=help)
    return ("cuda", device)


def _interface_element(typestr: str, name: str) -> tuple[str, int]:
    kinds = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex", "M": "datetime", "m": "timedelta"}
    order, kind, size = typestr[0], typestr[1], int(typestr[2:])
    if order == ">" and size > 1:
        help = f"pass {name} in native byte order"
        raise DTypeError(f"{name} is byte-swapped ({typestr})", "dtype.order", help=help)
    if kind == "b" and size == 1:
        return "bool", 1
    return f"{kinds.get(kind, 'void')}{8 * size}", size


def _interface_strides(steps: Any, shape: tuple[int, ...], size: int, name: str) -> tuple[int, ...]:
    if steps is None:
        return packed_strides(shape)
    if any(step % size for step, n in zip(steps, shape) if n > 1):
        help = f"pass a contiguous copy of {name}"
        raise ArgumentError(f"the strides of {name} are not whole elements", "argument.strides", help=help)
    return tuple(int(step) // size for step in steps)


def packed_strides(shape: Sequence[int], order: Sequence[int] | None = None) -> tuple[int, ...]:
    """Strides, in elements, of a packed array laid out in `order`.

    >>> packed_strides((2, 3), (1, 0))
    (1, 2)
    """
    strides, step = [0] * len(shape), 1
    for axis in reversed(order if order is not None else range(len(shape))):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)
