"""explain() as data, as diagrams, measured, and from a warm cache in a fresh process: the same facts in every form."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.__main__ import main
from fusedsl.errors import ArgumentError
from fusedsl.program.autotune import Trial
from fusedsl.report.explain import FusionBarrier
from fusedsl.report.schema import SCHEMA, VERSION
from fusedsl.runtime.driver import cuda_available

TWO = "softmax(x, axis=0) + softmax(x, axis=1) * w"
needs_compiler = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)


def told(text, *args, **keywords):
    keywords.setdefault("compile", False)
    return fd.kernel(text).explain(*args, **keywords)


def two():
    return told(TWO, fd.spec((64, 96)), fd.spec(96))


# -- data


def paths(data, at=""):
    """The path of every key: lists and their elements as []."""
    if isinstance(data, dict):
        for key, value in data.items():
            here = f"{at}.{key}" if at else key
            yield here
            yield from paths(value, here)
    elif isinstance(data, list):
        for one in data:
            yield from paths(one, f"{at}[]")


@needs_compiler
def test_the_schema_describes_every_key_and_no_other():
    e = told("n / 2 + softmax(x, axis=0) + softmax(x, axis=1)", fd.spec(96, "int32"), fd.spec((64, 96)), compile=True)
    (first, *others) = e.kernels
    tuned = replace(first, untuned_seconds=1e-5, tried=(Trial("threads 64 → 128", None, "values would spill"),))
    data = replace(e, refused=(FusionBarrier("because", 1e-6),), kernels=(tuned, *others)).to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["version"] == VERSION
    found = {p.replace("kernels[].writes[].", "kernels[].reads[].") for p in paths(data)}
    assert found == set(SCHEMA)


def test_data_and_objects_say_the_same():
    e = two()
    data = e.to_dict()
    x = {"array": "x", "kind": "argument", "index": 0, "type": "float32[64, 96]"}
    assert data["kernels"][1]["reads"][0] == x | {"bytes": 4 * 64 * 96, "passes": 1}
    assert data["refused"] == [{"reason": r.reason, "seconds": r.seconds} for r in e.refused]
    assert data["measured_seconds"] is None
    assert data["seconds"] == e.seconds


def test_a_refusal_says_its_price_where_it_is_known():
    priced = replace(two(), refused=(FusionBarrier("they run over other axes", 2.5e-6),))
    assert "they run over other axes (together would save about 2.5 µs)" in str(priced)
    assert (
        "they run over other axes\n"
        in str(replace(priced, refused=(FusionBarrier("they run over other axes"),))) + "\n"
    )


# -- diagrams


def test_mermaid_draws_every_kernel_array_and_access_once():
    e = two()
    text = e.mermaid()
    assert text.splitlines()[0] == "flowchart TD"
    nodes = re.findall(r"^  (\w+)[(\[]", text, re.M)
    assert len(nodes) == len(set(nodes))
    assert {f"kernel{k}" for k in range(len(e.kernels))} <= set(nodes)
    edges = re.findall(r'^  (\w+) -->\|"([^"]*)"\| (\w+)$', text, re.M)
    assert {n for start, _, end in edges for n in (start, end)} == set(nodes)
    assert ("argument0", "24.6 kB", "kernel0") in edges
    for t in range(len(e.temporaries)):
        assert any(end == f"temporary{t}" for *_, end in edges)
        assert any(start == f"temporary{t}" for start, *_ in edges)
    assert "max of x" in text


def test_dot_draws_the_same_graph():
    e = two()
    text = e.dot()
    assert text.startswith("digraph plan {")
    assert text.endswith("}")
    edges = set(re.findall(r"^  (\w+) -> (\w+) ", text, re.M))
    assert edges == {(a, b) for a, _, b in re.findall(r'^  (\w+) -->\|"([^"]*)"\| (\w+)$', e.mermaid(), re.M)}
    assert text.count("shape=box") == len(e.kernels)


def test_diagrams_hold_what_means_something_to_their_languages():
    e = two()
    (first, *rest) = e.kernels
    hostile = replace(e, kernels=(replace(first, members=('"] --> evil["|#;<b>\\l',)), *rest))
    assert 'evil["' not in hostile.mermaid()
    assert "<b>" not in hostile.mermaid()
    assert '\\"] --> evil[\\"|#;<b>\\\\l' in hostile.dot()


def test_long_boxes_are_cut_short():
    results = ", ".join(f"x * {k + 2}" for k in range(20))
    text = told(results, fd.spec(1000)).mermaid()
    assert "and 13 more" in text


# -- measured


def test_each_kernel_is_measured_where_the_arrays_live():
    x, w = np.ones((64, 96), "float32"), np.ones(96, "float32")
    e = told(TWO, x, w, measure=True)
    assert len(e.kernels) == 2
    assert all(0 < k.measured_seconds < 1 for k in e.kernels)
    assert e.measured_seconds == sum(k.measured_seconds for k in e.kernels)
    assert "measured" in str(e)
    np.testing.assert_array_equal(x, 1)


def test_specs_are_measured_on_this_machine():
    given = fd.spec((8, 4), strides=(-4, 1)), fd.spec((8, 4), "int8"), 2.0
    e = told("x[::-1] + n + s", *given, measure=True, device="cpu")
    assert e.target == "CPU"
    assert e.measured_seconds > 0
    assert told("x + 1", fd.spec((0, 8)), measure=True, device="cpu").measured_seconds == 0


def test_what_is_not_here_cannot_be_measured():
    missing = 80 if cuda_available() else 90
    with pytest.raises(ArgumentError, match="nothing to measure"):
        told("x + 1", fd.spec(8), measure=True, cc=missing)


# -- the cache


@needs_compiler
def test_a_warm_cache_tells_the_same_in_a_fresh_process(tmp_path):
    text = "log_softmax(x) * w"
    code = f"import fusedsl as fd; print(fd.kernel({text!r}).explain(fd.spec((64, 16384), 'bfloat16'), fd.spec(16384)))"
    environment = os.environ | {"FUSEDSL_CACHE_DIR": str(tmp_path / "cache"), "FUSEDSL_DEBUG": "0"}
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stdout
        for _ in range(2)
    ]
    assert "no spills" in runs[0]
    assert runs[0] == runs[1]


# -- the command line


@pytest.mark.parametrize(
    ("form", "start"), [("text", "1 kernel"), ("json", "{"), ("mermaid", "flowchart"), ("dot", "digraph")]
)
def test_the_command_prints_every_form(capsys, form, start):
    assert main(["explain", "x * w", "--shape", "x=64,64", "w=64", "--format", form, "--no-compile"]) == 0
    assert capsys.readouterr().out.startswith(start)


def test_the_command_measures(capsys):
    asked = ["explain", "x * w", "--shape", "x=64,64", "w=64", "--measure", "--device", "cpu", "--json"]
    assert main(asked) == 0
    assert json.loads(capsys.readouterr().out)["measured_seconds"] > 0
