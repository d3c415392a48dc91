"""The programs that users timed mean the same as texts and as functions, and the benchmark tells all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from oracle import call, evaluate

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

from suite_trials import SMALL, check, prepared  # noqa: E402
from trials import EXEMPT, TRIALS  # noqa: E402


@pytest.mark.parametrize("trial", [pytest.param(t, id=t.name) for t in TRIALS if t.peer == "numpy"])
def test_a_trial_means_what_numpy_computes(trial):
    arrays = trial.arrays(SMALL / 4)
    want = trial.function(*arrays.values())
    got = evaluate(trial.text, **arrays) if trial.text else call(trial.function, *arrays.values())[0]
    check(got, want)
    assert trial.kind in ("", *EXEMPT)


LONG = ("6 steps", "10 steps", "in torch")
ON_THE_CPU = [pytest.param(t, id=t.name, marks=pytest.mark.slow if t.name.endswith(LONG) else ()) for t in TRIALS]


@pytest.mark.parametrize("trial", ON_THE_CPU)
def test_a_trial_is_right_on_the_cpu(trial):
    if trial.peer == "torch":
        pytest.importorskip("torch")
    ours, peer, _ = prepared(trial, SMALL / 4)
    check(ours(), peer())


def test_names_tell_trials_apart():
    assert len({t.name for t in TRIALS}) == len(TRIALS)


def test_a_quick_run_tells_every_program(tmp_path):
    target = tmp_path / "trials.json"
    command = [sys.executable, str(BENCHMARKS / "suite_trials.py"), "--quick", "--json", str(target)]
    told = subprocess.run(
        [*command, "--only", "sum over columns", "--only", "bodies, by a root"],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    assert told.returncode == 0, told.stdout + told.stderr
    found = {t["program"]: t for t in json.loads(target.read_text())["trials"]}
    assert set(found) == {"sum over columns", "bodies, by a root"}
    for trial in found.values():
        assert {"fusedsl_ms", "peer_ms", "times", "kernels", "first_seconds", "slower"} <= set(trial)
        rounding = 0.0006 * (1 + trial["times"])  # ms, of both times
        assert trial["fusedsl_ms"] > 0 and abs(trial["times"] * trial["fusedsl_ms"] - trial["peer_ms"]) < rounding
        assert trial["program"] in told.stdout
