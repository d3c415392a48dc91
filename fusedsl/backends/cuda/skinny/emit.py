"""Emits a product with few rows: stages of both operands by cp.async, mma.sync, and the work on the accumulators."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.matmul_operands import matmul_operands
from ..emit.source_builder import SourceBuilder, header
from ..matmul import scatter_vectors, udiv64
from ..matmul.emit_addresses import COLUMN, ROW, ElementAddresses, K
from ..rows_and_columns import grid_dim
from ..tile import Tile, barrier, block_idx, commit_group, dynamic_smem_base, is_last_block, thread_idx, wait_group
from . import (
    SkinnyFmaTile,
    SkinnyRing,
    SkinnyRingIntrinsics,
    SkinnyTile,
    SkinnyTileIntrinsics,
    load_records,
    store_record,
)
from .layout import PART
from .schedule import SkinnySchedule

SKINNY, RING = SkinnyTileIntrinsics("skinny"), SkinnyRingIntrinsics("ring")


def emit_skinny(kernel: KernelIR, schedule: SkinnySchedule) -> str:
    """The generated file of a product with few rows."""
    return SkinnyEmitter(kernel, schedule).source()


class SkinnyEmitter:
    """Emitter of a generated file: the ring of stages, the accumulators of a block and of a tile, the epilogue."""

    def __init__(self, kernel: KernelIR, schedule: SkinnySchedule):
        operands = matmul_operands(kernel)
        assert operands is not None
        self.kernel, self.schedule, self.layout, self.operands = kernel, schedule, schedule.layout, operands
        self.src = SourceBuilder(kernel)
        axes = {ROW: operands.axes.rows, COLUMN: operands.axes.columns, K: (kernel.axes - 1,)}
        self.addresses = ElementAddresses(self.src, axes, operands.axes.batch)
        self.narrow, self.streamed = (COLUMN, ROW) if schedule.swapped else (ROW, COLUMN)
        self.narrow_operands, self.streamed_operands = schedule.sides(operands)
        self.narrow_axis, self.streamed_axis = axes[self.narrow][0], axes[self.streamed][0]

    def source(self) -> str:
        src, layout = self.src, self.layout
        shape = dataclasses.asdict(layout)
        src.bind("skinny", (SkinnyTile if layout.itemsize == 2 else SkinnyFmaTile)(**shape))
        src.bind("ring", SkinnyRing(**shape))
        src.bind("tile", Tile(width=PART, vectors=1, step=1, checks="."))
        src.read_scalars()
        self._find_tile()
        self._multiply()
        self._share_sums()
        if self.schedule.is_split:
            self._exchange()
        with self._each_part():
            self._finish()
        opening = header(self.kernel, f"a product with few rows; blocks stream {layout.streamed} rows of the other", "")
        return src.text(opening, "Load K-slices of both operands by cp.async, accumulate, then run the epilogue.")

    # -- tile of a block

    def _find_tile(self) -> None:
        """The batch, the tile and the steps of this block."""
        src, names, layout = self.src, self.src.names, self.layout
        for kind, axes in self.addresses.axes.items():
            src.assign(f"{kind}s", names.extent(axes[0]))
        src.assign("tiles", f"({self.streamed}s + {layout.streamed - 1}) >> {layout.streamed.bit_length() - 1}")
        src.assign("work_tile", f"int64({block_idx()})")
        src.assign("step, step_end", f"int64(0), {K}s")
        if self.schedule.is_split:
            src.assign("all_tiles", " * ".join(["tiles", *(names.extent(a) for a in self.operands.axes.batch)]))
            src.assign("splits", udiv64(f"int64({grid_dim()})", "all_tiles"))
            src.assign(
                "work_tile, split",
                f"{udiv64('work_tile', 'splits')}, work_tile - {udiv64('work_tile', 'splits')} * splits",
            )
            depth = layout.depth.bit_length() - 1
            src.assign("stages", f"({K}s + {layout.depth - 1}) >> {depth}")
            src.assign("step", f"{udiv64('stages * split', 'splits')} << {depth}")
            src.assign("step_end", f"minimum({udiv64('stages * (split + 1)', 'splits')} << {depth}, {K}s)")
        src.assign("batch", udiv64("work_tile", "tiles"))
        src.assign(f"{self.streamed}_from", f"(work_tile - batch * tiles) * {layout.streamed}")
        src.assign(f"{self.narrow}_from", "int64(0)")
        self.addresses.emit_batch("batch")

    def _stride(self, k: int, axis: int) -> str:
        """The stride of an operand along an axis, in elements."""
        letter = self.kernel.operands[k].strides[axis]
        return self.src.names.stride(k, axis) if letter == "s" else f"int64({letter})"

    # -- products

    def _multiply(self) -> None:
        """Emit the main loop: the ring is filled, then a stage is multiplied while later ones are loaded."""
        src, stages, size = self.src, self.schedule.stages, self._stage
        zero = src.bind("zero", SKINNY.zero())
        for k in range(len(self.operands.pairs)):
            src.assign(f"totals{k}", zero())
        src.assign("memory", dynamic_smem_base())
        src.assign("stage, valid_k", "memory, step_end - step")
        for k in (*self.streamed_operands, *self.narrow_operands):
            kind, axis = self._side(k)
            offset = f"{kind}_from * {self._stride(k, axis)} + step * {self._step_stride(k)}"
            src.assign(self._coming(k), f"{self.addresses.base(k)} + ({offset}) * {self.layout.itemsize}")
        ahead = stages - (not self.schedule.holds_all)
        with src.while_(f"stage < memory + {ahead * size}"):
            self._copy()
            for k, way in self._elementwise:
                src.emit(self._store(k, way))
            self._next_stage()
        src.assign("read_stage", "memory")
        self._multiply_all() if self.schedule.holds_all else self._multiply_and_copy()

    def _multiply_all(self) -> None:
        """Multiply what the ring holds: all steps."""
        self._wait_all()
        with self.src.while_("step < step_end"):
            self._multiply_stage()
            self._advance("read_stage")
            self.src.assign("step", f"step + {self.layout.depth}")

    def _multiply_and_copy(self) -> None:
        """Multiply a stage while later ones are loaded, and issue the copy of the next stage into the free slot."""
        src, end = self.src, f"memory + {self.schedule.stages * self._stage}"
        wait = src.bind("wait_stage", wait_group(self.schedule.stages - 2))
        with src.while_("step < step_end"):
            src.emit(wait(), barrier())
            self._copy()
            self._multiply_stage()
            src.emit(*(self._store(k, way) for k, way in self._elementwise))
            self._next_stage()
            self._advance("read_stage")
            src.emit(
                f"stage = select(stage == {end}, memory, stage)",
                f"read_stage = select(read_stage == {end}, memory, read_stage)",
            )
            src.assign("step", f"step + {self.layout.depth}")

    def _multiply_stage(self) -> None:
        multiply = self.src.bind("multiply", SKINNY.multiply())
        for number, pair in enumerate(self.operands.pairs):
            narrow, streamed = pair[::-1] if self.schedule.swapped else pair
            stage_parts = (self._stage_part("read_stage", streamed), self._stage_part("read_stage", narrow))
            self.src.assign(f"totals{number}", multiply(f"totals{number}", *stage_parts))

    @property
    def _stage(self) -> int:
        """Bytes of a stage."""
        return self.schedule.stage_bytes(self.operands)

    @property
    def _elementwise(self) -> list[tuple[int, str]]:
        """(narrow operand, the axis along which threads are neighbours) of operands that cp.async cannot copy."""
        return [(k, way) for k, way in zip(self.narrow_operands, self.schedule.narrow_near) if way != "copy"]

    def _next_stage(self) -> None:
        """Go on to the stage that is copied next."""
        src, depth = self.src, self.layout.depth
        self._advance("stage")
        src.assign("valid_k", f"valid_k - {depth}")
        for k in (*self.streamed_operands, *self.narrow_operands):
            src.assign(self._coming(k), f"{self._coming(k)} + {self._step_stride(k)} * {self.layout.itemsize * depth}")

    def _advance(self, name: str) -> None:
        self.src.assign(name, f"int32({name} + {self._stage})")

    def _stage_part(self, slot: str, k: int) -> str:
        """The address of an operand's part of a stage."""
        if k in self.streamed_operands:
            offset = self.streamed_operands.index(k) * self.layout.streamed_bytes
        else:
            offset = len(self.streamed_operands) * self.layout.streamed_bytes
            offset += self.narrow_operands.index(k) * self.layout.narrow_bytes
        return f"int32({slot} + {offset})" if offset else slot

    def _copy(self) -> None:
        """Issue the copy of the next stage; load what cp.async cannot copy to registers."""
        src = self.src
        copy = src.bind("copy_streamed", RING.copy_streamed())
        rows = f"{self.streamed}s - {self.streamed}_from"
        for k in self.streamed_operands:
            pitch = self._stride(k, self.streamed_axis) if self.layout.near == "k" else self._step_stride(k)
            src.emit(copy(self._stage_part("stage", k), self._coming(k), pitch, rows, "valid_k"))
        for k, way in zip(self.narrow_operands, self.schedule.narrow_near):
            if way == "copy":
                copy = src.bind("copy_narrow", RING.copy_narrow())
                pitch = self._stride(k, self.narrow_axis)
                src.emit(copy(self._stage_part("stage", k), self._coming(k), pitch, f"{self.narrow}s", "valid_k"))
        src.emit(commit_group())
        for k, way in self._elementwise:
            load = src.bind(f"load_{way}", RING.load_narrow(way))
            strides = (self._stride(k, self.narrow_axis), self._step_stride(k))
            src.assign(f"elements{k}", load(self._coming(k), *strides, f"{self.narrow}s", "valid_k"))

    def _store(self, k: int, way: str) -> str:
        """Store this thread's elements of a narrow operand to the next stage."""
        return self.src.bind(f"store_{way}", RING.store_narrow(way))(self._stage_part("stage", k), f"elements{k}")

    def _side(self, k: int) -> tuple[str, int]:
        """The kind of an operand's rows, and their axis."""
        if k in self.streamed_operands:
            return self.streamed, self.streamed_axis
        return self.narrow, self.narrow_axis

    def _step_stride(self, k: int) -> str:
        return self._stride(k, self.kernel.axes - 1)

    def _coming(self, k: int) -> str:
        """The variable with the address of an operand's next stage."""
        return f"{self.src.names.operand(k)}_next"

    # -- accumulators

    def _share_sums(self) -> None:
        """Emit the stores of all warps' accumulators to shared memory, in place of the ring."""
        src, pairs = self.src, range(len(self.operands.pairs))
        self._wait_all()
        store = src.bind("store_accumulators", SKINNY.store_accumulators())
        src.emit(*(store(self._partial(k), f"totals{k}") for k in pairs), barrier())

    def _wait_all(self) -> None:
        self.src.emit(self.src.bind("wait_all", wait_group(0))(), barrier())

    def _partial(self, k: int) -> str:
        offset = k * self.layout.partial_bytes
        return f"int32(memory + {offset})" if offset else "memory"

    @contextmanager
    def _each_part(self) -> Iterator[None]:
        """A loop over the parts of the block's results that are this thread's."""
        self.src.assign("chunk", thread_idx())
        with self.src.while_(f"chunk < {self.layout.parts}"):
            yield
            self.src.assign("chunk", f"int32(chunk + {self.layout.threads})")

    def _exchange(self) -> None:
        """Emit the split-K reduction: blocks store their accumulators; the last block of the tile adds all of them."""
        src, store = self.src, self.src.bind("store_partials", store_record())
        load = src.bind("load_accumulators", SKINNY.load_accumulators())
        src.assign("partials", f"workspace + work_tile * splits * {self._record}")
        src.assign("own_partials", f"partials + split * {self._record}")
        with self._each_part():
            for k in range(len(self.operands.pairs)):
                src.emit(store(self._within(k, "own_partials"), load(self._partial(k), "chunk")))
        with src.if_(f"not {is_last_block('semaphores', 'work_tile', 'splits')}"):
            src.emit("return")

    @property
    def _record(self) -> int:
        """Bytes of the record of partial sums that a block stores."""
        return self.layout.record_bytes * len(self.operands.pairs)

    def _within(self, k: int, record: str) -> str:
        """The address of a part of a product's accumulators in a record."""
        return f"{record} + int64(chunk) * {4 * PART} + {k * self.layout.record_bytes}"

    def _finish(self) -> None:
        """Emit the epilogue of a part of the accumulators."""
        src = self.src
        coordinates = src.bind("chunk_coordinates", SKINNY.chunk_coordinates())
        src.assign(f"{self.narrow}s_in_tile, {self.streamed}s_in_tile", coordinates("chunk"))
        accumulators = [self._sum(k) for k in range(len(self.operands.pairs))]
        self.addresses.finish(self.kernel.phases[0], accumulators, scatter_vectors)

    def _sum(self, k: int) -> str:
        """A part of the accumulators of a product."""
        if self.schedule.is_split:
            load = self.src.bind("reduce_partials", load_records())
            return load(self._within(k, "partials"), self._record, "splits")
        return self.src.bind("load_accumulators", SKINNY.load_accumulators())(self._partial(k), "chunk")
