"""Emits batches of small matrices: a few threads of a block multiply each, from factors in shared memory."""

from __future__ import annotations

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.matmul_axes import matmul_axes
from ....kernel_ir.phase import Body
from ..elementwise import shared_bytes
from ..emit.source_builder import SourceBuilder, header
from ..matmul import scatter_vectors
from ..matmul.emit_addresses import COLUMN, ROW, ElementAddresses, K
from ..tile import Tile, TileIntrinsics, barrier, block_idx, thread_idx
from . import SmallTile, SmallTileIntrinsics
from .layout import OWN
from .schedule import SIDES, SmallMatmulSchedule, factor_bytes

SMALL, ACCUMULATORS = SmallTileIntrinsics("small"), TileIntrinsics("accumulators")


def emit_small(kernel: KernelIR, schedule: SmallMatmulSchedule) -> str:
    """The generated file of a batch of small products."""
    return SmallMatmulEmitter(kernel, schedule).source()


class SmallMatmulEmitter:
    """Emitter of a generated file: the matrix of a thread, its factors and accumulators, the epilogue row by row."""

    def __init__(self, kernel: KernelIR, schedule: SmallMatmulSchedule):
        matmul = matmul_axes(kernel)
        assert matmul is not None
        self.kernel, self.schedule, self.layout, self.matmul = kernel, schedule, schedule.layout, matmul
        self.src, self.phase = SourceBuilder(kernel), kernel.phases[0]
        steps = tuple(range(kernel.row_axes, kernel.axes))
        axes = {ROW: matmul.rows, COLUMN: matmul.columns, K: steps}
        self.addresses = ElementAddresses(self.src, axes, matmul.batch, schedule.near)
        # what shared memory holds, each once: (side, body, whether it lies along the steps)
        pairs = zip(matmul.factors, schedule.along)
        every = [part for pair, along in pairs for part in zip(SIDES, pair, along)]
        self.factors = list(dict.fromkeys(every))

    def source(self) -> str:
        src, layout = self.src, self.layout
        src.bind("small", SmallTile(rows=layout.rows, columns=layout.columns, depth=layout.depth, block=layout.block))
        src.bind("accumulators", Tile(width=OWN, vectors=OWN, step=OWN, checks="." * OWN))
        src.bind("tile", Tile(width=OWN, vectors=1, step=OWN, checks="."))
        src.read_scalars()
        self._find_matrix()
        self._multiply()
        for part in range(OWN):
            self._finish(part)
        opening = header(self.kernel, f"small matrices; a block multiplies {layout.matrices}", "")
        return src.text(opening, "Accumulate K-slices from shared memory, then run the epilogue row by row.")

    def _find_matrix(self) -> None:
        """Emit the matrix of this thread; behind the last one it has no rows and columns."""
        src, names = self.src, self.src.names
        shift = self.layout.threads.bit_length() - 1
        src.assign("batch", f"int64({block_idx()}) * {self.layout.matrices} + ({thread_idx()} >> {shift})")
        src.assign("batches", " * ".join(["int64(1)", *(names.extent(a) for a in self.matmul.batch)]))
        for kind, axes in self.addresses.axes.items():
            extent = " * ".join(names.extent(a) for a in axes)
            src.assign(f"{kind}s", extent if kind == K else f"select(batch < batches, {extent}, int64(0))")
            src.assign(f"{kind}_from", "int64(0)")
        src.assign("batch", "minimum(batch, batches - 1)")
        self.addresses.emit_batch("batch")

    def _multiply(self) -> None:
        """Emit the main loop: accumulate all products, a K-slice at a time."""
        src, layout = self.src, self.layout
        for k, (side, body, _) in enumerate(self.factors):
            memory = src.bind(f"k_slice{k}", shared_bytes(factor_bytes(layout, side, body)))
            src.assign(f"k_slice{k}_at", memory())
        for k, use in enumerate(self.phase.folds):
            dtype = use.accumulators[0].dtype.name
            src.bind(f"multiply{k}", SMALL.multiply(dtype))
            src.assign(f"totals{k}", src.bind(f"zero{k}", SMALL.zero(dtype))())
        with src.while_("step_from < steps"):
            brought = [self._load(k, *factor) for k, factor in enumerate(self.factors)]
            src.emit(*brought)
            src.emit(barrier())
            for k, (pair, along) in enumerate(zip(self.matmul.factors, self.schedule.along)):
                left, right = (self.factors.index(part) for part in zip(SIDES, pair, along))
                src.assign(f"totals{k}", f"multiply{k}(k_slice{left}_at, k_slice{right}_at, totals{k})")
            src.emit(barrier(), f"step_from += {layout.depth}")

    def _load(self, k: int, side: str, body: Body, along: bool) -> str:
        """Emit this thread's elements of a factor; returns the call that stores them to shared memory."""
        src, count, tile = self.src, self.layout.elements(side) // OWN, TileIntrinsics(f"{side}_tile")
        src.bind(tile.name, Tile(width=OWN, vectors=count, step=OWN, checks="." * count))
        coordinates = src.bind(f"factor_coordinates{k}", SMALL.factor_places(side, along))
        put = src.bind(f"store_factor{k}", SMALL.store_factor(side, body.results[0].dtype.name, along))
        src.assign(f"{side}s_in_tile, steps_in_tile", coordinates())
        return put(f"k_slice{k}_at", self.addresses.factor(side, body, k, tile))

    def _finish(self, part: int) -> None:
        """Emit the epilogue of one of a thread's rows."""
        src = self.src
        bindings = {f"output_coordinates{part}": SMALL.sum_places(part), f"slice{part}": ACCUMULATORS.slice(part, 1)}
        coordinates, take = src.bind_several(bindings)
        src.assign("rows_in_tile, columns_in_tile", coordinates())
        self.addresses.finish(self.phase, [take(f"totals{k}") for k in range(len(self.phase.folds))], scatter_vectors)
