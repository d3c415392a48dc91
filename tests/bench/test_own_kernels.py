"""`bench FILE.py:NAME`: a kernel of the user is found, checked, timed beside its undecorated function, and written."""

from __future__ import annotations

import pytest

from fusedsl.__main__ import main
from fusedsl.bench import page, regressions

FILE = """
import numpy as np
import fusedsl as fd

from neighbour import three

normed = fd.kernel("softmax(x) * w")


@fd.fuse
def gelu(x, k=0.5):
    return k * x * (1 + np.tanh(three * x))


def polar(x, y):
    return np.sqrt(x * x + y * y), np.arctan2(y, x)


@fd.fuse
def picked(x, i):
    return x[i] + 1


def make():
    return np.ones((4, 6), np.float32), np.array([3, 0])


def shifting(x, counted=[]):
    counted.append(1)
    return x + len(counted)


if __name__ == "__main__":
    raise SystemExit("the file is run as a script")
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "neighbour.py").write_text("three = 3.0")
    (tmp_path / "own.py").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "own.py"


def measured(file, name, *options):
    """The exit code and the rows of a short run."""
    result = file.parent / "result.json"
    own = [f"{file}:{name}", "--device", "cpu", "--repetitions", "2", "--json", str(result)]
    code = main(["bench", *own, "--html", str(file.parent / "result.html"), *options])
    return code, regressions.load(result)["rows"] if result.exists() else []


@pytest.mark.parametrize(
    "name, options, peers",
    [
        ("normed", ["--shape", "x=64,32", "w=32"], ["copy", "fusedsl"]),
        ("gelu", ["-s", "x=64,32", "-n", "k=0.25"], ["copy", "fusedsl", "undecorated"]),
        ("polar", ["-s", "x=1000", "y=1000"], ["copy", "fusedsl", "undecorated"]),
        ("picked", ["--arguments", "make"], ["copy", "fusedsl", "undecorated"]),
    ],
)
def test_kernels_fused_and_plain_functions_are_timed(file, name, options, peers, capsys):
    code, rows = measured(file, name, *options)
    assert code == 0 and sorted({r.peer for r in rows}) == peers
    assert all(r.median_us and r.error is None and r.workload == name for r in rows)
    assert name in (file.parent / "result.html").read_text() and name in capsys.readouterr().out
    assert page.elements(rows[0]) >= 24


def test_a_function_that_its_kernel_does_not_repeat_has_no_time(file):
    _, rows = measured(file, "shifting", "--shape", "x=100")
    assert {r.peer for r in rows if r.error} == {"undecorated"}
    assert all("WrongResult: its results differ" in r.error for r in rows if r.error)


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("gelo", ["-s", "x=10"], "did you mean gelu?"),
        ("other", ["-s", "x=10"], "its kernels are normed, gelu, picked"),
        ("normed", [], "missing x, w"),
        ("normed", ["-s", "x=10,4", "w=5"], "4 and 5 differ"),
        ("picked", ["--arguments", "made"], "no kernel or function 'made'"),
    ],
)
def test_faults_of_a_place_are_errors(file, name, options, message, capsys):
    assert measured(file, name, *options)[0] == 2
    assert message in capsys.readouterr().err


def test_suites_take_no_shapes_and_files_must_exist(capsys):
    assert main(["bench", "rows", "--shape", "x=10"]) == 2 and "FILE.py:NAME" in capsys.readouterr().err
    assert main(["bench", "absent.py:f"]) == 2 and "there is no file absent.py" in capsys.readouterr().err
