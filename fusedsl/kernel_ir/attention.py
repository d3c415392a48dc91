"""Attention kernel as data: scores, softmax phases of a key tile, weighted sums, block mask and output epilogues."""

from __future__ import annotations

from dataclasses import dataclass

from .phase import Body, Phase, Reduction, Store, Value


@dataclass(frozen=True)
class Score:
    """Score of a (query, key) pair: `value` is the sum along iteration axis `axis` of q * k.

    The bodies result in an element of each operand. q depends on the row axes, k on no query axis.
    """

    value: Value
    axis: int
    q: Body
    k: Body


@dataclass(frozen=True)
class WeightedSum:
    """Accumulator with the iteration axis `axis` of its own: the sum over keys of p * v.

    `state` names the final sum. `combine_tile` reads row values and `sides` (the accumulated sum, that of the tile)
    and results in the sum of both. `is_active` masks elements: p counts as 0 if it is False, even if p is NaN.
    `combine_splits` combines the sums of two splits of the keys.
    """

    axis: int
    p: Value
    v: Body
    state: Value
    sides: tuple[Value, Value]
    combine_tile: Body
    is_active: Body | None = None
    combine_splits: Body | None = None


@dataclass(frozen=True)
class OutputEpilogue:
    """Epilogue after the last key tile: stores of values with the iteration axis `axis` beside the rows."""

    axis: int
    body: Body
    stores: tuple[Store, ...]


@dataclass(frozen=True)
class TileBounds:
    """Bounds of a body's result along axis `axis` of a tile: minimum and maximum; of conditions, all and any."""

    axis: int
    body: Body
    lower: Value
    upper: Value


@dataclass(frozen=True)
class BlockMask:
    """Block mask, evaluated per (query tile, key tile): `body` results in (any element active, all elements active).

    Tiles without an active element are skipped. Tiles with all active use `full_phases`, which have no element mask
    (empty: no tile is known to be full); `full_names` pairs the names of partial phases' values with theirs.
    `ranges` names the first and the last position of a tile on each axis.
    """

    ranges: tuple[tuple[int, Value, Value], ...]
    bounds: tuple[TileBounds, ...]
    body: Body
    full_phases: tuple[Phase, ...]
    full_names: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PagedRow:
    """Row of array `operand` along its axis `inner_axis`: its `address`, loaded if `predicate` holds, else all 0."""

    operand: int
    inner_axis: int
    address: Value
    predicate: Value


@dataclass(frozen=True)
class PagedOperands:
    """Paged k and v: for a key index, `body` computes each operand's row address and predicate, and the conditions
    `valid`, which the elements of a tile are computed with."""

    body: Body
    k: PagedRow | None
    v: PagedRow | None
    valid: tuple[Value, ...]


@dataclass(frozen=True)
class AttentionBody:
    """Online softmax (rewrite/online/) over one kv axis, key tile by key tile, for a query tile at a time.

    The kv axis is the iteration axis behind the rows; the axes of q·k and of outputs follow it. No k and no v depends
    on the `query_axes`; a query tile lies along them. `tile_phases` reduce one key tile as if it were a row. `state`
    combines the result with the accumulated state; its body also results in the row values that `combine_tile` of the
    weighted sums reads. After the last tile follow `row_epilogue`, `row_outputs` and `epilogues`.
    """

    query_axes: tuple[int, ...]
    scores: tuple[Score, ...]
    tile_phases: tuple[Phase, ...]
    state: Reduction
    weighted_sums: tuple[WeightedSum, ...]
    row_epilogue: Body | None
    row_outputs: tuple[Store, ...]
    epilogues: tuple[OutputEpilogue, ...]
    block_mask: BlockMask | None = None
    mask_inputs: tuple[Body, ...] = ()  # loads and index masks of each (query, key) element; a result each
    row_inputs: tuple[Body, ...] = ()  # loads of each row; a result each
    update_row_max: Body | None = (
        None  # with a running reference: the tile's row maximum and the running one, combined first
    )
    choose_reference: Body | None = None  # the reference that the tile is measured from: it may stay below the maximum
    combine_splits: Reduction | None = None  # combines the row states of two splits of the keys
    paged: PagedOperands | None = None  # paged k and v
    mask_summary: str = ""  # text of explain(): which tiles are skipped or need no mask

    @property
    def running_reference(self) -> bool:
        """True if tiles are measured from the running reference: their sums are added to accumulators that
        `combine_tile` has rescaled."""
        return self.update_row_max is not None
