"""Element types: names, widths, compute types and NumPy equivalents, and the rules that promote them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, eq=False)
class DType:
    """An element type. The instances below are the only ones, compared by identity."""

    name: str
    kind: str  # "b" bool, "i" signed, "u" unsigned, "f" float
    bits: int

    @property
    def itemsize(self) -> int:
        """Bytes of one stored element."""
        return max(1, self.bits // 8)

    @property
    def compute(self) -> DType:
        """The type that a kernel body computes in: float32 for narrow floats, else the type itself."""
        return FLOAT32 if self.kind == "f" and self.bits < 32 else self

    @property
    def storage(self) -> bool:
        """Whether values of the type can only be stored; computation needs a cast."""
        return self.kind == "f" and self.bits == 8

    @property
    def accumulate(self) -> DType:
        """The type that a sum of such elements is held in."""
        if self.kind == "f":
            return self.compute
        return UINT64 if self.kind == "u" else INT64

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self):
        return (dtype, (self.name,))


BOOL = DType("bool", "b", 1)
INT8, INT16, INT32, INT64 = (DType(f"int{b}", "i", b) for b in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (DType(f"uint{b}", "u", b) for b in (8, 16, 32, 64))
MOST_INT32 = (1 << 31) - 1
FLOAT16, FLOAT32, FLOAT64 = (DType(f"float{b}", "f", b) for b in (16, 32, 64))
BFLOAT16 = DType("bfloat16", "f", 16)
FLOAT8_E4M3FN, FLOAT8_E5M2 = DType("float8_e4m3fn", "f", 8), DType("float8_e5m2", "f", 8)

DTYPES: dict[str, DType] = {
    d.name: d
    for d in (BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64,
              FLOAT8_E4M3FN, FLOAT8_E5M2)
}  # fmt: skip


def dtype(name: str) -> DType:
    """The element type of this name; KeyError if there is none."""
    return DTYPES[name]


@cache
def numpy_dtype(d: DType):
    """NumPy's dtype for `d`; bfloat16 and float8 are ml_dtypes' extension types."""
    import numpy as np

    if d is BFLOAT16 or d.storage:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, d.name))
    return np.dtype(d.name)


def fits(value: int, d: DType) -> bool:
    """Whether dtype `d` can hold an integer (floats hold any that float64 does)."""
    if d.kind == "f":
        return abs(value) < 1 << 1024
    if d is BOOL:
        return value in (0, 1)
    low = -(1 << d.bits - 1) if d.kind == "i" else 0
    return low <= value < (1 << (d.bits - (d.kind == "i")))


@cache
def promote(a: DType, b: DType) -> DType:
    """NumPy 2's result type of two strong operands; bfloat16 as in JAX (with float16 it gives float32)."""
    if a is b:
        return a
    if a.kind != "f" and b.kind != "f":
        return _promote_integers(a, b)
    if a.kind == "f" and b.kind == "f":
        if a.bits == b.bits:  # float16 with bfloat16
            return FLOAT32
        return a if a.bits > b.bits else b
    floating, integer = (a, b) if a.kind == "f" else (b, a)
    if floating is BFLOAT16 or integer is BOOL:
        return floating
    needed = {8: 16, 16: 32, 32: 64, 64: 64}[integer.bits]
    return floating if floating.bits >= needed else DTYPES[f"float{needed}"]


def _promote_integers(a: DType, b: DType) -> DType:
    if a is BOOL or b is BOOL:
        return b if a is BOOL else a
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return FLOAT64 if unsigned.bits == 64 else DTYPES[f"int{unsigned.bits * 2}"]
