"""Schedule of products on sm_90: a TMA producer, wgmma consumers, persistent blocks, clusters that multicast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from .....hardware import Hardware
from .....kernel_ir.held_values import most_held_values
from .....kernel_ir.kernel import KernelIR
from .....kernel_ir.matmul_k_axes import k_axes
from .....kernel_ir.matmul_operands import MatmulOperands, matmul_operands, transposed
from .....kernel_ir.phase import Phase
from ...mma.tile_sizes import MBARRIER_BYTES, ROWS, TMA_RANK, WARPGROUP
from ...schedule_base import Extents
from .clock_model import predicted_clocks
from .layout import (
    CONSUMER_REGISTERS,
    PANEL,
    Sm90MatmulSchedule,
    clusters_of_tiles,
    is_staged,
    is_stored_by_tma,
    k_slices,
    tma_axes,
)
from .wgmma_kinds import wgmma_kind

MOST_SUMS = 256  # columns of accumulators of a warpgroup, over all products
MOST_STAGES = 8
SPLITS = (2, 3, 4, 6, 8)
HELD_BESIDE = 56  # registers beside accumulators and what groups hold: addresses, values of rows, a panel's loads
LEAST_SLICES = 8  # of a part of a tile
LONGEST = 1 << 31  # rows, columns and steps are int32
COLUMNS = (256, 192, 128, 64)  # of a tile, that are tried
SHAPES = ((2, 1, 1), (2, 1, 2), (1, 2, 1), (1, 2, 2), (1, 1, 1))  # warpgroups of a tile, tiles at once, cluster
CORE_LINES = 64  # lines of boxes along K: several, where blocks share them


def schedule_sm90(kernel: KernelIR, extents: Extents, hardware: Hardware) -> Sm90MatmulSchedule | None:
    """The schedule of products on sm_90; None if the card, the operands or their layouts do not allow it."""
    operands = matmul_operands(kernel)
    if hardware.cc[0] != 9 or operands is None or not _fits(kernel, operands, extents):
        return None
    possible = list(candidates(kernel, operands, extents, hardware))
    placed = kernel.phases[0].panel_folds or kernel.phases[0].groups or kernel.image_axes  # where columns are
    if not possible and not placed:
        operands = transposed(operands)
        possible = [replace(s, turned=True) for s in candidates(kernel, operands, extents, hardware)]
    if not possible:
        return None
    possible += [one for s in possible for how in (parts, narrow_tails) for one in how(s, operands, extents)]
    best = min(possible, key=lambda s: predicted_clocks(s, kernel, operands, extents, hardware))
    tiles = clusters_of_tiles(best, operands, extents) * best.cluster
    reason = (
        f"matrix product by wgmma: {tiles} tiles of {best.rows} × {best.columns}, {best.stages} K-slices of "
        f"{best.kind.slice} loaded ahead by TMA"
        f"{f', of the last wave {best.tail_columns} columns wide' if best.tail_columns else ''}"
        f"{', turned, with the rows in registers' if best.turned else ''}"
        f"{', whose rows are places of windows (im2col)' if kernel.image_axes else ''}"
        f"{', in two parts of TF32 each' if best.parts == 2 else ''}"
        f"{f', clusters of {best.cluster} share what they load' if best.cluster > 1 else ''}"
        f"{f', {best.splits} parts of each sum are added in order' if best.splits > 1 else ''}"
    )
    return replace(best, reason=reason)


def _fits(kernel: KernelIR, operands: MatmulOperands, extents: Extents) -> bool:
    """Whether TMA and wgmma take these operands: a dtype that wgmma multiplies, one axis on each side."""
    axes, phase = operands.axes, kernel.phases[0]
    k = k_axes(kernel, operands, extents)
    everyone = (*operands.left, *operands.right)
    sides = [(k, axes.rows) for k in operands.left] + [(k, axes.columns) for k in operands.right]
    return (
        len(axes.rows) == len(axes.columns) == 1
        and (not k.outer or k.fills_slices(extents))
        and not kernel.is_subkernel
        and kernel.batched is None
        and 0 not in extents
        and prod(extents) < LONGEST * LONGEST
        and max(extents) < LONGEST
        and wgmma_kind(kernel, everyone) is not None
        and all(kernel.operands[o].near_access == "vector" for o in everyone)
        and all(kernel.operands[o].near in (k.inner, *axes.rows, *axes.columns) for o in everyone)
        and all(len(tma_axes(kernel, o)) <= TMA_RANK for o in everyone if not kernel.operands[o].image)
        and all({k.inner, own} <= set(tma_axes(kernel, o)) for o, (own,) in sides)  # a box fills its slice
        and (phase.panel_folds is None or (phase.panel_folds.axis,) == axes.columns)
        and (phase.groups is None or ((phase.groups.axis,) == axes.columns and phase.groups.size > 0))
    )


def candidates(
    kernel: KernelIR, operands: MatmulOperands, extents: Extents, hardware: Hardware
) -> Iterator[Sm90MatmulSchedule]:
    """The schedule for each size and form of a tile that the multiprocessors have room for."""
    lefts, rights = operands.left, operands.right
    kind = wgmma_kind(kernel, (*lefts, *rights))
    assert kind is not None
    pairs = tuple((lefts.index(a), len(lefts) + rights.index(b)) for a, b in operands.pairs)
    k = k_axes(kernel, operands, extents)
    majors = tuple("k" if kernel.operands[o].near == k.inner else "mn" for o in (*lefts, *rights))
    stores = tuple(
        store.operand for store in kernel.phases[0].stores_of_rows if is_stored_by_tma(kernel, operands, store.operand)
    )
    others = () if stores else (store.operand for store in kernel.phases[0].stores_of_rows)
    staged = tuple(o for o in others if is_staged(kernel, operands, o))
    groups = kernel.phases[0].groups
    divisors = (PANEL, 2, 1) if kernel.phases[0].panel_folds or groups else (2, 1)
    multiple = next(n for n in divisors if extents[operands.axes.columns[0]] % n == 0)
    for columns in COLUMNS:
        if columns * len(pairs) > MOST_SUMS or (groups and not _holds_groups(columns, kernel.phases[0])):
            continue
        for warpgroups, pingpong, cluster in SHAPES:
            one = Sm90MatmulSchedule(
                *(warpgroups, pingpong, columns, MOST_STAGES, cluster, pairs, majors, stores, multiple, k, kind.dtype),
                parts=2 if kind.dtype == "float32" and kernel.matmul == "3xtf32" else 1,
                group=groups.size if groups else 0,
                staged_stores=staged,
                multiprocessors=hardware.multiprocessors,
            )
            if one.by_registers:
                even_rows = one.pairs_rows and extents[operands.axes.rows[0]] % 2 == 0
                one = replace(one, tma_stores=(), staged_stores=(), even_rows=even_rows)
            if not _is_loaded_in_boxes(one) or one.parts * pingpong > 2 or (k.outer and one.parts > 1):
                continue
            room = hardware.block_shared - one.smem_bytes + MOST_STAGES * (one.stage_bytes + 2 * MBARRIER_BYTES)
            stages = min(MOST_STAGES, room // (one.stage_bytes + 2 * MBARRIER_BYTES))
            if stages >= 2:
                yield replace(one, stages=stages)


def _holds_groups(columns: int, phase: Phase) -> bool:
    """Whether a tile of so many columns has whole groups, and a thread the registers for what their phases hold."""
    groups = phase.groups
    assert groups is not None
    if not groups.size or groups.size % PANEL or columns % groups.size:
        return False
    held = (columns - groups.size) * len(phase.folds) + groups.size * max(most_held_values(phase), len(phase.folds))
    return held * ROWS // WARPGROUP + HELD_BESIDE <= CONSUMER_REGISTERS


def _is_loaded_in_boxes(s: Sm90MatmulSchedule) -> bool:
    """Whether wgmma finds the operands where TMA brings them: whole boxes, of columns along K unless they are of 16
    bits."""
    for number, major in enumerate(s.majors):
        is_column = number >= s.lefts
        if major == "mn" and is_column and not s.kind.reads_mn_major:
            return False
        box = s.kind.slice if major == "mn" else CORE_LINES
        if s.lines(number) % (box * (s.cluster if is_column else 1)):
            return False
    return True


def narrow_tails(s: Sm90MatmulSchedule, operands: MatmulOperands, extents: Extents) -> Iterator[Sm90MatmulSchedule]:
    """The schedule with narrower tiles in its last wave, where all multiprocessors have one of them at most."""
    whole, left = divmod(clusters_of_tiles(s, operands, extents), s.multiprocessors)
    if s.cluster > 1 or s.pingpong > 1 or s.parts > 1 or not whole or not left:
        return
    for columns in COLUMNS:
        if s.group and columns % s.group:
            continue
        if s.columns % columns == 0 and columns < s.columns and left * (s.columns // columns) <= s.multiprocessors:
            yield replace(s, tail_columns=columns)


def parts(s: Sm90MatmulSchedule, operands: MatmulOperands, extents: Extents) -> Iterator[Sm90MatmulSchedule]:
    """The schedule with several parts of each tile, where there are few tiles."""
    slices = k_slices(s, extents)
    if s.cluster > 1 or s.pingpong > 1 or clusters_of_tiles(s, operands, extents) >= s.multiprocessors:
        return
    for splits in SPLITS:
        each = -(-slices // splits)
        if each >= LEAST_SLICES and (splits - 1) * each < slices:
            yield replace(s, splits=splits)
