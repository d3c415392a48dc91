"""Rows and columns at a time of the attend skeleton: such that what stands in registers fits there."""

from __future__ import annotations

from ....ir.types import BOOL
from ....kernel_ir.attention import Stream
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body
from .block_mask_inputs import asks_memory, extreme_axes

LONG, SHORT = 8, 4  # lines of a sieve's body
REGISTERS = {1: (40, 240), 2: (40, 232), 3: (32, 160)}  # of a thread that copies, and of one that computes


def is_drawn(kernel: KernelIR, body: Body) -> bool:
    """Whether what is read for scores is a condition of places alone, of which nothing is in memory along the stream:
    it is drawn, as bits that stand beside them."""
    along = kernel.row_axes
    loads = {load.value.name for load in kernel.loads if kernel.operands[load.operand].strides[along] != "0"}
    read = not loads.isdisjoint(v.name for v in body.args) or any("fetch_" in line for line in body.instructions)
    return body.results[0].dtype is BOOL and bool(body.instructions) and not read


def is_random(body: Body) -> bool:
    """Whether what is read for scores is drawn from random numbers."""
    return any(" philox" in line for line in body.instructions)


def _drawn_lines(kernel: KernelIR) -> list[str]:
    """The lines of conditions that are drawn."""
    assert kernel.stream is not None
    return [line for body in kernel.stream.inputs if is_drawn(kernel, body) for line in body.instructions]


def _gathers(kernel: KernelIR) -> bool:
    """Whether elements beside scores are read at computed places: their addresses stand in registers too."""
    assert kernel.stream is not None
    return any("fetch_" in line for body in kernel.stream.inputs for line in body.instructions)


def _holds_columns(kernel: KernelIR) -> bool:
    """Whether elements of a tile are computed of what memory has for their columns, or of places as real numbers: these
    stand in registers beside the scores."""
    stream, along = kernel.stream, kernel.row_axes
    assert stream is not None
    bodies = (*stream.inputs, *(phase.element for phase in stream.tile))
    read = {v.name for body in bodies for v in body.args}
    for load in kernel.loads:
        letters = kernel.operands[load.operand].strides
        if load.value.name in read and letters[along] != "0" and all(letters[a] == "0" for a in stream.lanes):
            return True
    places = {f"float32({p.value.name})" for p in kernel.positions if p.axis == along}
    return any(place in line for body in bodies for line in body.instructions for place in places)


def _computes_first(stream: Stream) -> bool:
    """Whether scores are computed with before masks and maxima: beside what comes of them stand the scores."""
    return not stream.tile[0].folds and any(phase.folds for phase in stream.tile)


def _asks_much(kernel: KernelIR) -> bool:
    """Whether many values stand in registers while it is asked which tiles of the stream count for an item."""
    sieve = kernel.stream.sieve if kernel.stream else None
    if sieve is None or asks_memory(kernel):
        return bool(extreme_axes(kernel))
    return len(sieve.body.instructions) + 2 * len(sieve.extremes) > LONG


def registers_of(kernel: KernelIR, groups: int, spilled: bool) -> tuple[int, int]:
    """Registers of a thread that copies, or asks what to copy, and of one that computes."""
    return (40, 152) if groups == 3 and (spilled or _asks_much(kernel)) else REGISTERS[groups]


def _narrow_columns(kernel: KernelIR) -> int:
    """Columns of three groups, whose threads have 128 registers, such that nothing spills: a multiple of 16, which one
    step of the second product takes. On an H200, 16k tokens, with those and with what spilled: causal masks that leave
    every third 1,113 and 1,337 us, every second of a window of 1,024 655 and 691, not causal ones 1,996 and 2,017,
    softcap 1,247 and 1,260; every fourth of a window 537 and 524. Causal dropout on an H100: 1,852 us with 96, 1,938
    with 112, 1,992 with 80, and 1,995 in two groups of 128."""
    stream = kernel.stream
    assert stream is not None
    sieve = stream.sieve
    drawn = _drawn_lines(kernel)
    if any(map(is_random, stream.inputs)):
        return 96
    if drawn and sieve is not None:
        dilated = any("remainder(" in line for line in drawn)
        return 80 if dilated and SHORT < len(sieve.body.instructions) <= LONG else 96
    if extreme_axes(kernel) or (_computes_first(stream) and sieve is not None and sieve.extremes):
        return 96
    if drawn or _holds_columns(kernel):
        return 112
    if sieve is None:
        return 128
    numbers = not {v.name for v in sieve.body.args}.isdisjoint(v.name for v in kernel.scalars)
    much = _computes_first(stream) or sieve.extremes or stream.inputs or numbers or _asks_much(kernel)
    return 112 if much else 128


def _middle_columns(kernel: KernelIR, beside: bool, summed: bool) -> int:
    """Columns of two groups, of rows of up to 128."""
    sieve = kernel.stream.sieve if kernel.stream else None
    if _gathers(kernel):
        return 64
    if sieve is None:
        return 128
    asks = _drawn_lines(kernel) and len(sieve.body.instructions) > SHORT
    return 96 if summed and not beside else 112 if beside or asks else 128


def shape(width: int, out_width: int, beside: bool, kernel: KernelIR) -> tuple[int, int, int]:
    """(groups, columns, stages) for rows of these widths, with elements of memory `beside` scores or without.

    Stages are powers of 2. Masks and what is beside scores leave no registers for 128 columns of wide rows; sums
    measured from several extrema, and more sums of a row than one, leave none for three groups.
    """
    stream = kernel.stream
    assert stream is not None
    gathers, random = _gathers(kernel), any(map(is_random, stream.inputs))
    several, summed = stream.join is not None and len(stream.join.results) > 1, len(stream.state.accumulators) > 2
    if max(width, out_width) <= 64:
        if beside or several or summed or gathers:
            return 2, 96 if gathers else 128, 4
        return 3, _narrow_columns(kernel), 4
    if max(width, out_width) <= 128:
        return 2, _middle_columns(kernel, beside, summed), 2
    if gathers:
        return 2, 48, 2
    much = beside or random or (summed and stream.sieve is not None)
    return 2, 64 if much or (out_width > 192 and width > 256) else 80, 2
