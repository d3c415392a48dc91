"""Searches for cyclic garbage while calls are planned: none, and afterwards as before, in whichever threads."""

from __future__ import annotations

import gc
import os
import threading

import pytest
from threads import at_once

from fusedsl import garbage
from fusedsl.garbage import no_collection


@pytest.fixture(autouse=True)
def enabled():
    gc.enable()
    yield
    gc.enable()


@pytest.mark.parametrize("before", [True, False])
def test_the_state_is_that_of_before(before):
    (gc.enable if before else gc.disable)()
    with pytest.raises(ZeroDivisionError), no_collection():
        with no_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled() is before


def test_a_thread_that_begins_as_another_ends_does_not_leave_it_off(monkeypatch):
    read, leave = threading.Event(), threading.Event()
    isenabled = gc.isenabled

    def slow():
        state = isenabled()
        read.set()
        leave.wait(0.2)  # the other thread has left by then, unless it waits for this one
        return state

    with no_collection():
        monkeypatch.setattr(garbage.gc, "isenabled", slow)
        other = threading.Thread(target=_once)
        other.start()
        read.wait(0.2)
    leave.set()
    other.join()
    assert isenabled()


def _once(_=None):
    with no_collection():
        pass


def _without_collection():
    """A thread in which there is no collection until an event is set; and two events: it is there, and it may leave."""
    inside, left = threading.Event(), threading.Event()

    def longer():
        with no_collection():
            inside.set()
            left.wait()

    return threading.Thread(target=longer), inside, left


def test_the_last_of_several_threads_restores_the_state():
    other, inside, left = _without_collection()
    with no_collection():
        other.start()
        inside.wait()
    assert not gc.isenabled()
    left.set()
    other.join()
    assert gc.isenabled()
    at_once(_once, range(20))
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_waits_for_no_thread_of_its_parent():
    other, inside, left = _without_collection()
    other.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        restored = gc.isenabled()
        with no_collection():
            restored &= not gc.isenabled()
        os._exit(0 if restored and gc.isenabled() else 1)
    left.set()
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
