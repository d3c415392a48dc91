"""Matmul intrinsics of sm_90: wgmma over a K-slice in shared memory, multicast TMA loads, mbarriers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...compiler.numba_backend import I32, Emitter, emitted, intrinsic, ir, types
from ...tile.sm90 import statement, tuple_asm
from .schedule import SLICE

i32, i64 = types.int32, types.int64
STEP = 16  # of them in an instruction
MAJORS = {"k": 32, "mn": STEP * 128}  # bytes from one step to the next, by the contiguous axis


def wgmma_slice(kind: str, columns: int, pairs: Sequence[tuple[int, int]], majors: Sequence[str]) -> Callable:
    """`start(accumulators, *descriptors)`: start to add a K-slice of products to them (64 x columns), as one group.

    `pairs` are the numbers of each product's operands among the descriptors, whose contiguous axis is `majors`: "k" or
    "mn". The accumulators of the products follow each other.
    """
    own = columns // 2
    count = own * len(pairs)
    result = types.UniTuple(types.float32, count)

    @emitted(result, 1 + len(majors))
    def emit(e, accumulators, *descriptors):
        lines = [".reg .b64 a, b;", ".reg .pred more;", "setp.eq.b32 more, 0, 0;", "wgmma.fence.sync.aligned;"]
        for step in range(SLICE // STEP):
            for product, (left, right) in enumerate(pairs):
                registers = ", ".join(f"${product * own + k}" for k in range(own))
                turned = ", ".join(str(int(majors[operand] == "mn")) for operand in (left, right))
                for name, operand in (("a", left), ("b", right)):
                    offset = step * MAJORS[majors[operand]] >> 4
                    lines.append(f"add.s64 {name}, ${2 * count + operand}, {offset};")
                lines.append(
                    f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} "
                    f"{{{registers}}}, a, b, more, 1, 1, {turned};"
                )
        lines.append("wgmma.commit_group.sync.aligned;")
        constraints = [*["=f"] * count, *map(str, range(count)), *["l"] * len(majors)]
        return e.pack(result, tuple_asm(e, count, lines, constraints, [*e.unpack(accumulators, count), *descriptors]))

    return emit


def wgmma_wait_group(left: int) -> Callable:
    """`wait()`: wait until at most `left` groups are in flight; it returns no accumulators."""
    return statement(f"wgmma.wait_group.sync.aligned {left};")


# -- clusters

cluster_rank = intrinsic(0)(lambda: (i32, lambda e: _rank(e)))
mbarrier_arrive_cluster = statement(  # at the mbarrier of block $1 of the cluster
    "{\n.reg .b32 at;\nmapa.shared::cluster.u32 at, $0, $1;\nmbarrier.arrive.shared::cluster.b64 _, [at];\n}",
    i32,
    i32,
)
cluster_sync = statement("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;")  # of all threads


def _rank(e: Emitter) -> ir.Value:
    return e.asm(I32, "mov.u32 $0, %cluster_ctarank;", "=r", [], effect=True)


def tma_load_multicast(rank: int, blocks: int) -> Callable:
    """`tma_load(to, map, mbarrier, c0, …)`: load a box of an array to the same place of all blocks of a cluster;
    completes the mbarrier of each."""
    corner = ", ".join(f"${3 + k}" for k in range(rank))
    form = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
    mask = (1 << blocks) - 1
    text = f"{{\n.reg .b16 blocks;\nmov.b16 blocks, {mask};\n{form} [$0], [$1, {{{corner}}}], [$2], blocks;\n}}"
    return statement(text, i32, i64, i32, *[i32] * rank)


def take_panel(first: int, columns: int) -> Callable:
    """`panel(accumulators)`: the accumulators of `columns` columns, from column `first` on."""
    result = types.UniTuple(types.float32, columns // 2)

    def rule(kind):
        return result, lambda e, accumulators: e.pack(
            result, e.unpack(accumulators, len(kind))[first // 2 : (first + columns) // 2]
        )

    return intrinsic(1)(rule)
