"""Autotuning: neighbours are schedules of the same kernel for the same lengths; what won is kept and told."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cuda.rows.schedule import ResidentRowSchedule
from fusedsl.backends.cuda.tuning_space import MOST, difference, tuning_space
from fusedsl.hardware import hardware_facts, registers_for
from fusedsl.program import autotune
from fusedsl.report.explain import resolved_call
from fusedsl.runtime.compile import disk, scheduled_cuda

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from random_graphs import draw

H200 = hardware_facts((9, 0))
CASES = [
    ("x + y", (1 << 20,), "float32"),
    ("x * 2", (1000, 1000), "bfloat16"),
    ("softmax(x)", (64, 100), "float32"),
    ("softmax(x)", (4096, 4096), "float32"),
    ("layer_norm(x, y, y)", (4096, 4096), "bfloat16"),
    ("rms_norm(x, y)", (16, 16384), "bfloat16"),
    ("rms_norm(x, y)", (16, 4097), "bfloat16"),
    ("softmax(x)", (16, 1 << 19), "float32"),
    ("cumsum(x, axis=-1)", (64, 1000), "float32"),
]


def kernels(text, shape, dtype):
    """(plan, bound, kernel, schedule) of each kernel of a text over x and y, y a row where x has several."""
    made = fd.kernel(text)
    row = shape if text == "x + y" else shape[-1:]
    case = resolved_call(made._program, [fd.spec(row if n == "y" else shape, dtype) for n in made.params], "cuda", 90)
    return [(plan, bound, *scheduled_cuda(bound, H200)) for plan, bound in case.kernels]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]} {c[1]} {c[2]}")
def test_neighbours_are_few_different_and_run_the_same_lengths(case):
    for _, _, kernel, schedule in kernels(*case):
        found = tuning_space(schedule, kernel, H200)
        assert 1 <= len(found) <= MOST
        assert len({*found, schedule}) == len(found) + 1
        assert found == tuning_space(schedule, kernel, H200)
        for other in found:
            assert type(other) is type(schedule)
            assert difference(schedule, other)
            threads = other.block_threads
            assert 1 <= threads <= H200.block_threads
            assert 1 <= other.registers <= registers_for(H200, other.blocks, threads)
            if isinstance(other, ResidentRowSchedule):
                assert other.vectors * other.vector_stride >= schedule.vectors * schedule.vector_stride
                assert other.full_vectors * other.vector_stride <= schedule.full_vectors * schedule.vector_stride
                assert other.full_vectors <= other.vectors
                assert 0 <= other.epilogue_vectors <= other.vectors


@pytest.mark.parametrize("text", ["sort(x)", "topk(x, 3)", "r = x / sum(x, -1, keepdims=True); r, sum(r, 0)"])
def test_threads_that_an_order_or_states_of_columns_are_laid_out_for_stay(text):
    for _, _, kernel, schedule in kernels(text, (512, 1000), "float32"):
        assert all(other.block_threads == schedule.block_threads for other in tuning_space(schedule, kernel, H200))


def test_neighbours_compile():
    pytest.importorskip("numba_cuda")
    from fusedsl.runtime.compile import build_scheduled

    for seed in (0, 3, 9, 40):
        drawn = draw(seed)
        made = fd.kernel(drawn.text)
        case = resolved_call(made._program, drawn.values(made.params), "cuda", 90)
        for plan, bound in case.kernels:
            kernel, schedule = case.scheduled(plan, bound)
            for other in tuning_space(schedule, kernel, H200)[:4]:
                assert build_scheduled(kernel, other, plan.digest, (9, 0)).code


# -- what is kept


@pytest.fixture
def record():
    """A text whose one kernel has been tuned, as far as the cache knows, and the schedule that won."""
    made = fd.kernel("softmax(x) * 3", autotune=True)
    case = resolved_call(made._program, [fd.spec((4096, 4096))], "cuda", 90)
    ((plan, bound),) = case.kernels
    kernel, base = scheduled_cuda(bound, H200)
    winner = tuning_space(base, kernel, H200)[0]
    trials = (
        autotune.Trial(difference(base, winner), 2.5e-5),
        autotune.Trial("threads 1 → 2", None, "values would spill"),
    )
    key = autotune._key(plan, kernel, base, H200)
    autotune._save(key, base, autotune.TuningResult(winner, 3e-5, trials))
    yield made, base, winner, key
    autotune._results.pop(key, None)


def test_what_won_is_read_back_from_disk(record):
    _, base, winner, key = record
    kept = autotune._results.pop(key)
    assert autotune._read(key, base) == kept
    assert autotune._read(key, base).schedule == winner
    assert autotune._read((*key, "other"), base) is None


def test_a_damaged_record_is_none(record):
    from fusedsl.runtime.cache import cache_key

    _, base, _, key = record
    for damaged in ({"schedule": {"no such field": 1}, "seconds": 1.0, "trials": []}, {"schedule": 3}, {}):
        disk().put(cache_key(tuned=repr(key)), damaged)
        assert autotune._read(key, base) is None


def test_explain_tells_what_was_tried_and_uses_what_won(record):
    made, _, winner, _ = record
    told = made.explain(fd.spec((4096, 4096)), compile=False)
    (kernel,) = told.kernels
    assert kernel.threads == winner.block_threads
    assert kernel.untuned_seconds == 3e-5
    for part in ("the first choice  30 µs", "25 µs", "threads 1 → 2  values would spill"):
        assert part in str(told)
    plain = fd.kernel("softmax(x) * 3").explain(fd.spec((4096, 4096)), compile=False)
    assert plain.kernels[0].threads != winner.block_threads
    assert plain.kernels[0].tried == ()


def test_other_shapes_of_the_class_use_what_won(record):
    made, _, winner, _ = record
    assert made.explain(fd.spec((100, 3500)), compile=False).kernels[0].threads == winner.block_threads


def test_on_the_cpu_nothing_is_tried():
    x = np.float32([[1, 2, 3]])
    np.testing.assert_array_equal(fd.kernel("x + 1", autotune=True)(x), x + 1)


# -- on the card


@pytest.mark.gpu
@pytest.mark.parametrize("text", ["softmax(x)", "x * 2 + 1", "softmax(x, axis=0) + sum(x)", "layer_norm(x, w, w)"])
def test_tuned_kernels_compute_the_same(text, tmp_path, monkeypatch):
    cupy = pytest.importorskip("cupy")
    x = cupy.random.default_rng(0).standard_normal((300, 1000)).astype("float32")
    w = cupy.ones(1000, "float32")
    plain, tuned = fd.kernel(text), fd.kernel(text, autotune=True)
    given = [x, w][: len(plain.params)]
    before = [a.copy() for a in given]
    wanted = plain(*given)
    tries = []
    monkeypatch.setattr(autotune._Tuning, "run", lambda self, old=autotune._Tuning.run: (tries.append(1), old(self))[1])
    out = cupy.zeros_like(wanted)
    for _ in range(3):
        assert tuned(*given, out=out) is out
        cupy.testing.assert_allclose(out, wanted, rtol=2e-5, atol=2e-5)
    assert len(tries) == 1
    for a, b in zip(given, before):
        cupy.testing.assert_array_equal(a, b)
    told = tuned.explain(*given)
    assert all(k.untuned_seconds for k in told.kernels)
    assert "tried" in str(told)
    again = fd.kernel(text, autotune=True)
    cupy.testing.assert_array_equal(again(*given), out)
    assert len(tries) == 1


@pytest.mark.gpu
def test_an_output_over_its_input_is_written_once():
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(4096, dtype="float32")
    fd.kernel("x * 3 + 0.25", autotune=True)(x, out=x)
    cupy.testing.assert_array_equal(x, cupy.arange(4096, dtype="float32") * 3 + 0.25)
