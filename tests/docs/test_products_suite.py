"""The suite `products` without a GPU: its cases at small extents, each peer's results, its limits and its verdicts."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import llama_block
import products
import suite_gpu
import suite_products
from fusedsl.bench import record
from fusedsl.program import resolve_call

torch = pytest.importorskip("torch")

import peers_products  # noqa: E402

PREFILL, DECODE = llama_block.shapes(24, 3, 16, (64, 4, 2, 16, 96))
SINGLE = [c for c in products.core() if c.dtype != "int8" and not c.name.startswith(("linear", "product 3x"))]
KINDS = {(c.name, c.dtype): c for c in SINGLE}.values()  # one of each


class Clock:
    """Stands for a card."""

    def times(self, call, repetitions):
        call()
        return [1.0 + k for k in range(repetitions)]

    def copy(self, size, dtype, repetitions):
        return [1.0] * repetitions


def small(case: products.Product) -> products.Product:
    """The case with extents of at most 32, or a block of few heads."""
    if case.name.startswith("llama"):
        shapes = PREFILL if "keys" not in case.arrays else DECODE
        found = {name: replace(one, shape=shapes[name][0]) for name, one in case.arrays.items()}
    else:
        found = {name: replace(a, shape=tuple(min(n, 32) for n in a.shape)) for name, a in case.arrays.items()}
    return replace(case, arrays=found)


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    def drawn(case, seed):
        draw = torch.Generator().manual_seed(seed)
        scaled = {name: torch.randn(one.shape, generator=draw) * one.scale for name, one in case.arrays.items()}
        return {name: x.to(getattr(torch, case.arrays[name].dtype)) for name, x in scaled.items()}

    monkeypatch.setattr(peers_products, "operands", drawn)


@pytest.mark.parametrize("case", KINDS, ids=lambda c: f"{c.name} {c.dtype}")
def test_fusedsl_and_torch_compute_the_same(case):
    peers = peers_products.Peers(small(case))
    right = peers.reference()
    for name in peers.names:
        if name in (products.COMPILED, products.TUNED, "triton", "cupy float16", "quack", "cublaslt epilogue"):
            continue
        call = peers.build(name)
        call()
        expected, results = peers.reference_of(name, right), peers_products.as_results(call())
        if expected is not None:
            allowed = 1e-5 if "matmul" in case.options else case.most_error * (1 if name == "fusedsl" else 4)
            assert suite_products.worst(results, expected) <= allowed, name
    assert peers.plan()


def test_a_case_has_a_row_for_each_peer_and_says_its_plan(capsys):
    settings = suite_gpu.Settings(repetitions=6, compile_until=0.0, limit_s=60.0)
    case = small(next(c for c in products.core() if c.name == "gelu"))
    report = record.Report(None)
    suite_products.measure(Clock(), report, settings, case)
    told = {r.peer: r for r in report.rows}
    assert list(told) == ["fusedsl", "cublas", *case.peers]
    assert told["fusedsl"].plan and told["fusedsl"].first_s is not None and told["fusedsl"].max_error < 1e-2
    assert told["torch.compile"].error.startswith("left out")
    assert "1.00x cublas" in capsys.readouterr().out
    report = record.Report(None)
    suite_products.measure(Clock(), report, replace(settings, quick=True), case)
    assert [r.peer for r in report.rows] == ["fusedsl", "cublas"]


def test_what_takes_too_long_is_left_out():
    with pytest.raises(TimeoutError), suite_products.limited(time.monotonic() + 0.05):
        time.sleep(5)
    with pytest.raises(TimeoutError), suite_products.limited(time.monotonic() - 1):
        pass


def test_verdicts_say_what_is_missed():
    case = next(c for c in products.core() if c.name == "batched")
    facts = {"bytes": 1, "flops": 1, "floor_us": 9.0, "max_error": 1e-4}

    def row(peer, median):
        return record.Row(*case.case, peer, median, median, median, **facts)

    rows = {"fusedsl": row("fusedsl", 10.0), "cublas": row("cublas", 9.0)}
    assert suite_products.misses(case, rows) == []  # near a copy
    rows["fusedsl"] = row("fusedsl", 11.0)
    assert suite_products.misses(case, rows) == ["0.818 of cublas < 1 and 0.818 of copy < 0.9"]
    assert suite_products.acceptance([case], list(rows.values())).startswith("== 0 of 1 cases")
    wrong = {"fusedsl": replace(row("fusedsl", 1.0), max_error=1.0)}
    assert suite_products.misses(case, wrong) == ["error 1.0"]


def test_cases_that_no_library_computes_have_names_of_their_own():
    plain, own = (suite_products.chosen(suite_gpu.Settings(own=own)) for own in (False, True))
    assert not {c.case for c in plain} & {c.case for c in own}
    assert [c.wanted for c in plain] == [c.wanted for c in own]


def test_fewer_random_shapes_are_a_part_of_more():
    few, many = products.drawn(5, 3), products.drawn(40, 3)
    assert many[:5] == few and products.drawn(5, 4) != few
    assert {c.arrays["w"].turned for c in many} == {False, True}
    assert all(1 <= n <= products.MOST for c in many for n in c.extents)


def test_no_library_computes_products_where_own_kernels_are_timed(monkeypatch):
    monkeypatch.setattr(resolve_call, "blas_library", lambda *given: "torch")
    suite_products.without_libraries()
    assert resolve_call.blas_library("torch", True) is None
