"""Emits products by warps: a ring of K-slices by cp.async, accumulators in registers, then the epilogue."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.matmul_operands import matmul_operands
from ..emit.intrinsic import Binding
from ..emit.source_builder import SourceBuilder, header
from ..tile import Tile, TileIntrinsics, barrier, commit_group, dynamic_smem, is_last_block, wait_group
from . import (
    FmaTile,
    FmaTileIntrinsics,
    MmaTile,
    MmaTileIntrinsics,
    OperandTile,
    OperandTileIntrinsics,
    add_split_accumulators,
    store_accumulators,
    udiv64,
)
from .emit_coordinates import MatmulCoordinates
from .emit_k_slices import k_slices
from .emit_row_epilogue import RowEpilogue
from .mma_schedule import ALIGNMENT, GROUP_ROWS, MmaMatmulSchedule
from .tile_shapes import MmaTileShape, OperandTileShape


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
        self.k_slices = k_slices(self.coordinates, schedule)

    def emit(self) -> str:
        s, src = self.schedule, self.src
        src.read_scalars()
        self._work_tile()
        self.coordinates.emit_batch("batch")
        src.bind("memory", dynamic_smem(ALIGNMENT))
        src.emit("ring = memory()", f"accumulators_at = int32(ring + {s.accumulators_offset})")
        for n in range(len(self.factors)):
            self._operand(n)
        self._define_products()
        self._mainloop()
        if s.splits == 1:
            RowEpilogue(self.coordinates, s).emit()
        else:
            self._combine()
        opening = header(self.kernel, s.reason.partition(":")[0], "")
        comment = (
            f"Output tiles of {s.tile.rows} × {s.tile.columns}; {s.stages} K-slices of {s.tile.block_k} in flight."
        )
        return src.text(opening, comment)

    def _work_tile(self) -> None:
        """Emit the batch and the output tile of this block: groups of tile rows, whose blocks share columns in L2."""
        src, tile, n = self.src, self.schedule.tile, self.src.names.extent
        rows, columns = (" * ".join(map(n, axes)) for axes in (self.axes.rows, self.axes.columns))
        src.emit(
            f"rows, columns, steps = {rows}, {columns}, {self.k_slices.steps()}",
            f"row_tiles, column_tiles = {udiv64(f'rows + {tile.rows - 1}', tile.rows)}, "
            f"{udiv64(f'columns + {tile.columns - 1}', tile.columns)}",
            f"work_tile = int64({src.block})",
            *self._split_range(),
            f"batch = {udiv64('work_tile', 'row_tiles * column_tiles')}",
            "work_tile = work_tile - batch * row_tiles * column_tiles",
            f"group = {udiv64('work_tile', f'column_tiles * {GROUP_ROWS}')}",
            f"work_tile = work_tile - group * column_tiles * {GROUP_ROWS}",
            f"group_rows = minimum(row_tiles - group * {GROUP_ROWS}, {GROUP_ROWS})",
            f"tile_column = {udiv64('work_tile', 'group_rows')}",
            f"row_from = (group * {GROUP_ROWS} + work_tile - tile_column * group_rows) * {tile.rows}",
            f"column_from = tile_column * {tile.columns}",
        )

    def _split_range(self) -> list[str]:
        """Lines that find the steps of this block: all of them, or those of its split of a tile."""
        s, block_k = self.schedule, self.schedule.tile.block_k
        if s.splits == 1:
            return ["begin, end = int64(0), steps"]
        return [
            f"tile_number = {udiv64('work_tile', s.splits)}",
            f"split = work_tile - tile_number * {s.splits}",
            f"split_steps = {udiv64(f'steps + {s.splits * block_k - 1}', s.splits * block_k)} * {block_k}",
            "begin, end = split * split_steps, minimum(steps, (split + 1) * split_steps)",
            "work_tile = tile_number",
        ]

    def _combine(self) -> None:
        """Emit the end of a split tile: each block stores its accumulators, the last one adds them up."""
        src, s = self.src, self.schedule
        kind = s.tile.accumulator_dtype if isinstance(s.tile, MmaTileShape) else s.tile.dtype
        layout = kind, (s.tile.rows * len(s.pairs), s.tile.columns), s.tile.pitch, s.block_threads
        store = src.bind("store_split", store_accumulators(*layout))
        add, size = src.bind("add_splits", add_split_accumulators(*layout, s.splits)), s.split_bytes
        src.emit(store(f"workspace + (tile_number * {s.splits} + split) * {size}", "accumulators_at"))
        with src.if_(is_last_block("semaphores", "tile_number", s.splits)):
            src.emit(add("accumulators_at", f"workspace + tile_number * {s.splits * size}"), barrier())
            RowEpilogue(self.coordinates, s).emit()

    def _operand(self, n: int) -> None:
        """Define what copies an operand, and emit the distance of its steps."""
        src, k, shape = self.src, self.factors[n], self.schedule.operands[n]
        name, size = src.names.operand(k), shape.itemsize
        own = src.bind(f"{name}_tile", _bound(shape))
        src.bind_several({f"{name}_mn": own.own_mn(), f"{name}_step": own.own_k()})
        src.bind(f"{name}_vectors", Tile(width=1, vectors=shape.mn_vectors, step=1, checks="." * shape.mn_vectors))
        stride = self.coordinates.stride(k, self.schedule.k_axes.inner)
        src.assign(f"{name}_step_bytes", f"int64({stride} * {size})")
        advance = TileIntrinsics(f"{name}_vectors").elementwise("int64, int64 -> int64")
        src.function(advance, f"{name}_advance", ["address", "bytes"], ["return address + bytes"])
        if shape.through_registers:
            src.bind_several({f"load_{name}": own.load(), f"store_{name}": own.store()})
        else:
            src.bind(f"copy_{name}", own.copy_async())

    def _start(self, stage: str, step: str) -> None:
        """Emit the start of the copies of the K-slice that begins at a step, to a stage, as one group."""
        src, s = self.src, self.schedule
        self.k_slices.emit_valid(step)
        for n, shape in enumerate(s.operands):
            name = src.names.operand(self.factors[n])
            addresses = self.k_slices.addresses(self.factors[n])
            given = f"{addresses}, {name}_valid_mn, {name}_step_bytes, valid_k"
            if shape.through_registers:
                src.assign(f"{name}_registers", f"load_{name}({given})")
            else:
                src.emit(f"copy_{name}(int32({stage} + {s.operand_offsets[n]}), {given})")
            self.k_slices.emit_advance(self.factors[n])
        self.k_slices.emit_next()
        src.emit(commit_group())

    def _finish(self, stage: str) -> None:
        """Emit the stores of what came to registers."""
        for n, shape in enumerate(self.schedule.operands):
            name = self.src.names.operand(self.factors[n])
            if shape.through_registers:
                at = f"int32({stage} + {self.schedule.operand_offsets[n]})"
                self.src.emit(f"store_{name}({at}, {name}_registers)")

    def _begin(self) -> None:
        """Emit the addresses of the first K-slice, and the copies of as many as there are stages, but one."""
        src, s = self.src, self.schedule
        begin = self.k_slices.emit_first()
        for n, k in enumerate(self.factors):
            name = src.names.operand(k)
            side, axes = ("row", self.axes.rows) if n < len(self.operands.left) else ("column", self.axes.columns)
            src.assign(f"{name}_k_offset", f"({begin}{name}_step()) * {name}_step_bytes")
            self.coordinates.emit_vectors(k, side, axes, s.operands[n], f"{name}_mn()")
        for stage in range(s.stages - 1):
            self._start(f"ring + {stage * s.stage_bytes}", f"(begin + {stage * s.tile.block_k})")
            self._finish(f"ring + {stage * s.stage_bytes}")
        src.emit(f"step, read, write = begin, int32(0), int32({(s.stages - 1) * s.stage_bytes})")
        if s.reads_ahead:
            src.emit("wait_slice()", barrier())
            self._first_fragments()

    def _mainloop(self) -> None:
        src, s = self.src, self.schedule
        self._begin()
        if not s.chain:
            self._chain("end")
            src.emit("wait_copies()")
            if s.parts == 2:
                self._repair()
            src.emit(barrier())
            self._add_sums("True")
        else:
            with src.while_("step < end"):
                src.emit(f"chunk_end, is_first = minimum(step + {s.chain}, end), step == begin")
                self._chain("chunk_end")
                self._add_sums("is_first")
            src.emit("wait_copies()")
        src.emit(barrier())

    def _repair(self) -> None:
        """Emit the accumulators once more, guarded, if any is not finite: what is left of an infinity is NaN."""
        src = self.src
        src.assign("nonfinite", " | ".join(f"any_nonfinite(accumulators{k})" for k in range(len(self.schedule.pairs))))
        with src.if_("nonfinite"):
            self._begin()
            self._chain("end", "guarded_")
            src.emit("wait_copies()")

    def _define_products(self) -> None:
        src, s, tile = self.src, self.schedule, self.schedule.tile
        if isinstance(tile, MmaTileShape):
            dtypes, block = (tile.dtype, tile.accumulator_dtype), (tile.rows, tile.columns, tile.block_k)
            mma = src.bind("product", MmaTile(*dtypes, *block, tile.warps))
            src.bind_several({"zero_accumulators": mma.zeros(), "add_accumulators": mma.add_accumulators()})
            given, ahead = {"parts": 2} if s.parts == 2 else {}, {"ahead": True} if s.reads_ahead else {}
            layouts = [(s.operands[left].layout, s.operands[right].layout) for left, right in s.pairs]
            for k, pair in enumerate(layouts):
                self._define_fragments(k, mma, pair, tile.steps)
                src.bind(f"multiply{k}", mma.multiply(*pair, **ahead, **given))
            src.bind("multiply_fragments", mma.multiply_fragments(**given))
            if s.parts == 2:
                for k, pair in enumerate(layouts):
                    src.bind(f"guarded_multiply{k}", mma.multiply(*pair, **ahead, **given, guarded=True))
                src.bind("guarded_multiply_fragments", mma.multiply_fragments(**given, guarded=True))
                src.bind("any_nonfinite", mma.any_nonfinite())
        else:
            block = (tile.rows, tile.columns, tile.block_k)
            fma = src.bind("product", FmaTile(tile.dtype, *block, tile.warps, tile.lanes))
            src.bind_several({"zero_accumulators": fma.zeros(), "add_accumulators": fma.add_accumulators()})
            for k, (left, right) in enumerate(s.pairs):
                pitches = s.operands[left].pitch, s.operands[right].pitch
                self._define_fragments(k, fma, pitches, tile.block_k)
                src.bind(f"multiply{k}", fma.multiply(*pitches))
            src.bind("multiply_fragments", fma.multiply_fragments())
        src.bind_several({"wait_slice": wait_group(s.stages - 2), "wait_copies": wait_group(0)})

    def _define_fragments(
        self, number: int, product: FmaTileIntrinsics | MmaTileIntrinsics, layouts: tuple[Any, Any], steps: int
    ) -> None:
        """Define what reads the fragments of the first and of the last step of a K-slice, for a product."""
        names = {f"first_fragments{number}": 0, f"last_fragments{number}": steps - 1}
        self.src.bind_several({name: product.fragments(*layouts, step) for name, step in names.items()})

    def _first_fragments(self) -> None:
        """Emit the fragments of the first step of the K-slice to be read."""
        for number, at in enumerate(self._factors_at()):
            self.src.assign(f"fragments{number}", f"first_fragments{number}({at})")

    def _last_products(self, prefix: str) -> None:
        """Emit the products of the last step of a K-slice."""
        for number in range(len(self.schedule.pairs)):
            sums = f"accumulators{number}"
            self.src.assign(sums, f"{prefix}multiply_fragments({sums}, last{number})")

    def _factors_at(self) -> list[str]:
        """The addresses of both factors of each product in the K-slice to be read."""
        offsets = self.schedule.operand_offsets
        return [", ".join(f"int32(ring + read + {offsets[n]})" for n in pair) for pair in self.schedule.pairs]

    def _chain(self, end: str, prefix: str = "") -> None:
        """Emit the products of the steps up to an end, one after another in registers.

        Where a thread has registers for them, the last step of a K-slice is multiplied behind the barrier, while
        fragments of the next slice are read.
        """
        src, s, block_k = self.src, self.schedule, self.schedule.tile.block_k
        last = (s.stages - 1) * s.stage_bytes
        for number in range(len(s.pairs)):
            src.assign(f"accumulators{number}", "zero_accumulators()")
        with src.while_(f"step < {end}"):
            if not s.reads_ahead:
                src.emit("wait_slice()", barrier())
            self._start("ring + write", f"(step + {(s.stages - 1) * block_k})")
            if not s.reads_ahead:
                self._first_fragments()
            for number, at in enumerate(self._factors_at()):
                sums = f"accumulators{number}"
                src.assign(sums, f"{prefix}multiply{number}({at}, {sums}, fragments{number})")
                src.assign(f"last{number}", f"last_fragments{number}({at})")
            if not s.reads_ahead:
                self._last_products(prefix)
            self._finish("ring + write")
            src.emit(
                f"step = step + {block_k}",
                f"read = select(read == {last}, int32(0), int32(read + {s.stage_bytes}))",
                f"write = select(write == {last}, int32(0), int32(write + {s.stage_bytes}))",
            )
            if s.reads_ahead:
                src.emit("wait_slice()", barrier())
                self._first_fragments()
                self._last_products(prefix)

    def _add_sums(self, is_first: str) -> None:
        for number in range(len(self.schedule.pairs)):
            at = f"int32(accumulators_at + {number * self.schedule.tile.size_bytes})"
            self.src.emit(f"add_accumulators({at}, accumulators{number}, {is_first})")


def _bound(shape: OperandTileShape) -> Binding[OperandTileIntrinsics]:
    """The definition of an operand tile in a generated file."""
    return OperandTile(**{f.name: getattr(shape, f.name) for f in fields(shape)})
