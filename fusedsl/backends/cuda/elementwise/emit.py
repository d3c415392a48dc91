"""Emits an elementwise kernel: a block loads a tile of vectors, computes it, stores it."""

from __future__ import annotations

from ....kernel_ir.kernel import KernelIR, Load
from ..emit.multi_axis_index import MultiAxisIndex
from ..emit.source_builder import TILE, SourceBuilder, header
from ..peephole import MAP_PEEPHOLES, rewritten
from ..tile import Tile, TileIntrinsics, load_value, thread_idx
from . import load_shifted
from .broadcast_schedule import BroadcastIndex, BroadcastSchedule
from .row_tiles import RowTileIndex
from .schedule import ElementwiseSchedule

ENDS = TileIntrinsics("partial_tile")  # that checks each element


def emit_elementwise(kernel: KernelIR, schedule: ElementwiseSchedule) -> str:
    """The generated file of a map kernel."""
    src = SourceBuilder(kernel)
    opening = header(kernel, f"a map; each thread computes {schedule.vectors} × {schedule.width} elements", "")
    src.read_scalars()
    if kernel.axes == 1:
        _emit_line(src, schedule)
    else:
        _emit_grid(src, schedule)
    return src.text(opening, "Load a tile, compute it, store it.")


def _emit_line(src: SourceBuilder, schedule: ElementwiseSchedule) -> None:
    """One axis: a thread whose vectors are all whole takes them as they are, another looks at each element."""
    kernel = src.kernel
    load_line(src, schedule.width, schedule.vectors, schedule.threads)
    _compute(src, schedule)
    values = [src.element(store.value) for store in kernel.phases[0].stores]
    with src.if_else("full_tile") as branches:
        for k, store in enumerate(kernel.phases[0].stores):
            _, stride = src.access(store.operand, schedule.width)
            for tile, suffix, branch in zip((TILE, ENDS), ("", "_end"), branches):
                store_tile = tile.store(kernel.operands[store.operand].dtype.name, *(["s"] if stride else []))
                write = src.bind(f"store_{k}{suffix}", store_tile)
                with branch:
                    src.emit(write(src.names.pointer(store.operand), "start", values[k], "start", "n", *stride))


def load_line(src: SourceBuilder, width: int, vectors: int, threads: int, together: bool = False) -> None:
    """Load a tile of a line from `start` on, of which `n` elements are there; `full_tile` says that all of it is.

    A thread's vectors follow one another if they are `together`; else the threads of a block have vectors in turn.
    """
    step, index = width if together else width * threads, src.kernel.index
    src.bind("tile", Tile(width=width, vectors=vectors, step=step, checks="." * vectors))
    checks = ("t" if width > 1 else "v") * vectors
    src.bind("partial_tile", Tile(width=width, vectors=vectors, step=step, checks=checks))
    begin = f"{index}({index}({src.block}) * {threads * vectors * width})"
    src.assign("n", f"{index}(n0)")
    src.assign("start", f"{index}({begin} + {index}({thread_idx()} * {width * vectors if together else width}))")
    src.assign("full_tile", f"{index}(start + {(vectors - 1) * step + width}) <= n")
    _emit_loads(src, width)
    for position in src.kernel.positions:
        name = position.value.name
        src.assign(name, src.bind(f"at_{name}", TILE.positions(position.value.dtype.name))("start"))


def _compute(src: SourceBuilder, schedule: ElementwiseSchedule) -> None:
    """The body of all elements; tables are filled while the loads are in flight."""
    src.fill_tables(schedule.threads)
    lines = [p.value.name for p in src.kernel.positions] if src.kernel.axes == 1 else []
    src.map_body("body", rewritten(src.kernel, src.kernel.phases[0], MAP_PEEPHOLES), schedule.width, lines)


def _emit_loads(src: SourceBuilder, width: int) -> None:
    shifted = _shifted(src.kernel, width)
    with src.if_else("full_tile") as (full, partial):
        for base, loads in shifted.items():
            operands = [src.kernel.operands[load.operand] for load in loads]
            displacements = tuple(x.displacement for x in operands)
            read = src.bind(f"load_{loads[0].value.name}", load_shifted(TILE, operands[0].dtype.name, displacements))
            with full:
                src.assign(", ".join(load.value.name for load in loads), read(src.names.pointer(base), "start", "n"))
        together = [load for loads in shifted.values() for load in loads]
        for load in src.kernel.loads:
            name, pointer = load.value.name, src.names.pointer(load.operand)
            dtype = src.kernel.operands[load.operand].dtype
            kind, stride = src.access(load.operand, width)
            if kind == "0":
                src.assign(name, src.bind(f"load_{name}", load_value(dtype.name))(pointer))
                continue
            src.stored[name] = dtype
            branches = ((TILE, "", full), (ENDS, "_end", partial))
            for tile, suffix, branch in branches[load in together :]:
                read = src.bind(f"load_{name}{suffix}", tile.load(dtype.name, *(["s"] if stride else [])))
                with branch:
                    src.assign(name, read(pointer, "start", "n", *stride))


def _shifted(kernel: KernelIR, width: int) -> dict[int, list[Load]]:
    """For each operand the loads that read its array a constant distance from its own; none if that saves nothing."""
    by_base: dict[int, list[Load]] = {}
    for load in kernel.loads:
        operand = kernel.operands[load.operand]
        by_base.setdefault(load.operand if operand.base < 0 else operand.base, []).append(load)
    return {k: loads for k, loads in by_base.items() if width > 1 and _saves(kernel, k, loads, width)}


def _saves(kernel: KernelIR, base: int, loads: list[Load], width: int) -> bool:
    """Whether shifted loads of whole words read neighbours that others read, too."""
    operands, own = [kernel.operands[load.operand] for load in loads], kernel.operands[base]
    distinct = {d + k for x in operands for d in [x.displacement] for k in range(width)}
    return len(loads) > 1 and own.access == "vector" and own.dtype.bits >= 32 and len(distinct) < width * len(loads)


def _emit_grid(src: SourceBuilder, schedule: ElementwiseSchedule) -> None:
    """Several axes: vectors are numbered along the last axis, then the others; each finds its place once."""
    kernel = src.kernel
    repeated = isinstance(schedule, BroadcastSchedule)
    index = RowTileIndex if schedule.row_tiles else BroadcastIndex if repeated else MultiAxisIndex
    vectors = index(src, tuple(range(kernel.axes)), schedule.width, "first", "count")
    used = sorted({load.operand for load in kernel.loads} | {s.operand for s in kernel.phases[0].stores})
    vectors.begin_tiles(schedule.vectors, schedule.threads, used)
    vectors.load_tile()
    _compute(src, schedule)
    for k, store in enumerate(kernel.phases[0].stores):
        vectors.store(f"store_{k}", store)
