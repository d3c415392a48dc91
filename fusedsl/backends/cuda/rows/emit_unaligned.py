"""Emits peeled elements of unaligned rows: those before the first aligned vector and after the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernel_ir.phase import Phase, Reduction, Value
from ..emit.source_text import access_kind, function, signature
from ..peephole.low_precision_stores import narrow_body
from ..peephole.softmax_exp import approximate_summed_exp

if TYPE_CHECKING:
    from .emit import RowEmitter
    from .emit_index import RowIndexEmitter


def emit_peeled_index(writer: RowIndexEmitter) -> None:
    """Where a thread's whole vectors begin, where those of the row end, and the positions of its edges."""
    width, index, code = writer.schedule.width, writer.kernel.index, writer.code
    count = writer.peeled_elements
    writer.scope.top.append(f'edge_tile = Tile(width=1, vectors={count}, checks="{"e" * count}")')
    code.append(f"head = {index}(-skew & {width - 1})  # elements before the first whole vector")
    if not writer.schedule.full_vectors:  # a row may end before its first whole vector
        code.append(f"head = {index}(minimum(head, columns))")
    code.append(f"whole = {index}((columns - head) & {-width})  # … and of all whole vectors")
    code.append(f"start = {index}(head + thread_in_row * {width})")
    code.append(f"limit = {index}(head + whole)")
    for k in range(count):
        place = f"(thread_in_row + block_dim_x() * {k})" if k else "thread_in_row"
        code.append(f"edge_{k} = {index}(select({place} < head, {place}, {place} + whole))")
    code.append(f"edge = ({', '.join(f'edge_{k}' for k in range(count))},)")


def load_peeled(writer: RowEmitter, values: tuple[Value, ...]) -> None:
    """See that the arguments of a body have their values at the edges."""
    scope, kernel = writer.scope, writer.kernel
    for load in kernel.loads:
        name, k = load.value.name, load.operand
        if load.value not in values or name in writer.peeled or k in kernel.row_operands:
            continue
        writer.peeled.add(name)
        operand = kernel.operands[k]
        letter = access_kind(operand, 1)
        scope.stored.setdefault(name, operand.dtype)
        scope.top.append(f'edge_load_{name} = edge_tile.load("{operand.dtype.name}", "{letter}")')
        begin, stride = writer.bases[k], scope.stride(k, letter)
        scope.code.append(f"{name}_edge = edge_load_{name}({begin}, edge, columns{stride})")
    for position in kernel.positions:
        name = position.value.name
        if position.value in values and position.axis >= kernel.row_axes and name not in writer.peeled:
            writer.peeled.add(name)
            scope.top.append(f'edge_at_{name} = edge_tile.positions("{position.value.dtype.name}")')
            scope.code.append(f"{name}_edge = edge_at_{name}(edge)")


def emit_peeled_body(writer: RowEmitter, number: int | str, phase: Phase) -> None:
    """The element body of a phase at the edges."""
    scope = writer.scope
    body = narrow_body(writer.kernel, phase, approximate_summed_exp(writer.kernel, phase, phase.element))
    given = {value.name for value in body.args}
    made = [value for value in body.results if value.name not in given]
    if not made:
        return
    kinds = signature((scope.argument(v.name, v.dtype) for v in body.args), (v.dtype for v in made))
    head, name = f'@edge_tile.elementwise("{kinds}")', f"edge_phase_{number}"
    scope.define(function(head, name, body, [v.name for v in made]))
    arguments = ", ".join(_at_edge(writer, v.name) for v in body.args)
    writer.peeled |= {value.name for value in made}
    scope.code.append(f"{', '.join(_at_edge(writer, v.name) for v in made)} = {name}({arguments})")


def peeled_stores(writer: RowEmitter, number: int | str, phase: Phase) -> list[str]:
    """Calls that store a phase's results at the edges."""
    calls = []
    for place, store in enumerate(phase.stores):
        operand = writer.kernel.operands[store.operand]
        letter, name = access_kind(operand, 1), f"edge_store_{number}_{place}"
        writer.scope.top.append(f'{name} = edge_tile.store("{operand.dtype.name}", "{letter}")')
        begin, stride = writer.bases[store.operand], writer.scope.stride(store.operand, letter)
        calls.append(f"{name}({begin}, edge, {_widened(writer, store.value)}, edge, columns{stride})")
    return calls


def with_peeled_element(writer: RowEmitter, use: Reduction, name: str, state: str) -> str:
    """The call that merges this thread's edge into the state of its whole vectors."""
    for define in (
        f"edge_reduce_{name} = reduce_tile(edge_tile, reduction_{name})",
        f"merge_{name} = combine_states(reduction_{name})",
    ):
        if define not in writer.scope.functions:
            writer.scope.functions.append(define)
    lifted = ", ".join(_widened(writer, value.name) for value in use.inputs)
    return f"merge_{name}({state}, edge_reduce_{name}({lifted}, edge, columns))"


def _at_edge(writer: RowEmitter, name: str) -> str:
    return f"{name}_edge" if name in writer.peeled else name


def _widened(writer: RowEmitter, name: str) -> str:
    """A value at the edges as a body computes with it."""
    scope, found = writer.scope, _at_edge(writer, name)
    stored = scope.stored.get(name)
    if name not in writer.peeled or stored is None or (stored is stored.compute and stored.kind != "b"):
        return found
    wide = f"{name}_edge_wide"
    if wide not in scope.ready:
        scope.ready.add(wide)
        kinds = signature([stored], [stored.compute])
        head = ["", "", f'@edge_tile.elementwise("{kinds}")', f"def widen_{found}({name}):", f"    return {name}"]
        scope.define(head)
        scope.code.append(f"{wide} = widen_{found}({found})")
    return wide
