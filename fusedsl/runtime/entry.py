"""Builtin functions that fill in a parameter block and run a kernel with it; made of LLVM, since ctypes costs 0.3 µs.

One piece of machine code serves all kernels. What differs stands in the bytes that a builtin has for its `self`: what
it calls, the block as far as it is known, and where each argument goes. A call copies the block to the stack, so that
threads, and calls in the middle of calls, share nothing; the GIL is released while it runs.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

Entry = Callable[..., int]
"""f(*addresses[, numbers as bytes]) → what the driver answered; 0 on the CPU."""

CODE = r"""
declare i64 @PyLong_AsUnsignedLongLongMask(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyBytes_AsString(ptr)
declare i64 @PyBytes_Size(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; in words: where the function's address stands, its own argument, how many addresses, the length of what is copied,
; where numbers go; then what is copied; then for each address where it goes, and what is added to it
%record = type { ptr, ptr, i64, i64, i64, [0 x i64] }

define private i1 @fill(ptr %r, ptr %args, i64 %given, ptr %memory, i64 %length) alwaysinline {
start:
  %words = getelementptr %record, ptr %r, i64 0, i32 5, i64 0
  %bytes = mul i64 %length, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %memory, ptr %words, i64 %bytes, i1 false)
  %places = getelementptr i64, ptr %words, i64 %length
  %count_at = getelementptr %record, ptr %r, i64 0, i32 2
  %count = load i64, ptr %count_at
  br label %each
each:
  %k = phi i64 [0, %start], [%next, %address]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %address, label %rest
address:
  %next = add i64 %k, 1
  %from = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %from
  %value = call i64 @PyLong_AsUnsignedLongLongMask(ptr %object)
  %place_at = getelementptr [2 x i64], ptr %places, i64 %k
  %place = load i64, ptr %place_at
  %shift_at = getelementptr i64, ptr %place_at, i64 1
  %shift = load i64, ptr %shift_at
  %shifted = add i64 %value, %shift
  %slot = getelementptr i64, ptr %memory, i64 %place
  store i64 %shifted, ptr %slot
  br label %each
rest:
  %numbers = icmp sgt i64 %given, %count
  br i1 %numbers, label %copy, label %done
copy:
  %packed_at = getelementptr ptr, ptr %args, i64 %count
  %packed = load ptr, ptr %packed_at
  %source = call ptr @PyBytes_AsString(ptr %packed)
  %size = call i64 @PyBytes_Size(ptr %packed)
  %numbers_at = getelementptr %record, ptr %r, i64 0, i32 4
  %word = load i64, ptr %numbers_at
  %target = getelementptr i64, ptr %memory, i64 %word
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %size, i1 false)
  br label %done
done:
  %fault = call ptr @PyErr_Occurred()
  %right = icmp eq ptr %fault, null
  ret i1 %right
}

define ptr @launch(ptr %self, ptr %args, i64 %given) {
  %r = call ptr @PyBytes_AsString(ptr %self)
  %length_at = getelementptr %record, ptr %r, i64 0, i32 3
  %length = load i64, ptr %length_at
  %memory = alloca i64, i64 %length, align 16
  %right = call i1 @fill(ptr %r, ptr %args, i64 %given, ptr %memory, i64 %length)
  br i1 %right, label %go, label %wrong
go:
  %cell = load ptr, ptr %r
  %function = load ptr, ptr %cell
  %there = icmp ne ptr %function, null
  br i1 %there, label %fire, label %gone
fire:
  %kernel_at = getelementptr %record, ptr %r, i64 0, i32 1
  %kernel = load ptr, ptr %kernel_at
  %size = getelementptr i64, ptr %memory, i64 7
  %block = getelementptr i64, ptr %memory, i64 8
  %extra = alloca [5 x ptr], align 16
  store ptr inttoptr (i64 1 to ptr), ptr %extra ; CU_LAUNCH_PARAM_BUFFER_POINTER
  %extra1 = getelementptr ptr, ptr %extra, i64 1
  store ptr %block, ptr %extra1
  %extra2 = getelementptr ptr, ptr %extra, i64 2
  store ptr inttoptr (i64 2 to ptr), ptr %extra2 ; CU_LAUNCH_PARAM_BUFFER_SIZE
  %extra3 = getelementptr ptr, ptr %extra, i64 3
  store ptr %size, ptr %extra3
  %extra4 = getelementptr ptr, ptr %extra, i64 4
  store ptr null, ptr %extra4 ; CU_LAUNCH_PARAM_END
  %thread = call ptr @PyEval_SaveThread()
  %code = call i32 %function(ptr %memory, ptr %kernel, ptr null, ptr %extra)
  call void @PyEval_RestoreThread(ptr %thread)
  %long = sext i32 %code to i64
  %answer = call ptr @PyLong_FromLong(i64 %long)
  ret ptr %answer
gone:
  %refused = call ptr @PyLong_FromLong(i64 3) ; CUDA_ERROR_NOT_INITIALIZED
  ret ptr %refused
wrong:
  ret ptr null
}

define ptr @run(ptr %self, ptr %args, i64 %given) {
  %r = call ptr @PyBytes_AsString(ptr %self)
  %length_at = getelementptr %record, ptr %r, i64 0, i32 3
  %length = load i64, ptr %length_at
  %memory = alloca i64, i64 %length, align 16
  %right = call i1 @fill(ptr %r, ptr %args, i64 %given, ptr %memory, i64 %length)
  br i1 %right, label %go, label %wrong
go:
  %function = load ptr, ptr %r
  %count_at = getelementptr %record, ptr %r, i64 0, i32 1
  %count = load i64, ptr %count_at
  %thread = call ptr @PyEval_SaveThread()
  call void %function(ptr %memory, i64 0, i64 %count)
  call void @PyEval_RestoreThread(ptr %thread)
  %answer = call ptr @PyLong_FromLong(i64 0)
  ret ptr %answer
wrong:
  ret ptr null
}
"""
_ASKED = ("PyLong_AsUnsignedLongLongMask", "PyLong_FromLong", "PyBytes_AsString", "PyBytes_Size", "PyErr_Occurred",
          "PyEval_SaveThread", "PyEval_RestoreThread")  # fmt: skip
_FASTCALL = 0x80  # METH_FASTCALL: (self, array of arguments, how many)


class _Definition(ctypes.Structure):
    """struct PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class _Makers(NamedTuple):
    """What makes builtins of records; the rest stays alive with it."""

    launch: Callable[[bytes], Entry]
    run: Callable[[bytes], Entry]
    kept: tuple


_lock = threading.Lock()
_makers: _Makers | None = None


class Place(NamedTuple):
    """An address goes to a word of what is copied, with so much added."""

    word: int
    shift: int = 0


def ready() -> bool:
    """Whether builtins cost less than 15 ms to have: LLVM is loaded, or they are there."""
    return _makers is not None or "llvmlite.binding" in sys.modules


def launcher(cell: int, kernel: int, words: bytes, places: Sequence[Place], numbers: int = 0) -> Entry | None:
    """What launches a kernel by the function whose address stands in memory at `cell`: cuLaunchKernelEx; 0 refuses.

    `words` are CUlaunchConfig, the size of the parameter block, and the block; each argument goes to its place among
    them, and packed numbers to the word `numbers`. None where Python has no such builtins.
    """
    return _made("launch", cell, kernel, words, places, numbers)


def runner(function: int, count: int, words: bytes, places: Sequence[Place], numbers: int = 0) -> Entry | None:
    """What calls `void function(int64 *words, 0, count)` at an address, with the places filled in."""
    return _made("run", function, count, words, places, numbers)


def _made(kind: str, first: int, second: int, words: bytes, places: Sequence[Place], numbers: int) -> Entry | None:
    global _makers
    if sys.implementation.name != "cpython":
        return None
    with _lock:
        _makers = _makers or _load()
    head = struct.pack("<5Q", first, second, len(places), len(words) // 8, numbers)
    make = _makers.run if kind == "run" else _makers.launch
    return make(head + words + b"".join(struct.pack("<2q", *place) for place in places))


def _load() -> _Makers:
    import llvmlite.binding as llvm

    from .native import engine

    for name in _ASKED:
        llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    code = engine(llvm.parse_assembly(CODE))
    code.finalize_object()
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    told = [_Definition(n.encode(), code.get_function_address(n), _FASTCALL, None) for n in ("launch", "run")]
    at = [ctypes.addressof(one) for one in told]
    return _Makers(lambda record: new(at[0], record, None), lambda record: new(at[1], record, None), (code, told))
