"""Ctrl-C while a kernel is compiled, or computes for long: the wait ends at once, and later calls are served."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextvars import ContextVar

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime import blas_launch, interruptible_calls, interruptible_compile, launch, thread_pool
from fusedsl.runtime.interruptible_calls import is_abandoned, run_interruptibly
from fusedsl.runtime.interruptible_compile import run_in_background

NEEDS_SIGNALS = pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to its own process, which POSIX has")

CODE = """
import logging, os, signal, threading, time
import numpy as np, fusedsl as fd

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
sent = []

class Interrupt(logging.Handler):  # soon after the compilation began: while LLVM optimises one of the kernels
    def emit(self, record):
        if not sent and record.getMessage().startswith("compiling"):
            sent.append(time.perf_counter() + 0.2)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

logging.getLogger("fusedsl").addHandler(Interrupt())
logging.getLogger("fusedsl").setLevel(logging.INFO)
kernel, x = fd.kernel("y = softmax(x)" + "; y = softmax(softmax(y, 0) + exp(y))" * 12 + "; y * 2.375"), np.ones((3, 4))
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
    assert run_in_background("one", lambda: 8) == 8 and not interruptible_compile._running


def test_work_has_the_callers_context_and_its_exceptions_are_the_callers():
    setting: ContextVar[int] = ContextVar("setting", default=0)
    setting.set(3)
    assert run_in_background("two", setting.get) == 3
    with pytest.raises(ZeroDivisionError):
        run_in_background("three", lambda: 1 // 0)
    assert not interruptible_compile._running


def test_other_threads_work_themselves():
    found = []
    thread = threading.Thread(target=lambda: found.append(run_in_background("four", threading.current_thread)))
    thread.start()
    thread.join()
    assert found == [thread]


def test_an_interrupt_while_work_is_handed_out_waits_for_the_threads_that_have_begun(monkeypatch):
    """Their slots are the caller's, who is about to free them."""
    ended, begun = [], threading.Event()

    def function(slots, first, last):
        begun.set()
        time.sleep(0.1)
        ended.append(last)

    workers = thread_pool.Pool(4)
    queue = workers.queue

    class Interrupting:
        get = queue.get

        def put(self, job):
            queue.put(job)
            begun.wait(10)
            raise Interrupted

    workers.queue = Interrupting()
    try:
        with pytest.raises(Interrupted):
            workers.run(function, 0, 10_000, 1)
        assert len(ended) == 1  # that of the thread that had taken the job
    finally:
        workers.queue = queue
        workers.close()


def test_a_second_interrupt_waits_too():
    job, interrupts = thread_pool.Job(lambda *given: time.sleep(0.1), 0, 3, 1, 1), []

    class Queue(thread_pool.SimpleQueue):
        def get(self, *given):
            if len(interrupts) < 2:
                interrupts.append(None)
                raise Interrupted
            return super().get(*given)

    job.ended = Queue()
    thread = threading.Thread(target=job.work)
    thread.start()
    while not job.started:
        time.sleep(0.001)
    with pytest.raises(Interrupted):
        job.join()
    assert len(job.faults) == 1 and len(interrupts) == 2
    thread.join()


# -- calls with long pieces

LONG_CALL = """
import os, signal, sys, threading, time
import numpy as np, fusedsl as fd
from fusedsl.runtime import launch

signal.signal(signal.SIGINT, signal.default_int_handler)
kernel = fd.kernel("sort(x)")
kernel.compile(fd.spec((1, 100)), device="cpu")

def interrupted(**out):
    rows = [np.random.default_rng(0).random((1, int(sys.argv[1])), np.float32)]
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.perf_counter()
    try:
        kernel(rows.pop(), **out)  # which nothing else refers to
    except KeyboardInterrupt:
        return time.perf_counter() - start - 0.2

y = np.zeros((1, int(sys.argv[1])), np.float32)
seconds = interrupted(), interrupted(out=y)
print(*seconds, y.any(), *kernel(np.float32([[2, 3, 1]]))[0])
"""


@NEEDS_SIGNALS
def test_control_c_during_a_long_row_is_quick_and_harmless():
    """The process also ends in order while the rows are sorted on."""
    given = [sys.executable, "-W", "error", "-c", LONG_CALL, str(60_000_000)]
    ran = subprocess.run(given, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    *seconds, written, a, b, c = ran.stdout.split()
    assert max(map(float, seconds)) < 1 and (written, a, b, c) == ("False", "1.0", "2.0", "3.0")


@pytest.fixture
def all_calls_are_long(monkeypatch):
    monkeypatch.setattr(launch, "LONG_PIECE", -1.0)
    monkeypatch.setattr(blas_launch, "LONG", -1)
    fd.clear_cache()
    yield
    fd.clear_cache()


def test_long_calls_write_what_others_write(all_calls_are_long, monkeypatch):
    started = []
    monkeypatch.setattr(interruptible_calls, "LongCall", type("Counted", (interruptible_calls.LongCall,), {
        "start": lambda self: (started.append(self), threading.Thread.start(self))[1]
    }))  # fmt: skip
    x = np.random.default_rng(1).random((5, 6))
    kernel = fd.kernel("s = x + 1; return s * 2, sum(s, -1), s.T @ x")
    for _ in range(3):
        outs = np.empty((5, 6)), np.empty(7)[1:6], np.empty((6, 12))[:, ::2]  # the last one has gaps
        for given in (None, outs, (outs[0], None, None)):
            results = kernel(x, out=given)
            for result, expected in zip(results, (2 * (x + 1), (x + 1).sum(-1), (x + 1).T @ x)):
                np.testing.assert_allclose(result, expected)
            assert given is None or all(r is o for r, o in zip(results, given) if o is not None)
    assert len(started) == 9
    y = x.copy()
    known_by_protocol = type("Exported", (), {
        "__dlpack__": lambda self, **options: y.__dlpack__(**options), "__dlpack_device__": y.__dlpack_device__
    })()  # fmt: skip
    fd.evaluate("x + 1", x=x, out=known_by_protocol)
    np.testing.assert_allclose(y, x + 1)
    y[...] = x
    for k in range(1, 4):
        assert fd.evaluate("y + 1", y=y, out=y) is y
        np.testing.assert_allclose(y, x + k)


def test_an_abandoned_call_ends_after_its_piece_and_leaves_outputs_alone(all_calls_are_long, monkeypatch):
    inside, may_end, threads = threading.Event(), threading.Event(), []

    def wait_there(self):
        inside.wait(10)
        raise Interrupted

    fired = launch.HostLaunchRecord.fire

    def slow(record, payloads, stream=0):
        threads.append(threading.current_thread())
        inside.set()
        may_end.wait(10)
        fired(record, payloads, stream)

    kernel, x, y = fd.kernel("a = cumsum(x); return sum(a * a)", fallback=False), np.ones(4), np.zeros(())
    kernel(x)
    (prepared,) = kernel._program._calls.values()
    prepared.launches = tuple(lambda p, s, r=r: slow(r, p, s) for r in prepared.records)
    with monkeypatch.context() as patch:
        patch.setattr(interruptible_calls.LongCall, "wait", wait_there)
        with pytest.raises(Interrupted):
            kernel(x)
    del x
    assert is_abandoned(threads[0]) and any("payloads" in kept for kept in threads[0].owners)
    may_end.set()
    threads[0].join(10)
    assert not threads[0].is_alive() and not y and len(threads) == 1
    assert kernel(np.ones(4)) == 30


@pytest.mark.parametrize("out", [np.zeros((6, 12))[:, ::2], np.zeros((6, 6))[::-1].T, np.zeros((12, 6))[::-2, ::-1]])
def test_outputs_of_any_strides_are_written_once_a_long_call_is_complete(all_calls_are_long, monkeypatch, out):
    x = np.random.default_rng(2).random((6, 6))
    kernel, around = fd.kernel("cumsum(x * 2, 0)"), np.array(out.base)
    with monkeypatch.context() as patch:
        patch.setattr(interruptible_calls.LongCall, "wait", _interrupted)
        with pytest.raises(Interrupted):
            kernel(x, out=out)
    np.testing.assert_array_equal(out.base, around)
    assert kernel(x, out=out) is out
    np.testing.assert_allclose(out, np.cumsum(x * 2, 0))
    assert np.count_nonzero(out.base) == out.size  # its gaps are as they were


def _interrupted(self):
    raise Interrupted


def test_bound_calls_and_those_over_lists_are_interrupted_as_others_are(all_calls_are_long, monkeypatch):
    x, y, step = np.arange(4.0), np.zeros(4), fd.kernel("cumsum(x) * k")
    bound = step.bind(x, 3, out=y)
    lists, outs = [np.ones(3), np.ones(5)], [np.zeros(3), np.zeros(10)[::2]]
    fd.foreach(step, lists, 1)  # the calls are prepared
    with monkeypatch.context() as patch:
        patch.setattr(interruptible_calls.LongCall, "wait", _interrupted)
        for call in (bound, lambda: fd.foreach(step, lists, 2), lambda: fd.foreach(step, lists, 2, out=outs)):
            with pytest.raises(Interrupted):
                call()
    assert not y.any() and not outs[0].any() and not outs[1].any()
    assert bound() is y and y.tolist() == [0, 3, 9, 18]
    x[0] = 1
    assert bound().tolist() == [3, 6, 12, 21]
    fd.foreach(step, lists, 2, out=outs)
    assert [out.tolist() for out in outs] == [[2, 4, 6], [2, 4, 6, 8, 10]]
    with pytest.raises(fd.DTypeError):
        fd.kernel("cummax(x) + k").bind(np.ones(4, np.int8), 1000)


def test_every_kernel_that_nothing_interrupts_has_an_estimate_of_its_time():
    kernel = fd.kernel("scatter_add(10, i, x), sort(x)", fallback=False)
    kernel(i=np.arange(6), x=np.ones(6))
    (prepared,) = kernel._program._calls.values()
    seconds = [r.work.unit_seconds for r in prepared.records]
    assert len(seconds) >= 2 and all(each > 0 for each in seconds)


def test_long_calls_raise_what_their_work_raises_and_other_threads_work_themselves():
    with pytest.raises(ZeroDivisionError):
        run_interruptibly(lambda: 1 // 0)
    found = []
    thread = threading.Thread(target=lambda: run_interruptibly(lambda: found.append(threading.current_thread())))
    thread.start()
    thread.join()
    assert found == [thread]
