"""cvt: between integers and floats of every width, with their roundings and saturations."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from .numbers import BF16, F2, F4, F8, directed, flushed, saturated
from .syntax import Instruction, Unsupported

KINDS = {
    **{f"u{b}": np.dtype(f"u{b // 8}") for b in (8, 16, 32, 64)},
    **{f"b{b}": np.dtype(f"u{b // 8}") for b in (8, 16, 32, 64)},
    **{f"s{b}": np.dtype(f"i{b // 8}") for b in (8, 16, 32, 64)},
    "f16": F2,
    "f32": F4,
    "f64": F8,
    "bf16": BF16,
    "pred": np.dtype(bool),
    "f16x2": np.dtype("u4"),
    "bf16x2": np.dtype("u4"),
    "e4m3x2": np.dtype("u2"),
    "e5m2x2": np.dtype("u2"),
    "tf32": np.dtype("u4"),
}
PAIRS = {"f16x2": F2, "bf16x2": BF16, "e4m3x2": np.dtype(ml_dtypes.float8_e4m3fn),
         "e5m2x2": np.dtype(ml_dtypes.float8_e5m2)}  # fmt: skip
_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_WORDS = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "satfinite", "relu")


def floating(kind: np.dtype) -> bool:
    return kind.kind == "f" or kind == BF16


def conversion(ins: Instruction):
    """The function of a cvt's sources (one, or high and low of a pair), and their type."""
    ins.allow(*_WORDS)
    to, source = ins.types
    words = set(ins.modifiers)
    kind = KINDS[source]
    if source in PAIRS:
        if to != "f16x2":
            raise Unsupported(ins.text)
        return (lambda word: _widened(PAIRS[source], word)), kind
    if to in PAIRS:
        return _pair(PAIRS[to], words), kind
    return (lambda x: convert(x, KINDS[to], words, to)), kind


def convert(x, to: np.dtype, words: set[str], name: str = ""):
    """x as another type."""
    source = x.dtype
    rounding = next((w for w in words if w in _TO_INTEGER), None)
    if name == "tf32":
        return _tf32(x)
    if "ftz" in words and source == F4:
        x = flushed(x)
    if not floating(source):
        return _from_integer(x, to, words)
    if not floating(to):
        return _to_integer(x, to, _TO_INTEGER[rounding or "rzi"])
    if rounding:
        x = _TO_INTEGER[rounding](x).astype(source)
    return _between_floats(x, to, words)


def _between_floats(x, to: np.dtype, words: set[str]):
    direction = next((w for w in words if w in ("rz", "rm", "rp")), None)
    if direction and (x.dtype, to) == (F8, F4):
        x = directed(x, np.zeros_like(x), direction)
    elif direction and to.itemsize < x.dtype.itemsize:
        raise Unsupported(f"cvt.{direction} to {to}")
    elif x.dtype == F8 and to == BF16:
        raise Unsupported("cvt.bf16.f64")
    if (x.dtype, to) == (F4, BF16):
        x = flushed(x)  # by F2F.BF16.F32, which may come of it; pairs are rounded by F2FP
    x = x.astype(to)
    if "ftz" in words and to == F4:
        x = flushed(x)
    if "relu" in words:
        x = np.where(x > 0, x, to.type(0))
    return saturated(x) if "sat" in words else x


def _from_integer(x, to: np.dtype, words: set[str]):
    if floating(to):
        if words & {"rz", "rm", "rp"}:
            return _directed_integer(x, to, next(iter(words & {"rz", "rm", "rp"})))
        return x.astype(to)
    if "sat" in words:
        info, own = np.iinfo(to), np.iinfo(x.dtype)
        low, high = max(info.min, own.min), min(info.max, own.max)
        x = np.clip(x, x.dtype.type(low), x.dtype.type(high))
    return x.astype(to)


def _directed_integer(x, to: np.dtype, rounding: str):
    """Exact in two parts: integers of 64 bits are a multiple of 2**32 and a rest."""
    if to == F8 and x.dtype.itemsize < 8:
        return x.astype(F8)
    if to != F4:
        raise Unsupported(f"cvt.{rounding} of integers to {to}")
    high = (x >> x.dtype.type(32)).astype(F8) * 2.0**32 if x.dtype.itemsize == 8 else np.zeros(np.shape(x))
    low = (x & x.dtype.type(0xFFFFFFFF)).astype(F8) if x.dtype.itemsize == 8 else x.astype(F8)
    s = high + low
    return directed(s, (high - s) + low, rounding)


def _to_integer(x, to: np.dtype, rounding):
    """Rounded, saturated; NaN becomes 0."""
    info = np.iinfo(to)
    wide = rounding(x.astype(F8))
    inside = np.where(np.isnan(wide) | (wide >= float(info.max)) | (wide <= float(info.min)), 0.0, wide).astype(to)
    inside = np.where(wide >= float(info.max), to.type(info.max), inside)
    return np.where(wide <= float(info.min), to.type(info.min), inside)


def _pair(to: np.dtype, words: set[str]):
    """Two numbers in one word, the first operand in its upper half."""

    def one(x):
        if "ftz" in words:
            x = flushed(x)
        if "satfinite" in words:
            largest = float(ml_dtypes.finfo(to).max)
            x = np.where(np.isnan(x), x, np.clip(x, F4.type(-largest), F4.type(largest)))
        if "relu" in words:
            x = np.where(x > 0, x, F4.type(0))
        return np.atleast_1d(x.astype(to)).view(f"u{to.itemsize}")

    if words & {"rz", "rm", "rp"}:
        raise Unsupported(f"directed rounding to pairs of {to}")
    word = np.dtype(f"u{2 * to.itemsize}")

    def pack(high, low):
        return (one(high).astype(word) << word.type(8 * to.itemsize)) | one(low)

    return pack


def _tf32(x):
    """float32 with 10 bits of fraction, ties away from zero (cvt.rna)."""
    return (x.view("u4") + np.uint32(0x1000)) & np.uint32(0xFFFFE000)


def _widened(source: np.dtype, word):
    """Two float8 numbers as two of float16."""
    octets = np.atleast_1d(word).reshape(-1, 1).view(np.uint8)
    return octets.view(source).astype(F2).view("u4").reshape(-1)
