"""Runs code where nothing is installed that compiles: an import of it fails, however it is asked for."""

from __future__ import annotations

import os
import subprocess
import sys

import fusedsl as fd

COMPILERS = ("numba", "numba_cuda", "llvmlite", "lark")
BLOCKED = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {COMPILERS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
START = """
import numpy as np
import fusedsl as fd

kernel = fd.load(sys.argv[1])
rows = int(sys.argv[2])
x = np.random.default_rng(0).standard_normal((rows, 40), dtype=np.float32)
"""


def saved(path, text="return softmax(x * s, axis=-1), sum(x)", cc="cpu", **options):
    """The kernel of a text, saved."""
    kernel = fd.kernel(text, **options)
    values = {"x": fd.spec((64, 40), "float32"), "s": 2.5}
    kernel.save(path, **{name: values[name] for name in kernel.params}, cc=cc)
    return kernel


def alone(tmp_path, path, code: str, rows: int = 30, check: bool = True) -> subprocess.CompletedProcess:
    """What a process prints that loads a file as `kernel`, with a cold cache."""
    environment = os.environ | {"FUSEDSL_CACHE_DIR": str(tmp_path / "cold")}
    command = [sys.executable, "-W", "error", "-c", BLOCKED + START + code, str(path), str(rows)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert not check or told.returncode == 0, told.stderr
    return told
