"""quantize, dequantize and unpack: NumPy says what they mean; scales by tensor, channel, row and group."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from oracle import evaluate

import fusedsl as fd

RANDOM = np.random.default_rng(5)
X = (RANDOM.standard_normal((6, 32)) * 40).astype(np.float32)
S = np.abs(RANDOM.standard_normal((6, 4))).astype(np.float32) + 0.1
C = np.abs(RANDOM.standard_normal(6)).astype(np.float32) + 0.1
Z = RANDOM.integers(-5, 5, (6, 4)).astype(np.int8)
W = RANDOM.integers(-(2**31), 2**31, (6, 4)).astype(np.int32)
E4M3 = ml_dtypes.float8_e4m3fn


def groups(x):
    return np.repeat(x, 8, axis=1)


def rounded(x, low=-128, high=127, kind=np.int8):
    return np.clip(np.rint(x), low, high).astype(kind)


CASES = [
    ("quantize(x, 0.5)", lambda: rounded(X / np.float32(0.5))),
    ("quantize(x, 0.5, 3, dtype=uint8)", lambda: rounded(X / np.float32(0.5) + 3, 0, 255, np.uint8)),
    ("quantize(x, c, axis=0)", lambda: rounded(X / C[:, None])),
    ("quantize(x, c[:, None], dtype=int16)", lambda: rounded(X / C[:, None], -(2**15), 2**15 - 1, np.int16)),
    ("quantize(x, s, group=8)", lambda: rounded(X / groups(S))),
    ("quantize(x, s, z, group=8, axis=1)", lambda: rounded(X / groups(S) + groups(Z))),
    ("quantize(x.T, s.T, group=8, axis=0)", lambda: rounded(X / groups(S)).T),
    ("quantize(x, 0.01, dtype=float8_e4m3fn)", lambda: np.clip(X / np.float32(0.01), -448, 448).astype(E4M3)),
    ("dequantize(quantize(x, s, group=8), s, group=8)", lambda: rounded(X / groups(S)).astype("f4") * groups(S)),
    ("dequantize(z, 0.25)", lambda: Z.astype("f4") * np.float32(0.25)),
    ("dequantize(z, c, 3, axis=0)", lambda: (Z.astype("f4") - 3) * C[:, None]),
    ("dequantize(z, float16(c), axis=0)", lambda: (Z * C.astype("f2").astype("f4")[:, None]).astype("f2")),
    ("dequantize(w, s)", lambda: W.astype("f4") * S),
    ("unpack(w)", lambda: nibbles(W, 4, True)),
    ("unpack(w, bits=4, signed=False)", lambda: nibbles(W, 4, False)),
    ("unpack(z, 2)", lambda: nibbles(Z, 2, True)),
    ("unpack(w, 8)", lambda: W.view(np.int8)),
    ("unpack(w, 16, signed=False)", lambda: W.view(np.uint16)),
    ("unpack(w, 32)", lambda: W),
    ("unpack(uint8(z), 1, signed=False)", lambda: np.unpackbits(Z.view(np.uint8), axis=-1, bitorder="little")),
    ("dequantize(unpack(w), s, z, group=8)", lambda: (nibbles(W, 4, True).astype("f4") - groups(Z)) * groups(S)),
]


def nibbles(x, bits, signed):
    count = x.dtype.itemsize * 8 // bits
    parts = (x[..., None].astype(np.int64) >> (bits * np.arange(count))) & ((1 << bits) - 1)
    parts = np.where(signed & (parts >= 1 << (bits - 1)), parts - (1 << bits), parts)
    return parts.reshape(*x.shape[:-1], -1).astype(np.int8 if signed else np.uint8)


@pytest.mark.parametrize(("text", "wanted"), CASES, ids=[t for t, _ in CASES])
def test_quantised_numbers_mean_what_numpy_says(text, wanted):
    arrays = {"x": X, "s": S, "c": C, "z": Z, "w": W}
    given = {n: arrays[n] for n in fd.kernel(text).params}
    for made in (evaluate(text, **given), fd.evaluate(text, given, fallback=False)):
        assert made.dtype == wanted().dtype
        np.testing.assert_array_equal(made.astype(np.float32), wanted().astype(np.float32))


@pytest.mark.parametrize(
    ("text", "error", "column"),
    [
        ("quantize(x, 1, dtype=float32)", fd.DTypeError, 22),
        ("quantize(x, s[0], group=8)", fd.ShapeError, 13),
        ("quantize(x, s, group=0)", fd.ArgumentError, 22),
        ("quantize(x, s, group=7)", fd.ShapeError, 1),
        ("unpack(x)", fd.DTypeError, 8),
        ("unpack(w, 3)", fd.ArgumentError, 11),
        ("unpack(z, 16)", fd.ArgumentError, 11),
        ("dequantize(z)", fd.ArgumentError, 13),
    ],
)
def test_faults_are_placed(text, error, column):
    with pytest.raises(error) as caught:
        fd.evaluate(text, {n: {"x": X, "s": S, "z": Z, "w": W}[n] for n in fd.kernel(text).params})
    assert caught.value.column == column


def test_a_group_scale_takes_one_kernel():
    for text in ("dequantize(unpack(w), s, group=8)", "quantize(x, s, group=8, dtype=float8_e4m3fn)"):
        kernel = fd.kernel(text)
        arrays = {"x": X, "s": S, "w": W}
        assert len(kernel.explain(*(arrays[n] for n in kernel.params)).kernels) == 1
