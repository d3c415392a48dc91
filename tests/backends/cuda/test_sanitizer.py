"""NVIDIA's compute-sanitizer on passes over scores: nothing out of bounds, no race in shared memory, and right values.

`python tests/backends/cuda/test_sanitizer.py` runs what is watched: small shapes of every variant, in each kernel
that there is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (ROOT, ROOT / "tests", ROOT / "tests" / "attention")
TOOLS = {"memcheck": ("--leak-check", "no"), "racecheck": ("--racecheck-report", "all"), "synccheck": ()}
# (the kernel's file, dtype, (rows, keys), (width, width of values))
WAYS = [
    ("attend", "float16", (200, 304), (64, 64)),
    ("attend", "bfloat16", (130, 260), (128, 72)),
    ("attend", "float16", (130, 208), (256, 256)),
    ("warps", "bfloat16", (100, 140), (64, 48)),
    ("warps", "float32", (70, 100), (37, 21)),
]


@pytest.mark.gpu
@pytest.mark.parametrize("tool", TOOLS)
def test_variants_of_attention_are_clean(tool):
    check_clean(tool, __file__)


def check_clean(tool: str, file: str) -> None:
    """No error and no hazard in what a file launches when it is run."""
    found = shutil.which("compute-sanitizer", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
    if found is None:
        pytest.skip("compute-sanitizer is not installed")
    command = [found, "--tool", tool, *TOOLS[tool], "--error-exitcode", "9", sys.executable, file]
    paths = os.pathsep.join(filter(None, [*map(str, FOLDERS), os.environ.get("PYTHONPATH")]))
    told = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert told.returncode == 0, (told.stdout + told.stderr)[-6000:]
    assert "launched" in told.stdout
    assert re.search(r"SUMMARY: 0 (errors|hazards)", told.stdout), told.stdout[-2000:]


def watched() -> None:
    """Run every variant once, each array in memory of its own."""
    import cupy
    import test_decode
    import test_ragged
    from test_cuda_attention import FORMULAS, given
    from test_mma_attention import check

    import fusedsl as fd
    from fusedsl.backends.cuda.attention import schedule

    cupy.cuda.set_allocator(None)
    ways, launched = schedule.SCHEDULERS, 0

    def run(text, arrays):
        kernel = fd.kernel(text, fallback=False)
        found = kernel(*(cupy.asarray(arrays[name]) for name in kernel.params))
        check(kernel, arrays, [cupy.asnumpy(x) for x in (found if isinstance(found, tuple) else (found,))])

    for file, dtype, (n, m), (width, out) in WAYS:
        schedule.SCHEDULERS = tuple(way for way in ways if way.__module__.endswith(f".{file}"))
        for text in FORMULAS.values():
            run(text, given(n, m, width=width, out=out, dtype=np.dtype(dtype).type))
            launched += 1
    schedule.SCHEDULERS = ways
    for text, sizes, dtype in test_decode.CASES.values():
        run(text, test_decode.arrays(*sizes, dtype))
        launched += 1
    for case in test_ragged.CASES:
        text, arrays = test_ragged.given(case, np.dtype(np.float16))
        kernel = fd.kernel(text, fallback=False)
        found = kernel(*(cupy.asarray(arrays[name]) for name in kernel.params))
        test_ragged.agrees(case, arrays, [cupy.asnumpy(x) for x in found])
        launched += 1
    print(launched, "launched")


if __name__ == "__main__":
    watched()
