"""int32 compares of column indices with row values: indices are below 2^31, so the row value may be clamped."""

from __future__ import annotations

from dataclasses import replace

from ....ir.types import INT32, INT64
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body, Value

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
NARROWED = "{}_int32"  # the name of a value that is narrowed to int32
CLAMP_TO_INT32 = [
    "",
    "",
    '@uniform("int64 -> int32")',
    "def clamp_to_int32(a):",
    "    return int32(minimum(maximum(a, -1), 2147483647))",
]


def narrow_positions(kernel: KernelIR, body: Body) -> tuple[Body, tuple[str, ...], tuple[str, ...]]:
    """(the body with such comparisons in int32, the positions and the row values that it takes so).

    No position is less than 0 or as large as 2**31 - 1 where offsets have 32 bits: a row value that is clamped to -1
    … 2**31 - 1 compares with all of them as before.
    """
    along = {p.value.name for p in kernel.positions if p.axis >= kernel.row_axes and p.value.dtype is INT64}
    if kernel.index64 or kernel.column_axes > 1 or not along:
        return body, (), ()
    ones = {v.name for v in body.args if v.dtype is INT64} - _elements(kernel)
    instructions, narrowed = [], set()
    for i in body.instructions:
        if i.op in COMPARISONS and i.reads_names_only and not (along.isdisjoint(i.names) or ones.isdisjoint(i.names)):
            narrowed |= set(i.names)
            i = replace(i, args=tuple(map(NARROWED.format, i.names)), dtype=INT32)
        instructions.append(i)
    read = {name for i in instructions for name in i.names} | {value.name for value in body.results}
    args = [v for v in body.args if v.name in read or v.name not in narrowed]
    args += [Value(NARROWED.format(v.name), INT32) for v in body.args if v.name in narrowed]
    positions = tuple(v.name for v in body.args if v.name in narrowed & along)
    values = tuple(v.name for v in body.args if v.name in narrowed - along)
    return replace(body, args=tuple(args), instructions=tuple(instructions)), positions, values


def _elements(kernel: KernelIR) -> set[str]:
    """Names of which each element of a row has its own."""
    names = {x.value.name for x in kernel.element_loads}
    names |= {p.value.name for p in kernel.positions if p.axis >= kernel.row_axes}
    parts = [part for phase in kernel.phases for part in phase.passes]
    return names | {value.name for part in parts for body in part.bodies for value in body.results}
