"""Threads of the CPU: how many there are, and how a call that is interrupted ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime import object_loader, row_sort, thread_pool, work_sharing


@pytest.fixture
def threads():
    """The number of threads, which is what it was afterwards."""
    before = fd.get_num_threads()
    yield
    fd.set_num_threads(before)


def test_the_number_of_threads_is_chosen_and_told(threads, monkeypatch):
    x, kernel = np.arange(3_000_000.0), fd.kernel("sqrt(x) + 1")
    wanted = np.sqrt(x) + 1
    for count in (1, 3, 2):
        fd.set_num_threads(count)
        assert fd.get_num_threads() == count
        for _ in range(3):
            assert np.array_equal(kernel(x), wanted)
        assert thread_pool._pool is None or thread_pool._pool.threads == count
    for bad in (0, -1, 2.5, True, None, "2", 1 << 20):
        with pytest.raises(fd.ArgumentError, match="no number of threads"):
            fd.set_num_threads(bad)


def test_calls_that_were_prepared_for_one_thread_use_those_of_another_number(threads):
    fd.set_num_threads(1)
    x, kernel = np.ones(2_000_000), fd.kernel("x * 2")
    lists = [np.ones(1_000_000)] * 2
    for _ in range(3):
        kernel(x)
        fd.foreach("x * 2", lists)
    fd.set_num_threads(2)
    assert kernel(x)[-1] == 2 and fd.foreach("x * 2", lists)[1][-1] == 2
    assert thread_pool._pool.threads == 2


def test_threads_that_are_not_needed_any_more_end(threads):
    def ours():
        return sum(thread.name == "fusedsl" for thread in threading.enumerate())

    x = np.ones(3_000_000)
    fd.set_num_threads(4)
    fd.evaluate("x + 1", x=x)
    assert ours() >= 3
    fd.set_num_threads(1)
    deadline = time.time() + 5
    while ours() and time.time() < deadline:
        time.sleep(0.01)
    assert not ours()


# ---- pieces


def pieces(count, grain, seconds, threads=1):
    """The lengths of the pieces of a job, which take so long (as a function of their length)."""
    clock, found = [0.0], []

    def compute(slots, begin, end):
        clock[0] += seconds(end - begin)
        found.append(end - begin)

    job = thread_pool.Job(compute, 0, count, grain, -(-count // (thread_pool.PIECES_PER_THREAD * threads)))
    now = thread_pool.perf_counter
    thread_pool.perf_counter = lambda: clock[0]
    try:
        job.run()
    finally:
        thread_pool.perf_counter = now
    assert sum(found) == count
    return found


def test_short_work_is_cut_into_few_pieces_and_long_work_into_short_ones():
    assert len(pieces(200, 4, lambda n: n * 1e-6)) == 8
    assert len(pieces(100_000, 4, lambda n: n * 1e-6)) < 20
    slow = pieces(100_000, 4, lambda n: n * 2e-3)
    assert max(slow[3:]) * 2e-3 <= thread_pool.LONG and max(slow) <= thread_pool.FIRST_PIECE_GRAINS * 4
    assert set(pieces(10, 1, lambda n: 5.0)[1:]) == {1}


# ---- interrupts


class Interrupted(Exception):
    pass


def interrupt(number, frame):
    raise Interrupted


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.parametrize("count", [1, 2])
def test_a_long_call_is_interrupted_within_a_second(threads, count):
    """Each of these takes minutes."""
    fd.set_num_threads(count)
    x = np.ones(300_000)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for text in ("sum(sin(x[:, None] * x))", "sum(exp(x[:, None] * x), 1)"):
            kernel = fd.kernel(text).compile(x)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            start = time.perf_counter()
            with pytest.raises(Interrupted):
                kernel(x)
            assert time.perf_counter() - start < 1.5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert fd.evaluate("sum(x)", x=x) == 300_000


CODE = """
import signal
import numpy as np, fusedsl as fd
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
x = np.ones(300_000)
kernel = fd.kernel("sum(sin(x[:, None] * x))").compile(x)
print("computing", flush=True)
kernel(x)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_control_c_ends_a_long_call():
    process = subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "computing\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    start = time.perf_counter()
    _, told = process.communicate(timeout=60)
    assert time.perf_counter() - start < 2 and told.rstrip().endswith("KeyboardInterrupt")


# ---- units that machine code shares


def test_shared_units_are_each_computed_once(threads):
    fd.set_num_threads(7)
    x = np.arange(5_000_000, dtype=np.float32)
    kernel, out = fd.kernel("x + 1"), np.zeros_like(x)
    for _ in range(20):
        out[:] = np.nan
        kernel(x, out=out)
        assert np.array_equal(out, x + 1)


def test_closed_work_leaves_its_units():
    done = np.zeros(100, np.int64)

    @object_loader.PROTOTYPE
    def count(slots, begin, end):
        done[begin:end] += 1

    assert work_sharing.can_share(count) and not work_sharing.can_share(len)
    whole, closed = (work_sharing.SharedUnits(count, 0, 100, 7) for _ in range(2))
    workers = [threading.Thread(target=whole.take) for _ in range(5)]
    [each.start() for each in workers]
    [each.join() for each in workers]
    assert (done == 1).all()
    closed.close()
    closed.take()
    assert (done == 1).all()


def test_without_a_compiler_pieces_are_taken_in_python(threads, monkeypatch):
    fd.set_num_threads(3)
    monkeypatch.setattr(work_sharing, "shared_loop", lambda: None)
    x = np.arange(5_000_000, dtype=np.float32)
    assert np.array_equal(fd.evaluate("x + 2", x=x), x + 2)


def test_what_a_thread_raises_is_raised_by_the_call_and_the_thread_stays(threads, monkeypatch):
    fd.set_num_threads(3)
    x, kernel, order = np.random.default_rng(0).random((64, 20_000)), fd.kernel("sort(x)"), row_sort.order
    reached = threading.Event()

    def fail(rows, descending):
        if threading.current_thread() is not threading.main_thread():
            reached.set()
            raise MemoryError
        assert reached.wait(10)
        order(rows, descending)

    kernel(x)
    there = {t for t in threading.enumerate() if t.name == "fusedsl"}
    monkeypatch.setattr(row_sort, "order", fail)
    with pytest.raises(MemoryError):
        kernel(x)
    monkeypatch.setattr(row_sort, "order", order)
    assert np.array_equal(kernel(x), np.sort(x)) and all(t.is_alive() for t in there)


def test_threads_share_work_where_nothing_compiles_for_them(threads, monkeypatch):
    fd.set_num_threads(3)
    x, kernel = np.arange(5_000_000, dtype=np.float32), fd.kernel("x + 2")
    assert np.array_equal(kernel(x), x + 2)
    work_sharing.shared_loop.cache_clear()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "fusedsl.backends.cpu.target_machine", None)
        assert np.array_equal(kernel(x), x + 2) and work_sharing.shared_loop() is None
    work_sharing.shared_loop.cache_clear()
