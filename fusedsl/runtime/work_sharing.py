"""Shares units of short work among threads in machine code: each thread takes the next ones from an atomic counter.

A thread that came back to Python for its next units would wait for the GIL, which as many threads want at once.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ..errors import CompileError
from .object_loader import PROTOTYPE, load

CODE = """
define void @share(ptr %job, i64 %count, i64 %grain) {
start:
  %slots_at = getelementptr i64, ptr %job, i64 1
  %next_at = getelementptr i64, ptr %job, i64 2
  %function = load ptr, ptr %job
  %slots = load ptr, ptr %slots_at
  br label %take
take:
  %begin = atomicrmw add ptr %next_at, i64 %grain monotonic
  %is_left = icmp slt i64 %begin, %count
  br i1 %is_left, label %compute, label %done
compute:
  %after = add i64 %begin, %grain
  %is_whole = icmp slt i64 %after, %count
  %end = select i1 %is_whole, i64 %after, i64 %count
  call void %function(ptr %slots, i64 %begin, i64 %end)
  br label %take
done:
  ret void
}
"""


class SharedUnits:
    """The units of one launch of a C function; `take` computes some on this thread until none are left."""

    def __init__(self, function: Any, slots: int, count: int, grain: int):
        address = ctypes.c_void_p.from_buffer(function).value or 0
        self.function, self.count, self.grain = function, count, grain
        self._job = (ctypes.c_int64 * 3)(address, slots, 0)

    def take(self) -> None:
        """Compute units until none are left; others may take some meanwhile."""
        shared_loop()(ctypes.addressof(self._job), self.count, self.grain)

    def close(self) -> None:
        """Leave the units that no thread has taken."""
        self._job[2] = self.count


def can_share(function: Any) -> bool:
    """Whether the units of a function can be shared in machine code: it is C, and there is a compiler."""
    return isinstance(function, PROTOTYPE) and shared_loop() is not None


@cache
def shared_loop() -> Any:
    """The loop as a C function, compiled in some ms; None without a compiler."""
    try:
        from ..backends.cpu.processor import host

        host()
        from ..backends.cpu.target_machine import machine
    except (CompileError, ImportError):
        return None
    import llvmlite.binding as llvm

    code = machine(host()).emit_object(llvm.parse_assembly(CODE))
    (function,) = load(code, ("share",))
    return function
