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
declare i32 @memcmp(ptr, ptr, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; in words: where the function's address stands, its own argument, how many addresses, the length of what is copied,
; where numbers go, a graph or null; then what is copied; then for each address where it goes, and what is added to it
%record = type { ptr, ptr, i64, i64, i64, ptr, [0 x i64] }

; see graphs.py: whether it is in use, stream, CUgraphExec or null, calls so far, calls until one is asked for; the
; driver's functions cuGraphLaunch, cuStreamIsCapturing, cuGraphExecKernelNodeSetParams or null; what that takes; calls
; until it is to be made anew; the bytes of the block, and the block
%graph = type { i64, ptr, ptr, i64, i64, ptr, ptr, ptr, ptr, ptr, i64, i64, [0 x i64] }

define private i1 @fill(ptr %r, ptr %args, i64 %given, ptr %memory, i64 %length) alwaysinline {
start:
  %words = getelementptr %record, ptr %r, i64 0, i32 6, i64 0
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

; launch a graph whose block is to be this one on a stream; 0, or anything else where that cannot be done now
define private i32 @repeat(ptr %g, ptr %block, ptr %stream) {
  %exchanged = cmpxchg ptr %g, i64 0, i64 1 acquire monotonic
  %won = extractvalue { i64, i1 } %exchanged, 1
  br i1 %won, label %mine, label %taken
mine:
  %thread = call ptr @PyEval_SaveThread()
  %exec_at = getelementptr %graph, ptr %g, i64 0, i32 2
  %exec = load ptr, ptr %exec_at
  %gone = icmp eq ptr %exec, null
  br i1 %gone, label %back, label %which
which:
  %legacy = icmp eq ptr %stream, null ; the default stream is never captured
  br i1 %legacy, label %compare, label %ask
ask:
  %status = alloca i32, align 16
  store i32 0, ptr %status
  %capturing_at = getelementptr %graph, ptr %g, i64 0, i32 6
  %capturing = load ptr, ptr %capturing_at
  %asked = call i32 %capturing(ptr %stream, ptr %status)
  %captured = load i32, ptr %status
  %busy = or i32 %asked, %captured
  %idle = icmp eq i32 %busy, 0
  br i1 %idle, label %compare, label %back
compare:
  %bytes_at = getelementptr %graph, ptr %g, i64 0, i32 11
  %bytes = load i64, ptr %bytes_at
  %held = getelementptr %graph, ptr %g, i64 0, i32 12, i64 0
  %differs = call i32 @memcmp(ptr %held, ptr %block, i64 %bytes)
  %same = icmp eq i32 %differs, 0
  br i1 %same, label %go, label %other
other:
  %update_at = getelementptr %graph, ptr %g, i64 0, i32 7
  %update = load ptr, ptr %update_at
  %fixed = icmp eq ptr %update, null
  br i1 %fixed, label %back, label %change
change:
  call void @llvm.memcpy.p0.p0.i64(ptr %held, ptr %block, i64 %bytes, i1 false)
  %node_at = getelementptr %graph, ptr %g, i64 0, i32 8
  %node = load ptr, ptr %node_at
  %told_at = getelementptr %graph, ptr %g, i64 0, i32 9
  %told = load ptr, ptr %told_at
  %changed = call i32 %update(ptr %exec, ptr %node, ptr %told)
  %done = icmp eq i32 %changed, 0
  br i1 %done, label %go, label %broken
broken:
  store ptr null, ptr %exec_at
  br label %back
go:
  %launch_at = getelementptr %graph, ptr %g, i64 0, i32 5
  %launch = load ptr, ptr %launch_at
  %code = call i32 %launch(ptr %exec, ptr %stream)
  %calls_at = getelementptr %graph, ptr %g, i64 0, i32 3
  %calls = load i64, ptr %calls_at
  %more = add i64 %calls, 1
  store i64 %more, ptr %calls_at
  %last_at = getelementptr %graph, ptr %g, i64 0, i32 10
  %last = load i64, ptr %last_at
  %old = icmp eq i64 %more, %last
  br i1 %old, label %retire, label %back
retire:
  %wanted_at = getelementptr %graph, ptr %g, i64 0, i32 4
  %wanted = load i64, ptr %wanted_at
  %almost = sub i64 %wanted, 1
  store i64 %almost, ptr %calls_at
  store ptr null, ptr %exec_at
  br label %back
back:
  %result = phi i32 [1, %mine], [1, %ask], [1, %other], [1, %broken], [%code, %go], [%code, %retire]
  store atomic i64 0, ptr %g release, align 8
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 %result
taken:
  ret i32 1
}

; f(stream) of a graph without a block to compare, on any stream
define ptr @graph(ptr %self, ptr %args, i64 %given) {
  %r = call ptr @PyBytes_AsString(ptr %self)
  %cell = load ptr, ptr %r
  %there = load ptr, ptr %cell
  %allowed = icmp ne ptr %there, null
  %g_at = getelementptr ptr, ptr %r, i64 1
  %g = load ptr, ptr %g_at
  br i1 %allowed, label %go, label %no
go:
  %object = load ptr, ptr %args
  %number = call i64 @PyLong_AsUnsignedLongLongMask(ptr %object)
  %stream = inttoptr i64 %number to ptr
  %code = call i32 @repeat(ptr %g, ptr %g, ptr %stream)
  %long = sext i32 %code to i64
  %answer = call ptr @PyLong_FromLong(i64 %long)
  ret ptr %answer
no:
  %refused = call ptr @PyLong_FromLong(i64 1)
  ret ptr %refused
}

; f(*addresses): 1 where a remainder by 16 is another than it was, or two arrays overlap that must not, else 0. In words:
; how many addresses, the remainder of each; how many pairs, and for each: the numbers of two addresses, the bytes from
; the first to its array's begin and end, those of the second, how many distances are allowed all the same, and these
define ptr @misplaced(ptr %self, ptr %args, i64 %given) {
start:
  %r = call ptr @PyBytes_AsString(ptr %self)
  %count = load i64, ptr %r
  %values = alloca i64, i64 %count, align 16
  %remainders = getelementptr i64, ptr %r, i64 1
  br label %each
each:
  %k = phi i64 [0, %start], [%next, %even]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %address, label %pairs
address:
  %next = add i64 %k, 1
  %from = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %from
  %value = call i64 @PyLong_AsUnsignedLongLongMask(ptr %object)
  %slot = getelementptr i64, ptr %values, i64 %k
  store i64 %value, ptr %slot
  %low_bits = and i64 %value, 15
  %remainder_at = getelementptr i64, ptr %remainders, i64 %k
  %remainder = load i64, ptr %remainder_at
  %aligned = icmp eq i64 %low_bits, %remainder
  br i1 %aligned, label %even, label %wrong
even:
  br label %each
pairs:
  %number_at = getelementptr i64, ptr %remainders, i64 %count
  %number = load i64, ptr %number_at
  %first_pair = getelementptr i64, ptr %number_at, i64 1
  br label %pair
pair:
  %left = phi i64 [%number, %pairs], [%fewer, %apart]
  %p = phi ptr [%first_pair, %pairs], [%behind, %apart]
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %look, label %right
look:
  %fewer = sub i64 %left, 1
  %j_at = load i64, ptr %p
  %i_place = getelementptr i64, ptr %p, i64 1
  %i_at = load i64, ptr %i_place
  %a_at = getelementptr i64, ptr %values, i64 %j_at
  %a = load i64, ptr %a_at
  %b_at = getelementptr i64, ptr %values, i64 %i_at
  %b = load i64, ptr %b_at
  %a_low_at = getelementptr i64, ptr %p, i64 2
  %a_low = load i64, ptr %a_low_at
  %a_high_at = getelementptr i64, ptr %p, i64 3
  %a_high = load i64, ptr %a_high_at
  %b_low_at = getelementptr i64, ptr %p, i64 4
  %b_low = load i64, ptr %b_low_at
  %b_high_at = getelementptr i64, ptr %p, i64 5
  %b_high = load i64, ptr %b_high_at
  %allowed_at = getelementptr i64, ptr %p, i64 6
  %allowed = load i64, ptr %allowed_at
  %distances = getelementptr i64, ptr %p, i64 7
  %behind = getelementptr i64, ptr %distances, i64 %allowed
  %distance = sub i64 %a, %b
  %a_begin = add i64 %a, %a_low
  %b_end = add i64 %b, %b_high
  %begins = icmp slt i64 %a_begin, %b_end
  %b_begin = add i64 %b, %b_low
  %a_end = add i64 %a, %a_high
  %ends = icmp slt i64 %b_begin, %a_end
  %meet = and i1 %begins, %ends
  br i1 %meet, label %search, label %apart
search:
  %d = phi i64 [0, %look], [%d_next, %other]
  %untried = icmp slt i64 %d, %allowed
  br i1 %untried, label %try, label %wrong
try:
  %d_next = add i64 %d, 1
  %d_at = getelementptr i64, ptr %distances, i64 %d
  %known = load i64, ptr %d_at
  %same = icmp eq i64 %known, %distance
  br i1 %same, label %apart, label %other
other:
  br label %search
apart:
  br label %pair
right:
  %zero = call ptr @PyLong_FromLong(i64 0)
  ret ptr %zero
wrong:
  %one = call ptr @PyLong_FromLong(i64 1)
  ret ptr %one
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
  br i1 %there, label %look, label %gone
look:
  %g_at = getelementptr %record, ptr %r, i64 0, i32 5
  %g = load ptr, ptr %g_at
  %none = icmp eq ptr %g, null
  br i1 %none, label %fire, label %kept
kept:
  %exec_at = getelementptr %graph, ptr %g, i64 0, i32 2
  %exec = load ptr, ptr %exec_at
  %new = icmp eq ptr %exec, null
  br i1 %new, label %count, label %where
count:
  %calls_at = getelementptr %graph, ptr %g, i64 0, i32 3
  %calls = load i64, ptr %calls_at
  %more = add i64 %calls, 1
  store i64 %more, ptr %calls_at
  %wanted_at = getelementptr %graph, ptr %g, i64 0, i32 4
  %wanted = load i64, ptr %wanted_at
  %enough = icmp eq i64 %more, %wanted
  br i1 %enough, label %ask, label %fire
ask:
  %asking = call ptr @PyLong_FromLong(i64 -1)
  ret ptr %asking
where:
  %own_at = getelementptr %graph, ptr %g, i64 0, i32 1
  %own = load ptr, ptr %own_at
  %stream_at = getelementptr i64, ptr %memory, i64 4
  %stream = load ptr, ptr %stream_at
  %its = icmp eq ptr %own, %stream
  br i1 %its, label %repeat, label %fire
repeat:
  %parameters = getelementptr i64, ptr %memory, i64 8
  %repeated = call i32 @repeat(ptr %g, ptr %parameters, ptr %stream)
  %right_away = icmp eq i32 %repeated, 0
  br i1 %right_away, label %launched, label %fire
launched:
  %zero = call ptr @PyLong_FromLong(i64 0)
  ret ptr %zero
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
_BUILTINS = ("launch", "graph", "run", "misplaced")
_FASTCALL = 0x80  # METH_FASTCALL: (self, array of arguments, how many)


class _Definition(ctypes.Structure):
    """struct PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class _Makers(NamedTuple):
    """What makes builtins of records, by what they do; the rest stays alive with it."""

    make: dict[str, Callable[[bytes], Entry]]
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


def launcher(
    cell: int, kernel: int, words: bytes, places: Sequence[Place], numbers: int = 0, graph: int = 0
) -> Entry | None:
    """What launches a kernel by the function whose address stands in memory at `cell`: cuLaunchKernelEx; 0 refuses.

    `words` are CUlaunchConfig, the size of the parameter block, and the block; each argument goes to its place among
    them, and packed numbers to the word `numbers`. None where Python has no such builtins. `graph` is the address of a
    Graph of this kernel, which is launched instead wherever it may be; -1 asks for it to be recorded.
    """
    return _made("launch", cell, kernel, words, places, numbers, graph)


def graph_launcher(cell: int, graph: int) -> Entry | None:
    """f(stream) that launches a graph, and returns another number than 0 where it may not."""
    return _made("graph", cell, graph, b"", (), 0)


def runner(function: int, count: int, words: bytes, places: Sequence[Place], numbers: int = 0) -> Entry | None:
    """What calls `void function(int64 *words, 0, count)` at an address, with the places filled in."""
    return _made("run", function, count, words, places, numbers)


class Pair(NamedTuple):
    """Two addresses by number, the bytes from each to its array's begin and end, and the distances of the first from
    the second at which their arrays may have bytes in common."""

    first: int
    second: int
    begin: int
    end: int
    other_begin: int
    other_end: int
    allowed: tuple[int, ...] = ()


def misplaced(remainders: Sequence[int], pairs: Sequence[Pair]) -> Callable[..., int | bool]:
    """f(*addresses): whether one leaves another remainder by 16, or two arrays overlap that must not."""
    words = [len(remainders), *remainders, len(pairs)]
    for pair in pairs:
        words += [*pair[:-1], len(pair.allowed), *pair.allowed]
    return _builtin("misplaced", struct.pack(f"<{len(words)}q", *words)) or _misplaced(remainders, pairs)


def _misplaced(remainders: Sequence[int], pairs: Sequence[Pair]) -> Callable[..., bool]:
    """The same where Python has no such builtins."""

    def meet(pair: Pair, a: int, b: int) -> bool:
        apart = a + pair.begin >= b + pair.other_end or b + pair.other_begin >= a + pair.end
        return not apart and a - b not in pair.allowed

    def test(*at: int) -> bool:
        return any(a & 15 != r for a, r in zip(at, remainders)) or any(meet(p, at[p[0]], at[p[1]]) for p in pairs)

    return test


def _made(
    kind: str, first: int, second: int, words: bytes, places: Sequence[Place], numbers: int, graph: int = 0
) -> Entry | None:
    head = struct.pack("<6Q", first, second, len(places), len(words) // 8, numbers, graph)
    return _builtin(kind, head + words + b"".join(struct.pack("<2q", *place) for place in places))


def _builtin(kind: str, record: bytes) -> Entry | None:
    """A builtin of this record; None where Python has no such builtins."""
    global _makers
    if sys.implementation.name != "cpython":
        return None
    with _lock:
        _makers = _makers or _load()
    return _makers.make[kind](record)


def _load() -> _Makers:
    import llvmlite.binding as llvm

    from .native import engine

    for name in _ASKED:
        llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    code = engine(llvm.parse_assembly(CODE))
    code.finalize_object()
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    told = {n: _Definition(n.encode(), code.get_function_address(n), _FASTCALL, None) for n in _BUILTINS}

    def maker(definition: _Definition) -> Callable[[bytes], Entry]:
        address = ctypes.addressof(definition)
        return lambda record: new(address, record, None)

    return _Makers({name: maker(definition) for name, definition in told.items()}, (code, told))
