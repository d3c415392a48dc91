"""einsum of any number of arrays, with diagonals and `...`: NumPy and torch are the oracles."""

from __future__ import annotations

import random

import numpy as np
import pytest
from fused import traced
from oracle import evaluate
from test_targets import TARGETS

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

RNG = np.random.default_rng(3)


def whole(*shape):
    return RNG.integers(-3, 4, shape).astype(np.float32)


X, Y, V, S, T = whole(3, 4), whole(4, 5), whole(4), whole(4, 4), whole(2, 4, 4)
GIVEN = {"x": X, "y": Y, "v": V, "s": S, "t": T}
CASES = [
    ("ii->i", "s"), ("ii", "s"), ("...ii->...i", "t"), ("iji->j", "t[:, :, :2]"), ("tii->t", "t"),
    ("iij->ij", "t[:, :2]"),
    ("i,i,i->", "v, v, v"), ("ij,jk,lk->il", "x, y, x[:, :1] * y[0]"), ("ij,j,i->", "x, v, x[:, 0]"),
    ("a...,a->...", "x, x[:, 1]"), ("...j,jk->...k", "t, y"), ("...ij,...jk->...ik", "t, s[None]"), ("...", "x"),
    ("i...->...i", "t"), ("... , ...", "x, v"), ("Ab, bC", "x, y"), ("i,ij,jj,j->", "x[:, 0], x, s, v"),
    ("bi,oij,bj->bo", "x, t, x"), ("i,j,k->ijk", "v, v, x[:, 0]"), ("->", "x[0, 0]"), ("ij,ij,ij->j", "x, x, x[:1]"),
]  # fmt: skip


@pytest.mark.parametrize(("subscripts", "operands"), CASES, ids=[c[0] for c in CASES])
def test_texts_mean_what_numpy_says(subscripts, operands):
    names = [name for name in GIVEN if name in operands]
    found = evaluate(f'einsum("{subscripts}", {operands})', **{name: GIVEN[name] for name in names})
    arrays = eval(f"({operands},)", {"None": None}, GIVEN)
    np.testing.assert_array_equal(found, np.einsum(subscripts, *arrays), strict=True)


COMPILED = ["ii->i", "ii", "...ii->...i", "ij,jk,lk->il", "i,ij,jj,j->", "bi,oij,bj->bo", "...ij,...jk->...ik"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("subscripts", "operands"), [c for c in CASES if c[0] in COMPILED])
def test_every_target_computes_it(subscripts, operands, target):
    kernel = fd.kernel(f'einsum("{subscripts}", {operands})', fallback=False)
    found = to_host(kernel(*(target(GIVEN[name]) for name in kernel.params)))
    arrays = eval(f"({operands},)", {"None": None}, GIVEN)
    np.testing.assert_array_equal(found, np.einsum(subscripts, *arrays), strict=True)


# ---- random subscripts


def drawn(draw):
    """Subscripts of up to four operands, with letters that repeat and ..., and shapes for them, of which few fit."""
    letters = "ijkAb"[: draw.randint(2, 5)]
    extent = {c: draw.choice((1, 2, 3, 4)) for c in letters}
    parts, shapes = [], []
    for _ in range(draw.randint(1, 4)):
        part = [draw.choice(letters) for _ in range(draw.randint(0, 3))]
        if draw.random() < 0.4:
            part.insert(draw.randint(0, len(part)), "...")
        outer = tuple(draw.choice((1, n)) for n in (2, 3)[draw.randint(0, 2) :])
        shape = [(1 if draw.random() < 0.05 else extent[c],) if c != "..." else outer for c in part]
        parts.append("".join(part))
        shapes.append(tuple(n for group in shape for n in group))
    text = ",".join(parts)
    if draw.random() < 0.8:
        result = draw.sample(letters, draw.randint(0, len(letters))) if draw.random() < 0.1 else []
        result = result or draw.sample(sorted(set(text) & set(letters)), draw.randint(0, len(set(text) & set(letters))))
        if "..." in text and draw.random() < 0.8:
            result.insert(draw.randint(0, len(result)), "...")
        text += " -> " + "".join(result)
    return text, shapes


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_any_subscripts_mean_what_the_library_says(library):
    """What it refuses is refused; torch sums over the axes of ... where the result has none, NumPy does not."""
    home = np if library == "numpy" else pytest.importorskip(library)
    draw, refused = random.Random(5), 0
    for _ in range(250):
        text, shapes = drawn(draw)
        arrays = [whole(*shape) for shape in shapes]
        values = arrays if home is np else [home.from_numpy(a) for a in arrays]

        def function(*values, text=text):
            return home.einsum(text, *values)

        try:
            wanted = function(*values)
        except (ValueError, RuntimeError):
            refused += 1
            with pytest.raises(fd.FusedslError):
                traced(function, values)
            continue
        np.testing.assert_array_equal(traced(function, values), np.asarray(wanted), strict=True)
    assert 10 < refused < 125


def test_subscripts_may_be_lists_of_numbers():
    torch = pytest.importorskip("torch")
    for home, of in ((np, np.asarray), (torch, torch.from_numpy)):
        x, y, s = map(of, (X, Y, S))
        for function in (
            lambda: home.einsum(x, [0, 1], y, [1, 2], [0, 2]),  # noqa: B023
            lambda: home.einsum(x, [..., 1], y, [1, 0]),  # noqa: B023
            lambda: home.einsum(s, [3, 3]),  # noqa: B023
        ):
            np.testing.assert_array_equal(traced(function, []), np.asarray(function()), strict=True)


# ---- diagonals and traces


@pytest.mark.parametrize("offset", [0, 1, -2, 9])
def test_diagonals_and_traces_mean_what_numpy_says(offset):
    for name, array in (("x", X), ("t", T)):
        found = evaluate(f"diagonal({name}, {offset}), trace({name}, {offset}, -1, 0)", **{name: array})
        np.testing.assert_array_equal(found[0], np.diagonal(array, offset), strict=True)
        np.testing.assert_array_equal(found[1], np.trace(array, offset, -1, 0), strict=True)
    assert evaluate("trace(x)", x=np.eye(3, dtype=np.int8)).dtype == np.int64


def test_one_trace_serves_every_shape():
    kernel = fd.fuse(lambda x: (np.diagonal(x, 1), np.trace(x), np.diag(x[0])))
    for rows, columns in ((2, 4), (3, 3), (5, 7)):
        x = whole(rows, columns)
        for found, wanted in zip(kernel(x), (np.diagonal(x, 1), np.trace(x), np.diag(x[0]))):
            np.testing.assert_array_equal(found, wanted)
    assert len(kernel._traces) == 1 and len(next(iter(kernel._traces.values()))) == 1
