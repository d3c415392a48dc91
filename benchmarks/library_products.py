"""Products by cuBLAS on a card, through a kernel and through torch: time on the GPU, on the host, and the error.

`python benchmarks/library_products.py` prints a JSON line for each product.
"""

from __future__ import annotations

import json
import time

import torch

import fusedsl as fd
from fusedsl.runtime.cublas import cublas_of
from fusedsl.runtime.cublas_launch import CublasLaunch

SHAPES = (
    ("bfloat16", (4096, 4096), (4096, 4096)),
    ("bfloat16", (16, 4096), (4096, 14336)),
    ("float16", (64, 1024, 64), (64, 64, 1024)),
    ("float32", (2048, 2048), (2048, 2048)),
    ("float64", (1024, 1024), (1024, 1024)),
    ("bfloat16", (256, 256), (256, 256)),
)
REPETITIONS = 50


def main() -> None:
    """Measure every product."""
    print(json.dumps({"card": torch.cuda.get_device_name(), "torch": torch.__version__, "cublas": _found()}))
    for dtype, left, right in SHAPES:
        x, w = (torch.randn(shape, device="cuda").to(getattr(torch, dtype)) for shape in (left, right))
        kernel = fd.kernel("x @ w", matmul="library")
        out = torch.matmul(x, w)
        bound = kernel.bind(x, w, out=out)
        row = {"dtype": dtype, "left": left, "right": right, "error": _error(kernel(x, w), x, w)}
        fires = {
            "kernel": lambda: kernel(x, w, out=out),  # noqa: B023
            "bound": bound,
            "torch": lambda: torch.matmul(x, w, out=out),  # noqa: B023
        }
        for name, fire in fires.items():
            row[f"{name} gpu us"], row[f"{name} host us"] = _gpu(fire), _host(fire)
        (call, *_) = kernel._program._calls.values()
        row["by cublas"] = all(isinstance(record, CublasLaunch) for record in call.records)
        print(json.dumps(row), flush=True)


def _found() -> bool:
    return cublas_of("torch") is not None


def _error(y: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> float:
    exact = x.double() @ w.double()
    return float((y.double() - exact).abs().max() / exact.abs().max())


def _gpu(fire) -> float:
    """Microseconds between events, of which one is recorded before the launches; the best of several batches."""
    times = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        fire()
        torch.cuda._sleep(2_000_000)  # the host gets ahead
        begin.record()
        for _ in range(REPETITIONS):
            fire()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / REPETITIONS)
    return round(min(times), 2)


def _host(fire) -> float:
    """Microseconds that a call takes on the host."""
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(20):
            fire()
        times.append((time.perf_counter() - start) / 20 * 1e6)
    torch.cuda.synchronize()
    return round(min(times), 2)


if __name__ == "__main__":
    main()
