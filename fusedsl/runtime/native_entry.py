"""Builtin functions that fill in a parameter block and launch a kernel, compiled by LLVM.

The same machine code serves all kernels. Each builtin's `self` is a bytes record: the function to call, the block as
far as it is constant, and the slot of each argument. A call copies the block to the stack, so that threads and nested
calls share no state. The GIL is released while the kernel runs.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from .native_entry_ir import CODE

NativeEntry = Callable[..., int]
"""f(*addresses[, numbers as bytes]) → the driver's CUresult; 0 on the CPU."""

# measured: a builtin saves the 0.3 µs of a ctypes call

_PYTHON_SYMBOLS = (
    "PyLong_AsUnsignedLongLongMask",
    "PyLong_FromLong",
    "PyBytes_AsString",
    "PyBytes_Size",
    "PyErr_Occurred",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
)
_BUILTINS = ("launch", "graph", "run", "watch")
GUARD_FAILED = -2  # result: the addresses violate the guard, and nothing was launched
_FASTCALL = 0x80  # METH_FASTCALL: (self, array of arguments, how many)


class _PyMethodDef(ctypes.Structure):
    """struct PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class _BuiltinFactories(NamedTuple):
    """The functions that make builtins from records, by kind; `owners` holds what must stay alive."""

    make: dict[str, Callable[[bytes], NativeEntry]]
    owners: tuple


_lock = threading.Lock()
_factories: _BuiltinFactories | None = None


class AddressSlot(NamedTuple):
    """The word of the copied block that an address goes to, and the offset that is added to it."""

    word: int
    shift: int = 0


class Pair(NamedTuple):
    """Two addresses whose arrays may not overlap.

    `begin` and `end` are the bytes from the first address to its array's begin and end, `other_begin` and `other_end`
    those of the second. `allowed` are the permitted aliasing offsets: distances of the first from the second at which
    overlap is correct, such as 0 for an output in place of its input.
    """

    first: int
    second: int
    begin: int
    end: int
    other_begin: int
    other_end: int
    allowed: tuple[int, ...] = ()


class Watch(NamedTuple):
    """The guard on addresses: their remainders by 16, by index, and the pairs that may not overlap."""

    remainders: Mapping[int, int] = {}
    pairs: Sequence[Pair] = ()

    def at(self, indices: Mapping[int, int]) -> Watch:
        """The same guard with other indices."""
        pairs = [pair._replace(first=indices[pair.first], second=indices[pair.second]) for pair in self.pairs]
        return Watch({indices[k]: remainder for k, remainder in self.remainders.items()}, pairs)

    def words(self) -> bytes:
        """The guard as machine code reads it."""
        words = [len(self.remainders), *(x for both in self.remainders.items() for x in both), len(self.pairs)]
        for pair in self.pairs:
            words += [*pair[:-1], len(pair.allowed), *pair.allowed]
        return struct.pack(f"<{len(words)}q", *words)

    def violated(self, *at: int) -> bool:
        """Whether these addresses violate the guard."""
        return any(at[k] & 15 != remainder for k, remainder in self.remainders.items()) or any(
            at[p.first] + p.begin < at[p.second] + p.other_end
            and at[p.second] + p.other_begin < at[p.first] + p.end
            and at[p.first] - at[p.second] not in p.allowed
            for p in self.pairs
        )


NO_WATCH = Watch()


def watcher(watch: Watch) -> Callable[..., int | bool]:
    """`watch.violated`, or a builtin that computes the same."""
    return _builtin("watch", watch.words()) or watch.violated


@cache
def available() -> bool:
    """Whether Python has such builtins, and LLVM is installed to make them."""
    try:
        import llvmlite.binding  # noqa: F401
    except ImportError:
        return False
    return sys.implementation.name == "cpython"


def ready() -> bool:
    """Whether a builtin takes less than 15 ms to make: LLVM is loaded, or builtins exist already."""
    return _factories is not None or "llvmlite.binding" in sys.modules


class EntryMemory(NamedTuple):
    """The memory that a builtin copies; each argument goes to its slot, packed numbers to the word `numbers`."""

    words: bytes = b""
    slots: Sequence[AddressSlot] = ()
    numbers: int = 0


def launcher(
    cell: int, kernel: int, memory: EntryMemory, graph: int = 0, watch: Watch = NO_WATCH
) -> NativeEntry | None:
    """A builtin that launches a kernel by the function whose address is stored at `cell` (cuLaunchKernelEx); 0 refuses.

    The words are CUlaunchConfig, the size of the parameter block, and the block. `graph` is the address of a
    CapturedGraph of this kernel, which is launched instead if possible; a result of -1 asks for it to be recorded. The
    result is GUARD_FAILED if `watch` is violated, by argument index. None if builtins are not available.
    """
    return _launch_builtin("launch", cell, kernel, memory, graph, watch)


def graph_launcher(cell: int, graph: int) -> NativeEntry | None:
    """f(stream) that launches a graph, and returns a nonzero number if it may not."""
    return _launch_builtin("graph", cell, graph, EntryMemory())


def runner(function: int, count: int, memory: EntryMemory, watch: Watch = NO_WATCH) -> NativeEntry | None:
    """A builtin that calls `void function(int64 *words, 0, count)` at an address; it returns 0 or GUARD_FAILED."""
    return _launch_builtin("run", function, count, memory, watch=watch)


def _launch_builtin(
    kind: str, first: int, second: int, memory: EntryMemory, graph: int = 0, watch: Watch = NO_WATCH
) -> NativeEntry | None:
    words, address_slots, numbers = memory
    head = struct.pack("<6Q", first, second, len(address_slots), len(words) // 8, numbers, graph)
    slots = b"".join(struct.pack("<2q", *slot) for slot in address_slots)
    return _builtin(kind, head + words + slots + watch.words())


def _builtin(kind: str, record: bytes) -> NativeEntry | None:
    """A builtin of this record; None if builtins are not available."""
    global _factories
    if not available():
        return None
    with _lock:
        _factories = _factories or _load()
    return _factories.make[kind](record)


def _load() -> _BuiltinFactories:
    import llvmlite.binding as llvm

    from .object_loader import mcjit_engine

    for name in _PYTHON_SYMBOLS:
        llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    code = mcjit_engine(llvm.parse_assembly(CODE))
    code.finalize_object()
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    definitions = {n: _PyMethodDef(n.encode(), code.get_function_address(n), _FASTCALL, None) for n in _BUILTINS}

    def maker(definition: _PyMethodDef) -> Callable[[bytes], NativeEntry]:
        address = ctypes.addressof(definition)
        return lambda record: new(address, record, None)

    return _BuiltinFactories({name: maker(definition) for name, definition in definitions.items()}, (code, definitions))
