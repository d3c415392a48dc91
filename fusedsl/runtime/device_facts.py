"""The properties of a CUDA device, as the driver reports them."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DeviceFacts:
    """The driver's properties of one device; sizes in bytes."""

    index: int
    name: str
    cc: tuple[int, int]
    sms: int
    shared_per_block: int  # with opt-in
    shared_per_sm: int
    registers_per_sm: int
    threads_per_sm: int
    l2: int
    memory: int


# Field of DeviceFacts: number in "enum CUdevice_attribute".
_FACTS = {
    "sms": 16,
    "shared_per_block": 97,
    "shared_per_sm": 81,
    "registers_per_sm": 82,
    "threads_per_sm": 39,
    "l2": 38,
}
_CC = (75, 76)  # major, minor


def device_facts(driver: Any, device: int) -> DeviceFacts:
    """Name, compute capability and sizes of a device."""
    name, memory, handle = ctypes.create_string_buffer(256), c_size_t(), driver.handle(device)
    driver.call("cuDeviceGetName", name, 256, handle)
    driver.call("cuDeviceTotalMem_v2", byref(memory), handle)

    def attribute(number: int) -> int:
        value = c_int()
        driver.call("cuDeviceGetAttribute", byref(value), number, handle)
        return value.value

    cc = (attribute(_CC[0]), attribute(_CC[1]))
    numbers = {key: attribute(number) for key, number in _FACTS.items()}
    return DeviceFacts(device, name.value.decode("utf-8", "replace"), cc, memory=memory.value, **numbers)
