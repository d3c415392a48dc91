"""What all tests share: a cache folder of their own, and at the end how many were skipped or left out, and why."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import tempfile
from collections import Counter

import pytest

# every run draws the same examples: what is drawn anew is for benchmarks/random_expressions.py
if importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import settings

    settings.register_profile("repeatable", derandomize=True, database=None)
    settings.load_profile("repeatable")

if "FUSEDSL_CACHE_DIR" not in os.environ:
    os.environ["FUSEDSL_CACHE_DIR"] = tempfile.mkdtemp(prefix="fusedsl-tests-")
    atexit.register(shutil.rmtree, os.environ["FUSEDSL_CACHE_DIR"], ignore_errors=True)

# every plan that is made is verified, and compared with its graph at small extents
os.environ.setdefault("FUSEDSL_VERIFY", "2")


def _missing() -> str | None:
    """Why the tests marked `gpu` cannot run here, or None."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed"
    from fusedsl.runtime.driver import cuda_available

    return None if cuda_available() else "there is no NVIDIA GPU"


@pytest.hookimpl(tryfirst=True)  # before -m reads the marks
def pytest_collection_modifyitems(items):
    leave_the_rest_to_the_slow_run(items)
    reason = _missing() if any(i.get_closest_marker("gpu") for i in items) else None
    if reason:
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=reason))


def leave_the_rest_to_the_slow_run(items):
    """Of the cases of a function marked `sampled(n)` one in n is everyday, along diagonals of its parameters."""
    collected: Counter[tuple[str, str]] = Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is None or item.get_closest_marker("slow") is not None:
            continue
        one_in, function = sampled.args[0], (str(item.path), item.originalname)
        k = collected[function]
        collected[function] += 1
        if (k + k // one_in) % one_in:
            item.add_marker(pytest.mark.slow)


SLOW = pytest.StashKey[int]()  # how many slow tests are left out; the workers of xdist tell the process they work for


def pytest_deselected(items):
    slow = sum(item.get_closest_marker("slow") is not None for item in items)
    if slow:
        config = items[0].config
        config.stash[SLOW] = config.stash.get(SLOW, 0) + slow
        if hasattr(config, "workeroutput"):
            config.workeroutput["slow"] = config.stash[SLOW]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    node.config.stash[SLOW] = getattr(node, "workeroutput", {}).get("slow", 0)  # every worker leaves out the same


def pytest_terminal_summary(terminalreporter):
    """`N skipped: why`, a line for each reason, and how many slow tests are left out."""
    if slow := terminalreporter.config.stash.get(SLOW, 0):
        terminalreporter.write_line(f"{slow} deselected: they take minutes; -m slow runs them")
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(autouse=True)
def nothing_called():
    """As if the process had called nothing yet: the first lengths of every kernel have binaries of their own."""
    from fusedsl.runtime import specialization_quota

    specialization_quota.forget()


@pytest.fixture(autouse=True)
def vectors_of_any_machine(monkeypatch):
    """Who computes a product does not depend on the machine: BLAS has vectors as wide as the processor's."""
    from fusedsl.runtime import vector_units

    monkeypatch.setattr(vector_units, "vector_unit_bytes", lambda: 32)
    monkeypatch.setattr(vector_units, "blas_vector_bytes", lambda: 32)


@pytest.fixture(autouse=True)
def threads_of_the_environment():
    """A number of threads that a test or an example chose ends with it."""
    yield
    from fusedsl import config

    if config._chosen.get("FUSEDSL_NUM_THREADS") is not None:
        from fusedsl.runtime import thread_pool

        thread_pool.set_num_threads(None)
