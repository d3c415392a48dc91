"""Emits a map whose vectors cross the ends of rows: a vector is stored at once, each element finds its own place."""

from __future__ import annotations

from ....kernel_ir.kernel import KernelIR, Load
from ....kernel_ir.phase import Store
from ..emit.source_builder import TILE, SourceBuilder, header, total
from ..peephole import MAP_PEEPHOLES, rewritten
from ..tile import Tile, TileIntrinsics, load_value, thread_idx
from . import load_each, positions_in_order
from .schedule import FlatSchedule

ENDS = TileIntrinsics("partial_tile")  # that checks each element


def emit_flat(kernel: KernelIR, schedule: FlatSchedule) -> str:
    """The generated file of a map whose elements are numbered over all axes."""
    src = SourceBuilder(kernel)
    opening = header(kernel, f"a map; each thread computes {schedule.width} elements in order", "")
    src.read_scalars()
    _begin(src, schedule)
    reordered = [load.operand for load in kernel.loads if _is_reordered(kernel, load)]
    _emit_positions(src, sorted(set(reordered)))
    for load in kernel.loads:
        _emit_load(src, load)
    src.fill_tables(schedule.threads)
    src.map_body("body", rewritten(kernel, kernel.phases[0], MAP_PEEPHOLES), schedule.width)
    for k, store in enumerate(kernel.phases[0].stores):
        _emit_store(src, k, store)
    return src.text(opening, "Load a tile, compute it, store it.")


def _begin(src: SourceBuilder, schedule: FlatSchedule) -> None:
    """The number of a thread's first element, and whether all of its elements exist."""
    width, vectors, step = schedule.width, schedule.vectors, schedule.width * schedule.threads
    src.bind("tile", Tile(width=width, vectors=vectors, step=step, checks="." * vectors))
    src.bind("partial_tile", Tile(width=width, vectors=vectors, step=step, checks="t" * vectors))
    count = ""
    for axis in range(src.kernel.axes):
        extent = f"int32({src.names.extent(axis)})"
        count = f"int32({count} * {extent})" if count else extent
    src.assign("n", count)
    begin = f"int32(int32({src.block}) * {schedule.tile_vectors * width})"
    src.assign("start", f"int32({begin} + int32({thread_idx()} * {width}))")
    src.assign("full_tile", f"int32(start + {(vectors - 1) * step + width}) <= n")


def _is_reordered(kernel: KernelIR, load: Load) -> bool:
    """Whether neighbours in order are no neighbours in this array, nor all the same element."""
    operand = kernel.operands[load.operand]
    return operand.access != "flat" and set(operand.strides) != {"0"}


def _emit_positions(src: SourceBuilder, operands: list[int]) -> None:
    """The positions of each element, and its offset in these operands."""
    kernel, names = src.kernel, src.names
    if not operands and not kernel.positions:
        return
    axes, sizes = range(kernel.axes), [f"int32({names.extent(0)})"]
    for axis in axes[1:]:
        sizes += [f"int32({names.extent(axis)})", names.magic(axis)]
    find = src.bind("positions", positions_in_order(TILE, kernel.axes))
    src.assign(", ".join(f"place_{axis}" for axis in axes), find("start", *sizes))
    for k in operands:
        _emit_offset(src, k)
    for position in kernel.positions:
        value = position.value
        lines = [f"return {value.dtype.name}(place)"]
        convert = src.function(TILE.elementwise(f"int32 -> {value.dtype.name}"), f"at_{value.name}", ["place"], lines)
        src.assign(value.name, convert(f"place_{position.axis}"))


def _emit_offset(src: SourceBuilder, k: int) -> None:
    """The offsets of elements in an operand, of their positions."""
    given, arguments, terms, name = [], [], [], src.names.operand(k)
    for axis, kind in enumerate(src.kernel.operands[k].strides):
        if kind == "0":
            continue
        arguments.append(f"c{axis}")
        given.append(f"place_{axis}")
        terms.append(arguments[-1])
        if kind == "s":
            arguments.append(src.names.stride(k, axis))
            given.append(f"int32({arguments[-1]})")
            terms[-1] = f"int32(c{axis} * {arguments[-1]})"
    decorator = TILE.elementwise(f"{', '.join(['int32'] * len(arguments))} -> int32")
    offset = src.function(decorator, f"offset_in_{name}", arguments, [f"return {total('int32', terms)}"])
    src.assign(f"{name}_offset", offset(*given))


def _emit_load(src: SourceBuilder, load: Load) -> None:
    name, pointer = load.value.name, src.names.pointer(load.operand)
    operand = src.kernel.operands[load.operand]
    if set(operand.strides) == {"0"}:
        src.assign(name, src.bind(f"load_{name}", load_value(operand.dtype.name))(pointer))
        return
    src.stored[name] = operand.dtype
    if operand.access != "flat":
        read = src.bind(f"load_{name}", load_each(TILE, operand.dtype.name))
        src.assign(name, read(pointer, f"{src.names.operand(load.operand)}_offset"))
        return
    with src.if_else("full_tile") as branches:
        for tile, suffix, branch in zip((TILE, ENDS), ("", "_end"), branches):
            read = src.bind(f"load_{name}{suffix}", tile.load(operand.dtype.name))
            with branch:
                src.assign(name, read(pointer, "start", "n"))


def _emit_store(src: SourceBuilder, k: int, store: Store) -> None:
    value = src.element(store.value)
    with src.if_else("full_tile") as branches:
        for tile, suffix, branch in zip((TILE, ENDS), ("", "_end"), branches):
            write = src.bind(f"store_{k}{suffix}", tile.store(src.kernel.operands[store.operand].dtype.name))
            with branch:
                src.emit(write(src.names.pointer(store.operand), "start", value, "start", "n"))
