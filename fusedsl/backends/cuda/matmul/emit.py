"""Emits a matmul: a block accumulates an output tile from K-slices in shared memory, then runs the epilogue.

Any strides, bounds and alignment: each element is loaded from its own address if it is in bounds, and is 0 otherwise.
"""

from __future__ import annotations

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.matmul_axes import matmul_axes
from ....kernel_ir.phase import Body
from ..elementwise import shared_bytes
from ..emit.source_builder import SourceBuilder, header
from ..tile import Tile, TileIntrinsics, barrier
from . import (
    add_accumulators,
    k_slice_coordinates,
    multiply_k_slices,
    output_coordinates,
    scatter,
    store_k_slice,
    udiv64,
    zero_accumulators,
)
from .emit_addresses import COLUMN, ROW, ElementAddresses, K
from .schedule import CHAIN, SMEM_PITCH, TILE_K, TILE_MN, MatmulSchedule, unique_factors

COLUMN_CHUNKS = 4  # columns of a thread: the epilogue takes one after another
ACCUMULATORS = TileIntrinsics("accumulators")


def emit_matmul(kernel: KernelIR, schedule: MatmulSchedule) -> str:
    """The generated file of a kernel that sums products."""
    return MatmulEmitter(kernel, schedule).source()


class MatmulEmitter:
    """Emits one kernel: where the block's tile is, the main loop over K-slices, the epilogue."""

    def __init__(self, kernel: KernelIR, schedule: MatmulSchedule):
        matmul = matmul_axes(kernel)
        assert matmul is not None
        self.kernel, self.schedule, self.matmul_axes = kernel, schedule, matmul
        self.src = SourceBuilder(kernel)
        steps = tuple(range(kernel.row_axes, kernel.axes))
        self.axes = {ROW: matmul.rows, COLUMN: matmul.columns, K: steps}
        self.addresses = ElementAddresses(self.src, self.axes, matmul.batch)
        self.factors = unique_factors(matmul)
        self.folds = kernel.phases[0].folds

    def source(self) -> str:
        src = self.src
        src.bind("tile", Tile(width=1, vectors=4, step=1, checks="...."))
        src.read_scalars()
        self._find_tile()
        for k, (_, body) in enumerate(self.factors):
            k_slice = src.bind(f"k_slice{k}", shared_bytes(TILE_K * SMEM_PITCH * body.results[0].dtype.itemsize))
            src.assign(f"k_slice{k}_at", k_slice())
        self._emit_mainloop()
        for part in range(COLUMN_CHUNKS):
            self._emit_epilogue(part)
        opening = header(self.kernel, f"products of matrices; each block computes {TILE_MN} × {TILE_MN} elements", "")
        return src.text(opening, "Accumulate K-slices from shared memory, then run the epilogue.")

    # -- where the block stands

    def _find_tile(self) -> None:
        """Split the linear block index into a batch and a tile, and find each operand's first element."""
        src, names = self.src, self.src.names
        for kind, axes in self.axes.items():
            src.assign(f"{kind}s", " * ".join(names.extent(a) for a in axes))
        src.assign("block_tile", f"int64({src.block})")
        for kind in (COLUMN, ROW):
            src.assign(f"{kind}_tiles", f"({kind}s + {TILE_MN - 1}) >> {TILE_MN.bit_length() - 1}")
            src.assign("outer_tile", udiv64("block_tile", f"{kind}_tiles"))
            src.assign(f"{kind}_from", f"(block_tile - outer_tile * {kind}_tiles) * {TILE_MN}")
            src.assign("block_tile", "outer_tile")
        self.addresses.emit_batch("block_tile")

    # -- the accumulators

    def _emit_mainloop(self) -> None:
        """Products of K-slices, in chains whose accumulators are added up."""
        src, multiplications = self.src, []
        for k, use in enumerate(self.folds):
            makers = {"zero": zero_accumulators, "add": add_accumulators, "multiply": multiply_k_slices}
            dtype = use.accumulators[0].dtype.name
            zero, add, multiply = src.bind_several({f"{name}{k}": maker(dtype) for name, maker in makers.items()})
            multiplications.append((f"accumulators{k}", zero, add, multiply))
            src.assign(f"totals{k}", zero())
        src.assign("step_from", "int64(0)")
        with src.while_("step_from < steps"):
            for products, zero, *_ in multiplications:
                src.assign(products, zero())
            src.assign("chunk_end", f"minimum(step_from + {CHAIN}, steps)")
            with src.while_("step_from < chunk_end"):
                for k, (kind, body) in enumerate(self.factors):
                    self._stage_k_slice(k, kind, body)
                src.emit(barrier())
                for (products, _, _, multiply), pair in zip(multiplications, self.matmul_axes.factors):
                    left, right = (self.factors.index(one) for one in zip((ROW, COLUMN), pair))
                    src.assign(products, multiply(f"k_slice{left}_at", f"k_slice{right}_at", products))
                src.emit(barrier(), f"step_from += {TILE_K}")
            for k, (products, _, add, _) in enumerate(multiplications):
                src.assign(f"totals{k}", add(f"totals{k}", products))

    def _stage_k_slice(self, k: int, kind: str, body: Body) -> None:
        """Compute this thread's elements of a factor, and put them into shared memory."""
        src, along, dtype = self.src, self.schedule.k_contiguous[k], body.results[0].dtype
        bindings = {
            f"factor_coordinates{k}": k_slice_coordinates(along),
            f"store_factor{k}": store_k_slice(dtype.name, along),
        }
        coordinates, put = src.bind_several(bindings)
        src.assign(f"{kind}s_in_tile, steps_in_tile", coordinates())
        src.emit(put(f"k_slice{k}_at", self.addresses.factor(kind, body, k)))

    # -- after the accumulators

    def _emit_epilogue(self, part: int) -> None:
        """The epilogue, for the elements of one of a thread's columns."""
        src = self.src
        src.bind("accumulators", Tile(width=1, vectors=16, step=1, checks="." * 16))
        bindings = {
            f"output_coordinates{part}": output_coordinates(part),
            f"slice{part}": ACCUMULATORS.slice(4 * part, 4),
        }
        coordinates, take = src.bind_several(bindings)
        src.assign("rows_in_tile, columns_in_tile", coordinates())
        self.addresses.finish(self.kernel.phases[0], [take(f"totals{k}") for k in range(len(self.folds))], scatter)
