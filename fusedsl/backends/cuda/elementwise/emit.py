"""Emits an elementwise kernel: a block loads a tile of vectors, computes it, stores it."""

from __future__ import annotations

from ....kernel_ir.kernel import KernelIR
from ..emit.multi_axis_index import MultiAxisIndex
from ..emit.source_text import SourceBuilder, access_kind, either, header
from ..peephole.low_precision_stores import narrow_body
from .schedule import ElementwiseSchedule


def emit_elementwise(kernel: KernelIR, schedule: ElementwiseSchedule) -> str:
    """The generated file of a map kernel."""
    scope = SourceBuilder(kernel)
    opening = header(kernel, f"a map; each thread computes {schedule.vectors} × {schedule.width} elements", "")
    scope.read_scalars()
    if kernel.axes == 1:
        _line(scope, schedule)
    else:
        _grid(scope, schedule)
    return scope.text(opening, "Load a tile, compute it, store it.")


def _tile(name: str, schedule: ElementwiseSchedule, step: int, check: str) -> str:
    return f'{name} = Tile(width={schedule.width}, vectors={schedule.vectors}, step={step}, checks="{check}")'


def _line(scope: SourceBuilder, schedule: ElementwiseSchedule) -> None:
    """One axis: a thread whose vectors are all whole takes them as they are, another looks at each element."""
    kernel, width, step = scope.kernel, schedule.width, schedule.width * schedule.threads
    index = kernel.index
    scope.top.append(_tile("tile", schedule, step, "." * schedule.vectors))
    scope.top.append(_tile("ends", schedule, step, ("t" if width > 1 else "v") * schedule.vectors))
    begin = f"{index}({index}({scope.block}) * {schedule.tile_vectors * width})"
    scope.code += [
        f"n = {index}(n0)",
        f"start = {index}({begin} + {index}(thread_idx() * {width}))",
        f"whole = {index}(start + {(schedule.vectors - 1) * step + width}) <= n",
    ]
    whole, ends = _line_loads(scope, schedule)
    if whole:
        scope.code += either("whole", whole, ends)
    for position in kernel.positions:
        scope.top.append(f'at_{position.value.name} = tile.positions("{position.value.dtype.name}")')
        scope.code.append(f"{position.value.name} = at_{position.value.name}(start)")
    _compute(scope, schedule)
    whole, ends = _line_stores(scope, schedule)
    scope.code += either("whole", whole, ends)


def _line_loads(scope: SourceBuilder, schedule: ElementwiseSchedule) -> tuple[list[str], list[str]]:
    whole: list[str] = []
    ends: list[str] = []
    for load in scope.kernel.loads:
        name, operand = load.value.name, scope.kernel.operands[load.operand]
        at, letter = scope.names.pointer(load.operand), access_kind(operand, schedule.width)
        if letter == "0":
            scope.top.append(f'load_{name} = load_value("{operand.dtype.name}")')
            scope.code.append(f"{name} = load_{name}({at})")
            continue
        scope.stored[name] = operand.dtype
        stride = scope.stride(load.operand, letter)
        for tile, suffix, lines in (("tile", "", whole), ("ends", "_end", ends)):
            kind = ', "s"' if stride else ""
            scope.top.append(f'load_{name}{suffix} = {tile}.load("{operand.dtype.name}"{kind})')
            lines.append(f"{name} = load_{name}{suffix}({at}, start, n{stride})")
    return whole, ends


def _line_stores(scope: SourceBuilder, schedule: ElementwiseSchedule) -> tuple[list[str], list[str]]:
    whole: list[str] = []
    ends: list[str] = []
    for number, store in enumerate(scope.kernel.phases[0].stores):
        operand, value = scope.kernel.operands[store.operand], scope.element(store.value)
        stride = scope.stride(store.operand, access_kind(operand, schedule.width))
        for tile, suffix, lines in (("tile", "", whole), ("ends", "_end", ends)):
            name = f"store_{number}{suffix}"
            kind = ', "s"' if stride else ""
            scope.top.append(f'{name} = {tile}.store("{operand.dtype.name}"{kind})')
            lines.append(f"{name}({scope.names.pointer(store.operand)}, start, {value}, start, n{stride})")
    return whole, ends


def _compute(scope: SourceBuilder, schedule: ElementwiseSchedule) -> None:
    scope.map_body("body", narrow_body(scope.kernel, scope.kernel.phases[0]), schedule.width)


def _grid(scope: SourceBuilder, schedule: ElementwiseSchedule) -> None:
    """Several axes: vectors are numbered along the last axis, then the others; each finds its place once."""
    kernel = scope.kernel
    walk = MultiAxisIndex(scope, tuple(range(kernel.axes)), schedule.width, "first", "count")
    scope.top.append(_tile("tile", schedule, schedule.threads, "v" * schedule.vectors))
    index = walk.index
    used = sorted({load.operand for load in kernel.loads} | {s.operand for s in kernel.phases[0].stores})
    walk.define(used, schedule.vectors, f"step={schedule.threads}")
    begin = f"{index}({index}({scope.block}) * {schedule.tile_vectors})"
    scope.code.append(f"first = {index}({begin} + thread_idx())")
    walk.emit_offsets()
    for load in kernel.loads:
        walk.load(load)
    for position in kernel.positions:
        walk.position(position)
    _compute(scope, schedule)
    for number, store in enumerate(kernel.phases[0].stores):
        walk.store(f"store_{number}", store)
