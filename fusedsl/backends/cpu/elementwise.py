"""Elementwise kernels: a loop over the innermost axis inside a loop over units, (outer index, chunk of the axis).

In the schedule "tiles" a unit is a block of two axes: the cache lines of a transposed array are reused by the next row
of the block.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...kernel_ir.byte_tables import ENTRIES, ByteTable, byte_tables, looked_up
from ...kernel_ir.kernel import KernelIR
from . import common_arguments, loop_splitting
from .memmove_loops import memmove_calls
from .roles import ScratchArray
from .schedule import CHUNK, TILE
from .scratch import allocate, free
from .source_text import (
    address,
    header,
    increment,
    indented,
    load_line,
    parameters,
    store_line,
    stride,
    times,
    unravel_index,
)

Steps = Mapping[int, str]  # innermost strides that are literals, by operand


def emit(kernel: KernelIR, steps: str = "", tiled: bool = False) -> tuple[str, list[ScratchArray]]:
    """The source of a map kernel, and its scratch arrays: its tables.

    `steps` are the innermost strides that are literals (schedule.py).
    """
    inner = kernel.axes - 1
    literals = {k: word for k, word in enumerate(steps.split(",")) if word != "s"} if steps else {}
    tables = list(byte_tables(kernel).values())
    arrays = [ScratchArray(_label(table), table.result.dtype, str(ENTRIES)) for table in tables]
    lines = [*parameters(kernel), *allocate(arrays)]
    for table in tables:
        lines += fill(kernel, table)
    if inner < 0:
        lines += ["for unit in range(begin, end):", *indented(element(kernel, (), "", {}))]
    elif tiled:
        chunk, rows = TILE
        lines += [f"chunks = (n{inner} + {chunk - 1}) // {chunk}", f"blocks = (n{inner - 1} + {rows - 1}) // {rows}"]
        lines += ["for unit in range(begin, end):", *indented(tile(kernel, inner, literals))]
    else:
        lines += [f"chunks = (n{inner} + {CHUNK - 1}) // {CHUNK}", "outer = begin // chunks"]
        lines += [f"first = (begin - outer * chunks) * {CHUNK}", *decode_outer(inner)]
        lines += ["for unit in range(begin, end):", *indented([*strip(kernel, inner, literals), *next_strip(inner)])]
    title = header(kernel, "tiles" if tiled else "map")
    lines += free(arrays)
    return "\n".join([*title, "", "", "def kernel(slots, begin, end):", *indented(lines), ""]), arrays


def fill(kernel: KernelIR, table: ByteTable) -> list[str]:
    """Compute the entries of a table, in the versions of functions that the elements of an array would get."""
    byte = f"{table.argument.name} = {table.stored.name}_of(byte)"
    put = f"{_label(table)}_put({_label(table)}_at, byte, {table.result.name})"
    each = [byte, *table.entry.lines, put]
    if kernel.batch_invariant_width:
        return common_arguments.counted_loop(each, "byte", "0", str(ENTRIES))
    return common_arguments.loop(each, common_arguments.floats(kernel), "byte", "0", str(ENTRIES))


def _label(table: ByteTable) -> str:
    return f"{table.result.name}_table"


def strip(kernel: KernelIR, inner: int, known: Steps) -> list[str]:
    """One unit: a chunk of the innermost axis."""
    return [f"count = smaller({CHUNK}, n{inner} - first)", *line(kernel, inner, known)]


def next_strip(inner: int) -> list[str]:
    """Step to the next chunk, without a division."""
    if not inner:
        return [f"first = first + {CHUNK}"]
    return [f"first = first + {CHUNK}", f"if first >= n{inner}:", "    first = 0", *indented(increment(inner))]


def tile(kernel: KernelIR, inner: int, known: Steps) -> list[str]:
    """One unit: a block of the two innermost axes."""
    chunk, rows = TILE
    row = f"i{inner - 1}"
    lines = ["outer = unit // chunks", f"first = (unit - outer * chunks) * {chunk}"]
    lines += [f"count = smaller({chunk}, n{inner} - first)"]
    lines += [f"top = outer % blocks * {rows}", "outer = outer // blocks", *decode_outer(inner - 1)]
    return [
        *lines,
        f"for {row} in range(top, smaller(top + {rows}, n{inner - 1})):",
        *indented(line(kernel, inner, known)),
    ]


def decode_outer(axes: int) -> list[str]:
    """The indices of the first `axes` axes from the flat index `outer`."""
    return unravel_index("outer", range(axes), {axis: f"i{axis}" for axis in range(axes)}) if axes else []


def line(kernel: KernelIR, inner: int, known: Steps) -> list[str]:
    """`count` elements of the innermost axis from `first`: base pointers, invariant loads, and the loop."""
    indices = {axis: f"i{axis}" for axis in range(inner)}
    lines = [address(kernel, k, f"a{k}", f"p{k}", {**indices, inner: "first"}) for k in range(len(kernel.operands))]
    for position in kernel.positions:
        if position.axis != inner:
            lines.append(f"{position.value.name} = {position.value.dtype}(i{position.axis})")
    hoisted = tuple(load for load in kernel.loads if kernel.operands[load.operand].strides[inner] == "0")
    lines += [load_line(load, f"a{load.operand}", "0") for load in hoisted]
    loaded = common_arguments.floats(kernel)

    def innermost(each: list[str], index: str, first: str, end: str) -> list[str]:
        if moved := memmove_calls(kernel, each, index, first, end):
            return moved
        if kernel.batch_invariant_width:  # no element may choose the version of its neighbours
            return common_arguments.counted_loop(each, index, first, end)
        return common_arguments.loop(each, loaded, index, first, end)

    return [*lines, *loop_splitting.loop(kernel, element(kernel, hoisted, "i", known), "i", "count", innermost)]


def element(kernel: KernelIR, hoisted: tuple, index: str, known: Steps) -> list[str]:
    """One element: loads, body, stores. Without an index the arrays have one element."""
    (phase,) = kernel.phases
    inner = kernel.axes - 1
    base = "a" if index else "p"

    def index_of(operand: int) -> str:
        return times(index, known.get(operand) or stride(kernel, operand, inner)) if index else ""

    tables = byte_tables(kernel)
    body = looked_up(phase.element, tables.values())
    read = {value.name for value in body.args} | {store.value for store in phase.stores}
    lines = [
        load_line(load, f"{base}{load.operand}", index_of(load.operand))
        for load in kernel.loads
        if load not in hoisted and (not tables or load.value.name in read)
    ]
    operands = {load.value.name: load.operand for load in kernel.loads}
    for name, table in tables.items():
        k = operands[table.argument.name]
        lines.append(f"{name} = {_label(table)}_get({_label(table)}_at, byte{k}({base}{k}, {index_of(k) or '0'}))")
    for position in kernel.positions:
        if index and position.axis == inner:
            lines.append(f"{position.value.name} = {position.value.dtype}(first + {index})")
    lines += body.lines
    for store in phase.stores:
        lines.append(store_line(store, f"{base}{store.operand}", index_of(store.operand)))
    return lines
