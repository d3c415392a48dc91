"""The time model: what bounds a launch, and how near its predictions are to what was measured."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from written import instructions

import fusedsl as fd
from fusedsl.fusion.roofline import LATENCY, LAUNCH, Work, seconds
from fusedsl.hardware import hardware_facts
from fusedsl.kernel_ir.instruction_cost import special_functions, total_cost, varying
from fusedsl.kernel_ir.kernel import AttentionKernel
from fusedsl.program import call_steps

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import suite_time  # noqa: E402

H200 = hardware_facts((9, 0))
ARCHITECTURES = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)]


def test_nothing_takes_less_than_a_launch_and_a_round_of_loads():
    assert seconds(Work(0, 0, 0), H200) == pytest.approx(LAUNCH + LATENCY)
    assert seconds(Work(1 << 10, 1 << 10, 1 << 12), H200) == pytest.approx(LAUNCH + LATENCY, rel=0.01)
    few = Work(LATENCY * H200.bandwidth, 0, 0)  # … which is partly over when the rest is
    assert LAUNCH + 1.5 * LATENCY < seconds(few, H200) < LAUNCH + 2 * LATENCY


def test_bytes_cost_more_to_write_than_to_read():
    reading, writing = seconds(Work(1 << 30, 0, 0), H200), seconds(Work(0, 1 << 30, 0), H200)
    assert LAUNCH + (1 << 30) / H200.bandwidth < reading < writing
    assert seconds(Work(2e9, 1e9, 10), H200) == seconds(Work(2e9, 1e9, 1000), H200)


def test_whatever_takes_longest_counts():
    work = Work(1e6, 1e6, 1e11)
    issued = seconds(work, H200)
    assert issued == pytest.approx(LAUNCH + 1e11 / (H200.issue_rate * 0.85), rel=0.01)
    assert seconds(replace(work, special=1e10), H200) == issued  # the units keep up
    assert seconds(replace(work, special=5e10), H200) > 2 * issued
    assert seconds(replace(work, double=1e11), H200) == pytest.approx(LAUNCH + 2 * (issued - LAUNCH), rel=0.01)
    assert seconds(replace(work, chain=1e6), H200) == pytest.approx(LAUNCH + 9e6 / H200.clock, rel=0.01)


def test_float64_is_slow_where_there_are_few_units_for_it():
    work = Work(1e6, 1e6, 1e10, double=1e10)
    slow, fast = hardware_facts((8, 6)), hardware_facts((8, 0))
    assert seconds(work, slow) > 10 * seconds(work, fast)
    assert seconds(replace(work, double=0), slow) < seconds(work, slow) / 10


def test_too_few_loads_under_way_do_not_fill_the_memory():
    full = Work(1e9, 0, 0)
    enough = 48 * 1024 * H200.multiprocessors
    assert seconds(replace(full, in_flight=enough), H200) == pytest.approx(seconds(full, H200))
    half = seconds(replace(full, in_flight=enough // 2), H200)
    assert half - LAUNCH == pytest.approx(2 * (seconds(full, H200) - LAUNCH), rel=0.01)


def test_what_the_l2_keeps_is_read_again_for_less():
    once = Work(1e9, 1e9, 0)
    kept = replace(once, reread=1e9, reread_footprint=10 << 20)
    lost = replace(once, reread=1e9, reread_footprint=100 << 20)
    assert seconds(once, H200) <= seconds(kept, H200) < seconds(lost, H200)
    assert seconds(lost, H200) == pytest.approx(seconds(replace(once, read=2e9), H200))


def test_functions_of_the_special_units_are_counted():
    assert special_functions(instructions("t_0 = exp(x_0)  # exp(x)", "t_1 = tanh(t_0) / x_0")) == 1 + 2 + 1
    assert special_functions(instructions("t_0 = sin(x_0) * float32(2.0)")) == 0
    assert total_cost(instructions("t_0 = exp(x_0)")) >= special_functions(instructions("t_0 = exp(x_0)"))


@pytest.mark.parametrize("cc", ARCHITECTURES)
def test_facts_of_every_architecture_go_together(cc):
    hardware = hardware_facts(cc)
    assert hardware.cc == cc
    assert hardware.threads % 32 == 0
    assert hardware.block_threads <= hardware.threads
    assert hardware.block_shared <= hardware.shared
    assert hardware.fp64 <= hardware.fp32 <= 32 * hardware.warp_issue
    assert hardware.l2 >= 4 << 20
    assert hardware.special == 16
    assert fd.kernel("softmax(x)").explain(fd.spec((4096, 4096)), cc=cc, compile=False).seconds > LAUNCH


# -- against measurements


def measured():
    """fusedsl's rows of the suites whose programs the model can be asked about."""
    rows = []
    for suite in ("map", "rows", "time", "wide", "backward", "reductions", "expressions"):
        told = json.loads((BENCHMARKS / "results" / f"h200_{suite}.json").read_text())
        rows += [r for r in told["rows"] if r["peer"] == "fusedsl" and r["median_us"]]
    return rows


def test_predictions_are_within_a_quarter_for_nine_of_ten():
    rows = measured()
    ratios = {(r["workload"], r["shape"], r["dtype"]): suite_time.predicted_us(r) / r["median_us"] for r in rows}
    far = {case: round(ratio, 2) for case, ratio in ratios.items() if abs(ratio - 1) > 0.25}
    assert len(rows) > 100
    assert len(far) <= len(rows) // 10, far
    assert all(0.5 < ratio < 2 for ratio in ratios.values()), far


MASKS = {"full": "", "causal": "j <= i", "window": "j <= i and j > i - 1024"}


def passes_over_scores():
    """fusedsl's rows of forward passes, with the mask of each, the width of a head, and the length."""
    told = json.loads((BENCHMARKS / "results" / "h200_attention.json").read_text())
    rows = [r for r in told["rows"] if r["peer"] == "fusedsl" and r["workload"] in MASKS and "kv" not in r["shape"]]
    return [(MASKS[r["workload"]], *re.findall(r"\d+", r["shape"]), r["median_us"]) for r in rows]


def attention_seconds(mask, q, k, **arrays):
    asked = f", mask={mask!r}" if mask else ""
    return fd.kernel(f"attention(q, k, v{asked})").explain(q, k, k, **arrays, cc=90, compile=False).seconds


@pytest.mark.parametrize("mask, width, length, measured", passes_over_scores())
def test_attention_takes_as_long_as_the_model_says(mask, width, length, measured):
    q = fd.spec((16384 // int(length), 2048 // int(width), int(length), int(width)), "bfloat16")
    assert attention_seconds(mask, q, q) * 1e6 == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize("batch, rows, keys, measured", [(16, 1, 32768, 482), (1, 1, 131072, 136), (16, 8, 8192, 130)])
def test_few_rows_take_as_long_as_reading_the_keys(batch, rows, keys, measured):
    q, k = fd.spec((batch, 32, rows, 128), "bfloat16"), fd.spec((batch, 8, keys, 128), "bfloat16")
    assert attention_seconds("", q, k) * 1e6 == pytest.approx(measured, rel=0.15)


def test_tiles_count_as_far_as_positions_and_lengths_say():
    q, doc = fd.spec((2, 16, 4096, 128), "bfloat16"), fd.spec(4096, "int32")
    full, causal = attention_seconds("", q, q), attention_seconds("j <= i", q, q)
    window = attention_seconds("j <= i and i - j < 512", q, q)
    assert 0.15 * full < window < 0.3 * full < 0.5 * full < causal < 0.6 * full
    both = fd.kernel("attention(q, k, v, mask='j <= i and doc[i] == doc[j]', doc=doc)")
    told = both.explain(q, q, q, doc, cc=90, compile=False)
    assert causal < told.seconds < 1.2 * causal  # whatever documents leave out
    assert "which ones arrays leave out is not known here" in told.kernels[0].schedule


@pytest.mark.parametrize("results", [
    "softmax(s) @ v", "sigmoid(s) @ v", "softmax(where(iota(s, -1) <= iota(s, -2), s, -inf)) @ v, logsumexp(s, -1)"
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, keys, out", [(38, 90, 18), (70, 3000, 64)])
def test_passes_give_way_to_products_that_take_less(rows, keys, out, dtype, results, monkeypatch):
    """Their weights are computed for each square, or stored before, in the dtype of the program."""
    shapes = {"q": (1, 2, rows, 32), "k": (1, 2, keys, 32), "v": (1, 2, keys, out)}
    given = {name: fd.spec(shape, dtype) for name, shape in shapes.items()}

    def explained(slow=None):
        with monkeypatch.context() as patch:
            if slow is not None:
                patch.setattr(
                    call_steps,
                    "_stored_scores_are_faster",
                    lambda bounds, _: slow and any(isinstance(b.kernel, AttentionKernel) for b in bounds),
                )
            return fd.kernel(f"s = q @ k.mT * 0.2; {results}").explain(**given, cc=80, compile=False)

    one, several = explained(False), explained(True)
    assert len(one.kernels) == 1 < len(several.kernels)
    chosen = explained()
    assert chosen.seconds <= one.seconds and chosen.seconds < several.seconds / 0.8


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("cc", ARCHITECTURES)
def test_passes_over_scores_have_a_time_everywhere(cc, dtype):
    q = fd.spec((4, 8, 1024, 64), dtype)
    told = [fd.kernel(text).explain(q, q, q, cc=cc, compile=False) for text in ATTENTIONS]
    assert all(LAUNCH < one.seconds < 0.1 for one in told)
    assert len(told[0].kernels) > 1 or told[1].seconds < told[0].seconds


ATTENTIONS = ("attention(q, k, v)", "attention(q, k, v, mask='j <= i')")


def test_what_is_the_same_for_all_elements_is_no_work_of_each():
    same = instructions("keep_0 = float32(1.0) - p_0  # 1 - p", "half_0 = keep_0 / float32(2.0)")
    each = instructions("y_0 = x_0 * half_0  # x * half")
    assert varying([*same, *each], ["p_0"]) == each
    assert varying(same, []) == same
