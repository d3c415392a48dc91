"""What the gallery's scripts share: two sizes, the comparison with an unfused twin, and the look of the pictures."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

LARGE = "--large" in sys.argv or os.environ.get("GALLERY_SIZE") == "large"
INK = "#858d96"  # legible on white and on black, as the background of a picture is transparent
BLUE, ORANGE, GREEN, RED, VIOLET = COLOURS = ("#3b82c4", "#d9822b", "#3f9e6b", "#cf5757", "#8d6cc0")

matplotlib.rcParams.update(
    {
        "figure.figsize": (7.2, 4.0),
        "figure.dpi": 100,
        "figure.facecolor": "none",
        "savefig.transparent": True,
        "axes.facecolor": "none",
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "axes.titlesize": 10,
        "axes.labelsize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "grid.color": INK,
        "grid.alpha": 0.25,
    }
)


def pick(small: int, large: int) -> int:
    """The small size, which runs in a moment, or the large one, at which times mean something.

    The large one is chosen by `--large`, or by GALLERY_SIZE=large in the environment.
    """
    return large if LARGE else small


def compare(title: str, fused: Any, unfused: Callable, arguments: Sequence[Any], tolerance: float) -> None:
    """Hold the fused results to those of the unfused twin, and print the kernels, bytes and time of both.

    `tolerance` is the largest difference allowed, as a share of the largest value.
    """
    difference = largest_difference(fused(*arguments), unfused(*arguments))
    plan = fused.explain(*arguments)
    once, unfused_time = interleaved(fused, unfused, arguments)
    print(title)
    print(f"{'':9}{'kernels':>8}{'moved':>12}{'time':>12}")
    for name, kernels, size, seconds in (
        ("fused", len(plan.kernels), plan.bytes, once),
        ("unfused", plan.before.kernels, plan.before.bytes, unfused_time),
    ):
        print(f"{name:9}{kernels:8}{size / 1e6:9.2f} MB{1e3 * seconds:9.2f} ms")
    print(f"{unfused_time / once:.1f} times as fast; results differ by {difference:.1e} at most\n")
    assert difference <= tolerance, f"{title}: the results differ by {difference:.1e}, more than {tolerance:.0e}"


def largest_difference(found: Any, expected: Any) -> float:
    """Between corresponding results, as a share of the largest expected value."""
    pairs = list(zip(results(found), results(expected), strict=True))
    return max(float(np.abs(np.subtract(a, b, dtype=float)).max() / np.abs(b).max()) for a, b in pairs)


def results(value: Any) -> tuple:
    """The arrays of a result, those of nested tuples and lists one after another."""
    return tuple(x for part in value for x in results(part)) if isinstance(value, (tuple, list)) else (value,)


def interleaved(fused: Callable, unfused: Callable, arguments: Sequence[Any], rounds: int = 7) -> list[float]:
    """The median seconds of a call of each, in turns, so that a busy moment of the machine meets both."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, kept in zip((fused, unfused), times):
            begun = time.perf_counter()
            call(*arguments)
            kept.append(time.perf_counter() - begun)
    return [statistics.median(kept) for kept in times]


def show(figure: Figure, name: str) -> None:
    """Display the picture in a notebook or a window; with `--pictures FOLDER`, write it to a file instead."""
    if "--pictures" in sys.argv:
        folder = Path(sys.argv[sys.argv.index("--pictures") + 1])
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / f"{name}.png")
    else:
        matplotlib.pyplot.show()
