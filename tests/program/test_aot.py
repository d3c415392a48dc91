"""Kernel.save and fusedsl.load: calls run the code of a file, without a compiler and without a cache."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from lean import alone, saved

import fusedsl as fd
from fusedsl.backends.cpu import processor
from fusedsl.lru import LRU
from fusedsl.program import make_plan
from fusedsl.runtime.array_copies import to_host
from fusedsl.runtime.cache import Cache

ROOT = Path(__file__).parents[2]


@pytest.fixture
def compilers_are_missing(monkeypatch):
    monkeypatch.setattr("fusedsl.aot.missing_kernel._installed", lambda names: False)


@pytest.mark.parametrize("cc", ["cpu", "cpu-native"])
def test_a_saved_kernel_runs_without_compilers_or_a_cache(tmp_path, cc):
    path = tmp_path / "softmax.fused"
    kernel = saved(path, cc=cc)
    code = "for _ in range(50):\n    y, total = kernel(x, 0.5)\n"
    code += "np.save(sys.argv[1] + '.npy', y)\nprint(repr(float(total)))\n"
    code += "assert not {'fusedsl.program.make_plan', 'fusedsl.lang.parse', 'fusedsl.report'} & set(sys.modules)\n"
    told = alone(tmp_path, path, code)
    x = np.random.default_rng(0).standard_normal((30, 40), dtype=np.float32)
    y, total = kernel(x, 0.5)
    np.testing.assert_allclose(np.load(f"{path}.npy"), y, 1e-6)  # the vectors of the file's code may be narrower
    np.testing.assert_allclose(float(told.stdout), float(total), 1e-5)


@pytest.mark.slow
def test_a_saved_kernel_runs_where_no_compiler_was_ever_installed(tmp_path):
    saved(tmp_path / "softmax.fused")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    for what in (["numpy", "ml_dtypes", "platformdirs"], ["--no-deps", str(ROOT)]):
        subprocess.run([python, "-m", "pip", "install", "-q", *what], check=True, timeout=600)
    code = (
        "import sys, numpy as np, fusedsl as fd\n"
        "kernel, x = fd.load(sys.argv[1]), np.ones((3, 40), np.float32)\n"
        "for _ in range(3): y, total = kernel(x, 0.5)\n"
        "print(round(float(y.sum()), 3), total)\n"
        "try: kernel(x.astype('f8'), 0.5)\n"
        "except fd.DTypeError as fault: print(fault.code)\n"
    )
    bare = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    command = [python, "-c", code, tmp_path / "softmax.fused"]
    told = subprocess.run(command, env=bare, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    assert told.stdout.split() == ["3.0", "120.0", "file.dtype"]


def test_everything_of_a_kernel_works_without_compilers(tmp_path):
    path = tmp_path / "k.fused"
    saved(path, "x * s + 1")
    code = """
import pickle
out = np.empty_like(x)
want = x * np.float32(0.5) + 1
assert kernel(x, 0.5, out=out) is out and np.allclose(out, want)
assert np.allclose(kernel.bind(x, s=0.5)(), want)
assert np.allclose(kernel(s=0.5, x=x), want)
assert all(np.allclose(y, want[:3]) for y in fd.foreach(kernel, [x[:3], x[:3]], 0.5))
assert np.allclose(pickle.loads(pickle.dumps(kernel))(x, 0.5), want)
assert "1 kernel instead of" in str(kernel.explain(x, 0.5)) and "def kernel" in kernel.source(x, 0.5)
assert kernel.compile(x, 0.5) is kernel
"""
    alone(tmp_path, path, code)


def test_a_call_that_is_wrong_is_an_error_of_fusedsl_without_compilers(tmp_path):
    path = tmp_path / "k.fused"
    kernel = fd.kernel("x * w + s")
    kernel.save(path, fd.spec((64, 40)), fd.spec((40,)), 2.5, cc="cpu")
    code = """
w = np.ones(40, np.float32)
for use in (
    lambda: kernel(x.astype("f8"), w, 0.5), lambda: kernel(x, w, 2), lambda: kernel(x, w, np.float32(2)),
    lambda: kernel(x[0], w, 0.5), lambda: kernel(x[None], w, 0.5), lambda: kernel(x, w[:5], 0.5), lambda: kernel(x, w),
    lambda: kernel(x, w, 0.5, y=3), lambda: kernel(x, w, 0.5, 1), lambda: kernel([1.0], w, 0.5),
    lambda: kernel(x, w, 0.5, out=w), lambda: kernel.resources(x, w, 0.5), lambda: fd.kernel("x + 1")(x),
    lambda: fd.evaluate("x + 1", x=x), lambda: kernel.save("k", x, w, 0.5, cc="cpu"),
):
    try:
        use()
    except fd.FusedslError as fault:
        print(type(fault).__name__, fault.code)
"""
    codes = " ".join(line.split()[1] for line in alone(tmp_path, path, code).stdout.splitlines())
    assert codes == (
        "file.dtype file.dtype file.dtype file.shape file.shape shape.broadcast argument.missing argument.unused "
        "argument.count file.dtype argument.out file.device compile.missing compile.missing compile.missing"
    )


def test_what_a_file_has_no_kernel_for_is_told(tmp_path, compilers_are_missing):
    path = tmp_path / "k.fused"
    fd.kernel("softmax(x)").save(path, fd.spec((64, 40)), cc="cpu")
    loaded = fd.load(path)
    with pytest.raises(fd.DTypeError) as fault:
        loaded(np.ones((100, 50)))
    assert fault.value.message == f"{path} has no kernel for float64[100, 50]; it has float32[n, m]"
    other = 'kernel.save(path, fd.spec((100, 50), "float64"))'
    assert fault.value.help == f"pass x as float32, or save a kernel for these: {other}"
    with pytest.raises(fd.ShapeError, match=r"no kernel for float32\[3\]; it has float32\[n, m\]") as fault:
        loaded(np.ones(3, np.float32))
    assert fault.value.help == 'save one for them too: kernel.save(path, fd.spec((3,), "float32"))'
    fd.kernel("x * s").save(path, fd.spec((64, 40)), 2.5, cc="cpu")
    with pytest.raises(fd.DTypeError, match="no kernel for s: a Python int; it has s: a Python float") as fault:
        fd.load(path)(np.ones((3, 4), np.float32), 2)
    assert fault.value.help.startswith("pass s as a Python float, or save a kernel for these: kernel.save(path, ")
    with pytest.raises(fd.DTypeError, match=r"for x: float64.*, s: a Python int; it has x: float32.*, s: a") as fault:
        fd.load(path)(np.ones((3, 4)), 2)
    assert fault.value.help.startswith("pass x as float32, s as a Python float, or save a kernel for these")


def test_a_file_may_be_loaded_so_that_nothing_is_compiled(tmp_path):
    path = tmp_path / "k.fused"
    saved(path)
    loaded = fd.load(path, compile=False)
    before = fd.metrics()["fusedsl_kernel_loads_total"]
    loaded(np.ones((7, 40), np.float32), 2.0)
    assert fd.metrics()["fusedsl_kernel_loads_total"] > before
    for each in (loaded, pickle.loads(pickle.dumps(loaded))):
        with pytest.raises(fd.DTypeError, match="has no kernel for x: float64"):
            each(np.ones((7, 40)), 2.0)


def test_where_compilers_are_what_is_missing_is_compiled_with_a_line_in_the_log(tmp_path, caplog):
    path = tmp_path / "k.fused"
    kernel = saved(path)
    loaded = fd.load(path)
    x = np.random.default_rng(0).standard_normal((7, 40))
    with caplog.at_level(logging.WARNING, "fusedsl"):
        for _ in range(2):
            np.testing.assert_array_equal(loaded(x, 2)[0], kernel(x, 2)[0])
    (record,) = caplog.records
    assert "has no kernel for x: float64[7, 40], s: a Python int" in record.getMessage()
    caplog.clear()
    loaded(x.astype("float32"), 2.0)
    assert not caplog.records


def test_the_file_is_asked_before_the_compilers(tmp_path, monkeypatch):
    path = tmp_path / "k.fused"
    saved(path)
    monkeypatch.setattr("fusedsl.runtime.compile._compile_cpu", pytest.fail)
    monkeypatch.setattr(make_plan, "make_plan", pytest.fail)
    fd.load(path)(np.ones((5, 40), np.float32), 2.0)


# -- targets


def test_code_for_several_gpus_in_one_file(tmp_path):
    pytest.importorskip("numba_cuda")
    path = tmp_path / "k.fused"
    saved(path, cc=[80, 90])
    code = "for cc in (80, 90):\n    found = kernel.resources(fd.spec((64, 40)), 2.5, cc=cc)\n"
    code += "    print([k.figures.registers for k in found])\n"
    told = alone(tmp_path, path, code)
    assert len(told.stdout.split("\n")) == 3 and "0" not in told.stdout.split()


def test_one_file_for_gpus_and_cpus(tmp_path):
    pytest.importorskip("numba_cuda")
    path = tmp_path / "k.fused"
    kernel = saved(path, cc=[90, "cpu"])
    alone(tmp_path, path, "y, total = kernel(x, 0.5)\nassert abs(y.sum() - 30) < 1e-4\n")
    found = fd.load(path)._program.plans.saved
    assert found.capabilities == ((9, 0),) and len(found.processors) == 1
    assert {each.on_cpu for each in found.plans} == {True, False}
    assert fd.load(path).text == kernel.text


def test_a_file_for_gpus_alone_says_so_on_a_cpu(tmp_path, compilers_are_missing):
    pytest.importorskip("numba_cuda")
    path = tmp_path / "k.fused"
    saved(path, cc=[80, 90])
    loaded = fd.load(path)
    with pytest.raises(fd.DeviceError, match=r"compute capability 8\.0, compute capability 9\.0, none for this CPU"):
        loaded(np.ones((3, 40), np.float32), 2.0)
    told = alone(tmp_path, path, "kernel(x, 2.0)", check=False)
    assert "DeviceError[file.device]" in told.stderr and 'save it with cc="cpu"' in told.stderr


@pytest.mark.gpu
def test_a_card_runs_the_code_of_a_file_without_compilers(tmp_path):
    pytest.importorskip("cupy")
    path = tmp_path / "softmax.fused"
    kernel = saved(path, cc=(80, 90, 100, "cpu"))
    code = (
        "import cupy\ny, total = kernel(cupy.asarray(x), 0.5)\n"
        "np.save(sys.argv[1] + '.npy', y.get())\nprint(repr(float(total)))\n"
    )
    told = alone(tmp_path, path, code)
    y, total = kernel(np.random.default_rng(0).standard_normal((30, 40), dtype=np.float32), 0.5)
    np.testing.assert_allclose(np.load(f"{path}.npy"), y, 1e-5)
    np.testing.assert_allclose(float(told.stdout), float(total), 1e-4)


def test_code_for_another_processor_is_refused_when_the_file_is_loaded(tmp_path, monkeypatch):
    path, x = tmp_path / "k.fused", np.ones((3, 40), np.float32)
    saved(path)
    there = processor.flags() - {"avx2", "asimd"}
    with monkeypatch.context() as patch:
        patch.setattr(processor, "flags", lambda: there)
        with pytest.raises(fd.DeviceError, match=r"this CPU lacks (avx2|asimd), which .* has"):
            fd.load(path)
    for name, value, why in (
        ("platform", "darwin", "this system is darwin"),
        ("platform", "win32", "its code is for L"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(sys, name, value)
            with pytest.raises(fd.DeviceError, match=why):
                fd.load(path)
    with monkeypatch.context() as patch:
        patch.setattr(processor, "flags", frozenset)
        with pytest.raises(fd.DeviceError, match="/proc/cpuinfo cannot be read"):
            fd.load(path)
    fd.load(path)(x, 2.0)


def test_only_this_machine_s_own_code_may_need_more_than_the_baseline(tmp_path):
    path = tmp_path / "k.fused"
    saved(path, cc=["cpu", "cpu-native"])
    saved_ = fd.load(path)._program.plans.saved
    baseline, native = saved_.processors
    assert baseline == processor.BASELINES[processor.host().architecture]
    assert saved_.runnable == (native, baseline)  # the more special first
    assert set(native.flags) <= processor.flags()
    codes = {tuple(facts["symbols"]) + (facts["processor"],): code for facts, code in saved_.kernels.values()}
    assert len(codes) == 2 or {k for *_, k in codes} == {0, 1}


def test_elsewhere_than_on_linux_the_cpu_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(fd.Unsupported, match="darwin"):
        saved(tmp_path / "k.fused")


def test_a_gpu_runs_the_code_of_a_file_and_is_told_what_it_lacks(tmp_path, monkeypatch, compilers_are_missing):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    path, x = tmp_path / "k.fused", np.random.default_rng(0).standard_normal((64, 40), dtype=np.float32)
    with emulated_gpu() as gpu, monkeypatch.context() as patched:
        saved(path, "softmax(x * s) + 1", cc=[90, "cpu"])
        patched.setattr("fusedsl.runtime.compile._compiled_kernels", LRU(lambda: 64))
        patched.setattr("fusedsl.runtime.compile._compile_cuda", pytest.fail)
        patched.setattr("fusedsl.runtime.compile.disk", lambda: Cache(tmp_path / "cold"))
        loaded = fd.load(path)
        np.testing.assert_allclose(to_host(loaded(gpu.asarray(x), 0.5)), loaded(x, 0.5), 1e-5)
        with pytest.raises(fd.ShapeError, match=r"no kernel for x: float32\[1, 40\]; it has x: float32\[n, m\]"):
            loaded(gpu.asarray(x[:1]), 0.5)
        with pytest.raises(fd.ShapeError, match=r"no kernel for lengths like x: float32\[3, 5000\]"):
            loaded(gpu.asarray(np.ones((3, 5000), np.float32)), 0.5)
    with emulated_gpu(cc=(8, 0)) as gpu, pytest.raises(fd.DeviceError, match=r"has .* 9\.0, .*, none for .* 8\.0"):
        fd.load(path)(gpu.asarray(x), 0.5)
