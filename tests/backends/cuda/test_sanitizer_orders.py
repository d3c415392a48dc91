"""NVIDIA's compute-sanitizer on sorts, selections, scans, scatters and pairs: clean, and right values.

`python tests/backends/cuda/test_sanitizer_orders.py` runs what is watched: small shapes that several blocks share.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_sanitizer import TOOLS, check_clean

draw = np.random.default_rng(0)
X, ROWS = draw.standard_normal(20_000).astype(np.float32), draw.standard_normal((3, 9_000)).astype(np.float32)
PLACES, FEW = draw.integers(0, 40_000, 20_000), draw.integers(0, 50, 20_000)
P, Q = (draw.standard_normal((n, 3)).astype(np.float32) for n in (200, 130))


def added(size, places, values):
    found = np.zeros(size)
    np.add.at(found, places, values)
    return found


# (text, arrays, the right result)
CASES = [
    ("sort(x)", (X,), np.sort(X)),
    ("argsort(x)", (X,), np.argsort(X, kind="stable")),
    ("sort(x)", (ROWS,), np.sort(ROWS)),
    ("topk(x, 20)", (X,), -np.sort(-X)[:20]),
    ("topk(x, 20)", (ROWS,), -np.sort(-ROWS)[:, :20]),
    ("cumsum(x)", (X,), np.cumsum(X, dtype=np.float64)),
    ("cumsum(x, reverse=True)", (X,), np.cumsum(X[::-1], dtype=np.float64)[::-1]),
    ("logcumsumexp(x)", (X,), np.logaddexp.accumulate(X.astype(np.float64))),
    ("scatter_add(40000, i, x)", (PLACES, X), added(40_000, PLACES, X)),
    ("scatter_add(50, i, x)", (FEW, X), added(50, FEW, X)),
    ("bincount(i, 50)", (FEW,), np.bincount(FEW, minlength=50)),
    ("bincount(i, 40000)", (PLACES,), np.bincount(PLACES, minlength=40_000)),
    ("argmin(sum((p[:, None] - q[None])**2, -1), -1)", (P, Q), ((P[:, None] - Q[None]) ** 2).sum(-1).argmin(-1)),
    ("mean(normal(7, (64, 64)))", (), None),
    ("uint8(255 * (u / 255.0) ** 0.45)", (PLACES.astype(np.uint8),), None),
]


@pytest.mark.gpu
@pytest.mark.parametrize("tool", TOOLS)
def test_sorts_scans_scatters_and_pairs_are_clean(tool):
    check_clean(tool, __file__)


def watched() -> None:
    """Run every case once, each array in memory of its own."""
    import cupy

    import fusedsl as fd

    cupy.cuda.set_allocator(None)
    for text, arrays, right in CASES:
        found = fd.kernel(text, fallback=False)(*map(cupy.asarray, arrays))
        found = cupy.asnumpy(found[0] if isinstance(found, tuple) else found)
        if right is not None:
            np.testing.assert_allclose(found, right, rtol=2e-4, atol=2e-3, err_msg=text)
    print(len(CASES), "launched")


if __name__ == "__main__":
    watched()
