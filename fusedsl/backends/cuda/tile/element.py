"""Elements in memory and in bodies: packed pairs of 16-bit floats, bools as bytes, single loads and stores."""

from __future__ import annotations

from ....ir.types import DType, dtype
from ..compiler.numba_backend import I8, I32, Emitter, emitted, ir, numba_type, types
from ..math import convert
from .element_registers import is_packed
from .memory import load_predicated, load_vector, store_vector


def narrowed_value(e: Emitter, kind: DType, element: ir.Value, source: types.Type) -> ir.Value:
    """A body's value in the compute type of an array's elements; bool as a byte."""
    element = e.cast(element, source, numba_type(kind.compute.name))
    return e.builder.zext(element, I8) if kind.kind == "b" else element


def stored_elements(e: Emitter, kind: DType, elements: list[ir.Value]) -> list[ir.Value]:
    """Values of the compute type as they are stored one by one; neighbours are converted together where they can be."""
    if kind is kind.compute:
        return elements
    if kind.storage:
        return convert.narrow_bytes(e, elements, kind.name)
    return [convert.narrow(e, element, kind.name) for element in elements]


def pair(e: Emitter, kind: DType, low: ir.Value, high: ir.Value) -> ir.Value:
    """Two float32 rounded into the halves of a word, in one instruction where there is one."""
    if e.cc >= (8, 0):
        if kind.name == "bfloat16":
            return convert.bfloat16_pair(e, low, high)
        return e.asm(I32, "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,f,f", [low, high])
    b = e.builder
    low, high = (b.zext(convert.narrow(e, half, kind.name), I32) for half in (low, high))
    return b.or_(low, b.shl(high, I32(16)))


def paired(e: Emitter, kind: DType, elements: list[ir.Value]) -> list[ir.Value]:
    """Single 16-bit floats in pairs, where a vector of their number is held so."""
    if not is_packed(kind, len(elements)):
        return elements
    b, wide = e.builder, [e.builder.zext(element, I32) for element in elements]
    return [b.or_(low, b.shl(high, I32(16))) for low, high in zip(wide[::2], wide[1::2])]


def unpaired(e: Emitter, kind: DType, elements: list[ir.Value], width: int) -> list[ir.Value]:
    if not is_packed(kind, width):
        return elements
    b = e.builder
    halves = [(word, b.lshr(word, I32(16))) for word in elements]
    return [b.trunc(half, ir.IntType(16)) for pair in halves for half in pair]


@emitted(lambda name: numba_type(dtype(name).compute.name))
def load_value(e, at, *, name: str):
    """`load(address)`: one element, widened."""
    return widened_value(e, dtype(name), load_vector(e, dtype(name), 1, at, None)[0])


def _fetched_type(name: str, kinds) -> types.Type | None:
    return numba_type(dtype(name).compute.name) if kinds == (types.int64, types.boolean) else None


@emitted(_fetched_type)
def fetch(e, address, wanted, *, name: str):
    """`fetch(address, wanted)`: one element of an array that is only read, widened; 0 where it is not wanted."""
    return widened_value(e, dtype(name), load_predicated(e, dtype(name), address, wanted))


def widened_value(e: Emitter, kind: DType, bits: ir.Value) -> ir.Value:
    """An element as bodies compute with it."""
    if kind.kind == "b":
        return e.builder.icmp_unsigned("!=", bits, I8(0))
    return bits if kind is kind.compute else convert.widen(e, bits, kind.name)


@emitted(types.void)
def store_value(e, at, element, when, *, kinds, name: str):
    """`store(address, value, wanted)`: one element, if it is wanted."""
    kind = dtype(name)
    stored = stored_elements(e, kind, [narrowed_value(e, kind, element, kinds[1])])
    with e.builder.if_then(e.cast(when, kinds[2], types.boolean)):
        store_vector(e, kind, 1, at, stored, None)


@emitted(lambda kinds: types.UniTuple(kinds[0].dtype, len(kinds[0]) + len(kinds[1])))
def concat_tiles(e, a, b, *, kinds):
    """The elements of two tiles of one type, as one tile."""
    return e.unpack(a, len(kinds[0])) + e.unpack(b, len(kinds[1]))
