"""Synchronisation of blocks: partial states in global memory, arrival counters, grid barriers."""

from __future__ import annotations

from ..compiler.numba_backend import F32, F64, I1, I8, I16, I32, I64, VOID, Emitter, emitted, ir, types
from .reduce import ReduceOp, state_of
from .shuffle import WARP

ALIGNMENT = 8  # bytes, of each part of a state
WAIT = "AWAIT_OTHERS_${:uid}"


def st_global(e: Emitter, address: ir.Value, value: ir.Value) -> None:
    """st.global of one part of a state."""
    word, bits = _word(e, value)
    register = {8: "h", 16: "h", 32: "r", 64: "l"}[bits]
    e.asm(VOID, f"st.global.b{bits} [$0], $1;", f"l,{register},~{{memory}}", [address, word], side_effect=True)


def ld_relaxed(e: Emitter, address: ir.Value, kind: ir.Type) -> ir.Value:
    """ld.relaxed.gpu: a load past the L1, which may hold what another block has overwritten since."""
    bits = _bits(kind)
    register, word = {8: ("h", I16), 16: ("h", I16), 32: ("r", I32), 64: ("l", I64)}[bits]
    text = f"ld.relaxed.gpu.global.b{bits} $0, [$1];"
    loaded = e.asm(word, text, f"={register},l,~{{memory}}", [address], side_effect=True)
    if kind == I1:
        return e.builder.icmp_unsigned("!=", loaded, I16(0))
    return e.builder.trunc(loaded, I8) if kind == I8 else e.builder.bitcast(loaded, kind)


def size_of(kind: ir.Type) -> int:
    """Bytes of a part of a state in memory."""
    return _bits(kind) // 8


def _bits(kind: ir.Type) -> int:
    if kind in (F32, F64):
        return 32 if kind == F32 else 64
    return max(8, kind.width)


def _word(e: Emitter, value: ir.Value) -> tuple[ir.Value, int]:
    bits = _bits(value.type)
    if value.type in (I1, I8):
        return e.builder.zext(value, I16), bits
    return e.builder.bitcast(value, ir.IntType(bits)), bits


@emitted(types.void)
def store_partial(e, at, value, *, rule_of: ReduceOp, begin: int):
    """`store_partial(address, state)`: thread 0 stores a row's state, `begin` bytes into its record."""
    b = e.builder
    with b.if_then(_is_first(e)):
        address = begin
        for part in state_of(e, rule_of, value):
            st_global(e, b.add(at, I64(address)), part)
            address += ALIGNMENT


@emitted(types.void)
def store_lane_partial(e, at, value, *, rule_of: ReduceOp):
    """`store_lane_partial(address, state)`: each lane of the first warp stores the state of its row as a record."""
    b = e.builder
    with b.if_then(b.icmp_unsigned("<", e.special_register("tid.x"), I32(WARP))):
        for number, part in enumerate(state_of(e, rule_of, value)):
            st_global(e, b.add(at, I64(number * ALIGNMENT)), part)


@emitted(lambda rule_of: rule_of.merge.result)
def load_partial(e, at, *, rule_of: ReduceOp, begin: int):
    """`load_partial(address)`: the state that a block stored in a record."""
    parts, address = [], begin
    for none in rule_of.empty.emit(e, []):
        parts.append(ld_relaxed(e, e.builder.add(at, I64(address)), none.type))
        address += ALIGNMENT
    return e.pack(rule_of.merge.result, parts)


@emitted(types.boolean)
def is_last_block(e, semaphores, index, parts):
    """True in the last of `parts` blocks to arrive at counter `index`; it sees what all others have written.

    The counter wraps: it is 0 again after the last. All threads of a block call this together.
    """
    b = e.builder
    e.barrier()  # the block has written
    before = b.block
    with b.if_then(_is_first(e)):
        limit = b.trunc(b.sub(_wide(e, parts), I64(1)), I32)
        semaphore = _count(e, _counter(e, semaphores, index), "inc", limit)
        _fence(e)
        last, counted = b.zext(b.icmp_unsigned("==", semaphore, limit), I32), b.block
    (won,) = e.phi(([I32(0)], before), ([last], counted))
    return b.icmp_unsigned("!=", e.call(I32, "llvm.nvvm.barrier0.or", [won]), I32(0))


@emitted(types.void)
def grid_barrier_wait(e, semaphores, index, goal):
    """Arrive at counter `index` and wait until it has reached `goal`: what others wrote before is visible.

    All blocks that are waited for have to be resident. All threads of a block call this together.
    """
    b = e.builder
    e.barrier()  # the block has written
    with b.if_then(_is_first(e)):
        address = _counter(e, semaphores, index)
        _count(e, address, "add", I32(1))
        text = f"""{{
.reg .pred early;
.reg .b32 seen;
{WAIT}:
ld.acquire.gpu.global.u32 seen, [$0];
setp.lt.u32 early, seen, $1;
@early bra {WAIT};
}}"""
        e.asm(VOID, text, "l,r,~{memory}", [address, b.trunc(_wide(e, goal), I32)], side_effect=True)
        _fence(e)
    e.barrier()


@emitted(types.void)
def grid_barrier_reset(e, semaphores, index, parts):
    """Reset the grid barrier: the last of `parts` blocks clears the arrival counter at `index` and the exit counter."""
    b = e.builder
    with b.if_then(_is_first(e)):
        address = _counter(e, semaphores, index)
        limit = b.trunc(b.sub(_wide(e, parts), I64(1)), I32)
        semaphore = _count(e, b.add(address, I64(4)), "inc", limit)
        with b.if_then(b.icmp_unsigned("==", semaphore, limit)):
            st_global(e, address, I32(0))


def _is_first(e: Emitter) -> ir.Value:
    thread = e.builder.or_(e.special_register("tid.x"), e.special_register("tid.y"))
    return e.builder.icmp_unsigned("==", thread, I32(0))


def _wide(e: Emitter, value: ir.Value) -> ir.Value:
    return value if value.type == I64 else e.builder.sext(value, I64)


def _counter(e: Emitter, base: ir.Value, index: ir.Value) -> ir.Value:
    return e.builder.add(base, e.builder.mul(_wide(e, index), I64(4)))


def _fence(e: Emitter) -> None:
    e.asm(VOID, "fence.acq_rel.gpu;", "~{memory}", [], side_effect=True)


def _count(e: Emitter, address: ir.Value, how: str, value: ir.Value) -> ir.Value:
    """An atomic step of a counter, after all that the block has written; what it was before."""
    _fence(e)
    text = f"atom.acq_rel.gpu.global.{how}.u32 $0, [$1], $2;"
    return e.asm(I32, text, "=r,l,r,~{memory}", [address, value], side_effect=True)
