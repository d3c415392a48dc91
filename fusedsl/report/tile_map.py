"""Tile maps: which key tiles of an attention kernel are empty, partial or full, for each query tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.dims import evaluate
from ..ir.types import numpy_dtype
from ..kernel_ir.attention import BlockMask
from ..kernel_ir.evaluate import evaluate_body
from ..kernel_ir.kernel import AttentionKernel
from ..kernel_ir.plan import KernelPlan
from ..program.resolve_call import Members, ResolvedCall

EMPTY, PARTIAL, FULL = range(3)  # nothing counts, an element mask is needed, everything counts
CELLS = 48  # of a drawn map along each side; a cell of a larger one stands for several tiles
MOST_TILES = 1 << 22
CPU_TILE = 64  # queries and keys of a drawn tile on the CPU, whose tiles are vectors


@dataclass(frozen=True)
class TileMap:
    """The block mask of one kernel: a digit a cell (0 empty, 1 partial, 2 full), and how many tiles are which.

    `tile` and `cell` are queries and keys. Without cells, `note` says why.
    """

    kernel: int
    extents: tuple[int, int]
    tile: tuple[int, int]
    cell: tuple[int, int]
    cells: tuple[str, ...]
    counts: tuple[int, int, int]  # of empty, partial and full tiles
    note: str = ""


def tile_maps(call: ResolvedCall) -> tuple[TileMap, ...]:
    """The tile map of each attention kernel with a block mask."""
    maps = (_tile_map(call, number, members) for number, members in enumerate(call.launches))
    return tuple(tiles for tiles in maps if tiles is not None)


def _tile_map(call: ResolvedCall, number: int, members: Members) -> TileMap | None:
    plan, bound = members[0]
    kernel, schedule = call.scheduled(plan, bound)
    if not isinstance(kernel, AttentionKernel) or kernel.attention.block_mask is None or bound.empty:
        return None
    mask, query = kernel.attention.block_mask, (*kernel.attention.query_axes, kernel.row_axes - 1)[-1]
    queries, keys = bound.extents[query], bound.extents[kernel.kv_axis]
    rows, columns = (schedule.rows, schedule.columns) if call.target.is_cuda else (CPU_TILE, CPU_TILE)
    packed = getattr(schedule, "packed_gqa_axis", None)
    rows = max(1, rows // (1 if packed is None else bound.extents[packed]))
    sides, tile = (-(-queries // rows), -(-keys // columns)), (rows, columns)
    if sides[0] * sides[1] > MOST_TILES:
        note = f"more than {MOST_TILES:,} tiles"
        return TileMap(number, (queries, keys), tile, tile, (), (0, 0, 0), note)
    starts = {
        query: (np.arange(sides[0])[:, None] * rows, rows),
        kernel.kv_axis: (np.arange(sides[1]) * columns, columns),
    }
    known = _known(call, plan, mask, bound.extents, starts)
    if not known.keys() >= {v.name for v in mask.body.args}:
        note = "which tiles are skipped depends on the elements of arrays"
        return TileMap(number, (queries, keys), tile, tile, (), (0, 0, 0), note)
    states = _states(mask, known, sides)
    counts = tuple(int((states == kind).sum()) for kind in (EMPTY, PARTIAL, FULL))
    return _downsampled(TileMap(number, (queries, keys), tile, tile, (), counts), states)  # type: ignore[arg-type]


def _known(
    call: ResolvedCall, plan: KernelPlan, mask: BlockMask, extents: tuple[int, ...], starts: Mapping
) -> dict[str, Any]:
    """The values that a block mask reads: positions of all tiles at once, and numbers of the call."""
    known: dict[str, Any] = {p.value.name: np.int64(0) for p in plan.positions}
    for axis, first, last in mask.ranges:
        start, length = starts.get(axis, (np.int64(0), 1))
        known[first.name] = start
        known[last.name] = np.minimum(start + length, extents[axis]) - 1
    for use in plan.scalars:
        if use.kind == "extent":
            known[use.value.name] = numpy_dtype(use.value.dtype).type(evaluate(use.source, call.extents))
        elif use.kind == "literal":
            known[use.value.name] = np.array([use.source], np.int64).view(numpy_dtype(use.value.dtype))[0]
        elif use.kind == "argument":
            number = getattr(call.facts[use.source], "value", 0)
            known[use.value.name] = numpy_dtype(use.value.dtype).type(number)
    return known


def _states(mask: BlockMask, known: Mapping[str, Any], sides: tuple[int, int]) -> np.ndarray:
    values = evaluate_body(mask.body, known)
    any_active, all_active = (np.broadcast_to(values[v.name], sides) for v in mask.body.results)
    return np.where(any_active, np.where(all_active, FULL, PARTIAL), EMPTY)


def _downsampled(tiles: TileMap, states: np.ndarray) -> TileMap:
    """The map with at most so many cells along a side: a cell of unlike tiles is partial."""
    steps = [-(-n // CELLS) for n in states.shape]
    cells = []
    for row in range(0, states.shape[0], steps[0]):
        line = (states[row : row + steps[0], k : k + steps[1]] for k in range(0, states.shape[1], steps[1]))
        cells.append("".join(str(part.flat[0] if (part == part.flat[0]).all() else PARTIAL) for part in line))
    cell = (tiles.tile[0] * steps[0], tiles.tile[1] * steps[1])
    return TileMap(tiles.kernel, tiles.extents, tiles.tile, cell, tuple(cells), tiles.counts)
