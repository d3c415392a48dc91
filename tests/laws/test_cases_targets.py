"""A hashed twentieth of CuPy's fusion tests, compiled on each target, with NumPy as the oracle."""

from __future__ import annotations

import collections
import hashlib

import numpy as np
import pytest
from test_cases_interpreter import ABSENT, cases, differs, numpy_says, text_of
from test_targets import TARGETS

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

SHARE = 1 / 20
PARTS = 6


def chosen(body, dtypes, k: int) -> bool:
    """Whether this run belongs to the share, always the same for the same run."""
    digest = hashlib.sha256(f"{body}|{sorted(dtypes.items())}|{k}".encode()).digest()
    return int.from_bytes(digest[:8], "little") < SHARE * 2**64


def programs(part: int):
    """(text, arrays by name, NumPy's answer) of a part's runs that are one expression and that NumPy accepts."""
    for k, (expression, body, args, dtypes, inputs) in enumerate(cases()):
        if expression in (None, "()", "(x,)") or any(f"{name}(" in expression for name in ABSENT):
            continue
        if k % PARTS == part and chosen(body, dtypes, k):
            wanted, _ = numpy_says(body, args, dtypes, inputs)
            if not isinstance(wanted, Exception):
                yield text_of(expression, dtypes), dict(zip(args, inputs)), wanted


@pytest.mark.sampled(3)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("target", TARGETS)
def test_a_twentieth_of_the_cases_compiled(target, part):
    """Every answer has NumPy's dtype and value. Refused are only texts that the language has no form for."""
    count, wrong = collections.Counter(), []
    for text, given, wanted in programs(part):
        there = {n: target(v) if isinstance(v, np.ndarray) and v.shape else v for n, v in given.items()}
        try:
            made = fd.evaluate(text, there, fallback=False)
        except (fd.ParseError, fd.UnknownNameError, fd.DTypeError) as error:
            count[type(error).__name__] += 1
            continue
        made = tuple(map(to_host, made)) if isinstance(made, tuple) else to_host(made)
        how = differs(made, wanted)
        count["different" if how else "equal"] += 1
        if how:
            wrong.append((text, how, given))
    assert not wrong, f"{len(wrong)} wrong, first: {wrong[0]}"
    assert count["equal"] > 700 // PARTS, count
