"""Clock model of products on sm_90: predicted clocks of K-slices, epilogues and the parts of a sum."""

from __future__ import annotations

from math import prod

from .....hardware import Hardware
from .....kernel_ir.instruction_cost import total_cost
from .....kernel_ir.kernel import KernelIR, Operand
from .....kernel_ir.matmul_operands import MatmulOperands
from .....kernel_ir.phase import Phase
from ...schedule_base import Extents
from .layout import Sm90MatmulSchedule, clusters_of_tiles, k_slices

COLUMNS = 64  # that tiles are measured in
# measured: H100, 2026-11, bfloat16 4096 x 4096 x 4096: clocks of a K-slice, by rows and columns of a tile; one of 128
# bytes takes as long whatever its dtype
SLICE_CLOCKS = {
    64: {64: 357.0, 128: 502.0, 192: 570.0, 256: 631.0},
    128: {64: 650.0, 128: 775.0, 192: 900.0, 256: 1198.0},
}
SHARED_SLICE = 0.9  # the factor on that, if a cluster of tiles of 128 x 128 or less shares the columns
# factors where threads load the rows' operands into registers, and of the three products of two parts; not measured
REGISTER_SLICE, PARTS_SLICE = 1.03, 3.2
# measured: H100: clocks of a launch, and of a tile for each sum of a thread; an instruction of the epilogue for each
LAUNCH_CLOCKS, SUM_CLOCKS, INSTRUCTION_CLOCKS = 4000, 36, 1.6
# measured: H200, norms of groups of 256 columns, 4096 x 4096 x 4096: an instruction of their phases, over one
# of another epilogue; and those of the special cases of a division
GROUP_INSTRUCTION, DIVISION = 2.0, 10
# measured: H100, 4096 x 14336 x 4096 with a second result of float32: of an element that threads store, not TMA
STORE_CLOCKS = 60
WIDE_STORE_CLOCKS = 15  # of a float32 element that TMA stores, by estimate: half a panel at a time
WAVE_CLOCKS = 1500  # of a tile, until products run at their rate
# of a part's arrival, and of storing or adding it for each sum of a thread
PART_CLOCKS, PART_SUM_CLOCKS = 3000, 40
OVERLAPPED = 0.6  # the part of an epilogue that shows beside the products of another warpgroup


def predicted_clocks(
    s: Sm90MatmulSchedule, kernel: KernelIR, operands: MatmulOperands, extents: Extents, hardware: Hardware
) -> float:
    """Clocks of an SM that works on the most tiles."""
    count = clusters_of_tiles(s, operands, extents) * s.cluster * s.splits
    waves = -(-count // (s.multiprocessors // s.cluster * s.cluster))
    slices, each, epilogue = -(-k_slices(s, extents) // s.splits), _slice_clocks(s), _epilogue_clocks(s, kernel)
    products = waves * slices * each
    if s.narrow is not None:  # the last wave
        products -= slices * (each - _slice_clocks(s.narrow))
    products = max(products, _operand_bytes(kernel, operands, extents) / hardware.bandwidth * hardware.clock)
    if s.pingpong > 1:
        return LAUNCH_CLOCKS + products + waves * (OVERLAPPED * epilogue + WAVE_CLOCKS) + epilogue
    if s.splits > 1:
        epilogue += PART_CLOCKS + s.columns * len(s.pairs) / 2 * (s.splits + 1) * PART_SUM_CLOCKS
    saved = epilogue - _epilogue_clocks(s.narrow, kernel) if s.narrow is not None else 0
    return LAUNCH_CLOCKS + products + waves * (epilogue + WAVE_CLOCKS) - saved


def _slice_clocks(s: Sm90MatmulSchedule) -> float:
    """Clocks of a K-slice of a tile."""
    columns = s.columns * len(s.pairs)
    each = SLICE_CLOCKS[s.rows][-(-columns // COLUMNS) * COLUMNS]
    if s.cluster > 1 and s.warpgroups > 1 and columns <= 128:
        each *= SHARED_SLICE
    if s.by_registers:
        each *= REGISTER_SLICE * (1 if s.parts == 1 else PARTS_SLICE)
    return each


def _epilogue_clocks(s: Sm90MatmulSchedule, kernel: KernelIR) -> float:
    """Clocks of what follows the sums of a tile."""
    phase = kernel.phases[0]
    sums, columns = s.columns * len(s.pairs) / 2, s.columns / 2
    clocks = sums * (SUM_CLOCKS + INSTRUCTION_CLOCKS * _epilogue_instructions(phase))
    clocks += columns * STORE_CLOCKS * (len(phase.stores_of_rows) - len(s.tma_stores))
    return clocks + columns * WIDE_STORE_CLOCKS * sum(kernel.operands[k].dtype.itemsize > 2 for k in s.tma_stores)


def _epilogue_instructions(phase: Phase) -> float:
    """Instructions for each sum that follow it."""
    bodies = [phase.row] if phase.row else []
    for part in phase.panel_folds.phases if phase.panel_folds else ():
        bodies += [part.element, *(use.combine for use in part.folds)]
    return sum(total_cost(body.instructions) for body in bodies) + _group_instructions(phase)


def _group_instructions(phase: Phase) -> float:
    """What the phases of groups take for each sum, in instructions of another epilogue."""
    groups = phase.groups.phases if phase.groups else ()
    bodies = [body for part in groups for body in (part.element, *(use.combine for use in part.folds))]
    instructions = [i for body in bodies for i in body.instructions]
    divisions = sum(i.op == "divide" for i in instructions)
    return GROUP_INSTRUCTION * (total_cost(instructions) + DIVISION * divisions)


def _operand_bytes(kernel: KernelIR, operands: MatmulOperands, extents: Extents) -> int:
    """Bytes of the operands in memory; of an image about those of its places."""
    multiplied = [kernel.operands[k] for k in (*operands.left, *operands.right)]
    return sum(o.dtype.itemsize * prod(extents[a] for a in _varying(o)) for o in multiplied)


def _varying(operand: Operand) -> list[int]:
    """The axes along which an operand has other elements."""
    taps = [axis.tap_axis for axis in operand.image]
    return [a for a, kind in enumerate(operand.strides) if kind != "0" and a not in taps]
