"""Loads cached object code as C functions, with llvmlite alone: no Numba, no linker, no file."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_lock = threading.Lock()
_loaded: dict[tuple[bytes, tuple[str, ...]], tuple] = {}
_engines: list = []  # keep the memory of loaded code alive


def load(object_bytes: bytes, symbols: tuple[str, ...]) -> tuple:
    """The C functions `void symbol(int64 *slots, int64 begin, int64 end)` of an object; a call releases the GIL.

    Equal objects are loaded once, since nothing unloads them.
    """
    key = object_bytes, symbols
    if key not in _loaded:
        with _lock:
            if key not in _loaded:
                _loaded[key] = _load(*key)
    return _loaded[key]


def engine(module: Any) -> Any:
    """A compiler of LLVM's for this processor, in which the module's functions find their place. Takes some ms."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    # in one piece: where CUDA has taken much of the address space, code and its constants may land too far apart
    return llvm.create_mcjit_compiler(module, machine, use_lmm=True)


def _load(object_bytes: bytes, symbols: tuple[str, ...]) -> tuple:
    import llvmlite.binding as llvm

    loaded = engine(llvm.parse_assembly(""))
    loaded.add_object_file(llvm.ObjectFileRef.from_data(object_bytes))
    loaded.finalize_object()
    _engines.append(loaded)
    return tuple(PROTOTYPE(loaded.get_function_address(symbol)) for symbol in symbols)
