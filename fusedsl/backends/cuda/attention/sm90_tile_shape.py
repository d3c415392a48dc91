"""Tile shape of sm_90 attention: warpgroups, key tile width and stages such that registers do not spill."""

from __future__ import annotations

from ....ir.types import BOOL, FLOAT32
from ....kernel_ir.attention import AttentionBody
from ....kernel_ir.instruction import Instruction
from ....kernel_ir.kernel import AttentionKernel
from ....kernel_ir.phase import Body

MANY_INSTRUCTIONS, FEW_INSTRUCTIONS = 8, 4  # instructions of a block mask's body
REGISTERS = {1: (40, 240), 2: (40, 232), 3: (32, 160)}  # of a producer thread, and of a consumer thread


def is_index_mask(kernel: AttentionKernel, body: Body) -> bool:
    """True for an index mask: a computed condition that loads nothing along the kv axis. It is evaluated as bits."""
    kv_axis = kernel.row_axes
    loads = {load.value.name for load in kernel.loads if kernel.operands[load.operand].strides[kv_axis] != "0"}
    read = not loads.isdisjoint(v.name for v in body.args) or any(i.op == "fetch" for i in body.instructions)
    return body.results[0].dtype is BOOL and bool(body.instructions) and not read


def is_random_mask(body: Body) -> bool:
    """True for a mask that reads random numbers (dropout)."""
    return any(i.op.startswith("philox") for i in body.instructions)


def _index_mask_instructions(kernel: AttentionKernel) -> list[Instruction]:
    """The instructions of all index masks."""
    return [i for body in kernel.attention.mask_inputs if is_index_mask(kernel, body) for i in body.instructions]


def _gathers(kernel: AttentionKernel) -> bool:
    """True if mask inputs are loaded at computed addresses, which take registers too."""
    return any(i.op == "fetch" for body in kernel.attention.mask_inputs for i in body.instructions)


def _holds_columns(kernel: AttentionKernel) -> bool:
    """True if elements read loads of their columns, or indices as floats: these take registers beside the scores."""
    attention, kv_axis = kernel.attention, kernel.row_axes
    bodies = (*attention.mask_inputs, *(phase.element for phase in attention.tile_phases))
    read = {v.name for body in bodies for v in body.args}
    for load in kernel.loads:
        strides = kernel.operands[load.operand].strides
        if load.value.name in read and strides[kv_axis] != "0" and all(strides[a] == "0" for a in attention.query_axes):
            return True
    indices = {p.value.name for p in kernel.positions if p.axis == kv_axis}
    converted = [i for body in bodies for i in body.instructions if i.op in ("convert", "convert_round")]
    return any(i.dtype.compute is FLOAT32 and not indices.isdisjoint(i.names) for i in converted)


def _hoists_from_scores(attention: AttentionBody) -> bool:
    """True if a value of the scores is computed before masks and maxima: both take registers."""
    return not attention.tile_phases[0].folds and any(phase.folds for phase in attention.tile_phases)


def _has_large_block_mask(kernel: AttentionKernel) -> bool:
    """True if the evaluation of the block mask needs many registers."""
    mask = kernel.attention.block_mask
    if mask is None or kernel.kv_bounds:
        return bool(kernel.kv_bounds_axes)
    return len(mask.body.instructions) + 2 * len(mask.bounds) > MANY_INSTRUCTIONS


def warpgroup_registers(kernel: AttentionKernel, groups: int, spilled: bool) -> tuple[int, int]:
    """Registers of a producer thread, and of a consumer thread (setmaxnreg)."""
    return (40, 152) if groups == 3 and (spilled or _has_large_block_mask(kernel)) else REGISTERS[groups]


def _columns_of_three(kernel: AttentionKernel) -> int:
    """Key tile width of three consumer warpgroups without spills: a multiple of 16, the k of one wgmma."""
    # measured: H200, 16k tokens, this width and one that spilled: causal masks of every third key 1,113 and 1,337 us,
    # every second of a window of 1,024 655 and 691, not causal ones 1,996 and 2,017, softcap 1,247 and 1,260; every
    # fourth of a window 537 and 524.
    # measured: H100, causal dropout: 1,852 us with 96, 1,938 with 112, 1,992 with 80, 1,995 in two warpgroups of 128.
    attention = kernel.attention
    mask = attention.block_mask
    index_masks = _index_mask_instructions(kernel)
    if any(map(is_random_mask, attention.mask_inputs)):
        return 96
    if index_masks and mask is not None:
        dilated = any(i.op == "remainder" for i in index_masks)
        return 80 if dilated and FEW_INSTRUCTIONS < len(mask.body.instructions) <= MANY_INSTRUCTIONS else 96
    if kernel.kv_bounds_axes or (_hoists_from_scores(attention) and mask is not None and mask.bounds):
        return 96
    if index_masks or _holds_columns(kernel):
        return 112
    if mask is None:
        return 128
    reads_scalars = not {v.name for v in mask.body.args}.isdisjoint(v.name for v in kernel.scalars)
    crowded = _hoists_from_scores(attention) or mask.bounds or attention.mask_inputs or reads_scalars
    return 112 if crowded or _has_large_block_mask(kernel) else 128


def _columns_of_two(kernel: AttentionKernel, has_bias: bool, has_sums: bool) -> int:
    """Key tile width of two consumer warpgroups, for head dimensions up to 128."""
    mask = kernel.attention.block_mask
    if _gathers(kernel):
        return 64
    if mask is None:
        return 128
    expensive = _index_mask_instructions(kernel) and len(mask.body.instructions) > FEW_INSTRUCTIONS
    return 96 if has_sums and not has_bias else 112 if has_bias or expensive else 128


def tile_shape(head_dim: int, head_dim_v: int, has_bias: bool, kernel: AttentionKernel) -> tuple[int, int, int]:
    """(consumer warpgroups, key tile width, kv stages) for these head dimensions, with a bias or without.

    Stages are powers of 2. Masks and a bias leave no registers for 128 columns of wide heads; several references, or
    several sums of a row, leave none for three warpgroups.
    """
    attention = kernel.attention
    has_gathers, is_random = _gathers(kernel), any(map(is_random_mask, attention.mask_inputs))
    has_references = attention.update_row_max is not None and len(attention.update_row_max.results) > 1
    has_sums = len(attention.state.accumulators) > 2
    if max(head_dim, head_dim_v) <= 64:
        if has_bias or has_references or has_sums or has_gathers:
            return 2, 96 if has_gathers else 128, 4
        return 3, _columns_of_three(kernel), 4
    if max(head_dim, head_dim_v) <= 128:
        return 2, _columns_of_two(kernel, has_bias, has_sums), 2
    if has_gathers:
        return 2, 48, 2
    crowded = has_bias or is_random or (has_sums and attention.block_mask is not None)
    return 2, 64 if crowded or (head_dim_v > 192 and head_dim > 256) else 80, 2
