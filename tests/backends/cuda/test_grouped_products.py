"""Groups of products that are finished in the tile that has them, as heads: on an emulated GPU, and planned."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cuda.matmul.sm90 import clock_model
from fusedsl.backends.cuda.matmul.sm90 import schedule as sm90_schedule
from fusedsl.fusion import graph_products
from fusedsl.fusion.formulation import ProductMode
from fusedsl.program import product_choice
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

from fusedsl.backends.cuda.compiler import numba_backend

BRAIN = ml_dtypes.bfloat16
M, K = 72, 136
TEXTS = {  # the columns of the product, and of a group
    "norms of heads": ("rms_norm(reshape(x @ w, (72, 4, 64)), g)", 256, 64),
    "a group norm of what has a bias": ("silu(group_norm(silu(x @ w + b) + b, 2, c, e))", 384, 192),
    "a softmax of whole rows": ("softmax(x @ w + b)", 256, 256),
    "a row with a residual, and the product": ("y = x @ w; y, layer_norm(float32(y) + r)", 128, 128),
    "of which the rest is a tile of its own": ("rms_norm(reshape(x @ w, (72, 5, 64)), g)", 320, 64),
    "factors of rows, and a float32 result": (
        "y = reshape(x @ w * r[:, :1], (72, 3, 64)); float32(y) / max(absolute(y), axis=-1, keepdims=True)",
        192,
        64,
    ),
    "columns by rows": ("softmax(reshape(x @ t.mT, (72, 2, 128)))", 256, 128),
    "batches": ("rms_norm(reshape(z @ w, (2, 72, 3, 64)), g)", 192, 64),
}


def arrays(text: str, columns: int, group: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    shapes = {
        "x": (M, K),
        "z": (2, M, K),
        "w": (K, columns),
        "v": (K, columns),
        "r": (M, columns),
        "g": (group,),
        "t": (columns, K),
    }
    shapes |= dict.fromkeys("bce", (columns,))
    given = {name: random.standard_normal(shape) for name, shape in shapes.items() if name in fd.kernel(text).params}
    return {name: (x * K**-0.5 if name in "wvt" else x).astype(BRAIN) for name, x in given.items()}


@pytest.fixture
def folded(monkeypatch):
    """Products of small arrays are folded where they are computed, whatever is predicted to be faster."""
    monkeypatch.setattr(product_choice, "WORTH", 1e9)
    monkeypatch.setattr(clock_model, "GROUP_INSTRUCTION", 0.0)
    monkeypatch.setattr(product_choice, "MODES", (ProductMode.FOLDED,))
    monkeypatch.setattr(graph_products, "SMALL", 0)
    monkeypatch.setattr(numba_backend, "lower", lambda *_: pytest.fail("Numba lowers it"))


@pytest.mark.parametrize("name", TEXTS)
def test_groups_are_finished_where_products_are_computed(name, folded):
    given = arrays(*TEXTS[name])
    text = TEXTS[name][0]
    wide = {name: x.astype(np.float64) for name, x in given.items()}
    expected = fd.kernel(text.replace("float32(", "("))(**wide)
    with emulated_gpu() as gpu:
        found = fd.kernel(text, verify=True, fallback=False)(**{name: gpu.asarray(x) for name, x in given.items()})
        found = [to_host(x) for x in (found if isinstance(found, tuple) else (found,))]
        assert len(gpu.launches) == 1
    for value, right in zip(found, expected if isinstance(expected, tuple) else (expected,)):
        assert value.shape == right.shape
        np.testing.assert_allclose(value.astype(np.float64), right, rtol=2.0**-7, atol=4e-3 * np.abs(right).max())


@pytest.mark.parametrize(
    "text, columns",
    [
        ("group_norm(x @ w, 4)", 400),  # groups of no whole panels
        ("group_norm(x @ w, 1)", 512),  # groups that are wider than a tile
    ],
)
def test_other_groups_are_finished_by_a_kernel_of_their_own(text, columns, folded):
    given = arrays(text, columns, 64)
    expected = fd.kernel(text)(**{name: x.astype(np.float64) for name, x in given.items()})
    with emulated_gpu() as gpu:
        found = to_host(fd.kernel(text, fallback=False)(**{name: gpu.asarray(x) for name, x in given.items()}))
        assert len(gpu.launches) == 2
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2.0**-7, atol=4e-3 * np.abs(expected).max())


def test_narrow_tiles_of_the_last_wave_have_whole_groups(folded, monkeypatch):
    made = []
    monkeypatch.setattr(sm90_schedule, "predicted_clocks", lambda s, *_: made.append(s) or s.rows - s.tail_columns)
    text, columns, group = "rms_norm(reshape(x @ w, (72, 8, 128)), g)", 1024, 128
    given = arrays(text, columns, group)
    expected = fd.kernel(text)(**{name: x.astype(np.float64) for name, x in given.items()})
    with emulated_gpu(multiprocessors=3) as gpu:
        found = to_host(fd.kernel(text, fallback=False)(**{name: gpu.asarray(x) for name, x in given.items()}))
    assert {s.tail_columns for s in made if s.group} == {0, 128}
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2.0**-7, atol=4e-3 * np.abs(expected).max())


def test_a_norm_of_heads_is_one_kernel_of_a_report():
    """Where it is predicted to be faster, and not on a card whose products store what is folded."""
    x, g = fd.spec((4096, 4096), "bfloat16"), fd.spec((128,), "bfloat16")
    kernel = fd.kernel("rms_norm(reshape(x @ w, (4096, 32, 128)), g)")
    told = kernel.explain(x, x, g, device="cuda", cc=90, compile=False)
    assert len(told.kernels) == 1 and not told.temporaries
    assert "in tiles of the products" in str(told)
    assert len(kernel.explain(x, x, g, device="cuda", cc=80, compile=False).kernels) == 2
