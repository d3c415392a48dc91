"""The benchmarks: every suite that this machine can run, and the arithmetic of their tables."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import accuracy  # noqa: E402
import instructions  # noqa: E402
import picture  # noqa: E402
import summary  # noqa: E402
import table  # noqa: E402
from fusedsl.bench import formulas, interleaved_timing, record, workloads  # noqa: E402

KEYS = {"suite", "workload", "shape", "dtype", "peer", "median_us", "p20_us", "p80_us", "bytes", "flops"}
KEYS |= {"floor_us", "max_error"}


def run(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(BENCHMARKS / "run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=dict(os.environ))


def test_a_quick_run_writes_every_row_and_prints_the_table(tmp_path):
    told = run("cpu", "--quick", "--only", "softmax", "--json", str(tmp_path / "cpu.json"))
    assert told.returncode == 0, told.stderr
    data = json.loads((tmp_path / "cpu.json").read_text())
    assert set(data) == {"machine", "versions", "date", "rows"}
    assert {"fusedsl", "numpy", "copy"} <= {row["peer"] for row in data["rows"]}
    for row in data["rows"]:
        assert set(row) - {"error"} == KEYS
        assert "error" in row or row["p20_us"] <= row["median_us"] <= row["p80_us"]
        assert "error" in row or row["max_error"] <= 1e-5
    assert "softmax" in told.stdout and "128x256" in told.stdout
    assert not (tmp_path / "cpu.part").exists()


def test_a_suite_without_its_machine_says_so():
    pytest.importorskip("torch")
    from fusedsl.runtime.driver import cuda_available

    if cuda_available():
        pytest.skip("there is a GPU")
    told = run("map")
    assert told.returncode == 2 and "needs an NVIDIA GPU" in told.stdout


@pytest.mark.parametrize("workload", workloads.ALL, ids=lambda w: w.name)
def test_every_workload_says_the_same_as_text_and_as_torch(workload):
    """As fusedsl computes them, in both dtypes of the suites, against torch in float64."""
    torch = pytest.importorskip("torch")
    import fusedsl as fd

    kernel, draw = fd.kernel(workload.text, max_kernels=1), np.random.default_rng(0)
    for dtype in ("float32", "bfloat16"):
        made = {}
        for one in workload.inputs:
            size = one.shape((8, 40))
            x = draw.standard_normal(size) if one.low is None else draw.uniform(one.low, one.high, size)
            made[one.name] = torch.from_numpy(x).to(getattr(torch, dtype))
        numbers = dict(workload.scalars)
        results = kernel(**numbers, **made)
        right = workload.torch(torch)(*numbers.values(), *(x.double() for x in made.values()))
        plain = workload.plain(np, formulas.erf_of(np))(*numbers.values(), *(x.double().numpy() for x in made.values()))
        for ours, reference in zip(as_tuple(plain), as_tuple(right), strict=True):
            np.testing.assert_allclose(ours, reference, rtol=1e-5, atol=1e-5)
        for result, reference in zip(as_tuple(results), as_tuple(right), strict=True):
            assert result.dtype == getattr(torch, dtype)
            error = float((result.double() - reference).abs().max() / reference.abs().max())
            assert error <= summary.ERRORS[dtype]


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def test_bytes_count_every_input_and_result_once():
    assert workloads.BY_NAME["axpy"].bytes((4, 8), 4) == 3 * 32 * 4
    assert workloads.BY_NAME["layer_norm"].bytes((4, 8), 2) == 2 * (2 * 32 + 2 * 8)
    assert workloads.BY_NAME["add_rms_norm"].bytes((4, 8), 2) == 2 * (4 * 32 + 8)


def row(peer: str, median: float | None, **changes) -> record.Row:
    facts = {"suite": "rows", "workload": "softmax", "shape": "4096x4096", "dtype": "float32", "bytes": 1, "flops": 1}
    found = {"median_us": median, "p20_us": median, "p80_us": median, "floor_us": 95.0, "max_error": 1e-7}
    return record.Row(peer=peer, **{**facts, **found, **changes})


def test_gates_name_what_they_miss():
    case = ("rows", "softmax", "4096x4096", "float32")
    peers = {r.peer: r for r in (row("fusedsl", 100.0), row("triton", 100.0), row("cupy", 750.0))}
    assert summary.misses(case, peers) == []
    slow = {**peers, "fusedsl": row("fusedsl", 110.0), "torch.compile": row("torch.compile", 109.0)}
    assert [m.split()[0] for m in summary.misses(case, slow)] == ["0.86", "0.99", "0.91", "6.82"]
    assert summary.misses(case, {"cupy": row("cupy", 1.0)}) == ["no result"]
    assert "error" in summary.misses(case, {"fusedsl": row("fusedsl", 96.0, max_error=0.1)})[0]
    unaligned = {"fusedsl": row("fusedsl", 107.0, shape="16384x4097")}
    assert summary.misses(("rows", "softmax", "16384x4097", "float32"), unaligned) == []


def test_peers_take_turns_and_have_as_many_timed_calls_as_they_are_asked_for():
    for repetitions in (1, 5, 30):
        for count in range(8):
            names = [f"peer {k}" for k in range(count)]
            found = list(interleaved_timing.turns(names, repetitions))
            assert all(sum(calls for name, calls in found if name == one) == repetitions for one in names)
    rounds = [[name for name, _ in interleaved_timing.turns("abcdef", 30)][k : k + 6] for k in (0, 6, 12)]
    assert ["".join(one) for one in rounds] == ["abcdef", "cdefab", "efabcd"]
    once = [name for name, _ in interleaved_timing.turns("abc", 6, once="b")]
    assert "".join(once) == "abc" + "ca" + "ca"


class Clock:
    """Stands for a card, on which every timed call takes longer than the one before."""

    def __init__(self):
        self.timed = []

    def times(self, call, repetitions):
        call()
        self.timed += [call] * repetitions
        return [float(k) for k in range(len(self.timed) - repetitions, len(self.timed))]

    def copy(self, size, dtype, repetitions):
        return [1.0] * repetitions

    def transfer(self, read, written, repetitions):
        return [1.0] * repetitions

    def issue_time(self, instructions):
        return 0.0


def test_a_case_has_a_row_for_each_peer_in_their_order_whatever_becomes_of_them():
    card, report = Clock(), record.Report(None)
    good = {name: partial(card.times, lambda: None) for name in ("fusedsl", "torch")}
    entrants = {name: lambda timer=timer: (timer, 1e-7) for name, timer in good.items()}
    entrants |= {"late": "left out: too late", "breaks": lambda: (lambda count: [][0], 0.0), "fails": lambda: 1 / 0}
    entrants["cupy"] = lambda: (partial(card.times, lambda: None), 1e-7)
    subject = interleaved_timing.Subject(("rows", "softmax", "4x4", "float32"), (1, 1), 2.0)
    times = interleaved_timing.compare(report, subject, entrants, 30)
    told = {r.peer: r for r in report.rows}
    assert list(told) == ["fusedsl", "torch", "late", "breaks", "fails", "cupy"]
    assert told["late"].error == "left out: too late" and "IndexError" in told["breaks"].error
    assert "ZeroDivisionError" in told["fails"].error
    assert {name: len(found) for name, found in times.items()} == {"fusedsl": 30, "torch": 30, "cupy": 30}
    assert told["torch"].floor_us == 2.0 and told["torch"].max_error == 1e-7
    medians = [told[name].median_us for name in times]  # 90 calls, each a µs longer: one peer after another is 60 apart
    assert max(medians) - min(medians) <= 20


def test_suites_time_their_peers_in_turns(monkeypatch):
    torch = pytest.importorskip("torch")
    import gpu
    import problems
    import suite_gpu
    import suite_problems

    monkeypatch.setattr(gpu, "tensors", lambda workload, *_: {one.name: torch.randn(8, 16) for one in workload.inputs})
    monkeypatch.setattr(problems.Problem, "arguments", lambda self, quick=False: {"x": torch.randn(8, 16)})
    settings = suite_gpu.Settings(repetitions=7, compile_until=0.0)
    case = (workloads.BY_NAME["swiglu"], (8, 16), "float32", 0)
    largest = next(p for p in problems.problems("reductions") if p.name == "max_columns")
    for measure in (
        lambda card, report: suite_gpu._case(card, report, settings, *case),
        lambda card, report: suite_problems.measure(card, report, settings, largest),
    ):
        card, report = Clock(), record.Report(None)
        measure(card, report)
        timed = [r.peer for r in report.rows if r.error is None]
        assert timed == ["copy", "fusedsl", "torch"]
        ours, theirs = dict.fromkeys(card.timed)
        assert card.timed == [ours] * 3 + [theirs] * 3 + [ours] * 2 + [theirs] * 2 + [theirs] * 2 + [ours] * 2
        assert all(r.max_error <= 1e-5 for r in report.rows if r.error is None)
        assert next(r.error for r in report.rows if r.peer == "torch.compile").startswith("left out")


def test_quantiles_interpolate():
    times = [4.0, 1.0, 3.0, 2.0]
    for share in (0.2, 0.5, 0.8):
        assert record.quantile(times, share) == pytest.approx(float(np.quantile(times, share)))


def test_instructions_are_summed_between_markers():
    lines = ["==PROF== a line of ncu's", '"ID","Kernel Name","Metric Name","Metric Value"']
    kernels = [("void FillFunctor<float>", "3"), ("row_0", "1,000"), ("row_1", "24"), ("FillFunctor", "3"), ("m", "7")]
    lines += [f'"{k}","{name}","{instructions.METRIC}","{n}"' for k, (name, n) in enumerate(kernels)]
    assert list(instructions.sums(lines)) == [1024.0, 7.0]
    assert list(instructions.sums(["==ERROR== no counters"])) == []


def test_the_readme_table_is_made_of_the_results(tmp_path):
    rows = [row("fusedsl", 100.0), row("triton", 98.0), row("cupy", 700.0)]
    report = record.Report(tmp_path / "rows.json")
    report.head["machine"] = {"gpu": "NVIDIA H200, 580", "cpu": "a CPU", "threads": 2}
    for one in rows:
        report.add(one)
    text = table.markdown(*table.read([tmp_path / "rows.json"]))
    assert "NVIDIA H200" in text and "| softmax | 4096x4096 | float32 | 100 | 0.95 | 0.98× | 7.00× |" in text
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    command = [sys.executable, str(BENCHMARKS / "table.py"), str(tmp_path / "rows.json"), "--readme", str(readme)]
    subprocess.run([*command, "--full", str(tmp_path / "full.md")], check=True)
    assert (tmp_path / "full.md").read_text().endswith(f"{text}\n")
    assert "old" not in readme.read_text() and readme.read_text().startswith("before\n<!--")
    assert (
        readme.read_text().endswith("-->\nafter\n") and "| 0.95 (0.95) | – | – | 0.98× (0.98) |" in readme.read_text()
    )


def test_the_tables_are_those_of_the_results(tmp_path):
    root = BENCHMARKS.parent
    shown = tmp_path / "README.md", tmp_path / "RESULTS.md"
    shown[0].write_text((root / "README.md").read_text())
    files = map(str, sorted((BENCHMARKS / "results").glob("*.json")))
    command = [sys.executable, str(BENCHMARKS / "table.py"), *files, "--readme", str(shown[0]), "--full", str(shown[1])]
    subprocess.run(command, check=True)
    assert shown[0].read_text() == (root / "README.md").read_text()
    assert shown[1].read_text() == (BENCHMARKS / "RESULTS.md").read_text()


def test_the_picture_plots_the_results():
    """Each dot says its case and ratio; each ratio is found in the files, and the picture is that of the repository."""
    files = sorted((BENCHMARKS / "results").glob("*.json"))
    machines, rows = table.read(files)
    shown = (BENCHMARKS.parent / "docs" / "static" / "speedups.svg").read_text(encoding="utf-8")
    assert shown == picture.picture(machines, rows)
    root = ElementTree.fromstring(shown)
    dots = [one.text for one in root.iter("{http://www.w3.org/2000/svg}title")][1:]
    times: dict[str, dict[str, float]] = {}
    for row in (row for path in files for row in json.loads(path.read_text()).get("rows", ()) if row.get("median_us")):
        case = " ".join((row["suite"], row["workload"], row["shape"], row["dtype"]))
        times.setdefault(case, {})[row["peer"]] = row["median_us"]
    assert len(dots) == sum(len(table.over_fastest(cases)) for cases in table.suites(rows).values()) > 300
    for dot in dots:
        case, _, ratio = dot.rpartition(": ")
        ratios = {f"{time / times[case]['fusedsl']:.2f}×" for time in times[case].values()}
        assert ratio in ratios, dot
    for suite, cases in table.suites(rows).items():
        if suite in picture.NAMES:
            assert f"mean {statistics.geometric_mean(table.over_fastest(cases).values()):.2f}×" in shown


def test_jobs_of_a_run_over_everything_share_the_gpus_and_stop_in_time(tmp_path, capsys, monkeypatch):
    import everything

    folder = tmp_path / "found"
    program = "import time; print({0}, flush=True); time.sleep(60 * {0})"
    sleeps = [everything.Job(f"job_{k}", (sys.executable, "-c", program.format(k))) for k in (0, 1)]
    monkeypatch.setattr(everything, "jobs", lambda folder, chosen: sleeps)
    archive = tmp_path / "found.tar.gz"
    monkeypatch.setattr(sys, "argv", ["", str(folder), "--gpus", "2", "--minutes", "0.02", "--archive", str(archive)])
    everything.main()
    told = capsys.readouterr().out
    assert "job_0: exit code 0" in told and "job_1: stopped: the time is over" in told
    assert (folder / "job_0.txt").read_text() == "0\n"
    assert archive.stat().st_size > 0


def test_a_run_over_everything_knows_the_suites():
    import everything

    options = everything.parser().parse_args(["found", "--tests"])
    found = list(everything.jobs(Path("found"), options))
    assert found[0].command[1:3] == ("-m", "pytest")
    assert {job.command[2] for job in found[1:]} == set(options.suites.split(","))


def test_the_accuracy_of_functions_is_measured():
    """The whole run, of 2^20 inputs a function, is in results/accuracy_*.json: all within their bounds."""
    for kind in (np.float32, np.float64):
        for found in accuracy.run(["tanh", "erfc", "lgamma"], kind, 1 << 11, "cpu"):
            assert 0.2 < found.ulps < 4 and found.holds(), found
    recorded = json.loads((BENCHMARKS / "results" / "accuracy_cpu.json").read_text())["rows"]
    assert {row["name"] for row in recorded} == set(accuracy.functions(np.float32))
    assert all(row["ulps"] < 4 and not row["wrong"] for row in recorded)
    there = json.loads((BENCHMARKS / "results" / "accuracy_h200.json").read_text())["rows"]  # CUDA's documented errors
    assert {row["name"] for row in there} - {"lgamma, zeros"} == set(accuracy.functions(np.float32))
    assert all(accuracy.Measured(**row).holds() for row in there)
