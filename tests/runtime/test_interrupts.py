"""Ctrl-C while a kernel is compiled: the wait ends at once, the compilation goes on, and later calls are served."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextvars import ContextVar

import pytest

from fusedsl.runtime import background
from fusedsl.runtime.background import run_in_background

NEEDS_SIGNALS = pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to its own process, which POSIX has")

CODE = """
import logging, os, signal, threading, time
import numpy as np, fusedsl as fd

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
sent = []

class Interrupt(logging.Handler):  # soon after the compilation began: while Numba is imported, the first time
    def emit(self, record):
        if not sent and record.getMessage().startswith("compiling"):
            sent.append(time.perf_counter() + 0.2)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

logging.getLogger("fusedsl").addHandler(Interrupt())
logging.getLogger("fusedsl").setLevel(logging.INFO)
kernel, x = fd.kernel("softmax(x) * 2.375"), np.ones((3, 4))
try:
    kernel(x)
except KeyboardInterrupt:
    print(time.perf_counter() - sent[0])
print(kernel(x)[0, 0])
"""


@NEEDS_SIGNALS
def test_control_c_during_a_compilation_is_quick_and_harmless(tmp_path):
    environment = os.environ | {"FUSEDSL_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-W", "error", "-c", CODE], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    seconds, value = map(float, ran.stdout.split())
    assert seconds < 0.5 and value == pytest.approx(2.375 / 4)


@NEEDS_SIGNALS
def test_a_process_ends_in_order_while_it_compiles(tmp_path):
    environment = os.environ | {"FUSEDSL_CACHE_DIR": str(tmp_path)}
    code = CODE.replace("except KeyboardInterrupt:", "except ZeroDivisionError:")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert ran.returncode in (1, 130, -signal.SIGINT) and ran.stderr.rstrip().endswith("KeyboardInterrupt"), ran.stderr


class Interrupted(Exception):
    pass


@NEEDS_SIGNALS
def test_a_second_call_takes_the_result_of_the_one_that_goes_on():
    may_end, calls = threading.Event(), []

    def work():
        calls.append(threading.current_thread())
        may_end.wait(10)
        return 7

    def interrupt(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        start = time.perf_counter()
        with pytest.raises(Interrupted):
            run_in_background("one", work)
        assert time.perf_counter() - start < 1
        threading.Timer(0.05, may_end.set).start()
        assert run_in_background("one", work) == 7 and len(calls) == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        may_end.set()
    assert run_in_background("one", lambda: 8) == 8 and not background._running


def test_work_has_the_callers_context_and_its_exceptions_are_the_callers():
    setting: ContextVar[int] = ContextVar("setting", default=0)
    setting.set(3)
    assert run_in_background("two", setting.get) == 3
    with pytest.raises(ZeroDivisionError):
        run_in_background("three", lambda: 1 // 0)
    assert not background._running


def test_other_threads_work_themselves():
    found = []
    thread = threading.Thread(target=lambda: found.append(run_in_background("four", threading.current_thread)))
    thread.start()
    thread.join()
    assert found == [thread]
