"""Functions of trades are what NumPy computes: in float64, in float32, and for arguments of strange strides."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from trades import Trade
from trades_counts import COUNTS
from trades_further import FURTHER
from trades_odd import ODD
from trades_reports import REPORTS
from trades_sciences import SCIENCES
from trades_signals import SIGNALS

import fusedsl as fd

TRADES = [*SCIENCES, *SIGNALS, *COUNTS, *REPORTS, *ODD, *FURTHER]


def strange(x):
    """The array with strides that are negative and no multiple of its extents."""
    if not isinstance(x, np.ndarray) or not x.ndim or 0 in x.shape:
        return x
    whole = np.zeros([2 * n for n in x.shape[::-1]], x.dtype).T
    part = whole[(slice(None, None, -2),) * x.ndim]
    part[...] = x
    return part


def single(x):
    return x.astype(np.float32) if isinstance(x, np.ndarray) and x.dtype == np.float64 and x.ndim else x


def flat(x) -> list:
    return [np.asarray(y) for part in x for y in flat(part)] if isinstance(x, tuple) else [np.asarray(x)]


def given(trade: Trade, form) -> list:
    return [form(copy.deepcopy(x)) for x in trade.arguments]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", [copy.copy, strange, single], ids=["as they are", "strange strides", "float32"])
@pytest.mark.parametrize("trade", [pytest.param(t, id=t.function.__name__) for t in TRADES])
def test_a_function_of_a_trade(trade, form):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = flat(trade.function(*given(trade, form), **trade.named))
        found = flat(fd.fuse(trade.function, fallback=False)(*given(trade, form), **trade.named))
    assert [(x.dtype, x.shape) for x in found] == [(x.dtype, x.shape) for x in expected]
    for x, y in zip(found, expected, strict=True):
        if y.dtype == np.float32 or (form is single and y.dtype.kind == "f"):
            most = np.abs(y[np.isfinite(y)]).max(initial=1.0)
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5 * most)
        else:
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)
