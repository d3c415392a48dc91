"""Main loop of sm_90 attention over the key tiles of a work tile: q·k of a tile overlaps p·v of the tile before.

Each iteration starts q·k, then p·v of the previous tile; the softmax runs while p·v does. mbarriers and stages follow
from `tile_info`, the tile info that the producer publishes in shared memory (sm90_producer.py).
"""

from __future__ import annotations

from ....kernel_ir.kernel import AttentionKernel
from ..emit.source_builder import indented
from ..mma.tile_sizes import ROWS, SWIZZLE_ELEMENTS
from .emit_facts import AttentionFacts
from .emit_fragment import Domain
from .emit_softmax import OnlineSoftmax
from .sm90_producer import TmaPipelines
from .sm90_schedule import Sm90AttentionSchedule, bias_operand
from .sm90_tile_scheduler import Sm90TileScheduler
from .sm90_tile_shape import is_index_mask

NEXT_SCORES = "next_scores"  # of the next work tile
# pipeline states: work tiles and key tiles so far, modulo the stages
WORK_ITER, KV_ITER = "(tile_info >> 3 & 3)", "(tile_info >> 5 & 7)"
KV_ITER_BEFORE, KV_ITER_AFTER = "((tile_info >> 5) + 7 & 7)", "((tile_info >> 5) + 1 & 7)"
MOST_HOISTED_WIDTH = 128  # head dimension


def sm90_facts(kernel: AttentionKernel, schedule: Sm90AttentionSchedule) -> AttentionFacts:
    """The facts of an attention kernel that loops over work tiles, and has few registers for each thread."""
    body, hoists = kernel.attention, max(schedule.head_dim, schedule.head_dim_v) <= MOST_HOISTED_WIDTH
    references = body.choose_reference if schedule.lazy_rescale else None
    accumulators = body.state.accumulators[: len(references.results)] if references and references.instructions else ()
    return AttentionFacts(
        kernel,
        schedule,
        row_limit="row_end",
        clamped_row="int64(minimum(int32(i), int32(n - 1)))",  # so that masks compare 32 bits
        row_maxima={v.name: f"row_max_{v.name}" for v in accumulators},
        # in wider heads registers do not hold all elements of a row: softcap takes 3 % longer if hoisted
        hoists_common=hoists,
        masks_before_branch=True,
        # else index masks are evaluated in every tile, and other masks then cost little:
        # measured: dropout with head dimension 256 takes 846 us, 857 with full phases, and those link 0.2 s longer
        has_full_phases=hoists or not any(is_index_mask(kernel, mask) for mask in body.mask_inputs),
        loads_epilogue_late=schedule.consumer_warpgroups > 2,  # their threads have the fewest registers
    )


class Sm90Mainloop:
    """A consumer warpgroup's loop over the key tiles of a work tile."""

    def __init__(self, softmax: OnlineSoftmax, schedule: Sm90AttentionSchedule, scheduler: Sm90TileScheduler):
        self.softmax, self.values, self.masks = softmax, softmax.values, softmax.masks
        self.source = softmax.values.source
        self.source, self.facts = softmax.values.source, softmax.facts
        self.schedule, self.scheduler = schedule, scheduler
        self.pipelines, kernel = TmaPipelines(schedule), self.facts.kernel
        bias = bias_operand(kernel, self.facts.query_axis) if schedule.bias_stages else None
        self.bias = next((load.value.name for load in kernel.loads if load.operand == bias), "")

    def emit(self) -> None:
        """The loop, and the last p·v: q·k of a tile starts before p·v of the previous one."""
        source, facts, p = self.source, self.facts, self.pipelines
        output, score, factor = facts.output, facts.score.value.name, self._rescale_factor
        pack, (wait, arrive) = f"p_tile = pack({facts.weighted_sum.p.name})", self._pingpong()
        source.emit(f"{score} = {NEXT_SCORES}", *self._release_k(), *self._load_bias())
        self._emit_bias()
        self._emit_first_tile()
        source.emit(pack)
        with source.while_("tile_info & 1 == 0"):
            source.emit(*self._wait_tile(), *wait, self.start_qk(score), p.v.wait_full(KV_ITER_BEFORE))
            source.emit(self._start_pv(KV_ITER_BEFORE), *arrive, self._column_from())
            self.masks.emit_before_branch()
            source.emit(*self._load_bias(), f"{score} = wait_qk({score})", *self._release_k())
            self._emit_bias()
            self.softmax.emit_tile("tile_info & 2 != 0" if facts.full_phases else "", bounded=False)
            source.emit(*self._pin_order(), *([f"needs_rescale = any_not_one({factor})"] if factor else []))
            source.emit(f"{output} = wait_all({output})", *elect_one(p.v.consumer_release(KV_ITER_BEFORE)), pack)
            with source.if_("needs_rescale" if factor else ""):
                self.softmax.emit_rescale()
        source.emit(p.v.wait_full(KV_ITER), *wait, self._start_pv(KV_ITER), *arrive)
        source.emit(f"{output} = wait_all({output})", *elect_one(p.v.consumer_release(KV_ITER)))

    # -- first tile

    def wait_work_tile(self) -> list[str]:
        """Lines that wait for a work tile's q and first k tile."""
        return [self.pipelines.q.wait_full("work_iter"), *self._wait_tile(), *self._skip_inactive_tiles()]

    def _emit_first_tile(self) -> None:
        """Emit the softmax of a work tile's first key tile, which may reach beyond the last key."""
        facts, source = self.facts, self.source
        source.assign("tile_info", f"warp_uniform(ld_shared(tile_infos_at + {KV_ITER} * 4))")
        source.emit(self._column_from())
        self.masks.emit_before_branch()
        self.softmax.emit_hoisted()
        if facts.index_masks or (facts.has_block_mask and not facts.hoists_common):
            self.softmax.emit_partial(bounded=True)
            return
        with source.if_else(f"column_from + {self.schedule.columns} <= n{facts.kv_axis}") as (inside, beyond):
            with beyond:
                self.softmax.emit_partial(bounded=True)
            with inside:
                self.softmax.emit_partial(bounded=False)

    def _column_from(self) -> str:
        return f"column_from = int32((tile_info >> 8) * {self.schedule.columns})"

    # -- products in flight

    def _wait_tile(self) -> list[str]:
        """Lines that wait for the next k tile, and load its tile info."""
        info = f"tile_info = warp_uniform(ld_shared(tile_infos_at + {KV_ITER_AFTER} * 4))"
        return [self.pipelines.k.wait_full(KV_ITER_AFTER), info]

    def start_qk(self, name: str) -> str:
        q = f"{self.pipelines.q.tile(WORK_ITER)} + warpgroup * {ROWS * 2 * SWIZZLE_ELEMENTS}"
        return f"{name} = start_qk(k_major_descriptor({q}), k_major_descriptor({self.pipelines.k.tile(KV_ITER)}))"

    def _start_pv(self, kv_iter: str) -> str:
        output = self.facts.output
        return f"{output} = start_pv({output}, p_tile, v_descriptor({self.pipelines.v.tile(kv_iter)}))"

    def _release_k(self) -> list[str]:
        """Lines that release the k stage, and the q stage after the last key tile."""
        last = ["if tile_info & 1 != 0:", f"    {self.pipelines.q.consumer_release(WORK_ITER)}"]
        return elect_one(self.pipelines.k.consumer_release(KV_ITER), *last)

    def _pingpong(self) -> tuple[list[str], list[str]]:
        """Lines before and after a warpgroup starts its products: ping-pong by named barriers."""
        if not self.schedule.pingpong:
            return [], []
        groups = self.schedule.consumer_warpgroups
        following = sum((1 + (g + 1) % groups) << 4 * g for g in range(groups))  # barriers of the next warpgroups
        return ["bar_sync(1 + warpgroup, 256)"], [f"bar_arrive({following} >> 4 * warpgroup & 15, 256)"]

    @property
    def _rescale_factor(self) -> str:
        """The row value that the output is rescaled by, if rescaling is one product; else empty."""
        combine = self.facts.weighted_sum.combine_tile.instructions
        product = combine[0] if len(combine) == 1 and combine[0].op == "multiply" else None
        factors = set(product.args) if product is not None and product.dtype.kind == "f" else set()
        return next((name for name in self.softmax.rescale_factors if {name, self.facts.output} == factors), "")

    def _pin_order(self) -> list[str]:
        """Pin the softmax before the wait for p·v. Around branches or mask loops ptxas keeps the order by itself.

        Measured: dilated masks with head dimension 64 take 1,123 us, 1,209 if pinned too.
        """
        if self.facts.full_phases or self.facts.index_masks:
            return []
        sums = [v for v in self.facts.body.state.accumulators if v.dtype.name == "float32"]
        return [f"wait_for_values({sums[-1].name if sums else self.facts.weighted_sum.p.name})"]

    # -- bias

    def _load_bias(self) -> list[str]:
        """Lines that load a tile's bias in pairs, while q·k runs."""
        if not self.bias:
            return []
        bias = self.pipelines.bias
        return [
            bias.wait_full(KV_ITER),
            f"bias_pairs = load_bias({bias.tile(KV_ITER)} + warpgroup * {ROWS * 2 * SWIZZLE_ELEMENTS})",
            "if (thread_idx() & 31) == 0:",
            f"    {bias.consumer_release(KV_ITER)}",
        ]

    def _emit_bias(self) -> None:
        if self.bias:
            self.values.domain[self.bias] = Domain.ELEMENT
            self.source.assign(self.bias, "widen_bias(bias_pairs)")

    # -- key tiles that are masked for all rows of this warpgroup; another warpgroup of the work tile may need them

    def _skip_inactive_tiles(self) -> list[str]:
        """Lines of a warpgroup that skips key tiles without an active element in its rows. No warpgroup skips the last.

        If key tiles are at least as wide as a work tile has rows, all warpgroups have nearly the same: none skips.
        """
        if self.schedule.columns >= self.schedule.rows or self.bias:
            return []
        info, p = self.scheduler.info_address(WORK_ITER), self.pipelines
        (wait, arrive), row_end = self._pingpong(), 4 * self.scheduler.info_words.index("row_end")
        skip = [*wait, *arrive, *elect_one(p.k.consumer_release(KV_ITER)), p.v.wait_full(KV_ITER)]
        return [
            f"warpgroup_from = int32(ld_shared({info}) + warpgroup * {ROWS})",
            f"warpgroup_end = ld_shared({info} + {row_end})",
            f"while {self._tile_is_inactive()}:",
            *indented([*skip, *elect_one(p.v.consumer_release(KV_ITER)), *self._wait_tile()]),
        ]

    def _tile_is_inactive(self) -> str:
        """The condition that the key tile of `tile_info` is not the last, and has no active element in the rows of the
        warpgroup, `warpgroup_from` to `warpgroup_end`. Masks that read memory or other axes are not evaluated."""
        facts, columns = self.facts, self.schedule.columns
        mask, n = facts.body.block_mask, f"n{facts.kv_axis}"
        scalars = {v.name: v.dtype.name for v in facts.kernel.scalars}
        lines, active = list[str](), ""
        types = {"tile_info": "int32", "warpgroup_from": "int32", "warpgroup_end": "int32"}
        last_row = f"int64(minimum(warpgroup_from + {ROWS}, warpgroup_end) - 1)"
        ranges = {facts.kv_axis: ("first", "last"), facts.query_axis: ("int64(warpgroup_from)", last_row)}
        ends = {v.name: x for axis, *pair in mask.ranges for v, x in zip(pair, ranges.get(axis, ()))} if mask else {}
        if mask and all(v.name in ends or v.name in scalars for v in mask.body.args):
            with self.values.collected() as evaluation:
                active = f" & {self.values.call('tile_mask', mask.body, Domain.SCALAR)[0]}"
            lines += [f"first = int64((tile_info >> 8) * {columns})", f"last = minimum(first + {columns - 1}, {n} - 1)"]
            lines += [*(f"{name} = {end}" for name, end in ends.items()), *evaluation]
            types |= {n: "int64"} | {v.name: scalars[v.name] for v in mask.body.args if v.name in scalars}
        lines.append(f"return (tile_info & 1 == 0) & (((warpgroup_from < warpgroup_end){active}) == False)")
        self.values.define(
            "is_inactive", Domain.SCALAR, f"{', '.join(types.values())} -> bool", ", ".join(types), lines
        )
        return f"is_inactive({', '.join(types)})"


def elect_one(*lines: str) -> list[str]:
    """Lines that one thread of a warpgroup executes."""
    return ["if elected:", *indented(lines)]
