"""Emits a chunked last phase: a few vectors at a time are loaded, computed and stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....kernel_ir.kernel import Load
from ....kernel_ir.phase import Phase, Store
from ..emit.file_builder import signature
from ..emit.intrinsic import Function
from ..emit.phase_emitter import PhaseEmitter
from ..emit.source_builder import TILE
from ..peephole import rewritten
from ..tile import Tile, TileIntrinsics, block_dim_x
from .emit_index import RowIndex


@dataclass
class ChunkedEpilogue:
    """The last phase, chunk by chunk: the compiler cannot load for a later one before an earlier one is stored."""

    index: RowIndex
    load: Callable[[Load, TileIntrinsics, str, int, str], None]  # loads a chunk's tile under a name
    before: Callable[[int], None] = lambda first: None  # what is emitted before the chunk of this first vector
    rest_first: int = 0  # the chunks of this vector and later ones come first

    def __post_init__(self) -> None:
        self.src, self.kernel, self.schedule = self.index.src, self.index.kernel, self.index.schedule

    def emit(self, emitter: PhaseEmitter, number: int | str, phase: Phase) -> None:
        src, s, kernel = self.src, self.schedule, self.kernel
        body = rewritten(kernel, phase)
        fresh = {x.value.name: x for x in kernel.element_loads if x.value.name not in src.ready}
        for value in body.args:
            if value.name not in fresh:
                emitter.provide(value)
        resident = {x.value.name for x in kernel.element_loads if x.value.name not in fresh}
        resident |= {value.name for earlier in kernel.phases[:-1] for value in earlier.element.results}
        for name, load in fresh.items():
            src.stored[name] = kernel.operands[load.operand].dtype
        kinds = signature((src.argument(v.name, v.dtype) for v in body.args), (v.dtype for v in body.results))
        results = [v.name for v in body.results]
        lines = [*body.lines, f"return {', '.join(results)}"]
        function = src.function("", f"phase_{number}", (v.name for v in body.args), lines)
        src.functions += ["", ""]
        for first in sorted(range(0, s.vectors, s.epilogue_vectors), key=lambda first: first < self.rest_first):
            chunk = first // s.epilogue_vectors
            self.before(first)
            tile, take, start = self._define(chunk, first)
            checks = self.index.checks()[first : first + s.epilogue_vectors]
            placed = self.index.multi_axis.piece(chunk, tile, first, checks) if self.index.multi_axis else None
            call = src.bind(f"{function}_{chunk}", tile.elementwise(kinds)(function), src.functions)
            for value in body.args:
                if value.name in resident:
                    src.assign(f"{value.name}_{chunk}", take(value.name))
                elif value.name in fresh and placed:
                    placed.load(fresh[value.name])
                elif value.name in fresh:
                    self.load(fresh[value.name], tile, f"{value.name}_{chunk}", first, start)
            arguments = (f"{v.name}_{chunk}" if v.name in resident or v.name in fresh else v.name for v in body.args)
            src.assign(", ".join(f"{result}_{chunk}" for result in results), call(*arguments))
            stores = [
                placed.stored(f"store_{number}_{k}_{chunk}", store, f"{store.value}_{chunk}")
                if placed
                else self._store(store, f"store_{number}_{k}", chunk, tile)
                for k, store in enumerate(phase.stores)
            ]
            with src.if_(emitter.layout.stores):
                src.emit(*stores)

    def _define(self, chunk: int, first: int) -> tuple[TileIntrinsics, Function, str]:
        """(a chunk's tile, the function that slices it out of a resident tile, where it starts)."""
        src, s, index = self.src, self.schedule, self.index
        count = min(s.epilogue_vectors, s.vectors - first)
        checks = index.checks()[first : first + count]
        tile = src.bind(f"piece_{chunk}", Tile(**index.shape(count), checks=checks, **index.exact))
        # unaligned rows have no time to compute anew
        take = src.bind(f"take_{chunk}", TILE.slice(first, count, rematerialize=not index.peeled))
        skipped = f"{block_dim_x()} * {first * s.width}" if s.max_threads else first * index.vector_step
        src.assign(f"start_{chunk}", f"{index.index}(start + {skipped})")
        return tile, take, f"start_{chunk}"

    def _store(self, store: Store, name: str, chunk: int, tile: TileIntrinsics) -> str:
        kind, stride = self.src.access(store.operand, self.schedule.width)
        write = self.src.bind(f"{name}_{chunk}", tile.store(self.kernel.operands[store.operand].dtype.name, kind))
        start, base = f"start_{chunk}", self.index.bases[store.operand]
        return write(base, start, f"{store.value}_{chunk}", start, self.index.limit, *stride)
