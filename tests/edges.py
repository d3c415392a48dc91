"""Numbers at the edges of each dtype, and operations of one dtype: what tests of undefined behaviour are made of."""

from __future__ import annotations

import ml_dtypes
import numpy as np

INTEGERS = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
FLOATS = ("float16", "bfloat16", "float32", "float64")
# Each maps one or two integers of a dtype D to an integer of it.
OPERATIONS = (
    *("({x} + {y})", "({x} - {y})", "({x} * {y})", "({x} // {y})", "({x} % {y})", "fmod({x}, {y})", "({x} ** {y})"),
    *("({x} & {y})", "({x} | {y})", "({x} ^ {y})", "({x} << {y})", "({x} >> {y})"),
    *("minimum({x}, {y})", "maximum({x}, {y})", "where({x} < {y}, {y}, {x})", "D({x} == {y})", "D({x} >= {y})"),
    *("D({x} / {y})", "D(float32({x}))", "D(int8({x}))", "D(uint32({x}))", "(-{x})", "(~{x})", "abs({x})", "sign({x})"),
)


def edges(dtype: str) -> np.ndarray:
    """The numbers of a dtype at which operations on its integers, its shifts and its casts change."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype not in INTEGERS:
        return _floats(dtype)
    kind = np.iinfo(dtype)
    width, half = kind.bits, kind.max // 2
    found = {0, 1, 2, 3, width - 1, width, width + 1, half, half + 1, kind.max - 1, kind.max}
    if kind.min:
        found |= {-1, -2, -3, -width, kind.min, kind.min + 1}
    return np.array(sorted(found), dtype)


def _floats(dtype: str) -> np.ndarray:
    """Special numbers, halves, and what stands on either side of the ends of each width of integers."""
    real = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype).type
    with np.errstate(over="ignore"):
        powers = np.array([s * 2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1)]).astype(real)
        plain = np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -2.5, 3.0, 1e30, -1e30, 1e300, np.inf, np.nan])
        beside = [np.nextafter(powers, real(towards)) for towards in (np.inf, -np.inf)]
        return np.concatenate([plain.astype(real), -plain[-2:].astype(real), powers, *beside])


def combined(*axes: np.ndarray) -> list[np.ndarray]:
    """All combinations of one number of each, as arrays of one axis."""
    return [np.ascontiguousarray(grid.ravel()) for grid in np.meshgrid(*axes, indexing="ij")]


def nested(dtype: str) -> list[str]:
    """Every operation with every other as its first and as its second operand: texts of x, y and z."""
    found = []
    for outer in OPERATIONS:
        for inner in OPERATIONS:
            made = inner.format(x="x", y="y")
            found.append(outer.format(x=made, y="z"))
            if "{y}" in outer:
                found.append(outer.format(x="z", y=made))
    return [text.replace("D(", f"{dtype}(") for text in found]
