"""Emits the producer of products on sm_90: one thread loads K-slices by TMA, as stages of the ring become empty.

Where the schedule prefetches, in a launch that follows another one, it first loads what it may, arguments of the
call, and then waits for that one. Consumers wait for it too, so that a launch ends after all launches before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from .....kernel_ir.image_rows import ImageBox
from .....kernel_ir.kernel import TmaBox
from ...emit.intrinsic import Function
from ...tile import mbarrier_expect_tx, mbarrier_wait_parity, tma_load, wait_for_launches
from .. import tma_load_image, tma_load_multicast
from .emit_mainloop import ROW_BYTES
from .image_coordinates import emit_first_place, image_coordinates
from .layout import Sm90MatmulSchedule
from .work_tiles import Sm90WorkTiles


class Sm90MatmulProducer:
    """Emits the loads of a block's tiles, of whole waves and then of a narrower last one."""

    def __init__(self, tiles: Sm90WorkTiles, schedule: Sm90MatmulSchedule, maps: Sequence[Function]):
        self.tiles, self.src, self.kernel, self.schedule, self.maps = tiles, tiles.src, tiles.kernel, schedule, maps
        self.all = range(len(tiles.multiplied))  # multiplied operands, by number
        # those that are loaded before the launches ahead of this one have ended: arguments of the call
        self.early = [n for n in self.all if tiles.starts_early and tiles.multiplied[n] in tiles.kernel.given]

    def produce(self) -> None:
        """Emit the loads of one thread: every K-slice of one tile after another, as stages become empty."""
        src = self.src
        src.emit("tile, stage, parity = first_tile, int32(0), int32(0)")
        if self.tiles.starts_early:
            self._prefetch()
            src.emit(wait_for_launches())
        self._produce_tiles(self.schedule)
        if self.schedule.narrow:
            src.emit("tile = first_tile")
            self._produce_tiles(self.schedule.narrow)

    def _prefetch(self) -> None:
        """Emit the loads of arguments of the call, for all K-slices of the first tile that the ring holds."""
        src, s = self.src, self.schedule
        src.emit("prefetched = int32(0)")
        if not self.early:
            return
        with src.if_("tile < tiles"):
            self.tiles.decode_tile(False)
            src.assign("prefetched", f"minimum(slices, int32({s.stages}))")
            self._begin_tile()
            with src.while_("stage < prefetched"):
                src.assign("stage_full", "int32(full + 8 * stage)")
                self._fill_stage(s, self.early)
                src.emit("stage = int32(stage + 1)")
                self.tiles.k_slices.advance()
            src.emit("stage = int32(0)")

    def _load_rest(self, s: Sm90MatmulSchedule) -> None:
        """Emit the loads of the other operands into a stage that has been filled ahead.

        It does not wait for the stage to be empty: that it was from the start. Where all operands were loaded ahead,
        consumers may have released it already, and the parity of that phase would be awaited for ever.
        """
        src, others = self.src, [n for n in self.all if n not in self.early]
        if others:
            src.assign("stage_full", "int32(full + 8 * stage)")
            self._load_slice(s, others)
        src.emit("prefetched = int32(prefetched - 1)")

    def _fill_next_stage(self, s: Sm90MatmulSchedule) -> None:
        """Emit the loads of all operands' K-slice, once a stage is empty."""
        self.src.emit(mbarrier_wait_parity("empty + 8 * stage", "parity ^ 1"))
        self.src.assign("stage_full", "int32(full + 8 * stage)")
        self._fill_stage(s, self.all)

    def _fill_stage(self, s: Sm90MatmulSchedule, numbers: Sequence[int]) -> None:
        """Emit the loads of some operands' K-slice, the first of a stage, whose mbarrier expects those of all."""
        self.src.emit(mbarrier_expect_tx("stage_full", s.slice_bytes))
        self._load_slice(s, numbers)

    def _load_slice(self, s: Sm90MatmulSchedule, numbers: Sequence[int]) -> None:
        """Emit the loads of some operands' K-slice."""
        at = 0
        for number in self.all:
            if number in numbers:
                self._load(s, number, f"smem_slices + stage * {s.stage_bytes} + {at}")
            at += s.operand_bytes(number)

    def _produce_tiles(self, s: Sm90MatmulSchedule) -> None:
        """Emit the loads of all tiles of one width."""
        src = self.src
        with src.while_("tile < narrow_tiles" if s.widest else "tile < tiles"):
            self.tiles.decode_tile(bool(s.widest))
            self._begin_tile()
            with src.while_(self.tiles.k_slices.more()):
                if self.early and not s.widest:
                    with src.if_else("prefetched > 0") as (rest, whole):
                        with rest:
                            self._load_rest(s)
                        with whole:
                            self._fill_next_stage(s)
                else:
                    self._fill_next_stage(s)
                self.tiles.advance_stage()
                self.tiles.k_slices.advance()
            src.emit("tile = int32(tile + tile_step)")

    def _begin_tile(self) -> None:
        """Emit where the first K-slice of a tile lies, and its first row in images."""
        self.tiles.k_slices.begin()
        if self.kernel.image_axes:
            emit_first_place(self.src)

    def _load(self, s: Sm90MatmulSchedule, number: int, to: str) -> None:
        """Emit the loads of an operand's K-slice: of the columns' operands, this block's part."""
        src, box, lines_of_box = self.src, self.kernel.tma_boxes[number], self.schedule.box_lines(number)
        if isinstance(box, ImageBox):
            axes = self.kernel.operands[box.operand].image
            load_image = src.bind(f"tma_load{number}", tma_load_image(len(axes) + 2))
            src.emit(load_image(f"int32({to})", self.maps[number](), "stage_full", *image_coordinates(axes)))
            return
        rows = number < s.lefts
        shared = not rows and s.cluster > 1
        maker = tma_load_multicast(len(box.axes), s.cluster) if shared else tma_load(len(box.axes))
        load = src.bind(f"tma_load{number}", maker)
        own, first = (self.tiles.row_axis, "row_from") if rows else (self.tiles.column_axis, "column_from")
        lines = s.rows if rows else s.columns // s.cluster
        at = {s.k_axes.inner: "slice_from", own: first}
        if shared:
            to, at[own] = f"{to} + rank * {lines * ROW_BYTES}", f"{first} + rank * {lines}"
        if lines == lines_of_box and s.majors[number] == "k":
            self._load_box(load, box, number, to, at)
            return
        with src.for_("panel", lines // lines_of_box):
            at[own] = f"{at[own]} + panel * {lines_of_box}"
            self._load_box(load, box, number, f"{to} + panel * {lines_of_box * ROW_BYTES}", at)

    def _load_box(self, load: Function, box: TmaBox, number: int, to: str, at: dict[int, str]) -> None:
        corner = [f"int32({at.get(a, f'c{a}')})" for a in box.axes]
        self.src.emit(load(f"int32({to})", self.maps[number](), "stage_full", *corner))
