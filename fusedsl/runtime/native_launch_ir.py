"""LLVM IR that fills a kernel's parameters and launches it."""

from __future__ import annotations

LAUNCH = r"""  %cell = load ptr, ptr %r
  %function = load ptr, ptr %cell
  %there = icmp ne ptr %function, null
  br i1 %there, label %look, label %gone
look:
  %g = call ptr @pointer(ptr %r, i64 5)
  %none = icmp eq ptr %g, null
  br i1 %none, label %fire, label %kept
kept:
  %exec = call ptr @pointer(ptr %g, i64 2)
  %new = icmp eq ptr %exec, null
  br i1 %new, label %count, label %where
count:
  %more = call i64 @counted(ptr %g)
  %wanted = call i64 @number(ptr %g, i64 4)
  %enough = icmp eq i64 %more, %wanted
  br i1 %enough, label %ask, label %fire
ask:
  %asking = call ptr @PyLong_FromLong(i64 -1)
  ret ptr %asking
where:
  %own = call ptr @pointer(ptr %g, i64 1)
  %stream = call ptr @pointer(ptr %memory, i64 4)
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
  %kernel = call ptr @pointer(ptr %r, i64 1)
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
"""
RUN = r"""  %function = load ptr, ptr %r
  %count = call i64 @number(ptr %r, i64 1)
  %thread = call ptr @PyEval_SaveThread()
  call void %function(ptr %memory, i64 0, i64 %count)
  call void @PyEval_RestoreThread(ptr %thread)
  %answer = call ptr @PyLong_FromLong(i64 0)
  ret ptr %answer
"""
