"""The command line, as a user runs it."""

import json
import os
import subprocess
import sys

import pytest

from fusedsl.cli import doctor
from fusedsl.runtime.cache import Cache, cache_key


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels") / "cache"


@pytest.fixture
def command(folder):
    def run(*arguments, code=0, stdin=None):
        line = [sys.executable, "-m", "fusedsl", *arguments]
        environment = os.environ | {"FUSEDSL_CACHE_DIR": str(folder)}
        ended = subprocess.run(line, capture_output=True, text=True, env=environment, input=stdin, timeout=120)
        assert ended.returncode == code, ended.stderr
        return ended.stdout if code == 0 else ended.stderr

    return run


def test_demo_measures_and_checks(command):
    out = command("demo", "--elements", "20480", "--only", "gelu")
    assert "1 / 9" in out  # kernels, fused and unfused
    assert "164 kB / 1.8 MB" in out
    assert "error" in out and "WRONG" not in out
    assert "threads" in out or "compute capability" in out


def test_without_a_command_it_says_which_there_are(command):
    assert "demo" in command() and "doctor" in command("--help")


def test_explain_prints_the_explanation(command):
    out = command("explain", "softmax(x) * w", "--shape", "x=64,100:float16", "w=100", "--cc", "80", "--no-compile")
    assert out.startswith("1 kernel instead of 6")
    assert "float16[64, 100]" in out and "8.0" in out


def test_explain_gives_data_and_source(command):
    data = json.loads(
        command("explain", "a*x + b", "-s", "x=1000", "-n", "a=2", "-n", "b=.5", "--no-compile", "--json")
    )
    assert data["bytes"] == 8000
    assert "def kernel(" in command("explain", "-", "-s", "x=(8, 8)", "--source", "--device", "cpu", stdin="sqrt(x)")


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["x + * 2", "-s", "x=8"], "parse", "^"),
        (["x + y", "-s", "x=8", "y=9"], "shape.broadcast", "~~"),
        (["x + y", "-s", "x=8"], "argument.missing", "--shape y="),
        (["x + 1", "-s", "x=8", "-n", "z=1"], "argument.unused", "z"),
        (["x + 1", "-s", "x=8:float33"], "argument.dtype", "float32"),
        (["x + 1", "-s", "x=eight"], "argument.shape", "NAME=SHAPE"),
        (["x + a", "-s", "x=8", "-n", "a=b"], "argument.number", "NAME=VALUE"),
        (["x + 1", "-s", "x=8", "--cc", "61"], "argument.cc", "90"),
    ],
)
def test_faults_are_drawn_without_a_traceback(arguments, code, part, capsys):
    from fusedsl.__main__ import main

    assert main(["explain", *arguments, "--no-compile"]) == 2
    fault = capsys.readouterr().err
    assert fault.startswith("fusedsl.") and code in fault and part in fault
    assert "Traceback" not in fault


def test_cache_is_listed_and_cleared(command, folder):
    Cache(folder).put(cache_key(text="a + b"), {}, b"code")
    assert str(folder) in command("cache")
    assert len(command("cache", "--list").splitlines()) >= 3
    assert "removed" in command("cache", "--clear")
    assert ": 0 entries" in command("cache")


def test_help_names_every_command(command):
    out = command("--help")
    assert all(name in out for name in ("demo", "explain", "doctor", "cache", "bench"))
    assert "fusedsl" in command("--version")


# -- doctor


def test_doctor_says_what_is_there(command):
    out = command("doctor", "--no-compile")
    for name in ("python", "numpy", "numba", "lark", "numba-cuda", "cupy", "torch", "NVIDIA driver", "cache"):
        assert name in out
    assert "all is well" in out


def test_doctor_really_compiles():
    found = doctor.attempt("CPU kernels", doctor.CPU_CHECK, "compiled and ran")
    assert found.mark == "ok", found


def test_doctor_finds_the_clash_of_numpy_and_numba_cuda():
    (found,) = doctor.clashes("2.5.0", "0.30.4")
    assert found.mark == "problem" and "numpy<2.5" in found.help
    assert not list(doctor.clashes("2.4.6", "0.30.4"))
    assert not list(doctor.clashes("2.5.0", "0.31.0"))
    assert not list(doctor.clashes("2.5.0", None))


def test_doctor_tells_what_failed_and_ends_with_1(monkeypatch, capsys):
    from fusedsl.__main__ import main

    broken = doctor.attempt("CPU kernels", "import nothing_of_this_name", "compiled")
    assert broken.mark == "problem" and "nothing_of_this_name" in broken.found
    crashed = doctor.attempt("CPU kernels", "import os; os._exit(7)", "compiled")
    assert crashed.mark == "problem" and "7" in crashed.found
    ours = doctor.attempt("CPU kernels", "import fusedsl; fusedsl.kernel('x +')", "compiled")
    assert ours.found.startswith("fusedsl.ParseError")
    monkeypatch.setattr(doctor, "version", lambda name: None)
    assert main(["doctor", "--no-compile"]) == 1
    assert "pip install numpy" in capsys.readouterr().out


def test_doctor_runs_where_the_other_commands_cannot(folder):
    code = (
        "import sys; sys.modules['numpy'] = None; from fusedsl.__main__ import main; main(['doctor', '--no-compile'])"
    )
    environment = os.environ | {"FUSEDSL_CACHE_DIR": str(folder)}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "numpy" in ended.stdout and not ended.stderr


def test_doctor_names_a_cache_that_cannot_be_trusted(tmp_path, monkeypatch):
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    monkeypatch.setenv("FUSEDSL_CACHE_DIR", str(loose))
    found = doctor.cache()
    assert found.mark == "problem" and "FUSEDSL_CACHE_DIR" in found.help


def test_requests_that_cannot_be_met_are_told_and_not_taken_for_done(capsys):
    from fusedsl.__main__ import main

    assert main(["demo", "--only", "nope"]) == 2
    assert "no workload has 'nope' in its name" in capsys.readouterr().err
    assert main(["reference", "sin", "bincounts", "exp", "fft"]) == 2
    told = capsys.readouterr()
    assert "sin(x)" in told.out and "exp(x)" in told.out
    assert "no function bincounts" in told.err and "no function fft" in told.err


@pytest.mark.parametrize("options", ["--report page.html --json", "--source --format dot", "--source --no-compile",
                                     "--source --measure", "--source --report page.html"])  # fmt: skip
def test_explain_refuses_options_without_effect(options, tmp_path, monkeypatch, capsys):
    from fusedsl.__main__ import main

    monkeypatch.chdir(tmp_path)
    assert main(["explain", "x + 1", "--shape", "x=8", *options.split()]) == 2
    assert "has no effect" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_counts_are_written_as_people_do():
    from fusedsl.cli.demo import parse_count

    assert [parse_count(text) for text in ("1000", "1_000", "1e6")] == [1000, 1000, 1_000_000]
    for bad in ("0", "1.5", "-3", "many", "nan"):
        with pytest.raises(ValueError):
            parse_count(bad)


def test_explain_is_about_this_machine_unless_it_is_told(capsys):
    from fusedsl.__main__ import main
    from fusedsl.runtime.driver import cuda_available

    assert main(["explain", "softmax(x)", "-s", "x=64,100", "--no-compile"]) == 0
    assert ("CPU" in capsys.readouterr().out) is not cuda_available()
