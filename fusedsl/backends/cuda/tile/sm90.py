"""Instructions of sm_90 that several families use: mbarriers, named barriers, setmaxnreg, TMA, waits for wgmma."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..compiler.numba_backend import F32, I32, I64, VOID, Emitter, emitted, intrinsic, ir, types
from .shuffle import ballot_bits

KINDS = {types.int32: I32, types.int64: I64, types.float32: F32}
LETTERS = {types.int32: "r", types.int64: "l", types.float32: "f"}
TRY_WAIT_PARITY = """{
.reg .pred done;
AGAIN${:uid}:
mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;
@!done bra AGAIN${:uid};
}"""


def inline_asm(text: str, *kinds: types.Type) -> Callable:
    """Volatile inline PTX with operands $0, $1 … and no result."""
    constraints = ",".join([*(LETTERS[k] for k in kinds), "~{memory}"])

    def rule(*arg_types):
        def emit(e, *values):
            operands = [e.cast(v, have, want) for v, have, want in zip(values, arg_types, kinds)]
            e.asm(VOID, text, constraints, operands, side_effect=True)

        return types.void, emit

    return intrinsic(len(kinds))(rule)


i32, i64 = types.int32, types.int64

# -- mbarriers: 32-bit addresses in shared memory

mbarrier_init = inline_asm("mbarrier.init.shared::cta.b64 [$0], $1;", i32, i32)
fence_mbarrier_init = inline_asm("fence.mbarrier_init.release.cluster;")
mbarrier_expect_tx = inline_asm("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", i32, i32)
mbarrier_arrive = inline_asm("mbarrier.arrive.shared::cta.b64 _, [$0];", i32)
mbarrier_wait_parity = inline_asm(TRY_WAIT_PARITY, i32, i32)
bar_sync = inline_asm("bar.sync $0, $1;", i32, i32)
bar_arrive = inline_asm("bar.arrive $0, $1;", i32, i32)


def setmaxnreg_inc(count: int) -> Callable:
    """`setmaxnreg_inc()`: raise the registers of each thread of a warpgroup to this count."""
    return inline_asm(f"setmaxnreg.inc.sync.aligned.u32 {count};")


def setmaxnreg_dec(count: int) -> Callable:
    """`setmaxnreg_dec()`: lower the registers of each thread of a warpgroup to this count."""
    return inline_asm(f"setmaxnreg.dec.sync.aligned.u32 {count};")


def tma_load(rank: int) -> Callable:
    """`tma_load(to, map, mbarrier, c0, …)`: load a box of an array to shared memory; completes the mbarrier."""
    corner = ", ".join(f"${3 + k}" for k in range(rank))
    form = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    return inline_asm(f"{form} [$0], [$1, {{{corner}}}], [$2];", i32, i64, i32, *[i32] * rank)


def tma_store(rank: int) -> Callable:
    """`tma_store(from, map, c0, …)`: store a box from shared memory to an array; elements out of bounds are skipped."""
    corner = ", ".join(f"${2 + k}" for k in range(rank))
    form = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    return inline_asm(f"{form} [$1, {{{corner}}}], [$0];", i32, i64, *[i32] * rank)


fence_proxy_async = inline_asm(
    "fence.proxy.async.shared::cta;\nbar.warp.sync 0xffffffff;"
)  # makes the warp's stores visible to TMA
tma_store_commit = inline_asm("cp.async.bulk.commit_group;")  # groups this thread's stores since the last commit


def tma_store_wait_read(left: int) -> Callable:
    """`wait()`: wait until the shared memory of all but the last `left` groups of stores of a thread may be written."""
    return inline_asm(f"cp.async.bulk.wait_group.read {left};\nbar.warp.sync 0xffffffff;")


tma_store_wait = tma_store_wait_read(0)  # waits for all groups


@emitted(i64)
def param_address(e, *, number: int):
    """`param_address()`: the generic address of a kernel parameter, for a tensor map."""
    text = f"{{ .reg .b64 at; mov.b64 at, {e.builder.function.name}_param_{number}; cvta.param.u64 $0, at; }}"
    return e.asm(I64, text, "=l", [], side_effect=True)


@emitted(i32)
def dynamic_smem(e, *, alignment: int):
    """`dynamic_smem()`: the aligned address of dynamic shared memory; the kernel has no static shared memory."""
    return e.dynamic_shared(alignment)


st_shared = inline_asm("st.shared.b32 [$0], $1;", i32, i32)  # 32 bits
or_shared = inline_asm("red.shared.or.b32 [$0], $1;", i32, i32)  # atomic OR in shared memory


@emitted(i32)
def ld_shared(e, address, *, kinds):
    """Load 32 bits from shared memory."""
    return e.asm(I32, "ld.shared.b32 $0, [$1];", "=r,r", [e.cast(address, kinds[0], i32)], side_effect=True)


@emitted(i32)
def warp_uniform(e, value, *, kinds):
    """A value that is equal in all lanes of the warp, marked as uniform for ptxas: dependent values, such as matrix
    descriptors, go to uniform registers."""
    text = "redux.sync.or.b32 $0, $1, 0xffffffff;"
    return e.asm(I32, text, "=r,r", [e.cast(value, kinds[0], i32)], side_effect=True)


@emitted(i32)
def ballot(e, flag):
    """A bit for each lane of the warp."""
    return ballot_bits(e, flag)


@emitted(i32)
def find_leading_one(e, value, *, kinds):
    """The index of the highest bit set in a word."""
    b = e.builder
    return b.sub(I32(31), e.call(I32, "llvm.ctlz.i32", [e.cast(value, kinds[0], i32), ir.Constant(ir.IntType(1), 0)]))


@emitted(i32)
def popc(e, value, *, kinds):
    """The number of bits set in a word."""
    return e.call(I32, "llvm.ctpop.i32", [e.cast(value, kinds[0], i32)])


# -- wgmma


def tied_operands(count: int, kind: types.Type = types.float32) -> list[str]:
    return [f"={LETTERS[kind]}"] * count + [str(k) for k in range(count)]


def tuple_asm(
    e: Emitter, count: int, lines: Sequence[str], constraints: Sequence[str], values, kind: types.Type = types.float32
) -> list[ir.Value]:
    """Inline PTX with `count` tied outputs of one type: the outputs."""
    held, text = ir.LiteralStructType([KINDS[kind]] * count), "{\n" + "\n".join(lines) + "\n}"
    results = e.asm(held, text, ",".join([*constraints, "~{memory}"]), values, side_effect=True)
    return e.unpack(results, count)


@emitted(types.void)
def wait_for_values(e, given, *, kinds):
    """Wait until these values are computed, and do nothing: else ptxas moves the wait for wgmma before them. It does
    not know that no number is less than -inf."""
    elements = e.unpack(given, len(kinds[0]))
    least = elements[0]
    for value in elements[:: max(1, len(elements) // 8)]:
        least = e.asm(F32, "min.f32 $0, $1, $2;", "=f,f,f", [least, value])
    text = "{ .reg .pred p; .reg .b32 m; setp.lt.f32 p, $0, 0fFF800000; selp.b32 m, 1, -1, p; bar.warp.sync m; }"
    e.asm(VOID, text, "f,~{memory}", [least], side_effect=True)


@emitted(lambda kinds: kinds[0])
def wgmma_wait(e, sums, *, kinds, left: int):
    """`wait(sums)`: the accumulators, after wgmma.wait_group with at most `left` groups in flight."""
    lines, count, kind = [f"wgmma.wait_group.sync.aligned {left};"], len(kinds[0]), kinds[0].dtype
    return tuple_asm(e, count, lines, tied_operands(count, kind), e.unpack(sums, count), kind)
