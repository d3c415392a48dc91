"""A file for the CPU serves every shape and layout of its dtypes and ranks, by loops for some and loops for any."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from draw import draw
from general_loops import GeneralLoops
from laws import Case, cpu

import fusedsl as fd

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from expressions import EXPRESSIONS, PRODUCTS, array

SEEDS = range(12)
NAMES = {"cross_entropy", "adamw", "batch_norm", "group_norm_swish", "frobenius", "rope", "attention"}


@pytest.fixture
def compilers_are_missing(monkeypatch):
    monkeypatch.setattr("fusedsl.aot.missing_kernel._installed", lambda names: False)


def saved_and_loaded(tmp_path, text: str, *specs):
    kernel = fd.kernel(text)
    kernel.save(tmp_path / "k.fused", *specs, cc="cpu")
    return kernel, fd.load(tmp_path / "k.fused")


def agree(one, other, tolerance: float = 2e-5) -> None:
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (one, other))):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, tolerance, tolerance, equal_nan=True)


LAYOUTS = {
    "as it is": lambda x: x,
    "transposed": lambda x: x.T,
    "in Fortran's order": np.asfortranarray,
    "every other row and third column": lambda x: x[::2, ::3],
    "backwards": lambda x: x[::-1, ::-1],
    "a part": lambda x: x[3:, 5:-1],
    "one row repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    "one column repeated": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "one row": lambda x: x[:1],
    "one column": lambda x: x[:, :1],
    "one element": lambda x: x[:1, :1],
    "no rows": lambda x: x[:0],
    "no columns": lambda x: x[:, :0],
    "few long rows": lambda x: np.resize(x, (2, 300_001)),
    "many short rows": lambda x: np.resize(x, (3000, 5)),
    "misaligned": lambda x: np.frombuffer(b"\0" * 4 + x.tobytes(), x.dtype, offset=4)[:-1].reshape(1, -1),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["softmax(x)", "return sum(x, 0), x - mean(x, 1, keepdims=True)", "x * 2 + iota(x, 0)",
                                  "cumsum(x, -1)", "sort(x)", "x @ x.T", "layer_norm(x.T)"])  # fmt: skip
def test_one_file_serves_every_layout(tmp_path, text, compilers_are_missing):
    kernel, loaded = saved_and_loaded(tmp_path, text, fd.spec((64, 40)))
    x = np.random.default_rng(0).standard_normal((33, 58), dtype=np.float32)
    for name, change in LAYOUTS.items():
        if "x.T" not in text or "long" not in name:
            agree(kernel(change(x)), loaded(change(x)), 2e-4)


def test_shapes_that_go_together_and_shapes_that_do_not(tmp_path, compilers_are_missing):
    _, loaded = saved_and_loaded(
        tmp_path, "x * w + concat([x, x], axis=-1)[:, :size(w, 0)]", fd.spec((6, 4)), fd.spec(4)
    )
    x = np.ones((3, 9), np.float32)
    assert loaded(x, np.ones(9, np.float32)).tolist() == (x * 2).tolist()
    with pytest.raises(fd.ShapeError, match="cannot multiply") as fault:
        loaded(x, np.ones(5, np.float32))
    assert fault.value.code == "shape.broadcast" and fault.value.span == (0, 5)


def test_extents_of_1_are_served_where_they_compute_the_same(tmp_path, compilers_are_missing):
    one, row = np.ones((1, 5), np.float32), np.ones((3, 5), np.float32)
    kernel, loaded = saved_and_loaded(tmp_path, "x + y", fd.spec((6, 4)), fd.spec((6, 4)))
    agree(kernel(one, one), loaded(one, one))
    with pytest.raises(fd.ShapeError, match=r"no kernel for x: float32\[1, 5\]"):  # it would be repeated
        loaded(one, row)
    kernel, loaded = saved_and_loaded(tmp_path, "squeeze(x * 2)", fd.spec((6, 4)))
    agree(kernel(row), loaded(row))
    with pytest.raises(fd.ShapeError, match=r"no kernel for float32\[1, 5\]"):  # it would be dropped
        loaded(one)


def test_a_file_saved_for_one_row_serves_one_row(tmp_path, compilers_are_missing):
    kernel, loaded = saved_and_loaded(tmp_path, "softmax(x)", fd.spec((1, 40)))
    x = np.random.default_rng(0).standard_normal((7, 33), dtype=np.float32)
    agree(kernel(x[:1]), loaded(x[:1]))
    with pytest.raises(fd.ShapeError, match=r"no kernel for float32\[7, 33\]; it has float32\[1, n\]"):
        loaded(x)


def test_lengths_have_the_loops_that_they_would_have_and_their_plans(tmp_path, compilers_are_missing):
    kernel, loaded = saved_and_loaded(tmp_path, "x / sqrt(sum(x * x))", fd.spec((8, 8)))  # two kernels where x is large
    for shape in ((3, 4), (400, 700)):
        x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        agree(kernel(x), loaded(x))
    saved = loaded._program.plans.saved
    assert len(saved.plans) == 2
    _, loaded = saved_and_loaded(tmp_path, "softmax(x)", fd.spec((8, 8)))
    symbols = {tuple(facts["symbols"]) for facts, _ in loaded._program.plans.saved.kernels.values()}
    assert ("kernel",) in symbols and any("merge0" in names for names in symbols)  # rows, and few rows cut into parts


def test_lengths_that_are_computed_from_others(tmp_path, compilers_are_missing):
    for saved in ((4, 4), (4, 6)):  # of one length, or not: each has a plan
        _, loaded = saved_and_loaded(tmp_path, "concat([x, y], 0) * z", *map(fd.spec, (*saved, sum(saved))))
        for n, m in ((5, 5), (3, 9), (9, 3), (400, 300)):
            x, y, z = (np.arange(k, dtype=np.float32) for k in (n, m, n + m))
            np.testing.assert_array_equal(loaded(x, y, z), np.concatenate([x, y]) * z)


@pytest.mark.parametrize("expression", [e for e in EXPRESSIONS + PRODUCTS if e.name in NAMES], ids=lambda e: e.name)
def test_expressions_that_people_need(tmp_path, expression, compilers_are_missing):
    kernel = fd.kernel(expression.text)
    names = {name: name in expression.arrays for name in kernel.params}
    specs = [fd.spec(expression.shape(n, True), expression.dtype(n)) if given else expression.inputs[n]
             for n, given in names.items()]  # fmt: skip
    kernel.save(tmp_path / "k.fused", *specs, cc="cpu")
    generator = np.random.default_rng(0)
    values = [array(expression, n, generator) if given else expression.inputs[n] for n, given in names.items()]
    found, expected = (each(*values) for each in (fd.load(tmp_path / "k.fused"), kernel))
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected))):
        np.testing.assert_allclose(a.astype("f8"), b.astype("f8"), 1e-5 if a.dtype.itemsize > 2 else 2e-2, 1e-4)


# -- loops for any extents and strides


@pytest.mark.parametrize("seed", SEEDS)
def test_general_loops_compute_random_programs(seed):
    case = Case(draw(seed, 6))
    builder = case.kernel._program.plans.kernel_compiler = GeneralLoops()
    case.compare(cpu(case)(), "general loops")
    assert builder.given or not sum(np.size(known[0]) for known in case.expected)


def test_general_loops_of_every_kind():
    x = np.random.default_rng(0).standard_normal((40, 30))
    q = np.random.default_rng(0).standard_normal((1, 2, 21, 16)).astype(np.float32)
    given = set()
    for text, values in (
        ("x + 1", (x,)), ("softmax(x)", (x,)), ("return sum(x, 0), sum(x, 1)", (x,)), ("cumsum(x, 1)", (x[::2, ::-1],)),
        ("topk(x, 5)", (x,)), ("sum(x)", (x,)), ("x @ x.T", (x,)), ("attention(q, q, q, mask='j <= i')", (q,)),
        ("softmax(q @ q.mT) @ q", (q,)), ("x[::2] * 2", (x,)), ("2 * s", (3.5,)),
    ):  # fmt: skip
        kernel = fd.kernel(text, verify=True)
        builder = kernel._program.plans.kernel_compiler = GeneralLoops()
        kernel(*values)
        given |= {loops.partition(":")[0] for loops in builder.given}
    assert given == {"map", "rows", "rows and columns", "attention"}
