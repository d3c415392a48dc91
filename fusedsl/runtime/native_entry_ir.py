"""The builtins of native_entry.py in LLVM IR."""

from __future__ import annotations

from .native_launch_ir import LAUNCH, RUN

_COMMON = r"""
declare i64 @PyLong_AsUnsignedLongLongMask(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyBytes_AsString(ptr)
declare i64 @PyBytes_Size(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; in words: the address of the function's address, its own argument, the number of addresses, the length of the block,
; the word of packed numbers, a graph or null; then the block; then the slots of the addresses; then the guard
%record = type { ptr, ptr, i64, i64, i64, ptr, [0 x i64] }

; see graph_capture.py: whether it is in use, stream, CUgraphExec or null, calls so far, calls until a graph is made;
; the driver's functions cuGraphLaunch, cuStreamIsCapturing, cuGraphExecKernelNodeSetParams or null; two arguments of
; the last function; launches until renewal; the bytes of the block, and the block
%graph = type { i64, ptr, ptr, i64, i64, ptr, ptr, ptr, ptr, ptr, i64, i64, [0 x i64] }

; whether the guard is violated: an address has another remainder by 16, or two arrays overlap that must not. In words:
; the number of remainders, for each the index of an address and the remainder; the number of pairs, for each the
; indices of two addresses, the bytes from the first to its array's begin and end, those of the second, the number of
; allowed distances, and these
define private i1 @look(ptr %args, ptr %watched) {
start:
  %count = load i64, ptr %watched
  %remainders = getelementptr i64, ptr %watched, i64 1
  br label %each
each:
  %k = phi i64 [0, %start], [%next, %address]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %address, label %pairs
address:
  %next = add i64 %k, 1
  %number_at = getelementptr [2 x i64], ptr %remainders, i64 %k
  %number = load i64, ptr %number_at
  %value = call i64 @value(ptr %args, i64 %number)
  %bits = and i64 %value, 15
  %remainder_at = getelementptr i64, ptr %number_at, i64 1
  %remainder = load i64, ptr %remainder_at
  %aligned = icmp eq i64 %bits, %remainder
  br i1 %aligned, label %each, label %wrong
pairs:
  %several_at = getelementptr [2 x i64], ptr %remainders, i64 %count
  %several = load i64, ptr %several_at
  %first = getelementptr i64, ptr %several_at, i64 1
  br label %pair
pair:
  %left = phi i64 [%several, %pairs], [%fewer, %compare], [%fewer, %try]
  %p = phi ptr [%first, %pairs], [%behind, %compare], [%behind, %try]
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %compare, label %right
compare:
  %fewer = sub i64 %left, 1
  %words = load <7 x i64>, ptr %p, align 8
  %a_number = extractelement <7 x i64> %words, i32 0
  %b_number = extractelement <7 x i64> %words, i32 1
  %a_begin = extractelement <7 x i64> %words, i32 2
  %a_end = extractelement <7 x i64> %words, i32 3
  %b_begin = extractelement <7 x i64> %words, i32 4
  %b_end = extractelement <7 x i64> %words, i32 5
  %allowed = extractelement <7 x i64> %words, i32 6
  %distances = getelementptr i64, ptr %p, i64 7
  %behind = getelementptr i64, ptr %distances, i64 %allowed
  %a = call i64 @value(ptr %args, i64 %a_number)
  %b = call i64 @value(ptr %args, i64 %b_number)
  %distance = sub i64 %a, %b
  %a_from = add i64 %a, %a_begin
  %a_to = add i64 %a, %a_end
  %b_from = add i64 %b, %b_begin
  %b_to = add i64 %b, %b_end
  %begins = icmp slt i64 %a_from, %b_to
  %ends = icmp slt i64 %b_from, %a_to
  %meet = and i1 %begins, %ends
  br i1 %meet, label %search, label %pair
search:
  %d = phi i64 [0, %compare], [%later, %try]
  %untried = icmp slt i64 %d, %allowed
  br i1 %untried, label %try, label %wrong
try:
  %later = add i64 %d, 1
  %known_at = getelementptr i64, ptr %distances, i64 %d
  %known = load i64, ptr %known_at
  %same = icmp eq i64 %known, %distance
  br i1 %same, label %pair, label %search
right:
  ret i1 false
wrong:
  ret i1 true
}

; a word of a record, a graph, or a guard
define private i64 @number(ptr %of, i64 %k) alwaysinline {
  %at = getelementptr i64, ptr %of, i64 %k
  %word = load i64, ptr %at
  ret i64 %word
}

define private ptr @pointer(ptr %of, i64 %k) alwaysinline {
  %at = getelementptr i64, ptr %of, i64 %k
  %word = load ptr, ptr %at
  ret ptr %word
}

; count one more call of a graph; returns the count
define private i64 @counted(ptr %g) alwaysinline {
  %calls_at = getelementptr i64, ptr %g, i64 3
  %calls = load i64, ptr %calls_at
  %more = add i64 %calls, 1
  store i64 %more, ptr %calls_at
  ret i64 %more
}

define private i64 @value(ptr %args, i64 %number) alwaysinline {
  %from = getelementptr ptr, ptr %args, i64 %number
  %object = load ptr, ptr %from
  %value = call i64 @PyLong_AsUnsignedLongLongMask(ptr %object)
  ret i64 %value
}

define private i32 @fill(ptr %r, ptr %args, i64 %given, ptr %memory, i64 %length) alwaysinline {
start:
  %words = getelementptr %record, ptr %r, i64 0, i32 6, i64 0
  %bytes = mul i64 %length, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %memory, ptr %words, i64 %bytes, i1 false)
  %offsets = getelementptr i64, ptr %words, i64 %length
  %count = call i64 @number(ptr %r, i64 2)
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
  %offset_at = getelementptr [2 x i64], ptr %offsets, i64 %k
  %offset = load i64, ptr %offset_at
  %shift_at = getelementptr i64, ptr %offset_at, i64 1
  %shift = load i64, ptr %shift_at
  %shifted = add i64 %value, %shift
  %slot = getelementptr i64, ptr %memory, i64 %offset
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
  %word = call i64 @number(ptr %r, i64 4)
  %target = getelementptr i64, ptr %memory, i64 %word
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %size, i1 false)
  br label %done
done:
  %fault = call ptr @PyErr_Occurred()
  %right = icmp eq ptr %fault, null
  br i1 %right, label %watch, label %wrong
watch:
  %behind = mul i64 %count, 2
  %watched = getelementptr i64, ptr %offsets, i64 %behind
  %misplaced = call i1 @look(ptr %args, ptr %watched)
  %answer = select i1 %misplaced, i32 2, i32 0
  ret i32 %answer
wrong:
  ret i32 1
}

; launch a graph with this block on a stream; 0, or nonzero if that is not possible now
define private i32 @repeat(ptr %g, ptr %block, ptr %stream) {
  %exchanged = cmpxchg ptr %g, i64 0, i64 1 acquire monotonic
  %won = extractvalue { i64, i1 } %exchanged, 1
  br i1 %won, label %mine, label %taken
mine:
  %thread = call ptr @PyEval_SaveThread()
  %exec_at = getelementptr ptr, ptr %g, i64 2
  %exec = load ptr, ptr %exec_at
  %exec_is_null = icmp eq ptr %exec, null
  br i1 %exec_is_null, label %back, label %which
which:
  %legacy = icmp eq ptr %stream, null ; the default stream is never captured
  br i1 %legacy, label %compare, label %ask
ask:
  %status = alloca i32, align 16
  store i32 0, ptr %status
  %capturing = call ptr @pointer(ptr %g, i64 6)
  %asked = call i32 %capturing(ptr %stream, ptr %status)
  %captured = load i32, ptr %status
  %busy = or i32 %asked, %captured
  %idle = icmp eq i32 %busy, 0
  br i1 %idle, label %compare, label %back
compare:
  %bytes = call i64 @number(ptr %g, i64 11)
  %held = getelementptr %graph, ptr %g, i64 0, i32 12, i64 0
  %differs = call i32 @memcmp(ptr %held, ptr %block, i64 %bytes)
  %same = icmp eq i32 %differs, 0
  br i1 %same, label %go, label %other
other:
  %update = call ptr @pointer(ptr %g, i64 7)
  %fixed = icmp eq ptr %update, null
  br i1 %fixed, label %back, label %change
change:
  call void @llvm.memcpy.p0.p0.i64(ptr %held, ptr %block, i64 %bytes, i1 false)
  %node = call ptr @pointer(ptr %g, i64 8)
  %told = call ptr @pointer(ptr %g, i64 9)
  %changed = call i32 %update(ptr %exec, ptr %node, ptr %told)
  %done = icmp eq i32 %changed, 0
  br i1 %done, label %go, label %broken
broken:
  store ptr null, ptr %exec_at
  br label %back
go:
  %launch = call ptr @pointer(ptr %g, i64 5)
  %code = call i32 %launch(ptr %exec, ptr %stream)
  %more = call i64 @counted(ptr %g)
  %last = call i64 @number(ptr %g, i64 10)
  %old = icmp eq i64 %more, %last
  br i1 %old, label %retire, label %back
retire:
  %wanted = call i64 @number(ptr %g, i64 4)
  %almost = sub i64 %wanted, 1
  %calls_at = getelementptr i64, ptr %g, i64 3
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
  %g = call ptr @pointer(ptr %r, i64 1)
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

; f(*addresses): 1 if they violate the guard, else 0
define ptr @watch(ptr %self, ptr %args, i64 %given) {
  %watched = call ptr @PyBytes_AsString(ptr %self)
  %misplaced = call i1 @look(ptr %args, ptr %watched)
  %long = zext i1 %misplaced to i64
  %answer = call ptr @PyLong_FromLong(i64 %long)
  ret ptr %answer
}
"""


def _framed(name: str, body: str) -> str:
    """A builtin whose body has `memory` on its stack: the copied block with the arguments filled in."""
    return f"""
define ptr @{name}(ptr %self, ptr %args, i64 %given) {{
  %r = call ptr @PyBytes_AsString(ptr %self)
  %length = call i64 @number(ptr %r, i64 3)
  %memory = alloca i64, i64 %length, align 16
  %filled = call i32 @fill(ptr %r, ptr %args, i64 %given, ptr %memory, i64 %length)
  switch i32 %filled, label %go [i32 1, label %wrong
                                 i32 2, label %misplaced]
go:
{body.rstrip()}
misplaced:
  %other = call ptr @PyLong_FromLong(i64 -2)
  ret ptr %other
wrong:
  ret ptr null
}}
"""


CODE = _COMMON + _framed("launch", LAUNCH) + _framed("run", RUN)
"""Functions `launch`, `graph`, `run` and `watch`, which Python calls with METH_FASTCALL."""
