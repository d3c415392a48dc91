"""Cluster schedule: a row in the registers of the blocks of a thread-block cluster, several blocks per SM."""

from __future__ import annotations

from dataclasses import replace

from ....hardware import Hardware, registers_for
from ....kernel_ir.instruction import Instruction
from ....kernel_ir.instruction_cost import special_functions
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.register_pressure import Tiling, predicted_registers, required_registers
from .schedule import LONG_ROW, VECTOR_CLASSES, ResidentRowSchedule, cluster_sizes, has_gathers, late_tile_registers
from .smem import COPY_FROM
from .tile_shape import RowProblem, tiled_schedule

GROUP_SIZES = ((512, 2), (256, 3), (256, 2))  # threads of a block of a cluster, and such blocks on an SM
REMAT_FROM = 1 << 17  # columns of 16-bit rows from which on the last phase rematerialises values
REMAT_VECTORS = 2  # vectors for which that phase rematerialises values at a time
SPLIT_ENDS_FROM = 60_000  # columns of rows that are not aligned, from which on their ends are apart
LEAST_ON_SM = 72 << 10  # bytes of rows that an SM has to hold in registers, or shared memory is better
SPARE = 8  # registers by which the prediction is too high for phases in pieces, and too low for float32 in clusters


def schedule_cluster(row: RowProblem) -> ResidentRowSchedule | None:
    """A row in the registers of blocks that share their SMs with those of other rows; None where that is too little.

    `schedule_resident` (resident.py) asks for it if an SM would hold but one row; `tiled_schedule` (tile_shape.py)
    chooses a thread's vectors. `schedule_rows` (choose.py) may replace it by persistent clusters.

    Measured on an H200, rows of 32768 … 262144: what an SM holds of all rows decides. With 128 KB it is at 1.00 … 0.95
    of the speed of a copy, with 96 KB at 0.99 … 0.90, with 64 KB at 0.83 … 0.62: below the speed of shared memory.
    Among clusters that hold as much of all rows, the smallest is the fastest. Among thread groups, the larger one is
    2-5 % faster if weights are streamed beside the row; otherwise the smaller one is up to 12 % faster. Layer norm of
    65,535 and 131,071 float32, which are not aligned, takes 657 and 686 us instead of 756 and 808 in shared memory; RMS
    norm of 262,143 661 instead of 934, of 40,001 668 instead of 590.
    """
    kernel, hardware, columns, width = row.kernel, row.hardware, row.columns, row.width
    scattered = width == 1 or any(kernel.operands[k].strides[-1] == "s" for k in kernel.element_operands)
    if hardware.cc < COPY_FROM or columns <= LONG_ROW or scattered:
        return None
    expensive = _is_expensive_to_recompute(kernel)
    ends = row.is_split and width < 8 and columns >= SPLIT_ENDS_FROM and not (expensive or has_gathers(kernel))
    if row.is_split and not ends and not expensive:
        return None
    row = replace(row, unaligned=2 * width - 2 if ends else 0)
    sizes = GROUP_SIZES if late_tile_registers(kernel) else tuple(reversed(GROUP_SIZES))
    best, most = None, LEAST_ON_SM - 1
    for cluster in (n for n in cluster_sizes(hardware.cluster) if row.rows * n >= hardware.multiprocessors):
        for threads, blocks in sizes:
            size = blocks * columns // cluster * max(kernel.operands[k].dtype.itemsize for k in kernel.element_operands)
            if size <= most or row.reach > VECTOR_CLASSES[-1] * width * threads * cluster:
                continue
            schedule, need = tiled_schedule(row, threads, cluster, blocks)
            if row.unaligned:
                schedule = replace(
                    schedule,
                    peeled_elements=1,
                    full_vectors=min(schedule.full_vectors, (columns - row.unaligned) // schedule.vector_stride),
                )
            spare = SPARE if schedule.epilogue_vectors else 0 if width >= 8 or late_tile_registers(kernel) else -SPARE
            if need <= registers_for(hardware, blocks, threads) + spare:
                best, most = schedule, size
    return best and (_denser(best, kernel, hardware) if columns >= REMAT_FROM and row.reach == columns else best)


def _denser(schedule: ResidentRowSchedule, kernel: KernelIR, hardware: Hardware) -> ResidentRowSchedule:
    """The schedule with one more block per SM, if the last phase recomputes values instead of holding them.

    measured: H200, softmax of bfloat16: rows of 131,072 take 251 us instead of 264, of 262,144 266 instead of 283.
    """
    less = with_recomputed_values(kernel) if schedule.width >= 8 and not late_tile_registers(kernel) else None
    if less is None:
        return schedule
    need, blocks = (
        required_registers(less, Tiling(schedule.width, schedule.vectors, epilogue_vectors=REMAT_VECTORS)),
        schedule.blocks + 1,
    )
    if need > registers_for(hardware, blocks, schedule.block_threads):
        return schedule
    registers = predicted_registers(less, hardware, need, blocks, schedule.block_threads)
    reason = (
        f"{schedule.reason}; the last phase computes again what earlier ones made, "
        f"which leaves room for {blocks} blocks"
    )
    return replace(
        schedule, blocks=blocks, rematerialize=True, epilogue_vectors=REMAT_VECTORS, reason=reason, registers=registers
    )


def _is_expensive_to_recompute(kernel: KernelIR) -> bool:
    """True if a later phase reads a held value that special functions computed: expensive to recompute."""
    for number, phase in enumerate(kernel.phases[:-1]):
        computed = {value.name for value in phase.element.results} - {value.name for value in phase.element.args}
        later = {value.name for other in kernel.phases[number + 1 :] for value in other.reads}
        if computed & later and special_functions(phase.element.instructions):
            return True
    return False


def with_recomputed_values(kernel: KernelIR) -> KernelIR | None:
    """The kernel whose last phase reads loads only and recomputes the values of earlier phases.

    None if its last phase cannot be chunked, or nothing is to be recomputed.
    """
    *earlier, last = kernel.phases
    computed = {v.name for phase in earlier for v in phase.element.results}
    computed -= {load.value.name for load in kernel.loads}
    if not computed & {v.name for v in last.element.args} or last.folds:
        return None
    if any(p.scans or p.sort for p in kernel.phases):
        return None
    if not last.stores or has_gathers(kernel) or any(store.value in computed for store in last.stores):
        return None
    instructions: list[Instruction] = []
    args = {v.name: v for v in last.element.args}
    for phase in earlier:
        if computed & {v.name for v in phase.element.results}:
            instructions += [i for i in phase.element.instructions if i not in instructions]
            args |= {v.name: v for v in phase.element.args}
    instructions += [i for i in last.element.instructions if i not in instructions]
    if len({i.target for i in instructions}) < len(instructions):
        return None
    rest = tuple(v for name, v in args.items() if name not in computed)
    known = {v.name for v in rest}
    if known & {p.value.name for p in kernel.positions} or any(store.value in known for store in last.stores):
        return None
    element = replace(last.element, args=rest, instructions=tuple(instructions))
    return replace(kernel, phases=(*earlier, replace(last, element=element)))
