"""What a process keeps: so many programs and kernels, so many megabytes of files, and nothing of what is forgotten."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import weakref

import numpy as np
import pytest

import fusedsl as fd
from fusedsl import evaluation
from fusedsl.lru import LRU
from fusedsl.runtime import cache, compile, native

X = np.ones(10, np.float32)


def test_what_was_used_last_is_kept():
    kept: LRU[str, int] = LRU(lambda: 2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    kept.put("c", 3)
    assert (kept.get("b"), kept.get("a"), kept.get("c"), len(kept)) == (None, 1, 3, 2)
    kept.clear()
    assert len(kept) == 0


def test_a_kernel_takes_its_machine_code_with_it():
    gc.collect()
    gc.disable()
    try:
        before = len(native._loaded)
        kernel = fd.kernel("x * 7.0625 - 2.03125")
        for _ in range(3):
            kernel(X)
        bound, program = kernel.bind(X), weakref.ref(kernel._program)
        assert len(native._loaded) == before + 1
        compile._built.clear()
        del kernel
        assert program() is None, "freed without a collection"
        assert bound().tolist() == (X * np.float32(7.0625) - np.float32(2.03125)).tolist()
        del bound
        assert len(native._loaded) == before
    finally:
        gc.enable()


def test_clear_cache_forgets_programs_and_kernels():
    kernel = fd.kernel("x * 5.25")
    kernel(X)
    fd.evaluate("x * 5.25", x=X)
    assert evaluation.remembered.cache_info().currsize
    fd.clear_cache()
    assert not evaluation.remembered.cache_info().currsize and not len(compile._built)
    assert kernel(X)[0] == fd.evaluate("x * 5.25", x=X)[0] == 5.25


CODE = """
import gc, sys
import numpy as np, fusedsl as fd

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

x = np.ones(100, np.float32)
count = 40
for k in range(count):
    fd.evaluate(f"x * {k}.25 + {k}", x=x)
gc.collect()
before = resident()
for k in range(3 * count):
    fd.evaluate(f"x * {k}.75 + {k}", x=x)
gc.collect()
print(resident() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
def test_new_texts_for_ever_take_no_memory_for_ever(tmp_path):
    """Each takes some 190 kB as long as it is kept: 120 of them 23 MB."""
    environment = os.environ | {"FUSEDSL_CACHE_DIR": str(tmp_path / "cache"), "FUSEDSL_CACHE_SIZE": "16"}
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environment)
    assert float(ran.stdout) < 6


def test_the_folder_keeps_what_was_used_last(tmp_path, monkeypatch):
    monkeypatch.setenv("FUSEDSL_CACHE_MB", "1")
    monkeypatch.setattr(cache, "SWEEP", 8)
    own = cache.Cache(tmp_path / "files")
    keys = [f"{k:064x}" for k in range(40)]
    for age, key in enumerate(keys):
        own.put(key, {}, bytes(50_000))
        old = time.time() - 10 * cache.DAY + age
        os.utime(own._path(key), (old, old))
        assert own.get(keys[0]) is not None  # used daily
    left = {entry.key for entry in own.list()}
    assert keys[0] in left and keys[-1] in left and keys[1] not in left
    assert sum(entry.size for entry in own.list()) < 1_500_000


def test_a_use_is_noted_once_a_day(tmp_path):
    own = cache.Cache(tmp_path / "files")
    key = "0" * 64
    own.put(key, {})
    for age, noted in ((0.5, False), (2.0, True)):
        then = time.time() - age * cache.DAY
        os.utime(own._path(key), (then, then))
        own.get(key)
        assert (time.time() - own._path(key).stat().st_mtime < 60) is noted
