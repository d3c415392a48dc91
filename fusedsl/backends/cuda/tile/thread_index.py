"""Special registers (thread and block indices), kernel parameters, division by launch-time numbers."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import dtype
from ..compiler.numba_backend import (
    I32,
    I64,
    VOID,
    Emitter,
    ScalarFunction,
    Words,
    emitted,
    intrinsic,
    ir,
    numba_type,
    types,
)
from .element_registers import element_type


def special_register(name: str) -> Callable:
    """An intrinsic without arguments: a special register of this thread, int32."""
    return intrinsic(0)(lambda: (types.int32, lambda e: e.special_register(name)))


thread_idx, thread_idx_y = special_register("tid.x"), special_register("tid.y")
block_dim_x, block_dim_y = special_register("ntid.x"), special_register("ntid.y")
block_idx = special_register("ctaid.x")


def thread_here(e: Emitter) -> ir.Value:
    """tid.x, read again at this point: no register holds it, or what is computed from it, across a loop."""
    return e.asm(I32, "mov.u32 $0, %tid.x;", "=r", [], side_effect=True)


@intrinsic(0)
def reread_thread_idx():
    """tid.x, read again at this point."""
    return types.int32, thread_here


@emitted(types.void)
def barrier(e):
    """bar.sync of the block."""
    e.barrier()


@emitted(types.void)
def griddepcontrol(e):
    """griddepcontrol.launch_dependents and .wait: programmatic dependent launch.

    No effect before sm_90, or in a launch without the programmatic attribute.
    """
    if e.cc >= (9, 0):
        e.asm(VOID, "griddepcontrol.launch_dependents; griddepcontrol.wait;", "~{memory}", [], side_effect=True)


@emitted(types.void)
def launch_dependents(e):
    """griddepcontrol.launch_dependents: the next kernel may start, once all blocks have come here."""
    e.asm(VOID, "griddepcontrol.launch_dependents;", "~{memory}", [], side_effect=True)


@emitted(types.void)
def wait_for_launches(e):
    """griddepcontrol.wait: what the launches before this one have written is there."""
    e.asm(VOID, "griddepcontrol.wait;", "~{memory}", [], side_effect=True)


@emitted(types.void)
def cluster_wait(e):
    """barrier.cluster.wait: all blocks of the cluster run, so that their shared memory may be written."""
    e.asm(VOID, "barrier.cluster.wait.acquire.aligned;", "~{memory}", [], side_effect=True)


@emitted(lambda kinds: types.int64 if kinds[0] == types.int64 else types.int32, 2)
def udiv(e, *values, kinds):
    """number // divisor for non-negative integers, by a real division: once a loop, not once an element.

    int64 if the number is, else int32.
    """
    b, kind = e.builder, I64 if kinds[0] == types.int64 else I32
    same = [v if v.type == kind else b.sext(v, kind) if kind == I64 else b.trunc(v, kind) for v in values]
    return b.udiv(*same)


@emitted(lambda kinds: kinds[0] if kinds[0] in (types.int32, types.int64) else None)
def divide(e, number, divisor, magic, *, kinds):
    """number // divisor for number >= 0: umulhi(2 * number, multiplier) >> shift while number < 2**31.

    `magic` is that of kernel_ir/fast_division.py for the divisor. Larger numbers (int64 only) take a real division.
    """
    b = e.builder
    if kinds[0] == types.int32:
        return quotient(b, number, magic)
    small = b.icmp_unsigned("<", number, I64(1 << 31))
    short = lambda: [b.zext(quotient(b, b.trunc(number, I32), magic), I64)]  # noqa: E731
    return e.if_else(small, short, lambda: [b.udiv(number, divisor)])


def quotient(b: ir.IRBuilder, number: ir.Value, magic: ir.Value) -> ir.Value:
    """An int32 from 0 on divided by the number of a magic."""
    multiplier, shift = b.trunc(magic, I32), b.trunc(b.lshr(magic, I64(32)), I32)
    product = b.mul(b.zext(b.shl(number, I32(1)), I64), b.zext(multiplier, I64))
    return b.lshr(b.trunc(b.lshr(product, I64(32)), I32), shift)


def scalar(name: str):
    """A run-time scalar out of its 8-byte parameter."""
    result, kind = numba_type(name), element_type(dtype(name))

    def decode(word):
        def emit(e, value):
            if name == "bool":
                return e.builder.icmp_unsigned("!=", e.builder.and_(value, I64(255)), I64(0))
            width = dtype(name).bits
            bits = e.builder.trunc(value, ir.IntType(width)) if width < 64 else value
            return e.builder.bitcast(bits, kind)

        return result, emit

    return intrinsic(1)(decode)


def subkernel(work: Callable) -> Callable:
    """Decorator: `work(block_number, *params)`, a kernel that is inlined in the kernel that calls it."""
    count = work.__code__.co_argcount
    takes = [types.int32] + [types.int64] * (count - 1)
    body = ScalarFunction(work, takes, [types.none])

    @emitted(types.void, count)
    def emit(e, *values, kinds):
        body.emit(e, [e.cast(value, kind, want) for value, kind, want in zip(values, kinds, takes)])

    return emit


def _parameter(name: str, bits: int) -> Callable:
    """Reads a number of so many bits out of a kernel's only parameter, whose type is `Words`."""
    result, kind = numba_type(name), ir.IntType(bits)

    def rule(words, index):
        if not isinstance(words, Words):
            return None

        def emit(e, _, number):
            b = e.builder
            number = number if number.type == I64 else b.sext(number, I64)
            address = f"{{ .reg .b64 at; mov.b64 at, {b.function.name}_param_0; add.s64 at, at, $1; "
            text = f"{address}ld.param.b{bits} $0, [at]; }}"
            return e.asm(kind, text, f"={'l' if bits == 64 else 'r'},l", [b.mul(number, I64(bits // 8))])

        return result, emit

    return intrinsic(2)(rule)


word = _parameter("int64", 64)
"""`word(words, k)`: the 8-byte word of this number, int64."""

half = _parameter("int32", 32)
"""`half(words, k)`: the 4-byte half word of this number, int32."""
