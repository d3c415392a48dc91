"""Arrays as callers have them: every dtype's hard values, every layout of memory, and outputs with guards around."""

from __future__ import annotations

import math
import random

import ml_dtypes
import numpy as np

from fusedsl.ir.types import DType, numpy_dtype

SENTINEL = 0xA5  # what outputs and the bytes around them hold before a call


def numbers(r: random.Random, shape: tuple[int, ...], d: DType) -> np.ndarray:
    """Random elements: tame ones, ties, wide ranges, edges of the type, zeros of both signs, infinities and NaN."""
    draw = np.random.default_rng(r.getrandbits(32))
    if d.kind == "b":
        return np.asarray(draw.integers(0, 2, shape)).astype(bool)
    if d.kind != "f":
        return np.asarray(_integers(r, draw, shape, d), d.name)
    kind = r.choices(("normal", "whole", "ties", "positive", "wide", "tiny", "special"), (8, 3, 1, 3, 1, 1, 3))[0]
    x = draw.standard_normal(shape)
    if kind == "whole":
        x = np.round(3 * x)
    elif kind == "ties":
        x = draw.choice([-1.5, 0.0, 0.25, 2.0], shape)
    elif kind == "positive":
        x = np.abs(x) + 0.125
    elif kind == "wide":
        x = x * 10.0 ** draw.uniform(-4, 4, shape)
    elif kind == "tiny":  # half of them subnormal
        x = x * float(ml_dtypes.finfo(numpy_dtype(d)).tiny)
    elif kind == "special":
        x = np.where(draw.random(shape) < 0.25, draw.choice(_specials(d), shape), x)
    with np.errstate(over="ignore"):
        return np.asarray(x).astype(np.float32 if d.bits < 32 else np.float64).astype(numpy_dtype(d))


def _specials(d: DType) -> list[float]:
    info = ml_dtypes.finfo(numpy_dtype(d))
    edges = [float(info.max), float(info.tiny), float(info.smallest_subnormal)]
    return [0.0, -0.0, math.inf, -math.inf, *[math.nan] * 4, 1.0, -1.0, *edges, *(-e for e in edges)]


def _integers(r: random.Random, draw, shape, d: DType) -> np.ndarray:
    info = np.iinfo(d.name)
    kind = r.choices(("small", "few", "full", "edges"), (5, 2, 2, 1))[0]
    low, high = {"small": (-9 if d.kind == "i" else 0, 10), "few": (0, 4)}.get(kind, (info.min, info.max))
    if kind == "edges":
        values = [v for v in (info.min, info.min + 1, -1, 0, 1, 2, info.max - 1, info.max) if v >= info.min]
        return np.array(values, d.name)[draw.integers(0, len(values), shape)]
    return draw.integers(low, high, shape, d.name, endpoint=kind == "full")


LAYOUTS = ("C", "C", "C", "F", "stepped", "negative", "permuted", "offset", "padded", "zero", "unaligned", "swapped")
LAYOUTS += ("locked", "strange units")
WRITEABLE = ("C", "F", "stepped", "negative", "permuted", "offset", "padded", "strange units")


def laid_out(r: random.Random, x: np.ndarray, layout: str) -> np.ndarray:
    """The array in another layout of memory; `zero` repeats its first elements along an axis."""
    axis = r.randrange(x.ndim) if x.ndim else 0
    if layout == "zero" and x.ndim and x.size:
        return np.broadcast_to(x.take([0], axis), x.shape)
    if layout == "swapped" and x.dtype.kind in "iuf" and x.dtype.isbuiltin == 1:
        return x.astype(x.dtype.newbyteorder())
    if layout == "locked":
        x = np.array(x)
        x.flags.writeable = False
        return x
    made = room(r, x.shape, x.dtype, layout, axis)
    made[...] = x
    return made


def room(r: random.Random, shape, dtype, layout: str, axis: int = 0) -> np.ndarray:
    """Memory of a layout, part of a larger buffer, all of it filled with the sentinel."""
    shape, itemsize = tuple(shape), np.dtype(dtype).itemsize
    held = list(shape)
    if shape and layout in ("stepped", "padded"):
        held[axis] = 2 * shape[axis] if layout == "stepped" else shape[axis] + 3
    order = list(range(len(shape)))
    if layout == "F":
        order.reverse()
    elif layout == "permuted":
        r.shuffle(order)
    before = r.randrange(1, 5) * itemsize if layout == "offset" else 1 if layout == "unaligned" else 16 * itemsize
    count = math.prod(held)
    buffer = np.full(before + count * itemsize + 16 * itemsize, SENTINEL, np.uint8)
    line = buffer[before : before + count * itemsize].view(dtype)
    made = line.reshape([held[a] for a in order]).transpose(np.argsort(order)) if shape else line.reshape(())
    if not shape:
        return made
    cut = [slice(None)] * len(shape)
    if layout == "stepped":
        cut[axis] = slice(None, None, 2)
    elif layout == "padded":
        cut[axis] = slice(1, 1 + shape[axis])
    elif layout == "negative":
        cut[axis] = slice(None, None, -1)
    made = made[tuple(cut)]
    if layout == "strange units" and 1 in shape:
        strides = tuple(7 * itemsize if n == 1 else s for n, s in zip(shape, made.strides))
        made = np.ndarray(shape, dtype, buffer, before, strides)
    return made


def root(x: np.ndarray) -> np.ndarray:
    """The array that owns the memory of a view."""
    while isinstance(getattr(x, "base", None), np.ndarray):
        x = x.base
    return x


def again(x: np.ndarray) -> np.ndarray:
    """A view like this one into a copy of all the memory that it is a view of; one of no element is its own."""
    if not x.size:
        return x
    whole = root(x)
    start = x.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    made = np.ndarray(x.shape, x.dtype, np.frombuffer(bytearray(whole.tobytes("A")), np.uint8), start, x.strides)
    made.flags.writeable = x.flags.writeable
    return made


def around(x: np.ndarray) -> bytes:
    """The bytes of the buffer that hold no element of a view."""
    whole = root(x)
    copy = np.frombuffer(whole.tobytes(), np.uint8).copy()
    start = x.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    offsets = np.full((1,) * x.ndim, start, np.int64)
    for axis, (n, stride) in enumerate(zip(x.shape, x.strides)):
        offsets = offsets + np.arange(n).reshape([-1 if a == axis else 1 for a in range(x.ndim)]) * stride
    for k in range(x.dtype.itemsize if x.size else 0):
        copy[offsets.ravel() + k] = 0
    return copy.tobytes()
