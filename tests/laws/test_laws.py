"""Every law of numbers, on the interpreter and compiled, many to a kernel."""

from __future__ import annotations

import re

import numpy as np
import pytest
from oracle import evaluate
from test_targets import TARGETS

import fusedsl as fd
from fusedsl.ir.law import Law
from fusedsl.ir.laws import ELEMENTWISE, FOLDS, LAWS, READS
from fusedsl.runtime.array_copies import to_host


def array(column) -> np.ndarray:
    return np.array(column[1], column[0])


def same(found, law: Law) -> bool:
    """Equal in dtype, value and the sign of zeros."""
    wanted = array(law.wanted).reshape(np.shape(found))
    if found.dtype != wanted.dtype:
        return False
    equal = np.array_equal(found, wanted, equal_nan=wanted.dtype.kind == "f")
    signs = wanted.dtype.kind != "f" or (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()
    return bool(equal and signs)


def together(laws) -> tuple[str, dict[str, np.ndarray]]:
    """One text of all the laws, and its arrays: those of a dtype are the rows of one, so that one kernel serves all."""
    rows: dict[str, list] = {}
    texts = []
    for law in laws:
        names = {}
        for name, (dtype, values) in zip("xyz", law.given):
            names[name] = f"rows_{dtype}[{len(rows.setdefault(dtype, []))}]"
            rows[dtype].append(values)
        texts.append(re.sub(r"\b[xyz]\b", lambda found, names=names: names[found[0]], law.text))
    rows = {dtype: [*found, found[0]] for dtype, found in rows.items()}  # more than one, or the axis would be 1
    arrays = {f"rows_{dtype}": np.array(found, dtype) for dtype, found in rows.items()}
    alike = " + ".join(f"int8({name}[0])" for name in arrays)  # one extent for the axes of all
    return f"alike = {alike}\nreturn {', '.join(texts)}", arrays


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.says)
def test_the_interpreter_keeps_the_law(law):
    found = evaluate(law.text, **dict(zip("xyz", map(array, law.given))))
    assert same(found, law), f"{law.text} = {found!r}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("laws", (ELEMENTWISE, READS, FOLDS), ids=("elementwise", "reads", "folds"))
def test_compiled_code_keeps_the_laws(laws, target):
    text, arrays = together(laws)
    results = fd.evaluate(text, {name: target(x) for name, x in arrays.items()}, fallback=False)
    broken = [f"{law.says}: {law.text} = {found!r}" for law, found in zip(laws, map(to_host, results))
              if not same(found, law)]  # fmt: skip
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("laws", (ELEMENTWISE, READS, FOLDS), ids=("elementwise", "reads", "folds"))
def test_cuda_kernels_keep_the_laws(laws):
    """Compiled, and run by the interpreter of PTX."""
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    text, arrays = together(laws)
    with emulated_gpu() as gpu:
        results = fd.evaluate(text, {name: gpu.asarray(x) for name, x in arrays.items()}, fallback=False)
        broken = [law.says for law, found in zip(laws, results) if not same(found.get(), law)]
    assert not broken, broken


def test_every_law_is_one():
    assert len({law.says for law in LAWS}) == len(LAWS) > 40
