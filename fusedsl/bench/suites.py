"""The suites of `bench`: which workloads, at which sizes on a CPU and on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import ArgumentError, suggest
from .workloads import BY_NAME, Workload

COLUMNS = 1024
SUITES = {
    "elementwise": ("axpy", "gelu", "swiglu", "chain10", "black_scholes"),
    "rows": ("softmax", "log_softmax", "layer_norm", "rms_norm", "add_layer_norm"),
    "reductions": ("squared_error", "logsumexp", "column_variance"),
    "products": ("linear_gelu",),
    "attention": ("attention",),
}
QUICK = ("gelu", "black_scholes", "softmax", "add_layer_norm", "squared_error", "linear_gelu", "attention")

ELEMENTS = {  # of each array: powers of two
    ("cpu", "quick"): (12, 16, 20, 22),
    ("cpu", "full"): (10, 12, 14, 16, 18, 20, 22, 24),
    ("cuda", "quick"): (14, 18, 22, 25),
    ("cuda", "full"): (12, 14, 16, 18, 20, 22, 24, 26),
}
ROWS = {  # of a matrix product with columns x columns
    ("cpu", "quick"): (16, 128, 1024),
    ("cpu", "full"): (1, 16, 64, 256, 1024, 4096),
    ("cuda", "quick"): (64, 512, 4096),
    ("cuda", "full"): (1, 16, 64, 256, 1024, 4096, 8192),
}
PRODUCT_COLUMNS = {"cpu": 512, "cuda": 4096}
TOKENS = {  # of attention with 8 heads of 64
    ("cpu", "quick"): (64, 256, 1024),
    ("cpu", "full"): (64, 128, 256, 512, 1024, 2048),
    ("cuda", "quick"): (256, 1024, 4096),
    ("cuda", "full"): (128, 256, 512, 1024, 2048, 4096, 8192),
}


@dataclass(frozen=True)
class BenchmarkCase:
    """A workload at one size."""

    suite: str
    workload: Workload
    shape: tuple[int, int]


def cases(suites: Sequence[str], target: str, elements: Sequence[int] = ()) -> list[BenchmarkCase]:
    """The cases of the suites, "quick" or "all", on "cpu" or "cuda"; `elements` replaces the sizes of arrays."""
    unknown = [name for name in suites if name not in ("quick", "all", *SUITES)]
    if unknown:
        known = ("quick", "all", *SUITES)
        near = suggest(unknown[0], known)
        help = f"did you mean {near}?" if near else f"the suites are {', '.join(known)}, or FILE.py:NAME"
        raise ArgumentError(f"no suite is called {unknown[0]!r}", "argument.suite", help=help)
    chosen: dict[tuple, BenchmarkCase] = {}
    for name in suites:
        for suite, workload in _chosen(name):
            for shape in _shapes(workload, target, "quick" if name == "quick" else "full", elements):
                chosen.setdefault((workload.name, shape), BenchmarkCase(suite, workload, shape))
    return list(chosen.values())


def _chosen(name: str) -> Iterator[tuple[str, Workload]]:
    for suite, workloads in SUITES.items():
        for workload in workloads:
            if name in ("all", suite) or (name == "quick" and workload in QUICK):
                yield suite, BY_NAME[workload]


def _shapes(workload: Workload, target: str, extent: str, elements: Sequence[int]) -> list[tuple[int, int]]:
    if workload.suite == "attention":
        return [(tokens, 64) for tokens in TOKENS[target, extent]]
    if workload.suite == "products":
        return [(rows, PRODUCT_COLUMNS[target]) for rows in ROWS[target, extent]]
    counts = elements or [1 << power for power in ELEMENTS[target, extent]]
    return [(max(1, count // COLUMNS), min(count, COLUMNS)) for count in counts]
