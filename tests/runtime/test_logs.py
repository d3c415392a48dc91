"""What the logger `fusedsl` says: compilations, slow first calls; and Numba's loggers stay silent."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import fusedsl as fd
from fusedsl import logs
from fusedsl.program import first_call
from fusedsl.program.text_source import one_line
from fusedsl.runtime import cache, compile

CODE = """
import logging
logging.basicConfig(level=logging.DEBUG, format="%(name)s %(levelname)s %(message)s")
import numpy as np, fusedsl as fd
logging.getLogger("numba.core").setLevel(logging.INFO)
for _ in range(2):
    fd.evaluate("softmax(x) * 2.125", x=np.ones((3, 4)))
fd.kernel("exp(x)").resources(fd.spec(100), cc=90)
print(logging.getLogger("numba").level, logging.getLogger("numba.core").level)
"""


def test_a_service_that_logs_everything_sees_two_lines_a_kernel(tmp_path):
    environment = os.environ | {"FUSEDSL_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment, check=True)
    lines = [line for line in ran.stderr.splitlines() if "first call of" not in line]
    kernels = [r"row_max_sum\w+ for the CPU", "map_exp_0 for sm_90"]
    patterns = [f"fusedsl INFO {s}" for k in kernels for s in (f"compiling {k}", rf"compiled {k} in \d+\.\d\d s")]
    assert len(lines) == 4 and all(map(re.fullmatch, patterns, lines)), ran.stderr
    assert ran.stdout.split() == [str(logging.NOTSET), str(logging.INFO)]


@pytest.fixture
def slow(monkeypatch, tmp_path):
    """Preparing a call takes more than is silent."""
    own = cache.Cache(tmp_path / "cache")
    for module in (cache, compile):
        monkeypatch.setattr(module, "disk", lambda: own)
    real = first_call.prepare

    def prepare(*given):
        time.sleep(0.06)
        return real(*given)

    monkeypatch.setattr(first_call, "prepare", prepare)
    monkeypatch.setattr(logs, "LONG_SECONDS", 0.05)


def test_a_slow_first_call_logs_one_line(slow, caplog):
    kernel = fd.kernel("""
        a = x * 1.0625  # as it is
        return a + 1
    """)
    for _ in range(3):
        kernel(np.ones(3))
    told = [record for record in caplog.records if record.name == "fusedsl" and record.levelno >= logging.WARNING]
    assert len(told) == 1
    assert told[0].getMessage().startswith("first call of a = x * 1.0625; return a + 1: planned and compiled in ")


def test_a_slow_trace_counts(slow, monkeypatch, caplog):
    monkeypatch.setattr(logs, "LONG_SECONDS", 0.2)

    @fd.fuse
    def slowly(x):
        time.sleep(0.25)
        return x * 2

    for _ in range(3):
        slowly(np.ones(3))
    told = [record.getMessage() for record in caplog.records if "first call" in record.getMessage()]
    assert len(told) == 1 and "slowly: planned and compiled in" in told[0]


def test_long_work_is_no_slow_first_call(monkeypatch, caplog):
    kernel = fd.kernel("x * 3.0625")
    kernel(np.ones(4))
    monkeypatch.setattr(logs, "LONG_SECONDS", 0.3)
    real = fd.api.Kernel._run
    monkeypatch.setattr(fd.api.Kernel, "_run", lambda *given: (time.sleep(0.4), real(*given))[1])
    kernel(np.ones((4, 5)))
    assert not [record for record in caplog.records if "first call" in record.getMessage()]


def test_nothing_is_printed_where_nobody_logs():
    code = (
        "import fusedsl as fd, numpy as np; from fusedsl import logs; logs.LONG = 0; fd.evaluate('x*2', x=np.ones(3))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a = x*2\n  return a + 1, a", "a = x*2; return a + 1, a"),
        ("\n f(t) = t  # as it is\n\n f(\n   x\n )\n", "f(t) = t; f(x)"),
        ("x + " * 30 + "x", "x + x + x + x + x + x + x + x + x + x + x + x + x + x + x..."),
    ],
)
def test_a_program_on_one_line(text, shown):
    assert one_line(text) == shown
