"""Calls of libcuda through ctypes: its load and initialisation, errors, and the state after a fork."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from ctypes import byref, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

from ..errors import DeviceError, FusedslError
from .device_facts import DeviceFacts
from .driver_errors import fault

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


@dataclass(frozen=True)
class CudaFunction:
    """A loaded kernel with the driver's attributes. Its module stays loaded as long as the process lives.

    `registers` and `local` (bytes of spills and stack) are per thread; `shared` is static bytes a block.
    """

    handle: int
    name: str
    device: int
    registers: int
    local: int
    shared: int
    max_threads: int


class DriverCalls:
    """Calls of one process to libcuda; `library` replaces it in tests."""

    def __init__(self, library: Any = None) -> None:
        self._library = library
        self._lock = threading.RLock()
        self._contexts: dict[int, int] = {}
        self._facts: dict[int, DeviceFacts] = {}
        self._loaded: dict[tuple[bytes, str, int], CudaFunction] = {}
        self._count: int | None = None
        self.forked = False
        self.launch: Any = None  # cuLaunchKernelEx once initialised; takes the results of `pointer` and `byref`
        self.launch_address = c_uint64(0)  # its address, for machine code; 0 after a fork, or of a test library

    # ---- calls

    def call(self, name: str, *arguments: Any) -> None:
        """Call a driver function; raises the error of a nonzero CUresult."""
        code = self.attempt(name, *arguments)
        if code:
            raise self.fault(code, name)

    def attempt(self, name: str, *arguments: Any) -> int:
        """Call a driver function and return its CUresult."""
        if self.forked:
            raise self.fault(3, name)
        if self.launch is None:
            self.initialise()
        return getattr(self._library, name)(*arguments)

    def function(self, name: str) -> Any:
        """A driver function that takes results of `pointer` and `byref` and returns its CUresult: the fast path."""
        if self.launch is None:
            self.initialise()
        if self.forked:
            return _refuse
        function = getattr(self._library, name)
        return function if isinstance(self._library, ctypes.CDLL) else _with_values(function)

    def address(self, name: str) -> int:
        """The address of a driver function, for machine code; DeviceError if this driver lacks it."""
        try:
            return ctypes.cast(getattr(self._library, name), c_void_p).value or 0
        except (AttributeError, ctypes.ArgumentError):
            raise DeviceError(f"this driver has no {name}", "device.cuda", help="update the NVIDIA driver") from None

    def fault(self, code: int, name: str) -> FusedslError:
        """The error that a CUresult other than 0 stands for."""
        if self.forked:
            code = 3
        return fault(code, f"{name} failed: {self._describe(code)}")

    def _describe(self, code: int) -> str:
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        if self.forked or self._library is None:
            return f"CUresult {code}"
        self._library.cuGetErrorName(code, byref(name))
        self._library.cuGetErrorString(code, byref(text))
        words = [part.value.decode("ascii", "replace") for part in (name, text) if part.value]
        return f"{' ('.join(words)})" if len(words) == 2 else f"CUresult {code}"

    def initialise(self) -> None:
        """Load libcuda and initialise it, once; `launch` is set afterwards."""
        with self._lock:
            if self.launch is not None:
                return
            if self._library is None:
                self._library = _load_library()
            code = self._library.cuInit(0)
            if code:
                raise self.fault(code, "cuInit")
            real = isinstance(self._library, ctypes.CDLL)
            launch = self._library.cuLaunchKernelEx if real else _with_numbers(self._library.cuLaunchKernelEx)
            _mark_after_fork(self)
            if real:
                self.launch_address.value = ctypes.cast(launch, c_void_p).value or 0
            self.launch = launch


def pointer(address: int) -> Any:
    """An address in the form that ctypes passes without conversion: 0.3 µs a launch faster than a number."""
    return byref(ctypes.c_char.from_address(address))


def _with_numbers(launch: Any) -> Any:
    """cuLaunchKernelEx of a test library, which takes addresses as numbers."""
    return lambda config, function, parameters, extra: launch(
        ctypes.addressof(config._obj), ctypes.addressof(function._obj), parameters, ctypes.addressof(extra._obj)
    )


def _with_values(function: Any) -> Any:
    """Another function of a test library, which takes handles as c_void_p."""
    return lambda *arguments: function(
        *(c_void_p(ctypes.addressof(a._obj)) if type(a._obj) is ctypes.c_char else a for a in arguments)
    )


def _load_library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as fault:
        help = 'install the NVIDIA driver, or compute on the CPU: device="cpu"'
        raise DeviceError(f"there is no CUDA driver ({fault})", "device.none", help=help) from None


def _mark_after_fork(driver: DriverCalls) -> None:
    if not hasattr(os, "register_at_fork"):
        return
    reference = weakref.ref(driver)

    def mark() -> None:
        driver = reference()
        if driver is not None:
            driver.forked = True
            driver.launch, driver.launch_address.value = _refuse, 0

    os.register_at_fork(after_in_child=mark)


def _refuse(*arguments: Any) -> int:
    return 3  # CUDA_ERROR_NOT_INITIALIZED
