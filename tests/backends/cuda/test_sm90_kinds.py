"""Products of TF32, of one part and two, and of bytes by wgmma on sm_90: layouts, tiles, epilogues, parts of a sum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_cuda_emulated import check_twice, normal

import fusedsl as fd
from fusedsl.accuracy.bounds import evaluate
from fusedsl.accuracy.products import TF32
from fusedsl.backends.cuda.matmul.sm90 import schedule as sm90_schedule
from fusedsl.runtime.array_copies import to_host
from fusedsl.runtime.arrays import describe

pytest.importorskip("numba_cuda")
from bounds import agrees
from ptx import emulated_gpu

RANDOM = np.random.default_rng(11)
M, N, K = 136, 200, 136
SHAPES = {"x": (M, K), "w": (K, N), "v": (K, N), "t": (N, K), "u": (K, M), "b": (N,), "c": (M,), "r": (M, N)}
LAYOUTS = {"rows by rows": "x @ w", "rows by columns": "x @ t.mT", "columns by columns": "u.mT @ t.mT"}
EPILOGUES = (
    "gelu(x @ w + b) + r",
    "(x @ w) * c[:, None] * b",
    "silu(x @ w) * (x @ v)",
    "p = x @ t.mT; p, bfloat16(2 * p)",
    "(x @ w) * (arange(136)[:, None] - arange(200))",
    "u.mT @ t.mT + x @ t.mT",
    "swapaxes(x @ w, 0, 1)",
)
BYTES = (
    "int32(x) @ int32(w)",
    "int32(x) @ int32(t.mT) + 1",
    "int32(u.mT) @ int32(t.mT)",
    "float32(int32(x) @ int32(w)) * 0.01 + b",
    "int8(clip(int32(x) @ int32(w), -99, 99))",
)


def in_mode(mode, text, given):
    """Checks the results in this mode of float32's products against their bounds; the generated source."""
    kernel = fd.kernel(text, matmul=mode)
    values = [given[name] for name in kernel.params]
    graph = kernel._program.plans.graph({name: describe(x, name) for name, x in zip(kernel.params, values)})
    with emulated_gpu() as gpu:
        found = kernel(*map(gpu.asarray, values))
        found = [to_host(x) for x in (found if isinstance(found, tuple) else (found,))]
        assert len(gpu.launches) == 1
    for one, (value, bound), node in zip(found, evaluate(graph, values, TF32[mode]), graph.results):
        agrees(one, value, bound, node.type.dtype, text)
    return kernel.source(*values, device="cuda", cc=90)


def floats(**shapes):
    return {name: normal(*shape) for name, shape in (SHAPES | shapes).items()}


def whole(m=144, n=208, k=144):
    """Arrays of bytes whose lines are multiples of 16."""
    shapes = {"x": (m, k), "w": (k, n), "t": (n, k), "u": (k, m)}
    found = {name: RANDOM.integers(-128, 127, shape, np.int8, endpoint=True) for name, shape in shapes.items()}
    return found | {"b": normal(n)}


@pytest.fixture
def only(monkeypatch):
    """Candidates of one form alone, on few multiprocessors."""
    candidates = sm90_schedule.candidates

    def choose(multiprocessors=2, **fields):
        def some(*arguments):
            found = (s for s in candidates(*arguments) if all(getattr(s, k) == v for k, v in fields.items()))
            return (replace(s, multiprocessors=multiprocessors) for s in found)

        monkeypatch.setattr(sm90_schedule, "candidates", some)

    return choose


def only_tile(only, shape, columns):
    """Candidates of one shape of tiles alone, if there are such."""
    warpgroups, pingpong, cluster = shape
    if columns % (64 * cluster):
        pytest.skip(f"{columns} columns are no boxes for {cluster} blocks")
    only(warpgroups=warpgroups, pingpong=pingpong, cluster=cluster, columns=columns)


@pytest.mark.parametrize("text", [*LAYOUTS.values(), *EPILOGUES])
def test_tf32(text):
    assert "wgmma" in in_mode("tf32", text, floats())


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("shape", sm90_schedule.SHAPES)
@pytest.mark.parametrize("columns", [64, 128, 256])
def test_tf32_in_every_tile_shape(name, shape, columns, only):
    only_tile(only, shape, columns)
    assert "wgmma" in in_mode("tf32", LAYOUTS[name], floats())


@pytest.mark.parametrize("text", [*LAYOUTS.values(), *EPILOGUES[:3], EPILOGUES[5]])
def test_3xtf32(text):
    source = in_mode("3xtf32", text, floats())
    assert "split_columns" in source


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("shape", [shape for shape in sm90_schedule.SHAPES if shape[1] == 1])
@pytest.mark.parametrize("columns", [64, 128, 256])
def test_3xtf32_in_every_tile_shape(name, shape, columns, only):
    only_tile(only, shape, columns)
    assert "split_columns" in in_mode("3xtf32", LAYOUTS[name], floats(x=(M, 264), w=(264, N), t=(N, 264), u=(264, M)))


@pytest.mark.parametrize("text", ["x @ w", "silu(x @ t.mT) * (x @ s.mT)"])
def test_3xtf32_of_infinities_nan_and_the_largest_numbers(text):
    """What is left of an infinity is NaN, and some of the largest numbers are infinite in TF32: sums are mended."""
    given = floats(s=(N, K))
    for name, column in (("w", (9, 9)), ("t", (9, 9)), ("s", (3, 3))):
        given[name][column] = -np.inf
    given["x"][3, 5], given["x"][7, 1], given["x"][8] = np.inf, np.nan, 0
    given["x"][8, 2], given["w"][2], given["t"][:, 2] = np.finfo(np.float32).max, 0.25, 0.25
    in_mode("3xtf32", text, given)


@pytest.mark.parametrize("text", BYTES)
def test_bytes(text):
    given = whole()
    names = fd.kernel(text).params
    with emulated_gpu() as gpu:
        check_twice(gpu, text, {name: given[name] for name in names})
    assert "wgmma" in fd.kernel(text).source(*(given[name] for name in names), device="cuda", cc=90)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", BYTES[:3])
@pytest.mark.parametrize("columns, cluster", [(64, 1), (128, 2), (256, 2)])
def test_bytes_in_several_tile_shapes(text, columns, cluster, only):
    only(warpgroups=2, pingpong=1, cluster=cluster, columns=columns)
    given = whole(k=1200)
    with emulated_gpu() as gpu:
        check_twice(gpu, text, {name: given[name] for name in fd.kernel(text).params})


@pytest.mark.parametrize(
    "text, mode", [("x @ w", "tf32"), ("x @ w", "3xtf32"), ("int32(x) @ int32(w)", "")], ids=["tf32", "3xtf32", "int8"]
)
def test_parts_of_a_sum(text, mode, only, monkeypatch):
    only(8, columns=64, pingpong=1, cluster=1)
    split = sm90_schedule.parts
    monkeypatch.setattr(sm90_schedule, "LEAST_SLICES", 1)
    monkeypatch.setattr(sm90_schedule, "parts", lambda *given: (s for s in split(*given) if s.splits == 2))
    monkeypatch.setattr(sm90_schedule, "predicted_clocks", lambda s, *_: -s.splits)
    if mode:
        source = in_mode(mode, text, floats(x=(72, 400), w=(400, 72)))
    else:
        given = {name: whole(80, 80, 400)[name] for name in "xw"}
        with emulated_gpu() as gpu:
            check_twice(gpu, text, given)
        source = fd.kernel(text).source(*given.values(), device="cuda", cc=90)
    assert "add_partial_sums" in source


@pytest.mark.parametrize("mode", TF32)
def test_batches_of_tf32_are_read_where_they_are(mode):
    given = {"x": normal(2, 3, 72, 80), "w": normal(2, 1, 80, 88)}
    given["x"][1, 2, 3, 4] = np.inf
    assert "wgmma" in in_mode(mode, "x @ w", given)


def test_infinities_and_nan_of_tf32():
    given = floats()
    given["x"][3, 5], given["x"][7, 1], given["w"][9, 9] = np.inf, np.nan, -np.inf
    in_mode("tf32", "x @ w", given)
