"""Kernel.save and fusedsl.load: calls run the code of a file, without Numba and without a cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import fusedsl as fd

ALONE = """
import sys
for name in ("numba", "numba_cuda", "llvmlite", "lark"):
    sys.modules[name] = None
import numpy as np
import fusedsl as fd

kernel = fd.load(sys.argv[1])
x = np.random.default_rng(0).standard_normal((int(sys.argv[2]), 40), dtype=np.float32)
"""
NO_PARSER = "sys.modules['lark'] = None\n"  # what a saved kernel does not need either: its plans are in the file


def alone(tmp_path, path, code, rows=30, **more):
    """Run code after ALONE in a process with a cold cache."""
    environment = os.environ | {"FUSEDSL_CACHE_DIR": str(tmp_path / "cold")}
    command = [sys.executable, "-c", ALONE + code, str(path), str(rows)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, **more)


def saved(path, text="return softmax(x * s, axis=-1), sum(x)", cc=("cpu",), **options):
    kernel = fd.kernel(text, **options)
    values = {"x": fd.spec((64, 40), "float32"), "s": 2.5}
    kernel.save(path, **{name: values[name] for name in kernel.params}, cc=cc)
    return kernel


def test_a_saved_kernel_runs_without_numba_or_a_cache(tmp_path):
    path = tmp_path / "softmax.fused"
    kernel = saved(path)
    code = "y, total = kernel(x, 0.5)\nnp.save(sys.argv[1] + '.npy', y)\nprint(repr(float(total)))"
    told = alone(tmp_path, path, NO_PARSER + code)
    assert told.returncode == 0, told.stderr
    x = np.random.default_rng(0).standard_normal((30, 40), dtype=np.float32)
    y, total = kernel(x, 0.5)
    np.testing.assert_allclose(np.load(f"{path}.npy"), y, 1e-5)  # the code of a file may use narrower vectors
    np.testing.assert_allclose(float(told.stdout), float(total), 1e-5)


def test_a_saved_norm_is_what_it_was(tmp_path):
    kernel = saved(tmp_path / "norm.fused", "layer_norm(x)")
    x = np.random.default_rng(0).standard_normal((64, 40), dtype=np.float32)
    np.testing.assert_allclose(fd.load(tmp_path / "norm.fused")(x), kernel(x), 1e-5, 1e-6)


def test_what_the_file_does_not_hold_is_compiled_or_says_why_not(tmp_path):
    path = tmp_path / "k.fused"
    kernel = saved(path)
    loaded = fd.load(path)
    x = np.random.default_rng(0).standard_normal((7, 40))
    np.testing.assert_array_equal(loaded(x, 2)[0], kernel(x, 2)[0])
    told = alone(tmp_path, path, "kernel(x.astype('float64'), 0.5)")
    assert told.returncode == 0 and "computed by the slow interpreter" in told.stderr


def test_code_for_several_gpus_in_one_file(tmp_path):
    pytest.importorskip("numba_cuda")
    path = tmp_path / "k.fused"
    saved(path, cc=[80, 90])
    code = "for cc in (80, 90):\n    found = kernel.resources(fd.spec((64, 40)), 2.5, cc=cc)\n"
    code += "    print([k.figures.registers for k in found])"
    told = alone(tmp_path, path, code)
    assert told.returncode == 0, told.stderr
    assert len(told.stdout.split("\n")) == 3 and "0" not in told.stdout.split()


@pytest.mark.gpu
def test_a_card_runs_the_code_of_a_file_without_numba(tmp_path):
    pytest.importorskip("cupy")
    path = tmp_path / "softmax.fused"
    kernel = saved(path, cc=(80, 90, 100, "cpu"))
    code = (
        "import cupy\ny, total = kernel(cupy.asarray(x), 0.5)\n"
        "np.save(sys.argv[1] + '.npy', y.get())\nprint(repr(float(total)))"
    )
    told = alone(tmp_path, path, NO_PARSER + code)
    assert told.returncode == 0, told.stderr
    y, total = kernel(np.random.default_rng(0).standard_normal((30, 40), dtype=np.float32), 0.5)
    np.testing.assert_allclose(np.load(f"{path}.npy"), y, 1e-5)
    np.testing.assert_allclose(float(told.stdout), float(total), 1e-4)


def test_options_and_the_order_of_parameters_are_kept(tmp_path):
    kernel = fd.kernel("a * w - b", params="b a", constants={"w": 3}, rounding="op", limits={"text": 100})
    kernel.save(tmp_path / "k", fd.spec((4,)), fd.spec((4,)), cc="cpu")
    loaded = fd.load(tmp_path / "k")
    assert (loaded.text, loaded.params, loaded.options) == (kernel.text, kernel.params, kernel.options)
    b, a = np.float32([1, 2, 3, 4]), np.float32([5, 6, 7, 8])
    np.testing.assert_array_equal(loaded(b, a), kernel(b, a))


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "k.fused"
    whole_kernel, x = saved(path), np.ones((3, 40), np.float32)
    whole = path.read_bytes()
    damaged = [b"", b"PK", whole[: len(whole) // 2], b"x" * 1000, whole[:-30]]
    damaged += [
        whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(40, len(whole) - 100, len(whole) // 12)
    ]
    refused = 0
    for data in damaged:
        path.write_bytes(data)
        try:
            loaded = fd.load(path)
        except fd.ArgumentError as fault:
            assert "save the kernel anew" in str(fault)
            refused += 1
        else:  # a date, or another byte of the archive that says nothing about what it holds
            np.testing.assert_array_equal(loaded(x, 0.5)[0], whole_kernel(x, 0.5)[0])
    assert refused >= len(damaged) - 2
    with pytest.raises(FileNotFoundError):
        fd.load(tmp_path / "nothing")


def test_a_file_of_another_version_is_refused(tmp_path):
    path, other = tmp_path / "k.fused", tmp_path / "other.fused"
    saved(path)
    with zipfile.ZipFile(path) as packed, zipfile.ZipFile(other, "w") as changed:
        for name in packed.namelist():
            data = packed.read(name)
            if name == "manifest.json":
                data = json.dumps(json.loads(data) | {"fusedsl": "0.0.1"})
            changed.writestr(name, data)
    with pytest.raises(fd.ArgumentError, match=r"saved by fusedsl 0\.0\.1"):
        fd.load(other)


def test_nothing_is_left_where_saving_fails(tmp_path):
    kernel = fd.kernel("x + y")
    with pytest.raises(fd.ShapeError):
        kernel.save(tmp_path / "k", fd.spec((3,)), fd.spec((4,)), cc="cpu")
    with pytest.raises(fd.ArgumentError):
        kernel.save(tmp_path / "k", fd.spec((3,)), fd.spec((3,)), cc=[12345])
    with pytest.raises(OSError):
        kernel.save(tmp_path / "no" / "folder", fd.spec((3,)), fd.spec((3,)), cc="cpu")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_named_by_a_path(tmp_path):
    kernel, x = fd.kernel("x + 1"), np.ones(3, np.float32)
    for name in (5, None, x, "", ".", "a\0b"):
        for use in (fd.load, lambda n: kernel.save(n, x, cc="cpu"), lambda n: kernel.report(n, x)):
            with pytest.raises(fd.ArgumentError) as fault:
                use(name)
            assert fault.value.code == "argument.file"
    for cc in ([], 5.5, ["gpu"], [[90]]):
        with pytest.raises(fd.ArgumentError, match="compute capability"):
            kernel.save(tmp_path / "k", x, cc=cc)
    kernel.save(os.fsencode(tmp_path / "k"), x, cc="cpu")
    assert fd.load(str(tmp_path / "k"))(x).tolist() == [2, 2, 2]


def test_a_spec_is_made_of_integers():
    assert fd.spec(np.int64(3)) == fd.spec([3]) == fd.spec(np.array([3])) == fd.spec((3,), strides=[1])
    for given in ({"shape": None}, {"shape": (1.5,)}, {"shape": "ab"}, {"shape": -1}, {"shape": 3, "strides": "a"},
                  {"shape": 3, "strides": (1, 2)}, {"shape": 3, "dtype": None}):  # fmt: skip
        with pytest.raises(fd.ArgumentError):
            fd.spec(**given)
