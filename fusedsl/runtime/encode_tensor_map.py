"""Tensor maps for TMA, encoded by the driver before the array exists.

Source: CUDA driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_uint, c_uint64, c_void_p

from ..errors import DeviceError
from .driver import Driver

_ADDRESSES = (1 << 20, 5 << 32)  # any two: the encoding must differ in its first word alone
_KINDS = {"uint8": 0, "int8": 0, "float16": 6, "float32": 7, "bfloat16": 9, "tfloat32": 11}
# CU_TENSOR_MAP_DATA_TYPE_…; float32 that is loaded as tfloat32 is rounded to it


def tensor_map(
    driver: Driver, name: str, extents: Sequence[int], steps: Sequence[int], box: Sequence[int]
) -> tuple[int, ...]:
    """The 16 words of a tensor map, with a first word of 0, where a call fills in the array's address.

    Axes go from the innermost outwards, `steps` are in bytes, and a row of a box has 128 bytes.
    """
    maps = [_encoded(driver, name, address, extents, steps, box) for address in _ADDRESSES]
    if [words[0] for words in maps] != list(_ADDRESSES) or maps[0][1:] != maps[1][1:]:
        raise DeviceError("this driver's tensor maps do not begin with an address", "device.tensor_map")
    return (0, *maps[0][1:])


def _encoded(
    driver: Driver, name: str, address: int, extents: Sequence[int], steps: Sequence[int], box: Sequence[int]
) -> tuple[int, ...]:
    rank = len(extents)
    words = (c_uint64 * 24)()
    start = -ctypes.addressof(words) % 64 // 8
    map_words = (c_uint64 * 16).from_buffer(words, 8 * start)
    shape, strides = (c_uint64 * rank)(*extents), (c_uint64 * rank)(*steps)
    sizes, ones = (c_uint * rank)(*box), (c_uint * rank)(*[1] * rank)
    # no interleaving, 128-byte swizzle, L2 promotion of 256 bytes, zero fill out of bounds
    form = (0, 3, 3, 0)
    address_of_map, kind = c_void_p(ctypes.addressof(map_words)), _KINDS[name]
    driver.call(
        "cuTensorMapEncodeTiled", address_of_map, kind, rank, c_void_p(address), shape, strides, sizes, ones, *form
    )
    return tuple(map_words)
