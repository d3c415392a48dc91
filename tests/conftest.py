"""What all tests share: a cache folder of their own, and a printed reason where a GPU test is skipped."""

from __future__ import annotations

import importlib.util
import os
import tempfile

import pytest

# every run draws the same examples: what is drawn anew is for benchmarks/random_expressions.py
if importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import settings

    settings.register_profile("repeatable", derandomize=True, database=None)
    settings.load_profile("repeatable")

os.environ.setdefault("FUSEDSL_CACHE_DIR", tempfile.mkdtemp(prefix="fusedsl-tests-"))


def _missing() -> str | None:
    """Why the tests marked `gpu` cannot run here, or None."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed"
    from fusedsl.runtime.driver import cuda_available

    return None if cuda_available() else "there is no NVIDIA GPU"


def pytest_collection_modifyitems(items):
    reason = _missing() if any(i.get_closest_marker("gpu") for i in items) else None
    if reason:
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=reason))
