"""Functions under `fuse` reach other processes as their undecorated functions would: by name, or by value."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fusedsl as fd

ROOT = Path(__file__).parents[2]


@fd.fuse(max_kernels=3)
def doubled(x):
    return x * 2


def test_what_a_module_holds_is_pickled_by_name():
    cloudpickle = pytest.importorskip("cloudpickle")
    for pickler in (pickle, cloudpickle):
        assert pickler.loads(pickler.dumps(doubled)) is doubled
    assert copy.deepcopy(doubled) is doubled
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(fd.fuse(lambda x: x))


def test_cloudpickle_takes_what_nobody_can_import_by_value():
    cloudpickle = pytest.importorskip("cloudpickle")

    def made(factor):
        return fd.fuse(lambda x: x * factor, max_kernels=2)

    again = cloudpickle.loads(cloudpickle.dumps(made(3)))
    assert again(np.ones(2)).tolist() == [3, 3] and again.options.max_kernels == 2
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        again = cloudpickle.loads(cloudpickle.dumps(doubled))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert again is not doubled and again(np.ones(2)).tolist() == [2, 2] and again.options.max_kernels == 3


SCRIPT = """
import joblib, numpy as np, fusedsl as fd

@fd.fuse
def doubled(x):
    return x * 2

@fd.fuse
def power(x, n):
    return x if n == 0 else power(x, n - 1) * 2


def around(x):
    return doubled(x) + 1

parallel = joblib.Parallel(2, backend="loky")
for f, args in ((doubled, ()), (around, ()), (power, (3,)), (fd.kernel("x * 2"), ()), (fd.fuse(lambda x: -x), ())):
    print([y.tolist() for y in parallel(joblib.delayed(f)(np.ones(2) * k, *args) for k in (1, 2))])
"""


def test_functions_of_a_script_reach_the_workers_of_joblib(tmp_path):
    pytest.importorskip("joblib")
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    ran = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert ran.stdout.splitlines() == [
        "[[2.0, 2.0], [4.0, 4.0]]",
        "[[3.0, 3.0], [5.0, 5.0]]",
        "[[8.0, 8.0], [16.0, 16.0]]",
        "[[2.0, 2.0], [4.0, 4.0]]",
        "[[-1.0, -1.0], [-2.0, -2.0]]",
    ], ran.stderr
