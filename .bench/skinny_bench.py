"""Times products with few rows against cuBLAS and against reading their arrays at copy speed: python .bench/skinny_bench.py.

JSON lines: µs medians, each call with a cold L2; `floor` is bytes at the speed of a large copy, `same` that of a copy of
as many bytes. `error` is the largest difference from torch's own result, over the largest result.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from statistics import median

sys.path[:0] = [str(Path(__file__).parents[1] / "benchmarks"), str(Path(__file__).parents[1])]
import tempfile

import torch

import fusedsl.backends.cuda.skinny.schedule as schedule

import fusedsl.backends.cuda.skinny.ring as ring

import fusedsl.backends.cuda.matmul.schedule as matmul

if os.environ.get("FIRST"):
    matmul.SCHEDULERS = (schedule.schedule_skinny, *matmul.SCHEDULERS)
    os.environ["FUSEDSL_CACHE_DIR"] = tempfile.mkdtemp()
for setting in filter(None, os.environ.get("SKINNY", "").split(",")):  # constants, as STAGES=6
    name, value = setting.split("=")
    setattr(schedule if name in vars(schedule) else ring, name, int(value) if value.isdigit() else value)
    os.environ["FUSEDSL_CACHE_DIR"] = tempfile.mkdtemp()
import fusedsl as fd
from gpu import Card

K, N = 4096, 14336


def draw(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)


def skinny(only):
    for rows in only:
        for k, n in ((K, N), (N, K)):
            x, w, v = draw(rows, k), draw(k, n), draw(n, k)
            size = 2 * (rows * k + k * n + rows * n)
            yield f"{rows}x{k}x{n} x @ w", "x @ w", (x, w), lambda x, w: x @ w, size
            yield f"{rows}x{k}x{n} x @ w.T", "x @ w.T", (x, v), lambda x, w: x @ w.T, size


def others():
    x, g, u = draw(16, K), draw(K, N), draw(K, N)
    silu = torch.nn.functional.silu
    yield (
        "16 SwiGLU", "silu(x @ g) * (x @ u)", (x, g, u), lambda x, g, u: silu(x @ g) * (x @ u),
        2 * (16 * K + 2 * K * N + 16 * N),
    )  # fmt: skip
    x, w, b, r = draw(16, K), draw(K, N), draw(N), draw(16, N)
    yield (
        "16 gelu bias residual", "gelu(x @ w + b) + r", (x, w, b, r),
        lambda x, w, b, r: torch.nn.functional.gelu(x @ w + b) + r, 2 * (16 * K + K * N + 33 * N),
    )  # fmt: skip
    x, w = draw(32768, 4096), draw(4096, 8)
    route = "topk(softmax(x @ w), 2)"
    yield "router", route, (x, w), lambda x, w: torch.topk(torch.softmax(x @ w, -1), 2), 2 * 32768 * 4096
    x, w = draw(4096, 64, 64), draw(4096, 64, 64)
    yield "4096x64x64x64 bf16", "x @ w", (x, w), torch.matmul, 2 * 3 * 4096 * 64 * 64
    x, w = draw(65536, 16, 16, dtype=torch.float32), draw(65536, 16, 16, dtype=torch.float32)
    yield "65536x16x16x16 f32", "x @ w", (x, w), torch.matmul, 4 * 3 * 65536 * 16 * 16
    for rows in (4, 16):
        x, w, v = (draw(*s, dtype=torch.float32) for s in ((rows, K), (K, N), (N, K)))
        yield f"{rows} f32 x @ w", "x @ w", (x, w), lambda x, w: x @ w, 4 * K * N
        yield f"{rows} f32 x @ w.T", "x @ w.T", (x, v), lambda x, w: x @ w.T, 4 * K * N


def main():
    only = [int(a) for a in sys.argv[1:] if a.isdigit()] or [1, 4, 16, 64]
    repetitions = int(os.environ.get("REPETITIONS", "25"))
    card = Card()
    large = 1 << 30
    rate = large / median(card.copy(large, "bfloat16", repetitions))  # bytes a µs
    print(json.dumps({"card": torch.cuda.get_device_name(), "copy GB/s": round(rate / 1e3)}), flush=True)
    for name, text, given, reference, size in [*skinny(only), *(others() if "others" in sys.argv else [])]:
        kernel = fd.kernel(text)
        line = {"case": name, "floor": round(size / rate, 1)}
        line["same"] = round(median(card.copy(size, "bfloat16", repetitions)), 1)
        try:
            found, wanted = kernel(*given), reference(*given)
            if isinstance(found, torch.Tensor):
                line["error"] = float((found.float() - wanted.float()).abs().max() / wanted.float().abs().max())
            line["ours"] = round(median(card.times(lambda: kernel(*given), repetitions)), 1)
            line["torch"] = round(median(card.times(lambda: reference(*given), repetitions)), 1)
            line["of floor"], line["of torch"] = (
                round(line["floor"] / line["ours"], 3),
                round(line["torch"] / line["ours"], 3),
            )
        except Exception as fault:
            line["fault"] = f"{type(fault).__name__}: {fault}"[:300]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
