"""Threads of a skinny layout: which rows and steps a warp has, and its lanes."""

from __future__ import annotations

from ..compiler.numba_backend import I32, Emitter, ir
from .layout import SkinnyLayout


def warp_place(layout: SkinnyLayout, e: Emitter) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
    """(number along the narrow rows, number among the warps with its rows, g, t) of a thread's warp and lane."""
    b, lane, warp = e.builder, lane_index(e), e.builder.lshr(e.special_register("tid.x"), I32(5))
    others = I32(layout.warps_streamed * layout.warps_k)
    return b.udiv(warp, others), b.urem(warp, others), b.lshr(lane, I32(2)), b.and_(lane, I32(3))


def warp_k(layout: SkinnyLayout, e: Emitter, warp: ir.Value) -> ir.Value:
    """A warp's number along the steps."""
    return e.builder.urem(warp, I32(layout.warps_k))


def lane_index(e: Emitter) -> ir.Value:
    return e.builder.and_(e.special_register("tid.x"), I32(31))
