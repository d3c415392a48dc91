"""Tensor maps for TMA, encoded by the driver before the array exists.

Source: CUDA driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int, c_uint, c_uint64, c_void_p
from typing import Any

from ..errors import DeviceError
from ..kernel_ir.image_rows import ImageAxis, ImageBox, ImageLayout
from .driver import Driver

_ADDRESSES = (1 << 20, 5 << 32)  # any two: the encoding must differ in its first word alone
_KINDS = {"uint8": 0, "int8": 0, "float16": 6, "float32": 7, "bfloat16": 9, "tfloat32": 11}
# CU_TENSOR_MAP_DATA_TYPE_…; float32 that is loaded as tfloat32 is rounded to it
_SIZES = {"tfloat32": 4, "float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1, "int8": 1}
_FORM = (0, 3, 3, 0)  # no interleaving, 128-byte swizzle, L2 promotion of 256 bytes, zero fill out of bounds


def tensor_map(
    driver: Driver, name: str, extents: Sequence[int], steps: Sequence[int], box: Sequence[int]
) -> tuple[int, ...]:
    """The 16 words of a tensor map, with a first word of 0, where a call fills in the array's address.

    Axes go from the innermost outwards, `steps` are in bytes, and a row of a box has 128 bytes.
    """
    rank = len(extents)
    sizes, ones = (c_uint * rank)(*box), (c_uint * rank)(*[1] * rank)
    return _encoded(driver, "cuTensorMapEncodeTiled", name, extents, steps, (sizes, ones))


def image_map(
    driver: Driver, name: str, layout: ImageLayout, axes: Sequence[ImageAxis], box: ImageBox
) -> tuple[int, ...]:
    """The words of a tensor map of an image, whose pixels are loaded in im2col mode."""
    corners = [(c_int * len(axes))(*corner) for corner in (layout.lower_corner(axes), layout.upper_corner(axes))]
    steps = (c_uint * (len(axes) + 2))(1, *(axis.step for axis in axes), 1)
    strides = [stride * _SIZES[name] for stride in layout.strides]
    form = (*corners, c_uint(box.channels), c_uint(box.rows), steps)
    return _encoded(driver, "cuTensorMapEncodeIm2col", name, layout.extents, strides, form)


def _encoded(
    driver: Driver, function: str, name: str, extents: Sequence[int], steps: Sequence[int], form: Sequence[Any]
) -> tuple[int, ...]:
    """The words that a function of the driver encodes, without the address."""
    rank = len(extents)
    told = ((c_uint64 * rank)(*extents), (c_uint64 * rank)(*steps), *form, *_FORM)
    maps = [_words(driver, function, name, rank, address, told) for address in _ADDRESSES]
    if [words[0] for words in maps] != list(_ADDRESSES) or maps[0][1:] != maps[1][1:]:
        raise DeviceError("this driver's tensor maps do not begin with an address", "device.tensor_map")
    return (0, *maps[0][1:])


def _words(driver: Driver, function: str, name: str, rank: int, address: int, told: Sequence[Any]) -> tuple[int, ...]:
    words = (c_uint64 * 24)()
    start = -ctypes.addressof(words) % 64 // 8
    map_words = (c_uint64 * 16).from_buffer(words, 8 * start)
    address_of_map = c_void_p(ctypes.addressof(map_words))
    driver.call(function, address_of_map, _KINDS[name], rank, c_void_p(address), *told)
    return tuple(map_words)
