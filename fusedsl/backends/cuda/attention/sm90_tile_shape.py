"""Rows and columns at a time of the attend skeleton: such that what stands in registers fits there."""

from __future__ import annotations

from ....ir.types import BOOL
from ....kernel_ir.attention import AttentionBody
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body
from .block_mask_inputs import bounds_axes, mask_reads_memory

MANY_INSTRUCTIONS, FEW_INSTRUCTIONS = 8, 4  # lines of a sieve's body
REGISTERS = {1: (40, 240), 2: (40, 232), 3: (32, 160)}  # of a thread that copies, and of one that computes


def is_index_mask(kernel: KernelIR, body: Body) -> bool:
    """Whether what is read for scores is a condition of places alone, of which nothing is in memory along the stream:
    it is drawn, as bits that stand beside them."""
    along = kernel.row_axes
    loads = {load.value.name for load in kernel.loads if kernel.operands[load.operand].strides[along] != "0"}
    read = not loads.isdisjoint(v.name for v in body.args) or any("fetch_" in line for line in body.lines)
    return body.results[0].dtype is BOOL and bool(body.lines) and not read


def is_random_mask(body: Body) -> bool:
    """Whether what is read for scores is drawn from random numbers."""
    return any(" philox" in line for line in body.lines)


def _index_mask_instructions(kernel: KernelIR) -> list[str]:
    """The lines of conditions that are drawn."""
    assert kernel.attention is not None
    return [line for body in kernel.attention.mask_inputs if is_index_mask(kernel, body) for line in body.lines]


def _gathers(kernel: KernelIR) -> bool:
    """Whether elements beside scores are read at computed places: their addresses stand in registers too."""
    assert kernel.attention is not None
    return any("fetch_" in line for body in kernel.attention.mask_inputs for line in body.lines)


def _holds_columns(kernel: KernelIR) -> bool:
    """Whether elements of a tile are computed of what memory has for their columns, or of places as real numbers: these
    stand in registers beside the scores."""
    stream, along = kernel.attention, kernel.row_axes
    assert stream is not None
    bodies = (*stream.mask_inputs, *(phase.element for phase in stream.tile_phases))
    read = {v.name for body in bodies for v in body.args}
    for load in kernel.loads:
        letters = kernel.operands[load.operand].strides
        if load.value.name in read and letters[along] != "0" and all(letters[a] == "0" for a in stream.query_axes):
            return True
    places = {f"float32({p.value.name})" for p in kernel.positions if p.axis == along}
    return any(place in line for body in bodies for line in body.lines for place in places)


def _hoists_from_scores(stream: AttentionBody) -> bool:
    """Whether scores are computed with before masks and maxima: beside what comes of them stand the scores."""
    return not stream.tile_phases[0].folds and any(phase.folds for phase in stream.tile_phases)


def _has_large_block_mask(kernel: KernelIR) -> bool:
    """Whether many values stand in registers while it is asked which tiles of the stream count for an item."""
    sieve = kernel.attention.block_mask if kernel.attention else None
    if sieve is None or mask_reads_memory(kernel):
        return bool(bounds_axes(kernel))
    return len(sieve.body.lines) + 2 * len(sieve.bounds) > MANY_INSTRUCTIONS


def warpgroup_registers(kernel: KernelIR, groups: int, spilled: bool) -> tuple[int, int]:
    """Registers of a thread that copies, or asks what to copy, and of one that computes."""
    return (40, 152) if groups == 3 and (spilled or _has_large_block_mask(kernel)) else REGISTERS[groups]


def _columns_of_three(kernel: KernelIR) -> int:
    """Columns of three groups, whose threads have 128 registers, such that nothing spills: a multiple of 16, which one
    step of the second product takes. On an H200, 16k tokens, with those and with what spilled: causal masks that leave
    every third 1,113 and 1,337 us, every second of a window of 1,024 655 and 691, not causal ones 1,996 and 2,017,
    softcap 1,247 and 1,260; every fourth of a window 537 and 524. Causal dropout on an H100: 1,852 us with 96, 1,938
    with 112, 1,992 with 80, and 1,995 in two groups of 128."""
    stream = kernel.attention
    assert stream is not None
    sieve = stream.block_mask
    drawn = _index_mask_instructions(kernel)
    if any(map(is_random_mask, stream.mask_inputs)):
        return 96
    if drawn and sieve is not None:
        dilated = any("remainder(" in line for line in drawn)
        return 80 if dilated and FEW_INSTRUCTIONS < len(sieve.body.lines) <= MANY_INSTRUCTIONS else 96
    if bounds_axes(kernel) or (_hoists_from_scores(stream) and sieve is not None and sieve.bounds):
        return 96
    if drawn or _holds_columns(kernel):
        return 112
    if sieve is None:
        return 128
    numbers = not {v.name for v in sieve.body.args}.isdisjoint(v.name for v in kernel.scalars)
    much = _hoists_from_scores(stream) or sieve.bounds or stream.mask_inputs or numbers or _has_large_block_mask(kernel)
    return 112 if much else 128


def _columns_of_two(kernel: KernelIR, beside: bool, summed: bool) -> int:
    """Columns of two groups, of rows of up to 128."""
    sieve = kernel.attention.block_mask if kernel.attention else None
    if _gathers(kernel):
        return 64
    if sieve is None:
        return 128
    asks = _index_mask_instructions(kernel) and len(sieve.body.lines) > FEW_INSTRUCTIONS
    return 96 if summed and not beside else 112 if beside or asks else 128


def tile_shape(width: int, out_width: int, beside: bool, kernel: KernelIR) -> tuple[int, int, int]:
    """(groups, columns, stages) for rows of these widths, with elements of memory `beside` scores or without.

    Stages are powers of 2. Masks and what is beside scores leave no registers for 128 columns of wide rows; sums
    measured from several extrema, and more sums of a row than one, leave none for three groups.
    """
    stream = kernel.attention
    assert stream is not None
    gathers, random = _gathers(kernel), any(map(is_random_mask, stream.mask_inputs))
    several, summed = (
        stream.update_row_max is not None and len(stream.update_row_max.results) > 1,
        len(stream.state.state) > 2,
    )
    if max(width, out_width) <= 64:
        if beside or several or summed or gathers:
            return 2, 96 if gathers else 128, 4
        return 3, _columns_of_three(kernel), 4
    if max(width, out_width) <= 128:
        return 2, _columns_of_two(kernel, beside, summed), 2
    if gathers:
        return 2, 48, 2
    much = beside or random or (summed and stream.block_mask is not None)
    return 2, 64 if much or (out_width > 192 and width > 256) else 80, 2
