"""Addresses of rows of a transposed tile, its shared memory, and words of several elements."""

from __future__ import annotations

from ....ir.types import DType
from ..compiler.numba_backend import I8, I32, I64, emitted, ir, types


@emitted(types.int64)
def shared_bytes(e, *, size: int):
    """`at()`: the address of so many bytes of shared memory, others at each place in the source."""
    return e.builder.ptrtoint(e.shared_array(I8, size), I64)


def clamp_row(b: ir.IRBuilder, row: ir.Value, count: ir.Value, width: int) -> ir.Value:
    """A place from which `width` elements are there."""
    last = b.sub(count, I32(width))
    return b.select(b.icmp_signed("<", row, last), row, last)


def offset_address(b: ir.IRBuilder, address: ir.Value, steps: ir.Value, stride: ir.Value, kind: DType) -> ir.Value:
    """The address so many strides of elements further."""
    return b.add(address, b.mul(b.mul(b.sext(steps, I64), stride), I64(kind.itemsize)))


def join_elements(b: ir.IRBuilder, size: int, elements: list[ir.Value]) -> ir.Value:
    """Elements of `size` bytes as a word; a single one as it is."""
    if len(elements) == 1:
        return elements[0]
    word = b.zext(elements[0], I32)
    for k, element in enumerate(elements[1:], 1):
        word = b.or_(word, b.shl(b.zext(element, I32), I32(8 * size * k)))
    return word


def element_of_word(b: ir.IRBuilder, size: int, count: int, word: ir.Value, k: int) -> ir.Value:
    """Element k of the `count` in a word."""
    return word if count == 1 else b.trunc(b.lshr(word, I32(8 * size * k)), ir.IntType(8 * size))
