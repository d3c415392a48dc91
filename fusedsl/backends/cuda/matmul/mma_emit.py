"""Emits products by warps: a ring of K-slices by cp.async, sums in registers and shared memory, then the epilogue."""

from __future__ import annotations

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.matmul_operands import matmul_operands
from ..attention.intrinsics import dynamic_smem
from ..emit.intrinsic import Function, Named
from ..emit.source_text import SourceBuilder, header
from ..tile import Tile, barrier, commit_group, wait_group
from . import FmaTile, OperandTile, udiv64
from .emit_coordinates import MatmulCoordinates
from .emit_row_epilogue import RowEpilogue
from .mma_schedule import ALIGNMENT, GROUP_ROWS, MmaMatmulSchedule
from .tile_shapes import OperandTileShape


def emit_mma_matmul(kernel: KernelIR, schedule: MmaMatmulSchedule) -> str:
    """The generated file of products by warps."""
    return MmaMatmulEmitter(kernel, schedule).emit()


class MmaMatmulEmitter:
    """Emitter of a generated file: the work tile, the main loop over K-slices, the epilogue."""

    def __init__(self, kernel: KernelIR, schedule: MmaMatmulSchedule):
        operands = matmul_operands(kernel)
        assert operands is not None
        self.kernel, self.schedule, self.operands, self.axes = kernel, schedule, operands, operands.axes
        self.src = SourceBuilder(kernel)
        self.coordinates = MatmulCoordinates(self.src, operands.axes)
        self.factors = (*operands.left, *operands.right)  # operands, in the order of the schedule's tiles

    def emit(self) -> str:
        s, src = self.schedule, self.src
        src.read_scalars()
        self._work_tile()
        self.coordinates.emit_batch()
        src.bind("memory", dynamic_smem(ALIGNMENT))
        src.emit("ring = memory()", f"sums_at = int32(ring + {s.sums_offset})")
        loads = [self._operand(n) for n in range(len(self.factors))]
        self._mainloop(loads)
        RowEpilogue(self.coordinates, s).emit()
        opening = header(self.kernel, s.reason.partition(":")[0], "")
        comment = f"Output tiles of {s.tile.rows} × {s.tile.columns}; {s.stages} K-slices of {s.tile.depth} in flight."
        return src.text(opening, comment)

    def _work_tile(self) -> None:
        """Emit the batch and the output tile of this block: groups of tile rows, whose blocks share columns in L2."""
        src, tile, n = self.src, self.schedule.tile, self.src.names.extent
        rows, columns = (" * ".join(map(n, axes)) for axes in (self.axes.rows, self.axes.columns))
        src.emit(
            f"rows, columns, steps = {rows}, {columns}, {n(self.kernel.row_axes)}",
            f"row_tiles, column_tiles = {udiv64(f'rows + {tile.rows - 1}', tile.rows)}, "
            f"{udiv64(f'columns + {tile.columns - 1}', tile.columns)}",
            f"work_tile = int64({src.block})",
            f"batch = {udiv64('work_tile', 'row_tiles * column_tiles')}",
            "work_tile = work_tile - batch * row_tiles * column_tiles",
            f"group = {udiv64('work_tile', f'column_tiles * {GROUP_ROWS}')}",
            f"work_tile = work_tile - group * column_tiles * {GROUP_ROWS}",
            f"group_rows = minimum(row_tiles - group * {GROUP_ROWS}, {GROUP_ROWS})",
            f"tile_column = {udiv64('work_tile', 'group_rows')}",
            f"row_from = (group * {GROUP_ROWS} + work_tile - tile_column * group_rows) * {tile.rows}",
            f"column_from = tile_column * {tile.columns}",
        )

    def _operand(self, n: int) -> Function:
        """Emit the addresses of a thread's pieces of an operand; the function that copies them."""
        src, k, shape = self.src, self.factors[n], self.schedule.operands[n]
        name, size = src.names.operand(k), shape.itemsize
        own = src.bind(f"{name}_tile", _bound(shape))
        lanes, step, copy = src.bind_several(
            {
                f"{name}_lanes": own.own_lanes(),
                f"{name}_step": own.own_step(),
                f"copy_{name}": own.copy_async(),
            }
        )
        src.bind(f"{name}_pieces", Tile(width=1, vectors=shape.lane_pieces, step=1, checks="." * shape.lane_pieces))
        stride = self.coordinates.stride(k, self.kernel.row_axes)
        src.assign(f"{name}_step_bytes", f"int64({stride} * {size})")
        advance = Named(f"{name}_pieces.elementwise('int64, int64 -> int64')")
        src.function(advance, f"{name}_advance", ["address", "bytes"], ["return address + bytes"])
        side, axes = ("row", self.axes.rows) if n < len(self.operands.left) else ("column", self.axes.columns)
        self.coordinates.emit_pieces(k, side, axes, shape, (lanes(), step()))
        return copy

    def _copies(self, copies: list[Function], stage: str, step: str) -> None:
        """Emit the copies of the K-slice that begins at a step to a stage, as one group."""
        src, s = self.src, self.schedule
        src.assign("left", f"int32(minimum(steps - {step}, {s.tile.depth}))")
        for n, copy in enumerate(copies):
            name = src.names.operand(self.factors[n])
            at = f"int32({stage} + {s.operand_offsets[n]})"
            src.emit(copy(at, f"{name}_addresses", f"{name}_room", f"{name}_step_bytes", "left"))
            src.assign(f"{name}_addresses", f"{name}_advance({name}_addresses, {name}_step_bytes * {s.tile.depth})")
        src.emit(commit_group())

    def _mainloop(self, copies: list[Function]) -> None:
        src, s, tile = self.src, self.schedule, self.schedule.tile
        product = src.bind("product", FmaTile(tile.dtype, tile.rows, tile.columns, tile.depth, tile.warps, tile.lanes))
        zeros, add = src.bind_several({"no_sums": product.zeros(), "add_sums": product.add_sums()})
        wait, finish = src.bind_several({"wait_slice": wait_group(s.stages - 2), "wait_copies": wait_group(0)})
        multiplies = []
        for number, (left, right) in enumerate(s.pairs):
            pitches = s.operands[left].pitch, s.operands[right].pitch
            multiplies.append(src.bind(f"multiply{number}", product.multiply(*pitches)))
        for stage in range(s.stages - 1):
            self._copies(copies, f"ring + {stage * s.stage_bytes}", f"int64({stage * tile.depth})")
        end = s.stages * s.stage_bytes
        src.emit("step, read, write = int64(0), int32(0), " + f"int32({(s.stages - 1) * s.stage_bytes})")
        with src.while_("step < steps"):
            src.emit(f"chain, is_first = minimum(step + {s.chain}, steps), step == 0")
            for number in range(len(s.pairs)):
                src.assign(f"sums{number}", zeros())
            with src.while_("step < chain"):
                src.emit(wait(), barrier())
                self._copies(copies, "ring + write", f"(step + {(s.stages - 1) * tile.depth})")
                for number, (left, right) in enumerate(s.pairs):
                    at = [f"int32(ring + read + {s.operand_offsets[n]})" for n in (left, right)]
                    src.assign(f"sums{number}", multiplies[number](*at, f"sums{number}"))
                src.emit(
                    f"step = step + {tile.depth}",
                    f"read = select(read == {end - s.stage_bytes}, int32(0), int32(read + {s.stage_bytes}))",
                    f"write = select(write == {end - s.stage_bytes}, int32(0), int32(write + {s.stage_bytes}))",
                )
            for number in range(len(s.pairs)):
                src.emit(add(f"int32(sums_at + {number * tile.bytes})", f"sums{number}", "is_first"))
        src.emit(finish(), barrier())


def _bound(shape: OperandTileShape):
    """The definition of an operand tile in a generated file."""
    fields = ("dtype", "lanes", "depth", "major", "piece", "threads", "layout", "pad")
    return OperandTile(**{name: getattr(shape, name) for name in fields})
