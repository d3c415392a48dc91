"""Work tiles of products on sm_90: their number, their order in L2, and the stages of the ring that they pass."""

from __future__ import annotations

from .....kernel_ir.kernel import MatmulKernel
from ...emit.source_builder import SourceBuilder
from ...tile import block_idx, udiv
from .k_slices import Sm90KSliceLines, Sm90KSlices
from .layout import Sm90MatmulSchedule


class Sm90WorkTiles:
    """Emits the tile scheduler of persistent blocks."""

    def __init__(self, kernel: MatmulKernel, schedule: Sm90MatmulSchedule):
        self.kernel, self.schedule, self.operands = kernel, schedule, schedule.oriented(kernel)
        operands, self.slice = self.operands, schedule.kind.slice
        self.multiplied = (*operands.left, *operands.right)
        self.starts_early = kernel.pdl and schedule.starts_early(kernel)  # before the launches ahead of it have ended
        self.src = SourceBuilder(kernel)
        self.k_slices = (Sm90KSliceLines if schedule.k_axes.outer else Sm90KSlices)(self.src, schedule)
        (self.row_axis,), (self.column_axis,) = operands.axes.rows, operands.axes.columns

    # -- work tiles

    def count_tiles(self) -> None:
        """Emit the number of tiles, and the first of this cluster."""
        src, s, n = self.src, self.schedule, self.src.names.extent
        unit = s.rows * s.cluster
        src.assign("row_units", f"int32((int32({n(self.row_axis)}) + {unit - 1}) // {unit})")
        src.assign("columns_across", f"int32((int32({n(self.column_axis)}) + {s.columns - 1}) // {s.columns})")
        batch = " * ".join(f"int32({n(a)})" for a in self.operands.axes.batch)
        src.assign("batch_tiles", "int32(row_units * columns_across)")
        src.assign("tiles", f"int32(batch_tiles * {batch})" if batch else "batch_tiles")
        src.assign("all_slices", self.k_slices.count())
        if s.splits > 1:
            src.assign("tiles", f"int32(tiles * {s.splits})")
            src.assign("part_slices", f"int32((all_slices + {s.splits - 1}) // {s.splits})")
        shift = s.cluster.bit_length() - 1
        src.assign("first_tile", f"int32({block_idx()} >> {shift})")
        src.assign("tile_step", f"int32(grid_dim() >> {shift})")
        if s.tail_columns:  # of whole waves, then of the last one
            src.assign("all_tiles", "tiles")
            src.assign("tiles", f"int32({udiv('all_tiles', 'tile_step')} * tile_step)")
            src.assign("narrow_tiles", f"int32((all_tiles - tiles) * {s.narrow_tiles})")

    def decode_tile(self, narrow: bool) -> None:
        """Emit the batch indices, the first row and the first column of a tile: groups of tile rows, and in each one
        column of tiles after another. A `narrow` one has a part of the columns of a tile of the last wave."""
        src, s = self.src, self.schedule
        group = max(1, s.group_rows // (s.rows * s.cluster))
        src.emit("whole, first_slice, slices = tile, int32(0), all_slices")
        if s.splits > 1:
            src.assign("whole", udiv("tile", s.splits))
            src.assign("first_slice", f"int32((tile - whole * {s.splits}) * part_slices)")
            src.assign("slices", "minimum(part_slices, int32(all_slices - first_slice))")
        if narrow:
            src.assign("whole", udiv("tile", s.narrow_tiles))
            src.assign("narrow_column", f"int32((tile - whole * {s.narrow_tiles}) * {s.tail_columns})")
            src.assign("whole", "int32(tiles + whole)")
        src.assign("in_batch", "whole")
        if self.operands.axes.batch:
            src.assign("batch", udiv("whole", "batch_tiles"))
            src.assign("in_batch", "int32(whole - batch * batch_tiles)")
            number = "batch"
            for a in reversed(self.operands.axes.batch):
                if a == self.operands.axes.batch[0]:
                    src.assign(f"c{a}", number)
                else:
                    size = f"int32({src.names.extent(a)})"
                    src.assign(f"q{a}", udiv(number, size))
                    src.assign(f"c{a}", f"int32({number} - q{a} * {size})")
                    number = f"q{a}"
        src.assign("group", udiv("in_batch", f"int32({group} * columns_across)"))
        src.assign("in_group", f"int32(in_batch - group * {group} * columns_across)")
        src.assign("group_rows", f"minimum(int32({group}), int32(row_units - group * {group}))")
        src.assign("column_tile", udiv("in_group", "group_rows"))
        src.assign("row_unit", f"int32(group * {group} + in_group - column_tile * group_rows)")
        rank = " + rank" if s.cluster > 1 else ""
        src.assign("row_from", f"int32((row_unit * {s.cluster}{rank}) * {s.rows})")
        within = " + narrow_column" if narrow else ""
        src.assign("column_from", f"int32(column_tile * {s.columns}{within})")

    def skip_stages(self) -> None:
        """Emit the stage and parity after the K-slices of a tile of another warpgroup."""
        stages = self.schedule.stages
        self.src.assign("turns", udiv("stage + all_slices", stages))
        self.src.emit(f"stage = int32(stage + all_slices - turns * {stages})", "parity = int32(parity ^ turns & 1)")

    def advance_stage(self) -> None:
        self.src.emit(
            "stage = int32(stage + 1)",
            f"if stage == {self.schedule.stages}:",
            "    stage, parity = int32(0), int32(parity ^ 1)",
        )
