"""What a service watches: hooks of compilations, counters, progress in a terminal, ranges for profilers."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import fusedsl as fd
from fusedsl import compile_hooks, progress

NUMBER = iter(range(10_000))


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A new program: nothing has compiled it before."""
    return f"x * {time.time_ns() % 10**9}.{next(NUMBER)} + 1"


def test_a_hook_is_called_after_each_compilation_in_the_callers_thread(fresh):
    seen = []
    with fd.on_compile(lambda done: seen.append((done, threading.current_thread()))):
        for _ in range(2):
            fd.evaluate(fresh, x=np.ones(3))
        fd.kernel(fresh).resources(fd.spec(3), cc=90)
    fd.evaluate(f"{fresh} - 2.5", x=np.ones(3))
    (cpu, thread), (cuda, _) = seen
    assert (cpu.target, cuda.target) == ("cpu", "sm_90") and thread is threading.current_thread()
    assert cpu.kernel == "map_multiply_add_0" and 0 < cpu.seconds < 100 and os.path.exists(cpu.path)
    assert cuda.registers > 0 and cuda.spill_bytes == 0


def test_a_hook_that_fails_is_logged_and_ends_no_call(fresh, caplog):
    first = fd.on_compile(lambda done: None)
    first.remove()
    hook = fd.on_compile(lambda done: 1 // 0)
    first.remove()  # has no part in the other
    assert compile_hooks._hooks
    assert fd.evaluate(fresh, x=np.zeros(2)).tolist() == [1, 1]
    hook.remove()
    assert "on_compile" in caplog.text and "ZeroDivisionError" in caplog.text and not compile_hooks._hooks


@pytest.mark.parametrize(
    "name, hint",
    [
        ("flex_attention", "attention"),
        ("create_block_mask", "attention"),
        ("re_evaluate", "kernel"),
        ("jit", "fuse"),
        ("vectorize", "fuse"),
        ("set_vml_num_threads", "set_num_threads"),
    ],
)
def test_names_of_other_packages_are_hinted_at(name, hint):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': .*fusedsl\.{hint}"):
        getattr(fd, name)
    assert not hasattr(fd, "frobnicate")


def test_metrics_count_what_the_process_did(fresh):
    before = fd.metrics()
    kernel = fd.kernel(fresh)
    for n in (3, 3, 4):
        kernel(np.ones(n))
    fd.kernel(fresh)(np.ones(5, np.float64))
    after = fd.metrics()
    label = 'fusedsl_compilations_total{target="cpu"}'
    assert after[label] == before.get(label, 0) + 1
    assert after["fusedsl_first_calls_total"] == before["fusedsl_first_calls_total"] + 3
    assert after["fusedsl_first_call_seconds_total"] > before["fusedsl_first_call_seconds_total"]
    assert after["fusedsl_cache_bytes"] > 0 < after["fusedsl_cache_entries"]


def test_bound_calls_and_those_over_lists_are_first_calls_too(fresh):
    def counted(call):
        before = fd.metrics()
        call()
        after = fd.metrics()
        seconds = "fusedsl_first_call_seconds_total"
        assert after[seconds] >= before[seconds]
        return after["fusedsl_first_calls_total"] - before["fusedsl_first_calls_total"]

    kernel = fd.kernel(fresh)
    assert counted(lambda: kernel.bind(np.ones(3))) == 1
    assert counted(lambda: kernel.graph(np.ones(4))) == 1
    assert counted(lambda: fd.foreach(kernel, [np.ones(5), np.ones(6)])) == 1
    assert counted(lambda: kernel(np.ones(7))) == 1
    assert counted(lambda: kernel(np.ones(7))) == 0


def test_metrics_in_the_text_format_of_openmetrics():
    lines = fd.metrics().openmetrics().splitlines()
    assert lines[-1] == "# EOF" and len(set(lines)) == len(lines)
    for line in lines[:-1]:
        assert re.fullmatch(r'# (TYPE|HELP) fusedsl_\w+ .+|fusedsl_\w+(\{\w+="\w+"\})? [\d.e+-]+', line), line
    counters = {line.split()[2] for line in lines if line.startswith("# TYPE") and line.endswith("counter")}
    assert all(any(line.startswith(f"{name}_total") for line in lines) for name in counters)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_a_long_first_call_and_then_nothing_of_it(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(progress, "PERIOD", 0.02)
    with progress.watched("x + 1"):
        with progress.watched("inside"):
            time.sleep(0.1)
        progress.compiling("map_add_0")
        time.sleep(0.2)
    shown = screen.getvalue().split(progress.ERASE)
    assert shown[1] == "fusedsl: planning, 0 s: x + 1" and "fusedsl: kernel 1, compiling map_add_0, 0 s: x + 1" in shown
    assert shown[-1] == "" and "inside" not in screen.getvalue()


@pytest.mark.parametrize("why", ["short", "no terminal", "switched off"])
def test_no_progress_is_shown(why, monkeypatch):
    screen = io.StringIO() if why == "no terminal" else Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "PATIENCE", 5 if why == "short" else 0.01)
    if why == "switched off":
        monkeypatch.setenv("FUSEDSL_PROGRESS", "0")
    with progress.watched("x + 1"):
        time.sleep(0.1)
    assert screen.getvalue() == ""


CODE = """
import sys, types
ranges = []
sys.modules["nvtx"] = types.SimpleNamespace(push_range=lambda title, domain: ranges.append(title),
                                            pop_range=lambda domain: ranges.append("end"))
import numpy as np, fusedsl as fd

@fd.fuse
def doubled(x):
    return x * 2

x = np.ones(3)
fd.evaluate("x * 2.75", x=x), fd.evaluate("x * 2.75", x=x), doubled(x)
print(ranges)
"""


def test_calls_and_compilations_are_ranges_for_profilers(tmp_path):
    environment = os.environ | {"FUSEDSL_CACHE_DIR": str(tmp_path), "FUSEDSL_NVTX": "1"}
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment, check=True)
    call, compilation = ["x * 2.75"], ["compile map_multiply_0", "end"]
    ranges = [*call, *compilation, "end", *call, "end", "doubled"]
    assert ran.stdout.startswith(str(ranges)[:-1]), ran.stdout


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda: fd.kernel("x + 1")(None), "takes an array or a number, not None", "pass an array or a number"),
        (lambda: fd.kernel("x + 1")(fd.spec((3,))), "x is a fusedsl.specs.Spec", "take specs"),
        (lambda: fd.kernel(lambda x: x), "not a function", "fusedsl.fuse"),
        (lambda: fd.kernel(3), "not an int", "kernel("),
        (lambda: fd.fuse("x + 1"), "not a str", "fusedsl.kernel"),
    ],
)
def test_values_of_the_wrong_kind_are_named_and_have_a_hint(call, message, hint):
    with pytest.raises(fd.ArgumentError, match=message) as fault:
        call()
    assert hint in fault.value.help


def test_saving_for_a_gpu_without_its_compiler_names_the_cpu(tmp_path, monkeypatch):
    def missing(*given):
        raise fd.CompileError("the compiler needs cuda", "compile.missing", help="pip install cuda")

    monkeypatch.setattr("fusedsl.aot.save._for_cuda", missing)
    with pytest.raises(fd.CompileError) as fault:
        fd.kernel("x + 1").save(tmp_path / "a.fused", fd.spec((3,)))
    assert 'cc="cpu"' in fault.value.help
