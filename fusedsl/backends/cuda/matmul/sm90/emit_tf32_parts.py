"""Emits products of float32 in two TF32 parts on sm_90: a K-slice is split while the one before it is multiplied."""

from __future__ import annotations

from ...emit.intrinsic import Function
from ...mma import FragmentIntrinsics
from ...mma.tile_sizes import WARPGROUP
from ...tile import bar_sync, fence_proxy_async, mbarrier_wait_parity
from .. import exact_products, split_columns, wgmma_wait_group
from .emit_epilogue import PanelEpilogue
from .emit_mainloop import SMEM_ADDRESSES, Sm90MatmulMainloop

SPLIT_BARRIER = 4  # all warpgroups of a tile have split their share of the columns, and read those of the slice before


class Tf32PartsMainloop:
    """Emits the products of a tile in two parts."""

    def __init__(self, mainloop: Sm90MatmulMainloop):
        self.mainloop, self.tiles = mainloop, mainloop.tiles
        self.src, self.schedule = self.tiles.src, self.tiles.schedule

    def multiply(self) -> None:
        """Emit the accumulators of a tile: warpgroups split a K-slice together, and then multiply it."""
        src, s = self.src, self.schedule
        start = self.mainloop.bind_products()
        meet = bar_sync(SPLIT_BARRIER, WARPGROUP * s.warpgroups)
        src.emit("k = int32(0)")
        self._split()
        src.emit(meet)
        with src.while_("k < slices"):
            self.mainloop.find_slice()
            given = self.mainloop.multiplied()
            src.assign("accumulators", start("accumulators", *given))
            src.assign("before", "stage")
            self.tiles.advance_stage()
            src.emit("k = int32(k + 1)")
            with src.if_("k < slices"):
                self._split()
            src.emit(src.bind("wait_slice", wgmma_wait_group(0))(), meet)
            with src.if_("elected"):
                self.mainloop.release("before")

    def _split(self) -> None:
        """Emit the split of the columns' operands in the K-slice k, once it has come."""
        src, s = self.src, self.schedule
        src.emit(mbarrier_wait_parity("full + 8 * stage", "parity"))
        at, small = sum(map(s.operand_bytes, range(s.lefts))), 0
        for number in range(s.lefts, len(s.majors)):
            split = src.bind("split_columns", split_columns(s.operand_bytes(number), WARPGROUP * s.warpgroups))
            tile = f"int32((smem_slices + stage * {s.stage_bytes} & {SMEM_ADDRESSES}) + {at})"
            src.emit(split(tile, f"int32({self.mainloop.small_at('k')} + {small})"))
            at, small = at + s.operand_bytes(number), small + s.operand_bytes(number)
        src.emit(fence_proxy_async())

    def repair(self, epilogue: PanelEpilogue, fragment: FragmentIntrinsics) -> None:
        """Emit the products of a warp once more by fused multiply-adds, if a sum is not finite: what is left of an
        infinity is NaN."""
        src, s = self.src, self.schedule
        any_nonfinite = src.bind("any_nonfinite", fragment.any_nonfinite())
        with src.if_(any_nonfinite("accumulators")):
            n = src.names.extent
            clamp = self._rowwise(epilogue, "rows_inside", "int32, int32 -> int32", "row, n", "minimum(row, n - 1)")
            src.assign("inside", clamp("rows", f"int32({n(self.tiles.row_axis)})"))
            for product, (left, right) in enumerate(s.pairs):
                rows, columns = self.tiles.multiplied[left], self.tiles.multiplied[right]
                at = self._rowwise(
                    *(epilogue, "rows_at", "int64, int32, int64 -> int64", "base, row, step", "base + row * step")
                )
                step = epilogue._step(columns, self.tiles.column_axis)
                exact = src.bind(f"exact{product}", exact_products(s.columns, product))
                given = (
                    at(epilogue._base(rows), "inside", epilogue._step(rows, self.tiles.row_axis)),
                    epilogue._step(rows, self.tiles.kernel.row_axes),
                    f"{epilogue._base(columns)} + column_from * {step}",
                    step,
                    epilogue._step(columns, self.tiles.kernel.row_axes),
                    f"int32({n(self.tiles.column_axis)} - column_from)",
                    f"int64({n(self.tiles.kernel.row_axes)})",
                )
                src.assign("accumulators", exact("accumulators", *given))

    def _rowwise(self, epilogue: PanelEpilogue, name: str, types: str, parameters: str, value: str) -> Function:
        return self.src.function(epilogue.fragment.rowwise(types), name, parameters.split(", "), [f"return {value}"])
