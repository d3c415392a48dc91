"""What the examples share: their arguments, the array library of a device, and the printed comparison."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def arguments(about: str | None, size: int) -> argparse.Namespace:
    """--device (cpu or cuda) and --size (rows of 1024 columns, so that --size 65536 fills a GPU)."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", type=int, default=size, help=f"rows of 1024 columns ({size})")
    return parser.parse_args()


def library(device: str) -> Any:
    """NumPy, or CuPy for cuda."""
    if device == "cpu":
        return np
    import cupy

    return cupy


def normal(xp: Any, *shape: int, seed: int = 0) -> Any:
    """Random normal numbers in float32."""
    return xp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def compare(title: str, fused: Any, unfused: Callable, arrays: Sequence[Any], exact: Callable | None = None) -> None:
    """Run both, hold both to float64 (`exact`, or the unfused twin in float64), and print what each costs."""
    wide = [x.astype(np.float64) if hasattr(x, "astype") else x for x in arrays]
    right = _results((exact or unfused)(*wide))
    plan = fused.explain(*arrays)
    print(title)
    print(f"{'':10}{'time':>12}{'kernels':>10}{'bytes moved':>14}{'max error':>12}")
    for name, call, kernels, size in (
        ("fused", fused, len(plan.kernels), plan.bytes),
        ("unfused", unfused, plan.before.kernels, plan.before.bytes),
    ):
        error = max(_error(a, b) for a, b in zip(_results(call(*arrays)), right))
        print(f"{name:10}{_milliseconds(call, arrays):9.2f} ms{kernels:10}{size / 1e6:11.1f} MB{error:12.1e}")
    print()


def _results(value: Any) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def _error(given: Any, right: Any) -> float:
    """The largest error as a share of the largest value."""
    return float(abs(given.astype(np.float64) - right).max() / abs(right).max())


def _milliseconds(call: Callable, arrays: Sequence[Any]) -> float:
    """The median of seven calls after two to warm up, each until the device is done."""
    times = []
    for _ in range(9):
        begun = time.perf_counter()
        first = _results(call(*arrays))[0]
        if not isinstance(first, np.ndarray):
            first.device.synchronize()
        times.append(1e3 * (time.perf_counter() - begun))
    return statistics.median(times[2:])
