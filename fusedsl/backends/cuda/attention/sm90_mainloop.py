"""Main loop of sm_90 attention over the key tiles of a work tile: q·k of a tile overlaps p·v of the tile before.

Each iteration starts q·k, then p·v of the previous tile; the softmax runs while p·v does. mbarriers and stages follow
from `tile_info`, the tile info that the producer publishes in shared memory (sm90_producer.py).
"""

from __future__ import annotations

import re

from ....kernel_ir.kernel import AttentionKernel
from ..emit.source_text import either, indented
from .emit_fragment import ELEMENT
from .emit_softmax import AttentionEmitter
from .sm90_schedule import ROWS, SWIZZLE_ELEMENTS, Sm90AttentionSchedule, bias_operand
from .sm90_skip_tiles import elect_one

NEXT_SCORES = "first_scores"  # of the next work tile
WORK_ITER, KV_ITER = (
    "(tile_info >> 3 & 3)",
    "(tile_info >> 5 & 7)",
)  # pipeline states: work tiles and key tiles so far, modulo the stages
KV_ITER_BEFORE, KV_ITER_AFTER = "((tile_info >> 5) + 7 & 7)", "((tile_info >> 5) + 1 & 7)"
MOST_HOISTED_WIDTH = 128  # head dimension
PRODUCT = re.compile(r"\w+ = (\w+) \* (\w+)(?:  #.*)?$")


class Sm90Mainloop(AttentionEmitter):
    """Emitter of a consumer warpgroup's loop over key tiles."""

    def __init__(self, kernel: AttentionKernel, schedule: Sm90AttentionSchedule):
        super().__init__(kernel, schedule)
        self.schedule = schedule
        beside = bias_operand(kernel, self.query_axis) if schedule.bias_stages else None
        self.bias = next((load.value.name for load in kernel.loads if load.operand == beside), "")

    # -- pipeline: stage and parity of `kv_iter` key tiles and `work_iter` work tiles so far

    def q_bytes(self) -> int:
        return self.schedule.tile_bytes(self.schedule.rows, self.schedule.head_dim)

    def kv_bytes(self) -> tuple[int, int]:
        """Bytes of a k tile and of a v tile."""
        s = self.schedule
        return s.tile_bytes(s.columns, s.head_dim), s.tile_bytes(s.columns, s.head_dim_v)

    def bias_bytes(self) -> int:
        return self.schedule.tile_bytes(self.schedule.rows, self.schedule.columns)

    def kv_slot(self, kv_iter: str = "kv_iter") -> str:
        return f"({kv_iter} & {self.schedule.kv_stages - 1})"

    def kv_parity(self, kv_iter: str = "kv_iter") -> str:
        return f"({kv_iter} >> {self.schedule.kv_stages.bit_length() - 1} & 1)"

    def bias_slot(self, kv_iter: str = "kv_iter") -> str:
        return f"({kv_iter} & {self.schedule.bias_stages - 1})"

    def bias_parity(self, kv_iter: str = "kv_iter") -> str:
        return f"({kv_iter} >> {self.schedule.bias_stages - 1} & 1)"

    def q_slot(self, work_iter: str = "work_iter") -> str:
        return f"({work_iter} & {self.schedule.q_stages - 1})"

    def q_parity(self, work_iter: str = "work_iter") -> str:
        return f"({work_iter} >> {self.schedule.q_stages - 1} & 1)"

    def _load_bias(self) -> list[str]:
        """Lines that load a tile's bias in pairs, while q·k runs."""
        if not self.bias:
            return []
        place, rows = self.bias_slot(KV_ITER), f"warpgroup * {ROWS * 2 * SWIZZLE_ELEMENTS}"
        return [
            f"mbarrier_wait_parity(bias_full + {place} * 8, {self.bias_parity(KV_ITER)})",
            f"bias_pairs = load_bias(bias_at + {place} * {self.bias_bytes()} + {rows})",
            "if (thread_idx() & 31) == 0:",
            f"    mbarrier_arrive(bias_empty + {place} * 8)",
        ]

    def _widen_bias(self) -> list[str]:
        if not self.bias:
            return []
        self.domain[self.bias] = ELEMENT
        return [f"{self.bias} = widen_bias(bias_pairs)"]

    # -- products in flight

    def wait_tile(self) -> list[str]:
        """Lines that wait for the next k tile, and load its tile info."""
        wait = f"mbarrier_wait_parity(k_full + {self.kv_slot(KV_ITER_AFTER)} * 8, {self.kv_parity(KV_ITER_AFTER)})"
        return [wait, f"tile_info = warp_uniform(ld_shared(tile_infos_at + {KV_ITER_AFTER} * 4))"]

    def _start_qk(self, name: str) -> list[str]:
        left = f"q_at + {self.q_slot(WORK_ITER)} * {self.q_bytes()} + warpgroup * {ROWS * 2 * SWIZZLE_ELEMENTS}"
        right = f"k_at + {self.kv_slot(KV_ITER)} * {self.kv_bytes()[0]}"
        return [f"{name} = start_qk(k_major_descriptor({left}), k_major_descriptor({right}))"]

    def _wait_v(self, kv_iter: str) -> str:
        return f"mbarrier_wait_parity(v_full + {self.kv_slot(kv_iter)} * 8, {self.kv_parity(kv_iter)})"

    def _start_pv(self, kv_iter: str) -> list[str]:
        own = self.weighted_sum.state.name
        right = f"v_at + {self.kv_slot(kv_iter)} * {self.kv_bytes()[1]}"
        return [f"{own} = start_pv({own}, weights, v_descriptor({right}))"]

    @property
    def row_maxima(self) -> dict[str, str]:
        rise = self.stream.choose_reference
        if rise is None or not rise.instructions or not self.schedule.lazy_rescale:
            return {}
        return {v.name: f"extreme_{v.name}" for v, _ in zip(self.stream.state.accumulators, rise.results)}

    @property
    def hoists_common(self) -> bool:
        """True if registers hold all elements of a row at once."""
        # measured: hoisted for wider heads, softcap takes 3 % longer
        return max(self.schedule.head_dim, self.schedule.head_dim_v) <= MOST_HOISTED_WIDTH

    @property
    def masks_before_branch(self) -> bool:
        return True

    @property
    def has_full_phases(self) -> bool:
        """False for wide heads with index masks: they are evaluated in every tile, and other masks then cost little.

        Measured: dropout with head dimension 256 takes 846 us, 857 with full phases, and those link 0.2 s longer.
        """
        return self.hoists_common or not self.has_index_masks

    # -- loop over key tiles

    def pingpong(self) -> tuple[list[str], list[str]]:
        """Lines before and after a warpgroup starts its products: ping-pong by named barriers."""
        if not self.schedule.pingpong:
            return [], []
        groups = self.schedule.consumer_warpgroups
        following = sum((1 + (g + 1) % groups) << 4 * g for g in range(groups))  # barriers of the next warpgroups
        return ["bar_sync(1 + warpgroup, 256)"], [f"bar_arrive({following} >> 4 * warpgroup & 15, 256)"]

    def _mainloop(self) -> list[str]:
        """The loop over key tiles, without the last p·v: q·k of a tile starts before p·v of the previous one."""
        own, score = self.weighted_sum.state.name, self.score.value.name
        pack, (wait, tell) = f"weights = pack({self.weighted_sum.p.name})", self.pingpong()
        beside, factor = [*self._load_bias(), *self._widen_bias()], self._rescale_factor()
        first = [f"{score} = {NEXT_SCORES}", *self._release_k(), *beside, *self._first_tile(), pack]
        loop = [
            *self.wait_tile(),
            *wait,
            *self._start_qk(score),
            self._wait_v(KV_ITER_BEFORE),
            *self._start_pv(KV_ITER_BEFORE),
            *tell,
            self._column_from(),
            *self.emit_index_masks(),
            *self._load_bias(),
            f"{score} = wait_qk({score})",
            *self._release_k(),
            *self._widen_bias(),
            *self._tile_softmax(),
            *self._pin_order(),
            *([f"needs_rescale = any_not_one({factor})"] if factor else []),
            f"{own} = wait_all({own})",
            *elect_one(f"mbarrier_arrive(v_empty + {self.kv_slot(KV_ITER_BEFORE)} * 8)"),
            pack,
            *(["if needs_rescale:", *indented(self.rescale_output())] if factor else self.rescale_output()),
        ]
        return [*first, "while tile_info & 1 == 0:", *indented(loop)]

    def _rescale_factor(self) -> str:
        """The row value that the output is rescaled by, if rescaling is one product; else empty."""
        merge, own = self.weighted_sum.combine_tile, self.weighted_sum.state.name
        found = PRODUCT.match(merge.instructions[0]) if len(merge.instructions) == 1 else None
        names = [v.name for v in self.stream.state.combine.results[len(self.stream.state.accumulators) :]]
        return next((name for name in names if found and {name, own} == set(found.groups())), "")

    def _pin_order(self) -> list[str]:
        """Pin the softmax before the wait for p·v. Around branches or mask loops ptxas keeps the order by itself.

        Measured: dilated masks with head dimension 64 take 1,123 us, 1,209 if pinned too.
        """
        if self._full_phases or self.has_index_masks:
            return []
        sums = [v for v in self.stream.state.accumulators if v.dtype.name == "float32"]
        return [f"wait_for_values({sums[-1].name if sums else self.weighted_sum.p.name})"]

    def _release_k(self) -> list[str]:
        """Lines that release the k stage, and the q stage after the last key tile."""
        give_left = [f"    mbarrier_arrive(q_empty + {self.q_slot(WORK_ITER)} * 8)"]
        return elect_one(
            f"mbarrier_arrive(k_empty + {self.kv_slot(KV_ITER)} * 8)", "if tile_info & 1 != 0:", *give_left
        )

    def _last_pv(self) -> list[str]:
        """The last p·v of a work tile."""
        own, (wait, tell) = self.weighted_sum.state.name, self.pingpong()
        return [
            self._wait_v(KV_ITER),
            *wait,
            *self._start_pv(KV_ITER),
            *tell,
            f"{own} = wait_all({own})",
            *elect_one(f"mbarrier_arrive(v_empty + {self.kv_slot(KV_ITER)} * 8)"),
        ]

    def _first_tile(self) -> list[str]:
        """Softmax of a work tile's first key tile, which may reach beyond the last key."""
        place = [f"tile_info = warp_uniform(ld_shared(tile_infos_at + {KV_ITER} * 4))", self._column_from()]
        common, beyond = [*self.emit_index_masks(), *self.emit_hoisted()], self.emit_partial(beyond=True)
        if self.has_index_masks or (self.has_block_mask and not self.hoists_common):
            return [*place, *common, *beyond]
        inside, inner = f"column_from + {self.schedule.columns} <= n{self.kv_axis}", self.emit_partial(beyond=False)
        return [*place, *common, *either(inside, inner, beyond)]

    def _tile_softmax(self) -> list[str]:
        """Softmax of a key tile, full or partial."""
        common, partial = self.emit_hoisted(), self.emit_partial(beyond=False)
        if not self._full_phases:
            return [*common, *partial]
        return [*common, *either("tile_info & 2 != 0", self.emit_full(), partial)]

    def _column_from(self) -> str:
        return f"column_from = int32((tile_info >> 8) * {self.schedule.columns})"
