"""Memory of a process: bounded numbers of programs and kernels, bounded files, and nothing of released programs."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import tracemalloc
import weakref

import numpy as np
import pytest

import fusedsl as fd
from fusedsl import evaluation
from fusedsl.ir import interp, interp_memory
from fusedsl.lru import LRU
from fusedsl.runtime import cache, cache_files, compile, free_memory, object_loader, outputs
from fusedsl.runtime.arrays import describe_all

X = np.ones(10, np.float32)


def test_what_was_used_last_is_kept():
    kept: LRU[str, int] = LRU(lambda: 2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    kept.put("c", 3)
    assert (kept.get("b"), kept.get("a"), kept.get("c"), len(kept)) == (None, 1, 3, 2)
    kept.clear()
    assert len(kept) == 0


def test_a_kernel_takes_its_machine_code_with_it():
    gc.collect()
    gc.disable()
    try:
        before = len(object_loader._loaded)
        kernel = fd.kernel("x * 7.0625 - 2.03125")
        for _ in range(3):
            kernel(X)
        bound, program = kernel.bind(X), weakref.ref(kernel._program)
        assert len(object_loader._loaded) == before + 1
        compile._compiled_kernels.clear()
        del kernel
        assert program() is None, "freed without a collection"
        assert bound().tolist() == (X * np.float32(7.0625) - np.float32(2.03125)).tolist()
        del bound
        assert len(object_loader._loaded) == before
    finally:
        gc.enable()


def test_clear_cache_forgets_programs_and_kernels():
    kernel = fd.kernel("x * 5.25")
    kernel(X)
    fd.evaluate("x * 5.25", x=X)
    assert len(evaluation.kernels)
    fd.clear_cache()
    assert not len(evaluation.kernels) and not len(compile._compiled_kernels)
    assert kernel(X)[0] == fd.evaluate("x * 5.25", x=X)[0] == 5.25


CODE = """
import gc, sys
import numpy as np, fusedsl as fd

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

x = np.ones(100, np.float32)
count = 40
for k in range(count):
    fd.evaluate(f"x * {k}.25 + {k}", x=x)
gc.collect()
before = resident()
for k in range(3 * count):
    fd.evaluate(f"x * {k}.75 + {k}", x=x)
gc.collect()
print(resident() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
def test_new_texts_for_ever_take_no_memory_for_ever(tmp_path):
    """Each takes some 190 kB as long as it is kept: 120 of them 23 MB."""
    environment = os.environ | {"FUSEDSL_CACHE_DIR": str(tmp_path / "cache"), "FUSEDSL_CACHE_SIZE": "16"}
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environment)
    assert float(ran.stdout) < 6


def test_the_folder_keeps_what_was_used_last(tmp_path, monkeypatch):
    monkeypatch.setenv("FUSEDSL_CACHE_MB", "1")
    monkeypatch.setattr(cache, "ENTRIES_BETWEEN_SWEEPS", 8)
    own = cache.Cache(tmp_path / "files")
    keys = [f"{k:064x}" for k in range(40)]
    for age, key in enumerate(keys):
        own.put(key, {}, bytes(50_000))
        old = time.time() - 10 * cache_files.DAY + age
        os.utime(own._path(key), (old, old))
        assert own.get(keys[0]) is not None  # used daily
    left = {entry.key for entry in own.list()}
    assert keys[0] in left and keys[-1] in left and keys[1] not in left
    assert sum(entry.size for entry in own.list()) < 1_500_000


def test_large_entries_are_counted_between_two_sweeps(tmp_path, monkeypatch):
    monkeypatch.setenv("FUSEDSL_CACHE_MB", "1")
    own = cache.Cache(tmp_path / "files")
    for k in range(40):
        own.put(f"{k:064x}", {}, bytes(100_000))
        assert sum(entry.size for entry in own.list()) < 1_300_000
    monkeypatch.setenv("FUSEDSL_CACHE_MB", "0")
    for k in range(40, 80):
        own.put(f"{k:064x}", {}, bytes(100_000))
    assert sum(entry.size for entry in own.list()) > 4_000_000


@pytest.fixture
def sizes():
    before = fd.get_cache_size()
    yield before
    fd.set_cache_size(*before)


def test_sizes_of_the_caches_are_set(sizes, tmp_path, monkeypatch):
    own = cache.Cache(tmp_path / "files")
    monkeypatch.setattr("fusedsl.cache_sizes.disk", lambda: own)
    for k in range(20):
        own.put(f"{k:064x}", {}, bytes(100_000))
    for k in range(6):
        fd.evaluate(f"x * {k}.125", x=X)
    held = fd.kernel("x * 8.125")
    held(X)
    fd.set_cache_size(programs=4)
    assert fd.get_cache_size() == (4, sizes.megabytes) and len(compile._compiled_kernels) == 4
    for k in range(6):
        assert fd.evaluate(f"x * {k}.125", x=X)[0] == np.float32(k + 0.125)
    assert len(evaluation.kernels) == len(compile._compiled_kernels) == 4
    assert held(X)[0] == 8.125
    assert len(own.list()) == 20
    fd.set_cache_size(megabytes=1)
    assert fd.get_cache_size() == (4, 1)
    assert sum(entry.size for entry in own.list()) < 1_000_000


@pytest.mark.parametrize("wrong", [{"programs": 0}, {"programs": True}, {"megabytes": -1}, {"megabytes": 1.5}])
def test_no_sizes(wrong, sizes):
    with pytest.raises(fd.ArgumentError, match=r"is (0|True|-1|1\.5)"):
        fd.set_cache_size(**wrong)
    assert fd.get_cache_size() == sizes


def test_a_use_is_noted_once_a_day(tmp_path):
    own = cache.Cache(tmp_path / "files")
    key = "0" * 64
    own.put(key, {})
    for age, noted in ((0.5, False), (2.0, True)):
        then = time.time() - age * cache_files.DAY
        os.utime(own._path(key), (then, then))
        own.get(key)
        assert (time.time() - own._path(key).stat().st_mtime < 60) is noted


# ---- memory that is not there


@pytest.fixture
def little(monkeypatch):
    """A machine with 100 MB left, where what takes a tenth of that is asked for."""
    monkeypatch.setattr(free_memory, "available", lambda: 100_000_000)
    monkeypatch.setattr(free_memory, "UNCHECKED_BYTES", 1_000_000)


ROW = np.ones(4000)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x[:, None] * x", r"0.128 GB of float64\[4000, 4000\], and 0.1 GB are available"),
        ("tile(x, 5000)", r"float64\[20000000\]"),
        ("pad(x, 10_000_000)", r"float64\[20004000\]"),
        ("arange(20_000_000) + x[0]", r"float64\[20000000\]"),
        ("float64(arange(16)[None] == arange(1_000_000)[:, None]) + x[0]", r"float64\[1000000, 16\]"),
        ("x[:2500, None] * x[:2500], x[:2500, None] + x[:2500], 2 * x", "and float64"),
        ("sum(cumsum(cumsum(x[:, None] * x, 1), 0))", "temporaries"),
    ],
)
def test_what_a_program_only_implies_is_checked_before_it_begins(little, text, says):
    with pytest.raises(fd.LimitError, match=says) as caught:
        fd.evaluate(text, x=ROW)
    assert isinstance(caught.value, MemoryError) and caught.value.code == "limit.memory"


def test_what_is_reduced_is_never_held(little):
    assert fd.evaluate("sum(x[:, None] * x)", x=ROW) == 16_000_000


def test_what_the_interpreter_holds_is_checked_too(little):
    with pytest.raises(fd.MemoryLimitError, match="interpreter"):
        fd.evaluate("sum(x[:, None] * x)", x=ROW, verify=True)
    assert fd.evaluate("sum(x * x)", x=ROW, verify=True) == 4000


def test_an_output_of_ones_own_takes_no_memory(little):
    out = np.empty((4000, 4000))
    assert fd.evaluate("x[:, None] * x", x=ROW, out=out) is out
    with pytest.raises(fd.MemoryLimitError):
        fd.foreach("x[:, None] * x", [ROW[:2600], ROW[:2600]])


def test_a_large_result_is_asked_for_at_each_call(monkeypatch):
    monkeypatch.setattr(outputs, "CHECKED_BYTES", 100_000_000)
    kernel, left = fd.kernel("x[:, None] + x"), [1 << 40]
    monkeypatch.setattr(free_memory, "available", lambda: left[0])
    for _ in range(3):
        assert kernel(ROW)[-1, -1] == 2
    left[0] = 1 << 20
    with pytest.raises(MemoryError, match="available"):
        kernel(ROW)


@pytest.mark.parametrize(
    "text", ["softmax(x)", "sum(x[:, None, :8] * x[None, :, :8], -1)", "x @ x", "x[i]", "tile(x, 3)", "x.T + x"]
)
def test_the_footprint_of_the_interpreter_is_about_what_it_takes(text):
    x, i = np.random.default_rng(0).random((400, 400)), np.arange(400)
    kernel = fd.kernel(text)
    values = [{"x": x, "i": i}[name] for name in kernel.params]
    graph = kernel._program.plans.graph(describe_all(kernel.params, values))
    gc.collect()
    tracemalloc.start()
    interp.interpret(graph, values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.6 * peak < interp_memory.footprint(graph, values) < 3 * peak


def test_limits_of_control_groups_and_of_the_process_count(tmp_path, monkeypatch):
    inner = tmp_path / "pod" / "container"
    inner.mkdir(parents=True)
    for group, most, used in ((tmp_path / "pod", "5000", "3000"), (inner, "max", "1")):
        (group / "memory.max").write_text(f"{most}\n")
        (group / "memory.current").write_text(f"{used}\n")
        (group / "memory.stat").write_text("anon 7\ninactive_file 500\n")
    names = ("memory.max", "memory.current", "inactive_file")
    assert list(free_memory._cgroup_headroom(tmp_path, "/pod/container", *names)) == [2500]
    assert free_memory.available() is None or free_memory.available() > 0


def test_a_wrong_cache_size_is_an_error_of_the_call_with_the_user_s_frames_alone(tmp_path):
    program = "import numpy as np, fusedsl as fd\nprint(fd.evaluate('x + 1', x=np.ones(1)))"
    environment = os.environ | {"FUSEDSL_CACHE_SIZE": "many"}
    environment.pop("FUSEDSL_DEBUG", None)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert "argument.environment" in done.stderr and "set it to 1..999999" in done.stderr
    assert [line for line in done.stderr.splitlines() if "File" in line] == ['  File "<string>", line 2, in <module>']
