"""Emits a chunked last phase: a few vectors at a time are loaded, computed and stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernel_ir.kernel import Load
from ....kernel_ir.phase import Phase, Store
from ..emit.source_text import access_kind, indented, signature
from ..peephole.low_precision_stores import narrow_body

if TYPE_CHECKING:
    from .emit import RowEmitter


def emit_chunked_epilogue(writer: RowEmitter, number: int | str, phase: Phase) -> None:
    """The phase, piece by piece: the compiler cannot load for a later piece before an earlier one is stored."""
    scope, plan, kernel = writer.scope, writer.schedule, writer.kernel
    body = narrow_body(kernel, phase)
    anew = not any(operand.access == "peeled" for operand in kernel.operands)  # unaligned rows have no time for it
    fresh = {x.value.name: x for x in kernel.element_loads if x.value.name not in scope.ready}
    for value in body.args:
        if value.name not in fresh:
            writer.provide(value)
    tiles = {x.value.name for x in kernel.element_loads if x.value.name not in fresh}
    tiles |= {value.name for earlier in kernel.phases[:-1] for value in earlier.element.results}
    for name, load in fresh.items():
        scope.stored[name] = kernel.operands[load.operand].dtype
    kinds = signature((scope.argument(v.name, v.dtype) for v in body.args), (v.dtype for v in body.results))
    name, results = f"phase_{number}", [v.name for v in body.results]
    scope.functions += ["", "", f"def {name}({', '.join(v.name for v in body.args)}):"]
    scope.functions += [*indented([*body.lines, f"return {', '.join(results)}"]), "", ""]
    for first in writer.chunks():
        piece = first // plan.epilogue_vectors
        writer.before_chunk(first)
        count, tile = min(plan.epilogue_vectors, plan.vectors - first), f"piece_{piece}"
        checks = f'checks="{writer.checks()[first : first + count]}"{writer.exact_reads}'
        scope.top.append(f"{tile} = Tile(width={plan.width}, vectors={count}{writer.stride_argument}, {checks})")
        scope.functions.append(f'{name}_{piece} = {tile}.elementwise("{kinds}")({name})')
        scope.top.append(f"take_{piece} = tile.slice({first}, {count}, rematerialize={anew})")
        start = f"start_{piece}"
        index = kernel.index
        skipped = f"block_dim_x() * {first * plan.width}" if plan.max_threads else first * plan.vector_stride
        scope.code.append(f"{start} = {index}(start + {skipped})")
        arguments = []
        for value in body.args:
            held = value.name in tiles
            arguments.append(f"{value.name}_{piece}" if held or value.name in fresh else value.name)
            if held:
                scope.code.append(f"{arguments[-1]} = take_{piece}({value.name})")
            elif value.name in fresh:
                _load(writer, fresh[value.name], tile, first, arguments[-1], start)
        made = ", ".join(f"{result}_{piece}" for result in results)
        scope.code.append(f"{made} = {name}_{piece}({', '.join(arguments)})")
        stores = [
            _store(writer, store, f"store_{number}_{place}_{piece}", piece) for place, store in enumerate(phase.stores)
        ]
        scope.code += writer.if_in_bounds(stores)


def _store(writer: RowEmitter, store: Store, name: str, piece: int) -> str:
    """The line that stores a value of a piece, by a function of this name."""
    scope, width = writer.scope, writer.schedule.width
    operand = writer.kernel.operands[store.operand]
    letter = access_kind(operand, width)
    scope.top.append(f'{name} = piece_{piece}.store("{operand.dtype.name}", "{"s" if letter == "u" else letter}")')
    start, stride = f"start_{piece}", scope.stride(store.operand, letter)
    at = writer.bases[store.operand]
    return f"{name}({at}, {start}, {store.value}_{piece}, {start}, {writer.limit}{stride})"


def _load(writer: RowEmitter, load: Load, tile: str, first: int, name: str, start: str) -> None:
    operand = writer.kernel.operands[load.operand]
    if load.value.name in writer.in_smem:
        writer.scope.top.append(f"load_shared_{name} = {writer.load_shared_call(load, tile, first)}")
        writer.code.append(f"{name} = load_shared_{name}(smem)")
        return
    letter = writer.load_letter(operand)
    writer.scope.top.append(f'load_{name} = {tile}.load("{operand.dtype.name}", "{"s" if letter == "u" else letter}")')
    stride = writer.scope.stride(load.operand, letter)
    writer.code.append(f"{name} = load_{name}({writer.bases[load.operand]}, {start}, {writer.limit}{stride})")
