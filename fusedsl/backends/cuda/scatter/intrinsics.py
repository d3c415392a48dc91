"""Intrinsics of scatters: atomics that merge a tile's elements at computed indices; no order changes their result."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import INT64, DType, dtype
from ..compiler.numba_backend import I32, I64, VOID, Emitter, emitted, ir, types
from ..tile.tile import Tile

GPU_GLOBAL, CTA_SHARED = "gpu.global", "cta.shared"  # scopes and state spaces of atomics
ADDRESS = {GPU_GLOBAL: "l", CTA_SHARED: "r"}  # registers of their addresses
QUIET_NAN = {32: 0x7FC00000, 64: 0x7FF8 << 48}  # larger than every number, as a signed integer


def merge_tile(tile: Tile, name: str, fold: str) -> Callable:
    """`merge(address, indices, values, left)`: merge each element of which so many are left; negative indices none."""
    kind = dtype(name)

    @emitted(types.void)
    def emit(e, address, indices, values, left, *, kinds):
        b = e.builder
        own = tile.widened(e, INT64, indices, kinds[1], types.int64)
        given = tile.widened(e, kind, values, kinds[2], _held(kind))
        for number, (index, value) in enumerate(zip(own, given)):
            there = b.icmp_signed("<", tile.offset_of(e, number, left.type), left)
            wanted = b.and_(there, b.icmp_signed(">=", index, I64(0)))
            with b.if_then(wanted):
                merge(e, kind, fold, b.add(address, b.mul(index, I64(kind.itemsize))), value)

    return emit


def _held(kind: DType) -> types.Type:
    return getattr(types, kind.name)


def merge(e: Emitter, kind: DType, fold: str, address: ir.Value, value: ir.Value, memory: str = GPU_GLOBAL) -> None:
    """One atomic, in memory or on the bins of a block: a sum, or a larger or smaller element."""
    if kind.kind == "f" and fold == "max":
        _merge_larger(e, kind, address, value, memory)
        return
    letter = {"f": "f", "i": "s", "u": "u"}[kind.kind]
    suffix = f"{'u' if fold == 'sum' and letter == 's' else letter}{kind.bits}"
    word = {"f32": "f", "f64": "d"}.get(f"{letter}{kind.bits}", "l" if kind.bits == 64 else "r")
    text = f"red.relaxed.{memory}.{'add' if fold == 'sum' else fold}.{suffix} [$0], $1;"
    e.asm(VOID, text, f"{ADDRESS[memory]},{word},~{{memory}}", [address, value], side_effect=True)


def _merge_larger(e: Emitter, kind: DType, address: ir.Value, value: ir.Value, memory: str) -> None:
    """The larger of two floats by their bits: as signed integers if the value is positive, else as unsigned ones.

    Negative numbers are the smaller, the larger their bits. A NaN has to be positive, in memory too.
    """
    b, word = e.builder, I32 if kind.bits == 32 else I64
    bits = b.bitcast(value, word)
    bits = b.select(b.fcmp_unordered("uno", value, value), word(QUIET_NAN[kind.bits]), bits)
    letter = "r" if kind.bits == 32 else "l"
    lines = [".reg .pred below;", f"setp.lt.s{kind.bits} below, $1, 0;"]
    lines += [f"@!below red.relaxed.{memory}.max.s{kind.bits} [$0], $1;"]
    lines += [f"@below red.relaxed.{memory}.min.u{kind.bits} [$0], $1;"]
    text = "{" + " ".join(lines) + "}"
    e.asm(VOID, text, f"{ADDRESS[memory]},{letter},~{{memory}}", [address, bits], side_effect=True)
