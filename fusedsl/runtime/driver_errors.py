"""CUresult codes of the driver as errors, with help."""

from __future__ import annotations

from ..errors import CompileError, DeviceError, FusedslError, MemoryLimitError

# CUresult codes with an error class and a help of their own: (class, help). CUDA driver API, "enum CUresult".
MEANING: dict[int, tuple[type[FusedslError], str]] = {
    2: (MemoryLimitError, "free arrays, or what CuPy's or torch's pool holds (torch.cuda.empty_cache())"),
    3: (DeviceError, 'CUDA cannot be used in a forked child: start it with multiprocessing.get_context("spawn")'),
    35: (DeviceError, "update the NVIDIA driver"),
    100: (DeviceError, "no device is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES"),
    101: (DeviceError, "no device has this number: check CUDA_VISIBLE_DEVICES"),
    200: (CompileError, "the binary is damaged or for another architecture: clear the cache and compile again"),
    209: (CompileError, "the binary is for another architecture: compile for this device"),
    218: (CompileError, "the driver refused the binary: clear the cache and compile again"),
    222: (CompileError, "the binary was made by a toolkit newer than the driver: update the driver"),
    500: (CompileError, "the binary holds no kernel of this name: clear the cache and compile again"),
    700: (DeviceError, "an earlier kernel read or wrote out of bounds; the process must be restarted to use CUDA"),
    701: (CompileError, "the kernel needs more registers or shared memory than the device has"),
    719: (DeviceError, "an earlier kernel failed; the process must be restarted to use CUDA"),
    803: (DeviceError, "the NVIDIA kernel module and libcuda differ in version: restart the machine"),
}


CODES = {CompileError: "compile.cuda", MemoryLimitError: "limit.memory"}


def fault(code: int, message: str) -> FusedslError:
    """The error that a CUresult other than 0 stands for."""
    kind, help = MEANING.get(code, (DeviceError, None))
    return kind(message, CODES.get(kind, "device.cuda"), help=help)
