"""Options of explain, source, report and save: told from arguments of the same names, refused where they are wrong."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.errors import ArgumentError

X = np.ones((4, 8), np.float32)
CUDA_80 = "CUDA, compute capability 8.0 (A100 80GB)"


@fd.fuse
def scaled(x, device="cpu", *, cc=2.0, compile=True):
    return x * cc if compile else x


@fd.fuse
def plain(x):
    return x + 1


def test_a_keyword_that_the_function_has_is_its_argument():
    assert scaled.explain(X, cc=3.0, device="somewhere", compile=False).target == "CPU"
    assert scaled.explain(X, cc=3.0).arguments == ("x float32[4, 8]", "cc a Python float")
    assert "3.0" not in scaled.source(X, cc=3.0)  # a run-time number


def test_an_argument_by_position_leaves_its_name_to_the_option():
    assert scaled.explain(X, "somewhere", device="cuda").target.startswith("CUDA")
    assert plain.explain(X, cc=80, compile=False).target == CUDA_80
    assert "Tile(" in plain.source(X, device="cuda")


def test_parameters_of_an_expression_too():
    kernel, c = fd.kernel("x + cc"), np.ones(8, np.float32)
    assert kernel.explain(x=X, cc=c).target == "CPU"
    assert kernel.explain(X, c, cc=80, compile=False).target == CUDA_80


def test_saved_files(tmp_path):
    kernel, c = fd.kernel("x + cc"), np.ones(8, np.float32)
    kernel.save(tmp_path / "kernel.fused", X, c, cc="cpu")
    np.testing.assert_array_equal(fd.load(tmp_path / "kernel.fused")(x=X, cc=c), X + c)
    plain.save(tmp_path / "function.fused", X, cc="cpu")
    loaded = fd.load(tmp_path / "function.fused")
    assert loaded.explain(X, device="cpu").target == "CPU"
    np.testing.assert_array_equal(loaded(X), X + 1)


def test_files_are_for_a_gpu_unless_told(tmp_path):
    fd.kernel("x + 1").save(tmp_path / "kernel.fused", X)
    plain.save(tmp_path / "function.fused", X)
    for name in ("kernel", "function"):
        assert fd.load(tmp_path / f"{name}.fused").source(X, device="cuda").count("def kernel(") == 1


def test_pages_of_functions(tmp_path):
    plain.report(tmp_path / "page.html", X, device="cuda", compile=False)
    assert "1 kernel" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_compilation_and_resources_of_functions():
    assert plain.compile(X) is plain
    assert plain.resources(X, cc=80)[0].figures.spill_bytes == 0


WRONG = {
    "compile is 90": lambda at: plain.report(at, X, compile=90),
    "compile is 'yes'": lambda at: fd.kernel("x + 1").report(at, X, compile="yes"),
    "compile is \\(80, 90\\)": lambda at: plain.explain(X, compile=(80, 90)),
    "measure is 'yes'": lambda at: fd.kernel("x + 1").explain(X, measure="yes"),
    "compile is an ndarray": lambda at: fd.kernel("x + 1").explain(X, compile=X),
    "compute capability of a GPU": lambda at: plain.explain(X, device="cpu", cc=80),
    "no compute capability": lambda at: plain.resources(X, cc=[80, 90]),
    'targets are .*"cpu"': lambda at: fd.kernel("x + 1").save(at, X, cc="cuda"),
    "save takes no device": lambda at: fd.kernel("x + 1").save(at, X, device="cpu"),
    'takes no device.*\n.*cc="cpu"': lambda at: plain.save(at, X, device="cpu"),
    "'gpu' is no compute": lambda at: plain.save(at, X, cc="gpu"),
    "there is no device 3": lambda at: plain.source(X, device=3),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_options(message, tmp_path):
    with pytest.raises(ArgumentError, match=message):
        WRONG[message](tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_misspelt_option_is_told():
    kernel = fd.kernel("x + 1")
    calls = {
        "measure": lambda: kernel.explain(X, measur=True),
        "compile": lambda: kernel.explain(X, compil=False),
        "device": lambda: kernel.source(X, devic="cpu"),
        "out": lambda: kernel(X, outt=X),
        "cc": lambda: plain.explain(X, ccc=80),
    }
    for option, call in calls.items():
        with pytest.raises(ArgumentError, match=rf"did you mean {option}\?"):
            call()
