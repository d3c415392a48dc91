"""What is computed of one byte is looked up in a table of 256 entries: the bits are those of the computed chain."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime import compile as compiling
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

GAMMA = "uint8(255 * (u / 255.0) ** 0.45)"
RANDOM = np.random.default_rng(5)
BYTES = np.concatenate([np.arange(256), RANDOM.integers(0, 256, 4177)]).astype(np.uint8)
CHAINS = {
    "gamma": (GAMMA, {"u": BYTES}),
    "signed": ("tanh(exp(float32(u) * 0.01)) * 3", {"u": BYTES.view(np.int8)}),
    "bool": ("exp(float64(u)) + lgamma(float64(u) + 3)", {"u": BYTES > 100}),
    "float8": ("sin(cos(float32(u)))", {"u": BYTES.view(ml_dtypes.float8_e4m3fn)}),
    "an argument": ("uint8(255 * (u / 255.0) ** g) + uint8(1)", {"u": BYTES, "g": 0.7}),
    "two bytes": ("sin(cos(float32(u))) * cos(sin(float32(v))) - x", {"u": BYTES, "v": BYTES[::-1].copy(), "x": BYTES}),
    "a condition": ("where(sin(cos(float32(u))) > 0.9, x, -x)", {"u": BYTES, "x": np.arange(BYTES.size, dtype="f4")}),
    "rows of pixels": (GAMMA, {"u": BYTES[: 4400 // 12 * 12].reshape(-1, 4, 3)[:, :3]}),
    "turned": ("sin(cos(float32(u))).T + x", {"u": BYTES[:4096].reshape(64, 64), "x": np.ones((64, 64), np.float32)}),
    "rows": ("sum(sin(cos(float32(u))), -1)", {"u": BYTES[:4400].reshape(2, 2200)}),
    "looped rows": ("u * 1.0 / sum(sin(cos(float32(u))), -1, keepdims=True)", {"u": BYTES[:4400].reshape(2, 2200)}),
    "one sum": ("sum(sin(cos(float32(u)))), max(tan(sin(float32(u))))", {"u": BYTES}),
    "columns": ("sum(sin(cos(float32(u))), 0)", {"u": BYTES[:4400].reshape(110, 40)}),
    "narrow results": ("float16(sin(cos(float32(u)))), bfloat16(x)", {"u": BYTES, "x": BYTES}),
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


@pytest.mark.parametrize("name", CHAINS)
def test_a_table_has_the_bits_of_the_chain(name, monkeypatch):
    text, arrays = CHAINS[name]
    made, source = run(text, arrays)
    assert "look_up" in source
    monkeypatch.setattr(compiling, "with_byte_tables", lambda kernel, hardware: kernel)
    computed, plain = run(text, arrays)
    assert "look_up" not in plain
    assert all(a.tobytes() == b.tobytes() for a, b in zip(made, computed))


@pytest.mark.parametrize("text", ["u * 2 + 1", "float32(u) * 0.5", "exp(x * float32(u))"])
def test_short_chains_and_those_of_other_values_are_computed(text):
    source = fd.kernel(text).source(**dict.fromkeys(fd.kernel(text).params, fd.spec(4096, "uint8")), device="cuda")
    assert "look_up" not in source
