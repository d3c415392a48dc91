"""What is computed of one byte is looked up in a table of 256 entries: the bits are those of the computed chain."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cuda import schedule
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

GAMMA = "uint8(255 * (u / 255.0) ** 0.45)"
CURVE, CURVE_V, CURVE_W = (f"tanh(exp({x} * 0.01))" for x in ("float32(u)", "float32(v)", "(float32(u) + 1)"))
RANDOM = np.random.default_rng(5)
BYTES = np.concatenate([np.arange(256), RANDOM.integers(0, 256, 2177)]).astype(np.uint8)
CHAINS = {
    "gamma": (GAMMA, {"u": BYTES}),
    "signed": (f"{CURVE} * 3", {"u": BYTES.view(np.int8)}),
    "bool": ("exp(float64(u)) + lgamma(float64(u) + 3)", {"u": BYTES > 100}),
    "float8": (f"{CURVE}", {"u": BYTES.view(ml_dtypes.float8_e4m3fn)}),
    "an argument": ("uint8(255 * (u / 255.0) ** g) + uint8(1)", {"u": BYTES, "g": 0.7}),
    "two bytes": (f"{CURVE} * {CURVE_V} - x", {"u": BYTES, "v": BYTES[::-1].copy(), "x": BYTES}),
    "a condition": (f"where({CURVE} > 0.9, x, -x)", {"u": BYTES, "x": np.arange(BYTES.size, dtype="f4")}),
    "rows of pixels": (GAMMA, {"u": BYTES[:2400].reshape(-1, 4, 3)[:, :3]}),
    "turned": (f"{CURVE}.T + x", {"u": BYTES[:2304].reshape(48, 48), "x": np.ones((48, 48), np.float32)}),
    "rows": (f"sum({CURVE}, -1)", {"u": np.resize(BYTES, (2, 2200))}),
    "looped rows": (f"u * 1.0 / sum({CURVE}, -1, keepdims=True)", {"u": np.resize(BYTES, (2, 2200))}),
    "one sum": (f"sum({CURVE}), max({CURVE_W})", {"u": BYTES}),
    "columns": (f"sum({CURVE}, 0)", {"u": np.resize(BYTES, (110, 40))}),
    "narrow results": (f"float16({CURVE}), bfloat16(x)", {"u": BYTES, "x": BYTES}),
}  # fmt: skip


def run(text, arrays):
    """(results, sources) of a kernel on an emulated GPU."""
    with emulated_gpu(tails=False, multiprocessors=4) as gpu:
        kernel = fd.kernel(text, fallback=False)
        given = [arrays[name] for name in kernel.params]
        there = [gpu.asarray(x) if isinstance(x, np.ndarray) else x for x in given]
        source = str(kernel.source(*there))
        made = kernel(*there)
        return [to_host(x) for x in (made if isinstance(made, tuple) else (made,))], source


SLOW = ("rows", "one sum", "columns")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CHAINS])
def test_a_table_has_the_bits_of_the_chain(name, monkeypatch):
    text, arrays = CHAINS[name]
    made, source = run(text, arrays)
    assert "look_up" in source
    monkeypatch.setattr(schedule, "with_byte_tables", lambda kernel, hardware: kernel)
    computed, plain = run(text, arrays)
    assert "look_up" not in plain
    assert all(a.tobytes() == b.tobytes() for a, b in zip(made, computed))


@pytest.mark.parametrize("text", ["u * 2 + 1", "float32(u) * 0.5", "exp(x * float32(u))"])
def test_short_chains_and_those_of_other_values_are_computed(text):
    source = fd.kernel(text).source(**dict.fromkeys(fd.kernel(text).params, fd.spec(4096, "uint8")), device="cuda")
    assert "look_up" not in source
