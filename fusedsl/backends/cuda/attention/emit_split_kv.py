"""Emits the combination of split-KV partial states: blocks with a split each combine theirs in a tree.

Each block stores its state; the last of a few neighbours combines theirs and stores the result for the next level. The
last block of the root computes the epilogue.
"""

from __future__ import annotations

from collections.abc import Callable

from ....kernel_ir.phase import Reduction, Value
from ..tile import is_last_block
from .emit_fragment import Domain, FragmentEmitter
from .intrinsics import load_partial_state, store_partial_state
from .mma_schedule import MmaAttentionSchedule, partial_state_bytes
from .split_kv_schedule import COMBINE_FAN_IN

FAN_IN_BITS = COMBINE_FAN_IN.bit_length() - 1


class SplitCombiner:
    """The combination of the splits of a work tile; `epilogue` emits the outputs of the whole state."""

    def __init__(self, values: FragmentEmitter, schedule: MmaAttentionSchedule, epilogue: Callable[[], None]):
        body = values.facts.body
        assert body.combine_splits is not None and values.facts.weighted_sum.combine_splits is not None
        self.values, self.schedule, self.epilogue = values, schedule, epilogue
        self.rows: Reduction = body.combine_splits
        self.output, self.combine_output = values.facts.weighted_sum.state, values.facts.weighted_sum.combine_splits

    def emit(self) -> None:
        source, rows, output = self.values.source, self.rows, self.output
        dtypes, width = ", ".join(v.dtype.name for v in rows.accumulators), -(-self.schedule.head_dim_v // 16) * 16
        shape = dtypes, output.dtype.name, width, self.schedule.block_threads
        store = source.bind("store_state", store_partial_state(*shape))
        source.bind("load_state", load_partial_state(*shape))
        size = partial_state_bytes(self.schedule, self.values.kernel)
        source.emit(
            f"partials_at, step = workspace + int64(work_tile) * num_splits * {size}, int64({size})",
            "semaphore, more = int64(work_tile) * num_splits, True",
        )
        with source.while_("more"):
            source.emit(
                store("partials_at + split * step", *(v.name for v in (*rows.accumulators, output))),
                f"num_groups = int32((num_splits + {COMBINE_FAN_IN - 1}) >> {FAN_IN_BITS})",
                f"split = int32(split >> {FAN_IN_BITS})",
                f"count = int32(minimum({COMBINE_FAN_IN}, num_splits - split * {COMBINE_FAN_IN}))",
                f"more = {is_last_block('semaphores', 'semaphore + split', 'count')}",
            )
            with source.if_("more"):
                self._emit_level()

    def _emit_level(self) -> None:
        """Combine the states of a few neighbours, and after the last level compute the epilogue."""
        source, rows = self.values.source, self.rows
        source.emit(*(f"{v.name} = splat_{v.dtype.name}({x})" for v, x in zip(rows.accumulators, rows.identity)))
        source.emit(f"{self.output.name} = zero_output()", "k = int32(0)")
        with source.while_("k < count"), self.values.scope():
            theirs = ", ".join(v.name for v in (*rows.inputs, self._split_output))
            source.assign(theirs, f"load_state(partials_at + (split * {COMBINE_FAN_IN} + k) * step)")
            source.emit("k = int32(k + 1)")
            self._emit_combine()
        source.emit(
            f"semaphore, step, num_splits = int64(semaphore + num_groups), int64(step * {COMBINE_FAN_IN}), num_groups"
        )
        with source.if_("num_groups == 1"), self.values.scope():
            source.emit("more = False")
            self.epilogue()

    def _emit_combine(self) -> None:
        """Combine the state with that of a split."""
        values, rows, output = self.values, self.rows, self.output
        values.domain |= {v.name: Domain.ROW for v in (*rows.accumulators, *rows.inputs)}
        values.domain |= {output.name: Domain.OUTPUT, self._split_output.name: Domain.OUTPUT}
        states = values.call("combine_rows", rows.combine, Domain.ROW)[: len(rows.accumulators)]
        (sums,) = values.call("combine_outputs", self.combine_output, Domain.OUTPUT)
        for v, result in zip((*rows.accumulators, output), (*states, sums)):
            values.source.assign(v.name, result)

    @property
    def _split_output(self) -> Value:
        """The argument of `combine_output` that is the sum of a split."""
        others = {self.output.name, *(v.name for v in self.rows.combine.results)}
        return next(v for v in self.combine_output.args if v.name not in others)
