"""Distributed shared memory: blocks of a cluster exchange states with st.async and mbarriers.

A cluster barrier would do, but waits until all of a thread's loads and stores are done, and invalidates the L1.
measured: H200, about a microsecond, twice a row.
"""

from __future__ import annotations

from ..compiler.numba_backend import F32, F64, I32, I64, SHARED, VOID, Emitter, emitted, ir, types
from .sm90 import TRY_WAIT_PARITY

CLUSTER_MBARRIERS = "meetings"  # the shared memory of the barriers
SENT = "st.async.shared::cluster.mbarrier::complete_tx::bytes"


def cluster_mbarrier(e: Emitter, count: int, number: ir.Value) -> ir.Value:
    """The 32-bit shared address of one of `count` mbarriers."""
    module, b = e.builder.module, e.builder
    array = module.globals.get(CLUSTER_MBARRIERS)
    if array is None:
        kind = ir.ArrayType(I64, count)
        array = ir.GlobalVariable(module, kind, CLUSTER_MBARRIERS, addrspace=SHARED)
        array.linkage, array.align, array.initializer = "internal", 8, ir.Constant(kind, ir.Undefined)
    number = number if number.type == I32 else b.trunc(number, I32)
    return b.add(b.ptrtoint(array, I32), b.mul(number, I32(8)))


@emitted(types.void)
def cluster_init(e, *, count: int):
    """`cluster_init()`: initialise so many mbarriers and arrive at the cluster barrier; does not wait."""
    b = e.builder
    with b.if_then(b.icmp_unsigned("==", e.special_register("tid.x"), I32(0))):
        for number in range(count):
            operands = [cluster_mbarrier(e, count, I32(number)), I32(1)]
            e.asm(VOID, "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", operands, side_effect=True)
        e.asm(VOID, "fence.mbarrier_init.release.cluster;", "~{memory}", [], side_effect=True)
    text = "bar.warp.sync 0xffffffff;\nbarrier.cluster.arrive.relaxed.aligned;"
    e.asm(VOID, text, "~{memory}", [], side_effect=True)


def mbarrier_expect_tx(e: Emitter, barrier: ir.Value, size: int) -> None:
    """mbarrier.arrive.expect_tx by one thread: the bytes of this phase."""
    text = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
    e.asm(VOID, text, "r,r,~{memory}", [barrier, I32(size)], side_effect=True)


def st_async(e: Emitter, address: ir.Value, part: ir.Value, barrier: ir.Value, block: ir.Value) -> None:
    """st.async: store a part of a state at this address in another block, and complete_tx on the mbarrier there."""
    b = e.builder
    value = b.zext(part, I32) if isinstance(part.type, ir.IntType) and part.type.width < 32 else part
    register = {I32: "r", I64: "l", F32: "f", F64: "d"}[value.type]
    addresses = [
        e.asm(I32, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", [own, block], side_effect=True)
        for own in (b.ptrtoint(address, I32), barrier)
    ]
    text = f"{SENT}.b{8 * sent_bytes(part.type)} [$0], $1, [$2];"
    e.asm(VOID, text, f"r,{register},r,~{{memory}}", [addresses[0], value, addresses[1]], side_effect=True)


def mbarrier_wait(e: Emitter, barrier: ir.Value, parity: ir.Value | None = None) -> None:
    """mbarrier.try_wait.parity in a loop: wait for the first phase, or for that of this parity."""
    if parity is None:
        e.asm(VOID, TRY_WAIT_PARITY.replace("$1", "0"), "r,~{memory}", [barrier], side_effect=True)
    else:
        e.asm(VOID, TRY_WAIT_PARITY, "r,r,~{memory}", [barrier, parity], side_effect=True)


def sent_bytes(part: ir.Type) -> int:
    """Bytes that are sent for a part of a state."""
    return 8 if part in (I64, F64) else 4


def sent_type(part: ir.Type) -> ir.Type:
    """How it stands in shared memory."""
    return I32 if isinstance(part, ir.IntType) and part.width < 32 else part
