"""Kernels that are alike but for literals and arrays are one binary; what later ones would compute again is stored."""

import re

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.fusion.partition_state import MOST_ON_CPUS

X = np.random.default_rng(1).standard_normal((6, 20)).astype(np.float32)
SORTS = ", ".join(f"sort(x + {k}.5, 1) * {k + 2}" for k in range(6))
NUMBERS = {
    "floats": ("sort(x * {}.25, 1)", lambda x, k: np.sort(x * np.float32(k + 0.25), 1)),
    "float64": ("sort(float64(x) + 0.{}, 1)", lambda x, k: np.sort(x.astype(np.float64) + float(f"0.{k}"), 1)),
    "int32": ("cumsum(int32(x) + int32({}), 1)", lambda x, k: np.cumsum(x.astype(np.int32) + k, 1, np.int64)),
    "uint32": ("sort(uint32(abs(x)) ^ uint32({}), 1)", lambda x, k: np.sort(np.abs(x).astype(np.uint32) ^ k, 1)),
    "uint64": ("sort(uint64(abs(x)) ^ uint64({}), 1)", lambda x, k: np.sort(np.abs(x).astype(np.uint64) ^ k, 1)),
    "compared": ("sort(where(x > {}.0, x, -x), 1)", lambda x, k: np.sort(np.where(x > k, x, -x), 1)),
}


def binaries(source: str) -> int:
    """How many kernels of a file differ, their numbers and names aside."""
    bodies = source.split("def kernel(")[1:]
    return len({body.split("# CPU kernel")[0].split("# return")[0].strip() for body in bodies})


@pytest.mark.parametrize("name", NUMBERS)
def test_kernels_that_differ_in_literals_share_a_binary(name):
    text, expected = NUMBERS[name]
    kernel = fd.kernel(", ".join(text.format(k) for k in range(1, 6)), verify=True)
    for k, result in enumerate(kernel(X), 1):
        np.testing.assert_array_equal(result, expected(X, k))
    assert binaries(kernel.source(X)) == 1


def test_kernels_that_read_other_arrays_share_a_binary():
    names = "abcdef"
    arrays = {n: X + k for k, n in enumerate(names)}
    kernel = fd.kernel(", ".join(f"sort({n} * {k + 2}, 1)" for k, n in enumerate(names)), verify=True)
    for k, (result, x) in enumerate(zip(kernel(**arrays), arrays.values())):
        np.testing.assert_array_equal(result, np.sort(x * np.float32(k + 2), 1))
    assert binaries(kernel.source(**arrays)) == 1


def test_literals_that_all_kernels_have_stay():
    source = fd.kernel(", ".join(f"sort((x + {k}) * 0.5, 1)" for k in range(4))).source(X)
    assert "float32(0.5)" in source and binaries(source) == 1


def test_two_kernels_keep_their_literals():
    assert binaries(fd.kernel("sort(x + 1, 1), sort(x + 2, 1)").source(X)) == 2


def test_on_cuda():
    source = fd.kernel(SORTS).source(X, device="cuda")
    assert "literal" in source


def test_saved_kernels_have_their_literals(tmp_path):
    kernel = fd.kernel(SORTS)
    kernel.save(tmp_path / "k.fused", X, cc="cpu")
    for got, wanted in zip(fd.load(tmp_path / "k.fused")(X), kernel(X)):
        np.testing.assert_array_equal(got, wanted)


def test_few_products_share_a_kernel():
    kernel = fd.kernel(", ".join(f"x @ (y + {k})" for k in range(20)))
    assert len(kernel.explain(X, X.T.copy()).kernels) == 20 // MOST_ON_CPUS
    for k, result in enumerate(kernel(X, X.T.copy())):
        np.testing.assert_allclose(result, X @ (X.T + np.float32(k)), rtol=1e-5, atol=1e-4)


def heat(u):
    for _ in range(9):
        p = np.pad(u, 1)
        u = u + 0.1 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)
    return u


def test_a_step_is_not_computed_again_by_all_that_follow():
    stepped = fd.fuse(heat)
    np.testing.assert_allclose(stepped(X), heat(X), rtol=1e-5, atol=1e-6)
    *lines, last = [len(body.splitlines()) for body in stepped.source(X).split("def kernel(")[1:]]
    assert max(lines[2:]) <= 2 * min(lines[2:])
    assert last <= 5 * max(lines)  # it computes the borders that it reads


def test_long_results_side_by_side_are_several_kernels():
    kernel = fd.kernel(", ".join(f"normal(1, x, stream={k})" for k in range(40)))
    assert max(len(body.splitlines()) for body in kernel.source(X).split("def kernel(")[1:]) < 1000


def test_a_promise_of_one_kernel_is_kept():
    text = " + ".join(f"normal(1, x, stream={k})" for k in range(20))
    assert len(fd.kernel(text, max_kernels=1).explain(X, device="cuda", compile=False).kernels) == 1
    assert len(fd.kernel(text).explain(X, device="cuda", compile=False).kernels) > 1


@pytest.mark.parametrize("steps", [20, 100, 400])
def test_all_states_of_a_recurrence_take_few_binaries(steps):
    """A choice among all states computed each of them, up to all steps for each element."""

    def states(x):
        s, all_states = x[0], []
        for t in range(steps):
            s = np.float32(0.1) * x[t] + np.float32(0.9) * s
            all_states.append(s)
        return np.stack(all_states)

    x = np.random.default_rng(2).standard_normal((steps, 16)).astype(np.float32)
    kernel = fd.fuse(states, verify=True)
    np.testing.assert_allclose(kernel(x), states(x), rtol=1e-4, atol=1e-6)
    assert binaries(kernel.source(x)) <= 8
    assert len(kernel.explain(x, compile=False).kernels) <= 5 + steps // 6  # one stores the states of 16 steps


@pytest.mark.parametrize("count", [16, 17, 33, 64])
def test_many_arrays_are_joined(count):
    arrays = [np.full((k % 3, 2), k, np.float32) for k in range(count)]
    joined = fd.fuse(lambda arrays: np.concatenate(arrays), fallback=False, verify=True)(arrays)
    np.testing.assert_array_equal(joined, np.concatenate(arrays))


def test_alike_kernels_of_later_segments_share_a_binary():
    """Kernels were named after what earlier ones compute, and each name had a binary."""

    def sinkhorn(s):
        for k in range(48):
            s = s - np.log(np.exp(s).sum(k % 2, keepdims=True))
        return s

    x = np.random.default_rng(3).standard_normal((12, 8)).astype(np.float32)
    kernel = fd.fuse(sinkhorn, verify=True)
    np.testing.assert_allclose(kernel(x), sinkhorn(x), rtol=1e-3, atol=1e-4)
    names = re.findall(r"# CPU kernel (\w+?)_\d+,", kernel.source(x))
    assert len(names) > 40 and len(set(names)) <= 9
