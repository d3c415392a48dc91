"""Prepared calls on disk: found by processes that plan nothing, and never taken for another call."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from typing import get_args, get_type_hints

import numpy as np
import pytest
from draw import draw

import fusedsl as fd
from fusedsl.backends.cpu.sort import PairSort
from fusedsl.ir.dims import Expression, Symbol
from fusedsl.ir.graph import node
from fusedsl.ir.types import DType
from fusedsl.kernel_ir.instruction import Constant, Instruction
from fusedsl.kernel_ir.plan import CLASSES, Plan, graph_to_json, plan_from_json
from fusedsl.lru import LRU
from fusedsl.program import first_call
from fusedsl.runtime import cache, compile, specialization_quota, stored_calls
from fusedsl.runtime.arrays import describe_all

TEXT = "m = sum(x * {c}); return cumsum(x - m, axis=-1) * y, m"


@pytest.fixture
def disk(tmp_path, monkeypatch):
    own = cache.Cache(tmp_path / "calls")
    for module in (cache, compile):
        monkeypatch.setattr(module, "disk", lambda: own)
    monkeypatch.setattr(compile, "_compiled_kernels", LRU(lambda: 1000))
    return own


@pytest.fixture
def planned(monkeypatch):
    """The calls that were prepared, and not found: each as what `prepare` was told."""
    made = []
    real = first_call.prepare
    monkeypatch.setattr(first_call, "prepare", lambda *told: made.append(told) or real(*told))
    return made


X = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)


def call(x=X, y=2.0, out=None, c=3, **options):
    """By a kernel that has called nothing before."""
    return fd.kernel(TEXT.format(c=c), **options)(x, y, out=out)


def same(a, b):
    return all(np.array_equal(one, other) for one, other in zip(a, b))


def test_a_call_is_prepared_once_for_all_processes(disk, planned):
    right = call()
    assert len(planned) == 1
    for number in (2.0, -1.5):
        kernel = fd.kernel(TEXT.format(c=3))
        for _ in range(3):  # found, repeated, repeated by generated lines
            m, total = kernel(X, number)
            np.testing.assert_allclose(m, right[0] * (number / 2), rtol=1e-6)
            assert total == right[1]
    assert len(planned) == 1


def test_another_call_is_another_entry(disk, planned, monkeypatch):
    call()
    several = [
        lambda: call(X[:, :6]), lambda: call(X.T.copy().T), lambda: call(X.astype(np.float64)), lambda: call(X[::2]),
        lambda: call(y=2), lambda: call(y=np.float32(2)), lambda: call(y=X), lambda: call(c=4),
        lambda: call(np.frombuffer(b"\0" * 4 + X.tobytes(), np.float32)[1:].reshape(5, 7)),
        lambda: call(max_kernels=9), lambda: call(limits={"arrays": 9}), lambda: call(out=(np.empty_like(X), None)),
        lambda: call(out=(None, None)), lambda: call(deterministic="batch"),
    ]  # fmt: skip
    for number, other in enumerate(several, 2):
        found = other()
        assert len(planned) == number, number
        assert same(other(), found) and len(planned) == number
    monkeypatch.setenv("FUSEDSL_NUM_THREADS", "7")
    call()
    assert len(planned) == number + 1


def test_what_is_not_repeated_is_not_kept(disk, planned):
    backwards = X.astype(">f4")
    for make in (lambda: call(backwards), lambda: call(verify=True), lambda: call(out=(X.copy().astype(">f4"), None))):
        before = len(disk.list())
        for _ in range(2):
            with contextlib.suppress(fd.ArgumentError):
                make()
        kept = [e for e in disk.list() if "launches" in disk.get(e.key)[0]]
        assert not kept or before, kept


def test_outputs_are_checked_again(disk, planned):
    x, y, out = X.copy(), X.copy(), np.empty_like(X)
    right = call(x, y, (out, None))
    assert call(x, y, (out, None))[0] is out and len(planned) == 1
    with pytest.raises(fd.ArgumentError, match="overlap"):
        whole = np.zeros(70, np.float32)
        call(whole[:35].reshape(5, 7), y, (whole[4:39].reshape(5, 7), None))
    out.flags.writeable = False
    with pytest.raises(fd.ArgumentError, match="read-only"):
        call(x, y, (out, None))
    assert same(call(x, y, (x, None)), right)  # in place, as fresh


def damages(entry):
    """Entries as only another program could have written them: what the checksum does not tell."""
    for key, wrong in (("launches", [{}]), ("results", [[[5, 7], "float99", None]]), ("library", "x"),
                       ("numbers", None), ("spans", 3), ("device", [])):  # fmt: skip
        yield entry | {key: wrong}
    launch = entry["launches"][0]
    for key, wrong in (("template", "zz"), ("pointers", [[1]]), ("code_identity", ["0" * 64, "", ["f"]]),
                       ("code_identity", [launch["code_identity"][0], "0" * 64, []]), ("work", None)):  # fmt: skip
        yield entry | {"launches": [launch | {key: wrong}, *entry["launches"][1:]]}


def test_whatever_is_wrong_with_an_entry_is_a_miss(disk, planned):
    right = call()
    (key,) = [e.key for e in disk.list() if "launches" in disk.get(e.key)[0]]
    entry = disk.get(key)[0]
    for number, other in enumerate(damages(entry), 2):
        disk.put(key, other)
        assert same(call(), right)
        assert len(planned) == number, other
        assert json.dumps(disk.get(key)[0], sort_keys=True) == json.dumps(entry, sort_keys=True)


def test_a_call_without_its_kernels_is_a_miss(disk, planned):
    right = call()
    for entry in disk.list():
        if "symbols" in disk.get(entry.key)[0]:
            (disk.folder / f"{entry.key}.fused").unlink()
    assert same(call(), right) and len(planned) == 2


def test_a_process_keeps_few_calls_of_a_program(disk, monkeypatch):
    monkeypatch.setattr(stored_calls, "MAX_STORED_CALLS", 3)
    kernel = fd.kernel("2 * x + 1")
    for n in range(2, 9):
        kernel(np.ones(n))
    assert sum("launches" in disk.get(e.key)[0] for e in disk.list()) == 3


def test_calls_of_a_card_are_found_too(planned):
    pytest.importorskip("numba.cuda")
    from ptx import emulated_gpu

    texts = ("m = sum(x); return cumsum(x - m, axis=-1) * 2, m", "x * 2 + sum(x, 0)", "sum(x, 0) * y, y * 3", "0 * x")
    with emulated_gpu() as gpu:
        x, y = gpu.asarray(np.random.default_rng(1).standard_normal((40, 300), np.float32)), 1.5
        for text in texts:
            made = []
            for _ in range(2):
                kernel = fd.kernel(text)
                given = (x, y)[: len(kernel.params)]
                found = [kernel(*given) for _ in range(3)]
                made += [[r.get() for r in (f if isinstance(f, tuple) else (f,))] for f in found]
            assert all(same(one, made[0]) for one in made)
            assert len(planned) == 1, text
            planned.clear()


def launched(gpu, text, sets):
    """What new kernels of a text launch for these shapes, in a process that has called nothing; and what it claims."""
    specialization_quota.forget()
    before, kernel, random = len(gpu.launches), fd.kernel(text), np.random.default_rng(0)
    for shapes in sets:
        kernel(*(gpu.asarray(random.standard_normal(shape).astype(np.float32)) for shape in shapes))
    return [grid for _, grid in gpu.launches[before:]], dict(specialization_quota._specialized)


@pytest.mark.parametrize(
    "text, shapes",
    [
        ("max(x, axis=-1), sum(y * y, axis=-1)", [[(5, 37 * n), (4, 30 * n)] for n in (1, 3, 5, 9, 17)]),
        ("x - mean(x, 0), x / sum(x, -1, keepdims=True)", [[(40, 30 * n)] for n in (1, 3, 5, 9, 17)]),
        ("softmax(x) * w, max(x, axis=-1)", [[(1, n), (n,)] for n in (70, 600, 700, 1200, 1300, 3000)]),
    ],
    ids=("kernels that share a launch", "rows and columns together", "rows of which there is one"),
)
def test_what_a_call_launches_follows_from_earlier_calls_of_its_process_alone(text, shapes):
    """Whatever calls of others are on disk, and in whichever order they were made."""
    pytest.importorskip("numba.cuda")
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4) as gpu:
        forwards = launched(gpu, text, shapes)
        assert launched(gpu, text, shapes) == forwards
        backwards = launched(gpu, text, shapes[::-1])
    with emulated_gpu(multiprocessors=4) as gpu:
        assert launched(gpu, text, shapes[::-1]) == backwards


# -- functions


SHIFT = 1.5


def fused(c):
    """A function that has been called by nobody."""

    @fd.fuse
    def f(x, y):
        m = (x * c).sum()
        return np.cumsum(x - m, -1) * y + SHIFT, m

    return f


def test_a_call_of_a_function_is_prepared_once_for_all_processes(disk, planned):
    right = fused(3)(X, 2.0)
    assert len(planned) == 1
    for number in (2.0, -1.5):
        f = fused(3)
        for _ in range(3):
            made, total = f(X, number)
            np.testing.assert_allclose(made - SHIFT, (right[0] - SHIFT) * (number / 2), rtol=1e-4, atol=1e-4)
            assert total == right[1]
    assert len(planned) == 1


def test_another_call_of_a_function_is_another_entry(disk, planned, monkeypatch):
    fused(0.0)(X, 2.0)
    several = [
        lambda: fused(-0.0)(X, 2.0), lambda: fused(4)(X, 2.0), lambda: fused(0.0)(X[:, :6], 2.0),
        lambda: fused(0.0)(X.astype(np.float64), 2.0), lambda: fused(0.0)(X, X), lambda: fused(0.0)(X[::2], 2.0),
        lambda: fused(np.float64(3))(X, 2.0), lambda: fused(X[0])(X, 2.0),
    ]  # fmt: skip
    for number, other in enumerate(several, 2):
        found = other()
        assert len(planned) == number, number
        assert same(other(), found) and len(planned) == number
    monkeypatch.setitem(globals(), "SHIFT", 2.5)
    before, moved = fused(4)(X, 2.0), len(planned)
    assert moved == number + 1
    monkeypatch.setitem(globals(), "SHIFT", 1.5)
    np.testing.assert_allclose(before[0] - fused(4)(X, 2.0)[0], 1, rtol=1e-4)
    assert len(planned) == moved


def test_a_function_that_writes_its_argument_finds_its_call(disk, planned):
    def doubled():
        @fd.fuse
        def f(x, y):
            x += y
            return x.sum()

        return f

    for _ in range(3):
        x, f = X.copy(), doubled()
        for k in range(1, 4):
            np.testing.assert_allclose(f(x, 1.0), (X + k).sum(), rtol=1e-5)
            np.testing.assert_allclose(x, X + k, rtol=1e-5)
    assert len(planned) == 1
    x = X.copy()
    with pytest.raises(fd.ArgumentError, match="overlap"):
        whole = np.zeros(70, np.float32)
        doubled()(whole[:35].reshape(5, 7), whole[4:39].reshape(5, 7))


def test_a_trace_is_for_one_signature():
    program, facts = fused(3).program(X, 2.0)
    assert program.plans.graph(facts) is not None
    with pytest.raises(fd.ArgumentError, match="one signature"):
        program.plans.graph(dict(zip(facts, describe_all(facts, [X[:1], 2.0]).values())))


def test_whatever_a_plan_may_hold_has_a_form_on_disk():
    found, todo = set(), [Plan]
    while todo:
        kind = todo.pop()
        if dataclasses.is_dataclass(kind) and kind not in found:
            found.add(kind)
            todo += [*get_type_hints(kind).values(), *kind.__subclasses__()]
        todo += get_args(kind)
    others = {DType, Symbol, Expression, Instruction, Constant}  # which have forms of their own
    found.discard(PairSort)  # a reading of an order in generated text alone
    assert found - others == set(CLASSES.values())


def test_graphs_that_differ_in_anything_have_other_forms():
    """A graph is made again from its form: nodes are interned, so they are the same objects."""
    for seed in range(60):
        program = draw(seed)
        kernel = fd.kernel(program.text)
        facts = describe_all(kernel.params, [program.arrays[n] for n in kernel.params])
        graph = kernel._program.plans.graph(facts)
        told = json.loads(json.dumps(graph_to_json(graph)))
        nodes = []
        for op, args, attr, kind in told["nodes"]:
            nodes.append(node(op, tuple(nodes[a] for a in args), plan_from_json(attr), plan_from_json(kind)))
        assert tuple(nodes[r] for r in told["results"]) == graph.results
        assert plan_from_json(told["parameters"]) == graph.parameters
        assert plan_from_json(told["checks"]) == graph.checks


# -- processes


FRESH = """
import sys, time
import {library} as np
import fusedsl as fd
x = np.arange(60, dtype="float32").reshape(5, 12)
for _ in range(3):
    assert (fd.evaluate("2*x + 1", x=x) == 2*x + 1).all()
    assert (fd.evaluate("m = sum(x); return x - m", x=x) == x - x.sum()).all()
made = ("fusedsl.program.first_call", "fusedsl.plan", "fusedsl.program.call_steps", "fusedsl.backends.cuda.schedule")
made += ("numba", "lark", "fusedsl.backends.cpu.compiler")
print([name for name in sys.modules if name.startswith(made)])
"""


@pytest.mark.parametrize("library", ["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def test_a_new_process_plans_nothing(tmp_path, library):
    pytest.importorskip(library)
    own = os.environ | {"FUSEDSL_CACHE_DIR": str(tmp_path / "own"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FRESH.format(library=library)]
    told = [subprocess.run(command, capture_output=True, text=True, env=own, check=True).stdout for _ in range(2)]
    assert "lark" in told[0] and "compiler" in told[0] and told[1].strip() == "[]"


FUSED = """
import sys
from typing import get_args, get_type_hints
import numpy as np
import fusedsl as fd
@fd.fuse
def f(x):
    return np.exp(x - np.max(x, -1, keepdims=True)) * 2
x = np.arange(60, dtype="float32").reshape(5, 12)
assert np.allclose(f(x), np.exp(x - x.max(-1, keepdims=True)) * 2)
made = ("numba", "fusedsl.backends.cpu.compiler", "fusedsl.program.make_plan", "fusedsl.program.first_call")
print([name for name in made if name in sys.modules])
"""


def test_a_new_process_plans_nothing_for_a_function(tmp_path):
    own = os.environ | {"FUSEDSL_CACHE_DIR": str(tmp_path / "own"), "PYTHONPATH": os.pathsep.join(sys.path)}
    (tmp_path / "f.py").write_text(FUSED)
    command = [sys.executable, str(tmp_path / "f.py")]
    told = [subprocess.run(command, capture_output=True, text=True, env=own, check=True).stdout for _ in range(2)]
    assert "make_plan" in told[0] and "compiler" in told[0] and told[1].strip() == "[]"
