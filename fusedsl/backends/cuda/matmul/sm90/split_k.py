"""Split-K reduction: partial sums of a tile in global memory, which the last-arriving warpgroup adds in order."""

from __future__ import annotations

from ...compiler.numba_backend import I32, I64, VOID, Emitter, emitted, ir, types
from ...tile.sm90 import KINDS, LETTERS

WARPGROUP = 128
WORDS = {"f": "f32", "r": "b32"}  # types in PTX, by the letter of a constraint
VECTOR = 4  # accumulators of a thread that are accessed together: 16 bytes


def _addresses(e: Emitter, address: ir.Value, count: int) -> list[ir.Value]:
    """The addresses of a thread's vectors: those of neighbouring threads are neighbours."""
    b = e.builder
    own = b.shl(b.zext(b.and_(e.special_register("tid.x"), I32(WARPGROUP - 1)), I64), I64(4))
    first = b.add(address, own)
    return [b.add(first, I64(16 * WARPGROUP * k)) for k in range(count // VECTOR)]


@emitted(types.void)
def store_partial_sums(e, address, accumulators, *, kinds, count: int):
    """`store(address, accumulators)`: the partial sums of a warpgroup's threads."""
    values, letter = e.unpack(accumulators, count), LETTERS[kinds[1].dtype]
    for k, vector in enumerate(_addresses(e, address, count)):
        text = f"st.global.v4.{WORDS[letter]} [$0], {{$1, $2, $3, $4}};"
        constraints = f"l,{letter},{letter},{letter},{letter},~{{memory}}"
        e.asm(VOID, text, constraints, [vector, *values[VECTOR * k : VECTOR * k + VECTOR]], side_effect=True)


@emitted(lambda kinds: kinds[1])
def add_partial_sums(e, address, accumulators, *, kinds, count: int):
    """`add(address, accumulators)`: they plus the partial sums at the address, which are read past the L1."""
    values, added, letter = e.unpack(accumulators, count), [], LETTERS[kinds[1].dtype]
    kind, add = ir.LiteralStructType([KINDS[kinds[1].dtype]] * VECTOR), e.builder.fadd
    if letter == "r":
        add = e.builder.add
    for k, vector in enumerate(_addresses(e, address, count)):
        text = f"ld.global.cg.v4.{WORDS[letter]} {{$0, $1, $2, $3}}, [$4];"
        constraints = f"={letter},={letter},={letter},={letter},l,~{{memory}}"
        loaded = e.unpack(e.asm(kind, text, constraints, [vector], side_effect=True), VECTOR)
        added += [add(value, more) for value, more in zip(values[VECTOR * k :], loaded)]
    return e.pack(kinds[1], added)


@emitted(types.boolean)
def is_last_warpgroup(e, semaphore, count, word, barrier, *, kinds):
    """Whether this warpgroup is the last of so many that arrive at a semaphore, which it then sets to 0. Before the
    arrival its threads' stores are visible to the others. `word` is the address of a word in shared memory, `barrier`
    the number of a named barrier, of this warpgroup alone."""
    b = e.builder
    word, barrier, count = (
        e.cast(v, k, types.int32) for v, k in ((word, kinds[2]), (barrier, kinds[3]), (count, kinds[1]))
    )
    sync = f"bar.sync $0, {WARPGROUP};"
    e.asm(VOID, "fence.acq_rel.gpu;", "~{memory}", [], side_effect=True)
    e.asm(VOID, sync, "r,~{memory}", [barrier], side_effect=True)
    first = b.icmp_unsigned("==", b.and_(e.special_register("tid.x"), I32(WARPGROUP - 1)), I32(0))
    with b.if_then(first):
        text = "atom.global.acq_rel.gpu.add.u32 $0, [$1], 1;"
        before = e.asm(I32, text, "=r,l,~{memory}", [semaphore], side_effect=True)
        last = b.icmp_unsigned("==", before, b.sub(count, I32(1)))
        with b.if_then(last):
            e.asm(VOID, "st.global.u32 [$0], 0;", "l,~{memory}", [semaphore], side_effect=True)
        e.asm(VOID, "st.shared.u32 [$0], $1;", "r,r,~{memory}", [word, b.zext(last, I32)], side_effect=True)
    e.asm(VOID, sync, "r,~{memory}", [barrier], side_effect=True)
    flag = e.asm(I32, "ld.shared.u32 $0, [$1];", "=r,r,~{memory}", [word], side_effect=True)
    e.asm(VOID, "fence.acq_rel.gpu;", "~{memory}", [], side_effect=True)
    return b.icmp_unsigned("!=", flag, I32(0))
