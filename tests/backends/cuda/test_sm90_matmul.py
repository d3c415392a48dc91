"""Products on sm_90: every tile shape on an emulated GPU, layouts, epilogues, and how tiles are chosen."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cuda.matmul.sm90 import schedule as sm90_schedule
from fusedsl.backends.cuda.matmul.sm90.layout import Sm90MatmulSchedule
from fusedsl.fusion import graph_products
from fusedsl.fusion.formulation import ProductMode
from fusedsl.kernel_ir.launch_config import LaunchConfig
from fusedsl.program import prepare_call, product_choice, resolve_call
from fusedsl.runtime import compile as compiler
from fusedsl.runtime.array_copies import to_host
from fusedsl.runtime.cublas_launch import CublasLaunch
from fusedsl.runtime.launch import LaunchRecord

pytest.importorskip("numba_cuda")
from devices import Emulated
from ptx import emulated_gpu

from fusedsl.backends.cuda.compiler import numba_backend

BRAIN = ml_dtypes.bfloat16
M, N, K = 136, 200, 136
TEXTS = {
    "rows by rows": ("x @ w", "x w"),
    "rows by columns": ("x @ t.mT", "x t"),
    "columns by rows": ("u.mT @ w", "u w"),
    "columns by columns": ("u.mT @ t.mT", "u t"),
}
EPILOGUES = {
    "bias of columns, a residual": ("gelu(x @ w + b) + r", "x w b r"),
    "factors of rows and columns": ("(x @ w) * c[:, None] * b", "x w c b"),
    "two products": ("silu(x @ w) * (x @ v)", "x w v"),
    "two products of different rows": ("x @ w + y @ w", "x w y"),
    "float32, and two results": ("p = float32(x) @ float32(w); p, bfloat16(2 * p)", "x w"),
    "positions": ("(x @ w) * (arange(136)[:, None] - arange(200))", "x w"),
    "a condition in memory": ("where(m, x @ w, b)", "m x w b"),
}


def arrays(dtype=BRAIN, m=M, k=K):
    random = np.random.default_rng(7)
    shapes = {"x": (m, k), "y": (m, k), "w": (k, N), "v": (k, N), "t": (N, k), "u": (k, m), "b": (N,), "r": (m, N)}
    found = {name: random.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    found |= {"c": random.standard_normal(m).astype(np.float32), "m": random.random((m, N)) < 0.5}
    return found


def agrees(text, names, given, dtype=BRAIN):
    """The results on an emulated GPU, beside those of float64: each rounded once."""
    operands = [given[name] for name in names.split()]
    wide = [x.astype(np.float64) if x.dtype in (BRAIN, np.float16) else x for x in operands]
    expected = fd.kernel(text.replace("float32(", "(").replace("bfloat16(", "("))(*wide)
    with emulated_gpu() as gpu:
        found = fd.kernel(text)(*map(gpu.asarray, operands))
        found = [to_host(x).astype(np.float64) for x in (found if isinstance(found, tuple) else (found,))]
        assert len(gpu.launches) == 1
    for value, right in zip(found, expected if isinstance(expected, tuple) else (expected,)):
        error = 2.0**-8 if dtype == BRAIN else 2.0**-10
        np.testing.assert_array_less(np.abs(value - right), error * np.abs(right) + 1e-4 * np.abs(right).max())


@pytest.fixture
def chosen(monkeypatch):
    """The schedules of what is compiled, and a function that leaves one candidate."""
    made, candidates, scheduled = [], sm90_schedule.candidates, compiler.scheduled_cuda

    def recording(*arguments):
        made.append(scheduled(*arguments)[1])
        return scheduled(*arguments)

    def only(multiprocessors=2, **fields):
        def some(*arguments):
            found = (s for s in candidates(*arguments) if all(getattr(s, k) == v for k, v in fields.items()))
            return (replace(s, multiprocessors=multiprocessors) for s in found)  # a block has several tiles

        monkeypatch.setattr(sm90_schedule, "candidates", some)

    monkeypatch.setattr("fusedsl.runtime.specialize.scheduled_cuda", recording)
    return made, only


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("shape", sm90_schedule.SHAPES)
@pytest.mark.parametrize("columns", [64, 128])
def test_every_tile_shape_gives_the_same(name, shape, columns, chosen):
    warpgroups, pingpong, cluster = shape
    if columns % (64 * cluster):
        pytest.skip(f"{columns} columns are no boxes for {cluster} blocks")
    made, only = chosen
    only(warpgroups=warpgroups, pingpong=pingpong, cluster=cluster, columns=columns)
    agrees(*TEXTS[name], arrays())
    assert all(isinstance(s, sm90_schedule.Sm90MatmulSchedule) for s in made)
    assert {(s.warpgroups, s.pingpong, s.cluster, s.columns) for s in made} == {(*shape, columns)}


@pytest.mark.parametrize("splits", [2, 3])
@pytest.mark.parametrize("columns, warpgroups", [(64, 2), (128, 1)])
def test_parts_of_a_sum_are_added_in_order(splits, columns, warpgroups, chosen, monkeypatch):
    monkeypatch.setattr(sm90_schedule, "LEAST_SLICES", 1)
    made, only = chosen
    only(8, warpgroups=warpgroups, pingpong=1, cluster=1, columns=columns)
    split = sm90_schedule.parts
    monkeypatch.setattr(sm90_schedule, "parts", lambda *given: (s for s in split(*given) if s.splits == splits))
    monkeypatch.setattr(sm90_schedule, "predicted_clocks", lambda s, *_: -s.splits)
    random = np.random.default_rng(3)
    x, w, b = (random.standard_normal(shape).astype(BRAIN) for shape in ((72, 400), (400, 72), (72,)))
    agrees("relu(x @ w + b)", "x w b", {"x": x, "w": w, "b": b})
    assert {s.splits for s in made} == {splits}


NARROW_TAILS = {
    "rows by rows": ("gelu(x @ w + b) + r", "x w b r", 128),
    "columns by columns": ("u.mT @ t.mT", "u t", 128),
    "two products, in halves of 128 columns": ("silu(x @ w) * (x @ v)", "x w v", 128),
    "quarters of 256 columns": ("p = float32(x) @ float32(w); p, bfloat16(p)", "x w", 256),
}


@pytest.mark.parametrize("name", NARROW_TAILS)
def test_tiles_of_the_last_wave_may_be_narrower(name, chosen, monkeypatch):
    text, names, columns = NARROW_TAILS[name]
    made, only = chosen
    only(6 if columns == 128 else 4, warpgroups=1, pingpong=1, cluster=1, columns=columns)
    monkeypatch.setattr(sm90_schedule, "predicted_clocks", lambda s, *_: s.tail_columns or s.columns)
    agrees(text, names, arrays(m=200 if columns == 128 else 320))
    assert {s.tail_columns for s in made} == {64}


@pytest.mark.parametrize("dtype", [BRAIN, np.float16])
@pytest.mark.parametrize("name", EPILOGUES)
def test_an_epilogue_is_part_of_the_kernel(name, dtype, chosen):
    text, names = EPILOGUES[name]
    agrees(text if dtype == BRAIN else text.replace("bfloat16", "float16"), names, arrays(dtype), dtype)
    assert all(isinstance(s, sm90_schedule.Sm90MatmulSchedule) for s in chosen[0])


@pytest.mark.parametrize("warpgroups, columns", [(1, 64), (2, 128)])
def test_results_of_float32_leave_by_tma_in_halves_of_panels(warpgroups, columns, chosen):
    made, only = chosen
    only(warpgroups=warpgroups, columns=columns, pingpong=1, cluster=1)
    agrees("p = float32(x) @ float32(w); p, p * c[:, None], bfloat16(p)", "x w c", arrays())
    assert {len(s.tma_stores) for s in made} == {3}


def test_batches_are_read_where_they_are(chosen):
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape).astype(BRAIN) for shape in ((2, 3, 72, 80), (2, 1, 88, 80)))
    with emulated_gpu() as gpu:
        found = to_host(fd.kernel("a @ b.mT")(gpu.asarray(a), gpu.asarray(b))).astype(np.float64)
    expected = a.astype(np.float64) @ b.astype(np.float64).swapaxes(-1, -2)
    np.testing.assert_allclose(found, expected, rtol=2.0**-8, atol=1e-3)
    assert all(isinstance(s, sm90_schedule.Sm90MatmulSchedule) for s in chosen[0])


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("names", ["x w", "u.mT w", "x t.mT"])
def test_an_operand_that_repeats_its_elements_is_no_operand_of_tma(names, rows, chosen):
    """The box of an axis of stride 0 was of one element, and its barrier waited for a whole slice: for ever."""
    given, memory = arrays(m=64, k=64), Emulated()
    with emulated_gpu():
        for repeated in names.replace(".mT", "").split():
            wide = dict(given)
            line = wide[repeated][:1] if rows else wide[repeated][:, :1]
            wide[repeated] = np.broadcast_to(line, wide[repeated].shape)
            operands = [wide[name] for name in names.replace(".mT", "").split()]
            found = fd.kernel(f"float32({names.replace(' ', ' @ ')})")(*map(memory.there, operands))
            right = [x.astype(np.float64).T if f"{name}.mT" in names else x.astype(np.float64)
                     for name, x in zip(names.replace(".mT", "").split(), operands)]  # fmt: skip
            np.testing.assert_allclose(to_host(found), right[0] @ right[1], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("text, dtype", [("float32(x) @ float32(w)", np.float32), ("x @ w + b", BRAIN)])
def test_what_lies_beside_an_odd_number_of_columns_stays(text, dtype, chosen):
    given = arrays()
    x, w, b = given["x"], given["w"][:, :199], given["b"][:199]
    names = "x w b" if "b" in text.split() else "x w"
    wide = np.full((M, N), 7, dtype)
    with emulated_gpu() as gpu:
        result = gpu.asarray(wide)
        on_card = {"x": gpu.asarray(x), "w": gpu.asarray(given["w"])[:, :199], "b": gpu.asarray(b)}
        fd.kernel(text)(*(on_card[name] for name in names.split()), out=result[:, :199])
        found = to_host(result).astype(np.float64)
    expected = x.astype(np.float64) @ w.astype(np.float64) + (b.astype(np.float64) if "b" in names else 0)
    np.testing.assert_allclose(found[:, :199], expected, rtol=2.0**-8, atol=1e-2)
    assert (found[:, 199:] == 7).all()
    assert all(isinstance(s, sm90_schedule.Sm90MatmulSchedule) for s in chosen[0])


@pytest.mark.parametrize("columns, warpgroups", [(64, 1), (128, 2)])
@pytest.mark.parametrize("count", [199, 193, 129])
def test_rows_that_begin_anywhere_leave_through_shared_memory(count, columns, warpgroups, chosen):
    """What lies beside them stays."""
    schedules, only = chosen
    only(columns=columns, warpgroups=warpgroups)
    given = arrays()
    x, t, b = given["x"], given["t"][:count], given["b"][:count]
    with emulated_gpu() as gpu:
        wide = gpu.asarray(np.full((M, 201), 7, BRAIN))
        out = wide[:, 1 : 1 + count]
        fd.kernel("x @ t.mT + b")(gpu.asarray(x), gpu.asarray(t), gpu.asarray(b), out=out)
        found = to_host(wide).astype(np.float64)
    expected = x.astype(np.float64) @ t.astype(np.float64).T + b.astype(np.float64)
    np.testing.assert_allclose(found[:, 1 : 1 + count], expected, rtol=2.0**-8, atol=1e-2)
    assert (np.delete(found, range(1, 1 + count), axis=1) == 7).all()
    assert all(s.staged_stores for s in schedules)


@pytest.mark.parametrize("text", ["1 + erf(p) - c", "log(1 + erf(p))"])
def test_sums_with_erf_that_cancel_are_within_their_bounds(text, chosen):
    x, w, c = np.zeros((M, 16), BRAIN), np.ones((16, 64), BRAIN), np.ones(64, BRAIN)
    x[:, 0] = np.linspace(-1e-6, 1e-6, M)
    text, given = f"p = float32(x) @ float32(w); bfloat16({text})", [x, w, c] if "- c" in text else [x, w]
    with emulated_gpu() as gpu:
        fd.kernel(text, verify=True)(*map(gpu.asarray, given))
    assert all(isinstance(s, sm90_schedule.Sm90MatmulSchedule) for s in chosen[0])


@pytest.mark.parametrize(
    "shape, rows, columns",
    [
        ((4096, 4096, 4096), 128, 256),
        ((3072, 3072, 3072), 128, 192),  # measured: H100: 78.6 us, 100 in tiles of 256
        ((1024, 1024, 1024), 64, 128),  # measured: H100: 8.6 us, 15.6 in tiles of 128 x 256
        ((128, 4096, 4096), 64, 64),
    ],
)
def test_tiles_fill_the_card(shape, rows, columns, chosen):
    m, n, k = shape
    fd.kernel("x @ w").source(fd.spec((m, k), "bfloat16"), fd.spec((k, n), "bfloat16"), device="cuda")
    (schedule,) = {replace(s, reason="") for s in chosen[0]}
    assert (schedule.rows, schedule.columns) == (rows, columns)


def test_shared_memory_and_stages_are_within_the_card(chosen):
    fd.kernel("x @ w").source(fd.spec((4096, 4096), "bfloat16"), fd.spec((4096, 4096), "bfloat16"), device="cuda")
    for s in chosen[0]:
        assert s.smem_bytes <= 227 << 10 and s.stages >= 3


FOLDS = {
    "a sum beside the product": ("y = x @ w; y, sum(float32(y), -1)", "x w"),
    "a maximum of what follows": ("max(gelu(x @ w + b), axis=-1)", "x w b"),
    "log-sum-exp": ("logsumexp(x @ w + b, -1)", "x w b"),
    "positions": ("argmax(x @ w, -1)", "x w"),
    "a mean, and elements of rows": ("mean(x @ w * c[:, None], -1) * c", "x w c"),
    "two folds of two products": ("p = silu(x @ w) * (x @ v); sum(p, -1), min(p, axis=-1)", "x w v"),
}


@pytest.fixture
def folded(monkeypatch):
    """Products of small arrays fold panels too, whatever is predicted to be faster."""
    monkeypatch.setattr(product_choice, "WORTH", 1e9)
    monkeypatch.setattr(product_choice, "MODES", (ProductMode.FOLDED,))
    monkeypatch.setattr(graph_products, "SMALL", 0)
    monkeypatch.setattr(numba_backend, "lower", lambda *_: pytest.fail("Numba lowers it"))


@pytest.mark.parametrize("columns, warpgroups", [(64, 1), (128, 2)])
@pytest.mark.parametrize("name", FOLDS)
def test_rows_are_folded_in_panels_where_products_are_computed(name, columns, warpgroups, chosen, folded):
    made, only = chosen
    only(columns=columns, warpgroups=warpgroups, pingpong=1, cluster=1)
    text, names = FOLDS[name]
    given = arrays(m=72, k=520)  # longer rows than those of heads, which attention multiplies
    operands = [given[x] for x in names.split()]
    wide = [x.astype(np.float64) if x.dtype == BRAIN else x for x in operands]
    expected = fd.kernel(text.replace("float32(", "("))(*wide)
    with emulated_gpu() as gpu:
        found = fd.kernel(text, verify=True)(*map(gpu.asarray, operands))
        found = [to_host(x) for x in (found if isinstance(found, tuple) else (found,))]
        assert len(gpu.launches) == 2
    for value, right in zip(found, expected if isinstance(expected, tuple) else (expected,)):
        assert value.shape == right.shape
        np.testing.assert_allclose(value.astype(np.float64), right, rtol=2.0**-7, atol=1e-3 * np.abs(right).max())
    (products,) = {s for s in made if isinstance(s, sm90_schedule.Sm90MatmulSchedule)}
    assert products.columns == columns


def test_parts_of_a_sum_are_added_before_rows_are_folded(chosen, folded, monkeypatch):
    made, only = chosen
    only(16, columns=64, warpgroups=1, pingpong=1, cluster=1)
    split = sm90_schedule.parts
    monkeypatch.setattr(sm90_schedule, "LEAST_SLICES", 1)
    monkeypatch.setattr(sm90_schedule, "parts", lambda *given: (s for s in split(*given) if s.splits == 2))
    monkeypatch.setattr(sm90_schedule, "predicted_clocks", lambda s, *_: -s.splits)
    x, w = arrays(m=72, k=520)["x"], arrays(m=72, k=520)["w"]
    with emulated_gpu() as gpu:
        found = to_host(fd.kernel("logsumexp(x @ w, -1)", fallback=False)(gpu.asarray(x), gpu.asarray(w)))
    assert 2 in {s.splits for s in made if isinstance(s, sm90_schedule.Sm90MatmulSchedule)}
    expected = fd.kernel("logsumexp(x @ w, -1)")(x.astype(np.float64), w.astype(np.float64))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2.0**-7)


@pytest.mark.parametrize("nan_at, columns", [(None, 200), (3, 192), (130, 200)])
def test_the_first_of_equals_and_of_nan_is_found_in_panels(nan_at, columns, chosen, folded):
    made, only = chosen
    only(columns=128, warpgroups=2, pingpong=1, cluster=1)
    given = arrays(m=72, k=520)
    x, w = given["x"], given["w"][:, :columns].copy()
    w[:, 100:] = w[:, : columns - 100]
    if nan_at is not None:
        w[7, [nan_at, nan_at + 1]] = np.nan
    expected = (
        np.argmax(x.astype(np.float64) @ w.astype(np.float64), axis=-1) if nan_at is None else np.full(72, nan_at)
    )
    with emulated_gpu() as gpu:
        found = to_host(fd.kernel("argmax(x @ w, -1)", fallback=False)(gpu.asarray(x), gpu.asarray(w)))
    np.testing.assert_array_equal(found, expected)
    assert {s.multiple for s in made if isinstance(s, sm90_schedule.Sm90MatmulSchedule)} == {
        64 if columns == 192 else 2
    }


def test_whole_panels_are_folded_without_masks(chosen, folded):
    chosen[1](columns=64, warpgroups=1, pingpong=1, cluster=1)
    given = arrays(m=72, k=520)
    x, w = given["x"], given["w"][:, :128].copy()
    exact = x.astype(np.float64) @ w.astype(np.float64)
    with emulated_gpu() as gpu:
        made_of = fd.kernel("p = float32(x) @ float32(w); logsumexp(p, axis=-1), sum(p, -1)", fallback=False)
        found = [to_host(y) for y in made_of(gpu.asarray(x), gpu.asarray(w))]
    np.testing.assert_allclose(found[0], np.log(np.exp(exact).sum(-1)), rtol=1e-5)
    np.testing.assert_allclose(found[1], exact.sum(-1), atol=1e-3)


@pytest.mark.parametrize(
    "text, early",
    [("rms_norm(x, b) @ w", 1), ("w.mT @ rms_norm(x, b)", 1), ("p = rms_norm(x, b); silu(p @ w) * (p @ v)", 1)],
)
def test_a_product_that_follows_may_load_arguments_before_it_waits(text, early, chosen, monkeypatch):
    monkeypatch.setattr(Sm90MatmulSchedule, "starts_early", lambda *_: True)
    given = arrays(m=136)
    given["b"] = given["b"][:K]
    kernel = fd.kernel(text)
    names = list(kernel.params)
    with emulated_gpu() as gpu:
        operands = [gpu.asarray(given[name]) for name in names]
        source = kernel.source(*operands)
        found = to_host(kernel(*operands)).astype(np.float64)
    expected = kernel(*(given[name].astype(np.float64) for name in names))
    np.testing.assert_allclose(found, expected, rtol=2.0**-7, atol=2e-2 * np.abs(expected).max())
    assert source.count("while stage < prefetched") == early


def test_products_of_arguments_alone_start_early(chosen, monkeypatch):
    """All that they multiply is loaded ahead, so that stages are released before the producer goes on."""
    monkeypatch.setattr(resolve_call, "choose_product_mode", _alone)
    launches = []
    monkeypatch.setattr(LaunchRecord, "__init__", _noting(launches, LaunchRecord.__init__))
    given = arrays(m=136, k=520)
    with emulated_gpu() as gpu:
        kernel = fd.kernel("x @ w, x @ v", fallback=False)
        found = [to_host(y) for y in kernel(*(gpu.asarray(given[name]) for name in "xwv"))]
    assert [one.starts_early for one in launches] == [False, True]
    for y, name in zip(found, "wv"):
        right = given["x"].astype(np.float64) @ given[name].astype(np.float64)
        np.testing.assert_allclose(y.astype(np.float64), right, rtol=2.0**-7, atol=2e-2 * np.abs(right).max())


def _alone(fused, resolve_as):
    """The plan with a kernel for each product."""
    if fused.plan.products is not ProductMode.FUSED:
        return fused, None
    return resolve_as(replace(fused.plan.formulation, products=ProductMode.ALONE)), None


def test_products_of_what_is_computed_wait_for_each_other(chosen, monkeypatch):
    """A product of what is computed is launched when the launch before it has ended, also in a graph."""
    launches = []
    monkeypatch.setattr(LaunchRecord, "__init__", _noting(launches, LaunchRecord.__init__))
    given = arrays(m=136)
    given["b"] = given["b"][:K]
    with emulated_gpu() as gpu:
        operands = [gpu.asarray(given[name]) for name in "xbw"]
        kernel = fd.kernel("rms_norm(x, b) @ w")
        kernel(*operands)
        source = kernel.source(*operands)
    products = [one for one in launches if one.exclusive]
    assert len(launches) > len(products) == 1
    assert not products[0].programmatic_launch and not products[0].starts_early
    assert "prefetched" not in source and "launch_dependents()" not in source


def _noting(launches, made):
    """LaunchRecord.__init__ that appends each launch to a list."""

    def init(self, driver, function, geometry, *rest):
        launches.append(geometry)
        made(self, driver, function, geometry, *rest)

    return init


def test_only_what_follows_a_launch_of_ours_loads_before_it_waits(monkeypatch):
    """Neither a launch of no blocks nor a library's kernel says that the calls before have ended."""
    followed = []

    def record(call, members, layout, follows):
        followed.append(follows)
        made = object.__new__(members[0][0])
        made.geometry = LaunchConfig(members[0][2], 128)
        return made, False

    monkeypatch.setattr(prepare_call, "_cuda_record", record)
    kinds = [(LaunchRecord, 0), (CublasLaunch, 1), (LaunchRecord, 1), (CublasLaunch, 1), (LaunchRecord, 1)]
    launches = [[(kind, SimpleNamespace(empty=False), blocks)] for kind, blocks in kinds]
    prepare_call._launch_records(SimpleNamespace(device=("cuda", 0), bounds=(), launches=launches), None)
    assert followed == [False, False, False, True, True]
