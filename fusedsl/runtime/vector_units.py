"""Vector units of this processor, and of the BLAS of NumPy: bytes that a multiply-add computes at full rate.

Registers may be wider than the units: some processors with AVX-512 compute 64 bytes in two halves, by design or by a
setting of the firmware, which no flag tells. So the width is measured, once a process: by the time of as many
multiply-adds of whole registers and of halves. A BLAS has kernels for the processors that its build knew; on later
ones OpenBLAS takes those of an older one, and says which.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from threading import Lock
from time import perf_counter

from ..errors import CompileError

CHAINS = 12  # independent multiply-adds: two units with a latency of four or five clocks are busy
STEPS, ROUNDS = 20_000, 7  # 30 µs each: upper halves of vectors may take 20 µs to wake
SAME = 1.5  # of the time of half the bytes: as wide in one operation; two take twice as long
NAMES = (
    "scipy_openblas_get_corename64_",
    "scipy_openblas_get_corename",
    "openblas_get_corename64_",
    "openblas_get_corename",
)
KERNELS = {  # of OpenBLAS, by the name of their processor: bytes of their multiply-adds
    **dict.fromkeys(("Haswell", "Zen", "Excavator", "Steamroller", "Piledriver"), 32),
    **dict.fromkeys(("SkylakeX", "Cooperlake", "SapphireRapids"), 64),
}
_measuring = Lock()


def vector_unit_bytes() -> int:
    """Bytes of a multiply-add at full rate on this processor; some ms where registers are of 64 bytes."""
    with _measuring:  # two threads at once would slow down each other's loops
        return _measured_bytes()


@cache
def _measured_bytes() -> int:
    from ..backends.cpu.processor import host

    try:
        width = host().vectors.bytes
    except CompileError:  # without a compiler there are no kernels of ours to choose
        return 32
    return width if width <= 32 or _is_one_operation(width) else width // 2


@cache
def blas_vector_bytes() -> int | None:
    """Bytes of a multiply-add of NumPy's BLAS on this processor; None if it does not tell."""
    import numpy as np

    core = getattr(np, "_core", None) or np.core
    try:
        library = ctypes.CDLL(core._multiarray_umath.__file__)  # whose symbols are those of the BLAS it is linked to
    except (AttributeError, OSError):
        return None
    for name in NAMES:
        if (function := getattr(library, name, None)) is not None:
            function.restype = ctypes.c_char_p
            return KERNELS.get((function() or b"").decode("ascii", "replace"))
    return None


def multiply_add_rate() -> float:
    """Multiply-adds of float32 a second of one thread of this processor, measured."""
    from ..backends.cpu.processor import host

    lanes = host().vectors.bytes // 4
    widths = (lanes, lanes // 2)
    times = _seconds(widths)
    return max(STEPS * CHAINS * n / seconds for n, seconds in zip(widths, times))


def _is_one_operation(width: int) -> bool:
    """Whether multiply-adds of so many bytes take no longer than as many of half the bytes."""
    whole, half = _seconds((width // 4, width // 8))
    return whole < SAME * half


def _seconds(lanes: tuple[int, ...]) -> list[float]:
    """The least time of the chains of multiply-adds, for vectors of each of these numbers of float32."""
    import llvmlite.binding as llvm

    from ..backends.cpu.processor import host
    from ..backends.cpu.target_machine import machine
    from .object_loader import load

    module = llvm.parse_assembly("\n".join(_chains(f"chains{n}", n) for n in lanes))
    calls = load(machine(host()).emit_object(module), tuple(f"chains{n}" for n in lanes))
    memory = (ctypes.c_uint8 * (8 * max(lanes)))()
    best = [float("inf")] * len(lanes)
    for _ in range(ROUNDS):
        for k, call in enumerate(calls):
            begun = perf_counter()
            call(ctypes.addressof(memory), 0, STEPS)
            best[k] = min(best[k], perf_counter() - begun)
    return best


def _chains(name: str, lanes: int) -> str:
    """LLVM IR of a loop of independent multiply-adds of vectors of float32."""
    vector = f"<{lanes} x float>"
    sums = [f"  %s{k} = phi {vector} [zeroinitializer, %start], [%t{k}, %step]" for k in range(CHAINS)]
    steps = [
        f"  %t{k} = call {vector} @llvm.fma.v{lanes}f32({vector} %x, {vector} %x, {vector} %s{k})"
        for k in range(CHAINS)
    ]
    totals = [f"  %u{k} = fadd {vector} %{'u' if k > 1 else 't'}{k - 1}, %t{k}" for k in range(1, CHAINS)]
    return "\n".join(
        [
            f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
            f'define void @{name}(ptr %slots, i64 %begin, i64 %end) "prefer-vector-width"="512" {{',
            f"start:\n  %x = load {vector}, ptr %slots, align 1\n  br label %step",
            "step:\n  %i = phi i64 [%begin, %start], [%next, %step]",
            *sums,
            *steps,
            "  %next = add i64 %i, 1\n  %more = icmp slt i64 %next, %end\n  br i1 %more, label %step, label %done",
            "done:",
            *totals,
            f"  store {vector} %u{CHAINS - 1}, ptr %slots, align 1\n  ret void\n}}",
        ]
    )


def _forget() -> None:
    """In a forked child the thread that measures is gone."""
    global _measuring
    _measuring = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
