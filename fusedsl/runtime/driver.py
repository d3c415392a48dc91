"""The CUDA driver through ctypes: contexts, modules, functions, device properties. Nothing happens at import."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

from ..errors import DeviceError
from .device_facts import DeviceFacts, device_facts
from .driver_calls import CudaFunction, DriverCalls, pointer

_NO_CONTEXT, _WRONG_HANDLE, _INVALID_VALUE = 201, 400, 1


# Field of Function: number in "enum CUfunction_attribute".
_ATTRIBUTES = {"max_threads": 0, "shared": 1, "local": 3, "registers": 4}
_MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTER = 8, 14


class Driver(DriverCalls):
    """One process's access to libcuda; `library` replaces it in tests.

    Methods raise DeviceError if there is no driver or device, and after a fork of a process that used CUDA.
    """

    # ---- devices and contexts

    def device_count(self) -> int:
        """The number of devices that this process sees."""
        if self._count is None:
            count = c_int()
            self.call("cuDeviceGetCount", byref(count))
            self._count = count.value
        return self._count

    def version(self) -> int:
        """The newest CUDA version that the driver knows: 12010 is 12.1."""
        version = c_int()
        self.call("cuDriverGetVersion", byref(version))
        return version.value

    def facts(self, device: int = 0) -> DeviceFacts:
        """Name, compute capability and sizes of a device (cached)."""
        if device not in self._facts:
            self._facts[device] = device_facts(self, device)
        return self._facts[device]

    def handle(self, device: int) -> int:
        """The driver's handle of a device."""
        handle = c_int()
        self.call("cuDeviceGet", byref(handle), device)
        return handle.value

    def primary_context(self, device: int) -> int:
        """The context that CuPy and torch share on `device`, retained for the life of the process."""
        known = self._contexts.get(device)
        if known is not None:
            return known
        with self._lock:
            if device not in self._contexts:
                context = c_void_p()
                self.call("cuDevicePrimaryCtxRetain", byref(context), self.handle(device))
                self._contexts[device] = context.value or 0
            return self._contexts[device]

    def current_context(self) -> int:
        """This thread's context; 0 if there is none."""
        context = c_void_p()
        self.call("cuCtxGetCurrent", byref(context))
        return context.value or 0

    def current_device(self) -> int:
        """The device of this thread's context; 0 if there is none, as in the CUDA runtime."""
        if not self.current_context():
            return 0
        device = c_int()
        self.call("cuCtxGetDevice", byref(device))
        return device.value

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Make the primary context of `device` current, and restore the last one."""
        context = self.primary_context(device)
        if self.current_context() == context:
            yield
            return
        self.call("cuCtxPushCurrent_v2", c_void_p(context))
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", byref(c_void_p()))

    # ---- kernels

    def load(self, image: bytes, name: str, device: int = 0) -> CudaFunction:
        """Load a cubin into the device's primary context and find its kernel; legal while a stream is captured."""
        with self.on(device), self.relaxed_capture():
            module, function = c_void_p(), c_void_p()
            self.call("cuModuleLoadData", byref(module), ctypes.c_char_p(image))
            self.call("cuModuleGetFunction", byref(function), module, name.encode("ascii"))
            if hasattr(self._library, "cuFuncLoad"):  # CUDA 12.4: now, rather than at the first launch
                self.call("cuFuncLoad", function)
            numbers = {key: self._function_attribute(number, function) for key, number in _ATTRIBUTES.items()}
        return CudaFunction(function.value or 0, name, device, **numbers)

    def loaded(self, image: bytes, name: str, device: int = 0) -> CudaFunction:
        """The kernel of a cubin on a device, loaded once."""
        key = hashlib.sha256(image).digest(), name, device
        function = self._loaded.get(key)
        return function if function is not None else self._loaded.setdefault(key, self.load(image, name, device))

    def _function_attribute(self, number: int, function: c_void_p) -> int:
        value = c_int()
        self.call("cuFuncGetAttribute", byref(value), number, function)
        return value.value

    @contextmanager
    def relaxed_capture(self) -> Iterator[None]:
        """Allow calls that a capture of this thread would forbid, such as loading a module or allocating."""
        mode = c_int(2)  # CU_STREAM_CAPTURE_MODE_RELAXED
        self.call("cuThreadExchangeStreamCaptureMode", byref(mode))
        try:
            yield
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", byref(mode))

    def allow_shared(self, function: CudaFunction, size: int) -> None:
        """Allow launches of `function` with up to `size` bytes of dynamic shared memory."""
        with self.on(function.device):
            self.call("cuFuncSetAttribute", c_void_p(function.handle), _MAX_DYNAMIC_SHARED, size)

    def allow_cluster(self, function: CudaFunction) -> None:
        """Allow launches of `function` in clusters of more than eight blocks."""
        with self.on(function.device):
            self.call("cuFuncSetAttribute", c_void_p(function.handle), _NON_PORTABLE_CLUSTER, 1)

    def is_capturing(self, stream: int) -> bool:
        """Whether work on the stream is captured into a graph; a thread without a context captures nothing."""
        status = c_int()
        code = self.function("cuStreamIsCapturing")(pointer(stream), byref(status))
        if code not in (0, _NO_CONTEXT):
            raise self.fault(code, "cuStreamIsCapturing")
        return status.value != 0

    def stream_id(self, stream: int) -> int:
        """A number that no other stream of the process has or had; its handle before CUDA 12."""
        number = c_uint64()
        try:
            code = self.function("cuStreamGetId")(pointer(stream), byref(number))
        except AttributeError:
            return stream
        return stream if code else number.value

    def zero(self, address: int, words: int, stream: int) -> None:
        """Set 32-bit words to 0, in stream order."""
        self.call("cuMemsetD32Async", c_uint64(address), 0, c_size_t(words), c_void_p(stream))

    def occupancy(self, function: CudaFunction, threads: int, shared: int = 0) -> int:
        """Blocks of `threads` threads and `shared` dynamic bytes that one multiprocessor holds."""
        blocks = c_int()
        with self.on(function.device):
            arguments = (byref(blocks), c_void_p(function.handle), threads, c_size_t(shared))
            self.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", *arguments)
        return blocks.value

    def clusters(self, function: CudaFunction, config: bytes) -> int:
        """Clusters of a launch (struct CUlaunchConfig) that the device holds at once."""
        count = c_int()
        with self.on(function.device):
            self.call("cuOccupancyMaxActiveClusters", byref(count), c_void_p(function.handle), ctypes.c_char_p(config))
        return count.value

    def launch_in_context(self, code: int, device: int, launch: Callable[[], int | None]) -> int | None:
        """Launch again in the right context, if `code` says that this thread has none or another device's.

        Returns the result of `launch`, or `code` if the context was right: nonzero if it failed.
        """
        if self.forked or code not in (_NO_CONTEXT, _WRONG_HANDLE):
            return code
        if code == _NO_CONTEXT:  # as the CUDA runtime does: it stays current
            self.call("cuCtxSetCurrent", c_void_p(self.primary_context(device)))
            return launch()
        with self.on(device):
            return launch()

    # ---- memory and streams

    def pointer_device(self, pointer: int) -> int | None:
        """The device that owns an address; None if CUDA knows no such allocation."""
        device = c_int()
        code = self.attempt("cuPointerGetAttribute", byref(device), 9, c_void_p(pointer))
        if code == _INVALID_VALUE:
            return None
        if code:
            raise self.fault(code, "cuPointerGetAttribute")
        return device.value

    def order(self, producer: int, consumer: int) -> None:
        """Make later work on stream `consumer` wait for the work queued on stream `producer`."""
        if producer == consumer:
            return
        event = c_void_p()
        self.call("cuEventCreate", byref(event), c_uint(2))  # CU_EVENT_DISABLE_TIMING
        try:
            self.call("cuEventRecord", event, c_void_p(producer))
            self.call("cuStreamWaitEvent", c_void_p(consumer), event, c_uint(0))
        finally:
            self.call("cuEventDestroy_v2", event)

    def synchronize(self, stream: int = 0) -> None:
        """Wait for everything on `stream`."""
        self.call("cuStreamSynchronize", c_void_p(stream))


_driver = Driver()


def driver() -> Driver:
    """The driver of this process; loaded by the first call that needs it."""
    return _driver


def cuda_available() -> bool:
    """Whether there is a CUDA driver with a device; never raises."""
    try:
        return _driver.device_count() > 0 and not _driver.forked
    except DeviceError:
        return False
