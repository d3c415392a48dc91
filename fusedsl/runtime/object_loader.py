"""Loads machine code as C functions: object code with llvmlite alone, shared objects with the system's loader."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import sys
import tempfile
import threading
from typing import Any
from weakref import WeakValueDictionary

from ..errors import DeviceError

PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
SHARED = b"\x03\x00"  # e_type of a shared object
_lock = threading.Lock()
_loaded: WeakValueDictionary[tuple[bytes, tuple[str, ...]], Code] = WeakValueDictionary()


class Code:
    """Machine code in memory, freed with this object; its C functions, by symbol, hold it."""

    def __init__(self, holder: Any, addresses: list[int]):
        self.holder = holder  # what keeps the code in memory
        self.addresses = addresses

    def functions(self) -> tuple:
        """The C functions, each of which keeps the code alive."""
        functions = tuple(map(PROTOTYPE, self.addresses))
        for function in functions:
            function.code = self  # type: ignore[attr-defined]
        return functions


def load(code: bytes, symbols: tuple[str, ...]) -> tuple:
    """The C functions `void symbol(int64 *slots, int64 begin, int64 end)` of an object; a call releases the GIL.

    Equal objects are loaded once as long as one of their functions is alive: holders of an address must hold a
    function. DeviceError if the system refuses a shared object.
    """
    key = hashlib.sha256(code).digest(), symbols
    with _lock:
        loaded = _loaded.get(key)
        if loaded is None:
            loaded = _loaded[key] = _open(code, symbols) if code[16:18] == SHARED else _load(code, symbols)
    return loaded.functions()


def mcjit_engine(module: Any) -> Any:
    """An MCJIT execution engine of LLVM for this processor, with the module's functions. Takes some ms."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    # one allocation: CUDA takes much of the address space, and code and constants must be near each other
    return llvm.create_mcjit_compiler(module, machine, use_lmm=True)


def _load(object_bytes: bytes, symbols: tuple[str, ...]) -> Code:
    import llvmlite.binding as llvm

    loaded = mcjit_engine(llvm.parse_assembly(""))
    loaded.add_object_file(llvm.ObjectFileRef.from_data(object_bytes))
    loaded.finalize_object()
    return Code(loaded, [loaded.get_function_address(symbol) for symbol in symbols])


# -- shared objects


def _open(code: bytes, symbols: tuple[str, ...]) -> Code:
    """The functions of a shared object, which is a file only while the system's loader reads it."""
    with contextlib.suppress(OSError):  # else it is in the C library
        ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    faults = []
    for way in (_from_folder, _from_memory):
        try:
            library = way(code)
        except OSError as fault:
            faults.append(str(fault))
        else:
            return Code(library, [_address(library, symbol) for symbol in symbols])
    raise DeviceError(f"the system does not load machine code: {'; '.join(faults)}", "device.code",
                      help="TMPDIR should name a folder that can be written and is not mounted noexec")  # fmt: skip


def _address(library: ctypes.CDLL, symbol: str) -> int:
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0


def _from_folder(code: bytes) -> ctypes.CDLL:
    """Load from a file of this user alone, under a name that is never used again."""
    number, path = tempfile.mkstemp(".so", "fusedsl-")
    try:
        with open(number, "wb") as file:
            file.write(code)
        return ctypes.CDLL(path)
    finally:
        os.unlink(path)


def _from_memory(code: bytes) -> ctypes.CDLL:
    """Load from an anonymous file. It stays open: glibc takes a file of the same name for the same library."""
    if not hasattr(os, "memfd_create"):
        raise OSError(f"{sys.platform} has no files in memory")
    number = os.memfd_create("fusedsl", os.MFD_CLOEXEC)
    with open(number, "wb", closefd=False) as file:
        file.write(code)
    return ctypes.CDLL(f"/proc/self/fd/{number}")
