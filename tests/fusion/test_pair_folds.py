"""Folds of pairs: one kernel, nothing of the size of all pairs, and which inner folds stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
from bounds import agrees, evaluate

import fusedsl as fd
from fusedsl.runtime.arrays import describe_all

RANDOM = np.random.default_rng(24)
SQUARES = "sum((x[:, None] - y[None])**2, -1)"
MANY = 1_000_000


def planned(text, **shapes):
    """What is told of a text at these shapes."""
    kernel = fd.kernel(text)
    specs = {name: fd.spec(shapes[name], "float32") for name in kernel.params}
    return kernel.explain(**specs, device="cuda", compile=False)


def pairs(depth, columns=()):
    return {"x": (MANY, depth), "y": (MANY, depth), "b": (MANY, *columns)}


def test_a_million_by_a_million_pairs_are_one_kernel_without_temporaries():
    for text in (
        f"sum(exp(-{SQUARES}) * b, -1)",
        f"exp(-{SQUARES}) @ b",
        f"argmin({SQUARES}, -1)",
        f"logsumexp(-{SQUARES}, axis=-1)",
        f"d = {SQUARES}; return min(d, axis=-1), sum(sqrt(d), -1)",
        f"topk(-{SQUARES}, 5)",
        "d = x[:, None] - y[None]; sum(exp(-einsum('ijk,ijk->ij', d, d)) * b, -1)",
        "sum(exp(-norm(x[:, None] - y[None], axis=-1)) * b, -1)",
    ):
        told = planned(text, **pairs(3))
        assert len(told.kernels) == 1, text
        assert "temporary 0" not in str(told), text


def test_columns_of_a_product_are_folds_of_one_kernel():
    told = planned(f"exp(-{SQUARES}) @ b", **pairs(3, (4,)))
    assert len(told.kernels) == 1
    assert "pairs: 128 threads hold 8 rows each" in str(told)
    assert "temporary 0" not in str(told)


def test_a_fold_over_both_axes_stores_its_rows_alone():
    told = planned(f"sum(exp(-{SQUARES}))", **pairs(3))
    assert len(told.kernels) == 2
    assert f"float32[{MANY:_}]".replace("_", "") in str(told)
    assert f"{MANY}, {MANY}" not in str(told)


def test_folds_along_each_of_the_axes_compute_the_pairs_twice():
    told = planned(f"w = exp(-{SQUARES}); return w @ b, sum(w, 0)", **pairs(3))
    assert len(told.kernels) == 2
    assert "temporary 0" not in str(told)


def test_a_longer_inner_axis_is_folded_by_a_kernel_of_its_own():
    assert len(planned(f"argmin({SQUARES}, -1)", x=(3000, 65), y=(3000, 65)).kernels) == 2
    assert len(planned(f"argmin({SQUARES}, -1)", x=(3000, 64), y=(3000, 64)).kernels) == 1


def test_matrix_products_are_left_to_their_families():
    told = planned("logsumexp(x @ y.T, axis=-1)", x=(4096, 64), y=(4096, 64))
    assert told.kernels[0].name.split("_")[0] in ("matmul", "attention")


def test_rows_that_an_array_of_all_pairs_has_are_read_once():
    told = planned("max(sum(x, -1), axis=-1)", x=(100, 100, 3))
    assert len(told.kernels) == 2


@pytest.mark.parametrize(
    "text",
    [
        f"exp(-{SQUARES}) @ c",
        f"argmin({SQUARES}, -1)",
        "r = y[None] - x[:, None]; return sum(r * ((sum(r * r, -1) + 0.1)**-1.5 * b)[:, :, None], 1)",
    ],
)
def test_pairs_on_the_cpu(text):
    shapes = {"x": (130, 3), "y": (67, 3), "b": (67,), "c": (67, 3)}
    kernel = fd.kernel(text, max_kernels=1, verify=True)
    arrays = [RANDOM.standard_normal(shapes[n]).astype(np.float32) for n in kernel.params]
    graph = kernel._program.plans.graph(describe_all(kernel.params, arrays))
    ((value, bound),) = evaluate(graph, arrays)
    agrees(kernel(*arrays), value, bound, graph.results[0].type.dtype, text)


def test_functions_with_the_same_broadcasting():
    @fd.fuse
    def nearest(p, c):
        return ((p[:, None] - c[None]) ** 2).sum(-1).argmin(-1)

    p, c = RANDOM.standard_normal((200, 3)), RANDOM.standard_normal((20, 3))
    np.testing.assert_array_equal(nearest(p, c), nearest.__wrapped__(p, c))
    assert len(nearest.explain(p, c).kernels) == 1


def test_windows_of_a_products_columns_do_not_compute_it_for_each_element():
    kernel = fd.kernel("max(gelu(mean(reshape(x @ w, (4096, 256, 16)), axis=-1)), axis=-1)")
    square = fd.spec((4096, 4096), "bfloat16")
    told = kernel.explain(square, square, device="cuda", cc=90, compile=False)
    assert [k.name.partition("_")[0] for k in told.kernels] == ["matmul", "row", "row"]
    assert "by wgmma" in str(told)


@pytest.mark.parametrize("steps", [2, 3, 6])
def test_pairs_of_pairs_are_unrolled_as_far_as_their_instructions_allow(steps):
    """Folds within folds were unrolled whatever they multiply to: six steps took seconds to compile."""
    text = "x = max(x[:, None] + y, axis=-1); " * steps + "x"
    x, y = RANDOM.standard_normal((2, 24, 24)).astype(np.float32)
    kernel = fd.kernel(text, fallback=False)
    told = kernel.explain(x, y)
    assert len(told.kernels) == max(steps - 1, 1) and str(told).count("writes ") == len(told.kernels)
    assert len(kernel.source(x, y).splitlines()) < 800 + 150 * steps
    right = x
    for _ in range(steps):
        right = (right[:, None] + y).max(-1)
    np.testing.assert_allclose(kernel(x, y), right, rtol=1e-6)
