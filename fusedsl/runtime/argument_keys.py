"""Keys of arguments for the hot path: whether a prepared call fits, and the payloads to launch it with.

A payload is an address or a number. A key is hashable and equal for arguments that a launch may exchange.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from . import dynamo
from .argument_errors import library_of
from .arrays import ArrayFacts, Weak, describe

# measured, per argument on CPython 3.11, two cloud cores, in µs: NumPy array 0.35, torch tensor 0.6, tensor of a list
# 0.35, Python number 0.08, NumPy scalar 0.4, an array known through DLPack alone 13; `x.ctypes.data` takes 0.8,
# `read_word` 0.15.

Key = Any  # hashable
SLOW: Key = ("slow",)
"""The key of an argument that `argument_key` cannot read: no call is cached under it, and `describe` may copy it."""

KeyFunction = Callable[[Any], tuple[Key, Any]]


class Address(int):
    """An address that keeps its array alive."""

    owner: Any


def argument_key(argument: Any) -> tuple[Key, Any]:
    """(key, payload) of one argument. Never raises.

    Two arguments with equal keys are interchangeable for a compiled and scheduled launch: same library, type, shape,
    strides, device, and address modulo 16 bytes. The payload is the address; for rank-0 host values and Python numbers
    it is the number itself.
    """
    return _key_functions[type(argument)](argument)


def all_argument_keys(arguments: Iterable[Any]) -> tuple[tuple[Key, ...], list[Any]]:
    """The keys of all arguments, as one key, and their payloads."""
    keys, payloads = [], []
    for argument in arguments:
        key, payload = _key_functions[type(argument)](argument)
        keys.append(key)
        payloads.append(payload)
    return tuple(keys), payloads


def output_keys(outs: Iterable[Any]) -> tuple[Key, ...]:
    """The keys of outputs, as one key; None stands for a result to allocate."""
    return tuple([None if out is None else _key_functions[type(out)](out)[0] for out in outs])


class TensorListKey(NamedTuple):
    """The key of a list of tensors whose payloads are their addresses. Packed strides and aligned addresses are ()."""

    shapes: tuple
    strides: tuple
    dtypes: tuple
    devices: tuple
    ends: tuple


def list_argument_key(values: Sequence[Any]) -> tuple[Key, list[Any]]:
    """The key of a list of arguments, and their payloads."""
    kinds = set(map(type, values))
    torch = sys.modules.get("torch")
    if torch is not None and kinds <= {torch.Tensor, torch.nn.Parameter}:
        return _tensor_list_key(torch, values)
    return all_argument_keys(values)


def _tensor_list_key(torch: Any, tensors: Sequence[Any]) -> tuple[Key, list[Any]]:
    """`list_argument_key` of tensors alone, attribute by attribute instead of tensor by tensor."""
    kind = torch.Tensor
    try:
        shapes = tuple(map(_shape_of, tensors))
        differs = any(map(kind.is_neg, tensors)) or (torch.is_grad_enabled() and any(map(_requires_grad_of, tensors)))
        if differs or () in shapes or dynamo.records():
            return all_argument_keys(tensors)
        addresses = list(map(kind.data_ptr, tensors))
        packed = all(map(kind.is_contiguous, tensors))
        strides = () if packed else tuple(map(kind.stride, tensors))
        dtypes, devices = tuple(map(_dtype_of, tensors)), tuple(map(kind.get_device, tensors))
        ends = tuple([a & 15 for a in addresses])
        return TensorListKey(shapes, strides, dtypes, devices, ends if any(ends) else ()), addresses
    except RuntimeError:  # sparse, fake, functional: no strides or no memory
        return all_argument_keys(tensors)


_shape_of, _dtype_of, _requires_grad_of = map(attrgetter, ("shape", "dtype", "requires_grad"))


class _KeyFunctions(dict[type, KeyFunction]):
    """The key function of each exact type, looked up at its first use; types of unknown libraries are not cached."""

    def __missing__(self, kind: type) -> KeyFunction:
        function = _key_function(kind)
        if function is not _foreign_key:
            self[kind] = function
        return function


def _key_function(kind: type) -> KeyFunction:
    numpy, torch, cupy = (sys.modules.get(name) for name in ("numpy", "torch", "cupy"))
    if numpy is not None and kind in (numpy.ndarray, numpy.memmap):
        return _numpy_key_function()
    if numpy is not None and issubclass(kind, numpy.generic):
        return _numpy_scalar_key
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
        return _torch_key
    if cupy is not None and kind is cupy.ndarray:
        return _cupy_key
    return _foreign_key


def _number_key(x: Any) -> tuple[Key, Any]:
    return type(x), x


_key_functions = _KeyFunctions(dict.fromkeys((bool, int, float), _number_key))


def _numpy_scalar_key(x: Any) -> tuple[Key, Any]:
    return type(x), x.item()


read_word = ctypes.c_size_t.from_address


@cache
def numpy_data_offset() -> int | None:
    """The offset of the data address in an array object: right behind the object's head, as `PyArray_DATA` reads it.

    The offset is part of NumPy's C interface. It is checked on two arrays, and None if they disagree.
    """
    import numpy as np

    head, samples = object.__basicsize__, (np.zeros(3), np.zeros((4, 5), np.int8)[1:])
    if sys.implementation.name != "cpython":
        return None
    return head if all(read_word(id(x) + head).value == x.ctypes.data for x in samples) else None


def _numpy_key_function() -> KeyFunction:
    head = numpy_data_offset()

    def look_numpy(x: Any) -> tuple[Key, Any]:
        shape = x.shape
        if not shape:
            return (x.dtype, shape), x.item()
        address = read_word(id(x) + head).value if head is not None else x.ctypes.data
        return (x.dtype, shape, x.strides, address & 15), address

    return look_numpy


def _torch_key(x: Any) -> tuple[Key, Any]:
    try:
        if x.is_neg() or (x.requires_grad and sys.modules["torch"].is_grad_enabled()) or dynamo.records():
            return SLOW, 0
        shape, device = x.shape, x.device
        if not shape and device.type == "cpu":
            return (x.dtype, shape), x.item()
        address = x.data_ptr()
        return (x.dtype, shape, x.stride(), address & 15, device), address
    except RuntimeError:  # sparse, fake, functional: no strides or no memory
        return SLOW, 0


def _cupy_key(x: Any) -> tuple[Key, Any]:
    data = x.data
    address = data.ptr
    return (x.dtype, x.shape, x.strides, address & 15, data.device_id), address


def _foreign_key(x: Any) -> tuple[Key, Any]:
    try:
        facts = describe(x)
    except Exception:
        return SLOW, 0
    return described_key(facts)


def described_key(facts: ArrayFacts | Weak) -> tuple[Key, Any]:
    """The key and payload of a described argument whose type has no key function."""
    if isinstance(facts, Weak):
        return type(facts.value), facts.value
    if facts.by_value:
        return (facts.library, facts.dtype), facts.value
    key = (facts.library, facts.dtype, facts.shape, facts.strides, facts.pointer & 15, facts.device)
    return key, owned_address(facts)


def owned_address(array: ArrayFacts) -> Address:
    """The address of an array, which keeps it alive."""
    address = Address(array.pointer)
    address.owner = array.owner
    return address


def addresses_of(arrays: Sequence[Any]) -> list[int]:
    """`address_of` each; 0 for None."""
    torch = sys.modules.get("torch")
    if torch is not None and set(map(type, arrays)) == {torch.Tensor}:
        return list(map(torch.Tensor.data_ptr, arrays))
    return [0 if x is None else address_of(x) for x in arrays]


def address_of(x: Any) -> int:
    """The address of a new array of a library (of a rank-0 host array too: it will be written)."""
    if isinstance(x, ArrayFacts):
        return x.pointer
    if hasattr(x, "data_ptr"):
        return x.data_ptr()
    if hasattr(x, "ctypes"):
        return x.ctypes.data
    if library_of(x) == "cupy":
        return x.data.ptr
    return describe(x).pointer  # type: ignore[union-attr]
