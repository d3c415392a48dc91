"""The map of the language: each function of the reference has its case, and each case's texts mean the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import oracle
import pytest

from fusedsl.bench import ratios, record
from fusedsl.report import catalogue, reference

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import language_cases  # noqa: E402
import table  # noqa: E402

CASES = language_cases.cases()
TOLERANCE = 1e-3
ROUNDED = 2e-2  # of what is rounded to bfloat16 on the way, at other places


def names_of_the_reference() -> set[str]:
    """Every function of a chapter, and the functions of the operators by their first names."""
    found = {name for names in catalogue.FAMILIES.values() for name in names.split()}
    return found | {name for _, names, _ in reference._operators() for name in re.findall(r"`(\w+)`", names)[:1]}


def test_each_function_of_the_reference_has_a_case():
    assert names_of_the_reference() == {case.function for case in CASES}


def test_no_two_cases_are_the_same():
    for target in language_cases.TARGETS[:2]:
        keys = Counter(case.key("language", target) for case in CASES)
        assert [key for key, count in keys.items() if count > 1] == []


def test_a_case_comes_before_further_ones_of_its_function():
    first = CASES[: len({case.function for case in CASES})]
    assert len({case.function for case in first}) == len(first)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.text}, {case.arrays}")
def test_texts_mean_the_same(case):
    """As the reference interpreter computes ours, and NumPy and torch theirs."""
    pytest.importorskip("torch")
    import language_peers
    from language_worker import difference

    arrays = language_peers.Arrays(case, "quick", "cpu")
    most = ROUNDED if "bfloat16" in case.arrays + case.text else TOLERANCE
    with np.errstate(all="ignore"):
        ours = language_peers.tensors(oracle.evaluate(case.text, **arrays.numpy()))
        for name, make in language_peers.peers(case, "cpu").items():
            if name not in ("torch", "numpy"):
                continue
            try:
                theirs = language_peers.tensors(make(case, arrays)())
            except ModuleNotFoundError:  # SciPy, which the suite goes without too
                continue
            assert not case.same or difference(ours, theirs) <= most, name


WORKER = """
import sys, time
places = sys.argv[4:]
print('@ {"ready": true}', "a library's own line", sep="\\n", flush=True)
for place in places:
    print('@ {"begun": %s}' % place, flush=True)
    if place == "0":
        time.sleep(60)
    if place == "1":
        sys.exit(7)
    row = '{"suite": "language_cpu", "workload": "%s", "shape": "1", "dtype": "float32", "peer": "fusedsl", ' % place
    print('@ {"rows": [' + row + '"median_us": 1, "p20_us": 1, "p80_us": 1, "bytes": 1, "flops": 0, '
          '"floor_us": 1, "max_error": 0}]}', flush=True)
"""


def test_a_case_that_hangs_or_ends_its_process_does_not_lose_the_others(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    import suite_language
    from suite_gpu import Settings

    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    monkeypatch.setattr(suite_language.language_worker, "__file__", str(script))
    monkeypatch.setattr(suite_language, "cases", lambda: CASES[:4])
    report = record.Report(None, say=lambda line: None)
    suite_language.run("language_cpu", report, Settings(quick=True, limit_s=3.0))
    assert [(row.workload, row.error) for row in report.rows] == [
        (CASES[0].text, "no result in 3 s, exit code -9"),
        (CASES[1].text, "the process ended, exit code 7"),
        ("2", None),
        ("3", None),
    ]


def test_a_quick_run_of_the_map_lists_the_worst_first(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "map.json"
    words = ["language_cpu", "--quick", "--only", "hypot", "--json", str(path)]
    told = subprocess.run([sys.executable, str(BENCHMARKS / "run.py"), *words], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    peers = {row["peer"]: row for row in json.loads(path.read_text())["rows"] if row["dtype"] == "float32"}
    assert {"copy", "fusedsl", "numpy", "torch"} <= peers.keys()
    assert all(peers[name]["max_error"] <= 1e-6 for name in ("fusedsl", "numpy"))
    machines, rows = table.read([path])
    cases = ratios.by_case(rows)
    lines = [line.split(" | ") for line in table.markdown(machines, rows).splitlines() if "`hypot(x, y)`" in line]
    worst_first = sorted(cases, key=lambda case: ratios.shortfall(cases[case]))
    assert [line[2] for line in lines] == [case[3] for case in worst_first] and len(lines) == 2
