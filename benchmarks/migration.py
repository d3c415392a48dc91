"""The examples of the pages on numexpr, Numba and KeOps, in each library's own words and in fusedsl, on this processor.

    python benchmarks/migration.py [--json benchmarks/results/migration_cpu.json] [--quick]

The libraries run on as many threads as fusedsl. Results are compared before times are taken.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before any import: idle threads of one peer slow no other one

import numpy as np

import fusedsl as fd
from fusedsl.bench.record import Report, failed_row, times_row
from suite_cpu import times

# numexpr: the expressions of its README and user guide, and one of each kind that it is used for
NUMEXPR = {
    "polynomial": ("2*a + 3*b", "2*a + 3*b"),
    "comparison": ("a*b - 4.1*a > 2.5*b", "a*b - 4.1*a > 2.5*b"),
    "functions": ("sin(a) + arcsinh(a/b)", "sin(a) + arcsinh(a/b)"),
    "powers": ("0.25*a**3 + 0.75*a**2 - 1.5*a - 2", "0.25*a**3 + 0.75*a**2 - 1.5*a - 2"),
    "where": ("where(a > b, sqrt(a), log1p(b))", "where(a > b, sqrt(a), log1p(b))"),
    "fractional power": ("a**0.4545", "a**0.4545"),
    "sum": ("sum(a*b)", "sum(a*b)"),
}
NUMBA = {
    "logistic gradient": "x.mT @ ((1 / (1 + exp(-y * (x @ w))) - 1) * y)",
    "laplace step": "0.25 * (u[1:-1, 2:] + u[2:, 1:-1] + u[1:-1, :-2] + u[:-2, 1:-1])",
    "pairwise distance": "sqrt((p[:, :1] - p[:, 0])**2 + (p[:, 1:2] - p[:, 1])**2 + (p[:, 2:] - p[:, 2])**2)",
}
DISTANCES = "d = sum((x[:, None] - y) ** 2, -1)\n"
KEOPS = {
    "gaussian kernel sum": DISTANCES + "exp(-d / (2 * s * s)) @ b",
    "log-sum-exp": DISTANCES + "logsumexp(-d, -1)",
    "nearest neighbour": DISTANCES + "argmin(d, -1)",
}


def numexpr_cases(elements: int) -> dict[str, tuple[dict, Callable, dict[str, Callable]]]:
    """By name: the arrays, NumPy's function of them, and the peers' calls."""
    import numexpr

    numexpr.set_num_threads(fd.get_num_threads())
    draw = np.random.default_rng(0)
    given = {name: draw.uniform(0.1, 10, elements) for name in "ab"}
    scope = {name: getattr(np, name) for name in ("sin", "arcsinh", "where", "sqrt", "log1p", "sum")}
    found = {}
    for name, (theirs, ours) in NUMEXPR.items():
        code, kernel = compile(theirs, name, "eval"), fd.kernel(ours)
        found[name] = (
            given,
            lambda code=code: eval(code, {**scope, **given}),
            {
                "fusedsl": lambda kernel=kernel: kernel(**{p: given[p] for p in kernel.params}),
                "numexpr": lambda theirs=theirs: numexpr.evaluate(theirs, given),
            },
        )
    return found


def numba_cases(elements: int) -> dict[str, tuple[dict, Callable, dict[str, Callable]]]:
    """As numexpr_cases."""
    import numba
    from numba import njit, prange

    numba.set_num_threads(min(fd.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
    draw = np.random.default_rng(0)
    side, rows, points = int(elements**0.5), elements // 10, int((elements / 4) ** 0.5)
    u, p = draw.random((side, side)), draw.random((points, 3))
    x, w = draw.standard_normal((rows, 10)), draw.standard_normal(10)
    y = np.sign(draw.standard_normal(rows))

    @njit(parallel=True)
    def logistic(x, y, w):  # the example of Numba's documentation of parallel=True
        return np.dot(((1.0 / (1.0 + np.exp(-y * np.dot(x, w))) - 1.0) * y), x)

    @njit(parallel=True)
    def laplace(u):
        result = np.empty((u.shape[0] - 2, u.shape[1] - 2))
        for i in prange(result.shape[0]):
            for j in range(result.shape[1]):
                result[i, j] = 0.25 * (u[i + 1, j + 2] + u[i + 2, j + 1] + u[i + 1, j] + u[i, j + 1])
        return result

    @njit(parallel=True)
    def pairwise(p):
        n = p.shape[0]
        result = np.empty((n, n))
        for i in prange(n):
            for j in range(n):
                d = 0.0
                for k in range(p.shape[1]):
                    d += (p[i, k] - p[j, k]) ** 2
                result[i, j] = np.sqrt(d)
        return result

    arrays = {"logistic gradient": {"x": x, "y": y, "w": w}, "laplace step": {"u": u}, "pairwise distance": {"p": p}}
    compiled = dict(zip(NUMBA, (logistic, laplace, pairwise)))
    plain = dict(zip(NUMBA, (f.py_func for f in (logistic, laplace, pairwise))))
    plain["laplace step"] = lambda u: 0.25 * (u[1:-1, 2:] + u[2:, 1:-1] + u[1:-1, :-2] + u[:-2, 1:-1])
    plain["pairwise distance"] = lambda p: np.sqrt(((p[:, None] - p) ** 2).sum(-1))
    found = {}
    for name, text in NUMBA.items():
        given, kernel = arrays[name], fd.kernel(text)
        found[name] = (
            given,
            lambda name=name, given=given: plain[name](**given),
            {
                "fusedsl": lambda kernel=kernel, given=given: kernel(**given),
                "numba": lambda name=name, given=given: compiled[name](**given),
            },
        )
    return found


def keops_cases(elements: int) -> dict[str, tuple[dict, Callable, dict[str, Callable]]]:
    """As numexpr_cases."""
    from pykeops.numpy import LazyTensor

    draw, points, s = np.random.default_rng(0), int(elements**0.5), 0.3
    x, y, b = draw.random((points, 3)), draw.random((points, 3)), draw.random((points, 1))

    def lazy():
        return ((LazyTensor(x[:, None, :]) - LazyTensor(y[None, :, :])) ** 2).sum(-1)

    def squares():
        return ((x[:, None] - y) ** 2).sum(-1)

    def log_sum(d):
        least = d.min(-1, keepdims=True)
        return np.log(np.exp(least - d).sum(-1)) - least[:, 0]

    theirs = {
        "gaussian kernel sum": lambda: (-lazy() / (2 * s**2)).exp() @ b,
        "log-sum-exp": lambda: (-lazy()).logsumexp(dim=1)[:, 0],
        "nearest neighbour": lambda: lazy().argmin(dim=1)[:, 0],
    }
    plain = {
        "gaussian kernel sum": lambda: np.exp(-squares() / (2 * s**2)) @ b,
        "log-sum-exp": lambda: log_sum(squares()),
        "nearest neighbour": lambda: squares().argmin(-1),
    }
    found, arrays = {}, {"x": x, "y": y, "b": b, "s": s}
    for name, text in KEOPS.items():
        kernel = fd.kernel(text)
        given = {p: arrays[p] for p in kernel.params}
        ours = lambda kernel=kernel, given=given: kernel(**given)  # noqa: E731
        found[name] = (given, plain[name], {"fusedsl": ours, "pykeops": theirs[name]})
    return found


def measure(report: Report, suite: str, cases: dict[str, tuple[dict, Callable, dict]], repetitions: int) -> None:
    """A row for each peer of each case, and for NumPy."""
    for name, (given, plain, calls) in cases.items():
        calls = {**calls, "numpy": plain}
        first = next(iter(given.values()))
        case = (suite, name, "x".join(map(str, first.shape)), "float64")
        facts = (sum(np.asarray(a).nbytes for a in given.values()), 0)
        right, errors = np.asarray(plain(), np.float64), {}
        for peer, call in list(calls.items()):
            try:
                errors[peer] = float(np.max(np.abs(np.asarray(call(), np.float64) - right)) / np.max(np.abs(right)))
            except Exception as fault:  # a peer's failure is a result, whatever its type
                report.add(failed_row(case, peer, facts, fault))
                del calls[peer]
        found = times(calls, repetitions)
        for peer in calls:
            report.add(times_row(case, peer, found[peer], facts, None, errors[peer]))
        told = ", ".join(f"{peer} {sorted(t)[len(t) // 2] / 1e3:.2f} ms" for peer, t in found.items())
        print(f"{suite}: {name}: {told}", flush=True)


def main(arguments: list[str] | None = None) -> Any:
    """Measure all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="small arrays, few calls")
    chosen = parser.parse_args(arguments)
    elements, repetitions = (10_000, 3) if chosen.quick else (5_000_000, 25)
    report = Report(chosen.json)
    measure(report, "from numexpr", numexpr_cases(elements), repetitions)
    measure(report, "from numba", numba_cases(elements), repetitions)
    measure(report, "from keops", keops_cases(elements), repetitions)
    return report


if __name__ == "__main__":
    main()
