"""Loads cached object code as C functions, with llvmlite alone: no Numba, no linker, no file."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from typing import Any
from weakref import WeakValueDictionary

PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_lock = threading.Lock()
_loaded: WeakValueDictionary[tuple[bytes, tuple[str, ...]], Code] = WeakValueDictionary()


class Code:
    """Machine code in memory, which is freed with this: its C functions, by symbol, hold it."""

    def __init__(self, engine: Any, symbols: tuple[str, ...]):
        self.engine = engine
        self.addresses = [engine.get_function_address(symbol) for symbol in symbols]

    def functions(self) -> tuple:
        """The C functions, each of which keeps the code alive."""
        found = tuple(map(PROTOTYPE, self.addresses))
        for function in found:
            function.code = self  # type: ignore[attr-defined]
        return found


def load(object_bytes: bytes, symbols: tuple[str, ...]) -> tuple:
    """The C functions `void symbol(int64 *slots, int64 begin, int64 end)` of an object; a call releases the GIL.

    Equal objects are loaded once as long as one of their functions is there: whoever keeps an address keeps that.
    """
    key = hashlib.sha256(object_bytes).digest(), symbols
    with _lock:
        code = _loaded.get(key)
        if code is None:
            code = _loaded[key] = _load(object_bytes, symbols)
    return code.functions()


def engine(module: Any) -> Any:
    """A compiler of LLVM's for this processor, in which the module's functions find their place. Takes some ms."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    # in one piece: where CUDA has taken much of the address space, code and its constants may land too far apart
    return llvm.create_mcjit_compiler(module, machine, use_lmm=True)


def _load(object_bytes: bytes, symbols: tuple[str, ...]) -> Code:
    import llvmlite.binding as llvm

    loaded = engine(llvm.parse_assembly(""))
    loaded.add_object_file(llvm.ObjectFileRef.from_data(object_bytes))
    loaded.finalize_object()
    return Code(loaded, symbols)
