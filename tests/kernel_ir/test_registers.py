"""Registers: predictions are never below the compiler's, rarely far above, and no chosen plan spills."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from written import instructions

import fusedsl as fd
from fusedsl.hardware import hardware_facts, registers_for
from fusedsl.ir.types import BFLOAT16, FLOAT32, FLOAT64
from fusedsl.kernel_ir.kernel import KernelIR, Load, Operand
from fusedsl.kernel_ir.phase import Body, Phase, Store, Value
from fusedsl.kernel_ir.register_pressure import BASE, Tiling, body_registers_of, predicted_registers, required_registers
from fusedsl.report.explain import resolved_call

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from random_graphs import draw  # noqa: E402
from registers import quantile, study  # noqa: E402

H200 = hardware_facts((9, 0))


# -- the estimate


def values(names, dtype=FLOAT32):
    return tuple(Value(name, dtype) for name in names.split())


def test_a_body_holds_what_is_still_read():
    a, b = values("a b")
    chain = Body((a,), (b,), instructions("t = a + a", "u = t * t", "b = u - a"))
    wide = Body((a,), (b,), instructions("t = a + a", "u = a * a", "v = a - a", "w = t + u", "b = w + v"))
    assert body_registers_of(chain) == 2
    assert body_registers_of(wide) == 4
    assert body_registers_of(
        Body(values("a", FLOAT64), values("b", FLOAT64), chain.instructions)
    ) == 2 * body_registers_of(chain)


def adding(dtype, outputs=1):
    """x * y + k for so many results, of which none can be stored before the others are computed."""
    names = [f"z{k}" for k in range(outputs)]
    operands = tuple(Operand(n, dtype, "1", "vector") for n in ("x", "y", *names))
    loads = tuple(Load(v, k) for k, v in enumerate(values("x_0 y_0")))
    lines = instructions(*(f"{n}_1 = fma(x_0, y_0, float32({k}.5))" for k, n in enumerate(names)))
    element = Body(values("x_0 y_0"), values(" ".join(f"{n}_1" for n in names)), lines)
    phase = Phase(element, tuple(Store(f"{n}_1", 2 + k) for k, n in enumerate(names)))
    return KernelIR("adding", ("x + y",), 0, 1, 2, operands, loads, (), (), (phase,))


def test_tiles_count_once_an_element_and_16_bit_loads_half():
    wide, narrow = required_registers(adding(FLOAT32), Tiling(4, 1)), required_registers(adding(BFLOAT16), Tiling(4, 1))
    assert narrow < wide <= BASE + 2 * 4 + 2
    assert required_registers(adding(FLOAT32), Tiling(4, 4)) == wide + 2 * 4 * 3
    assert required_registers(adding(FLOAT32, outputs=5), Tiling(4, 4)) >= BASE + 5 * 16


def test_a_prediction_is_within_what_the_launch_bound_leaves():
    kernel = adding(FLOAT32)
    for need in (20, 40, 64, 100, 200):
        for blocks, threads in ((1, 1024), (2, 512), (8, 256), (32, 32)):
            assert predicted_registers(kernel, H200, need, blocks, threads) <= registers_for(H200, blocks, threads)


def test_a_prediction_for_a_map_has_room_for_a_second_body():
    short = adding(FLOAT32)
    body = body_registers_of(short.phases[0].element)
    assert predicted_registers(short, H200, 40, 1, 256) == 40 + body


# -- against the compiler


@pytest.fixture(scope="module")
def rows():
    pytest.importorskip("numba_cuda")
    return list(study(range(40)))


def test_predictions_hold(rows):
    low = [row for row in rows if row.predicted < row.real]
    assert not low
    assert quantile([row.ratio for row in rows], 0.5) <= 1.25


def test_no_chosen_plan_spills_and_few_had_to_shrink(rows):
    assert not [row for row in rows if row.spill_bytes]
    assert sum(row.shrunk for row in rows) <= len(rows) // 10


def test_the_recorded_study_of_500_programs_holds():
    rows = json.loads((BENCHMARKS / "results" / "registers.json").read_text())["rows"]
    assert len({row["seed"] for row in rows}) >= 495  # a program may be all views
    assert not [row for row in rows if row["predicted"] < row["real"] or row["spill_bytes"]]
    assert quantile([row["predicted"] / row["real"] for row in rows], 0.5) <= 1.25


@pytest.mark.parametrize("seed", [69, 222, 353, 1246, 1558, 1975])
def test_maps_hold_values_of_several_elements_at_once(seed):
    pytest.importorskip("numba_cuda")
    assert not [row for row in study([seed]) if row.real > row.predicted]


@pytest.mark.parametrize("seed", [593, 646, 5441])
def test_rows_in_shared_memory_or_in_pieces_hold_what_slow_functions_go_around(seed):
    """Kept weights that several phases read; results of a piece, and of a loop over float64."""
    pytest.importorskip("numba_cuda")
    assert not [row for row in study([seed]) if row.spill_bytes or row.real > row.predicted]


def test_older_architectures_hold_too():
    pytest.importorskip("numba_cuda")
    for row in study(range(40, 50), cc=80):
        assert row.real <= row.predicted
        assert row.spill_bytes == 0


def test_rows_that_blocks_stream_together_do_not_spill():
    pytest.importorskip("numba_cuda")
    assert not [row for row in study([62]) if row.spill_bytes]


@pytest.mark.parametrize("seed", [6, 131, 170])
def test_what_does_not_fit_in_a_threads_registers_gets_more_threads(seed):
    drawn = draw(seed)
    made = fd.kernel(drawn.text)
    for plan, bound in (case := resolved_call(made._program, drawn.values(made.params), "cuda", 90)).kernels:
        kernel, schedule = case.scheduled(plan, bound)
        if kernel.row_axes and schedule.resident:
            tiling = Tiling(schedule.width, schedule.vectors, schedule.load_all_first, schedule.epilogue_vectors)
            assert required_registers(kernel, tiling) <= registers_for(H200, 1, schedule.block_threads)


def test_random_programs_are_the_same_every_time():
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)
    assert any(a[1] == "float64" for s in range(40) for a in draw(s).arrays.values())
