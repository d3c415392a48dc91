"""A pytest plugin that runs tests marked `gpu` on an emulated one, with CuPy's stand-in for torch's CUDA tensors.

`PYTHONPATH=tests python -m pytest -p ptx.plugin tests/test_x.py`: for sweeps by hand, since milliseconds of a GPU are
seconds here. PTX_CC=8.0 asks for another architecture, PTX_ALL=1 for the tests that are not marked too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from . import emulated_gpu


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Where tests ask whether there is a GPU, there is one; only those that are marked stay."""
    targets = sys.modules.get("test_targets")
    if targets is not None:  # other tests hold the function itself
        targets.as_torch.__code__ = targets.as_cupy.__code__
    with emulated_gpu():
        yield
    if not os.environ.get("PTX_ALL"):
        items[:] = [item for item in items if item.get_closest_marker("gpu")]


@pytest.fixture(autouse=True)
def gpu() -> Iterator[object]:
    """The device of one test."""
    cc = os.environ.get("PTX_CC", "9.0").split(".")
    with emulated_gpu(cc=(int(cc[0]), int(cc[1]))) as found:
        yield found
