"""Byte tables: values of an element body that depend on one 8-bit element alone, as tables of 256 entries.

A byte has 256 values, so what is computed of it has at most as many: a table holds them, and each element looks its
own up. An entry is computed by the same instructions as the element would be, so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir.types import DType
from .instruction import Instruction, needed, result_type
from .kernel import KernelIR
from .phase import Body, Value

ENTRIES = 256
MOST_TABLES = 4  # of one body: their entries share a block's memory with all else
MOST_BYTES = MOST_TABLES * ENTRIES * 8
Pays = Callable[[Sequence[Instruction], DType], bool]


@dataclass(frozen=True)
class ByteTable:
    """`entry` computes `result` of one byte `argument`, an element `stored` as 8 bits; its further arguments are the
    same for all elements."""

    argument: Value
    stored: DType
    result: Value
    entry: Body


def byte_loads(kernel: KernelIR) -> dict[str, DType]:
    """The loads of a map that have 8 bits and differ from element to element, by name."""
    read = {load.value.name: kernel.operands[load.operand] for load in kernel.loads}
    return {name: o.dtype for name, o in read.items() if o.dtype.itemsize == 1 and o.strides[-1:] not in ("", "0")}


def tables_of(kernel: KernelIR, body: Body, pays: Pays) -> tuple[str, ...]:
    """The names of the values of a body that are worth a table, those of the longest chains first.

    They are what is computed of one byte, and read by stores or with other values. `pays` says whether a chain of
    instructions, whose value has this type, takes longer than looking its value up.
    """
    source = _sources(kernel, body)
    fused = _contracted(body, source)
    read = {value.name for value in body.results}
    read |= {n for i in body.instructions if not source[i.target] or i.target in fused for n in i.names}
    worth: list[tuple[int, str]] = []
    for i in body.instructions:
        if source[i.target] and i.target in read - fused:
            chain, d = _chain(body, i.target), result_type(i)
            if d is not None and pays(chain, d):
                worth.append((-len(chain), i.target))
    return tuple(name for _, name in sorted(worth)[:MOST_TABLES])


def byte_tables(kernel: KernelIR) -> dict[str, ByteTable]:
    """The tables of a kernel, by the values that they have."""
    bodies = [phase.element for phase in kernel.phases]
    return {name: _table(kernel, body, name) for body in bodies for name in kernel.tables if name in body.targets}


def looked_up(body: Body, tables: Iterable[ByteTable]) -> Body:
    """The body that takes what these tables have of an element as arguments."""
    by_name = {table.result.name: table.result for table in tables}
    rest = tuple(i for i in body.instructions if i.target not in by_name)
    kept = needed(rest, {value.name for value in body.results})
    given = {value.name: value for value in body.args} | by_name
    arguments = tuple(value for name, value in given.items() if name in kept)
    return Body(arguments, body.results, tuple(i for i in rest if i.target in kept))


def without_tables(kernel: KernelIR) -> KernelIR:
    """The kernel without the work that its tables save, for estimates: bodies have what is left for each element."""
    if not kernel.tables:
        return kernel
    tables = byte_tables(kernel)
    rest = (looked_up(p.element, [t for name, t in tables.items() if name in p.element.targets]) for p in kernel.phases)
    return replace(kernel, phases=tuple(replace(p, element=body) for p, body in zip(kernel.phases, rest)))


def _table(kernel: KernelIR, body: Body, name: str) -> ByteTable:
    source = _sources(kernel, body)[name]
    (byte,) = (v for v in body.args if v.name == source)
    chain = _chain(body, name)
    read = {n for i in chain for n in i.names}
    d = result_type(chain[-1])
    assert d is not None
    fixed = tuple(v for v in body.args if v.name in read and v != byte)
    return ByteTable(byte, byte_loads(kernel)[source], Value(name, d), Body((byte, *fixed), (Value(name, d),), chain))


def _chain(body: Body, name: str) -> tuple[Instruction, ...]:
    """The instructions that compute a value."""
    names = needed(body.instructions, {name})
    return tuple(i for i in body.instructions if i.target in names)


def _sources(kernel: KernelIR, body: Body) -> Mapping[str, str]:
    """The byte that each value is computed from; "" for one that depends on several elements, on none, or on memory."""
    bytes_, fixed = byte_loads(kernel), {value.name for value in kernel.scalars}
    source = {value.name: value.name if value.name in bytes_ else "" for value in body.args}
    for i in body.instructions:
        varying = {source[name] for name in i.names if name not in fixed}
        if not varying and i.op != "fetch":
            fixed.add(i.target)
        source[i.target] = varying.pop() if len(varying) == 1 and i.op != "fetch" else ""
    return source


def _contracted(body: Body, source: Mapping[str, str]) -> set[str]:
    """Products of a byte that a sum with other values may add unrounded, as compilers contract them: they stay."""
    fused: set[str] = set()
    sums: set[str] = set()
    for i in reversed(body.instructions):
        if i.dtype.kind != "f":
            continue
        if i.op in ("multiply", "negative") and source[i.target] and i.target in sums:
            fused.add(i.target)
        if i.target in fused or (i.op in ("add", "subtract") and not source[i.target]):
            sums |= set(i.names)
    return fused
