"""`verify=True`: a kernel's results against the reference interpreter's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import FusedslError
from ..runtime.copies import to_host
from ..schedule.plan import Plan

# Relative to the largest magnitude of a result: far above rounding, far below a wrong formula.
TOLERANCE = {
    "float64": 1e-9,
    "float32": 2e-4,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float8_e4m3fn": 0.13,
    "float8_e5m2": 0.26,
}


def compare(plan: Plan, expected: Sequence[np.ndarray], results: Sequence[Any]) -> None:
    """FusedslError naming the first result that disagrees, and where."""
    for k, (want, made, t) in enumerate(zip(expected, results, plan.results)):
        got = np.asarray(to_host(made))
        got = got.view(want.dtype) if t.dtype.storage else got  # CuPy holds float8 as bytes
        want, got = np.asarray(want, _wide(want)), got.astype(_wide(want))
        with np.errstate(all="ignore"):
            finite = np.abs(want[np.isfinite(want)]) if want.dtype.kind == "f" else np.abs(want.astype(np.float64))
            bound = TOLERANCE.get(t.dtype.name, 0.0) * (finite.max() if finite.size else 0.0)
            agree = (want == got) | ((want != want) & (got != got))
            if want.dtype.kind == "f":
                agree |= np.abs(want - got) <= bound
        if not agree.all():
            place = tuple(int(i) for i in np.argwhere(~agree)[0])
            message = f"result {k} is {got[place]} at {place}, and the interpreter says {want[place]}"
            raise FusedslError(message, "verify", help="please report the text, the shapes and the dtypes")


def _wide(x: np.ndarray) -> Any:
    """Narrow floats compare as float32."""
    return np.float32 if x.dtype.itemsize <= 2 and x.dtype.kind not in "iub" else x.dtype
