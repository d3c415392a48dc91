"""The tables agree: every operation has a meaning, a line in every body, and a word on both targets."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_targets import check

import fusedsl as fd
from fusedsl.ir.ops import OPS
from fusedsl.kernel_ir.instruction import FORMS

WORD = re.compile(r"([A-Za-z_]\w*)\(")


def words() -> set[str]:
    """Every function that a body may call."""
    forms = {op: row for op, row in FORMS.items() if op in OPS}
    found = {name for name in OPS if name not in forms}
    for row in forms.values():
        for line in row.values():
            found |= set(WORD.findall(line.replace("{t}", "int32").replace("{op}", "")))
    found |= {op for op, row in forms.items() if any("{op}" in line for line in row.values())}
    casts = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    renamed = {"left_shift", "right_shift", "bitwise_invert"}
    return (
        found | {f"saturate_{c}" for c in casts} | {"bool_", "float16_round", "bfloat16_round", "float64"}
    ) - renamed


def test_the_cpu_knows_every_word():
    from fusedsl.backends.cpu.vocabulary import shared_words

    assert words() <= set(shared_words()) | {"int32"}


def test_cuda_knows_every_word():
    pytest.importorskip("numba.cuda.core", reason="numba-cuda is not installed")
    from fusedsl.backends.cuda.compiler.namespace import namespace

    assert words() <= set(namespace())


def samples(dtype: str) -> dict:
    random = np.random.default_rng(3)
    if dtype == "bool":
        return {name: random.random(67) < 0.5 for name in "abc"}
    if dtype.startswith("float"):
        return {name: (random.standard_normal(67) * 3).astype(dtype) for name in "abc"}
    low = 0 if dtype.startswith("u") else -50
    return {name: random.integers(low, 100, 67).astype(dtype) for name in "abc"}


@pytest.mark.parametrize(
    "dtype", ("bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64")
)
def test_every_operation_on_every_dtype(dtype):
    """All operations that take the dtype, many to a kernel."""
    given = samples(dtype) | {"m": samples("bool")["a"], "e": samples("int8")["a"].astype(np.int32) % 8}
    texts = []
    for name, op in OPS.items():
        if op.internal:
            continue
        args = {"where": "m, a, b", "ldexp": "a, e"}.get(name) or ", ".join("abc"[: op.arity])
        text = f"{name}({args})"
        try:
            fd.kernel(text).explain(*(given[p] for p in fd.kernel(text).params))
        except fd.DTypeError:
            continue
        texts.append(text)
    assert len(texts) > 30
    for k in range(0, len(texts), 12):
        check(", ".join(texts[k : k + 12]), given, lambda x: x)
