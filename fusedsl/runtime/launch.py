"""Launch records: everything about one kernel at one set of shapes, so that a call only fills in pointers and scalars.

A record is immutable and may be fired by many threads at once. What a launch writes (configuration and parameter
block) goes to a scratch area taken from a free list and put back after the call: nothing grows with calls, and a
call made by a signal handler or finaliser in the middle of another finds its own area.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from operator import add, itemgetter
from typing import Any, NamedTuple

from ..errors import CompileError, DTypeError
from .driver import Driver, Function

BLOCK_BYTES = 32_760  # of a parameter block: the limit of sm_70 and later under CUDA 12.1 and later, in whole slots
_CONFIG, _SIZE, _BLOCK = 0, 56, 64  # offsets in a scratch area: CUlaunchConfig, the block's size, the block
_CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION


class PointerSlot(NamedTuple):
    """Eight bytes at `offset` of the block: payload `argument` plus `shift` bytes."""

    offset: int
    argument: int
    shift: int = 0


class ScalarSlot(NamedTuple):
    """Eight bytes at `offset` of the block, the low ones filled with payload `argument` in a `struct` format."""

    offset: int
    argument: int
    format: str


class _Scratch:
    """Where one launch is assembled: CUlaunchConfig, block size, block, and the `extra` array that names them."""

    def __init__(self) -> None:
        self.buffer = (ctypes.c_uint64 * ((_BLOCK + BLOCK_BYTES) // 8 + 1))()
        self.config = ctypes.addressof(self.buffer)
        self.block = self.config + _BLOCK
        # CU_LAUNCH_PARAM_BUFFER_POINTER, address, CU_LAUNCH_PARAM_BUFFER_SIZE, address of the size, CU_LAUNCH_PARAM_END
        self.names = (ctypes.c_uint64 * 5)(1, self.block, 2, self.config + _SIZE, 0)
        self.extra = ctypes.addressof(self.names)


_free: list[_Scratch] = []


class _Layout:
    """How payloads become a block: pointers first, scalars last, what the template holds between them."""

    def __init__(self, template: bytes, pointers: Sequence[PointerSlot], scalars: Sequence[ScalarSlot]) -> None:
        first_scalar = len(template) - 8 * len(scalars)
        if [p.offset for p in pointers] != list(range(0, 8 * len(pointers), 8)):
            raise ValueError("pointer slots must lead the block, in order")
        if [s.offset for s in scalars] != list(range(first_scalar, len(template), 8)):
            raise ValueError("scalar slots must end the block, in order")
        if len(template) > BLOCK_BYTES:
            raise CompileError(f"the kernel takes {len(template)} bytes of parameters", "compile.parameters",
                               help=f"CUDA allows {BLOCK_BYTES}: split the expression")  # fmt: skip
        self.fixed = bytes(template[8 * len(pointers) : first_scalar])
        tails = "".join(s.format + f"{8 - struct.calcsize('<' + s.format)}x" for s in scalars)
        self.format = f"{len(pointers)}Q{len(self.fixed)}s{tails}"
        self.pointers = _pointer_reader(pointers)
        self.scalars = _reader([s.argument for s in scalars]) if scalars else None


def _reader(indices: Sequence[int]) -> Callable[[Sequence[Any]], tuple]:
    if len(indices) > 1:
        return itemgetter(*indices)
    return lambda payloads: tuple(payloads[i] for i in indices)


def _pointer_reader(pointers: Sequence[PointerSlot]) -> Callable[[Sequence[Any]], tuple]:
    read = _reader([p.argument for p in pointers])
    shifts = tuple(p.shift for p in pointers)
    if not any(shifts):
        return read
    return lambda payloads: tuple(map(add, read(payloads), shifts))


class Launch:
    """One kernel on one CUDA device with its grid and block fixed.

    `template` is the parameter block (schedule/kernel.py `slots`) with extents, strides and magics filled in.
    `names` are the arguments' names, for the message about a number that does not fit.
    """

    def __init__(
        self,
        driver: Driver,
        function: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        template: bytes,
        pointers: Sequence[PointerSlot],
        scalars: Sequence[ScalarSlot] = (),
        names: Sequence[str] = (),
        cluster: tuple[int, int, int] | None = None,
    ) -> None:
        layout = _Layout(template, pointers, scalars)
        if shared > 48 * 1024:
            driver.allow_shared(function, shared)
        self.driver, self.handle, self.device = driver, function.handle, function.device
        self.slots, self.names = tuple(scalars), tuple(names)
        self.pointers, self.scalars, self.fixed = layout.pointers, layout.scalars, layout.fixed
        self.empty = 0 in grid
        self.context = driver.primary_context(function.device) if driver.device_count() > 1 else 0
        # struct CUlaunchConfig: grid, block, shared bytes, stream, attributes, their number; then the block's size
        self.pack = struct.Struct(f"<32sQ24s{layout.format}").pack_into
        self.head = struct.pack("<7I4x", *grid, *block, shared)
        self.attributes = _cluster_attribute(cluster) if cluster else None
        address = ctypes.addressof(self.attributes) if self.attributes else 0
        self.tail = struct.pack("<QI4xQ", address, 1 if cluster else 0, len(template))

    def fire(self, payloads: Sequence[Any], stream: int) -> None:
        """Launch on `stream`: payloads are, by argument, an address or a Python number. Does not wait."""
        if self.empty:
            return
        try:
            scratch = _free.pop()
        except IndexError:
            scratch = _Scratch()
        pointers, scalars = self.pointers(payloads), self.scalars
        try:
            if scalars is None:
                self.pack(scratch.buffer, 0, self.head, stream, self.tail, *pointers, self.fixed)
            else:
                head, tail, fixed, numbers = self.head, self.tail, self.fixed, scalars(payloads)
                try:
                    self.pack(scratch.buffer, 0, head, stream, tail, *pointers, fixed, *numbers)
                except (struct.error, OverflowError):
                    numbers = _fitted(numbers, self.slots, self.names)
                    self.pack(scratch.buffer, 0, head, stream, tail, *pointers, fixed, *numbers)
            if self.context and self.driver.current_context() != self.context:
                with self.driver.on(self.device):
                    code = self.driver.launch(scratch.config, self.handle, None, scratch.extra)
            else:
                code = self.driver.launch(scratch.config, self.handle, None, scratch.extra)
            if code:
                code = self.driver.launch_elsewhere(code, self.device, scratch.config, self.handle, scratch.extra)
        finally:
            _free.append(scratch)
        if code:
            raise self.driver.fault(code, "cuLaunchKernelEx")


def _cluster_attribute(cluster: tuple[int, int, int]) -> ctypes.Array:
    """struct CUlaunchAttribute: number, padding to 8, 64 bytes of value."""
    return ctypes.create_string_buffer(struct.pack("<I4x3I52x", _CLUSTER, *cluster), 72)


class HostLaunch:
    """One compiled CPU function with its work divided: `units` of work, handed out `grain` at a time by the pool.

    `run(function, slots_address, units, grain)` returns when all units are done (runtime/pool.py).
    """

    def __init__(
        self,
        run: Callable[[int, int, int, int], Any],
        function: int,
        units: int,
        grain: int,
        template: bytes,
        pointers: Sequence[PointerSlot],
        scalars: Sequence[ScalarSlot] = (),
        names: Sequence[str] = (),
    ) -> None:
        layout = _Layout(template, pointers, scalars)
        self.run, self.function, self.units, self.grain = run, function, units, grain
        self.slots, self.names = tuple(scalars), tuple(names)
        self.pointers, self.scalars, self.fixed = layout.pointers, layout.scalars, layout.fixed
        self.pack = struct.Struct(f"<{layout.format}").pack_into

    def fire(self, payloads: Sequence[Any], stream: int = 0) -> None:
        """Run to completion: payloads are, by argument, an address or a Python number."""
        if not self.units:
            return
        try:
            scratch = _free.pop()
        except IndexError:
            scratch = _Scratch()
        pointers = self.pointers(payloads)
        numbers = self.scalars(payloads) if self.scalars else ()
        try:
            try:
                self.pack(scratch.buffer, _BLOCK, *pointers, self.fixed, *numbers)
            except (struct.error, OverflowError):
                self.pack(scratch.buffer, _BLOCK, *pointers, self.fixed, *_fitted(numbers, self.slots, self.names))
            self.run(self.function, scratch.block, self.units, self.grain)
        finally:
            _free.append(scratch)


_FORMATS = {
    "?": "bool", "b": "int8", "h": "int16", "i": "int32", "q": "int64", "B": "uint8", "H": "uint16", "I": "uint32",
    "Q": "uint64", "f": "float32", "d": "float64",
}  # fmt: skip
FORMAT_OF = {name: format for format, name in _FORMATS.items()}  # by the name of a compute type


def _fitted(numbers: Sequence[Any], slots: Sequence[ScalarSlot], names: Sequence[str]) -> list[Any]:
    """The numbers as their slots can hold them: a float beyond float32 rounds to infinity, as in NumPy.

    An integer that does not fit is a DTypeError.
    """
    fitted = []
    for number, slot in zip(numbers, slots):
        try:
            struct.pack("<" + slot.format, number)
        except (struct.error, OverflowError):
            if not isinstance(number, float) or slot.format != "f":
                name = f"{names[slot.argument]} = " if slot.argument < len(names) else ""
                raise DTypeError(
                    f"{name}{number!r} does not fit {_FORMATS[slot.format]}",
                    "dtype.overflow",
                    help="pass a NumPy scalar of the type that is meant, such as numpy.int64(...)",
                ) from None
            number = math.copysign(math.inf, number)
        fitted.append(number)
    return fitted
