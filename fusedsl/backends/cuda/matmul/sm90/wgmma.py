"""Matmul intrinsics of sm_90: wgmma over a K-slice in shared memory, multicast TMA loads, mbarriers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...compiler.numba_backend import I32, Emitter, emitted, intrinsic, ir, numba_type, types
from ...mma.tile_sizes import SWIZZLE_BYTES
from ...tile.sm90 import inline_asm, tied_operands, tuple_asm
from .register_operands import WORDS
from .wgmma_kinds import BY_PTX, STEP_BYTES, STEPS, WgmmaKind

PARTS = {1: ((0, 0),), 2: ((1, 0), (0, 1), (0, 0))}  # of both factors, that are multiplied: the small ones first
i32, i64 = types.int32, types.int64


def _instruction(kind: WgmmaKind, columns: int) -> str:
    sums = "s32" if kind.accumulator == "int32" else "f32"
    shape = f"m64n{columns}k{STEP_BYTES // kind.itemsize}"
    return f"wgmma.mma_async.sync.aligned.{shape}.{sums}.{kind.ptx}.{kind.ptx}"


def _ends(kind: WgmmaKind, *transposes: bool) -> str:
    """The immediate operands: floats are not negated, and 16-bit ones say which matrices are MN-major."""
    if kind.accumulator == "int32":
        return ""
    return ", 1, 1" + "".join(f", {int(flag)}" for flag in transposes if kind.reads_mn_major)


def wgmma_slice(kind: str, columns: int, pairs: Sequence[tuple[int, int]], majors: Sequence[str]) -> Callable:
    """`start(accumulators, *descriptors)`: start to add a K-slice of products to them (64 x columns), as one group.

    `pairs` are the numbers of each product's operands among the descriptors, whose contiguous axis is `majors`: "k" or
    "mn". The accumulators of the products follow each other.
    """
    own, multiplied = columns // 2, BY_PTX[kind]
    count = own * len(pairs)
    result = types.UniTuple(numba_type(multiplied.accumulator), count)
    steps = {"k": STEP_BYTES, "mn": STEP_BYTES // multiplied.itemsize * SWIZZLE_BYTES}  # bytes from one to the next

    @emitted(result, 1 + len(majors))
    def emit(e, accumulators, *descriptors):
        lines = [".reg .b64 a, b;", ".reg .pred more;", "setp.eq.b32 more, 0, 0;", "wgmma.fence.sync.aligned;"]
        for step in range(STEPS):
            for product, (left, right) in enumerate(pairs):
                registers = ", ".join(f"${product * own + k}" for k in range(own))
                ends = _ends(multiplied, *(majors[operand] == "mn" for operand in (left, right)))
                for name, operand in (("a", left), ("b", right)):
                    offset = step * steps[majors[operand]] >> 4
                    lines.append(f"add.s64 {name}, ${2 * count + operand}, {offset};")
                lines.append(f"{_instruction(multiplied, columns)} {{{registers}}}, a, b, more{ends};")
        lines.append("wgmma.commit_group.sync.aligned;")
        constraints = [*tied_operands(count, result.dtype), *["l"] * len(majors)]
        given = [*e.unpack(accumulators, count), *descriptors]
        return e.pack(result, tuple_asm(e, count, lines, constraints, given, result.dtype))

    return emit


def wgmma_registers(kind: str, columns: int, pairs: Sequence[tuple[int, int]], parts: int = 1) -> Callable:
    """`start(accumulators, *lefts, *descriptors)`: the same with the rows' operands in registers, as `register_operand`
    loads them, and K-major columns. Of two `parts`, a column operand has two descriptors; small products come first."""
    own, multiplied = columns // 2, BY_PTX[kind]
    count, lefts = own * len(pairs), 1 + max(left for left, _ in pairs)
    rights = parts * (1 + max(right for _, right in pairs) - lefts)
    result, words = types.UniTuple(numba_type(multiplied.accumulator), count), WORDS * parts

    def products(step: int) -> Iterator[str]:
        for product, (left, right) in enumerate(pairs):
            registers = ", ".join(f"${product * own + k}" for k in range(own))
            for x, y in PARTS[parts]:
                first = 2 * count + words * left + WORDS * x + WORDS // STEPS * step
                fragment = ", ".join(f"${first + k}" for k in range(WORDS // STEPS))
                descriptor = 2 * count + words * lefts + parts * (right - lefts) + y
                yield f"add.s64 b, ${descriptor}, {step * STEP_BYTES >> 4};"
                ends = f"b, more{_ends(multiplied)}"
                yield f"{_instruction(multiplied, columns)} {{{registers}}}, {{{fragment}}}, {ends};"

    @emitted(result, 1 + lefts + rights)
    def emit(e, accumulators, *operands):
        held = [word for one in operands[:lefts] for word in e.unpack(one, words)]
        lines = [".reg .b64 b;", ".reg .pred more;", "setp.eq.b32 more, 0, 0;", "wgmma.fence.sync.aligned;"]
        lines += [line for step in range(STEPS) for line in products(step)]
        lines.append("wgmma.commit_group.sync.aligned;")
        constraints = [*tied_operands(count, result.dtype), *["r"] * len(held), *["l"] * rights]
        given = [*e.unpack(accumulators, count), *held, *operands[lefts:]]
        return e.pack(result, tuple_asm(e, count, lines, constraints, given, result.dtype))

    return emit


def wgmma_wait_group(left: int) -> Callable:
    """`wait()`: wait until at most `left` groups are in flight; it returns no accumulators."""
    return inline_asm(f"wgmma.wait_group.sync.aligned {left};")


# -- clusters

cluster_rank = intrinsic(0)(lambda: (i32, lambda e: _rank(e)))
mbarrier_arrive_cluster = inline_asm(  # at the mbarrier of block $1 of the cluster
    "{\n.reg .b32 at;\nmapa.shared::cluster.u32 at, $0, $1;\nmbarrier.arrive.shared::cluster.b64 _, [at];\n}",
    i32,
    i32,
)
cluster_sync = inline_asm("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;")  # of all threads


def _rank(e: Emitter) -> ir.Value:
    return e.asm(I32, "mov.u32 $0, %cluster_ctarank;", "=r", [], side_effect=True)


def tma_load_multicast(rank: int, blocks: int) -> Callable:
    """`tma_load(to, map, mbarrier, c0, …)`: load a box of an array to the same place of all blocks of a cluster;
    completes the mbarrier of each."""
    corner = ", ".join(f"${3 + k}" for k in range(rank))
    form = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
    mask = (1 << blocks) - 1
    text = f"{{\n.reg .b16 blocks;\nmov.b16 blocks, {mask};\n{form} [$0], [$1, {{{corner}}}], [$2], blocks;\n}}"
    return inline_asm(text, i32, i64, i32, *[i32] * rank)


def tma_load_image(rank: int) -> Callable:
    """`tma_load(to, map, mbarrier, c0, …, offset0, …)`: load channels of consecutive pixels to shared memory in im2col
    mode, which walks the places of windows from a first one on, at the offset of a tap; completes the mbarrier."""
    corner, taps = ", ".join(f"${3 + k}" for k in range(rank)), range(rank - 2)
    offsets = ", ".join(f"tap{k}" for k in taps)
    form = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
    narrow = "".join(f"cvt.u16.u32 tap{k}, ${3 + rank + k};\n" for k in taps)
    text = f"{{\n.reg .b16 {offsets};\n{narrow}{form} [$0], [$1, {{{corner}}}], [$2], {{{offsets}}};\n}}"
    return inline_asm(text, i32, i64, i32, *[i32] * (2 * rank - 2))


@emitted(lambda columns, kinds: types.UniTuple(kinds[0].dtype, columns // 2))
def take_panel(e, accumulators, *, kinds, first: int, columns: int):
    """`panel(accumulators)`: the accumulators of `columns` columns, from column `first` on."""
    return e.unpack(accumulators, len(kinds[0]))[first // 2 : (first + columns) // 2]
